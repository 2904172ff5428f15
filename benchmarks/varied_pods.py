"""Nodes and pods for ``variety.py``: pods from so many templates, which differ from each other on one axis.

Objects are dicts, as they are sent to an API server; the engine gets them as types. A template's number decides what
is its own, so that two runs make the same pods.
"""

from collections.abc import Callable
from typing import Any

Tree = dict[str, Any]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = 3


def node(number: int) -> Tree:
    """Make a node with room for 110 pods. One node in ten has a taint."""
    room = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    name = f"node-{number}"
    labels = {HOST: name, ZONE: f"zone-{number % ZONES}", "tier": "gold" if number % 2 else "silver"}
    taints = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}] if number % 10 == 9 else []
    ready = {"type": "Ready", "status": "True"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }


def pod(axis: str, template: int, number: int, scheduler: str = "default-scheduler") -> Tree:
    """Make the pod with a number, from a template of an axis."""
    made: Tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p{number}", "namespace": "default", "labels": {"app": "web"}},
        "spec": {
            "schedulerName": scheduler,
            "containers": [
                {"name": "c", "image": "web:1", "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}}
            ],
        },
    }
    AXES[axis](made, template)
    return made


def _label(made: Tree, template: int) -> Tree:
    """Give the pod an app label of its own; return a selector for it."""
    made["metadata"]["labels"] = {"app": f"app-{template}"}
    return {"matchLabels": {"app": f"app-{template}"}}


def _image(made: Tree, template: int) -> None:
    made["spec"]["containers"][0]["image"] = f"app-{template}:1"


def _requests(made: Tree, template: int) -> None:
    requests = {"cpu": f"{20 + template % 97}m", "memory": f"{64 * 1024 + template}Ki"}
    made["spec"]["containers"][0]["resources"]["requests"] = requests


def _env(made: Tree, template: int) -> None:
    made["spec"]["containers"][0]["env"] = [{"name": "APP", "value": f"app-{template}"}]


def _node_affinity(made: Tree, template: int) -> None:
    expression = {"key": "tier", "operator": "In", "values": ["silver", f"tier-{template}"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    made["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _spread(made: Tree, template: int) -> None:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    made["spec"]["topologySpreadConstraints"] = [{**constraint, "labelSelector": _label(made, template)}]


def _anti_affinity(made: Tree, template: int) -> None:
    term = {"labelSelector": _label(made, template), "topologyKey": HOST}
    made["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _preferred_affinity(made: Tree, template: int) -> None:
    term = {"weight": 50, "podAffinityTerm": {"labelSelector": _label(made, template), "topologyKey": ZONE}}
    made["spec"]["affinity"] = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


def _toleration(made: Tree, _template: int) -> None:
    made["spec"]["tolerations"] = [{"key": "dedicated", "operator": "Equal", "value": "batch"}]


def _node_selector(made: Tree, template: int) -> None:
    made["spec"]["nodeSelector"] = {"tier": "gold" if template // 2 % 2 else "silver"}


def _mix(made: Tree, template: int) -> None:
    """Give the pod an image, requests, environment and label of its own, and one of six placement rules."""
    for change in (_image, _requests, _env, _label):
        change(made, template)
    rules = (_spread, _anti_affinity, _preferred_affinity, _node_affinity, _node_selector, _toleration)
    rules[template % len(rules)](made, template)


AXES: dict[str, Callable[[Tree, int], object]] = {
    "image": _image,
    "requests": _requests,
    "env": _env,
    "label": _label,
    "node-affinity": _node_affinity,
    "spread": _spread,
    "anti-affinity": _anti_affinity,
    "preferred-affinity": _preferred_affinity,
    "mix": _mix,
}
