"""Pods that look alike: a pod is interned into a shape, which has everything of it that scheduling reads.

A shape is found by the encoded bytes of those parts, so that the pods of one template share it, and with it their
verdicts. It is alive as long as a pod in the columns or a cached verdict has it. What is particular to a pod (its name,
its volumes, its resource claims, the node it is pinned to) is not in the shape: plugins of `Scope.POD` read that.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from mooring.api import codec
from mooring.api.core_v1 import Pod, PodSpec
from mooring.api.meta_v1 import OwnerReference
from mooring.constraints.pod_affinity import (
    AffinityTerm,
    WeightedAffinityTerm,
    affinity_term,
    weighted_affinity_term,
)
from mooring.scheduler.columns import requests

if TYPE_CHECKING:  # ``resources.py`` fills it in
    from mooring.scheduler.columns.resources import Usage

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - nothing is bound to it; it is how Kubernetes writes "every address"
_SPREAD_OWNERS = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})


@dataclass(frozen=True, slots=True)
class HostPort:
    protocol: str
    port: int
    address: str


class TermKind(Enum):
    ANTI_AFFINITY = "required anti-affinity"
    AFFINITY = "required affinity"
    PREFERRED = "preferred affinity, or anti-affinity with a negative weight"


class TermKey:
    """A term as placed pods own it. Its hash is kept, because it is looked up for every pod that comes or goes."""

    __slots__ = ("_hash", "kind", "term", "weight")

    def __init__(self, kind: TermKind, term: AffinityTerm, weight: int = 0) -> None:
        self.kind = kind
        self.term = term
        self.weight = weight
        self._hash = hash((kind, term, weight))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TermKey):
            return NotImplemented
        return self.kind is other.kind and self.weight == other.weight and self.term == other.term


@dataclass(frozen=True, slots=True)
class PodTerms:
    """The pod-affinity terms of a pod, compiled."""

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[WeightedAffinityTerm, ...] = ()
    """Preferred affinity, and preferred anti-affinity with negative weights."""
    keys: tuple[TermKey, ...] = ()
    """All of them, as their owner's."""


NO_TERMS = PodTerms()


class PodShape:
    """What pods that look alike have in common. Compared by identity: equal pods have the same shape."""

    __slots__ = (
        "__weakref__",
        "group",
        "images",
        "key",
        "labels",
        "namespace",
        "owner",
        "ports",
        "requests",
        "scored",
        "spec",
        "terms",
        "usage",
    )

    def __init__(self, key: bytes, pod: Pod, *, pod_level: bool) -> None:
        spec = pod.spec
        self.key = key
        self.namespace = pod.metadata.namespace
        self.labels = pod.metadata.labels
        self.group = (self.namespace, frozenset(self.labels.items()))
        """What selectors of other pods can tell it by."""
        self.spec: PodSpec = spec
        """The specification of one of the pods; only what the key has in it may be read."""
        self.owner = spread_owner(pod)
        asked = requests.requests_of(pod, pod_level=pod_level)
        self.requests = requests.in_units(asked)
        """What the pods ask for, by resource."""
        scored = requests.scored_requests_of(pod, pod_level=pod_level)
        self.scored = requests.in_units(scored)
        """What scoring takes them to ask for."""
        self.ports = host_ports(spec)
        self.images = images(spec)
        self.terms = pod_terms(spec, self.namespace)
        self.usage: Usage | None = None
        """What a pod adds to the resource columns; they fill it in."""


@dataclass(slots=True)
class PodInfo:
    """A pod and its shape."""

    pod: Pod
    shape: PodShape


class Shapes:
    """The shapes that are in use, by key."""

    def __init__(self, *, pod_level_resources: bool = True) -> None:
        self._pod_level = pod_level_resources
        self._known: WeakValueDictionary[bytes, PodShape] = WeakValueDictionary()
        self._last_pod: Pod | None = None  # a pod is asked about when it is judged and again when it is placed
        self._last_shape: PodShape | None = None

    def __len__(self) -> int:
        return len(self._known)

    def shape_of(self, pod: Pod) -> PodShape:
        last, shape = self._last_pod, self._last_shape
        if pod is last and shape is not None:
            return shape
        if last is None or shape is None or not _shares_all(pod, last):
            key = shape_key(pod)
            shape = self._known.get(key)
            if shape is None:
                shape = self._known[key] = PodShape(key, pod, pod_level=self._pod_level)
        self._last_pod, self._last_shape = pod, shape
        return shape


