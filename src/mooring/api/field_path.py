"""Paths to fields of objects: `spec.tolerations[0].key`, `metadata.labels[a/b]`.

Validation passes paths to ``field_errors.py``. A path is formatted only on demand, because most never end up in an
error; creating one is cheap.
"""

import msgspec


class Path(msgspec.Struct, eq=False, gc=False):
    """The path to a field of an object: the last step, and the path to the field that contains it."""

    step: str | int | tuple[str]
    """A field name (or several with dots), the index of a list item, or the key of a map entry as a tuple."""
    parent: "Path | None" = None

    def child(self, name: str, *more: str) -> "Path":
        """Return the path to a field below."""
        return Path(".".join((name, *more)) if more else name, self)

    def index(self, index: int) -> "Path":
        """Return the path to an item of this list."""
        return Path(index, self)

    def key(self, key: str) -> "Path":
        """Return the path to an entry of this map, or to an item of a list with named items."""
        return Path((key,), self)

    def __str__(self) -> str:
        steps = []
        path: Path | None = self
        while path is not None:
            parent, step = path.parent, path.step
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
