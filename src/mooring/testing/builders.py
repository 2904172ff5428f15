"""Build nodes and pods for tests in one line each. Fields without an argument of their own go into `spec`, as in YAML.

>>> node("a", taints=["sla=950:NoSchedule"], zone="z1").metadata.labels["topology.kubernetes.io/zone"]
'z1'
>>> pod("web", cpu="500m", spec={"tolerations": [{"key": "sla", "operator": "Gt", "value": "900"}]}).spec.priority
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from mooring.api.core_v1 import Node, Pod
from mooring.api.from_tree import FieldValidation, from_tree
from mooring.api.meta_v1 import Resource

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
T = TypeVar("T", bound=Resource)


def made(kind: type[T], tree: Mapping[str, Any]) -> T:
    """Decode an object from a tree as in YAML."""
    found, _ = from_tree(dict(tree), kind, FieldValidation.STRICT)
    return found


def node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: str = "110",
    labels: Mapping[str, str] | None = None,
    zone: str = "",
    taints: Sequence[str] = (),
    resources: Mapping[str, str] | None = None,
    unschedulable: bool = False,
    images: Mapping[str, int] | None = None,
) -> Node:
    """Build a node with its hostname label; taints are written `key=value:Effect`, images map names to sizes."""
    amounts = {"cpu": cpu, "memory": memory, "pods": pods, **(resources or {})}
    places = {HOSTNAME: name} | ({ZONE: zone} if zone else {})
    return made(
        Node,
        {
            "metadata": {"name": name, "labels": places | dict(labels or {})},
            "spec": {"taints": [taint(text) for text in taints], "unschedulable": unschedulable},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "images": [{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()],
            },
        },
    )


def taint(text: str) -> dict[str, str]:
    """Parse a taint as `kubectl taint` does: `key=value:Effect` or `key:Effect`."""
    rest, _, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    return {"key": key, "value": value, "effect": effect}


def pod(
    name: str,
    *,
    namespace: str = "default",
    cpu: str = "",
    memory: str = "",
    requests: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    on: str = "",
    priority: int | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Pod:
    """Build a pod with one container, bound to the node `on` if that is given. Its uid is derived from its name."""
    amounts = {"cpu": cpu, "memory": memory, **(requests or {})}
    container = {
        "name": "c",
        "image": "app:1",
        "resources": {"requests": {key: amount for key, amount in amounts.items() if amount}},
    }
    return made(
        Pod,
        {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"uid-{namespace}-{name}",
                "labels": dict(labels or {}),
                **(metadata or {}),
            },
            "spec": {"containers": [container], "nodeName": on, "priority": priority, **(spec or {})},
            "status": {"phase": "Running" if on else "Pending", **(status or {})},
        },
    )
