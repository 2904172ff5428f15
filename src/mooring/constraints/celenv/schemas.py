"""Translate schemas of custom resources to CEL: the types of `self` and `oldSelf`, their sizes, and values.

`declare` turns a schema into a `Declared` type, or None where rules have no access; `RuleEnvironments` builds the
environments of its rules; `to_value` converts JSON to CEL values (`date-time` strings become timestamps, and field
names that are not identifiers are escaped). Sizes are Kubernetes', so that costs are equal. Used by admission.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from mooring.api.apiextensions_v1 import JSONSchemaProps
from mooring.cel import types
from mooring.cel.conversions import to_double, to_duration, to_timestamp
from mooring.cel.costs import Range
from mooring.cel.environment import Environment
from mooring.cel.errors import EvaluationError
from mooring.constraints.celenv.environments import full_base_environment

MAX_REQUEST_BYTES = 3 * 1024 * 1024
_LONGEST_TIME = 32
_DATE_SIZE = 12
_RESERVED_WORDS = (
    "as break const continue else false for function if import in let loop namespace null package return true"
)
_RESERVED = frozenset({*_RESERVED_WORDS.split(), "var", "void", "while"})
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = re.compile(r"__|[-./]")
_SUPPORTED = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*")
Convert = Callable[[Any], Any]


class Declared(msgspec.Struct, frozen=True, eq=False):
    """A CEL type with the sizes that the cost estimate needs."""

    type: types.Type
    min_bytes: int
    """The minimum size of a value as JSON, in bytes."""
    max_size: int = 0
    """The maximum number of characters, items or entries; 0 if not applicable."""
    fields: Mapping[str, "Declared"] = msgspec.field(default_factory=dict)
    """The fields of an object, by their escaped names."""
    element: "Declared | None" = None
    """The element type of a list or map."""
    key: "Declared | None" = None
    convert: Convert | None = None
    """Convert JSON to a CEL value; None if no conversion is needed."""

    def objects(self) -> Iterator[types.ObjectType]:
        """Yield all object types in it."""
        pending = [self]
        while pending:
            found = pending.pop()
            if found.type.kind is types.Kind.OBJECT:
                yield types.ObjectType(
                    found.type.name, {name: types.Field(each.type) for name, each in found.fields.items()}
                )
            pending += found.fields.values()
            if found.element is not None:
                pending.append(found.element)

    def size_of(self, path: tuple[str, ...]) -> Range | None:
        """Return the size of a path that starts with `self` or `oldSelf`."""
        found: Declared | None = self
        for step in path[1:]:
            if found is None:
                return None
            if step in {"@items", "@values"}:
                found = found.element
            else:
                found = found.key if step == "@keys" else found.fields.get(step)
        return None if found is None else Range(0, found.max_size)


_DECLARED = frozenset({"object", "string", "boolean", "number", "integer"})
_BOOL = Declared(types.BOOL, 4)
_INT = Declared(types.INT, 1)
_KEY = Declared(types.STRING, 2)


def escape_name(name: str) -> str | None:
    """Return the escaped field name for expressions; None for names that cannot be escaped."""
    if name in _RESERVED:
        return f"__{name}__"
    if not _SUPPORTED.fullmatch(name):
        return None
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)


def declare(schema: JSONSchemaProps, name: str = "selfType", *, root: bool = False) -> Declared | None:
    """Return the CEL type of a schema; None where rules have no access. `root` adds the fields of every object."""
    if schema.int_or_string:
        most = 4 * max(schema.max_length, 0) if schema.max_length is not None else MAX_REQUEST_BYTES - 2
        return Declared(types.DYN, 1, most)
    match schema.type:
        case "array":
            return _list(schema, name)
        case "object":
            if isinstance(schema.additional_properties, JSONSchemaProps):
                return _map(schema, schema.additional_properties, name)
            return _object(schema, name, root=root)
        case "string":
            return _string(schema)
        case "boolean":
            return _BOOL
        case "number":
            return Declared(types.DOUBLE, 1, convert=to_double)
        case "integer":
            return Declared(types.INT, 1, convert=int)
    return None


def is_declared(schema: JSONSchemaProps) -> bool:
    """Whether `declare` would return a type, without walking the whole schema."""
    while not schema.int_or_string:
        inner = schema.items if schema.type == "array" else schema.additional_properties
        if schema.type == "array" and not isinstance(inner, JSONSchemaProps):
            return False
        if schema.type not in {"array", "object"} or not isinstance(inner, JSONSchemaProps):
            return schema.type in _DECLARED
        schema = inner
    return True


def _list(schema: JSONSchemaProps, name: str) -> Declared | None:
    if not isinstance(schema.items, JSONSchemaProps):
        return None
    element = declare(schema.items, f"{name}.@idx", root=schema.items.embedded_resource)
    if element is None:
        return None
    most = schema.max_items
    if most is None:
        most = (MAX_REQUEST_BYTES - 2) // (element.min_bytes + 1)
    return Declared(types.list_of(element.type), 2, max(most, 0), element=element, convert=_each_item(element.convert))


def _map(schema: JSONSchemaProps, values: JSONSchemaProps, name: str) -> Declared | None:
    element = declare(values, f"{name}.@elem", root=values.embedded_resource)
    if element is None:
        return None
    most = schema.max_properties
    if most is None:
        most = (MAX_REQUEST_BYTES - 2) // (element.min_bytes + 6)
    made = types.map_of(types.STRING, element.type)
    return Declared(made, 2, max(most, 0), element=element, key=_KEY, convert=_each_value(element.convert))


def _object(schema: JSONSchemaProps, name: str, *, root: bool) -> Declared:
    properties = dict(schema.properties)
    if root:
        text = JSONSchemaProps(type="string")
        metadata = JSONSchemaProps(type="object", properties={"name": text, "generateName": text})
        properties |= {"apiVersion": text, "kind": text, "metadata": metadata}
    fields: dict[str, Declared] = {}
    names: dict[str, tuple[str, Convert | None]] = {}
    smallest = 2
    for given, child in properties.items():
        shown = escape_name(given)
        found = declare(child, f"{name}.{shown or given}", root=child.embedded_resource)
        if found is None:
            continue
        if shown is not None:
            fields[shown] = found
            if shown != given or found.convert is not None:
                names[given] = (shown, found.convert)
        if given in schema.required and child.default is None:
            smallest += len(given.encode()) + found.min_bytes + 4
    return Declared(types.object_type(name), smallest, fields=fields, convert=_each_field(names))


def _string(schema: JSONSchemaProps) -> Declared:
    match schema.format:
        case "byte":
            most = schema.max_length if schema.max_length is not None else MAX_REQUEST_BYTES - 2
            return Declared(types.BYTES, 2, max(most, 0), convert=_to_bytes)
        case "duration":
            return Declared(types.DURATION, 3, _LONGEST_TIME, convert=to_duration)
        case "date":
            return Declared(
                types.TIMESTAMP, _DATE_SIZE, _DATE_SIZE, convert=lambda day: to_timestamp(f"{day}T00:00:00Z")
            )
        case "date-time":
            return Declared(types.TIMESTAMP, 21, _LONGEST_TIME, convert=to_timestamp)
    if schema.max_length is not None:
        most = 4 * max(schema.max_length, 0)
    elif schema.enum:
        most = max((len(each.encode()) for each in schema.enum if isinstance(each, str)), default=0)
    else:
        most = MAX_REQUEST_BYTES - 2
    return Declared(types.STRING, 2, most)


# -- environments


class RuleEnvironments:
    """The environments of one schema's rules, built on first use."""

    def __init__(self, declared: Declared) -> None:
        self._declared = declared
        self._built: dict[tuple[Environment, bool], Environment] = {}

    def get(self, base: Environment | None = None, *, optional_old_self: bool = False) -> Environment:
        """Return the environment for new rules on top of `base`, or for stored rules without it."""
        base = base or full_base_environment()
        found = self._built.get((base, optional_old_self))
        if found is None:
            declared = self._declared
            old = types.optional_of(declared.type) if optional_old_self else declared.type
            found = self._built[base, optional_old_self] = base.extend(
                variables={"self": declared.type, "oldSelf": old},
                types=tuple(declared.objects()),
                sizes=declared.size_of,
            )
        return found


