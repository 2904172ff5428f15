"""Constraints in a pod's annotations, for API servers whose schema lacks the fields.

    metadata:
      annotations:
        constraints.mooring.dev/tolerations: |
          - {key: sla, operator: Gt, value: "950", effect: NoExecute}
        constraints.mooring.dev/node-affinity: |
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms: [{matchExpressions: [{key: kernel, operator: SemverGt, values: ["6.0"]}]}]

The values have the schemas of `spec.tolerations` and `spec.affinity.nodeAffinity`, in YAML or JSON. They add to the
spec: tolerations are appended, and a node must match both required affinities. `read` parses them; `as_in_spec` merges
them into the spec, for evaluation. The bridge lowers them; ``mooring.admission.pod.annotations`` validates
them.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import structs

from mooring.api import codec, core_v1

TOLERATIONS: Final = "constraints.mooring.dev/tolerations"
NODE_AFFINITY: Final = "constraints.mooring.dev/node-affinity"
GATE: Final = "constraints.mooring.dev/bridge"
"""The scheduling gate that holds a pod until the bridge has lowered its constraints."""
RELEASED: Final = "constraints.mooring.dev/released"
"""The annotation of a pod that the bridge has released: its spec holds the lowered constraints."""
UNREADABLE: Final = "constraints.mooring.dev/unreadable"
"""Set only in memory: why a pod's annotations cannot be parsed. See `as_scheduled`."""
MAX_ANNOTATION_BYTES: Final = 64 * 1024
"""The maximum size of one annotation. (All annotations of an object may take 256 KiB.)"""
MAX_TERMS: Final = 64
"""The maximum number of terms after combining both required affinities."""


class AnnotationError(ValueError):
    """An annotation cannot be parsed. `key` is its name; the message says why."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(problem)
        self.key = key


class _Tolerations(msgspec.Struct, frozen=True):
    """A wrapper struct: the decoder that reports field paths needs one around the list."""

    tolerations: list[core_v1.Toleration] = []


class Constraints(msgspec.Struct, frozen=True):
    """The constraints in a pod's annotations."""

    tolerations: tuple[core_v1.Toleration, ...] = ()
    node_affinity: core_v1.NodeAffinity | None = None


def has_constraints(annotations: Mapping[str, str]) -> bool:
    """Whether there are constraint annotations."""
    return TOLERATIONS in annotations or NODE_AFFINITY in annotations


def read(annotations: Mapping[str, str]) -> Constraints:
    """Parse the constraint annotations. Raise `AnnotationError`."""
    return _read(annotations.get(TOLERATIONS), annotations.get(NODE_AFFINITY))


@lru_cache(maxsize=4096)
def _read(tolerations: str | None, affinity: str | None) -> Constraints:
    found: tuple[core_v1.Toleration, ...] = ()
    if tolerations is not None:
        tree = _tree(TOLERATIONS, tolerations)
        if not isinstance(tree, list):
            raise AnnotationError(TOLERATIONS, "must be a list of tolerations, as in spec.tolerations")
        found = tuple(_decode(TOLERATIONS, {"tolerations": tree}, _Tolerations).tolerations)
    node_affinity = None
    if affinity is not None:
        tree = _tree(NODE_AFFINITY, affinity)
        if not isinstance(tree, dict):
            raise AnnotationError(NODE_AFFINITY, "must be an object, as in spec.affinity.nodeAffinity")
        node_affinity = _decode(NODE_AFFINITY, tree, core_v1.NodeAffinity)
    return Constraints(found, node_affinity)


def read_volume(annotations: Mapping[str, str]) -> core_v1.NodeSelector | None:
    """Parse a PersistentVolume's annotation, which has the schema of its `nodeAffinity`. Raise `AnnotationError`."""
    text = annotations.get(NODE_AFFINITY)
    if text is None:
        return None
    found: core_v1.VolumeNodeAffinity = _decode(NODE_AFFINITY, _tree(NODE_AFFINITY, text), core_v1.VolumeNodeAffinity)
    return found.required


def _tree(key: str, text: str) -> Any:
    try:
        documents = [document.tree for document in codec.read_yaml(text, max_bytes=MAX_ANNOTATION_BYTES)]
    except codec.DecodeError as error:
        raise AnnotationError(key, str(error)) from error
    if len(documents) != 1:
        raise AnnotationError(key, "must be one document of YAML or JSON")
    return documents[0]


def _decode(key: str, tree: Any, cls: Any) -> Any:
    try:
        return codec.decode_tree(tree, cls, codec.FieldValidation.STRICT).object
    except codec.DecodeError as error:
        raise AnnotationError(key, str(error)) from error


