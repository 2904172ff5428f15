"""Pod signatures: the fields of a pod that scheduling reads, interned, so that pods from the same template share one.

A signature is looked up by the encoded bytes of these fields and built from them alone, so that plugins cannot read a
field that is not in it. Each plugin declares the `Part`s that it reads and receives only these (`DeclaredParts`). A
signature is freed with the last placed pod or cache entry that refers to it.

The pod's name, volumes and resource claims are not signed: plugins that need them declare `Part.POD`, or sign the
fields they need themselves. Two more fields, which differ between the pods of a StatefulSet or DaemonSet, are left out
unless a plugin reads them: labels that no selector reads (`SignatureTable.distinguish_by`), and the node that a
DaemonSet's pod is created for (`pinned_node`).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, Flag, auto
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakValueDictionary

import msgspec
from msgspec import structs

from mooring.api import codec
from mooring.api.core_v1 import (
    Affinity,
    ContainerStatus,
    NodeAffinity,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from mooring.api.meta_v1 import LabelSelector
from mooring.api.states import controller_of
from mooring.constraints import requests
from mooring.constraints.node_selector import NAME_FIELD
from mooring.constraints.pod_affinity import (
    AffinityTerm,
    WeightedAffinityTerm,
    compile_affinity_term,
    compile_weighted_term,
)

if TYPE_CHECKING:  # ``resources.py`` fills it in
    from mooring.scheduler.columns.resources import Usage

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - nothing is bound to it; it is how Kubernetes writes "every address"
RESIZE = "PodResizePending"
_MOST_KEYS = 10_000
"""If selectors use more label keys than this, pod signatures contain all labels of the pod."""
_EMPTY_SPEC = PodSpec()
"""Copied for the specs of signatures, so that they share its empty lists."""
_SPREAD_OWNERS = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})
"""The kinds of workloads whose selectors default topology spreading uses."""


class HostPort(msgspec.Struct, frozen=True):
    protocol: str
    port: int
    address: str


class TermKind(Enum):
    ANTI_AFFINITY = "required anti-affinity"
    AFFINITY = "required affinity"
    PREFERRED = "preferred affinity, or anti-affinity with a negative weight"
    __hash__ = object.__hash__  # that of `Enum` is a Python function, which takes longer than a lookup


class TermKey(msgspec.Struct, frozen=True, cache_hash=True):
    """A pod-affinity term of placed pods, as a dict key: it is looked up for every pod."""

    kind: TermKind
    term: AffinityTerm
    weight: int = 0


class PodTerms(msgspec.Struct, frozen=True):
    """The compiled pod-affinity and anti-affinity terms of a pod."""

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[WeightedAffinityTerm, ...] = ()
    """Preferred affinity terms with their weights, and preferred anti-affinity terms with negative weights."""
    keys: tuple[TermKey, ...] = ()
    """The keys under which the pod's affinity terms are counted once the pod is placed."""


NO_TERMS = PodTerms()


class Part(Flag):
    """A part of a pod signature that a plugin can declare to read."""

    LABELS = auto()
    """The namespace and all labels: `namespace`, `labels` and `group`."""
    SELECTED = auto()
    """The namespace, and the labels that at least one selector reads."""
    RESOURCES = auto()
    """The resource requests: `requests`, and `scored`, in which cpu and memory have a default request."""
    PORTS = auto()
    """The host ports: `ports`."""
    IMAGES = auto()
    """The container images: `images`."""
    NODE_AFFINITY = auto()
    """`spec.nodeSelector`, and the node affinity of `spec.affinity`."""
    UNPINNED = auto()
    """Node selector and node affinity without the node that a DaemonSet's pod is created for, and `is_pinned`."""
    TOLERATIONS = auto()
    """`spec.tolerations`."""
    POD_AFFINITY = auto()
    """Pod affinity and anti-affinity: the compiled `terms`."""
    SPREAD = auto()
    """`spec.topologySpreadConstraints`, and the `owner` workload of pods without constraints."""
    POD = auto()
    """The pod itself: results are not shared, and the plugin is called for every pod."""
    ALL = LABELS | RESOURCES | PORTS | IMAGES | NODE_AFFINITY | TOLERATIONS | POD_AFFINITY | SPREAD


Sign: TypeAlias = Callable[[Pod], object]
"""A function that returns the additional pod fields a plugin reads, to be encoded into the signature; they must be
equal for pods from the same template.
"""
Signer: TypeAlias = tuple[str, str]
"""The name of a profile and of a plugin in it that adds fields of its own to pod signatures."""
Group: TypeAlias = tuple[str, frozenset[tuple[str, str]]]
"""The namespace and labels of a pod, by which pods are counted for affinity and spreading."""


