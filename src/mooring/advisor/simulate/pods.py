"""Simulated pods and workloads: objects with their history. ``world.py`` changes them."""

from collections import deque
from dataclasses import dataclass, field

from mooring.advisor.simulate.identity import display_name
from mooring.api.apps_v1 import Deployment
from mooring.api.core_v1 import Pod, PodTemplateSpec
from mooring.api.meta_v1 import OwnerReference, Resource
from mooring.scheduler.facade import pod_key


@dataclass(slots=True, eq=False)
class SimulatedPod:
    """An existing pod. Times are seconds since the start."""

    pod: Pod
    owner: "Workload | None"
    node: str = ""
    created_at: float | None = None
    """None for pods of the snapshot."""
    placed_at: float | None = None
    """None while pending, and for pods that had a node in the snapshot."""
    replaces: str = ""
    """The name of the pod that it replaces."""
    successor: "SimulatedPod | None" = None
    """The pod that replaces it."""
    message: str = ""
    """Why it is pending."""
    slot: str = ""
    """Its slot in the workload: an ordinal, an index or a node; empty if pods are interchangeable."""
    is_ready: bool = True

    @property
    def key(self) -> str:
        return pod_key(self.pod)

    @property
    def name(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    @property
    def is_healthy(self) -> bool:
        return bool(self.node) and self.is_ready


@dataclass(slots=True, eq=False)
class Workload:
    """A workload that creates and replaces pods."""

    reference: OwnerReference
    namespace: str
    object: Resource | None = None
    """None if the snapshot has only its pods."""
    template: PodTemplateSpec | None = None
    wanted: int = 0
    """How many pods it should have now."""
    deployment: Deployment | None = None
    """The Deployment that scales it."""
    pods: dict[str, SimulatedPod] = field(default_factory=dict)
    by_slot: dict[str, SimulatedPod] = field(default_factory=dict)
    """The pods by slot, if they have one."""
    prototype: Pod | None = None
    """An admitted pod of the template; the others differ in name and uid."""
    refusal: str = ""
    """Why the server rejects its pods."""
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
    def display_name(self) -> str:
        """The display name: that of the Deployment rather than its ReplicaSet."""
        if self.deployment is not None:
            return display_name("Deployment", self.namespace, self.deployment.metadata.name)
        return display_name(self.kind, self.namespace, self.name)

    @property
    def desired(self) -> int:
        """The number of pods of all revisions when everything is healthy."""
        if self.deployment is not None:
            replicas = self.deployment.spec.replicas
            return 1 if replicas is None else replicas
        return self.wanted

    @property
    def placed(self) -> int:
        return sum(bool(pod.node) for pod in self.pods.values())
