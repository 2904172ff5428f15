"""Validate the schemas of a definition: structural, with valid defaults, without unsupported features.

`SchemaValidator` is created for one create or update; it knows the old definition, because stored schemas stay allowed
when rules get stricter. Read next: ``structural.py``, ``expressions.py``.
"""

import copy
from collections.abc import Callable, Iterator

import msgspec
from msgspec.structs import replace

from mooring.admission import checks
from mooring.admission.custom import structure
from mooring.admission.custom.formats import NEW_FORMATS
from mooring.admission.custom.rules import ValidationRules
from mooring.admission.custom.validation import compile_schema, get_checked_format, validate
from mooring.admission.definitions import structural
from mooring.admission.definitions.expressions import RuleValidator, has_validation_rules
from mooring.admission.definitions.field_paths import FieldPathError, find_schema_at_path
from mooring.admission.options import CustomOptions
from mooring.api import apiextensions_v1 as v1
from mooring.api import field_errors
from mooring.api.field_errors import Errors, FieldError, GoStruct
from mooring.api.field_path import Path
from mooring.api.structural import META_FIELDS, Structural, prune

MAX_NODES = 100_000
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_ALLOWED_AT_ROOT = (
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusive_maximum",
    "minimum",
    "exclusive_minimum",
    "max_length",
    "min_length",
    "pattern",
    "max_items",
    "min_items",
    "unique_items",
    "multiple_of",
    "required",
    "items",
    "properties",
    "external_docs",
    "example",
    "preserve_unknown_fields",
    "validations",
)
"""Fields allowed at the root of a schema beside a status subresource, in Kubernetes' order."""


def _build_go_names() -> dict[str, str]:
    """Return Go field names by schema attribute (`max_length`: `MaxLength`), in the order of Kubernetes' errors."""
    attributes = list(v1.JSONSchemaProps.__struct_fields__)
    attributes.insert(attributes.index("type") + 1, attributes.pop(attributes.index("nullable")))
    extensions = {name for name, encoded in _ENCODED.items() if encoded.startswith("x-kubernetes-")}
    found = {name: "".join(part.capitalize() for part in name.split("_")) for name in attributes}
    return {name: f"X{shown}" if name in extensions else shown for name, shown in found.items()} | {"id": "ID"}


_ENCODED = dict(zip(v1.JSONSchemaProps.__struct_fields__, v1.JSONSchemaProps.__struct_encode_fields__, strict=True))
_GO_NAMES = _build_go_names()


class _NodeContext(msgspec.Struct, frozen=True):
    """The constraints that enclosing schema nodes put on a node, for example that it must not have a default."""

    no_defaults: str | None = None
    """Why defaults are not allowed at the schema node; None if they are."""
    in_metadata: bool = False
    uncorrelated: Path | None = None
    """The enclosing list whose items an update cannot match with old items, so that rules on `oldSelf` are refused."""
    times: int | None = 1
    """The maximum number of values of the schema node in one object; None if unlimited."""


