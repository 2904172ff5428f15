"""Mutate new pods: priority, default tolerations, merged label keys, gated fields; limit their scheduling terms."""

from collections.abc import Callable

from mooring.admission.options import AdmissionOptions
from mooring.admission.pod.rules import node_selector_terms, pod_affinity_terms, uses_label_keys
from mooring.admission.strategy import Priority, Request
from mooring.api import errors
from mooring.api.core_v1 import Pod, PodSpec, Toleration
from mooring.api.meta_v1 import LabelSelector, LabelSelectorRequirement

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
DEFAULT_TOLERATION_SECONDS = 300
_NO_PRIORITY = Priority("", 0)


def resolve_priority(pod: Pod, old: Pod | None, request: Request) -> None:
    """Set a new pod's priority and preemption policy from its PriorityClass; an update keeps those of the old pod.
    Raise Forbidden if the class does not exist or the pod sets other values.
    """
    spec = pod.spec
    if old is not None:
        if spec.priority is None:
            spec.priority = old.spec.priority
        if spec.preemption_policy is None:
            spec.preemption_policy = old.spec.preemption_policy
        return
    if spec.priority_class_name:
        found = request.lookups.priority_class(spec.priority_class_name)
        if found is None:
            raise _build_forbidden_error(pod, f"no PriorityClass with name {spec.priority_class_name} was found")
    else:
        found = request.lookups.default_priority_class() or _NO_PRIORITY
        spec.priority_class_name = found.name
    if spec.priority is not None and spec.priority != found.value:
        raise _build_forbidden_error(
            pod,
            f"the integer value of priority ({spec.priority}) must not be provided in pod spec; "
            f"priority admission controller computed {found.value} from the given PriorityClass name",
        )
    if spec.preemption_policy is not None and spec.preemption_policy != found.preemption_policy:
        raise _build_forbidden_error(
            pod,
            f"the string value of PreemptionPolicy ({spec.preemption_policy}) must not be provided in pod spec; "
            f"priority admission controller computed {found.preemption_policy} from the given PriorityClass name",
        )
    spec.priority = found.value
    spec.preemption_policy = found.preemption_policy


def _build_forbidden_error(pod: Pod, why: str) -> errors.Forbidden:
    return errors.forbidden("pods", pod.metadata.name, why)


def add_default_tolerations(spec: PodSpec) -> None:
    """Tolerate the NoExecute taints not-ready and unreachable for five minutes, unless the pod tolerates them already.

    A toleration with a CEL expression has an empty key, but does not tolerate every taint.
    """
    missing = [NOT_READY, UNREACHABLE]
    for toleration in spec.tolerations:
        if not toleration.expression and toleration.effect in ("", "NoExecute"):
            if not toleration.key:
                return
            if toleration.key in missing:
                missing.remove(toleration.key)
    for key in missing:
        spec.tolerations.append(
            Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=DEFAULT_TOLERATION_SECONDS)
        )


_MAX_POD_TERMS, _MAX_POD_REQUIREMENTS = 64, 200
"""Limits of pod-affinity terms and their requirements, each evaluated for every pod in the cluster."""
_MAX_NODE_REQUIREMENTS, _MAX_NODE_EXPRESSIONS = 200, 16
"""Limits of node-affinity requirements and expressions, each evaluated for every node."""
_MAX_TOLERATIONS, _MAX_COMPARING_TOLERATIONS = 1024, 64
"""Limits of all tolerations, and of those with `Lt`, `Gt`, `Semver…` or an expression.

Each is evaluated for every distinct taint, and a comparison takes six times as long as `Equal`. The bridge adds
tolerations with `Equal`, up to 1,000.
"""
_PLAIN_OPERATORS = frozenset({"", "Equal", "Exists"})


