"""The merge rules of a type's fields, as a tree of nodes, for strategic merge patch and server-side apply.

`schema_of(Pod)` is the node of a type. Nodes are built from the structs in ``mooring.api`` on first use. A list without
an annotation is atomic: a write replaces all of it.
"""

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, Literal, cast, get_args, get_origin
from weakref import WeakKeyDictionary

import msgspec

from mooring.api.base import Merge, Object, is_required, merge_of
from mooring.api.core_v1 import LocalObjectReference
from mooring.api.dynamic import Dynamic
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.protobuf_table import strip_annotation
from mooring.api.structural import Structural

Shape = Literal["struct", "map", "list", "leaf"]
_ATOMIC_LIST = Merge("atomic")


class MergeNode:
    """A node of a type's merge schema, for a field that is a struct, a map, a list, or a leaf replaced as a whole."""

    def __init__(self, annotation: Any, merge: Merge | None = None) -> None:
        self._type = strip_annotation(annotation)
        self.merge = merge
        self.shape: Shape = _shape_of_type(self._type)
        if self.shape == "list" and merge is None:
            self.merge = _ATOMIC_LIST
        self.is_atomic = self.shape == "leaf" or (self.merge is not None and self.merge.kind == "atomic")

    @cached_property
    def fields(self) -> Mapping[str, "MergeNode"]:
        """The fields of a struct by their JSON names."""
        if self.shape != "struct":
            return {}
        return {info.encode_name: MergeNode(info.type, merge_of(info)) for info in msgspec.structs.fields(self._type)}

    @cached_property
    def item(self) -> "MergeNode":
        """The merge schema of a list's items or a map's values."""
        inner = get_args(self._type)[-1]
        bare = strip_annotation(inner)
        own = bare.__merge__ if isinstance(bare, type) and issubclass(bare, Object) else None
        return MergeNode(inner, own)

    def child(self, name: str) -> "MergeNode | None":
        """Return the merge schema of a struct's field or a map's value; None if there is no such field."""
        return self.item if self.shape == "map" else self.fields.get(name)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The fields that identify items of a keyed list (merge keys); empty for other lists."""
        return tuple(sorted(self.merge.keys)) if self.merge is not None and self.merge.kind == "map" else ()

    @cached_property
    def key_defaults(self) -> Mapping[str, Any]:
        """The defaults of merge keys that a list item lacks, by field name, such as `TCP` for `protocol`."""
        infos = msgspec.structs.fields(self.item._type) if self.item.shape == "struct" else ()
        found = {info.encode_name: cast("Any", info.default_factory)() for info in infos if is_required(info)}
        if self.item._type is LocalObjectReference:
            found["name"] = ""
        return {"protocol": "TCP", **{name: found[name] for name in self.keys if name in found}}


class CustomNode(MergeNode):
    """A field's merge schema in a custom kind: a struct with properties, else a map; a leaf without schema."""

    def __init__(self, schema: Structural | None) -> None:
        self._schema = schema
        self.shape = _custom_shape(schema)
        self.merge = _custom_merge(schema) if schema else None
        self.is_atomic = self.shape == "leaf" or (self.merge is not None and self.merge.kind == "atomic")

    @cached_property
    def fields(self) -> Mapping[str, MergeNode]:
        properties = self._schema.properties if self._schema else {}
        found: dict[str, MergeNode] = {name: CustomNode(child) for name, child in properties.items()}
        if self._schema is not None and self._schema.embedded:
            found["metadata"] = schema_of(ObjectMeta)
        return found

    @cached_property
    def key_defaults(self) -> Mapping[str, Any]:
        return {}  # defaults of the schema are in the object already

    @cached_property
    def item(self) -> MergeNode:
        schema = self._schema
        return CustomNode((schema.items if self.shape == "list" else schema.additional) if schema else None)

    def child(self, name: str) -> MergeNode:
        """Return the merge schema of a field; without a schema, objects merge and lists are replaced."""
        return self.item if self.shape == "map" else self.fields.get(name) or _DEDUCED


class _DeducedNode(MergeNode):
    """A merge schema for values without schema: objects merge field by field, other values are replaced."""

    def __init__(self) -> None:
        self.shape = "map"
        self.merge = None
        self.is_atomic = False

    @cached_property
    def item(self) -> MergeNode:
        return self


def _custom_shape(schema: Structural | None) -> Shape:
    if schema is None:
        return "leaf"
    if schema.items is not None or schema.props.type == "array":
        return "list"
    if schema.properties or schema.embedded or (schema.preserves and schema.props.type in {"", "object"}):
        return "struct"
    return "map" if schema.props.type == "object" else "leaf"


def _custom_merge(schema: Structural) -> Merge | None:
    props = schema.props
    if _custom_shape(schema) == "list":
        if props.list_type == "map":
            return Merge("map", tuple(props.list_map_keys))
        return Merge("set") if props.list_type == "set" else _ATOMIC_LIST
    return Merge("atomic") if props.map_type == "atomic" else None


_DEDUCED = _DeducedNode()
_CUSTOM: WeakKeyDictionary[type[Object], MergeNode] = WeakKeyDictionary()


def schema_of(object_type: type[Object]) -> MergeNode:
    """Return the merge schema of a type, for strategic merge patch and server-side apply."""
    if not issubclass(object_type, Dynamic):
        return _built_in(object_type)
    node = _CUSTOM.get(object_type)
    if node is None:
        node = _CUSTOM[object_type] = CustomNode(object_type.schema)
    return node


@cache
def _built_in(object_type: type[Object]) -> MergeNode:
    return MergeNode(object_type)


def _shape_of_type(bare: Any) -> Shape:
    if isinstance(bare, type) and issubclass(bare, msgspec.Struct):
        return "struct"
    if get_origin(bare) is list:
        return "list"
    return "map" if get_origin(bare) is dict else "leaf"