class SchemaValidator(msgspec.Struct, frozen=True):
    """Validates the schemas of one CustomResourceDefinition. Violations in the stored definition remain allowed."""

    options: CustomOptions
    lenient: frozenset[str]
    """The names of schema requirements that the stored definition violates, and may go on violating."""
    known_rules: frozenset[str]
    """CEL rules of the stored definition, which may use every CEL library of this release."""
    unchanged: frozenset[str]
    """Versions whose schema does not change in the update."""

    @classmethod
    def for_change(
        cls, new: v1.CustomResourceDefinitionSpec, old: v1.CustomResourceDefinitionSpec | None, options: CustomOptions
    ) -> "SchemaValidator":
        if old is None:
            return cls(options, frozenset(), frozenset(), frozenset())
        before = {version.name: version.schema for version in old.versions}
        same = [version.name for version in new.versions if before.get(version.name) == version.schema]
        nodes = [
            node
            for schema in before.values()
            if schema and schema.open_api_v3_schema
            for node in structural.walk_schemas(schema.open_api_v3_schema)
        ]
        rules = {text for node in nodes for rule in node.validations for text in (rule.rule, rule.message_expression)}
        lenient = {name for name, broken in _BROKEN.items() if any(broken(node) for node in nodes)}
        return cls(options, frozenset(lenient), frozenset(rules), frozenset(same))

    def validate_schema(self, schema: v1.JSONSchemaProps, path: Path, version: str, *, has_status: bool) -> Errors:
        """Return the errors in one version's schema; `path` is that of the object that contains `openAPIV3Schema`."""
        here = path.child("openAPIV3Schema")
        nodes = list(structural.walk_schemas(schema))
        if len(nodes) > MAX_NODES:
            return [field_errors.too_many(here, len(nodes), MAX_NODES)]
        errors = [*_find_root_errors(schema, path, has_status)]
        expressions: RuleValidator | None = None
        impossible = structural.find_unsupported(nodes)
        if not impossible:
            not_structural = structural.validate_structural(schema, here) or validate_defaults(schema, here)
            errors += not_structural
            if not not_structural and has_validation_rules(nodes):
                expressions = RuleValidator(self.options, self.known_rules, version in self.unchanged)
        found = _SchemaWalk(self, expressions)
        found.visit(schema, here, _NodeContext(), is_root=True)
        errors += found.schema_errors + found.rule_errors
        errors += checks.invalid_if(not errors and impossible, here, "", impossible)
        if expressions is not None:
            errors += expressions.validate_total_cost(here)
        return errors


_BROKEN: dict[str, Callable[[v1.JSONSchemaProps], bool]] = {
    "types": lambda node: bool(node.type) and node.type not in _TYPES,
    "sets": lambda node: bool(list(_find_set_errors(node, Path("x")))),
    "maps": lambda node: bool(list(_find_map_errors(node, Path("x")))),
}


def _find_root_errors(schema: v1.JSONSchemaProps, path: Path, has_status: bool) -> Iterator[FieldError]:
    here, where = "openAPIV3Schema", "at the root of the schema if the status subresource is enabled"
    if has_status:
        if schema.type and schema.type != "object":
            detail = f'only "object" is allowed as the type {where}'
            yield field_errors.invalid(path.child(f"{here}.type"), schema.type, detail)
        empty = v1.JSONSchemaProps()
        given = [name for name in schema.__struct_fields__ if getattr(schema, name) != getattr(empty, name)]
        if any(name not in _ALLOWED_AT_ROOT for name in given):
            allowed = " ".join(_GO_NAMES[name] for name in _ALLOWED_AT_ROOT)
            detail = f"only [{allowed}] fields are allowed {where}"
            struct = GoStruct({shown: getattr(schema, name) for name, shown in _GO_NAMES.items()})
            yield field_errors.invalid(path.child(here), struct, detail)
    if schema.nullable:
        yield field_errors.forbidden(path.child(f"{here}.nullable"), "nullable cannot be true at the root")


def validate_defaults(
    schema: v1.JSONSchemaProps, path: Path, *, in_metadata: bool = False, root: bool = True
) -> Errors:
    """Return errors for defaults, in a schema or below, that the node's own schema would reject or prune."""
    errors: Errors = []
    if schema.default is not None:
        errors += _validate_own_default(schema, path.child("default"), in_metadata)
    if isinstance(schema.items, v1.JSONSchemaProps):
        errors += validate_defaults(schema.items, path.child("items"), in_metadata=in_metadata, root=False)
    for name, child in schema.properties.items():
        inside = in_metadata or ((root or schema.embedded_resource) and name in META_FIELDS)
        errors += validate_defaults(child, path.child("properties").key(name), in_metadata=inside, root=False)
    return errors


def _validate_own_default(schema: v1.JSONSchemaProps, path: Path, in_metadata: bool) -> Errors:
    value = schema.default
    node = Structural(schema)
    errors: Errors = []
    if not in_metadata and isinstance(value, dict | list):
        if prune({"": copy.deepcopy(value)}, Structural(v1.JSONSchemaProps(properties={"": schema}))):
            errors.append(field_errors.invalid(path, value, "must not have unknown fields"))
        if wrong := structure.validate_embedded_objects(value, node, path):
            return errors + wrong
    errors += validate(compile_schema(schema), value, path)
    if errors or not has_validation_rules(structural.walk_schemas(schema)):
        return errors
    rules = ValidationRules(node)
    return rules.validate(value, value, path=path) or rules.validate(value, None, path=path)


