"""Compute the patch for one pod from the pod and the cluster's taints and labels. Pure functions.

`required_rules` returns the node labels that the annotations require; `release` lowers the constraints and removes the
gate in one patch; `additions` adds tolerations that a running pod lacks. A lowered constraint is never wider than the
annotation: where upstream operators cannot express it, it is narrower.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Protocol, TypeVar

from mooring.api import codec
from mooring.api.core_v1 import (
    NodeSelector,
    NodeSelectorTerm,
    PersistentVolume,
    Pod,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
)
from mooring.constraints import annotations, node_selector
from mooring.constraints.annotations import GATE, NODE_AFFINITY, TOLERATIONS, Constraints
from mooring.constraints.lowering.terms import (
    LABEL_PREFIX,
    LABEL_VALUE,
    Constraint,
    constraint_of,
    lower_term,
    requirement,
    term_of_known_values,
)
from mooring.constraints.lowering.tolerations import lower_tolerations
from mooring.constraints.options import ConstraintOptions

OPTIONS = ConstraintOptions()
"""The bridge evaluates every operator, whatever the server's gates are."""
RELEASED = annotations.RELEASED
"""The annotation with a digest of the constraints that the pod was released with."""
MAX_TOLERATIONS = 1000
_MAX_CACHED = 4096
Labels = Mapping[str, str]
Operation = dict[str, Any]
K = TypeVar("K")
V = TypeVar("V")


class TooManyTaintsError(Exception):
    """A pod would need more tolerations than it can have."""


class NodeRule(Protocol):
    """A condition that a node meets or not, and the node label by which the bridge records that it does."""

    @property
    def label(self) -> str: ...

    def is_met_by(self, name: str, labels: Labels) -> bool: ...


@dataclass(frozen=True, eq=False)
class TermRule:
    """The part of one node selector term that upstream operators cannot express, as a rule for nodes."""

    constraint: Constraint

    @property
    def label(self) -> str:
        return self.constraint.label

    def is_met_by(self, name: str, labels: Labels) -> bool:  # noqa: ARG002 - as the protocol has it
        return self.constraint.is_met_by(labels)


@dataclass(frozen=True, eq=False)
class SelectorRule:
    """A selector of several terms, for pods whose spec has a required affinity to which terms cannot be added."""

    selector: NodeSelector

    @cached_property
    def label(self) -> str:
        text = json.dumps(codec.to_tree(self.selector), sort_keys=True, separators=(",", ":"))
        return LABEL_PREFIX + hashlib.sha256(text.encode()).hexdigest()[:32]

    @cached_property
    def _compiled(self) -> node_selector.Selector:
        return node_selector.compile_selector(self.selector, OPTIONS)

    def is_met_by(self, name: str, labels: Labels) -> bool:
        return self._compiled.matches(labels, name)


@dataclass(frozen=True)
class ClusterFacts:
    """The taints and label values in the cluster, from which constraints are lowered; replaced when one changes."""

    taints: Sequence[Taint]
    values: Mapping[str, Collection[str]]
    _missing: dict[tuple[str, bytes], list[Toleration]] = field(default_factory=dict, repr=False)
    """A cache: pods from the same template lack the same tolerations."""
    _spec_changes: dict[tuple[str | None, str | None, bytes], list[Operation]] = field(default_factory=dict, repr=False)

    def missing_from(self, own: Sequence[Toleration], wanted: Sequence[Toleration], text: str) -> list[Toleration]:
        """Return the tolerations to add to the spec's `own` for the annotation `text`, which was parsed as `wanted`."""
        key = (text, codec.encode(own))
        found = self._missing.get(key)
        if found is None:
            lowered = lower_tolerations([*own, *wanted], self.taints, OPTIONS, OPTIONS, foreign_from=len(own))
            found = lowered[len(own) :]
            _add_to_cache(self._missing, key, found)
        return found

    def spec_changes(self, pod: Pod) -> list[Operation]:
        """Return the (shared) operations that release a gated pod's spec. Raise as `release`."""
        given, spec = pod.metadata.annotations, pod.spec
        own = codec.encode((spec.tolerations, spec.affinity, spec.scheduling_gates))
        key = (given.get(TOLERATIONS), given.get(NODE_AFFINITY), own)
        found = self._spec_changes.get(key)
        if found is None:
            found = _spec_changes(pod, self)
            _add_to_cache(self._spec_changes, key, found)
        return found


