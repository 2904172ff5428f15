"""Where in an object something is: `spec.tolerations[0].key`, `metadata.labels[a/b]`.

Validation walks objects with a path in hand and hands it to ``field_errors.py``. A path is written out only when
somebody asks for its text, since most of them never end up in an error; making one costs next to nothing.
"""

_new = object.__new__


class Path:
    """An immutable path to a field."""

    __slots__ = ("_parent", "_step")

    def __init__(self, name: str, *more: str) -> None:
        self._parent: Path | None = None
        self._step: str | int | tuple[str] = ".".join((name, *more)) if more else name

    def child(self, name: str, *more: str) -> "Path":
        """The path to a field below."""
        path = _new(Path)
        path._parent = self
        path._step = ".".join((name, *more)) if more else name
        return path

    def index(self, index: int) -> "Path":
        """The path to an item of this list."""
        path = _new(Path)
        path._parent = self
        path._step = index
        return path

    def key(self, key: str) -> "Path":
        """The path to an entry of this map, or to an item of a list whose items have names."""
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
