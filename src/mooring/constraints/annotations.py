"""Constraints that stand in a pod's annotations, for servers whose spec has no place for them.

    metadata:
      annotations:
        constraints.mooring.dev/tolerations: |
          - {key: sla, operator: Gt, value: "950", effect: NoExecute}
        constraints.mooring.dev/node-affinity: |
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms: [{matchExpressions: [{key: kernel, operator: SemverGt, values: ["6.0"]}]}]

The texts are those of `spec.tolerations` and `spec.affinity.nodeAffinity`, in YAML or JSON. They hold beside what
stands in the spec: tolerations come behind the spec's, and a node has to meet both required affinities. `read` reads
them, `as_in_spec` gives the pod that says the same in its spec, for whoever judges by the new rules. The bridge lowers
them; ``mooring.admission.pod.constraint_annotations`` validates them.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import structs

from mooring.api import codec
from mooring.api.core_v1 import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Toleration,
    VolumeNodeAffinity,
)

TOLERATIONS: Final = "constraints.mooring.dev/tolerations"
NODE_AFFINITY: Final = "constraints.mooring.dev/node-affinity"
GATE: Final = "constraints.mooring.dev/bridge"
"""The scheduling gate that holds a pod until the bridge has said its constraints in stock words."""
RELEASED: Final = "constraints.mooring.dev/released"
"""The annotation of a pod that the bridge has released: its spec says in stock words what the annotations say."""
UNREADABLE: Final = "constraints.mooring.dev/unreadable"
"""Only in memory: why the annotations of a pod cannot be obeyed. See `as_scheduled`."""
MOST_BYTES: Final = 64 * 1024
"""As long as one annotation may be. (All annotations of an object may have 256 KiB.)"""
MOST_TERMS: Final = 64
"""So many terms may come of both required affinities together."""


class AnnotationError(ValueError):
    """An annotation that cannot be read. `key` is its name; the message says what is wrong."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key


class _Tolerations(msgspec.Struct, frozen=True):
    """A list alone is no struct, and the decoder that names fields wants one."""

    tolerations: list[Toleration] = []


class Constraints(msgspec.Struct, frozen=True):
    """What the annotations of a pod say."""

    tolerations: tuple[Toleration, ...] = ()
    node_affinity: NodeAffinity | None = None


def are_in(annotations: Mapping[str, str]) -> bool:
    """Whether there is anything to read."""
    return TOLERATIONS in annotations or NODE_AFFINITY in annotations


def read(annotations: Mapping[str, str]) -> Constraints:
    """What annotations say. Raises `AnnotationError`."""
    return _read(annotations.get(TOLERATIONS), annotations.get(NODE_AFFINITY))


@lru_cache(maxsize=4096)
def _read(tolerations: str | None, affinity: str | None) -> Constraints:
    found: tuple[Toleration, ...] = ()
    if tolerations is not None:
        tree = _tree(TOLERATIONS, tolerations)
        if not isinstance(tree, list):
            raise AnnotationError(TOLERATIONS, "must be a list of tolerations, as in spec.tolerations")
        found = tuple(_decoded(TOLERATIONS, {"tolerations": tree}, _Tolerations).tolerations)
    node_affinity = None
    if affinity is not None:
        tree = _tree(NODE_AFFINITY, affinity)
        if not isinstance(tree, dict):
            raise AnnotationError(NODE_AFFINITY, "must be an object, as in spec.affinity.nodeAffinity")
        node_affinity = _decoded(NODE_AFFINITY, tree, NodeAffinity)
    return Constraints(found, node_affinity)


def read_volume(annotations: Mapping[str, str]) -> NodeSelector | None:
    """What the annotation of a PersistentVolume says, in the words of its `nodeAffinity`. Raises `AnnotationError`."""
    text = annotations.get(NODE_AFFINITY)
    if text is None:
        return None
    found: VolumeNodeAffinity = _decoded(NODE_AFFINITY, _tree(NODE_AFFINITY, text), VolumeNodeAffinity)
    return found.required


def _tree(key: str, text: str) -> Any:
    try:
        documents = [document.tree for document in codec.read_yaml(text, max_bytes=MOST_BYTES)]
    except codec.DecodeError as error:
        raise AnnotationError(key, str(error)) from error
    if len(documents) != 1:
        raise AnnotationError(key, "must be one document of YAML or JSON")
    return documents[0]