def _add_to_cache(known: dict[K, V], key: K, value: V) -> None:
    if len(known) >= _MAX_CACHED:
        known.clear()
    known[key] = value


def is_gated(pod: Pod) -> bool:
    return any(gate.name == GATE for gate in pod.spec.scheduling_gates)


def was_changed_after_release(pod: Pod) -> bool:
    """Return whether a released pod's constraint annotations differ from those that it was released with."""
    released = pod.metadata.annotations.get(RELEASED)
    return released is not None and released != digest(pod) and not is_gated(pod)


def digest(pod: Pod) -> str:
    """Return a short digest of the constraints in a pod's annotations."""
    given = pod.metadata.annotations
    return _digest_annotations(given.get(TOLERATIONS), given.get(NODE_AFFINITY))


@lru_cache(maxsize=4096)
def _digest_annotations(tolerations: str | None, affinity: str | None) -> str:
    return hashlib.sha256(json.dumps([tolerations, affinity]).encode()).hexdigest()[:16]


def own_labels(labels: Labels) -> dict[str, str]:
    """Return a node's labels without the bridge's, which expressions that count labels must not see."""
    return {key: value for key, value in labels.items() if not key.startswith(LABEL_PREFIX)}


def required_rules(pod: Pod) -> list[NodeRule]:
    """Return the rules whose labels the pod's lowered affinity requires. Raise AnnotationError."""
    text = pod.metadata.annotations.get(NODE_AFFINITY)
    if text is None:
        return []
    if is_gated(pod):
        return list(_parse_rules(text, has_own=_own_required(pod) is not None))
    used = _find_labels_used(pod)  # the lowered affinity no longer shows whether the spec had its own
    return [rule for has_own in (False, True) for rule in _parse_rules(text, has_own=has_own) if rule.label in used]


def _find_labels_used(pod: Pod) -> set[str]:
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    if not affinity:
        return set()
    terms = [each.preference for each in affinity.preferred_during_scheduling_ignored_during_execution]
    required = affinity.required_during_scheduling_ignored_during_execution
    terms += required.node_selector_terms if required else []
    return {entry.key for term in terms for entry in term.match_expressions if entry.key.startswith(LABEL_PREFIX)}


@lru_cache(maxsize=4096)
def _parse_rules(text: str, *, has_own: bool) -> tuple[NodeRule, ...]:
    affinity = annotations.read({NODE_AFFINITY: text}).node_affinity
    if affinity is None:
        return ()
    rules: dict[str, NodeRule] = {}
    required = affinity.required_during_scheduling_ignored_during_execution
    terms = [entry.preference for entry in affinity.preferred_during_scheduling_ignored_during_execution]
    if required is not None and has_own and not _is_one_term(required):
        whole = SelectorRule(required)
        rules[whole.label] = whole
    elif required is not None:
        terms += required.node_selector_terms
    for term in terms:
        constraint = constraint_of(term, OPTIONS)
        if constraint is not None:
            rules[constraint.label] = TermRule(constraint)
    return tuple(rules.values())


def required_by_volume(volume: PersistentVolume) -> list[NodeRule]:
    """Return the rules whose labels a converted volume's node affinity requires. Raise AnnotationError."""
    required = annotations.read_volume(volume.metadata.annotations)
    terms = required.node_selector_terms if required is not None else []
    return [TermRule(found) for term in terms if (found := constraint_of(term, OPTIONS)) is not None]


def _own_required(pod: Pod) -> NodeSelector | None:
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


# -- patches


def release(pod: Pod, facts: ClusterFacts) -> list[Operation]:
    """Return the patch that lowers a gated pod's constraints and removes the gate.

    It applies only to this revision of the pod. Raise AnnotationError or TooManyTaintsError.
    """
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": pod.metadata.resource_version},
        {"op": "add", "path": f"/metadata/annotations/{RELEASED.replace('/', '~1')}", "value": digest(pod)},
        *facts.spec_changes(pod),
    ]


