"""Common properties of pods and nodes: finished, ready, controller, priority."""

from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import ObjectMeta, OwnerReference

ENDED = frozenset({"Succeeded", "Failed"})
"""The terminal phases of a pod."""


def has_ended(pod: Pod) -> bool:
    """Whether a pod has finished for good."""
    return pod.status.phase in ENDED


def is_ready(obj: Pod | Node) -> bool:
    """Whether the Ready condition of a pod or node is true."""
    for condition in obj.status.conditions:  # no generator: workloads call this for every pod
        if condition.type == "Ready":
            return condition.status == "True"
    return False


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    """Return the owner reference of the controller, if there is one."""
    for owner in metadata.owner_references:  # a hot path: no generator
        if owner.controller:
            return owner
    return None


def priority(pod: Pod) -> int:
    """Return the priority that admission resolved from the class; 0 by default."""
    return pod.spec.priority or 0
