"""Find the line and column of a field in the text of a document, by its path.

Only documents with problems are parsed with positions, because that is slower. JSON is parsed as YAML. Called by
``linter.py``.
"""

import re
from functools import cached_property
from typing import NamedTuple

import yaml

_NAME_END = re.compile(r"[.\[]")
_NULL = frozenset({"", "~", "null", "Null", "NULL"})


class Position(NamedTuple):
    """The line and column of a field in a file, counted from 1."""

    line: int
    column: int


class Positions:
    """Finds the positions of fields in a text, which was parsed without errors."""

    def __init__(self, text: str) -> None:
        # JSON has tabs only between its tokens, where YAML allows none.
        self._text = text.replace("\t", " ") if text.startswith("{") else text

    def find(self, document: int, path: str) -> Position:
        """Return the position of `path` in one of the text's documents, or of the nearest enclosing field."""
        if document >= len(self._documents):
            return Position(1, 1)
        node = self._documents[document]
        mark, rest = node.start_mark, path
        while rest and (found := _resolve_step(node, rest)) is not None:
            mark, node, rest = found
        return Position(mark.line + 1, mark.column + 1)

    @cached_property
    def _documents(self) -> list[yaml.Node]:
        """The root nodes of the documents that are not empty, up to the first mistake."""
        loader, found = yaml.CSafeLoader(self._text), []
        try:
            while loader.check_node():
                found.append(loader.get_node())
        except yaml.YAMLError:
            pass
        return [node for node in found if node and not (isinstance(node, yaml.ScalarNode) and node.value in _NULL)]


def _resolve_step(node: yaml.Node, path: str) -> tuple[yaml.Mark, yaml.Node, str] | None:
    """Resolve the first step of a path such as `spec.a[0].b`; return the position and node of the child, and the other
    steps. Return None if there is no such child."""
    fields = {}
    if isinstance(node, yaml.MappingNode):
        fields = {key.value: (key.start_mark, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)}
    if path.startswith("["):
        name, _, rest = path[1:].partition("]")
        if isinstance(node, yaml.SequenceNode) and name.isascii() and name.isdigit() and int(name) < len(node.value):
            item = node.value[int(name)]
            return item.start_mark, item, rest.removeprefix(".")
    else:
        name = path if path in fields else _NAME_END.split(path, maxsplit=1)[0]
        if name not in fields:  # names may have dots in them
            fitting = (each for each in fields if each and path.startswith((f"{each}.", f"{each}[")))
            name = max(fitting, key=len, default="")
        rest = path[len(name) :]
    return (*fields[name], rest.removeprefix(".")) if name in fields and rest != path else None