def _decoded(key: str, tree: Any, cls: Any) -> Any:
    try:
        return codec.decode_tree(tree, cls, codec.FieldValidation.STRICT).object
    except codec.DecodeError as error:
        raise AnnotationError(key, str(error)) from error


def as_in_spec(pod: Pod) -> Pod:
    """The pod with its annotations' constraints in its spec; itself where there are none. Raises `AnnotationError`."""
    if not are_in(pod.metadata.annotations):
        return pod
    return structs.replace(pod, spec=_with(pod.spec, read(pod.metadata.annotations)))


def as_scheduled(pod: Pod) -> Pod:
    """The pod as a scheduler that knows the new words has to take it; itself where it has no annotations.

    The annotations are gone from it, since its spec has them. What the bridge has released says everything in its spec.
    What cannot be read fails closed: no node will do, and `UNREADABLE` says why.
    """
    given = pod.metadata.annotations
    if not given or not are_in(given) or RELEASED in given:
        return pod
    try:
        rest = {key: text for key, text in given.items() if key not in (TOLERATIONS, NODE_AFFINITY)}
        return structs.replace(as_in_spec(pod), metadata=structs.replace(pod.metadata, annotations=rest))
    except AnnotationError as error:
        noted = {**given, UNREADABLE: f"metadata.annotations[{error.key}]: {error}"}
        nowhere = NodeAffinity(required_during_scheduling_ignored_during_execution=NodeSelector())
        affinity = structs.replace(pod.spec.affinity or Affinity(), node_affinity=nowhere)
        return structs.replace(
            pod,
            metadata=structs.replace(pod.metadata, annotations=noted),
            spec=structs.replace(pod.spec, affinity=affinity),
        )


def without_bridge(pod: Pod) -> Pod:
    """The same without the bridge's gate, for questions: a pod does not wait for what has been read already."""
    taken = as_scheduled(pod)
    if taken is pod or UNREADABLE in taken.metadata.annotations:
        return taken
    gates = [gate for gate in taken.spec.scheduling_gates if gate.name != GATE]
    return structs.replace(taken, spec=structs.replace(taken.spec, scheduling_gates=gates))


def _with(spec: PodSpec, constraints: Constraints) -> PodSpec:
    spec = structs.replace(spec, tolerations=[*spec.tolerations, *constraints.tolerations])
    wanted = constraints.node_affinity
    if wanted is None:
        return spec
    affinity = spec.affinity or Affinity()
    own = affinity.node_affinity or NodeAffinity()
    preferred = [
        *own.preferred_during_scheduling_ignored_during_execution,
        *wanted.preferred_during_scheduling_ignored_during_execution,
    ]
    required = both(
        own.required_during_scheduling_ignored_during_execution,
        wanted.required_during_scheduling_ignored_during_execution,
    )
    node_affinity = NodeAffinity(
        required_during_scheduling_ignored_during_execution=required,
        preferred_during_scheduling_ignored_during_execution=preferred,
    )
    return structs.replace(spec, affinity=structs.replace(affinity, node_affinity=node_affinity))


def both(one: NodeSelector | None, other: NodeSelector | None) -> NodeSelector | None:
    """The selector that chooses the nodes which both choose: every pair of their terms. Raises `AnnotationError`."""
    if one is None or other is None:
        return one or other
    if len(one.node_selector_terms) * len(other.node_selector_terms) > MOST_TERMS:
        raise AnnotationError(
            NODE_AFFINITY, f"together with spec.affinity.nodeAffinity it has more than {MOST_TERMS} pairs of terms"
        )
    return NodeSelector(
        node_selector_terms=[
            joined(a, b)
            for a in one.node_selector_terms
            if not is_empty(a)
            for b in other.node_selector_terms
            if not is_empty(b)
        ]
    )


def joined(one: NodeSelectorTerm, other: NodeSelectorTerm) -> NodeSelectorTerm:
    """The term that asks for what both ask for; neither may be empty."""
    return NodeSelectorTerm(
        match_expressions=[*one.match_expressions, *other.match_expressions],
        match_fields=[*one.match_fields, *other.match_fields],
        match_cel_expressions=[*one.match_cel_expressions, *other.match_cel_expressions],
    )


def is_empty(term: NodeSelectorTerm) -> bool:
    """A term without conditions chooses no node; joined with another it would choose what that one does."""
    return not (term.match_expressions or term.match_fields or term.match_cel_expressions)
