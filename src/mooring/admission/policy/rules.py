"""Default and validate rules, selectors and match conditions of policies and webhooks."""

from collections.abc import Callable, Collection, Iterable, Sequence

from mooring.admission import checks
from mooring.admission.expressions import NOT_INSTANTIATED
from mooring.admission.policy.compiling import compile_expression
from mooring.admission.strategy import set_missing
from mooring.api import admissionregistration_v1 as v1
from mooring.api import field_errors, label_selector, names
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.meta_v1 import LabelSelector
from mooring.cel.environment import Environment

MAX_CONDITIONS = 64
OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
FAILURE_POLICIES = ("Fail", "Ignore")
MATCH_POLICIES = (v1.EQUIVALENT, v1.EXACT)
_SCOPES = ("*", "Cluster", "Namespaced")
_ANY = "*"
_COMPILING, _EACH_CHARACTER = 400, 4
"""The validation budget charged for compiling an expression, in microseconds: fixed, and per character."""
Environments = Callable[[], Environment]


def default_match_rules(rules: Iterable[v1.RuleWithOperations]) -> None:
    """Set the scope of match rules without one to `*`, in place."""
    for rule in rules:
        set_missing(rule, scope=_ANY)


def default_match_resources(match: v1.MatchResources) -> None:
    match.match_policy = match.match_policy or v1.EQUIVALENT
    set_missing(match, namespace_selector=LabelSelector(), object_selector=LabelSelector())
    default_match_rules([*match.resource_rules, *match.exclude_resource_rules])


def require_choice(value: str | None, choices: Collection[str], path: Path) -> Errors:
    """Return an error for None (`Required value`) or a value that is not among the choices (`Unsupported value`)."""
    return [field_errors.required(path)] if value is None else checks.one_of(value, choices, path)


def validate_match_resources(match: v1.MatchResources, path: Path) -> Errors:
    errors = require_choice(match.match_policy, MATCH_POLICIES, path.child("matchPolicy"))
    for name, selector in checks.select_fields(match, "namespaceSelector", "objectSelector"):
        errors += checks.require(selector is not None, path.child(name))
        errors += label_selector.validate(selector, path.child(name))
    for name, rules in checks.select_fields(match, "resourceRules", "excludeResourceRules"):
        errors += checks.validate_items(rules, path.child(name), _validate_named_match_rule)
    return errors


def _validate_named_match_rule(rule: v1.NamedRuleWithOperations, path: Path) -> Errors:
    errors: Errors = []
    seen = checks.UniqueKeys()
    for index, name in enumerate(rule.resource_names):
        here = path.child("resourceNames").index(index)
        errors += names.validate(here, name, names.path_segment_name(name))
        errors += seen.add(name, here)
    return errors + validate_match_rule(rule, path)


def validate_match_rule(rule: v1.RuleWithOperations, path: Path) -> Errors:
    operations, here = rule.operations, path.child("operations")
    errors = checks.require(operations, here)
    if len(operations) > 1 and _ANY in operations:
        errors.append(field_errors.invalid(here, operations, "if '*' is present, must not specify other operations"))
    errors += [
        field_errors.not_supported(here.index(index), each, OPERATIONS)
        for index, each in enumerate(operations)
        if each not in OPERATIONS
    ]
    errors += _validate_wildcard_list(rule.api_groups, path.child("apiGroups"), "API groups")
    errors += _validate_wildcard_list(rule.api_versions, path.child("apiVersions"), "API versions")
    errors += [
        field_errors.required(path.child("apiVersions").index(index))
        for index, each in enumerate(rule.api_versions)
        if not each
    ]
    errors += _validate_rule_resources(rule.resources, path.child("resources"))
    return errors + checks.optional_one_of(rule.scope, _SCOPES, path.child("scope"))


def _validate_wildcard_list(values: Sequence[str], path: Path, what: str) -> Errors:
    if not values:
        return [field_errors.required(path)]
    if len(values) > 1 and _ANY in values:
        return [field_errors.invalid(path, values, f"if '*' is present, must not specify other {what}")]
    return []


def _validate_rule_resources(resources: Sequence[str], path: Path) -> Errors:
    errors = [] if resources else [field_errors.required(path)]
    all_of: set[str] = set()
    of_all: set[str] = set()
    plain = False
    for index, each in enumerate(resources):
        here = path.index(index)
        if not each:
            errors.append(field_errors.required(here))
            continue
        resource, slash, below = each.partition("/")
        if not slash:
            plain = each != _ANY
            continue
        errors += checks.invalid_if(
            resource in all_of, here, each, f"if '{resource}/*' is present, must not specify {each}"
        )
        errors += checks.invalid_if(below in of_all, here, each, f"if '*/{below}' is present, must not specify {each}")
        if below == _ANY:
            all_of.add(resource)
        if resource == _ANY:
            of_all.add(below)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(field_errors.invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    detail = "if '*' is present, must not specify other resources without subresources"
    errors += checks.invalid_if(_ANY in resources and plain, path, resources, detail)
    return errors


def validate_match_conditions(
    conditions: Sequence[v1.MatchCondition], path: Path, new: Environments, stored: Environments, known: Collection[str]
) -> Errors:
    """Return the errors of match conditions. Compile those in `known` in the environment `stored`, others in `new`."""
    seen: set[str] = set()
    errors = checks.limit_items(conditions, MAX_CONDITIONS, path)
    for index, each in enumerate(conditions):
        here = path.index(index)
        text, name = each.expression.strip(), each.name
        if not text:
            errors.append(field_errors.required(here.child("expression")))
        else:
            environment = stored if text in known else new
            errors += validate_expression(environment(), text, here.child("expression"), ("bool",))
        errors += checks.require_name(name, here.child("name"), names.label_key)
        if name and name in seen:
            errors.append(field_errors.duplicate(here.child("name"), name))
        seen.add(name)
    return errors


def validate_expression(
    environment: Environment, text: str, path: Path, result_types: Sequence[str], *, shown_value: str | None = None
) -> Errors:
    """Return an error if a CEL expression does not compile to one of the result types; charge the cost of compiling."""
    field_errors.spend(_COMPILING + _EACH_CHARACTER * len(text), path)
    problem = compile_expression(environment, text, result_types).error
    if not problem:
        return []
    if problem.startswith(NOT_INSTANTIATED):
        return [field_errors.internal(path, problem)]
    return [field_errors.invalid(path, text if shown_value is None else shown_value, problem)]