def _shares_all(pod: Pod, other: Pod) -> bool:
    """Whether two pods are made of the same objects, as far as `shape_key` looks: so simulations make them."""
    mine, its = pod.metadata, other.metadata
    return (
        pod.spec is other.spec
        and pod.status is other.status
        and mine.labels is its.labels
        and mine.owner_references is its.owner_references
        and mine.namespace == its.namespace
    )


def shape_key(pod: Pod) -> bytes:
    """Bytes that are equal only for pods that scheduling cannot tell apart."""
    spec, metadata = pod.spec, pod.metadata
    parts = (
        metadata.namespace,
        metadata.labels,
        [(container.image, container.resources, container.ports) for container in spec.containers],
        [(entry.image, entry.resources, entry.ports, entry.restart_policy) for entry in spec.init_containers],
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        spec.overhead,
        spec.resources,
        spread_owner(pod) if metadata.owner_references and not spec.topology_spread_constraints else None,
        [volume.image.reference for volume in spec.volumes if volume.image is not None],
        _resized(pod) if pod.status.container_statuses or pod.status.init_container_statuses else None,
    )
    return codec.encode(parts)


def _resized(pod: Pod) -> list[object]:
    """The resources that running containers have, where somebody has reported them."""
    found: list[object] = [
        (status.name, status.resources.requests, status.allocated_resources)
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)
        if status.resources is not None
    ]
    if found:
        found.append([c.reason for c in pod.status.conditions if c.type == "PodResizePending"])
    return found


def spread_owner(pod: Pod) -> tuple[str, str] | None:
    """Kind and name of the workload that default spreading looks at."""
    owner: OwnerReference | None = next((entry for entry in pod.metadata.owner_references if entry.controller), None)
    return (owner.kind, owner.name) if owner is not None and owner.kind in _SPREAD_OWNERS else None


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """The ports of the node that the pod occupies."""
    containers = [*spec.containers, *requests.sidecars(spec.init_containers)]
    return tuple(
        HostPort(port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)
        for container in containers
        for port in container.ports
        if port.host_port > 0
    )


def images(spec: PodSpec) -> tuple[str, ...]:
    """The images that the pod needs, each as often as it is named, with their tag."""
    found = [container.image for container in (*spec.init_containers, *spec.containers)]
    found += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    return tuple(with_tag(image) for image in found)


def with_tag(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def pod_terms(spec: PodSpec, namespace: str) -> PodTerms:
    affinity = spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    near, far = affinity.pod_affinity, affinity.pod_anti_affinity
    required = near.required_during_scheduling_ignored_during_execution if near else []
    forbidden = far.required_during_scheduling_ignored_during_execution if far else []
    liked = near.preferred_during_scheduling_ignored_during_execution if near else []
    disliked = far.preferred_during_scheduling_ignored_during_execution if far else []
    preferred = [weighted_affinity_term(entry, namespace) for entry in liked]
    for entry in disliked:
        weighted = weighted_affinity_term(entry, namespace)
        preferred.append(WeightedAffinityTerm(-weighted.weight, weighted.term))
    near_terms = tuple(affinity_term(entry, namespace) for entry in required)
    far_terms = tuple(affinity_term(entry, namespace) for entry in forbidden)
    keys = [TermKey(TermKind.ANTI_AFFINITY, term) for term in far_terms]
    keys += [TermKey(TermKind.AFFINITY, term) for term in near_terms]
    keys += [TermKey(TermKind.PREFERRED, entry.term, entry.weight) for entry in preferred]
    return PodTerms(near_terms, far_terms, tuple(preferred), tuple(keys))
