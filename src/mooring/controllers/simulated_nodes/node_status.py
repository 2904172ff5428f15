"""The status of a simulated node, as its kubelet would write it."""

from datetime import datetime
from uuid import NAMESPACE_DNS, uuid5

from msgspec import structs

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
from mooring.api.simulation import FAILURE, NOT_READY, PREFIX
from mooring.controllers.conditions import build_condition
from mooring.controllers.options import Kubelet
from mooring.controllers.simulated_nodes import addresses

_AMOUNTS = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
_HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
_READY = ("Ready", "True", "KubeletReady", "kubelet is posting ready status")
_BROKEN = ("Ready", "False", "KubeletNotReady", "the node is set to fail")
KUBELET_VERSION = f"{PREFIX}kubelet-version"
"""The kubelet version that a node reports; by default that of the emulated version."""
_OS_IMAGE = "Simulated Linux"


def kubelet_labels(name: str) -> dict[str, str]:
    """Return the labels that a kubelet sets on its node."""
    return {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}


def build_conditions(node: Node, now: datetime) -> list[NodeCondition]:
    """Return the conditions that a simulated node reports: healthy, or not ready if it was set to fail."""
    moment = times.to_seconds(now)
    ready = _BROKEN if node.metadata.annotations.get(FAILURE) == NOT_READY else _READY
    return [
        build_condition(NodeCondition, node.status.conditions, content, moment, last_heartbeat_time=moment)
        for content in (*_HEALTHY, ready)
    ]


def kubelet_of(node: Node, usual: Kubelet) -> Kubelet:
    """Return the version and features of a node's kubelet: from its annotation, or the default."""
    wanted = node.metadata.annotations.get(KUBELET_VERSION)
    return (usual.with_version(wanted) if wanted else None) or usual


def is_up_to_date(node: Node, usual: Kubelet) -> bool:
    """Return whether a node's status is complete and has the right conditions, whatever their heartbeat times."""
    states = {condition.type: (condition.status, condition.reason) for condition in node.status.conditions}
    ready = _BROKEN if node.metadata.annotations.get(FAILURE) == NOT_READY else _READY
    wanted = all(states.get(kind) == (status, reason) for kind, status, reason, _ in (*_HEALTHY, ready))
    kubelet = kubelet_of(node, usual)
    declared = bool(node.status.declared_features) or not kubelet.features
    named = _build_node_info(node, kubelet) == node.status.node_info
    addressed = bool(node.status.addresses or not node.spec.pod_cidr)
    return wanted and declared and named and bool(node.status.capacity) and addressed


def build_node_status(node: Node, now: datetime, usual: Kubelet) -> NodeStatus:
    """Return the whole status of a simulated node; capacity, addresses, images and features that it has are kept."""
    status, kubelet = node.status, kubelet_of(node, usual)
    capacity = {name: Quantity.parse(amount) for name, amount in _AMOUNTS.items()} | status.capacity
    number = addresses.parse_network_number(node.spec.pod_cidr)
    found = [NodeAddress(type="Hostname", address=node.metadata.name)]
    if number is not None:
        found.insert(0, NodeAddress(type="InternalIP", address=addresses.node_address(number)))
    return NodeStatus(
        capacity=capacity,
        allocatable=capacity | status.allocatable,
        conditions=build_conditions(node, now),
        addresses=status.addresses or (found if number is not None else []),
        daemon_endpoints=NodeDaemonEndpoints(kubelet_endpoint=DaemonEndpoint(port=10250)),
        node_info=_build_node_info(node, kubelet),
        images=status.images,
        declared_features=status.declared_features or list(kubelet.features),
    )


def _build_node_info(node: Node, kubelet: Kubelet) -> NodeSystemInfo:
    reported = node.status.node_info
    if reported.kubelet_version and reported.os_image != _OS_IMAGE:
        return reported
    return structs.replace(reported if reported.os_image else _build_system_info(node), kubelet_version=kubelet.version)


def _build_system_info(node: Node) -> NodeSystemInfo:
    identity = str(uuid5(NAMESPACE_DNS, node.metadata.name))
    labels = node.metadata.labels
    return NodeSystemInfo(
        machine_id=identity.replace("-", ""),
        system_uuid=identity,
        boot_id=identity,
        kernel_version="6.12.0",
        os_image=_OS_IMAGE,
        container_runtime_version="containerd://2.1.0",
        operating_system=labels.get("kubernetes.io/os", "linux"),
        architecture=labels.get("kubernetes.io/arch", "amd64"),
    )