def limit_scheduling_terms(spec: PodSpec) -> None:
    """Raise RequestEntityTooLarge if a pod has too many tolerations, affinity terms or spread constraints."""
    spread = spec.topology_spread_constraints
    if len(spec.tolerations) > _MAX_TOLERATIONS:
        raise errors.request_entity_too_large(f"limit is {_MAX_TOLERATIONS} tolerations of one pod")
    comparing = sum(bool(each.expression) or each.operator not in _PLAIN_OPERATORS for each in spec.tolerations)
    if comparing > _MAX_COMPARING_TOLERATIONS:
        what = "tolerations of one pod that compare values or have an expression"
        raise errors.request_entity_too_large(f"limit is {_MAX_COMPARING_TOLERATIONS} {what}")
    if spec.affinity is None and not spread:
        return
    pod_terms = [*pod_affinity_terms(spec)]
    requirements = node_requirements = node_expressions = 0
    for term in pod_terms:
        requirements += _count_requirements(term.label_selector) + _count_requirements(term.namespace_selector)
        requirements += len(term.match_label_keys) + len(term.mismatch_label_keys)
    for constraint in spread:
        requirements += _count_requirements(constraint.label_selector) + len(constraint.match_label_keys)
    for node_term in node_selector_terms(spec):
        node_requirements += len(node_term.match_expressions) + len(node_term.match_fields)
        node_expressions += len(node_term.match_cel_expressions)
    for count, most, what in (
        (len(pod_terms) + len(spread), _MAX_POD_TERMS, "pod affinity terms and topology spread constraints"),
        (requirements, _MAX_POD_REQUIREMENTS, "requirements and label keys in pod affinity and topology spread"),
        (node_requirements, _MAX_NODE_REQUIREMENTS, "requirements in node affinity"),
        (node_expressions, _MAX_NODE_EXPRESSIONS, "CEL expressions in node affinity"),
    ):
        if count > most:
            raise errors.request_entity_too_large(f"limit is {most} {what} of one pod")


def _count_requirements(selector: LabelSelector | None) -> int:
    return 0 if selector is None else len(selector.match_labels) + len(selector.match_expressions)


def merge_label_keys(pod: Pod, options: AdmissionOptions) -> None:
    """Add the pod's own label values for `matchLabelKeys` and `mismatchLabelKeys` to the selectors of these terms."""
    labels, spec = pod.metadata.labels, pod.spec
    if options.label_keys_in_pod_affinity:
        for term in pod_affinity_terms(spec):
            if term.label_selector is not None:
                _add_label_requirements(term.label_selector, "In", term.match_label_keys, labels)
                _add_label_requirements(term.label_selector, "NotIn", term.mismatch_label_keys, labels)
    if options.label_keys_in_spread and options.label_keys_in_spread_merge:
        for constraint in spec.topology_spread_constraints:
            if constraint.label_selector is not None:
                _add_label_requirements(constraint.label_selector, "In", constraint.match_label_keys, labels)


def _add_label_requirements(selector: LabelSelector, operator: str, keys: list[str], labels: dict[str, str]) -> None:
    selector.match_expressions += [
        LabelSelectorRequirement(key=key, operator=operator, values=[labels[key]]) for key in keys if key in labels
    ]


def drop_disabled_fields(
    spec: PodSpec, old: PodSpec | None, options: AdmissionOptions, warn: Callable[[str], None]
) -> None:
    """Clear the fields of a PodSpec whose feature gate is off, and warn about them, unless the old spec has them."""

    def is_newly_used(uses: Callable[[PodSpec], bool]) -> bool:
        return uses(spec) and not (old and uses(old))

    if not options.label_keys_in_pod_affinity and is_newly_used(uses_label_keys):
        for term in pod_affinity_terms(spec):
            term.match_label_keys, term.mismatch_label_keys = [], []
        warn(
            "matchLabelKeys and mismatchLabelKeys of pod affinity are dropped: "
            "they need the feature gate MatchLabelKeysInPodAffinity"
        )
    if not options.label_keys_in_spread and is_newly_used(_uses_spread_label_keys):
        for constraint in spec.topology_spread_constraints:
            constraint.match_label_keys = []
        warn(
            "matchLabelKeys of topology spread constraints is dropped: "
            "it needs the feature gate MatchLabelKeysInPodTopologySpread"
        )
    if not options.node_inclusion_policy and is_newly_used(_uses_inclusion_policies):
        for constraint in spec.topology_spread_constraints:
            constraint.node_affinity_policy, constraint.node_taints_policy = None, None
        warn(
            "nodeAffinityPolicy and nodeTaintsPolicy of topology spread constraints are dropped: "
            "they need the feature gate NodeInclusionPolicyInPodTopologySpread"
        )
    if not options.pod_level_resources and spec.resources is not None and not (old and old.resources is not None):
        spec.resources = None
        warn("resources of the pod as a whole is dropped: it needs the feature gate PodLevelResources")


def _uses_spread_label_keys(spec: PodSpec) -> bool:
    return any(constraint.match_label_keys for constraint in spec.topology_spread_constraints)


def _uses_inclusion_policies(spec: PodSpec) -> bool:
    return any(
        constraint.node_affinity_policy is not None or constraint.node_taints_policy is not None
        for constraint in spec.topology_spread_constraints
    )
