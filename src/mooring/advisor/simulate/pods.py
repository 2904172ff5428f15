"""Pods and workloads as a simulation knows them: objects, and what happened to them. ``world.py`` changes them."""

from collections import deque
from dataclasses import dataclass, field

from mooring.advisor.simulate.identity import told
from mooring.api.apps_v1 import Deployment
from mooring.api.core_v1 import Pod, PodTemplateSpec
from mooring.api.meta_v1 import OwnerReference, Resource
from mooring.scheduler.facade import pod_key


@dataclass(slots=True, eq=False)
class SimulatedPod:
    """A pod that is there. Times are seconds since the start."""

    pod: Pod
    owner: "Workload | None"
    node: str = ""
    created_at: float | None = None
    """None for pods of the snapshot."""
    placed_at: float | None = None
    """None while it waits, and for pods that had their node already."""
    replaces: str = ""
    """The name of the pod in whose place it was made."""
    successor: "SimulatedPod | None" = None
    """The pod that was made in its place."""
    message: str = ""
    """Why it has no node yet."""
    slot: str = ""
    """Which of its workload's pods it is, where these are not all alike: an ordinal, an index, a node."""
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
    """Who makes pods, and makes them anew."""

    reference: OwnerReference
    namespace: str
    object: Resource | None = None
    """None when the snapshot has only its pods."""
    template: PodTemplateSpec | None = None
    wanted: int = 0
    """How many pods it should have now ..."""
    deployment: Deployment | None = None
    """... and who decides about that."""
    pods: dict[str, SimulatedPod] = field(default_factory=dict)
    """By key."""
    by_slot: dict[str, SimulatedPod] = field(default_factory=dict)
    """The same by slot, where pods have one."""
    prototype: Pod | None = None
    """A pod of the template as the server has admitted it; the others differ in name and uid."""
    refusal: str = ""
    """What the server says against its pods."""
    made: int = 0
    lost: deque[SimulatedPod] = field(default_factory=deque)
    """Pods that went and have not been replaced yet."""
    is_gone: bool = False

    @property
    def kind(self) -> str:
        return self.reference.kind

    @property
    def name(self) -> str:
        return self.reference.name

    @property
    def told(self) -> str:
        """For people: the Deployment rather than its ReplicaSet."""
        if self.deployment is not None:
            return told("Deployment", self.namespace, self.deployment.metadata.name)
        return told(self.kind, self.namespace, self.name)

    @property
    def desired(self) -> int:
        """How many pods there should be when everything is well, of all revisions together."""
        if self.deployment is not None:
            replicas = self.deployment.spec.replicas
            return 1 if replicas is None else replicas
        return self.wanted

    @property
    def placed(self) -> int:
        return sum(bool(pod.node) for pod in self.pods.values())
