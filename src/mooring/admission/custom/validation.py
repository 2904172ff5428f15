"""Compile a schema into checks with the messages of Kubernetes' validator.

`compile_schema` builds one function per schema, once; ``strategy.py`` calls it for every written object. The checks for
each JSON type are selected when the first such value arrives: most fields of a large schema are never used. The
position of a value is a chain of pairs that is formatted only for an error. Regular expressions take linear time.

An update may keep values that the schema no longer allows (ratcheting, `select_errors_at_changed_values`). A value
corresponds to the old one at the same field or key; list items correspond only in lists of type `map`.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from mooring.admission.custom.formats import get_format_checker
from mooring.api import field_errors
from mooring.api.apiextensions_v1 import JSONSchemaProps
from mooring.api.field_errors import Errors, FieldError
from mooring.api.field_path import Path
from mooring.api.structural import Structural
from mooring.cel.regex import matches

Place = tuple[Any, str | int] | None
"""The position of a value in an object: its parent's position and its field or index; None for the root."""


class SchemaErrors(msgspec.Struct):
    """Collects schema errors with their positions. `base` is the path of the checked value, such as `status`."""

    base: Path | None
    errors: Errors = msgspec.field(default_factory=list)
    places: list[Place] = msgspec.field(default_factory=list)
    """The position of each error, by which ratcheting finds the stored value."""

    def add(self, place: Place, error: FieldError) -> None:
        self.errors.append(error)
        self.places.append(place)

    def add_all(self, others: "SchemaErrors") -> None:
        self.errors += others.errors
        self.places += others.places

    def path_of(self, place: Place) -> Path | None:
        text = format_place(place)
        if not text:
            return self.base
        return self.base.child(text) if self.base else Path(text)


Check = Callable[[Any, Place, SchemaErrors], None]
_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}
_GO_FORMATS = {int: "int64", float: "float64"}
_SAFE_INTEGER = 2**53 - 1


def validate(check: Check, value: Any, base: Path | None = None) -> Errors:
    findings = SchemaErrors(base)
    check(value, None, findings)
    return drop_repeated_errors(findings.errors)


def compile_schema(schema: JSONSchemaProps) -> Check:
    """Return a function that checks a value by the schema and adds the errors to the `SchemaErrors` passed to it."""
    checks = _ChecksByClass(schema)

    def check(value: Any, place: Place, findings: SchemaErrors) -> None:
        for each in checks[value.__class__]:
            each(value, place, findings)

    return check


class _ChecksByClass(dict[type, tuple[Check, ...]]):
    """A schema's check functions by the Python class of the checked value; each class is compiled on first use."""

    def __init__(self, schema: JSONSchemaProps) -> None:
        super().__init__()
        self._schema = schema

    def __missing__(self, cls: type) -> tuple[Check, ...]:
        found = self[cls] = tuple(_build_checks_for(cls, self._schema))
        return found


def format_place(place: Place) -> str:
    """Format a value's position in an object as a path such as `spec.list[0].name`."""
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(steps)).removeprefix(".")


def _build_checks_for(cls: type, schema: JSONSchemaProps) -> list[Check]:
    found = [*_build_type_checks(cls, schema)]
    if cls is type(None):
        return found + _build_enum_checks(schema)
    found += _build_combination_checks(schema)
    if cls is str:
        found += _build_text_checks(schema)
    elif cls in (int, float):
        found += _build_number_checks(cls, schema)
    elif cls is list:
        found += _build_list_checks(schema)
    found += _build_enum_checks(schema)
    if cls is dict:
        found += _build_object_checks(schema)
    return found


def list_allowed_types(schema: JSONSchemaProps) -> list[str]:
    """Return the JSON types that a schema node allows, such as `["integer", "string"]`; empty if it allows any."""
    if schema.int_or_string:
        return ["integer", "string"]
    return [schema.type] if schema.type else []


def get_checked_format(schema: JSONSchemaProps) -> str:
    """Return the format of a schema node if Kubernetes checks it for the node's type, else an empty string."""
    types = list_allowed_types(schema)
    only = types[0] if len(types) == 1 else ""
    if only in {"", "string"}:
        return schema.format if get_format_checker(schema.format) else ""
    allowed = {"integer": ("int32", "int64"), "number": ("float", "double")}.get(only, ())
    return schema.format if schema.format in allowed else ""