def as_in_spec(pod: core_v1.Pod) -> core_v1.Pod:
    """Return the pod with the annotations' constraints merged into its spec. Raise `AnnotationError`."""
    if not has_constraints(pod.metadata.annotations):
        return pod
    return structs.replace(pod, spec=_merge_into_spec(pod.spec, read(pod.metadata.annotations)))


def as_scheduled(pod: core_v1.Pod) -> core_v1.Pod:
    """Return the pod as a scheduler that knows the new operators must treat it.

    The annotations are removed, because the spec has them. A pod that the bridge has released is returned unchanged:
    its spec is complete. Unparsable annotations fail closed: the pod matches no node, and `UNREADABLE` says why.
    """
    given = pod.metadata.annotations
    if not given or not has_constraints(given) or RELEASED in given:
        return pod
    try:
        rest = {key: text for key, text in given.items() if key not in (TOLERATIONS, NODE_AFFINITY)}
        return structs.replace(as_in_spec(pod), metadata=structs.replace(pod.metadata, annotations=rest))
    except AnnotationError as error:
        noted = {**given, UNREADABLE: f"metadata.annotations[{error.key}]: {error}"}
        nowhere = core_v1.NodeAffinity(required_during_scheduling_ignored_during_execution=core_v1.NodeSelector())
        affinity = structs.replace(pod.spec.affinity or core_v1.Affinity(), node_affinity=nowhere)
        return structs.replace(
            pod,
            metadata=structs.replace(pod.metadata, annotations=noted),
            spec=structs.replace(pod.spec, affinity=affinity),
        )


def without_bridge(pod: core_v1.Pod) -> core_v1.Pod:
    """Return the pod as scheduled and without the bridge's scheduling gate, for advice."""
    taken = as_scheduled(pod)
    if taken is pod or UNREADABLE in taken.metadata.annotations:
        return taken
    gates = [gate for gate in taken.spec.scheduling_gates if gate.name != GATE]
    return structs.replace(taken, spec=structs.replace(taken.spec, scheduling_gates=gates))


def _merge_into_spec(spec: core_v1.PodSpec, constraints: Constraints) -> core_v1.PodSpec:
    spec = structs.replace(spec, tolerations=[*spec.tolerations, *constraints.tolerations])
    wanted = constraints.node_affinity
    if wanted is None:
        return spec
    affinity = spec.affinity or core_v1.Affinity()
    own = affinity.node_affinity or core_v1.NodeAffinity()
    preferred = [
        *own.preferred_during_scheduling_ignored_during_execution,
        *wanted.preferred_during_scheduling_ignored_during_execution,
    ]
    required = intersect_selectors(
        own.required_during_scheduling_ignored_during_execution,
        wanted.required_during_scheduling_ignored_during_execution,
    )
    node_affinity = core_v1.NodeAffinity(
        required_during_scheduling_ignored_during_execution=required,
        preferred_during_scheduling_ignored_during_execution=preferred,
    )
    return structs.replace(spec, affinity=structs.replace(affinity, node_affinity=node_affinity))


def intersect_selectors(
    one: core_v1.NodeSelector | None, other: core_v1.NodeSelector | None
) -> core_v1.NodeSelector | None:
    """Return a selector that matches the nodes that match both: every pair of their terms. Raise `AnnotationError`."""
    if one is None or other is None:
        return one or other
    if len(one.node_selector_terms) * len(other.node_selector_terms) > MAX_TERMS:
        raise AnnotationError(
            NODE_AFFINITY, f"together with spec.affinity.nodeAffinity it has more than {MAX_TERMS} pairs of terms"
        )
    return core_v1.NodeSelector(
        node_selector_terms=[
            join_terms(a, b)
            for a in one.node_selector_terms
            if not is_empty(a)
            for b in other.node_selector_terms
            if not is_empty(b)
        ]
    )


def join_terms(one: core_v1.NodeSelectorTerm, other: core_v1.NodeSelectorTerm) -> core_v1.NodeSelectorTerm:
    """Return a term with the conditions of both; neither may be empty."""
    return core_v1.NodeSelectorTerm(
        match_expressions=[*one.match_expressions, *other.match_expressions],
        match_fields=[*one.match_fields, *other.match_fields],
        match_cel_expressions=[*one.match_cel_expressions, *other.match_cel_expressions],
    )


def is_empty(term: core_v1.NodeSelectorTerm) -> bool:
    """Whether a term has no conditions. Such a term matches no node, so it must not be joined with another."""
    return not (term.match_expressions or term.match_fields or term.match_cel_expressions)
