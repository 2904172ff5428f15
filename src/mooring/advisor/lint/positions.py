"""Find the line and column of a field in the text of a document, by its path.

Only documents with problems are parsed with positions, because that is slower. JSON is parsed as YAML. Called by
``linter.py``.
"""

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import yaml

_NAME_END = re.compile(r"[.\[]")
_NULL = frozenset({"", "~", "null", "Null", "NULL"})


class Position(NamedTuple):
    """The line and column of a field in a file, counted from 1."""

    line: int
    column: int


class _Node(NamedTuple):
    position: Position
    children: "dict[str, _Node] | list[_Node]"


class Positions:
    """The positions of the fields in a text, which is parsed at the first request."""

    def __init__(self, text: str) -> None:
        self._text = text

    def find(self, document: int, path: str) -> Position:
        """Return the position of `path` in one of the text's documents, or of the nearest enclosing field."""
        if document >= len(self._documents):
            return Position(1, 1)
        node, rest = self._documents[document], path
        while rest:
            found, rest = _resolve_step(node, rest)
            if found is None:
                break
            node = found
        return node.position

    @cached_property
    def _documents(self) -> list[_Node]:
        return list(_documents(self._text))


def _resolve_step(node: _Node, path: str) -> tuple[_Node | None, str]:
    """Resolve the first step of a path such as `spec.a[0].b` in a YAML node; return the child and the other steps."""
    children = node.children
    if path.startswith("["):
        inside, _, rest = path[1:].partition("]")
        rest = rest.removeprefix(".")
        if isinstance(children, dict):
            return children.get(inside), rest
        is_index = inside.isascii() and inside.isdigit() and int(inside) < len(children)
        return (children[int(inside)] if is_index else None), rest
    if isinstance(children, dict):
        name = path if path in children else _NAME_END.split(path, maxsplit=1)[0]
        if name not in children:  # names may have dots in them
            fitting = (each for each in children if each and path.startswith((f"{each}.", f"{each}[")))
            name = max(fitting, key=len, default="")
        if name:
            return children.get(name), path[len(name) :].removeprefix(".")
    return None, ""


def _documents(text: str) -> Iterator[_Node]:
    if text.startswith("{"):
        text = text.replace("\t", " ")  # JSON has tabs only between its tokens, where YAML allows none
    events = yaml.parse(text, Loader=yaml.CSafeLoader)
    try:
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                root = next(events)
                node = _node(root, root, events)
                if not isinstance(root, yaml.ScalarEvent) or root.value not in _NULL:
                    yield node
    except yaml.YAMLError:
        return


def _node(event: Any, place: Any, events: Iterator[Any]) -> _Node:
    """Build the tree node that begins with a YAML event; `place` is the event that has its position."""
    position = Position(place.start_mark.line + 1, place.start_mark.column + 1)
    if isinstance(event, yaml.MappingStartEvent):
        members: dict[str, _Node] = {}
        for key in events:
            if isinstance(key, yaml.MappingEndEvent):
                break
            value = _node(next(events), key, events)
            if isinstance(key, yaml.ScalarEvent):
                members[key.value] = value
        return _Node(position, members)
    items: list[_Node] = []
    if isinstance(event, yaml.SequenceStartEvent):
        for item in events:
            if isinstance(item, yaml.SequenceEndEvent):
                break
            items.append(_node(item, item, events))
    return _Node(position, items)
