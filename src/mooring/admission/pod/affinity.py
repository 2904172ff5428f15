"""Validate affinity and topology spread constraints, including label keys (KEP-3633)."""

from mooring.admission import checks
from mooring.admission.node_selector import validate_node_selector, validate_node_selector_term
from mooring.admission.pod.rules import PodRules
from mooring.api import core_v1, field_errors, label_selector, names
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.meta_v1 import LabelSelector

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")
WITHOUT_SELECTOR = "must not be specified when labelSelector is not set"
IN_BOTH = "exists in both matchLabelKeys and labelSelector"


def validate_affinity(affinity: core_v1.Affinity, path: Path, rules: PodRules) -> Errors:
    errors: Errors = []
    if affinity.node_affinity is not None:
        errors += validate_node_affinity(affinity.node_affinity, path.child("nodeAffinity"), rules)
    if affinity.pod_affinity is not None:
        errors += _validate_pod_affinity(affinity.pod_affinity, path.child("podAffinity"), rules)
    if affinity.pod_anti_affinity is not None:
        errors += _validate_pod_affinity(affinity.pod_anti_affinity, path.child("podAntiAffinity"), rules)
    return errors


def validate_node_affinity(affinity: core_v1.NodeAffinity, path: Path, rules: PodRules) -> Errors:
    errors: Errors = []
    selector_rules = rules.build_node_selector_rules()
    required = affinity.required_during_scheduling_ignored_during_execution
    if required is not None:
        errors += validate_node_selector(required, path.child(_REQUIRED), selector_rules)
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        here = path.child(_PREFERRED).index(index)
        errors += _validate_weight(preferred.weight, here)
        term = here.child("preference")
        errors += validate_node_selector_term(preferred.preference, term, selector_rules, check_label_values=False)
    return errors


def _validate_pod_affinity(
    affinity: core_v1.PodAffinity | core_v1.PodAntiAffinity, path: Path, rules: PodRules
) -> Errors:
    errors: Errors = []
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        errors += _validate_pod_affinity_term(term, path.child(_REQUIRED).index(index), rules)
    for index, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        here = path.child(_PREFERRED).index(index)
        errors += _validate_weight(weighted.weight, here)
        errors += _validate_pod_affinity_term(weighted.pod_affinity_term, here.child("podAffinityTerm"), rules)
    return errors


def _validate_weight(weight: int, path: Path) -> Errors:
    if 1 <= weight <= 100:
        return []
    return [field_errors.invalid(path.child("weight"), weight, "must be in the range 1-100")]


def _validate_pod_affinity_term(term: core_v1.PodAffinityTerm, path: Path, rules: PodRules) -> Errors:
    errors: Errors = []
    lenient = rules.invalid_selector_values
    if term.label_selector is not None:
        here = path.child("labelSelector")
        errors += label_selector.validate(term.label_selector, here, allow_invalid_values=lenient)
    if term.namespace_selector is not None:
        here = path.child("namespaceSelector")
        errors += label_selector.validate(term.namespace_selector, here, allow_invalid_values=lenient)
    for name in term.namespaces:
        errors += names.validate(path.child("namespace"), name, names.dns1123_label(name))
    if term.match_label_keys or term.mismatch_label_keys:
        errors += _validate_label_keys(term, path)
    errors += checks.require(term.topology_key, path.child("topologyKey"), "can not be empty")
    if wrong := names.label_key(term.topology_key):
        errors += names.validate(path.child("topologyKey"), term.topology_key, wrong)
    return errors


def _validate_label_keys(term: core_v1.PodAffinityTerm, path: Path) -> Errors:
    errors = _validate_label_key_names(term.match_label_keys, term.label_selector, path.child("matchLabelKeys"))
    errors += _validate_label_key_names(term.mismatch_label_keys, term.label_selector, path.child("mismatchLabelKeys"))
    errors += _validate_keys_not_in_selector(term.match_label_keys, term.label_selector, path)
    mismatched = frozenset(term.mismatch_label_keys)
    for index, key in enumerate(term.match_label_keys):
        if key in mismatched:
            here = path.child("matchLabelKeys").index(index)
            errors.append(field_errors.invalid(here, key, "exists in both matchLabelKeys and mismatchLabelKeys"))
    return errors


