"""Nodes and pods for tests of the scheduler: `pod("web", cpu="1")`, `node("n1", kernel="6.1")`."""

from itertools import count
from typing import Any

from mooring.api import codec
from mooring.api.core_v1 import Node, Pod

_uids = count(1)


def node(
    name: str,
    *,
    cpu: str = "4",
    pods: int = 110,
    taints: Any = (),
    labels: dict[str, str] | None = None,
    **more_labels: str,
) -> Node:
    """Return a node that is ready, with labels by keyword or as a dict, and taints as (key, value, effect)."""
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": str(pods)}
    tree = {
        "metadata": {
            "name": name,
            "uid": f"node-{name}",
            "labels": {"kubernetes.io/hostname": name, **(labels or {}), **more_labels},
        },
        "spec": {"taints": [dict(zip(("key", "value", "effect"), taint, strict=True)) for taint in taints]},
        "status": {"allocatable": amounts, "capacity": amounts},
    }
    return codec.from_tree(tree, Node, codec.FieldValidation.STRICT)[0]


def pod(
    name: str,
    *,
    cpu: str = "100m",
    priority: int | None = None,
    on: str = "",
    namespace: str = "default",
    scheduler: str = "default-scheduler",
    labels: dict[str, str] | None = None,
    uid: str = "",
    **spec: Any,
) -> Pod:
    """Return a pod with one container; `on` is its node, further keywords are fields of its spec in camelCase."""
    tree = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"pod-{name}-{next(_uids)}",
            "labels": labels or {},
        },
        "spec": {
            "schedulerName": scheduler,
            "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}],
            **spec,
        },
    }
    found = codec.from_tree(tree, Pod, codec.FieldValidation.STRICT)[0]
    found.spec.node_name = on
    found.spec.priority = priority
    return found


def needs_kernel(than: str) -> dict[str, Any]:
    """Return required node affinity: a newer `kernel` label than this version."""
    terms = [{"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": [than]}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
