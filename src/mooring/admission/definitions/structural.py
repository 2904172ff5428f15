"""Check that a schema is structural: every value has one type, and conditions refer only to typed fields.

Such a schema can prune and default. Messages and their order are Kubernetes'.
"""

from collections.abc import Iterable, Iterator

from mooring.api import field_errors
from mooring.api.apiextensions_v1 import JSONSchemaProps
from mooring.api.field_errors import Errors, FieldError
from mooring.api.field_path import Path
from mooring.cel.errors import EvaluationError
from mooring.cel.regex import compile_pattern

ROOT, ITEM, FIELD = "root", "item", "field"
_EMPTY_TYPE = {
    ROOT: "must not be empty at the root",
    ITEM: "must not be empty for specified array items",
    FIELD: "must not be empty for specified object fields",
}
_INT_OR_STRING = [JSONSchemaProps(type="integer"), JSONSchemaProps(type="string")]
_EMBEDDED = "must be object if x-kubernetes-embedded-resource is true"
_UNSUPPORTED = {
    "id": "id",
    "schema": "schema",
    "ref": "$ref",
    "pattern_properties": "patternProperties",
    "dependencies": "dependencies",
    "additional_items": "additionalItems",
    "definitions": "definitions",
}


def find_unsupported(nodes: Iterable[JSONSchemaProps]) -> str:
    """Return why these schema nodes cannot be structural, such as an unsupported keyword; empty if they can."""
    for node in nodes:
        for attribute, name in _UNSUPPORTED.items():
            if getattr(node, attribute):
                return f"OpenAPIV3Schema '{name}' is not supported"
        if isinstance(node.items, list):
            return "OpenAPIV3Schema 'items' must be a schema, but is an array"
        if node.preserve_unknown_fields is False:
            return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    return ""


def walk_schemas(schema: JSONSchemaProps) -> Iterator[JSONSchemaProps]:
    """Yield a schema and all schemas nested in it, in no particular order."""
    pending = [schema]
    while pending:
        node = pending.pop()
        yield node
        for named in (node.properties, node.pattern_properties, node.definitions):
            if named:
                pending += named.values()
        for listed in (node.all_of, node.any_of, node.one_of):
            if listed:
                pending += listed
        for child in (node.items, node.not_, node.additional_properties, node.additional_items):
            if isinstance(child, JSONSchemaProps):
                pending.append(child)
            elif isinstance(child, list):
                pending += child


def validate_structural(schema: JSONSchemaProps, path: Path) -> Errors:
    """Return an error for each reason why an OpenAPI schema is not structural, sorted by message; empty if it is."""
    found = [*_find_node_errors(schema, ROOT, path), *_find_undeclared_errors(schema, schema, path, path)]
    return sorted(found, key=str)


def _find_node_errors(schema: JSONSchemaProps, level: str, path: Path) -> Iterator[FieldError]:
    if schema.type == "array" and schema.items is None:
        yield field_errors.required(path.child("items"), "must be specified")
    if isinstance(schema.items, JSONSchemaProps):
        yield from _find_node_errors(schema.items, ITEM, path.child("items"))
    for name, child in schema.properties.items():
        yield from _find_node_errors(child, FIELD, path.child("properties").key(name))
    more = schema.additional_properties
    if more is not None and level == ROOT:
        yield field_errors.forbidden(path.child("additionalProperties"), "must not be used at the root")
    if isinstance(more, JSONSchemaProps):
        yield from _find_node_errors(more, FIELD, path.child("additionalProperties"))
    detail = "must be false if x-kubernetes-int-or-string is true"
    if schema.int_or_string and schema.preserve_unknown_fields:
        yield field_errors.invalid(path.child("x-kubernetes-preserve-unknown-fields"), True, detail)
    if schema.int_or_string and schema.embedded_resource:
        yield field_errors.invalid(path.child("x-kubernetes-embedded-resource"), True, detail)
    if schema.any_of or schema.all_of or schema.one_of or schema.pattern or schema.not_ is not None:
        skip_first = bool(schema.all_of) and schema.all_of[0].any_of == _INT_OR_STRING
        yield from _find_condition_errors(schema, path, skip_any=schema.any_of == _INT_OR_STRING, skip_first=skip_first)
    if not schema.type or schema.embedded_resource or level == ROOT:
        yield from _find_type_errors(schema, level, path)
    if level == ROOT or schema.embedded_resource:
        for name in ("kind", "apiVersion"):
            child_type = schema.properties[name].type if name in schema.properties else "string"
            if child_type != "string":
                here = path.child("properties").key(name).child("type")
                yield field_errors.invalid(here, child_type, "must be string")
    if "metadata" in schema.properties:
        yield from _find_metadata_errors(schema, level, path)
    if schema.embedded_resource and not schema.preserve_unknown_fields and not schema.properties:
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        yield field_errors.required(path.child("properties"), detail)