def _list_signed_fields(
    pod: Pod, labels: dict[str, str], affinity: Affinity | None, owner: object, is_pinned: bool
) -> list[Any]:
    """Return the fields of a pod from which its pod signature is built."""
    spec = pod.spec
    containers: list[Any] = [(each.image, each.resources, each.ports) for each in spec.containers]
    starting = [(each.image, each.resources, each.ports, each.restart_policy) for each in spec.init_containers]
    image_volumes = [volume.image.reference for volume in spec.volumes if volume.image is not None]
    found: list[Any] = [pod.metadata.namespace, labels, containers, starting, spec.node_selector, affinity]
    found += [spec.tolerations, spec.topology_spread_constraints, spec.overhead, spec.resources, owner, image_volumes]
    found.append(is_pinned)
    resized = resized_resources(pod)
    if resized is not None:  # names matter only where statuses say which container they are about
        found += [resized, [each.name for each in (*spec.containers, *spec.init_containers)]]
    return found


def pinned_node(spec: PodSpec) -> str:
    """Return the only node that a pod's node affinity allows by name, as for pods of DaemonSets; empty for other pods.

    Also empty for pods with spread constraints, because these count pods on the nodes that the affinity allows.
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


def _remove_pinned_node(affinity: Affinity) -> Affinity | None:
    wishes = affinity.node_affinity and affinity.node_affinity.preferred_during_scheduling_ignored_during_execution
    if not wishes and affinity.pod_affinity is None and affinity.pod_anti_affinity is None:
        return None
    left = NodeAffinity(preferred_during_scheduling_ignored_during_execution=wishes) if wishes else None
    return structs.replace(affinity, node_affinity=left)


def resized_resources(pod: Pod) -> PodStatus | None:
    """Return a status with the actual resources after an in-place resize; None if they equal those of the spec."""
    status = pod.status
    if not (status.container_statuses or status.init_container_statuses) or _has_requested_resources(pod):
        return None
    running, starting = (
        [_resources_of(each) for each in statuses if each.resources is not None]
        for statuses in (status.container_statuses, status.init_container_statuses)
    )
    if not running and not starting:
        return None
    pending = [PodCondition(type=each.type, reason=each.reason) for each in status.conditions if each.type == RESIZE]
    return PodStatus(container_statuses=running, init_container_statuses=starting, conditions=pending)


def _has_requested_resources(pod: Pod) -> bool:
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


class PodSignature:
    """The fields of a pod that scheduling reads. Compared by identity: pods with equal fields share one object."""

    is_any = None
    """The cache key of plugins that read no part."""
    own: object = None
    """The additional pod fields that the plugin which reads this pod signature contributed by `sign`."""

    def __init__(
        self,
        key: bytes,
        pod: Pod,
        labels: dict[str, str],
        affinity: Affinity | None,
        owner: tuple[str, str] | None,
        *,
        is_pinned: bool,
        signed_by: Mapping[Signer, object],
        pod_level: bool,
    ) -> None:
        spec = pod.spec
        self.key = key
        self.namespace = pod.metadata.namespace
        self.labels = labels
        self.group: Group = (self.namespace, frozenset(labels.items()))
        """Namespace and labels, for matching with the selectors of other pods."""
        self.spec = structs.replace(
            _EMPTY_SPEC,
            node_selector=spec.node_selector,
            affinity=affinity,
            tolerations=spec.tolerations,
            topology_spread_constraints=spec.topology_spread_constraints,
        )
        """The pod spec fields that plugins read; the other fields are empty."""
        self.owner = owner
        self.is_pinned = is_pinned
        """Whether each pod is created for one node, which `pinned_node` returns."""
        self.requests = requests.in_units(requests.requests_of(pod, pod_level=pod_level))
        """The pod's total requests, by resource."""
        self.scored = self.requests
        each_requests = [each.resources.requests for each in (*spec.containers, *spec.init_containers)]
        if not each_requests or not all(requests.CPU in each and requests.MEMORY in each for each in each_requests):
            self.scored = requests.in_units(requests.scored_requests_of(pod, pod_level=pod_level))
        """The requests that scoring assumes, with a default for cpu and memory that the pod does not request."""
        self.ports = host_ports(spec)
        self.images = images(spec)
        self.terms = pod_terms(spec, self.namespace)
        self.usage: Usage | None = None
        """The amounts that the pod adds to the resource columns; cached by the columns."""
        self.pods = 0
        """The number of placed pods that have this pod signature."""
        self.signed_by = signed_by
        """The additional pod fields that plugins contributed by `sign`."""
        # Cache keys of parts (see `_PARTS`); other parts are keys themselves.
        self.resources_key: Hashable = (*self.requests, *self.requests.values())
        if self.scored is not self.requests:
            self.resources_key = (self.resources_key, *self.scored, *self.scored.values())
        wanted = affinity and affinity.node_affinity
        node_affinity = codec.encode((spec.node_selector, wanted, is_pinned)) if spec.node_selector or wanted else None
        self.node_affinity_key: Hashable = node_affinity or is_pinned
        self.tolerations_key = codec.encode(spec.tolerations) if spec.tolerations else b""
        constraints = spec.topology_spread_constraints
        self.spread_key = (codec.encode(constraints) if constraints else b"", owner) if constraints or owner else None

    def selector_label_keys(self) -> Iterator[str]:
        """Yield the label keys that the selectors of pods with this pod signature read."""
        for key in self.terms.keys:
            yield from (each.key for each in key.term.selector.requirements)
        for constraint in self.spec.topology_spread_constraints:
            yield from constraint.match_label_keys
            if constraint.label_selector is not None:
                yield from label_keys(constraint.label_selector)


