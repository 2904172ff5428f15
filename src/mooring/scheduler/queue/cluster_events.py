"""Cluster events: the kinds of objects that plugins depend on, and the classification of a change of an object.

Called by ``running/event_handlers.py`` and by simulations, which pass the events to the queue.
"""

from msgspec import structs

from mooring.api import resource_v1, storage_v1
from mooring.api.apps_v1 import ReplicaSet, StatefulSet
from mooring.api.core_v1 import (
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ReplicationController,
    Service,
)
from mooring.api.meta_v1 import Resource
from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.constraints import requests
from mooring.scheduler.columns.signatures import resized_resources
from mooring.scheduler.framework import Action, ClusterEvent, Kind

OTHER_KINDS: dict[type[Resource], Kind | None] = {
    Namespace: Kind.NAMESPACE,
    PersistentVolume: Kind.PERSISTENT_VOLUME,
    PersistentVolumeClaim: Kind.PERSISTENT_VOLUME_CLAIM,
    storage_v1.StorageClass: Kind.STORAGE_CLASS,
    storage_v1.CSINode: Kind.CSI_NODE,
    storage_v1.CSIDriver: Kind.CSI_DRIVER,
    storage_v1.CSIStorageCapacity: Kind.CSI_STORAGE_CAPACITY,
    storage_v1.VolumeAttachment: Kind.VOLUME_ATTACHMENT,
    resource_v1.ResourceClaim: Kind.RESOURCE_CLAIM,
    resource_v1.ResourceSlice: Kind.RESOURCE_SLICE,
    resource_v1.DeviceClass: Kind.DEVICE_CLASS,
    resource_v1.DeviceTaintRule: Kind.DEVICE_TAINT_RULE,
    # Read by default spreading and preemption; no rejection depends on them.
    Service: None,
    ReplicationController: None,
    ReplicaSet: None,
    StatefulSet: None,
    PodDisruptionBudget: None,
}
"""The kinds besides pods and nodes that plugins depend on, each with the event kind of its changes."""
DEVICES: tuple[type[Resource], ...] = (resource_v1.ResourceClaim, resource_v1.ResourceSlice, resource_v1.DeviceClass)
"""Kinds that matter only to pods with ResourceClaims."""
POD_DELETED = ClusterEvent(Kind.ASSIGNED_POD, Action.DELETE)


def on_node(pod: Pod, node: str) -> Pod:
    """Return the pod with `spec.nodeName` set, for queueing hints that read where a deleted pod was."""
    return pod if pod.spec.node_name else structs.replace(pod, spec=structs.replace(pod.spec, node_name=node))


def classify_node_change(old: Node, new: Node) -> Action:
    """Return the changes between two versions of a node that scheduling reads; none for a heartbeat."""
    action = Action(0)
    if old.metadata.labels != new.metadata.labels:
        action |= Action.UPDATE_NODE_LABEL
    if old.spec.taints != new.spec.taints or old.spec.unschedulable != new.spec.unschedulable:
        action |= Action.UPDATE_NODE_TAINT
    if old.status.allocatable != new.status.allocatable:
        action |= Action.UPDATE_NODE_ALLOCATABLE
    if old.metadata.annotations != new.metadata.annotations:
        action |= Action.UPDATE_NODE_ANNOTATION
    if _conditions_of(old) != _conditions_of(new):
        action |= Action.UPDATE_NODE_CONDITION
    if old.status.declared_features != new.status.declared_features:
        action |= Action.UPDATE_NODE_DECLARED_FEATURE
    return action


def _conditions_of(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def classify_pod_change(old: Pod, new: Pod) -> Action:
    """Return the changes between two versions of a pod that scheduling reads; none for most status updates."""
    action = Action(0)
    if old.metadata.labels != new.metadata.labels:
        action |= Action.UPDATE_POD_LABEL
    if old.spec is new.spec and old.status is new.status:
        return action
    if old.spec is not new.spec and old.spec != new.spec:
        if old.spec.tolerations != new.spec.tolerations:
            action |= Action.UPDATE_POD_TOLERATION
        if old.spec.scheduling_gates and not new.spec.scheduling_gates:
            action |= Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        action |= Action.UPDATE_OTHER
    if _requests_less(old, new):
        action |= Action.UPDATE_POD_SCALE_DOWN
    if old.status.resource_claim_statuses != new.status.resource_claim_statuses:
        action |= Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM
    return action


def _requests_less(old: Pod, new: Pod) -> bool:
    if old.spec == new.spec and resized_resources(old) == resized_resources(new):
        return False
    before = requests.in_units(requests.requests_of(old, pod_level=True))
    after = requests.in_units(requests.requests_of(new, pod_level=True))
    return any(after.get(name, 0) < amount for name, amount in before.items())
