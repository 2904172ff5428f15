"""Apply structural schemas: prune unknown fields and set defaults.

`Structural` is a preprocessed schema of a CustomResourceDefinition, built once per version. Values are plain dicts,
lists and scalars, modified in place. Used by ``dynamic.py`` for every decoded object, and by admission and patches.
``mooring.admission.custom`` validates values.
"""

import copy
from typing import Any

import msgspec

from mooring.api import field_errors
from mooring.api.apiextensions_v1 import JSONSchemaProps
from mooring.api.field_path import Path
from mooring.api.from_tree import FieldValidation, from_tree
from mooring.api.json_tree import DecodeError, TooLargeError
from mooring.api.meta_v1 import ObjectMeta

META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
_HOLDERS = (dict, list)
_Place = tuple[Any, str | int] | None
"""The position of a value: parent position, and the field or index. Formatted only for unknown fields."""


class Structural:
    """The schema of one value, with the schemas of its fields or items."""

    __slots__ = (
        "additional",
        "allows_any",
        "default",
        "default_cost",
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
        self.default_cost = 0 if self.default is None else _cost(self.default)
        self.has_defaults: bool = self.default is not None or any(child.has_defaults for child in children)
        """Whether there is a default here or anywhere below."""

    def children(self) -> "list[Structural]":
        return [*self.properties.values(), *filter(None, (self.additional, self.items))]

    def field(self, name: str) -> "Structural | None":
        """Return the schema of a field or of a map's value."""
        return self.properties.get(name) or self.additional

    def defaulted_null(self, value: Any) -> bool:
        """Whether a value is a null that means absent here."""
        return value is None and not self.nullable


NOTHING = Structural(JSONSchemaProps(preserve_unknown_fields=True), root=True)
"""The schema of objects without one: everything is kept."""


def prune(content: dict[str, Any], schema: Structural, *, strict: bool = False) -> list[str]:
    """Remove unknown fields from an object without its metadata; return their paths in order.

    With `strict`, raise DecodeError for embedded objects with invalid type or metadata.
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
        unknown.append(_format_place((place, name)))
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
                path = Path(_format_place((place, name)))
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
        path = Path(_format_place(place))
        raise DecodeError(str(field_errors.invalid(path, metadata, str(error)))) from None


def _coerce_metadata(value: dict[str, Any], place: _Place, unknown: list[str]) -> None:
    metadata = value.get("metadata")
    if metadata.__class__ is not dict:
        return
    for name in [name for name in metadata if name not in _METADATA]:
        del metadata[name]
        unknown.append(_format_place(((place, "metadata"), name)))


_METADATA = frozenset(ObjectMeta.__struct_encode_fields__)


def _format_place(place: _Place) -> str:
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(steps)).removeprefix(".")


MAX_DEFAULTS_COST = 1024 * 1024
"""The limit of what defaults may add to one object: bytes of JSON, plus 64 per object and list."""


class DefaultsLimit:
    """The remaining budget of defaults for an object."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MAX_DEFAULTS_COST

    def copy(self, schema: Structural) -> Any:
        """Return a copy of a schema's default; raise TooLargeError beyond the limit."""
        self._left -= schema.default_cost
        if self._left < 0:
            raise TooLargeError(f"the defaults of its schema add more than {MAX_DEFAULTS_COST} bytes")
        return copy.deepcopy(schema.default)


def set_defaults(value: Any, schema: Structural, limit: DefaultsLimit) -> None:
    """Set defaults for absent values, and drop nulls where null is not allowed; raise TooLargeError."""
    if value.__class__ is dict:
        _set_field_defaults(value, schema, limit)
    elif value.__class__ is list and schema.items is not None:
        items = schema.items
        for index, item in enumerate(value):
            if item is None and not items.nullable and items.default is not None:
                value[index] = limit.copy(items)
            if value[index].__class__ in _HOLDERS:
                set_defaults(value[index], items, limit)


def _set_field_defaults(value: dict[str, Any], schema: Structural, limit: DefaultsLimit) -> None:
    properties = schema.properties
    if schema.has_defaults:
        for name, child in properties.items():
            if child.default is not None and (name not in value or child.defaulted_null(value[name])):
                value[name] = limit.copy(child)
    gone = []
    for name, item in value.items():
        inner = properties.get(name) or schema.additional
        if inner is None:
            continue
        if item.__class__ in _HOLDERS:
            set_defaults(item, inner, limit)
        elif item is None and not inner.nullable:
            if inner.default is None:
                gone.append(name)
            else:
                value[name] = limit.copy(inner)
    for name in gone:
        del value[name]


def _cost(default: Any) -> int:
    text = msgspec.json.encode(default)
    return len(text) + 64 * (text.count(b"{") + text.count(b"["))