class _SchemaWalk:
    """Visits all nodes of a definition's schema and collects the errors of the schema and of its CEL rules."""

    def __init__(self, validator: SchemaValidator, expressions: RuleValidator | None) -> None:
        self._validator = validator
        self._expressions = expressions
        self.schema_errors: Errors = []
        self.rule_errors: Errors = []

    def visit(
        self, schema: v1.JSONSchemaProps, path: Path, place: _NodeContext, *, is_root: bool = False, typed: bool = True
    ) -> None:
        """Collect the errors of a node and all below; `typed` is false below `not`, `allOf`, `anyOf` and `oneOf`."""
        before = len(self.schema_errors)
        if _needs_standard_checks(schema):
            self.schema_errors += _find_standard_errors(schema, path, place, self._validator.lenient)
        self._visit_fields(schema, path, place, is_root, typed)
        if schema.not_ is not None:
            self.visit(schema.not_, path.child("not"), place, typed=False)
        for name, clauses in (("allOf", schema.all_of), ("oneOf", schema.one_of), ("anyOf", schema.any_of)):
            for index, clause in enumerate(clauses) if clauses else ():
                self.visit(clause, path.child(name).index(index), place, typed=False)
        if isinstance(schema.items, v1.JSONSchemaProps):
            below = replace(place, times=_multiply_limits(place.times, schema.max_items))
            if schema.list_type != "map" and place.uncorrelated is None:
                below = replace(below, uncorrelated=path)
            self.visit(schema.items, path.child("items"), below, typed=typed)
        self.schema_errors += _find_extension_errors(schema, path, self._validator.lenient)
        for index, rule in enumerate(schema.validations):
            self.schema_errors += _find_rule_errors(schema, rule, path.child("x-kubernetes-validations").index(index))
        if self._expressions and typed and schema.validations and len(self.schema_errors) == before:
            self.rule_errors += self._expressions.validate_node(
                schema, path, place.times, place.uncorrelated, root=is_root
            )

    def _visit_fields(
        self, schema: v1.JSONSchemaProps, path: Path, place: _NodeContext, is_root: bool, typed: bool
    ) -> None:
        more = schema.additional_properties
        if more is not None:
            here = path.child("additionalProperties")
            detail = "additionalProperties and properties are mutual exclusive"
            self.schema_errors += checks.forbidden_if(schema.properties and more is not True, here, detail)
            if isinstance(more, v1.JSONSchemaProps):
                why = "inside additionalProperties applying to object metadata"
                inside = replace(place, times=_multiply_limits(place.times, schema.max_properties))
                self.visit(more, here, replace(inside, no_defaults=why) if place.in_metadata else inside, typed=typed)
        for name, child in schema.properties.items():
            below = place
            if (is_root or schema.embedded_resource) and name in META_FIELDS:
                why_not = f"in top-level {name}" if is_root else place.no_defaults
                below = replace(place, in_metadata=True, no_defaults=why_not)
            self.visit(child, path.child("properties").key(name), below, typed=typed)


def _multiply_limits(times: int | None, most: int | None) -> int | None:
    return None if times is None or most is None else times * max(most, 0)


def _needs_standard_checks(schema: v1.JSONSchemaProps) -> bool:
    return bool(
        schema.default is not None
        or (schema.type and schema.type not in _TYPES)
        or schema.id
        or schema.additional_items is not None
        or schema.pattern_properties
        or schema.definitions
        or schema.dependencies
        or schema.ref is not None
        or schema.items.__class__ is list
        or schema.embedded_resource
        or schema.unique_items
    )