def _validate_label_key_names(keys: list[str], selector: LabelSelector | None, path: Path) -> Errors:
    if keys and selector is None:
        return [field_errors.forbidden(path, WITHOUT_SELECTOR)]
    errors: Errors = []
    for index, key in enumerate(keys):
        errors += names.validate(path.index(index), key, names.label_key(key))
    return errors


def _validate_keys_not_in_selector(keys: list[str], selector: LabelSelector | None, path: Path) -> Errors:
    """Return an error for each of `matchLabelKeys` or `mismatchLabelKeys` that the selector itself names as well."""
    if selector is None:
        return []
    positions = {key: index for index, key in enumerate(keys)}
    seen = set(selector.match_labels)
    errors = []
    for expression in selector.match_expressions:
        if expression.key in positions and expression.key in seen:
            errors.append(field_errors.invalid(path.index(positions[expression.key]), expression.key, IN_BOTH))
        seen.add(expression.key)
    return errors


def validate_spread(constraints: list[core_v1.TopologySpreadConstraint], path: Path, rules: PodRules) -> Errors:
    errors: Errors = []
    pairs = [(constraint.topology_key, constraint.when_unsatisfiable) for constraint in constraints]
    last = {pair: index for index, pair in enumerate(pairs)}
    for index, (constraint, pair) in enumerate(zip(constraints, pairs, strict=True)):
        here = path.index(index)
        errors += _validate_spread_constraint(constraint, here)
        if last[pair] > index:
            both = here.child("{topologyKey, whenUnsatisfiable}")
            errors.append(field_errors.duplicate(both, f"{{{pair[0]}, {pair[1]}}}"))
        errors += _validate_spread_options(constraint, here)
        if constraint.match_label_keys:
            errors += _validate_spread_keys(constraint, here, rules)
        if not rules.invalid_spread_selectors:
            errors += label_selector.validate(constraint.label_selector, here.child("labelSelector"))
    return errors


def _validate_spread_constraint(constraint: core_v1.TopologySpreadConstraint, path: Path) -> Errors:
    errors = checks.positive(constraint.max_skew, path.child("maxSkew"))
    errors += checks.require(constraint.topology_key, path.child("topologyKey"), "can not be empty")
    action = constraint.when_unsatisfiable
    return errors + checks.one_of(action, _ACTIONS, path.child("whenUnsatisfiable"))


def _validate_spread_options(constraint: core_v1.TopologySpreadConstraint, path: Path) -> Errors:
    errors: Errors = []
    domains, action = constraint.min_domains, constraint.when_unsatisfiable
    if domains is not None:
        here = path.child("minDomains")
        errors += checks.positive(domains, here)
        if action != "DoNotSchedule":
            detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            errors.append(field_errors.invalid(here, domains, detail))
    errors += checks.optional_one_of(constraint.node_affinity_policy, _POLICIES, path.child("nodeAffinityPolicy"))
    return errors + checks.optional_one_of(constraint.node_taints_policy, _POLICIES, path.child("nodeTaintsPolicy"))


def _validate_spread_keys(constraint: core_v1.TopologySpreadConstraint, path: Path, rules: PodRules) -> Errors:
    keys, selector = constraint.match_label_keys, constraint.label_selector
    here = path.child("matchLabelKeys")
    if rules.options.label_keys_in_spread_merge:
        return _validate_label_key_names(keys, selector, here) + _validate_keys_not_in_selector(keys, selector, path)
    errors: Errors = []
    if selector is None:
        errors.append(field_errors.forbidden(here, WITHOUT_SELECTOR))
        taken: set[str] = set()
    else:
        taken = {*selector.match_labels, *(expression.key for expression in selector.match_expressions)}
    for index, key in enumerate(keys):
        errors += names.validate(here.index(index), key, names.label_key(key))
        if key in taken:
            errors.append(field_errors.invalid(here.index(index), key, IN_BOTH))
    return errors
