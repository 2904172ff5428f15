"""Pods that look alike: a pod is interned into a shape, which has everything of it that scheduling reads.

A shape is found by the encoded bytes of what is `Signed`, so that the pods of one template share it, and with it their
verdicts; and it is made of nothing else, so that what is not signed cannot be read from it. Each plugin says which
`Part`s of it it reads, and is shown only these. It is alive as long as a pod in the columns or a cached verdict has it.
What is particular to a pod (its name, its volumes, its resource claims, the node it is pinned to) is not in the shape:
plugins of `Scope.POD` read that, and others sign what they need of it themselves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, Flag, auto
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from mooring.api import codec
from mooring.api.core_v1 import (
    Affinity,
    Container,
    ContainerPort,
    ContainerStatus,
    ImageVolumeSource,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.quantity import Quantity
from mooring.api.states import controller_of
from mooring.constraints import requests
from mooring.constraints.pod_affinity import (
    AffinityTerm,
    WeightedAffinityTerm,
    affinity_term,
    weighted_affinity_term,
)

if TYPE_CHECKING:  # ``resources.py`` fills it in
    from mooring.scheduler.columns.resources import Usage

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - nothing is bound to it; it is how Kubernetes writes "every address"
RESIZE = "PodResizePending"
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


class Part(Flag):
    """What plugins may read of a shape."""

    LABELS = auto()
    """`namespace`, `labels` and `group`."""
    RESOURCES = auto()
    """`requests` and `scored`."""
    PORTS = auto()
    """`ports`."""
    IMAGES = auto()
    """`images`."""
    NODE_AFFINITY = auto()
    """`spec.node_selector`, and node affinity in `spec.affinity`."""
    TOLERATIONS = auto()
    """`spec.tolerations`."""
    POD_AFFINITY = auto()
    """`terms`."""
    SPREAD = auto()
    """`spec.topology_spread_constraints`, and `owner` for pods that have none."""
    ALL = LABELS | RESOURCES | PORTS | IMAGES | NODE_AFFINITY | TOLERATIONS | POD_AFFINITY | SPREAD


_OFFERED = {
    Part.LABELS: ("namespace", "labels", "group"),
    Part.RESOURCES: ("requests", "scored"),
    Part.PORTS: ("ports",),
    Part.IMAGES: ("images",),
    Part.POD_AFFINITY: ("terms",),
    Part.SPREAD: ("owner",),
}
Sign: TypeAlias = Callable[[Pod], object]
"""What a plugin reads of a pod beyond the parts, to be encoded; it must not differ for pods of one template."""
Signer: TypeAlias = tuple[str, str]
"""A profile and a plugin in it."""
_NO_SIGNATURES: dict[Signer, object] = {}
Sight: TypeAlias = tuple[Signer, Part]
"""Who looks at a shape, and the parts of it that it sees."""


class Signed(NamedTuple):
    """All of a pod that shapes are made of."""

    namespace: str
    labels: dict[str, str]
    containers: list[tuple[str, ResourceRequirements, list[ContainerPort]]]
    init_containers: list[tuple[str, ResourceRequirements, list[ContainerPort], str | None]]
    node_selector: dict[str, str]
    affinity: Affinity | None
    tolerations: list[Toleration]
    spread: list[TopologySpreadConstraint]
    overhead: dict[str, Quantity]
    resources: ResourceRequirements | None
    owner: tuple[str, str] | None
    image_volumes: list[str]
    resized: PodStatus | None
    names: list[str] | None

    def pod(self) -> Pod:
        """A pod that has nothing else."""
        names = iter(self.names or repeat(""))
        spec = PodSpec(
            containers=[
                Container(image=image, resources=resources, ports=ports, name=next(names))
                for image, resources, ports in self.containers
            ],
            init_containers=[
                Container(image=image, resources=resources, ports=ports, restart_policy=policy, name=next(names))
                for image, resources, ports, policy in self.init_containers
            ],
            node_selector=self.node_selector,
            affinity=self.affinity,
            tolerations=self.tolerations,
            topology_spread_constraints=self.spread,
            overhead=self.overhead,
            resources=self.resources,
            volumes=[Volume(name="", image=ImageVolumeSource(reference=each)) for each in self.image_volumes],
        )
        metadata = ObjectMeta(namespace=self.namespace, labels=self.labels)
        return Pod(metadata=metadata, spec=spec, status=self.resized or PodStatus())


def _signed(pod: Pod) -> tuple[Any, ...]:
    """The fields of `Signed` for a pod: a plain tuple, because it is made for every pod, and a shape seldom."""
    spec, metadata, status = pod.spec, pod.metadata, pod.status
    resized = resized_resources(pod) if status.container_statuses or status.init_container_statuses else None
    containers: list[Any] = [(each.image, each.resources, each.ports) for each in spec.containers]
    starting: list[Any] = [
        (each.image, each.resources, each.ports, each.restart_policy) for each in spec.init_containers
    ]
    return (
        metadata.namespace,
        metadata.labels,
        containers,
        starting,
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        spec.overhead,
        spec.resources,
        spread_owner(pod) if metadata.owner_references and not spec.topology_spread_constraints else None,
        [volume.image.reference for volume in spec.volumes if volume.image is not None],
        resized,
        # Names matter only where statuses tell which container they are about.
        None if resized is None else [each.name for each in (*spec.containers, *spec.init_containers)],
    )


def resized_resources(pod: Pod) -> PodStatus | None:
    """The resources that running containers have, where somebody has reported others than they ask for."""
    status = pod.status
    if _has_what_it_asks_for(pod):
        return None
    running, starting = (
        [_resources_of(each) for each in statuses if each.resources is not None]
        for statuses in (status.container_statuses, status.init_container_statuses)
    )
    if not running and not starting:
        return None
    pending = [PodCondition(type=each.type, reason=each.reason) for each in status.conditions if each.type == RESIZE]
    return PodStatus(container_statuses=running, init_container_statuses=starting, conditions=pending)


def _has_what_it_asks_for(pod: Pod) -> bool:
    """Whether all containers have the resources that they ask for, so that a pod which runs looks as it did before."""
    asked = {each.name: each.resources.requests for each in (*pod.spec.containers, *pod.spec.init_containers)}
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        if status.resources is None:
            continue
        wanted = asked.get(status.name)
        if status.resources.requests != wanted or (status.allocated_resources or wanted) != wanted:
            return False
    return True


def _resources_of(status: ContainerStatus) -> ContainerStatus:
    asked = None if status.resources is None else ResourceRequirements(requests=status.resources.requests)
    return ContainerStatus(name=status.name, resources=asked, allocated_resources=status.allocated_resources)


class PodShape:
    """What pods that look alike have in common. Compared by identity: equal pods have the same shape."""

    __slots__ = (
        "__weakref__",
        "_signatures",
        "group",
        "images",
        "key",
        "labels",
        "namespace",
        "own",
        "owner",
        "ports",
        "requests",
        "scored",
        "spec",
        "terms",
        "usage",
    )

    def __init__(self, key: bytes, signed: Signed, signatures: Mapping[Signer, object], *, pod_level: bool) -> None:
        pod = signed.pod()
        self.key = key
        self.namespace = signed.namespace
        self.labels = signed.labels
        self.group = (self.namespace, frozenset(self.labels.items()))
        """What selectors of other pods can tell it by."""
        self.spec: PodSpec = pod.spec
        """What is signed of the specification of the pods; everything else is absent."""
        self.owner = signed.owner
        self.requests = requests.in_units(requests.requests_of(pod, pod_level=pod_level))
        """What the pods ask for, by resource."""
        self.scored = requests.in_units(requests.scored_requests_of(pod, pod_level=pod_level))
        """What scoring takes them to ask for."""
        self.ports = host_ports(pod.spec)
        self.images = images(pod.spec)
        self.terms = pod_terms(pod.spec, self.namespace)
        self.usage: Usage | None = None
        """What a pod adds to the resource columns; they fill it in."""
        self.own: object = None
        """What the plugin that looks at it has signed itself."""
        self._signatures = signatures

    def seen_by(self, sight: Sight) -> "PodShape":
        """The shape as a plugin sees it that reads some parts of it: without the others."""
        (signer, parts), seen = sight, object.__new__(PodShape)
        for part, names in _OFFERED.items():
            if part in parts:
                for name in names:
                    setattr(seen, name, getattr(self, name))
        spec, affinity = self.spec, self.spec.affinity
        seen.spec = PodSpec()
        if Part.NODE_AFFINITY in parts:
            seen.spec.node_selector = spec.node_selector
            seen.spec.affinity = None if affinity is None else Affinity(node_affinity=affinity.node_affinity)
        if Part.TOLERATIONS in parts:
            seen.spec.tolerations = spec.tolerations
        if Part.SPREAD in parts:
            seen.spec.topology_spread_constraints = spec.topology_spread_constraints
        seen.own = self._signatures.get(signer)
        return seen


@dataclass(slots=True)
class PodInfo:
    """A pod and its shape."""

    pod: Pod
    shape: PodShape

    def seen_by(self, sight: Sight) -> "PodInfo":
        """What plugins get whose answer holds for all pods of the shape: they may not look at the pod at all."""
        seen = object.__new__(PodInfo)
        seen.shape = self.shape.seen_by(sight)
        return seen


class Shapes:
    """The shapes that are in use, by key."""

    def __init__(self, *, pod_level_resources: bool = True) -> None:
        self.signers: dict[Signer, Sign] = {}
        """What plugins sign themselves."""
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
            signed, signatures = _signed(pod), _NO_SIGNATURES
            if self.signers:
                signatures = {signer: sign(pod) for signer, sign in self.signers.items()}
                signed = (*signed, list(signatures.values()))
            key = codec.encode(signed)
            shape = self._known.get(key)
            if shape is None:
                signed = signed[: len(Signed._fields)]
                shape = self._known[key] = PodShape(key, Signed._make(signed), signatures, pod_level=self._pod_level)
        self._last_pod, self._last_shape = pod, shape
        return shape


def _shares_all(pod: Pod, other: Pod) -> bool:
    """Whether two pods are made of the same objects, as far as anybody signs them: so simulations make them."""
    mine, its = pod.metadata, other.metadata
    return (
        pod.spec is other.spec
        and pod.status is other.status
        and mine.labels is its.labels
        and mine.annotations is its.annotations
        and mine.owner_references is its.owner_references
        and mine.namespace == its.namespace
    )


def spread_owner(pod: Pod) -> tuple[str, str] | None:
    """Kind and name of the workload that default spreading looks at."""
    owner = controller_of(pod.metadata)
    return (owner.kind, owner.name) if owner is not None and owner.kind in _SPREAD_OWNERS else None


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """The ports of the node that the pod occupies."""
    containers = [*spec.containers, *filter(requests.is_sidecar, spec.init_containers)]
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
