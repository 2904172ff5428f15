"""Lower whole objects for one node, whose kubelet evaluates a pod or a volume again when it arrives.

The node's taints and labels are known, so no marker label is needed: the unsupported part of a term is removed if the
node matches it; otherwise the whole term becomes one that no node matches. The kubelet still evaluates the rest of the
term. Used by the API server when a node reads pods and volumes.
"""

from collections.abc import Mapping
from typing import Final

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
from mooring.constraints.lowering.support import STOCK, common_features, needs_lowering
from mooring.constraints.lowering.terms import LABEL_PREFIX, constraint_of, replace_unsupported, requirement
from mooring.constraints.lowering.tolerations import lower_tolerations
from mooring.constraints.options import ConstraintOptions

_UNMET: Final = LABEL_PREFIX + "unmet"
"""A label that no node has, for terms with nothing else left."""
_NEVER: Final = NodeSelectorTerm(match_expressions=[requirement(_UNMET, "Exists"), requirement(_UNMET, "DoesNotExist")])
"""A term that no node matches."""


class NodeProperties(msgspec.Struct, frozen=True):
    """The properties of a node that decide how objects are lowered for it."""

    taints: tuple[Taint, ...]
    labels: Mapping[str, str]
    known: ConstraintOptions = STOCK
    """The new features that the node declares to support."""


def lower_pod(pod: Pod, node: NodeProperties, options: ConstraintOptions) -> Pod:
    """Return the pod as `node` should read it; the same object if nothing needs lowering."""
    known = common_features(node.known, options)
    if not needs_lowering(pod.spec, known):
        return pod
    spec = structs.replace(pod.spec, tolerations=lower_tolerations(pod.spec.tolerations, node.taints, options, known))
    return structs.replace(pod, spec=_with_lowered_affinity(spec, node, options))


def lower_volume(volume: PersistentVolume, node: NodeProperties, options: ConstraintOptions) -> PersistentVolume:
    """Return the volume as `node` should read it: kubelets check its node affinity before mounting."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return volume
    lowered = _selector(affinity.required, node, options)
    if lowered is affinity.required:
        return volume
    spec = structs.replace(volume.spec, node_affinity=structs.replace(affinity, required=lowered))
    return structs.replace(volume, spec=spec)


def _with_lowered_affinity(spec: PodSpec, node: NodeProperties, options: ConstraintOptions) -> PodSpec:
    affinity = spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return spec
    lowered = _node_affinity(affinity.node_affinity, node, options)
    return structs.replace(spec, affinity=structs.replace(affinity, node_affinity=lowered))


def _node_affinity(affinity: NodeAffinity, node: NodeProperties, options: ConstraintOptions) -> NodeAffinity:
    required = affinity.required_during_scheduling_ignored_during_execution
    return structs.replace(
        affinity,
        required_during_scheduling_ignored_during_execution=required and _selector(required, node, options),
        preferred_during_scheduling_ignored_during_execution=[
            structs.replace(entry, preference=_term(entry.preference, node, options))
            for entry in affinity.preferred_during_scheduling_ignored_during_execution
        ],
    )


def _selector(selector: NodeSelector, node: NodeProperties, options: ConstraintOptions) -> NodeSelector:
    terms = [_term(term, node, options) for term in selector.node_selector_terms]
    if all(lowered is term for lowered, term in zip(terms, selector.node_selector_terms, strict=True)):
        return selector
    return structs.replace(selector, node_selector_terms=terms)


def _term(term: NodeSelectorTerm, node: NodeProperties, options: ConstraintOptions) -> NodeSelectorTerm:
    constraint = constraint_of(term, options, node.known)
    if constraint is None:
        return term
    if not constraint.is_met_by(node.labels):
        return _NEVER
    lowered = replace_unsupported(term, [], common_features(node.known, options))
    if lowered.match_expressions or lowered.match_fields or lowered.match_cel_expressions:
        return lowered
    # A term without conditions matches nothing, so replace the last satisfied condition by one that every node matches.
    return structs.replace(lowered, match_expressions=[requirement(_UNMET, "DoesNotExist")])
