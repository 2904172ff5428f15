"""Where in an object something is: `spec.tolerations[0].key`, `metadata.labels[a/b]`.

Validation walks objects with a path in hand and hands it to ``field_errors.py``. A path is written out only when
somebody asks for its text, since most of them never end up in an error.
"""


class Path:
    """An immutable path to a field."""

    __slots__ = ("_parent", "_step")

    def __init__(self, name: str, *more: str) -> None:
        self._parent: Path | None = None
        self._step = ".".join((name, *more))

    def child(self, name: str, *more: str) -> "Path":
        """The path to a field below."""
        return _below(self, "." + ".".join((name, *more)))

    def index(self, index: int) -> "Path":
        """The path to an item of this list."""
        return _below(self, f"[{index}]")

    def key(self, key: str) -> "Path":
        """The path to an entry of this map, or to an item of a list whose items have names."""
        return _below(self, f"[{key}]")

    def __str__(self) -> str:
        steps = []
        path: Path | None = self
        while path is not None:
            steps.append(path._step)
            path = path._parent
        return "".join(reversed(steps))

    def __repr__(self) -> str:
        return f"Path({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Path) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


def _below(parent: Path, step: str) -> Path:
    path = Path.__new__(Path)
    path._parent = parent
    path._step = step
    return path