@dataclass(slots=True)
class PodInfo:
    """A pod and its pod signature."""

    pod: Pod
    signature: PodSignature


class DeclaredParts:
    """The parts of a pod signature that some plugins declare to read; their results are cached by them."""

    def __init__(self, parts: Part, signer: Signer | None = None) -> None:
        """Prepare the key for declared parts; `signer` names the plugin if it signs additional fields."""
        self.parts = parts
        self._signer = signer
        read = [entry for part, entry in _PARTS.items() if part in parts]
        self._key: Callable[[PodSignature], Hashable] = attrgetter(*[key for key, _ in read] or ["is_any"])
        names = {name for _, of_part in read for name in of_part}
        self._spec_names = names & {"tolerations", "topology_spread_constraints", "node_selector"}
        self._names = names - self._spec_names

    def key(self, signature: PodSignature) -> Hashable:
        """Return a cache key that is equal for pods whose declared parts are equal."""
        if self._signer is None:
            return self._key(signature)
        return self._key(signature), codec.encode(signature.signed_by.get(self._signer))

    def select(self, pod: PodInfo) -> PodInfo:
        """Return a pod whose signature has the declared parts only, for the plugins that declare them."""
        signature, seen = pod.signature, object.__new__(PodSignature)
        seen.__dict__ = {name: getattr(signature, name) for name in self._names}
        if self._spec_names:
            seen.spec = structs.replace(
                _EMPTY_SPEC, **{name: getattr(signature.spec, name) for name in self._spec_names}
            )
            if "node_selector" in self._spec_names and signature.spec.affinity is not None:
                seen.spec.affinity = Affinity(node_affinity=signature.spec.affinity.node_affinity)
        if self._signer is not None:
            seen.own = signature.signed_by.get(self._signer)
        shown = object.__new__(PodInfo)
        shown.signature = seen
        return shown


_PARTS: dict[Part, tuple[str, tuple[str, ...]]] = {
    Part.LABELS: ("group", ("namespace", "labels", "group")),
    Part.SELECTED: ("group", ("namespace", "labels", "group")),
    Part.RESOURCES: ("resources_key", ("requests", "scored")),
    Part.PORTS: ("ports", ("ports",)),
    Part.IMAGES: ("images", ("images",)),
    Part.NODE_AFFINITY: ("node_affinity_key", ("node_selector", "is_pinned")),
    Part.UNPINNED: ("node_affinity_key", ("node_selector", "is_pinned")),
    Part.TOLERATIONS: ("tolerations_key", ("tolerations",)),
    Part.POD_AFFINITY: ("terms.keys", ("terms",)),
    Part.SPREAD: ("spread_key", ("topology_spread_constraints", "owner")),
}
"""For each part, the attribute of a signature that is its cache key, and the attributes of the signature or of its pod
spec that belong to the part.
"""


