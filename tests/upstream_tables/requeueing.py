"""Scenarios on a running control plane: a pod that is pending is placed after a taint, or its own labels, change.

The first is upstream's TestTaintTolerationGtLtIntegration; the others are the queueing hints of InterPodAffinity and
PodTopologySpread for updates of the pending pod, which upstream tests without a scheduler.
"""

from collections.abc import Callable, Iterator

from mooring.api.core_v1 import Node, Pod
from mooring.testing.control_plane import RunningControlPlane
from upstream_tables.case import Tree
from upstream_tables.live import create_node, create_pod, delete_pod, outcome

_PRIORITY, _ERRORS = "node.example.com/priority-level", "node.example.com/error-rate"
_DEDICATED = "node.example.com/dedicated"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class _Scenario:
    """Pods and nodes of one scenario."""

    def __init__(self, plane: RunningControlPlane) -> None:
        self._plane = plane
        self._nodes: list[str] = []
        self._pods: list[str] = []

    def node(
        self, name: str, cpu: str = "8", *, labels: dict[str, str] | None = None, taints: tuple[Tree, ...] = ()
    ) -> None:
        amounts = {"cpu": cpu, "memory": "4Gi", "pods": "32"}
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
        status = {"capacity": amounts, "allocatable": amounts}
        create_node(self._plane, {"metadata": metadata, "spec": {"taints": list(taints)}, "status": status})
        self._nodes.append(name)

    def taint(self, node: str, key: str, value: str) -> None:
        self._plane.patch(Node, node, {"spec": {"taints": [_taint(key, value)]}}, "")

    def pod(self, name: str, spec: Tree, labels: dict[str, str] | None = None) -> str:
        """Create a pod; return its node, or an empty string when it is unschedulable."""
        created = create_pod(self._plane, name, spec, labels or {})
        self._pods.append(name)
        return _node_of(outcome(self._plane, created))

    def label(self, pod: str, **labels: str) -> str:
        """Change labels of a pending pod; return the node where it is placed, or an empty string."""
        self._plane.patch(Pod, pod, {"metadata": {"labels": labels}})
        return self.retried(pod)

    def retried(self, pod: str) -> str:
        """Return the node of a pod that was pending, or an empty string when it is not placed in time."""
        return _node_of(outcome(self._plane, self._plane.get(Pod, pod), until_placed=True))

    def clean_up(self) -> None:
        for name in self._pods:
            delete_pod(self._plane, "default", name)
        for name in self._nodes:
            self._plane.delete(Node, name, "")


def _node_of(found: str) -> str:
    return "" if found.startswith("pending") else found


def _taint(key: str, value: str) -> Tree:
    return {"key": key, "value": value, "effect": "NoSchedule"}


def _wants(cpu: str, key: str, operator: str, value: str) -> Tree:
    toleration = {"key": key, "operator": operator, "value": value, "effect": "NoSchedule"}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"containers": [container], "tolerations": [toleration]}


def _affinity(kind: str, key: str, value: str) -> Tree:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {key: value}}}
    return {"affinity": {kind: {_REQUIRED: [term]}}}


Steps = Iterator[tuple[str, str, str]]
"""What is expected, the node that the pod is on, and the node that it is expected on."""


def _numeric_tolerations(run: _Scenario) -> Steps:
    run.node("gt-1", "1", taints=(_taint(_DEDICATED, "special"),))
    run.node("gt-2", "1", taints=(_taint(_PRIORITY, "850"),))
    yield "pod1 is placed", run.pod("pod1", _wants("900m", _DEDICATED, "Equal", "special")), "gt-1"
    yield "pod2 tolerates no node", run.pod("pod2", _wants("200m", _PRIORITY, "Gt", "900")), ""
    run.taint("gt-2", _PRIORITY, "950")
    yield "pod2 is placed when the taint rises", run.retried("pod2"), "gt-2"
    run.node("gt-3", "1", taints=(_taint(_ERRORS, "15"),))
    yield "pod3 tolerates no node", run.pod("pod3", _wants("100m", _ERRORS, "Lt", "10")), ""
    run.taint("gt-3", _ERRORS, "5")
    yield "pod3 is placed when the taint falls", run.retried("pod3"), "gt-3"


def _own_labels(run: _Scenario) -> Steps:
    run.node("own-1", labels={"zone": "z1"})
    run.node("own-2", labels={"zone": "z2"}, taints=(_taint("t", "v"),))
    run.pod("a", _affinity("podAffinity", "app", "x"), {"app": "y"})
    yield "its own affinity matches it now", run.label("a", app="x"), "own-1"
    run.pod("repelling", {"nodeName": "own-1"} | _affinity("podAntiAffinity", "q", "1"))
    run.pod("b", {}, {"q": "1"})
    yield "the anti-affinity of another pod no longer matches it", run.label("b", q="2"), "own-1"
    run.pod("counted", {"nodeName": "own-1"}, {"app": "z"})
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    run.pod(
        "c", {"topologySpreadConstraints": [spread | {"labelSelector": {"matchLabels": {"app": "z"}}}]}, {"app": "z"}
    )
    yield "its own constraint no longer counts it", run.label("c", app="other"), "own-1"


SCENARIOS: dict[str, Callable[[_Scenario], Steps]] = {
    "TestTaintTolerationGtLtIntegration": _numeric_tolerations,
    "a change of the pending pod's labels": _own_labels,
}


def play_all(plane: RunningControlPlane) -> Iterator[tuple[str, str | None]]:
    """Play every scenario; yield the name of each step and the difference, or None."""
    for title, steps in SCENARIOS.items():
        run = _Scenario(plane)
        try:
            for name, node, wanted in steps(run):
                yield f"{title}/{name}", None if node == wanted else f"on {node!r}, upstream on {wanted!r}"
        finally:
            run.clean_up()
