"""The rules for one pod or pod template: the server's options, widened by what the old object uses already.

A stricter rule or a disabled gate must not make stored objects immutable. So there are rules per object:
`rules_for_create` for a new one, `rules_for_update` for an update of an old PodSpec (ratcheting).
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from mooring.admission.expressions import ExpressionError
from mooring.admission.node_selector import NodeSelectorRules
from mooring.admission.options import AdmissionOptions
from mooring.admission.pod.resources import uses_indivisible_huge_pages
from mooring.api import label_selector, names
from mooring.api.core_v1 import NodeSelectorTerm, PodAffinityTerm, PodSpec
from mooring.api.field_path import Path
from mooring.api.meta_v1 import ObjectMeta

NUMERIC_OPERATORS = frozenset({"Lt", "Gt"})
SEMVER_OPERATORS = frozenset({"SemverLt", "SemverGt", "SemverEq"})
_OLD = Path("old")


class PodRules(msgspec.Struct, frozen=True, kw_only=True):
    """The features that one pod or pod template may use: those of enabled gates, and those that the stored one uses."""

    options: AdmissionOptions
    is_pod: bool
    """Whether the rules are for a pod rather than a template; a few rules apply only to pods."""
    invalid_selector_values: bool = False
    """Whether pod-affinity selectors may have invalid label values, because the stored pod has some."""
    invalid_spread_selectors: bool = False
    """Whether topology spread selectors are not validated, because the stored pod has invalid ones."""
    invalid_required_values: bool = False
    """Whether required node affinity may have invalid label values, because the stored pod has some."""
    invalid_deletion_cost: bool = False
    indivisible_huge_pages: bool = False
    nonlocal_token_paths: bool = False
    restarting_init_resize: bool = False
    """Whether init containers may have the resize policy RestartContainer."""
    taint_expressions: frozenset[str] = msgspec.field(default_factory=frozenset)
    """The stored expressions over taints, which an update may keep."""
    node_expressions: frozenset[str] = msgspec.field(default_factory=frozenset)
    """The stored expressions over nodes, which an update may keep."""
    too_new_fields: frozenset[tuple[str, ...]] = msgspec.field(default_factory=frozenset)
    """Fields of the stored pod that are newer than the minimum compatibility version; an update may keep them."""

    def check_taint_expression(self, expression: str) -> ExpressionError | None:
        checks = self.options.expression_checks
        check = checks.stored_taint if expression in self.taint_expressions else checks.new_taint
        return check(expression)

    def check_node_expression(self, expression: str) -> ExpressionError | None:
        checks = self.options.expression_checks
        check = checks.stored_node if expression in self.node_expressions else checks.new_node
        return check(expression)

    def build_node_selector_rules(self) -> NodeSelectorRules:
        return NodeSelectorRules(
            semver_operators=self.options.semver_operators,
            check_expression=self.check_node_expression if self.options.cel else None,
            invalid_label_values=self.invalid_required_values,
        )


@lru_cache(maxsize=16)
def rules_for_create(options: AdmissionOptions, *, is_pod: bool) -> PodRules:
    return PodRules(options=options, is_pod=is_pod)


def rules_for_update(
    options: AdmissionOptions, old: PodSpec, old_metadata: ObjectMeta | None = None, *, is_pod: bool
) -> PodRules:
    """Return the rules for an update: options, widened by each feature or invalid value that the old PodSpec has."""
    return PodRules(
        options=_widen_options(options, old),
        is_pod=is_pod,
        invalid_selector_values=_has_invalid_selector_values(old),
        invalid_spread_selectors=any(
            label_selector.validate(constraint.label_selector, _OLD) for constraint in old.topology_spread_constraints
        ),
        invalid_required_values=any(
            names.label_value(value)
            for term in required_node_terms(old)
            for requirement in term.match_expressions
            for value in requirement.values
        ),
        invalid_deletion_cost=old_metadata is not None and find_deletion_cost_problem(old_metadata) is not None,
        indivisible_huge_pages=uses_indivisible_huge_pages(old),
        nonlocal_token_paths=True,
        restarting_init_resize=any(
            policy.restart_policy == "RestartContainer"
            for container in old.init_containers
            if container.restart_policy != "Always"
            for policy in container.resize_policy
        ),
        taint_expressions=frozenset(item.expression for item in old.tolerations if item.expression),
        node_expressions=frozenset(
            expression for term in node_selector_terms(old) for expression in term.match_cel_expressions
        ),
        too_new_fields=options.release_fields.find_too_new_in_pod_spec(old) if options.release_fields else frozenset(),
    )


def _widen_options(options: AdmissionOptions, old: PodSpec) -> AdmissionOptions:
    allowed: dict[str, Any] = {
        "comparison_operators": options.comparison_operators or uses_operators(old, NUMERIC_OPERATORS),
        "semver_operators": options.semver_operators or uses_operators(old, SEMVER_OPERATORS),
        "cel": options.cel or uses_cel(old),
        "label_keys_in_spread_merge": options.label_keys_in_spread_merge or _has_merged_spread_keys(old),
        "relaxed_env_names": options.relaxed_env_names or _has_relaxed_env_names(old),
        "relaxed_dns_searches": options.relaxed_dns_searches or _has_relaxed_dns_searches(old),
        "container_restart_policy": options.container_restart_policy
        or any(container.restart_policy is not None for container in (*old.containers, *old.init_containers)),
    }
    if all(getattr(options, name) == value for name, value in allowed.items()):
        return options
    return replace(options, **allowed)


def required_node_terms(spec: PodSpec) -> list[NodeSelectorTerm]:
    """Return the terms of a pod's required node affinity."""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return required.node_selector_terms if required is not None else []