def _find_type_errors(schema: JSONSchemaProps, level: str, path: Path) -> Iterator[FieldError]:
    here = path.child("type")
    if schema.embedded_resource and schema.type != "object":
        yield (
            field_errors.invalid(here, schema.type, _EMBEDDED)
            if schema.type
            else field_errors.required(here, _EMBEDDED)
        )
    elif not schema.type and not schema.int_or_string and not schema.preserve_unknown_fields:
        yield field_errors.required(here, _EMPTY_TYPE[level])
    if schema.embedded_resource and schema.additional_properties is not None:
        detail = "must not be used if x-kubernetes-embedded-resource is set"
        yield field_errors.forbidden(path.child("additionalProperties"), detail)
    if level == ROOT and schema.type and schema.type != "object":
        yield field_errors.invalid(here, schema.type, "must be object at the root")


def _find_metadata_errors(schema: JSONSchemaProps, level: str, path: Path) -> Iterator[FieldError]:
    found = schema.properties["metadata"]
    here = path.child("properties").key("metadata")
    if (level == ROOT or schema.embedded_resource) and found.type != "object":
        yield field_errors.invalid(here.child("type"), found.type, "must be object")
    if level == ROOT:
        allowed = found.properties if found.properties.keys() <= {"name", "generateName"} else {}
        bare = JSONSchemaProps(type=found.type, default=found.default, properties=allowed)
        if found != bare:
            detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield field_errors.forbidden(here, detail)


def _find_condition_errors(
    schema: JSONSchemaProps, path: Path, *, skip_any: bool = False, skip_first: bool = False
) -> Iterator[FieldError]:
    if not skip_any:
        for index, each in enumerate(schema.any_of):
            yield from _find_nested_errors(each, path.child("anyOf").index(index))
    for index, each in enumerate(schema.all_of):
        yield from _find_nested_errors(each, path.child("allOf").index(index), skip_any=skip_first and index == 0)
    for index, each in enumerate(schema.one_of):
        yield from _find_nested_errors(each, path.child("oneOf").index(index))
    if schema.not_ is not None:
        yield from _find_nested_errors(schema.not_, path.child("not"))
    if schema.pattern:
        try:
            compile_pattern(schema.pattern)
        except EvaluationError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield field_errors.invalid(path.child("pattern"), schema.pattern, detail)


def _find_nested_errors(schema: JSONSchemaProps, path: Path, *, skip_any: bool = False) -> Iterator[FieldError]:
    yield from _find_condition_errors(schema, path, skip_any=skip_any)
    if isinstance(schema.items, JSONSchemaProps):
        yield from _find_nested_errors(schema.items, path.child("items"))
    for name, child in schema.properties.items():
        yield from _find_nested_errors(child, path.child("properties").key(name))
    for name, is_set, detail in (
        ("type", schema.type, "must be empty to be structural"),
        ("additionalProperties", schema.additional_properties, "must be undefined to be structural"),
        ("default", schema.default is not None, "must be undefined to be structural"),
        ("title", schema.title, "must be empty to be structural"),
        ("description", schema.description, "must be empty to be structural"),
        ("nullable", schema.nullable, "must be false to be structural"),
        ("x-kubernetes-preserve-unknown-fields", schema.preserve_unknown_fields, "must be false to be structural"),
        ("x-kubernetes-embedded-resource", schema.embedded_resource, "must be false to be structural"),
        ("x-kubernetes-int-or-string", schema.int_or_string, "must be false to be structural"),
        ("x-kubernetes-list-map-keys", schema.list_map_keys, "must be empty to be structural"),
        ("x-kubernetes-list-type", schema.list_type is not None, "must be undefined to be structural"),
        ("x-kubernetes-map-type", schema.map_type is not None, "must be undefined to be structural"),
        ("x-kubernetes-validations", schema.validations, "must be empty to be structural"),
    ):
        if is_set:
            yield field_errors.forbidden(path.child(name), detail)
    if "metadata" in schema.properties:
        detail = "must not be specified in a nested context"
        yield field_errors.forbidden(path.child("properties").key("metadata"), detail)


def _find_undeclared_errors(
    conditions: JSONSchemaProps, schema: JSONSchemaProps | None, schema_path: Path, path: Path
) -> Iterator[FieldError]:
    if schema is None:
        yield field_errors.required(schema_path, f"because it is defined in {path}")
        return
    if conditions.not_ is not None:
        yield from _find_nested_undeclared_errors(conditions.not_, schema, schema_path, path.child("not"))
    for name, clauses in (("allOf", conditions.all_of), ("anyOf", conditions.any_of), ("oneOf", conditions.one_of)):
        for index, each in enumerate(clauses):
            yield from _find_nested_undeclared_errors(each, schema, schema_path, path.child(name).index(index))


def _find_nested_undeclared_errors(
    conditions: JSONSchemaProps, schema: JSONSchemaProps | None, schema_path: Path, path: Path
) -> Iterator[FieldError]:
    yield from _find_undeclared_errors(conditions, schema, schema_path, path)
    if schema is None:
        return
    if isinstance(conditions.items, JSONSchemaProps):
        items = schema.items if isinstance(schema.items, JSONSchemaProps) else None
        yield from _find_nested_undeclared_errors(
            conditions.items, items, schema_path.child("items"), path.child("items")
        )
    for name, child in conditions.properties.items():
        here = schema_path.child("properties").key(name)
        yield from _find_nested_undeclared_errors(
            child, schema.properties.get(name), here, path.child("properties").key(name)
        )
