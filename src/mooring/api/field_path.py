"""Paths to fields of objects: `spec.tolerations[0].key`, `metadata.labels[a/b]`.

Validation passes paths to ``field_errors.py``. A path is formatted only on demand, because most never end up in an
error; creating one is cheap.
"""

_new = object.__new__


class Path:
    """An immutable path to a field."""

    __slots__ = ("_parent", "_step")

    def __init__(self, name: str, *more: str) -> None:
        self._parent: Path | None = None
        self._step: str | int | tuple[str] = ".".join((name, *more)) if more else name

    def child(self, name: str, *more: str) -> "Path":
        """Return the path to a field below."""
        path = _new(Path)
        path._parent = self
        path._step = ".".join((name, *more)) if more else name
        return path

    def index(self, index: int) -> "Path":
        """Return the path to an item of this list."""
        path = _new(Path)
        path._parent = self
        path._step = index
        return path

    def key(self, key: str) -> "Path":
        """Return the path to an entry of this map, or to an item of a list with named items."""
        path = _new(Path)
        path._parent = self
        path._step = (key,)
        return path

    def __str__(self) -> str:
        steps = []
        path: Path | None = self
        while path is not None:
            parent, step = path._parent, path._step
            if not isinstance(step, str):
                steps.append(f"[{step if isinstance(step, int) else step[0]}]")
            else:
                steps.append(step if parent is None else f".{step}")
            path = parent
        return "".join(reversed(steps))

    def __repr__(self) -> str:
        return f"Path({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Path) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))