class SignatureTable:
    """The interned pod signatures in use, by the encoded bytes of their fields."""

    def __init__(self, *, pod_level_resources: bool = True) -> None:
        self.signers: dict[Signer, Sign] = {}
        """The functions by which plugins sign additional fields."""
        self.read: Part = Part.ALL
        """The parts that plugins with shared verdicts read."""
        self._pod_level = pod_level_resources
        self._label_keys: set[str] = set()
        self._known: WeakValueDictionary[bytes, PodSignature] = WeakValueDictionary()
        self._last_pod: Pod | None = None  # a pod is asked about when it is evaluated and again when it is placed
        self._last_signature: PodSignature | None = None

    def __len__(self) -> int:
        return len(self._known)

    def signature_of(self, pod: Pod) -> PodSignature:
        last, signature = self._last_pod, self._last_signature
        if last is not None and signature is not None and shares_signed_fields(pod, last):
            return signature
        labels, affinity, is_pinned = self._select_signed_labels(pod.metadata.labels), pod.spec.affinity, False
        if affinity is not None and Part.NODE_AFFINITY not in self.read and pinned_node(pod.spec):
            affinity, is_pinned = _remove_pinned_node(affinity), True
        controller, owner = controller_of(pod.metadata), None
        if controller is not None and controller.kind in _SPREAD_OWNERS and not pod.spec.topology_spread_constraints:
            owner = controller.kind, controller.name
        signed_by = {signer: sign(pod) for signer, sign in self.signers.items()}
        key = codec.encode((*_list_signed_fields(pod, labels, affinity, owner, is_pinned), list(signed_by.values())))
        signature = self._known.get(key)
        if signature is None:
            signature = PodSignature(
                key, pod, labels, affinity, owner, is_pinned=is_pinned, signed_by=signed_by, pod_level=self._pod_level
            )
            if self.distinguish_by(signature.selector_label_keys()):
                return self.signature_of(pod)
            self._known[key] = signature
        self._last_pod, self._last_signature = pod, signature
        return signature

    def distinguish_by(self, keys: Iterable[str]) -> bool:
        """Include labels with the given keys in signatures from now on; return whether any key is new.

        Existing signatures stay unchanged: a pod with such a label gets another signature at its next lookup.
        """
        if Part.LABELS in self.read:
            return False
        before = len(self._label_keys)
        self._label_keys.update(keys)
        if len(self._label_keys) == before:
            return False
        if before > _MOST_KEYS:
            self.read |= Part.LABELS
        self._last_pod = None
        return True

    def template_key(self, pod: Pod) -> Hashable:
        """Return a key that is equal for pods with the same pod signature, labels and only possible node."""
        signature = self.signature_of(pod)
        return signature, group_of(pod, signature), pinned_node(pod.spec) if signature.is_pinned else ""

    def _select_signed_labels(self, labels: dict[str, str]) -> dict[str, str]:
        known = self._label_keys
        if Part.LABELS in self.read or labels.keys() <= known:
            return labels
        return {key: value for key, value in labels.items() if key in known}


def group_of(pod: Pod, signature: PodSignature) -> Group:
    """Return the namespace and all labels of a pod, including labels that no selector reads yet."""
    labels = pod.metadata.labels
    return signature.group if len(labels) == len(signature.labels) else (signature.namespace, frozenset(labels.items()))


def label_keys(selector: LabelSelector) -> Iterator[str]:
    """Yield the label keys that a label selector reads."""
    yield from selector.match_labels
    yield from (each.key for each in selector.match_expressions)


def shares_signed_fields(pod: Pod, other: Pod) -> bool:
    """Return whether two pods have identical objects in every signed field, and both or neither are terminating."""
    mine, its = pod.metadata, other.metadata
    return (
        pod.spec is other.spec
        and pod.status is other.status
        and mine.labels is its.labels
        and mine.annotations is its.annotations
        and mine.owner_references is its.owner_references
        and mine.namespace == its.namespace
        and (mine.deletion_timestamp is None) == (its.deletion_timestamp is None)
    )


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Return the host ports that a pod uses."""
    containers = [*spec.containers, *filter(requests.is_sidecar, spec.init_containers)]
    return tuple(
        HostPort(port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)
        for container in containers
        for port in container.ports
        if port.host_port > 0
    )


def images(spec: PodSpec) -> tuple[str, ...]:
    """Return the images of a pod's containers with their tags, repeated if several containers use one."""
    found = [container.image for container in (*spec.init_containers, *spec.containers)]
    found += [volume.image.reference for volume in spec.volumes if volume.image is not None]
    return tuple(image if image.rfind(":") > image.rfind("/") else f"{image}:latest" for image in found)


def pod_terms(spec: PodSpec, namespace: str) -> PodTerms:
    affinity = spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    near, far = affinity.pod_affinity, affinity.pod_anti_affinity
    required = near.required_during_scheduling_ignored_during_execution if near else []
    forbidden = far.required_during_scheduling_ignored_during_execution if far else []
    liked = near.preferred_during_scheduling_ignored_during_execution if near else []
    disliked = far.preferred_during_scheduling_ignored_during_execution if far else []
    preferred = [compile_weighted_term(entry, namespace) for entry in liked]
    for entry in disliked:
        weighted = compile_weighted_term(entry, namespace)
        preferred.append(WeightedAffinityTerm(-weighted.weight, weighted.term))
    near_terms = tuple(compile_affinity_term(entry, namespace) for entry in required)
    far_terms = tuple(compile_affinity_term(entry, namespace) for entry in forbidden)
    keys = [TermKey(TermKind.ANTI_AFFINITY, term) for term in far_terms]
    keys += [TermKey(TermKind.AFFINITY, term) for term in near_terms]
    keys += [TermKey(TermKind.PREFERRED, entry.term, entry.weight) for entry in preferred]
    return PodTerms(near_terms, far_terms, tuple(preferred), tuple(keys))