def _spec_changes(pod: Pod, facts: ClusterFacts) -> list[Operation]:
    found = annotations.read(pod.metadata.annotations)
    gates = [index for index, gate in enumerate(pod.spec.scheduling_gates) if gate.name == GATE]
    return [
        *_toleration_patch(pod, missing_tolerations(pod, facts)),
        *_affinity_patch(pod, found, facts),
        *({"op": "remove", "path": f"/spec/schedulingGates/{index}"} for index in reversed(gates)),
    ]


def additions(pod: Pod, facts: ClusterFacts) -> list[Operation]:
    """Return the patch that adds missing tolerations to a released pod, if any. Raise as `release`."""
    found = missing_tolerations(pod, facts)
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": pod.metadata.resource_version}
    return [test, *_toleration_patch(pod, found)] if found else []


def missing_tolerations(pod: Pod, facts: ClusterFacts) -> list[Toleration]:
    """Return the `Equal` tolerations that a pod's annotations require and its spec lacks.

    The annotations' `Equal` and `Exists` tolerations are lowered too: all are appended to the spec's, and for each
    taint the first match counts.
    """
    found = annotations.read(pod.metadata.annotations).tolerations
    if not found:
        return []
    own = pod.spec.tolerations
    missing = facts.missing_from(own, found, pod.metadata.annotations[TOLERATIONS])
    if len(own) + len(missing) > MAX_TOLERATIONS:
        raise TooManyTaintsError(
            f"the taints of the cluster have so many values that the pod would need {len(missing)} tolerations; "
            f"it can have {MAX_TOLERATIONS}: narrow {TOLERATIONS}"
        )
    return missing


def _toleration_patch(pod: Pod, found: list[Toleration]) -> list[Operation]:
    if not found:
        return []
    return [{"op": "add", "path": "/spec/tolerations", "value": codec.to_tree([*pod.spec.tolerations, *found])}]


def _affinity_patch(pod: Pod, found: Constraints, facts: ClusterFacts) -> list[Operation]:
    """Return the operations that add lowered node affinity to a spec; the spec's own required terms are narrowed."""
    if found.node_affinity is None:
        return []
    affinity = found.node_affinity
    own = pod.spec.affinity and pod.spec.affinity.node_affinity
    tree: dict[str, Any] = codec.to_tree(own) if own else {}
    required = affinity.required_during_scheduling_ignored_during_execution
    if required is not None:
        selector = _lower_selector(required, _own_required(pod), facts)
        tree["requiredDuringSchedulingIgnoredDuringExecution"] = codec.to_tree(selector)
    preferred = [
        PreferredSchedulingTerm(weight=entry.weight, preference=lower_term(entry.preference, OPTIONS))
        for entry in affinity.preferred_during_scheduling_ignored_during_execution
    ]
    if preferred:
        tree.setdefault("preferredDuringSchedulingIgnoredDuringExecution", []).extend(map(codec.to_tree, preferred))
    if pod.spec.affinity is None:
        return [{"op": "add", "path": "/spec/affinity", "value": {"nodeAffinity": tree}}]
    return [{"op": "add", "path": "/spec/affinity/nodeAffinity", "value": tree}]


def _lower_selector(required: NodeSelector, own: NodeSelector | None, facts: ClusterFacts) -> NodeSelector:
    if own is None:
        terms: list[NodeSelectorTerm] = []
        for term in required.node_selector_terms:
            terms.append(lower_term(term, OPTIONS))
            known = term_of_known_values(term, facts.values, OPTIONS)
            terms += [known] if known is not None else []
        return NodeSelector(node_selector_terms=terms)
    if _is_one_term(required):
        addition = lower_term(required.node_selector_terms[0], OPTIONS)
    else:
        label = SelectorRule(required).label
        addition = NodeSelectorTerm(match_expressions=[requirement(label, "In", LABEL_VALUE)])
    # An empty term matches no node and stays empty: with a condition it would match some.
    terms = [
        each if annotations.is_empty(each) else annotations.join_terms(each, addition)
        for each in own.node_selector_terms
    ]
    return NodeSelector(node_selector_terms=terms)


def _is_one_term(required: NodeSelector) -> bool:
    return len(required.node_selector_terms) == 1 and not annotations.is_empty(required.node_selector_terms[0])