# -- values


def to_value(value: Any, declared: Declared) -> Any:
    """Convert JSON to a CEL value; raise EvaluationError for strings that violate their format."""
    return value if declared.convert is None or value is None else declared.convert(value)


def _each_item(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda value: [None if item is None else convert(item) for item in value]


def _each_value(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda value: {key: None if item is None else convert(item) for key, item in value.items()}


def _each_field(names: dict[str, tuple[str, Convert | None]]) -> Convert | None:
    if not names:
        return None

    def convert(value: Any) -> Any:
        made = {}
        for name, item in value.items():
            shown, inner = names.get(name, (name, None))
            made[shown] = item if inner is None or item is None else inner(item)
        return made

    return convert


def _to_bytes(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise EvaluationError("illegal base64 data") from None


_SCALARS: dict[Any, types.Type] = {
    str: types.STRING,
    int: types.INT,
    float: types.DOUBLE,
    bool: types.BOOL,
    bytes: types.BYTES,
}


def declare_struct(cls: type[msgspec.Struct], name: str) -> tuple[types.ObjectType, ...]:
    """Return the CEL type of a struct under `name`, followed by those of all structs that it contains."""
    found: dict[str, types.ObjectType] = {}
    _declare(cls, name, found, ())
    return (found.pop(name), *found.values())


def _declare(
    cls: type[msgspec.Struct], name: str, found: dict[str, types.ObjectType], around: tuple[type, ...]
) -> types.Type:
    fields = {
        info.encode_name: types.Field(_type_of(info.type, f"{name}.{info.encode_name}", found, (*around, cls)))
        for info in msgspec.structs.fields(cls)
    }
    found[name] = types.ObjectType(name, fields)
    return found[name].type


def _type_of(annotation: Any, name: str, found: dict[str, types.ObjectType], around: tuple[type, ...]) -> types.Type:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_of(arguments[0], name, found, around)
    if origin in (Union, UnionType):
        options = [each for each in arguments if each is not type(None)]
        return _type_of(options[0], name, found, around) if len(options) == 1 else types.DYN
    if origin is list:
        return types.list_of(_type_of(arguments[0], f"{name}.@idx", found, around))
    if origin is dict:
        return types.map_of(types.STRING, _type_of(arguments[1], f"{name}.@elem", found, around))
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return types.DYN if annotation in around else _declare(annotation, name, found, around)
    return _SCALARS.get(annotation, types.DYN)
