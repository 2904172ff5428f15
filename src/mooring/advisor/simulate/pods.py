"""Simulated pods and workloads: objects with their history. ``world.py`` changes them."""

from collections import deque
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeVar

from msgspec import structs

from mooring.advisor.simulate.clock import VirtualClock
from mooring.api.apps_v1 import Deployment
from mooring.api.core_v1 import Pod, PodTemplateSpec
from mooring.api.meta_v1 import OwnerReference, Resource
from mooring.scheduler.facade import pod_key

T = TypeVar("T", bound=Resource)


@dataclass(slots=True, eq=False)
class SimulatedPod:
    """A pod of the simulated cluster, with its history. Times are seconds since the start."""

    pod: Pod
    owner: "Workload | None"
    node: str = ""
    created_at: float | None = None
    """When it was created; None for pods of the snapshot."""
    placed_at: float | None = None
    """When it was placed; None while pending, and for pods that had a node in the snapshot."""
    replaces: str = ""
    successor: "SimulatedPod | None" = None
    """The pod that replaces it."""
    message: str = ""
    """Why it is pending; empty if it is not."""
    slot: str = ""
    """The slot of the pod in its workload: an ordinal, an index or a node; empty if pods are interchangeable."""
    is_ready: bool = True

    @property
    def key(self) -> str:
        return pod_key(self.pod)

    @property
    def name(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    @property
    def owner_name(self) -> str:
        """The pod's workload for output, such as `Deployment shop/web`; empty for a pod without one."""
        return self.owner.display_name if self.owner is not None else ""

    @property
    def is_daemon(self) -> bool:
        """Whether the pod belongs to a DaemonSet."""
        return self.owner is not None and self.owner.kind == "DaemonSet"

    @property
    def is_healthy(self) -> bool:
        return bool(self.node) and self.is_ready


@dataclass(slots=True, eq=False)
class Workload:
    """A workload whose controller creates pods: a ReplicaSet, StatefulSet, Job and so on, not a Deployment."""

    reference: OwnerReference
    namespace: str
    object: Resource | None = None
    """The workload's object; None if the snapshot has only its pods."""
    template: PodTemplateSpec | None = None
    wanted: int = 0
    deployment: Deployment | None = None
    pods: dict[str, SimulatedPod] = field(default_factory=dict)
    by_slot: dict[str, SimulatedPod] = field(default_factory=dict)
    prototype: Pod | None = None
    """An admitted pod of the template; the others differ in name and uid."""
    refusal: str = ""
    """Why the server rejects its pods; empty if it does not."""
    made: int = 0
    lost: deque[SimulatedPod] = field(default_factory=deque)
    """Deleted pods that are not replaced yet."""
    is_gone: bool = False

    @property
    def kind(self) -> str:
        return self.reference.kind

    @property
    def name(self) -> str:
        return self.reference.name

    @property
    def key(self) -> tuple[str, str, str]:
        """The kind, namespace and name of the workload, its key among all workloads."""
        return self.kind, self.namespace, self.name

    @property
    def display_name(self) -> str:
        """Return the workload for output; a ReplicaSet of a Deployment is shown as the Deployment."""
        if self.deployment is not None:
            return display_name("Deployment", self.namespace, self.deployment.metadata.name)
        return display_name(self.kind, self.namespace, self.name)

    @property
    def desired(self) -> int:
        """The desired number of pods; for a ReplicaSet of a Deployment, that of the whole Deployment."""
        if self.deployment is not None:
            replicas = self.deployment.spec.replicas
            return 1 if replicas is None else replicas
        return self.wanted

    @property
    def placed(self) -> int:
        return sum(bool(pod.node) for pod in self.pods.values())


_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""The characters of generated names in Kubernetes: no vowels and no similar ones, so that no words are formed."""


def display_name(kind: str, namespace: str, name: str) -> str:
    """Return the name of an object for output: `Deployment shop/web`."""
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def display_name_of(obj: Resource) -> str:
    return display_name(obj.kind, obj.metadata.namespace, obj.metadata.name or obj.metadata.generate_name)


def uid_of(*parts: object) -> str:
    """Return a uid derived from strings."""
    digits = blake2b("\0".join(map(str, parts)).encode(), digest_size=16).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def with_uid(obj: T, uid: str = "") -> T:
    """Return an object with a uid, by default one derived from its kind and name."""
    meta = obj.metadata
    uid = uid or uid_of(obj.kind, meta.namespace, meta.name)
    return structs.replace(obj, metadata=structs.replace(meta, uid=uid))


def with_node(pod: Pod, node: str) -> Pod:
    """Return the pod bound to a node, or to none."""
    return structs.replace(pod, spec=structs.replace(pod.spec, node_name=node))


def suffix_of(*parts: object) -> str:
    """Return five letters computed from values, as Kubernetes appends random ones to `generateName`."""
    number = int.from_bytes(blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest(), "big")
    letters = []
    for _ in range(5):
        number, position = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[position])
    return "".join(letters)


@dataclass(frozen=True, slots=True)
class Departure:
    """The record of an evicted or preempted pod: when, from which node, and why."""

    at: float
    pod: SimulatedPod
    node: str
    cause: str
    """The cause of the eviction, or the pod that preempted it."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The record of an object that admission rejected, with the error."""

    name: str
    message: str


@dataclass(slots=True)
class SimulationRecord:
    """Records the evictions, preemptions and rejections of a simulation."""

    clock: VirtualClock
    evictions: list[Departure] = field(default_factory=list)
    preemptions: list[Departure] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    attempts: int = 0

    def record_placed(self, pod: SimulatedPod) -> None:
        """Record that a pod was placed. Subclasses measure; this class does nothing."""

    def record_removed(self, pod: SimulatedPod) -> None:
        """Record that a pod will be deleted next. Subclasses measure; this class does nothing."""

    def record_evicted(self, pod: SimulatedPod, cause: str) -> None:
        self.evictions.append(Departure(self.clock.monotonic(), pod, pod.node, cause))

    def record_preempted(self, pod: SimulatedPod, by: str) -> None:
        self.preemptions.append(Departure(self.clock.monotonic(), pod, pod.node, by))

    def record_refused(self, name: str, message: str) -> None:
        self.refusals.append(Refusal(name, message))
