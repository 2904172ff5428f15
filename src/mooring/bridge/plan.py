"""What the bridge does to one pod, worked out from the pod and the cluster. Pure: tests can hold it to the rules.

`wanted` says which labels nodes must have for a pod's annotations; `release` is the one patch that puts stock words in
place of them and opens the gate; `additions` are tolerations that a pod which runs already lacks. Nothing here widens
what the annotations say: where stock words cannot say the same, they say less.
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
from mooring.constraints.lowering import (
    LABEL_PREFIX,
    LABEL_VALUE,
    Constraint,
    constraint_of,
    lower_term,
    lower_tolerations,
    term_of_known_values,
)
from mooring.constraints.lowering.terms import requirement
from mooring.constraints.options import ConstraintOptions

OPTIONS = ConstraintOptions()
"""The bridge itself knows all words, whatever the server's gates are."""
RELEASED = annotations.RELEASED
"""Its value is a digest of the constraints that the pod was released with."""
MOST_TOLERATIONS = 1000
"""A pod gets no more tolerations than this: objects have a limit, and so has the patience of who reads them."""
_MOST_REMEMBERED = 4096
Labels = Mapping[str, str]
Operation = dict[str, Any]
K = TypeVar("K")
V = TypeVar("V")


class TooManyTaintsError(Exception):
    """A pod would need more tolerations than it can have."""


class NodeRule(Protocol):
    """Something that nodes meet or not, and the label that says so."""

    @property
    def label(self) -> str: ...

    def holds_on(self, name: str, labels: Labels) -> bool: ...


@dataclass(frozen=True, eq=False)
class TermRule:
    """The foreign part of one term."""

    constraint: Constraint

    @property
    def label(self) -> str:
        return self.constraint.label

    def holds_on(self, name: str, labels: Labels) -> bool:  # noqa: ARG002 - as the protocol has it
        return self.constraint.is_met_by(labels)


@dataclass(frozen=True, eq=False)
class SelectorRule:
    """A whole selector of several terms, for pods whose spec has a required affinity, too: terms cannot be added."""

    selector: NodeSelector

    @cached_property
    def label(self) -> str:
        text = json.dumps(codec.to_tree(self.selector), sort_keys=True, separators=(",", ":"))
        return LABEL_PREFIX + hashlib.sha256(text.encode()).hexdigest()[:32]

    @cached_property
    def _compiled(self) -> node_selector.Selector:
        return node_selector.selector(self.selector, OPTIONS)

    def holds_on(self, name: str, labels: Labels) -> bool:
        return self._compiled.matches(labels, name)


@dataclass(frozen=True)
class ClusterFacts:
    """What of a cluster decides how constraints are said. Made anew when taints or the values of labels change."""

    taints: Sequence[Taint]
    """The distinct taints of all nodes."""
    values: Mapping[str, Collection[str]]
    """The values of each label that nodes have."""
    _missing: dict[tuple[str, bytes], list[Toleration]] = field(default_factory=dict, repr=False)
    """What was worked out already: pods of one template lack the same."""
    _spec_changes: dict[tuple[str | None, str | None, bytes], list[Operation]] = field(default_factory=dict, repr=False)
    """And their specs are changed in the same way."""

    def missing_from(self, own: Sequence[Toleration], wanted: Sequence[Toleration], text: str) -> list[Toleration]:
        """The tolerations that the annotation `text` asks for, which says `wanted`, beside the spec's own."""
        key = (text, codec.encode(own))
        found = self._missing.get(key)
        if found is None:
            lowered = lower_tolerations([*own, *wanted], self.taints, OPTIONS, OPTIONS, foreign_from=len(own))
            found = lowered[len(own) :]
            _remember(self._missing, key, found)
        return found

    def spec_changes(self, pod: Pod) -> list[Operation]:
        """What changes in the spec of a gated pod that is released; not to be changed. Raises as `release`."""
        given, spec = pod.metadata.annotations, pod.spec
        own = codec.encode((spec.tolerations, spec.affinity, spec.scheduling_gates))
        key = (given.get(TOLERATIONS), given.get(NODE_AFFINITY), own)
        found = self._spec_changes.get(key)
        if found is None:
            found = _spec_changes(pod, self)
            _remember(self._spec_changes, key, found)
        return found


def _remember(known: dict[K, V], key: K, value: V) -> None:
    if len(known) >= _MOST_REMEMBERED:
        known.clear()
    known[key] = value


def is_gated(pod: Pod) -> bool:
    return any(gate.name == GATE for gate in pod.spec.scheduling_gates)


def was_changed_after_release(pod: Pod) -> bool:
    """Whether somebody changed the constraints of a pod that was released with others."""
    released = pod.metadata.annotations.get(RELEASED)
    return released is not None and released != digest(pod) and not is_gated(pod)


def digest(pod: Pod) -> str:
    """What a pod is released with, in few letters."""
    given = pod.metadata.annotations
    return _digest(given.get(TOLERATIONS), given.get(NODE_AFFINITY))


@lru_cache(maxsize=4096)
def _digest(tolerations: str | None, affinity: str | None) -> str:
    return hashlib.sha256(json.dumps([tolerations, affinity]).encode()).hexdigest()[:16]


def own_labels(labels: Labels) -> dict[str, str]:
    """A node's labels without those of the bridge: an expression that counts labels must not count ours."""
    return {key: value for key, value in labels.items() if not key.startswith(LABEL_PREFIX)}


