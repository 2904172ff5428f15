"""What every layer asks of objects: has a pod ended, is it ready, whose is it, how important. Said once, here."""

from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import ObjectMeta, OwnerReference

ENDED = frozenset({"Succeeded", "Failed"})
"""The phases that a pod does not leave any more."""


def has_ended(pod: Pod) -> bool:
    """Whether a pod has ended for good."""
    return pod.status.phase in ENDED


def is_ready(obj: Pod | Node) -> bool:
    """Whether a pod or a node says that it is ready."""
    for condition in obj.status.conditions:  # no generator: workloads ask this about every pod
        if condition.type == "Ready":
            return condition.status == "True"
    return False


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    """The one owner that an object obeys, if it has one."""
    for owner in metadata.owner_references:  # asked so often that no generator is made
        if owner.controller:
            return owner
    return None


def priority(pod: Pod) -> int:
    """What admission made of the pod's class; 0 where nobody has said anything."""
    return pod.spec.priority or 0
