"""Validate tolerations: `Equal`, `Exists`, numbers, versions and CEL; ``mooring.constraints`` matches them."""

import re

from mooring.admission import expressions
from mooring.admission.options import AdmissionOptions
from mooring.admission.pod.rules import PodRules
from mooring.api import field_errors, names
from mooring.api.core_v1 import Toleration
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.quoting import go_quote
from mooring.constraints import semver

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
CEL_IS_OFF = "toleration CEL expressions require feature gate TaintTolerationNodeAffinityCEL"
NOT_ALONE = "expression cannot be used with key, value, operator, or effect fields"
_EQUAL = ("Equal", "")
_PLAIN_EFFECTS = (*EFFECTS, "")
_CANONICAL = re.compile(r"0|-?[1-9][0-9]*")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_MAX_DIGITS = 19 + 1


def validate_tolerations(tolerations: list[Toleration], path: Path, rules: PodRules) -> Errors:
    errors: Errors = []
    for index, toleration in enumerate(tolerations):
        if _is_plain_toleration(toleration):
            continue
        here = path.index(index)
        if toleration.expression:
            errors += _validate_expression(toleration, here.child("expression"), rules)
        else:
            errors += _validate_toleration(toleration, here, rules.options)
    return errors


def _is_plain_toleration(toleration: Toleration) -> bool:
    return (
        toleration.operator in _EQUAL
        and toleration.effect in _PLAIN_EFFECTS
        and toleration.toleration_seconds is None
        and not toleration.expression
        and names.is_valid_label(toleration.key, toleration.value)
    )


def list_supported_operators(options: AdmissionOptions) -> tuple[str, ...]:
    """Return the operators that tolerations may have by these options, in the order in which errors list them."""
    numeric = ("Lt", "Gt") if options.comparison_operators else ()
    versions = ("SemverLt", "SemverGt", "SemverEq") if options.semver_operators else ()
    return ("Equal", "Exists", *numeric, *versions)


def _validate_expression(toleration: Toleration, path: Path, rules: PodRules) -> Errors:
    if not rules.options.cel:
        return [field_errors.forbidden(path, CEL_IS_OFF)]
    if toleration.key or toleration.value or toleration.operator or toleration.effect:
        return [field_errors.invalid(path, toleration.expression, NOT_ALONE)]
    return expressions.validate(toleration.expression, path, rules.check_taint_expression)


def _validate_toleration(toleration: Toleration, path: Path, options: AdmissionOptions) -> Errors:
    errors: Errors = []
    if toleration.key:
        if wrong := names.label_key(toleration.key):
            errors += names.validate(path.child("key"), toleration.key, wrong)
    elif toleration.operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(field_errors.invalid(path.child("operator"), toleration.operator, detail))
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(field_errors.invalid(path.child("effect"), toleration.effect, detail))
    errors += _validate_toleration_operator(toleration, path, options)
    if toleration.effect and toleration.effect not in EFFECTS:
        errors.append(field_errors.not_supported(path.child("effect"), toleration.effect, EFFECTS))
    return errors


def _validate_toleration_operator(toleration: Toleration, path: Path, options: AdmissionOptions) -> Errors:
    value = toleration.value
    match toleration.operator:
        case "" | "Equal":
            wrong = names.label_value(value)
            return [field_errors.invalid(path.child("operator"), value, ";".join(wrong))] if wrong else []
        case "Exists":
            detail = "value must be empty when `operator` is 'Exists'"
            return [field_errors.invalid(path.child("operator"), value, detail)] if value else []
        case "Lt" | "Gt" if options.comparison_operators:
            return [
                field_errors.invalid(path.child("value"), value, problem) for problem in find_number_problems(value)
            ]
        case "SemverLt" | "SemverGt" | "SemverEq" if options.semver_operators:
            return _validate_toleration_version(value, path.child("value"))
        case operator:
            return [field_errors.not_supported(path.child("operator"), operator, list_supported_operators(options))]


def find_number_problems(value: str) -> list[str]:
    """Return why a toleration's value is no 64-bit integer in canonical form; empty if it is one."""
    problems = []
    if not _CANONICAL.fullmatch(value):
        problems.append("must be a valid decimal integer in canonical form" if value else "must be non-empty")
    if not _INTEGER.fullmatch(value):
        problems.append(f"strconv.ParseInt: parsing {go_quote(value)}: invalid syntax")
    elif not _fits_in_64_bits(value):
        problems.append(f"strconv.ParseInt: parsing {go_quote(value)}: value out of range")
    return problems


def _fits_in_64_bits(value: str) -> bool:
    digits = value.lstrip("+-").lstrip("0")
    return len(digits) < _MAX_DIGITS and -(2**63) <= int(f"{value[:1].strip('+0123456789')}{digits or 0}") < 2**63


def _validate_toleration_version(value: str, path: Path) -> Errors:
    try:
        semver.parse_tolerant(value)
    except semver.SemverError as error:
        return [field_errors.invalid(path, value, str(error))]
    return []