def _build_type_checks(cls: type, schema: JSONSchemaProps) -> list[Check]:
    types, known = list_allowed_types(schema), get_checked_format(schema)
    if not types and not known:
        return []
    wanted = ",".join(types)
    if cls is type(None):
        return [_build_wrong_type_check(wanted, "null")] if types and not schema.nullable else []
    name = _NAMES[cls]
    fits = name in types or (cls is int and "number" in types)
    maybe = cls is float and "integer" in types
    if cls not in (str, list) and known and not (fits or maybe or _GO_FORMATS.get(cls, "") == known):
        return [_build_wrong_type_check(known, _GO_FORMATS.get(cls, ""))]
    if known and cls in (str, list) and not {"number", "integer"} & set(types):
        return []
    if maybe and not fits:
        return [_build_whole_number_check(known or wanted, _GO_FORMATS[cls] if known else name)]
    return [] if fits else [_build_wrong_type_check(wanted, name)]


def _build_wrong_type_check(wanted: str, given: str) -> Check:
    def check(value: Any, place: Place, findings: SchemaErrors) -> None:  # noqa: ARG001 - its class is what is wrong
        _add_type_error(place, findings, wanted, given)

    return check


def _add_type_error(place: Place, findings: SchemaErrors, wanted: str, given: str) -> None:
    detail = f"{format_place(place)} in body must be of type {wanted}: {json.dumps(given, ensure_ascii=False)}"
    findings.add(place, field_errors.type_invalid(findings.path_of(place), given, detail))


def _build_whole_number_check(wanted: str, given: str) -> Check:
    def check(value: Any, place: Place, findings: SchemaErrors) -> None:
        if not (value.is_integer() and abs(value) <= _SAFE_INTEGER):
            _add_type_error(place, findings, wanted, given)

    return check


def _build_combination_checks(schema: JSONSchemaProps) -> list[Check]:
    found: list[Check] = []
    if schema.any_of:
        found.append(_build_any_of_check([compile_schema(each) for each in schema.any_of], schema.any_of))
    if schema.one_of:
        found.append(_build_one_of_check([compile_schema(each) for each in schema.one_of], schema.one_of))
    if schema.all_of:
        found.append(_build_all_of_check([compile_schema(each) for each in schema.all_of]))
    if schema.not_ is not None:
        found.append(_build_not_check(compile_schema(schema.not_)))
    return found


def _collect_errors(check: Check, value: Any, place: Place, findings: SchemaErrors) -> SchemaErrors:
    trial = SchemaErrors(findings.base)
    with field_errors.without_budget():
        check(value, place, trial)
    return trial


def _choose_best_alternative(
    schemas: Sequence[JSONSchemaProps], failures: Sequence[SchemaErrors], value: Any
) -> SchemaErrors:
    counts = [count_checks(schema, value) for schema in schemas]
    return failures[max(range(len(counts)), key=lambda index: (counts[index], -index))]


def _build_any_of_check(checks: Sequence[Check], schemas: Sequence[JSONSchemaProps]) -> Check:
    def check(value: Any, place: Place, findings: SchemaErrors) -> None:
        failures = []
        for each in checks:
            failures.append(_collect_errors(each, value, place, findings))
            if not failures[-1].errors:
                return
        _add_error(findings, place, f'"{format_place(place)}" must validate at least one schema (anyOf)')
        findings.add_all(_choose_best_alternative(schemas, failures, value))

    return check


def _build_one_of_check(checks: Sequence[Check], schemas: Sequence[JSONSchemaProps]) -> Check:
    def check(value: Any, place: Place, findings: SchemaErrors) -> None:
        failures = [_collect_errors(each, value, place, findings) for each in checks]
        valid = sum(not failure.errors for failure in failures)
        if valid == 1:
            return
        why = "Found none valid" if not valid else f"Found {valid} valid alternatives"
        _add_error(findings, place, f'"{format_place(place)}" must validate one and only one schema (oneOf). {why}')
        if not valid:
            findings.add_all(_choose_best_alternative(schemas, failures, value))

    return check


def _build_all_of_check(checks: Sequence[Check]) -> Check:
    def check(value: Any, place: Place, findings: SchemaErrors) -> None:
        failures = [_collect_errors(each, value, place, findings) for each in checks]
        failed = [failure for failure in failures if failure.errors]
        if not failed:
            return
        for failure in failed:
            findings.add_all(failure)
        more = ". None validated" if len(failed) == len(checks) else ""
        _add_error(findings, place, f'"{format_place(place)}" must validate all the schemas (allOf){more}')

    return check


def _build_not_check(inner: Check) -> Check:
    def check(value: Any, place: Place, findings: SchemaErrors) -> None:
        if not _collect_errors(inner, value, place, findings).errors:
            _add_error(findings, place, f'"{format_place(place)}" must not validate the schema (not)')

    return check


