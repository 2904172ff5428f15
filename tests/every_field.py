"""Every list and map in the types of all kinds, and how to fill one with very many entries.

for place in places(Pod): body = place.filled(1000, EQUAL)

Used by the attacks that try each of them. A type is looked into once for each kind that has it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from mooring.api.quantity import Quantity

Tree = dict[str, Any]
_LIKELY = {
    "operator": "Exists",
    "effect": "NoSchedule",
    "protocol": "TCP",
    "ip": "10.0.0.1",
    "addresses": "10.0.0.1",
    "whenUnsatisfiable": "DoNotSchedule",
    "controller": False,
    "action": "Count",
    "mode": None,
    "type": None,
    "weight": 1,
}
"""What fields of such a name may hold: a rule further on is reached only by what the first ones let pass."""
_DEEP = 2
"""How deep items are filled: their own fields, and those of what they hold."""


@dataclass(frozen=True)
class Place:
    """A list or map in a kind: the fields that lead to it (through the first item of lists), and what it holds."""

    steps: tuple[tuple[str, bool], ...]
    """Names, and whether there is a list under the name."""
    item: Any
    is_map: bool

    def __str__(self) -> str:
        return ".".join(name + ("[]" if many else "") for name, many in self.steps)

    def filled(self, example: Tree, count: int, word: Callable[[int], str]) -> Tree:
        """Return an example of the kind with so many entries here, whose words are `word` of their number."""
        entries: Any
        if self.is_map:
            entries = {word(number) or f"k{number}": made(self.item, number, word) for number in range(count)}
        else:
            entries = [made(self.item, number, word) for number in range(count)]
        return _put(example, self.steps, entries)


def _put(tree: Any, steps: tuple[tuple[str, bool], ...], entries: Any) -> Tree:
    (name, many), *rest = steps
    found = dict(tree) if isinstance(tree, dict) else {}
    if not rest:
        found[name] = entries
    elif many:
        there = found.get(name) or [{}]
        found[name] = [_put(there[0], tuple(rest), entries), *there[1:]]
    else:
        found[name] = _put(found.get(name), tuple(rest), entries)
    return found


def places(cls: type[msgspec.Struct], *, seen: set[Any] | None = None) -> Iterator[Place]:
    """All lists and maps below a type. Types in `seen` have been looked into elsewhere."""
    yield from _below(cls, (), set() if seen is None else seen)


def _below(cls: type[msgspec.Struct], steps: tuple[tuple[str, bool], ...], seen: set[Any]) -> Iterator[Place]:
    if cls in seen:
        return
    seen.add(cls)
    for info in msgspec.structs.fields(cls):
        kind = bare(info.type)
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is list:
            yield Place((*steps, (info.encode_name, True)), arguments[0], is_map=False)
            kind = bare(arguments[0])
        elif origin is dict:
            yield Place((*steps, (info.encode_name, False)), arguments[1], is_map=True)
            continue
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield from _below(kind, (*steps, (info.encode_name, origin is list)), seen)


def bare(annotation: Any) -> Any:
    """Return a type without its annotations and without None."""
    if get_origin(annotation) is Annotated:
        return bare(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        return bare(next(each for each in get_args(annotation) if each is not type(None)))
    return annotation


def made(annotation: Any, number: int, word: Callable[[int], str], depth: int = 0) -> Any:
    """Return a value of a type, in JSON."""
    kind = bare(annotation)
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if depth >= _DEEP:
            return {}
        return {
            info.encode_name: _field(info.encode_name, info.type, number, word, depth + 1)
            for info in msgspec.structs.fields(kind)
        }
    if origin is list:
        return [made(arguments[0], number, word, depth + 1)] if depth < _DEEP else []
    if origin is dict:
        return {word(number): made(arguments[1], number, word, depth + 1)} if depth < _DEEP else {}
    if kind is bool:
        return True
    if kind in {int, float}:
        return 1 + number % 30000 if word(0) != word(1) else 1
    if kind is bytes:
        return "YQ=="
    if kind is msgspec.Raw:
        return {word(number): {}}
    return "1" if kind is Quantity else word(number)


def _field(name: str, annotation: Any, number: int, word: Callable[[int], str], depth: int) -> Any:
    kind = bare(annotation)
    if name in _LIKELY and kind == list[str]:
        return [_LIKELY[name]]
    if name in _LIKELY and kind in {str, bool, int}:
        return _LIKELY[name]
    if "time" in name.lower() and kind is str:
        return "2026-01-01T00:00:00Z"
    return made(annotation, number, word, depth)