def node_selector_terms(spec: PodSpec) -> Iterator[NodeSelectorTerm]:
    """Yield the terms of a pod's node affinity, required and preferred."""
    yield from required_node_terms(spec)
    if spec.affinity is not None and spec.affinity.node_affinity is not None:
        for preferred in spec.affinity.node_affinity.preferred_during_scheduling_ignored_during_execution:
            yield preferred.preference


def pod_affinity_terms(spec: PodSpec) -> Iterator[PodAffinityTerm]:
    """Yield the terms of a pod's affinity and anti-affinity to other pods, required and preferred."""
    if spec.affinity is None:
        return
    for affinity in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
        if affinity is not None:
            yield from affinity.required_during_scheduling_ignored_during_execution
            for weighted in affinity.preferred_during_scheduling_ignored_during_execution:
                yield weighted.pod_affinity_term


def uses_operators(spec: PodSpec, operators: frozenset[str]) -> bool:
    """Return whether a pod has any of `operators` in tolerations or, if they compare versions, in node affinity."""
    if any(toleration.operator in operators for toleration in spec.tolerations):
        return True
    semver_operators = operators & SEMVER_OPERATORS
    return bool(semver_operators) and any(
        requirement.operator in semver_operators
        for term in node_selector_terms(spec)
        for requirement in term.match_expressions
    )


def uses_cel(spec: PodSpec) -> bool:
    """Return whether any toleration or node affinity term of a pod has a CEL expression."""
    if any(toleration.expression for toleration in spec.tolerations):
        return True
    return any(term.match_cel_expressions for term in node_selector_terms(spec))


def uses_label_keys(spec: PodSpec) -> bool:
    """Return whether any pod affinity or anti-affinity term has `matchLabelKeys` or `mismatchLabelKeys`."""
    return any(term.match_label_keys or term.mismatch_label_keys for term in pod_affinity_terms(spec))


def find_deletion_cost_problem(metadata: ObjectMeta) -> str | None:
    """Return the value of the annotation `pod-deletion-cost` if it is no 32-bit integer; None if valid or absent."""
    value = metadata.annotations.get(DELETION_COST)
    if value is None:
        return None
    digits = value.removeprefix("-")
    plain = digits.isascii() and digits.isdigit() and (digits == "0" or not digits.startswith("0"))
    return None if plain and value != "-0" and len(digits) <= 10 and -(2**31) <= int(value) < 2**31 else value


DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def _has_merged_spread_keys(spec: PodSpec) -> bool:
    return any(
        expression.key in constraint.match_label_keys
        for constraint in spec.topology_spread_constraints
        if constraint.label_selector is not None
        for expression in constraint.label_selector.match_expressions
    )


def _has_invalid_selector_values(spec: PodSpec) -> bool:
    for term in pod_affinity_terms(spec):
        for selector in (term.label_selector, term.namespace_selector):
            if selector is not None and any(
                names.label_value(value) for item in selector.match_expressions for value in item.values
            ):
                return True
    return False


def _has_relaxed_env_names(spec: PodSpec) -> bool:
    containers = (*spec.containers, *spec.init_containers, *spec.ephemeral_containers)
    return any(
        names.env_var_name(name)
        for container in containers
        for name in (
            *(variable.name for variable in container.env),
            *(source.prefix for source in container.env_from if source.prefix),
        )
    )


def _has_relaxed_dns_searches(spec: PodSpec) -> bool:
    searches = spec.dns_config.searches if spec.dns_config is not None else []
    return any(names.dns1123_subdomain(search.removesuffix(".")) for search in searches)
