"""Pods that look alike: a pod is interned into a shape, which has everything of it that scheduling reads.

A shape is found by the encoded bytes of what is `Signed`, so that the pods of one template share it, and with it their
verdicts; and it is made of nothing else, so that what is not signed cannot be read from it. Each plugin says which
`Part`s of it it reads, and is shown only these. It is alive as long as a pod in the columns or a cached verdict has it.
What is particular to a pod (its name, its volumes, its resource claims) is not in the shape: plugins of `Scope.POD`
read that, and others sign what they need of it themselves. Unless a plugin reads them all, two things more are left out
that tell every pod of a StatefulSet or DaemonSet from its siblings: labels that no selector anywhere asks about
(`Shapes.tell_by`), and the node that a pod is made for (`pinned_node`).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, Flag, auto
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

import msgspec

from mooring.api import codec
from mooring.api.core_v1 import (
    Affinity,
    Container,
    ContainerPort,
    ContainerStatus,
    ImageVolumeSource,
    NodeAffinity,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from mooring.api.meta_v1 import LabelSelector, ObjectMeta
from mooring.api.quantity import Quantity
from mooring.api.states import controller_of
from mooring.constraints import requests
from mooring.constraints.node_selector import NAME_FIELD
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
_MOST_KEYS = 10_000
"""Of labels that selectors ask about; when there are more, all labels tell pods apart."""
_SPREAD_OWNERS = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})


class HostPort(msgspec.Struct, frozen=True):
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


class PodTerms(msgspec.Struct, frozen=True):
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
    """`namespace`, `labels` and `group`, with all labels."""
    SELECTED = auto()
    """The same with those labels only that some selector asks about, whoever has it."""
    RESOURCES = auto()
    """`requests` and `scored`."""
    PORTS = auto()
    """`ports`."""
    IMAGES = auto()
    """`images`."""
    NODE_AFFINITY = auto()
    """`spec.node_selector`, and node affinity in `spec.affinity`."""
    UNPINNED = auto()
    """The same without the node that a pod is made for, and `is_pinned`."""
    TOLERATIONS = auto()
    """`spec.tolerations`."""
    POD_AFFINITY = auto()
    """`terms`."""
    SPREAD = auto()
    """`spec.topology_spread_constraints`, and `owner` for pods that have none."""
    ALL = LABELS | RESOURCES | PORTS | IMAGES | NODE_AFFINITY | TOLERATIONS | POD_AFFINITY | SPREAD


_OFFERED = {
    Part.LABELS: ("namespace", "labels", "group"),
    Part.SELECTED: ("namespace", "labels", "group"),
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
Group: TypeAlias = tuple[str, frozenset[tuple[str, str]]]
"""A namespace and labels."""
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
    is_pinned: bool

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


def _signed(pod: Pod, labels: dict[str, str], *, by_pin: bool) -> tuple[Any, ...]:
    """The fields of `Signed` for a pod: a plain tuple, because it is made for every pod, and a shape seldom."""
    spec, metadata, status = pod.spec, pod.metadata, pod.status
    affinity, is_pinned = spec.affinity, False
    if affinity is not None and not by_pin and pinned_node(spec):
        affinity, is_pinned = _unpinned(affinity), True
    resized = resized_resources(pod) if status.container_statuses or status.init_container_statuses else None
    containers: list[Any] = [(each.image, each.resources, each.ports) for each in spec.containers]
    starting: list[Any] = [
        (each.image, each.resources, each.ports, each.restart_policy) for each in spec.init_containers
    ]
    return (
        metadata.namespace,
        labels,
        containers,
        starting,
        spec.node_selector,
        affinity,
        spec.tolerations,
        spec.topology_spread_constraints,
        spec.overhead,
        spec.resources,
        spread_owner(pod) if metadata.owner_references and not spec.topology_spread_constraints else None,
        [volume.image.reference for volume in spec.volumes if volume.image is not None],
        resized,
        # Names matter only where statuses tell which container they are about.
        None if resized is None else [each.name for each in (*spec.containers, *spec.init_containers)],
        is_pinned,
    )


def pinned_node(spec: PodSpec) -> str:
    """The node that a pod is made for, as those of DaemonSets are: its name is all that node affinity requires.

    Empty where there is none, or where the affinity also says which nodes a spread constraint counts.
    """
    affinity = spec.affinity and spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    if not required or len(required.node_selector_terms) != 1 or spec.topology_spread_constraints:
        return ""
    term = required.node_selector_terms[0]
    if term.match_expressions or term.match_cel_expressions or len(term.match_fields) != 1:
        return ""
    field = term.match_fields[0]
    is_name = field.key == NAME_FIELD and field.operator == "In" and len(field.values) == 1
    return field.values[0] if is_name else ""


def _unpinned(affinity: Affinity) -> Affinity | None:
    wishes = affinity.node_affinity and affinity.node_affinity.preferred_during_scheduling_ignored_during_execution
    if not wishes and affinity.pod_affinity is None and affinity.pod_anti_affinity is None:
        return None
    left = NodeAffinity(preferred_during_scheduling_ignored_during_execution=wishes) if wishes else None
    return Affinity(
        node_affinity=left, pod_affinity=affinity.pod_affinity, pod_anti_affinity=affinity.pod_anti_affinity
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
        "is_pinned",
        "is_resized",
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
        self.group: Group = (self.namespace, frozenset(self.labels.items()))
        """What selectors of other pods can tell it by."""
        self.spec: PodSpec = pod.spec
        """What is signed of the specification of the pods; everything else is absent."""
        self.owner = signed.owner
        self.is_pinned = signed.is_pinned
        """Whether the pods are made for certain nodes, each for its own; `pinned_node` says for which."""
        self.is_resized = signed.resized is not None
        """Whether the containers have other resources than they ask for."""
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
        if Part.NODE_AFFINITY in parts or Part.UNPINNED in parts:
            seen.is_pinned = self.is_pinned
            seen.spec.node_selector = spec.node_selector
            seen.spec.affinity = None if affinity is None else Affinity(node_affinity=affinity.node_affinity)
        if Part.TOLERATIONS in parts:
            seen.spec.tolerations = spec.tolerations
        if Part.SPREAD in parts:
            seen.spec.topology_spread_constraints = spec.topology_spread_constraints
        seen.own = self._signatures.get(signer)
        return seen

    def selected_by(self) -> Iterator[str]:
        """The keys of the labels by which the pods choose others, and themselves."""
        for key in self.terms.keys:
            yield from (each.key for each in key.term.selector.requirements)
        for constraint in self.spec.topology_spread_constraints:
            yield from constraint.match_label_keys
            if constraint.label_selector is not None:
                yield from label_keys(constraint.label_selector)


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
        self.read: Part = Part.ALL
        """What plugins read that share verdicts."""
        self._pod_level = pod_level_resources
        self._told_by: set[str] = set()
        self._known: WeakValueDictionary[bytes, PodShape] = WeakValueDictionary()
        self._last_pod: Pod | None = None  # a pod is asked about when it is judged and again when it is placed
        self._last_shape: PodShape | None = None

    def __len__(self) -> int:
        return len(self._known)

    def shape_of(self, pod: Pod) -> PodShape:
        last, shape = self._last_pod, self._last_shape
        if pod is last and shape is not None:
            return shape
        if last is None or shape is None or not (shares_all(pod, last) or self._shares_signed(pod, last, shape)):
            signatures = _NO_SIGNATURES
            signed = _signed(pod, self._labels(pod.metadata.labels), by_pin=Part.NODE_AFFINITY in self.read)
            if self.signers:
                signatures = {signer: sign(pod) for signer, sign in self.signers.items()}
                signed = (*signed, list(signatures.values()))
            key = codec.encode(signed)
            shape = self._known.get(key)
            if shape is None:
                signed = signed[: len(Signed._fields)]
                shape = PodShape(key, Signed._make(signed), signatures, pod_level=self._pod_level)
                if self.tell_by(shape.selected_by()):
                    return self.shape_of(pod)
                self._known[key] = shape
        self._last_pod, self._last_shape = pod, shape
        return shape

    def _shares_signed(self, pod: Pod, other: Pod, shape: PodShape) -> bool:
        """Whether a pod is made of the same objects as one of a shape, as far as `_signed` goes: so caches make them.

        Bound pods have labels of their nodes, so labels are compared where they are not the same ones.
        """
        if self.signers or shape.is_resized:
            return False
        mine, its, status = pod.spec, other.spec, pod.status
        labels = pod.metadata.labels
        return (
            (mine is its or _is_made_of(mine, its))
            and pod.metadata.owner_references is other.metadata.owner_references
            and pod.metadata.namespace == other.metadata.namespace
            and (labels is other.metadata.labels or self._labels(labels) == shape.labels)
            and not ((status.container_statuses or status.init_container_statuses) and resized_resources(pod))
        )

    def tell_by(self, keys: Iterable[str]) -> bool:
        """Tell pods apart by labels with these keys from now on, as a selector asks about them; whether any is new.

        Shapes stay what they are: a pod that has such a label gets another one when it is next asked about.
        """
        if Part.LABELS in self.read:
            return False
        before = len(self._told_by)
        self._told_by.update(keys)
        if len(self._told_by) == before:
            return False
        if before > _MOST_KEYS:
            self.read |= Part.LABELS
        self._last_pod = None
        return True

    def likeness(self, pod: Pod) -> Hashable:
        """Equal for pods that nobody can tell apart but by what is particular to a pod, whatever selectors may come."""
        shape = self.shape_of(pod)
        return shape, group_of(pod, shape), pinned_node(pod.spec) if shape.is_pinned else ""

    def _labels(self, labels: dict[str, str]) -> dict[str, str]:
        """Those that tell pods apart."""
        known = self._told_by
        if Part.LABELS in self.read or labels.keys() <= known:
            return labels
        return {key: value for key, value in labels.items() if key in known}


def _is_made_of(spec: PodSpec, other: PodSpec) -> bool:
    """Whether a specification has the same objects as another, in all that is signed of it."""
    return (
        spec.containers is other.containers
        and spec.init_containers is other.init_containers
        and spec.node_selector is other.node_selector
        and spec.affinity is other.affinity
        and spec.tolerations is other.tolerations
        and spec.topology_spread_constraints is other.topology_spread_constraints
        and spec.overhead is other.overhead
        and spec.resources is other.resources
        and spec.volumes is other.volumes
    )


def group_of(pod: Pod, shape: PodShape) -> Group:
    """Namespace and labels of a pod: all of them, so that selectors which are yet to come can tell it by them."""
    labels = pod.metadata.labels
    return shape.group if len(labels) == len(shape.labels) else (shape.namespace, frozenset(labels.items()))


def label_keys(selector: LabelSelector) -> Iterator[str]:
    """What a selector asks about."""
    yield from selector.match_labels
    yield from (each.key for each in selector.match_expressions)


def shares_all(pod: Pod, other: Pod) -> bool:
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
