"""Validate node selectors of pods, PersistentVolumes and DRA kinds; ``mooring.constraints`` matches them."""

import msgspec

from mooring.admission import expressions
from mooring.admission.expressions import ExpressionCheck
from mooring.api import field_errors, names
from mooring.api.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from mooring.api.field_errors import Errors, FieldError
from mooring.api.field_path import Path
from mooring.constraints import semver

CEL_IS_OFF = "Node Affinity CEL expressions require feature gate TaintTolerationNodeAffinityCEL"
NOT_AN_OPERATOR = "not a valid selector operator"


class NodeSelectorRules(msgspec.Struct, frozen=True, kw_only=True):
    """The features that node selectors of one object may use, by feature gates or because the stored object does."""

    semver_operators: bool
    check_expression: ExpressionCheck | None
    """Checks CEL expressions; None rejects all of them with the error `cel_refusal`."""
    cel_refusal: str = CEL_IS_OFF
    invalid_label_values: bool = False
    """Whether required terms may have invalid label values, because the stored object has some."""


def validate_node_selector(selector: NodeSelector, path: Path, rules: NodeSelectorRules) -> Errors:
    here = path.child("nodeSelectorTerms")
    if not selector.node_selector_terms:
        return [field_errors.required(here, "must have at least one node selector term")]
    errors: Errors = []
    for index, term in enumerate(selector.node_selector_terms):
        errors += validate_node_selector_term(
            term, here.index(index), rules, check_label_values=not rules.invalid_label_values
        )
    return errors


def validate_node_selector_term(
    term: NodeSelectorTerm, path: Path, rules: NodeSelectorRules, *, check_label_values: bool
) -> Errors:
    """Return the errors of a node selector term. If `check_label_values`, its values must be valid label values."""
    errors: Errors = []
    for index, requirement in enumerate(term.match_expressions):
        errors += _validate_match_expression(
            requirement, path.child("matchExpressions").index(index), rules, check_label_values
        )
    for index, requirement in enumerate(term.match_fields):
        errors += _validate_field_requirement(requirement, path.child("matchFields").index(index))
    for index, expression in enumerate(term.match_cel_expressions):
        here = path.child("matchCELExpressions").index(index)
        if rules.check_expression is None:
            errors.append(field_errors.forbidden(here, rules.cel_refusal))
        else:
            errors += expressions.validate(expression, here, rules.check_expression)
    return errors


def _validate_match_expression(
    requirement: NodeSelectorRequirement, path: Path, rules: NodeSelectorRules, check_label_values: bool
) -> Errors:
    errors = _validate_operator(requirement, path, rules)
    if wrong := names.label_key(requirement.key):
        errors += names.validate(path.child("key"), requirement.key, wrong)
    if check_label_values:
        for index, value in enumerate(requirement.values):
            if wrong := names.label_value(value):
                errors += names.validate(path.child("values").index(index), value, wrong)
    return errors


def _validate_operator(requirement: NodeSelectorRequirement, path: Path, rules: NodeSelectorRules) -> Errors:
    values = requirement.values
    match requirement.operator:
        case "In" | "NotIn":
            if not values:
                return [_build_values_error(path, "must be specified when `operator` is 'In' or 'NotIn'")]
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                return [field_errors.forbidden(path.child("values"), detail)]
        case "Gt" | "Lt":
            if len(values) != 1:
                return [_build_values_error(path, "must be specified single value when `operator` is 'Lt' or 'Gt'")]
        case "SemverLt" | "SemverGt" | "SemverEq" if rules.semver_operators:
            return _validate_semver_values(values, path)
        case operator:
            return [field_errors.invalid(path.child("operator"), operator, NOT_AN_OPERATOR)]
    return []


def _validate_semver_values(values: list[str], path: Path) -> Errors:
    if len(values) != 1:
        detail = "must be specified single value when `operator` is 'SemverLt', 'SemverGt' or 'SemverEq'"
        return [_build_values_error(path, detail)]
    try:
        semver.parse_tolerant(values[0])
    except semver.SemverError as error:
        return [field_errors.invalid(path.child("values").index(0), values[0], str(error))]
    return []


def _build_values_error(path: Path, detail: str) -> FieldError:
    return field_errors.required(path.child("values"), detail)


def _validate_field_requirement(requirement: NodeSelectorRequirement, path: Path) -> Errors:
    errors: Errors = []
    if requirement.operator not in ("In", "NotIn"):
        errors.append(field_errors.invalid(path.child("operator"), requirement.operator, NOT_AN_OPERATOR))
    elif len(requirement.values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(_build_values_error(path, detail))
    if requirement.key != "metadata.name":
        errors.append(field_errors.invalid(path.child("key"), requirement.key, "not a valid field selector key"))
        return errors
    for index, value in enumerate(requirement.values):
        errors += names.validate(path.child("values").index(index), value, names.dns1123_subdomain(value))
    return errors