def _add_error(findings: SchemaErrors, place: Place, text: str) -> None:
    findings.add(place, field_errors.invalid(findings.base, "", text))


def count_checks(schema: JSONSchemaProps, value: Any) -> int:
    """Return how many checks apply to a value. Of failed `anyOf` schemas, the one with the most is reported."""
    if value is None:
        return 1
    count = 3 + bool(list_allowed_types(schema))
    if isinstance(value, dict):
        count += 1 + sum(count_checks(child, value[name]) for name, child in schema.properties.items() if name in value)
    elif isinstance(value, list):
        count += 2
        if isinstance(schema.items, JSONSchemaProps):
            count += sum(count_checks(schema.items, item) for item in value)
    else:
        count += 1
    return count


def _build_text_checks(schema: JSONSchemaProps) -> list[Check]:
    found: list[Check] = []
    longest, shortest = schema.max_length, schema.min_length
    pattern = schema.pattern
    if longest is not None or shortest is not None or schema.pattern:

        def check(value: Any, place: Place, findings: SchemaErrors) -> None:
            size = len(value)
            if longest is not None and size > longest:
                findings.add(place, field_errors.too_long(findings.path_of(place), longest))
            elif shortest is not None and size < shortest:
                _add_value_error(findings, place, value, f"should be at least {shortest} chars long")
            elif pattern and not matches(value, pattern):
                _add_value_error(findings, place, value, f"should match '{pattern}'")

        found.append(check)
    known = get_checked_format(schema)
    fits = get_format_checker(known) if known else None
    if fits is not None:
        found.append(_build_format_check(known, fits))
    return found


def _build_format_check(name: str, fits: Callable[[str], bool]) -> Check:
    def check(value: Any, place: Place, findings: SchemaErrors) -> None:
        if not fits(value):
            _add_type_error(place, findings, name, value)

    return check


def _build_number_checks(cls: type, schema: JSONSchemaProps) -> list[Check]:
    found: list[Check] = []
    types = list_allowed_types(schema)
    if types == ["integer"]:
        bits = 32 if schema.format == "int32" else 64
        found.append(_build_range_check(bits, schema.format if schema.format in {"int32", "int64"} else ""))
    if schema.multiple_of is not None:
        found.append(_build_multiple_check(cls, schema.multiple_of))
    if schema.minimum is not None:
        found.append(_build_bound_check(cls, schema.minimum, schema.exclusive_minimum, "greater", -1))
    if schema.maximum is not None:
        found.append(_build_bound_check(cls, schema.maximum, schema.exclusive_maximum, "less", 1))
    return found


def _build_range_check(bits: int, known: str) -> Check:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    form = f"with format {known}" if known else "(default format)"

    def check(value: Any, place: Place, findings: SchemaErrors) -> None:
        if not low <= value <= high or value != int(value):
            _add_error(findings, place, f"Checked value must be of type integer {form} in {format_place(place)}")

    return check


def _build_multiple_check(cls: type, given: float) -> Check:
    factor = int(given) if cls is int else given
    shown = format_number(factor)

    def check(value: Any, place: Place, findings: SchemaErrors) -> None:
        if factor <= 0:
            detail = f"factor MultipleOf declared for {format_place(place)} must be positive: {shown}"
            findings.add(place, field_errors.invalid(findings.path_of(place), factor, detail))
        elif value % factor if cls is int else not _is_multiple(value, factor):
            _add_value_error(findings, place, value, f"should be a multiple of {shown}")

    return check


def _is_multiple(value: float, factor: float) -> bool:
    quotient = 1 / factor * value if factor < 1 else value / factor
    return quotient.is_integer() or abs(quotient - round(quotient)) < 1e-9 * abs(quotient)


def _build_bound_check(cls: type, bound: float, exclusive: bool, word: str, sign: int) -> Check:
    limit = int(bound) if cls is int else bound
    words = f"should be {word} than {'' if exclusive else 'or equal to '}{format_number(limit)}"

    def check(value: Any, place: Place, findings: SchemaErrors) -> None:
        over = (value - limit) * sign
        if over > 0 or (exclusive and over == 0):
            _add_value_error(findings, place, value, words)

    return check


def _build_enum_checks(schema: JSONSchemaProps) -> list[Check]:
    if not schema.enum:
        return []
    allowed = list(schema.enum)
    plain = frozenset((each.__class__, each) for each in allowed if each.__class__ in (str, bool))
    others = [each for each in allowed if each is not None and each.__class__ not in (str, bool)]
    names = [each if isinstance(each, str) else json.dumps(each, separators=(",", ":")) for each in allowed]

    def check(value: Any, place: Place, findings: SchemaErrors) -> None:
        if value.__class__ in (str, bool):
            if (value.__class__, value) in plain:
                return
        elif value is not None and value in others:
            return
        findings.add(place, field_errors.not_supported(findings.path_of(place), value, names))

    return [check]


