"""How the fields of a type merge, as a tree of nodes: read by strategic merge patch and by server-side apply.

`schema_of(Pod)` is the node of a type. Nodes are made from the structs in ``mooring.api`` on first use. A list without
an annotation is atomic: whoever writes it writes all of it.
"""

from collections.abc import Mapping
from functools import cache, cached_property
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from mooring.api.base import Merge, Object, merge_of

Shape = Literal["struct", "map", "list", "leaf"]
_ATOMIC_LIST = Merge("atomic")


class Node:
    """A place in an object: a struct with named fields, a map, a list, or a leaf that is written as a whole."""

    def __init__(self, annotation: Any, merge: Merge | None = None) -> None:
        self._type = _bare(annotation)
        self.merge = merge
        self.shape: Shape = _shape(self._type)
        if self.shape == "list" and merge is None:
            self.merge = _ATOMIC_LIST
        self.is_atomic = self.shape == "leaf" or (self.merge is not None and self.merge.kind == "atomic")

    @cached_property
    def fields(self) -> Mapping[str, "Node"]:
        """The fields of a struct by their JSON names."""
        if self.shape != "struct":
            return {}
        return {info.encode_name: Node(info.type, merge_of(info)) for info in msgspec.structs.fields(self._type)}

    @cached_property
    def item(self) -> "Node":
        """What a list or a map consists of."""
        inner = get_args(self._type)[-1]
        bare = _bare(inner)
        own = bare.__merge__ if isinstance(bare, type) and issubclass(bare, Object) else None
        return Node(inner, own)

    def child(self, name: str) -> "Node | None":
        """The node of a field or of a map's value; None for a field that the type does not have."""
        return self.item if self.shape == "map" else self.fields.get(name)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The fields that tell the items of a list apart, by name; empty for other lists."""
        return tuple(sorted(self.merge.keys)) if self.merge is not None and self.merge.kind == "map" else ()


@cache
def schema_of(object_type: type[Object]) -> Node:
    """The schema of a type."""
    return Node(object_type)


def _bare(annotation: Any) -> Any:
    """A type without annotations and without None."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        options = [option for option in get_args(annotation) if option is not type(None)]
        return _bare(options[0]) if len(options) == 1 else annotation
    return annotation


def _shape(bare: Any) -> Shape:
    if isinstance(bare, type) and issubclass(bare, msgspec.Struct):
        return "struct"
    if get_origin(bare) is list:
        return "list"
    return "map" if get_origin(bare) is dict else "leaf"
