"""Whole objects in the words of one node: what its kubelet judges again when a pod or a volume arrives there.

The taints and labels of the node are known, so no label is needed: the foreign part of a term is left out where the
node meets it, and the whole term becomes one that no node meets where it does not. Called by the API server when a node
reads pods and volumes; the node's own verdict on the rest of the term stays its own.
"""

from collections.abc import Hashable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec import structs

from mooring.api.core_v1 import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PersistentVolume,
    Pod,
    PodSpec,
    Taint,
)
from mooring.constraints.lowering.terms import LABEL_PREFIX, constraint_of, replace_foreign, requirement
from mooring.constraints.lowering.tolerations import lower_tolerations
from mooring.constraints.lowering.words import STOCK, has_foreign_words, is_foreign, understood
from mooring.constraints.options import ConstraintOptions

_UNMET: Final = LABEL_PREFIX + "unmet"
"""A label that nodes do not have, for terms of which nothing else is left."""
_NEVER: Final = NodeSelectorTerm(match_expressions=[requirement(_UNMET, "Exists"), requirement(_UNMET, "DoesNotExist")])
"""No node meets this, whatever its labels."""


class NodeWords(msgspec.Struct, frozen=True):
    """What of a node decides how objects are put to it."""

    taints: tuple[Taint, ...]
    labels: Mapping[str, str]
    known: ConstraintOptions = STOCK
    """The new words that it understands, by the features it declares."""


class Reliance(NamedTuple):
    """What of a node decides how it reads an object: nodes that are alike in this read the same."""

    taints: bool
    """Whether its taints count."""
    times: bool
    """Whether it counts when they were added."""
    labels: tuple[str, ...] | None
    """The keys of the labels that count; None for all of them."""

    def words(self, node: NodeWords) -> Hashable:
        """What counts of a node: equal for nodes that read the object alike."""
        taints = [
            (taint.key, taint.value, taint.effect, taint.time_added if self.times else None)
            for taint in (node.taints if self.taints else ())
        ]
        keys = sorted(node.labels) if self.labels is None else self.labels
        return (*taints,), (*((key, node.labels.get(key)) for key in keys),), node.known


def reliance(obj: Pod | PersistentVolume, options: ConstraintOptions) -> Reliance:
    """What of a node decides how an object is lowered for it."""
    tolerations = [entry for entry in obj.spec.tolerations if is_foreign(entry)] if isinstance(obj, Pod) else []
    labels: set[str] | None = set()
    for term in _terms(obj):
        constraint = constraint_of(term, options)
        if constraint is not None and labels is not None:
            labels = None if constraint.reads is None else labels | set(constraint.reads)
    return Reliance(
        taints=bool(tolerations),
        times=any(entry.expression for entry in tolerations),
        labels=None if labels is None else tuple(sorted(labels)),
    )


def _terms(obj: Pod | PersistentVolume) -> Iterator[NodeSelectorTerm]:
    if isinstance(obj, PersistentVolume):
        if obj.spec.node_affinity and obj.spec.node_affinity.required:
            yield from obj.spec.node_affinity.required.node_selector_terms
        return
    affinity = obj.spec.affinity and obj.spec.affinity.node_affinity
    if affinity:
        required = affinity.required_during_scheduling_ignored_during_execution
        yield from required.node_selector_terms if required else ()
        for entry in affinity.preferred_during_scheduling_ignored_during_execution:
            yield entry.preference


def lower_pod(pod: Pod, node: NodeWords, options: ConstraintOptions) -> Pod:
    """The pod as `node` should read it; the same object when there is nothing to say differently."""
    known = understood(node.known, options)
    if not has_foreign_words(pod.spec, known):
        return pod
    spec = structs.replace(pod.spec, tolerations=lower_tolerations(pod.spec.tolerations, node.taints, options, known))
    return structs.replace(pod, spec=_with_lowered_affinity(spec, node, options))


def lower_volume(volume: PersistentVolume, node: NodeWords, options: ConstraintOptions) -> PersistentVolume:
    """The volume as `node` should read it: kubelets check its node affinity before they mount it."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return volume
    lowered = _selector(affinity.required, node, options)
    if lowered is affinity.required:
        return volume
    spec = structs.replace(volume.spec, node_affinity=structs.replace(affinity, required=lowered))
    return structs.replace(volume, spec=spec)


def _with_lowered_affinity(spec: PodSpec, node: NodeWords, options: ConstraintOptions) -> PodSpec:
    affinity = spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return spec
    lowered = _node_affinity(affinity.node_affinity, node, options)
    return structs.replace(spec, affinity=structs.replace(affinity, node_affinity=lowered))


def _node_affinity(affinity: NodeAffinity, node: NodeWords, options: ConstraintOptions) -> NodeAffinity:
    required = affinity.required_during_scheduling_ignored_during_execution
    return structs.replace(
        affinity,
        required_during_scheduling_ignored_during_execution=required and _selector(required, node, options),
        preferred_during_scheduling_ignored_during_execution=[
            structs.replace(entry, preference=_term(entry.preference, node, options))
            for entry in affinity.preferred_during_scheduling_ignored_during_execution
        ],
    )


def _selector(selector: NodeSelector, node: NodeWords, options: ConstraintOptions) -> NodeSelector:
    terms = [_term(term, node, options) for term in selector.node_selector_terms]
    if all(lowered is term for lowered, term in zip(terms, selector.node_selector_terms, strict=True)):
        return selector
    return structs.replace(selector, node_selector_terms=terms)


def _term(term: NodeSelectorTerm, node: NodeWords, options: ConstraintOptions) -> NodeSelectorTerm:
    constraint = constraint_of(term, options, node.known)
    if constraint is None:
        return term
    if not constraint.is_met_by(node.labels):
        return _NEVER
    lowered = replace_foreign(term, [], understood(node.known, options))
    if lowered.match_expressions or lowered.match_fields or lowered.match_cel_expressions:
        return lowered
    # A term without conditions matches nothing, so one that every node meets takes the place of the last that held.
    return structs.replace(lowered, match_expressions=[requirement(_UNMET, "DoesNotExist")])