def _find_standard_errors(
    schema: v1.JSONSchemaProps, path: Path, place: _NodeContext, lenient: frozenset[str]
) -> Iterator[FieldError]:
    if schema.type and schema.type not in _TYPES and "types" not in lenient:
        yield field_errors.not_supported(path.child("type"), schema.type, _TYPES)
    if schema.default is not None and place.no_defaults is not None:
        yield field_errors.forbidden(path.child("default"), f"must not be set {place.no_defaults}")
    for name, is_set in (
        ("id", schema.id),
        ("additionalItems", schema.additional_items is not None),
        ("patternProperties", schema.pattern_properties),
        ("definitions", schema.definitions),
        ("dependencies", schema.dependencies),
        ("$ref", schema.ref is not None),
    ):
        if is_set:
            yield field_errors.forbidden(path.child(name), f"{name} is not supported")
    if schema.type == "null":
        detail = "type cannot be set to null, use nullable as an alternative"
        yield field_errors.forbidden(path.child("type"), detail)
    if isinstance(schema.items, list):
        yield field_errors.forbidden(path.child("items"), "items must be a schema object and not an array")
    if place.in_metadata and schema.embedded_resource:
        detail = "must not be used inside of resource meta"
        yield field_errors.forbidden(path.child("x-kubernetes-embedded-resource"), detail)
    if schema.unique_items:
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield field_errors.forbidden(path.child("uniqueItems"), detail)


def _find_extension_errors(schema: v1.JSONSchemaProps, path: Path, lenient: frozenset[str]) -> Iterator[FieldError]:
    if schema.preserve_unknown_fields is False:
        here = path.child("x-kubernetes-preserve-unknown-fields")
        yield field_errors.invalid(here, False, "must be true or undefined")
    if schema.map_type is not None:
        yield from _find_wrong_type_errors(schema, path, "object", "x-kubernetes-map-type")
        if schema.map_type not in {"atomic", "granular"}:
            here = path.child("x-kubernetes-map-type")
            yield field_errors.not_supported(here, schema.map_type, ("atomic", "granular"))
    if schema.list_type is not None:
        yield from _find_wrong_type_errors(schema, path, "array", "x-kubernetes-list-type")
        if schema.type == "array" and "sets" not in lenient:
            yield from _find_set_errors(schema, path)
        if schema.list_type not in {"atomic", "set", "map"}:
            here = path.child("x-kubernetes-list-type")
            yield field_errors.not_supported(here, schema.list_type, ("atomic", "set", "map"))
    if schema.list_map_keys and schema.list_type != "map":
        here, detail = path.child("x-kubernetes-list-type"), "must be map if x-kubernetes-list-map-keys is non-empty"
        yield (
            field_errors.required(here, detail)
            if schema.list_type is None
            else field_errors.invalid(here, schema.list_type, detail)
        )
    if schema.list_type == "map":
        yield from _find_list_map_key_errors(schema, path)
    if "maps" not in lenient:
        yield from _find_map_errors(schema, path)


def _find_wrong_type_errors(
    schema: v1.JSONSchemaProps, path: Path, wanted: str, extension: str
) -> Iterator[FieldError]:
    if schema.type == wanted:
        return
    here, detail = path.child("type"), f"must be {wanted} if {extension} is specified"
    yield field_errors.invalid(here, schema.type, detail) if schema.type else field_errors.required(here, detail)


def _find_set_errors(schema: v1.JSONSchemaProps, path: Path) -> Iterator[FieldError]:
    items = schema.items
    if schema.list_type != "set" or not isinstance(items, v1.JSONSchemaProps):
        return
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.type == "array" and items.list_type not in {None, "atomic"}:
        yield field_errors.invalid(path.child("items").child("x-kubernetes-list-type"), items.list_type, detail)
    if items.type == "object" and items.map_type != "atomic":
        yield field_errors.invalid(path.child("items").child("x-kubernetes-map-type"), items.list_type, detail)