def _build_list_checks(schema: JSONSchemaProps) -> list[Check]:
    items = _ChecksByClass(schema.items) if isinstance(schema.items, JSONSchemaProps) else None
    most, fewest = schema.max_items, schema.min_items

    def check(value: Any, place: Place, findings: SchemaErrors) -> None:
        if items is not None:
            for index, item in enumerate(value):
                for each in items[item.__class__]:
                    each(item, (place, index), findings)
        if fewest is not None and len(value) < fewest:
            _add_value_error(findings, place, len(value), f"should have at least {fewest} items")
        if most is not None and len(value) > most:
            findings.add(place, field_errors.too_many(findings.path_of(place), len(value), most))

    return [] if items is None and most is None and fewest is None else [check]


def _build_object_checks(schema: JSONSchemaProps) -> list[Check]:
    properties = {name: _ChecksByClass(child) for name, child in schema.properties.items()}
    more = schema.additional_properties
    additional = _ChecksByClass(more) if isinstance(more, JSONSchemaProps) else None
    most, fewest, required = schema.max_properties, schema.min_properties, tuple(schema.required)

    def check(value: Any, place: Place, findings: SchemaErrors) -> None:
        if fewest is not None and len(value) < fewest:
            _add_value_error(findings, place, len(value), f"should have at least {fewest} properties")
        if most is not None and len(value) > most:
            findings.add(place, field_errors.too_many(findings.path_of(place), len(value), most))
        if more is False:
            for name in [name for name in value if name not in properties]:
                detail = f"{format_place(place)}.{name} in body is a forbidden property"
                findings.add(place, field_errors.invalid(findings.path_of(place), name, detail))
        elif additional is not None:
            for name, item in value.items():
                if name not in properties:
                    for each in additional[item.__class__]:
                        each(item, (place, name), findings)
        for name, item in value.items():
            inner = properties.get(name)
            if inner is not None:
                for each in inner[item.__class__]:  # a value of any type needs no check
                    each(item, (place, name), findings)
        for name in required:
            if name not in value:
                findings.add(place, field_errors.required(findings.path_of((place, name))))

    return [check]


def _add_value_error(findings: SchemaErrors, place: Place, value: Any, words: str) -> None:
    findings.add(place, field_errors.invalid(findings.path_of(place), value, f"{format_place(place)} in body {words}"))


def format_number(value: float) -> str:
    """Format a JSON number as Go does in error messages: `1`, not `1.0`."""
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    return repr(value)


def drop_repeated_errors(errors: Errors) -> Errors:
    """Return the errors without repeated ones, which several `anyOf` schemas can cause."""
    if len(errors) < 2:
        return errors
    return list({str(error): error for error in errors}.values())


_ABSENT: Any = object()


def select_errors_at_changed_values(
    errors: Iterable[tuple[FieldError, Place]], new: Any, old: Any, schema: Structural | None
) -> Errors:
    """Return only the errors at values that are new or differ from `old`: unchanged ones may stay invalid."""
    return [error for error, place in errors if not _is_unchanged(place, new, old, schema)]


def _is_unchanged(place: Place, new: Any, old: Any, schema: Structural | None) -> bool:
    steps: list[str | int] = []
    while place is not None:
        place, step = place
        steps.insert(0, step)
    for step in steps:
        if new == old:
            return True
        old = find_old_counterpart(new, old, step, schema)
        if old is _ABSENT:
            return False
        new = new[step] if not isinstance(new, dict) else new.get(step)
        if schema is not None:
            schema = schema.field(step) if isinstance(step, str) else schema.items
    return bool(new == old)


def find_old_counterpart(new: Any, old: Any, step: str | int, schema: Structural | None) -> Any:
    """Return the value in `old` at the same field, or list-map item with equal keys; if there is none, a marker."""
    if isinstance(step, str):
        return old.get(step, _ABSENT) if isinstance(old, dict) else _ABSENT
    if schema is None or schema.props.list_type != "map" or not isinstance(old, list):
        return _ABSENT
    keys = schema.props.list_map_keys
    wanted = new[step]
    if not isinstance(wanted, dict):
        return _ABSENT
    mark = [wanted.get(key) for key in keys]
    for item in old:
        if isinstance(item, dict) and [item.get(key) for key in keys] == mark:
            return item
    return _ABSENT


def is_absent(value: Any) -> bool:
    return value is _ABSENT