def wanted(pod: Pod) -> list[NodeRule]:
    """The rules whose labels a pod's lowered affinity asks for. Raises `AnnotationError`."""
    text = pod.metadata.annotations.get(NODE_AFFINITY)
    if text is None:
        return []
    if is_gated(pod):
        return list(_rules(text, has_own=_own_required(pod) is not None))
    used = _labels_used(pod)  # a released pod's affinity is the lowered one, which does not say what was its own
    return [rule for has_own in (False, True) for rule in _rules(text, has_own=has_own) if rule.label in used]


def _labels_used(pod: Pod) -> set[str]:
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    if not affinity:
        return set()
    terms = [each.preference for each in affinity.preferred_during_scheduling_ignored_during_execution]
    required = affinity.required_during_scheduling_ignored_during_execution
    terms += required.node_selector_terms if required else []
    return {entry.key for term in terms for entry in term.match_expressions if entry.key.startswith(LABEL_PREFIX)}


@lru_cache(maxsize=4096)
def _rules(text: str, *, has_own: bool) -> tuple[NodeRule, ...]:
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


def wanted_by_volume(volume: PersistentVolume) -> list[NodeRule]:
    """The rules whose labels a volume's node affinity asks for, as `convert` wrote it. Raises `AnnotationError`."""
    required = annotations.read_volume(volume.metadata.annotations)
    terms = required.node_selector_terms if required is not None else []
    return [TermRule(found) for term in terms if (found := constraint_of(term, OPTIONS)) is not None]


def _own_required(pod: Pod) -> NodeSelector | None:
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


# -- what is written


def release(pod: Pod, facts: ClusterFacts) -> list[Operation]:
    """The one patch that says a gated pod's constraints in stock words and takes the gate away.

    It holds for the version of the pod that was looked at. Raises `AnnotationError` and `TooManyTaintsError`.
    """
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": pod.metadata.resource_version},
        {"op": "add", "path": f"/metadata/annotations/{_escaped(RELEASED)}", "value": digest(pod)},
        *facts.spec_changes(pod),
    ]


def _spec_changes(pod: Pod, facts: ClusterFacts) -> list[Operation]:
    found = annotations.read(pod.metadata.annotations)
    gates = [index for index, gate in enumerate(pod.spec.scheduling_gates) if gate.name == GATE]
    return [
        *_adding_tolerations(pod, missing_tolerations(pod, facts)),
        *_affinity(pod, found, facts),
        *({"op": "remove", "path": f"/spec/schedulingGates/{index}"} for index in reversed(gates)),
    ]


def additions(pod: Pod, facts: ClusterFacts) -> list[Operation]:
    """The patch that lets a released pod tolerate taints which it should; nothing if it does. Raises as `release`."""
    found = missing_tolerations(pod, facts)
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": pod.metadata.resource_version}
    return [test, *_adding_tolerations(pod, found)] if found else []


def missing_tolerations(pod: Pod, facts: ClusterFacts) -> list[Toleration]:
    """The `Equal` tolerations that a pod's annotations ask for and its spec does not have yet.

    All of the annotations' tolerations are said so, those in stock words too: they can come only behind the others, and
    for each taint the first that matches counts.
    """
    found = annotations.read(pod.metadata.annotations).tolerations
    if not found:
        return []
    own = pod.spec.tolerations
    missing = facts.missing_from(own, found, pod.metadata.annotations[TOLERATIONS])
    if len(own) + len(missing) > MOST_TOLERATIONS:
        raise TooManyTaintsError(
            f"the taints of the cluster have so many values that the pod would need {len(missing)} tolerations; "
            f"it can have {MOST_TOLERATIONS}: narrow {TOLERATIONS}"
        )
    return missing


def _adding_tolerations(pod: Pod, found: list[Toleration]) -> list[Operation]:
    """The whole list in one operation: the test of the version says that nobody has added to it meanwhile."""
    if not found:
        return []
    return [{"op": "add", "path": "/spec/tolerations", "value": codec.to_tree([*pod.spec.tolerations, *found])}]


def _affinity(pod: Pod, found: Constraints, facts: ClusterFacts) -> list[Operation]:
    """Node affinity in stock words. Terms that the spec has are tightened, since none may be added to them."""
    if found.node_affinity is None:
        return []
    affinity = found.node_affinity
    own = pod.spec.affinity and pod.spec.affinity.node_affinity
    tree: dict[str, Any] = codec.to_tree(own) if own else {}
    required = affinity.required_during_scheduling_ignored_during_execution
    if required is not None:
        selector = _lowered_selector(required, _own_required(pod), facts)
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


def _lowered_selector(required: NodeSelector, own: NodeSelector | None, facts: ClusterFacts) -> NodeSelector:
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
    # An empty term chooses no node, and has to stay: with a condition it would choose some.
    terms = [
        each if annotations.is_empty(each) else annotations.joined(each, addition) for each in own.node_selector_terms
    ]
    return NodeSelector(node_selector_terms=terms)


def _is_one_term(required: NodeSelector) -> bool:
    """Whether the spec's own terms can be tightened by the conditions of this one."""
    return len(required.node_selector_terms) == 1 and not annotations.is_empty(required.node_selector_terms[0])


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
