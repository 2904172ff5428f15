"""Convert selected fields of an object to a JSON tree, for policies that read a few fields of many objects.

    excerpt = Excerpt()
    excerpt.add(("metadata", "name"))
    excerpt.add(("spec", "containers", "*", "image"))
    excerpt.tree(pod)

equals `codec.to_tree(pod)` at these paths; other paths are undefined. `*` stands for the items of a list.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from mooring.api import codec
from mooring.api.base import Object
from mooring.api.quantity import Quantity

ITEMS = "*"
_SCALARS = frozenset({str, int, bool, float, type(None)})
_CONTAINERS = (list, dict)

Maker = Callable[[Any], Any]


class Excerpt:
    """A set of field paths, named as in JSON."""

    __slots__ = ("_below", "_makers", "is_whole")

    def __init__(self) -> None:
        self.is_whole = False
        self._below: dict[str, Excerpt] = {}
        self._makers: dict[type, Maker] = {}
        """What makes the tree of a value, by its class."""

    def add(self, path: Iterable[str], keys: Iterable[str] | None = None) -> None:
        """Add the value at the end of a path: all of it, or only some keys of it.

        With no keys, only its presence matters. Nothing may be added after the first `tree`.
        """
        place = self
        for name in path:
            place = place._below.setdefault(name, Excerpt())
        if keys is None:
            place.is_whole = True
        for key in keys or ():
            place.add((key,))

    def tree(self, value: Any) -> Any:
        """Return the excerpt of an object, or of a part of one."""
        make = self._makers.get(value.__class__)
        if make is None:
            make = self._makers[value.__class__] = self._maker(value.__class__)
        return make(value)

    def _maker(self, cls: type) -> Maker:
        items = self._below.get(ITEMS)
        if self.is_whole or (items is not None and cls is not list):
            return _to_tree  # a map: its items are the fields, or their names
        if issubclass(cls, Object):
            return self._maker_of_object(cls)
        if cls in _CONTAINERS and not self._below:
            return lambda _: cls()  # any value
        if items is not None:
            return lambda values: [*map(items.tree, values)]
        return _to_tree

    def _maker_of_object(self, cls: type[Object]) -> Maker:
        chosen = [
            (each.encode_name, each.name, each.default, each.default_factory, below.tree)
            for each in msgspec.structs.fields(cls)
            if (below := self._below.get(each.encode_name)) is not None
        ]

        def make(obj: Object) -> dict[str, Any]:
            tree = {}
            for name, attribute, default, factory, below in chosen:
                value = getattr(obj, attribute)
                if value is default or (not value and value.__class__ is factory):
                    continue  # as msgspec omits defaults, and empty containers that are defaults
                tree[name] = value if value.__class__ in _SCALARS else below(value)
            return tree

        return make


def _to_tree(value: Any) -> Any:
    if value.__class__ in _SCALARS:
        return value
    if value.__class__ is Quantity:
        return str(value)
    if value.__class__ is dict:
        return {key: _to_tree(each) for key, each in value.items()}
    return codec.to_tree(value)