def _find_list_map_key_errors(schema: v1.JSONSchemaProps, path: Path) -> Iterator[FieldError]:
    here, keys, items = path.child("x-kubernetes-list-map-keys"), schema.list_map_keys, schema.items
    if not keys:
        yield field_errors.required(here, "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        detail = "must have a schema if x-kubernetes-list-type is map"
        yield field_errors.required(path.child("items"), detail)
    if not isinstance(items, v1.JSONSchemaProps):
        return
    if items.type != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        yield field_errors.invalid(path.child("items").child("type"), items.type, detail)
        return
    for index, key in enumerate(keys):
        found = items.properties.get(key)
        if found is None:
            yield field_errors.invalid(here, keys, "entries must all be names of item properties")
        elif found.type in {"array", "object"}:
            place = path.child("items").child("properties").key(key).child("type")
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield field_errors.invalid(place, items.type, detail)
        if key in keys[:index]:
            yield field_errors.invalid(here, keys, "must not contain duplicate entries")


def _find_map_errors(schema: v1.JSONSchemaProps, path: Path) -> Iterator[FieldError]:
    items = schema.items
    if schema.list_type not in {"set", "map"} or not isinstance(items, v1.JSONSchemaProps):
        return
    here = path.child("items")
    if items.nullable:
        detail = f"cannot be nullable when x-kubernetes-list-type is {schema.list_type}"
        yield field_errors.forbidden(here.child("nullable"), detail)
    for key in schema.list_map_keys if schema.list_type == "map" else ():
        found = items.properties.get(key)
        if found is None:
            continue
        place = here.child("properties").key(key)
        begin = "this property is in x-kubernetes-list-map-keys, so it"
        if key not in items.required and found.default is None:
            yield field_errors.required(
                place.child("default"), f"{begin} must have a default or be a required property"
            )
        if found.nullable:
            yield field_errors.forbidden(place.child("nullable"), f"{begin} cannot be nullable")


def _find_rule_errors(schema: v1.JSONSchemaProps, rule: v1.ValidationRule, path: Path) -> Iterator[FieldError]:
    text, message = rule.rule.strip(), rule.message.strip()
    if not text:
        yield field_errors.required(path.child("rule"), "rule is not specified")
    elif rule.message and not message:
        yield field_errors.invalid(path.child("message"), rule.message, "must be non-empty if specified")
    elif _has_line_breaks(message):
        yield field_errors.invalid(path.child("message"), rule.message, "must not contain line breaks")
    elif _has_line_breaks(text) and not message:
        yield field_errors.required(path.child("message"), "message must be specified if rule contains line breaks")
    if rule.message_expression and not rule.message_expression.strip():
        detail = "messageExpression must be non-empty if specified"
        yield field_errors.required(path.child("messageExpression"), detail)
    if rule.reason is not None and rule.reason not in _REASONS:
        yield field_errors.not_supported(path.child("reason"), rule.reason, _REASONS)
    where = rule.field_path
    if where and not where.strip():
        yield field_errors.invalid(path.child("fieldPath"), where, "must be non-empty if specified")
    if _has_line_breaks(where):
        yield field_errors.invalid(path.child("fieldPath"), where, "must not contain line breaks")
    if where:
        try:
            find_schema_at_path(where, schema)
        except FieldPathError:
            yield field_errors.invalid(path.child("fieldPath"), where, "must be a valid path")


def _has_line_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def find_schema_warnings(definition: v1.CustomResourceDefinition, options: CustomOptions) -> list[str]:
    """Return warnings for a CustomResourceDefinition's schemas: unknown formats, and sets of objects or lists."""
    formats: list[str] = []
    sets: set[str] = set()
    for version in definition.spec.versions:
        schema = version.schema.open_api_v3_schema if version.schema else None
        for node in structural.walk_schemas(schema) if schema else ():
            is_new = node.format.replace("-", "") in NEW_FORMATS and not options.new_formats
            if node.format and (is_new or not get_checked_format(node)):
                formats.append(f'unrecognized format "{node.format}"')
            item_type = node.items.type if isinstance(node.items, v1.JSONSchemaProps) else ""
            if node.list_type == "set" and item_type in {"object", "array"}:
                sets.add(
                    f'x-kubernetes-list-type: set for items of type "{item_type}" is not supported by'
                    " server-side apply or CEL validation rules"
                )
    return [*dict.fromkeys(formats), *sorted(sets)]
