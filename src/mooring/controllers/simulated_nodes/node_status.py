"""The status of a simulated node, as its kubelet would write it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from mooring.api import times
from mooring.api.core_v1 import (
    DaemonEndpoint,
    Node,
    NodeAddress,
    NodeCondition,
    NodeDaemonEndpoints,
    NodeStatus,
    NodeSystemInfo,
)
from mooring.api.quantity import Quantity
from mooring.api.simulation import FAILURE, NOT_READY
from mooring.controllers.simulated_nodes import addresses

_AMOUNTS = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
_HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
_READY = ("Ready", "True", "KubeletReady", "kubelet is posting ready status")
_BROKEN = ("Ready", "False", "KubeletNotReady", "the node was told to fail")
VERSION = "v1.37.0"


def own_labels(name: str) -> dict[str, str]:
    """What a kubelet says about its machine in labels."""
    return {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}


def wanted_conditions(node: Node, now: datetime) -> list[NodeCondition]:
    """The conditions of a node that reports: healthy, or not ready when it was told to fail."""
    known = {condition.type: condition for condition in node.status.conditions}
    moment = times.to_seconds(now)
    ready = _BROKEN if node.metadata.annotations.get(FAILURE) == NOT_READY else _READY
    made = []
    for kind, status, reason, message in (*_HEALTHY, ready):
        before = known.get(kind)
        since = before.last_transition_time if before is not None and before.status == status else moment
        made.append(
            NodeCondition(
                type=kind,
                status=status,
                reason=reason,
                message=message,
                last_heartbeat_time=moment,
                last_transition_time=since,
            )
        )
    return made


def is_up_to_date(node: Node, features: Sequence[str] = ()) -> bool:
    """Whether the conditions say what they should, however old they are, and nothing else is missing."""
    states = {condition.type: (condition.status, condition.reason) for condition in node.status.conditions}
    ready = _BROKEN if node.metadata.annotations.get(FAILURE) == NOT_READY else _READY
    wanted = all(states.get(kind) == (status, reason) for kind, status, reason, _ in (*_HEALTHY, ready))
    declared = bool(node.status.declared_features) or not features
    return wanted and declared and bool(node.status.capacity) and bool(node.status.addresses or not node.spec.pod_cidr)


def new_status(node: Node, now: datetime, features: Sequence[str] = ()) -> NodeStatus:
    """The whole status; what the node says already (capacity, images, declared features) stays."""
    status = node.status
    capacity = {name: Quantity.parse(amount) for name, amount in _AMOUNTS.items()} | status.capacity
    number = addresses.number_of(node.spec.pod_cidr)
    found = [NodeAddress(type="Hostname", address=node.metadata.name)]
    if number is not None:
        found.insert(0, NodeAddress(type="InternalIP", address=addresses.node_address(number)))
    return NodeStatus(
        capacity=capacity,
        allocatable=capacity | status.allocatable,
        conditions=wanted_conditions(node, now),
        addresses=status.addresses or (found if number is not None else []),
        daemon_endpoints=NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=10250)),
        node_info=status.node_info if status.node_info.kubelet_version else _system_info(node),
        images=status.images,
        declared_features=status.declared_features or list(features),
    )


def status_patch(node: Node, now: datetime, features: Sequence[str]) -> dict[str, Any]:
    """What to write so that a node's status is as it should be."""
    status = new_status(node, now, features)
    return {
        "capacity": status.capacity,
        "allocatable": status.allocatable,
        "conditions": status.conditions,
        "addresses": status.addresses,
        "daemonEndpoints": status.daemon_endpoints,
        "nodeInfo": status.node_info,
        "declaredFeatures": status.declared_features,
    }


def _system_info(node: Node) -> NodeSystemInfo:
    identity = str(uuid5(NAMESPACE_DNS, node.metadata.name))
    labels = node.metadata.labels
    return NodeSystemInfo(
        machine_id=identity.replace("-", ""),
        system_uuid=identity,
        boot_id=identity,
        kernel_version="6.12.0",
        os_image="Simulated Linux",
        container_runtime_version="containerd://2.1.0",
        kubelet_version=VERSION,
        operating_system=labels.get("kubernetes.io/os", "linux"),
        architecture=labels.get("kubernetes.io/arch", "amd64"),
    )
