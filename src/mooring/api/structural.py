"""What a structural schema does to values: it prunes fields that it does not name, and fills in defaults.

`Structural` is the schema of a CustomResourceDefinition in the shape in which values meet it, made once per version.
Values are plain dicts, lists and scalars, changed in place. Used by ``dynamic.py`` for every object that is read, and
by admission and patches, which look at the same nodes. What a valid value is, ``mooring.admission.custom`` says.
"""

import copy
from typing import Any

from mooring.api import field_errors
from mooring.api.apiextensions_v1 import JSONSchemaProps
from mooring.api.field_path import Path
from mooring.api.from_tree import FieldValidation, from_tree
from mooring.api.json_tree import DecodeError
from mooring.api.meta_v1 import ObjectMeta

META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
_HOLDERS = (dict, list)
_Place = tuple[Any, str | int] | None
"""Where a value stands: what it stands in, and the field or index there. Written out only for unknown fields."""


class Structural:
    """One node of a schema."""

    __slots__ = (
        "additional",
        "allows_any",
        "default",
        "embedded",
        "embeds",
        "has_defaults",
        "items",
        "nullable",
        "preserves",
        "properties",
        "props",
    )

    def __init__(self, props: JSONSchemaProps, *, root: bool = False) -> None:
        self.props = props
        """The schema as it was written."""
        self.properties = {name: Structural(child) for name, child in props.properties.items()}
        more = props.additional_properties
        self.additional = Structural(more) if isinstance(more, JSONSchemaProps) else None
        self.allows_any = more is not None
        """Whether keys without a schema of their own stay; what lies below them is pruned all the same."""
        self.items = Structural(props.items) if isinstance(props.items, JSONSchemaProps) else None
        self.preserves = bool(props.preserve_unknown_fields)
        self.embedded = props.embedded_resource or root
        children = self.children()
        self.embeds: bool = props.embedded_resource or any(child.embeds for child in children)
        """Whether there is an embedded object here or anywhere below."""
        self.nullable = props.nullable
        self.default = props.default
        self.has_defaults: bool = self.default is not None or any(child.has_defaults for child in children)
        """Whether there is a default here or anywhere below."""

    def children(self) -> "list[Structural]":
        return [*self.properties.values(), *filter(None, (self.additional, self.items))]

    def field(self, name: str) -> "Structural | None":
        """The schema of a field or of a map's value."""
        return self.properties.get(name) or self.additional

    def defaulted_null(self, value: Any) -> bool:
        """Whether a value is a null that stands for nothing here."""
        return value is None and not self.nullable


NOTHING = Structural(JSONSchemaProps(preserve_unknown_fields=True), root=True)
"""The schema of objects that have none: everything is kept."""


def prune(content: dict[str, Any], schema: Structural, *, strict: bool = False) -> list[str]:
    """Take unknown fields out of an object without its metadata; returns their paths, in order.

    With `strict`, embedded objects whose type or metadata cannot be read raise DecodeError.
    """
    unknown: list[str] = []
    _prune(content, schema, None, unknown)
    if strict and schema.embeds:
        _check_embedded(content, schema, None)
    unknown.sort()
    return unknown


def _prune(value: Any, schema: Structural | None, place: _Place, unknown: list[str]) -> None:
    if value.__class__ is list:
        items = schema.items if schema else None
        if schema is not None and schema.preserves and items is None:
            return
        for index, item in enumerate(value):
            if item.__class__ in _HOLDERS:
                _prune(item, items, (place, index), unknown)
        return
    strange = []
    for name, item in value.items():
        child = schema.properties.get(name) if schema else None
        if child is not None:
            if item.__class__ in _HOLDERS and not (schema and schema.embedded and name in META_FIELDS):
                _prune(item, child, (place, name), unknown)
        elif schema is None:
            strange.append(name)
        elif schema.embedded and name in META_FIELDS:
            continue
        elif schema.allows_any:
            if item.__class__ in _HOLDERS:
                _prune(item, schema.additional, (place, name), unknown)
        elif not schema.preserves:
            strange.append(name)
    for name in strange:
        del value[name]
        unknown.append(_written((place, name)))
    if schema is not None and schema.embedded and place is not None:
        _coerce_metadata(value, place, unknown)


def _check_embedded(value: Any, schema: Structural, place: _Place) -> None:
    if value.__class__ is list:
        if schema.items is not None and schema.items.embeds:
            for index, item in enumerate(value):
                _check_embedded(item, schema.items, (place, index))
        return
    if value.__class__ is not dict:
        return
    if schema.embedded and place is not None:
        for name in ("apiVersion", "kind"):
            if name in value and not isinstance(value[name], str):
                path = Path(_written((place, name)))
                raise DecodeError(str(field_errors.invalid(path, value[name], "must be a string")))
        if "metadata" in value:
            _check_metadata(value["metadata"], (place, "metadata"))
    for name, item in value.items():
        child = schema.field(name)
        if child is not None and child.embeds:
            _check_embedded(item, child, (place, name))


def _check_metadata(metadata: Any, place: _Place) -> None:
    try:
        from_tree(metadata, ObjectMeta, FieldValidation.IGNORE)
    except DecodeError as error:
        path = Path(_written(place))
        raise DecodeError(str(field_errors.invalid(path, metadata, str(error)))) from None


def _coerce_metadata(value: dict[str, Any], place: _Place, unknown: list[str]) -> None:
    """Keep of an embedded object's metadata what metadata can have."""
    metadata = value.get("metadata")
    if metadata.__class__ is not dict:
        return
    for name in [name for name in metadata if name not in _METADATA]:
        del metadata[name]
        unknown.append(_written(((place, "metadata"), name)))


_METADATA = frozenset(ObjectMeta.__struct_encode_fields__)


def _written(place: _Place) -> str:
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(steps)).removeprefix(".")


def fill_in(value: Any, schema: Structural) -> None:
    """Put defaults in the place of what is absent, and drop nulls where null is no value."""
    if value.__class__ is dict:
        _fill_in_fields(value, schema)
    elif value.__class__ is list and schema.items is not None:
        items = schema.items
        for index, item in enumerate(value):
            if item is None and not items.nullable and items.default is not None:
                value[index] = copy.deepcopy(items.default)
            if value[index].__class__ in _HOLDERS:
                fill_in(value[index], items)


def _fill_in_fields(value: dict[str, Any], schema: Structural) -> None:
    properties = schema.properties
    if schema.has_defaults:
        for name, child in properties.items():
            if child.default is not None and (name not in value or child.defaulted_null(value[name])):
                value[name] = copy.deepcopy(child.default)
    gone = []
    for name, item in value.items():
        inner = properties.get(name) or schema.additional
        if inner is None:
            continue
        if item.__class__ in _HOLDERS:
            fill_in(item, inner)
        elif item is None and not inner.nullable:
            if inner.default is None:
                gone.append(name)
            else:
                value[name] = copy.deepcopy(inner.default)
    for name in gone:
        del value[name]
