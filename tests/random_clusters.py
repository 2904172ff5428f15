"""Random clusters whose nodes are drained, for tests that compare a plan of the drains with what really happens.

Nodes have different sizes, so that few placements are decided by lot. Workloads vary in kind, priority, budgets, spread
constraints, anti-affinity, node selectors, local data and readiness; there are singletons, pods of DaemonSets and pods
without a controller.
"""

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mooring.advisor.snapshot import engine, live
from mooring.api.apps_v1 import StatefulSet
from mooring.api.core_v1 import Pod
from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.client import Client

Tree = dict[str, Any]
ALONE = "alone"
"""The app of the pod without a controller, which is lost when its node is drained."""
DISKS = ("hdd", "ssd")
PRIORITIES = {"high": 1000, "low": -10}
_ORDERED: Tree = {"serviceName": "none"}
"""A StatefulSet that starts a pod when the pod before it is ready."""
KINDS: tuple[tuple[str, Tree], ...] = (
    ("Deployment", {}),
    ("Deployment", {}),
    ("StatefulSet", _ORDERED),
    ("StatefulSet", {"serviceName": "none", "podManagementPolicy": "Parallel"}),
)


@dataclass(frozen=True)
class RandomCluster:
    """Nodes as manifests, and the objects on them."""

    nodes: str
    objects: list[Tree]
    pods: int
    """How many pods there are without those of the DaemonSet."""


def random_cluster(seed: int) -> RandomCluster:
    draw = random.Random(seed)
    sizes = draw.sample([3, 4, 5, 6, 7, 8], draw.choice([3, 3, 4, 5]))
    nodes = "---\n".join(
        f"apiVersion: v1\nkind: Node\nmetadata: {{name: n{number}, labels: {{disk: {DISKS[number % 2]}}}}}\n"
        f'status: {{capacity: {{cpu: "{size}", memory: 64Gi, pods: "50"}}}}\n'
        for number, size in enumerate(sizes)
    )
    left = sum(sizes) * draw.choice([0.5, 0.8, 0.95])
    objects = [
        {**_object("scheduling.k8s.io/v1", "PriorityClass", name, {}), "value": value}
        for name, value in PRIORITIES.items()
    ]
    for each in objects:
        del each["spec"], each["metadata"]["namespace"]
    total = 0
    for number in range(draw.randint(2, 4)):
        replicas, cores = draw.randint(1, 3), draw.choice([0.5, 1.0, 1.5, 2.0])
        if replicas * cores > left:
            continue
        left -= replicas * cores
        total += replicas
        name = f"app{number}"
        kind, extra = draw.choice(KINDS)
        pod = _pod_spec(draw, name, cores, starts_pods_at_once=extra != _ORDERED)
        objects.append(_workload(kind, name, {"replicas": replicas, **extra}, pod))
        if draw.random() < 0.6:
            limits: list[Tree] = [
                {"minAvailable": max(replicas - draw.randint(0, 1), 1)},
                {"minAvailable": draw.choice(["50%", "67%", "100%"])},
                {"maxUnavailable": draw.randint(0, 1)},
                {"maxUnavailable": "34%"},
            ]
            guard: Tree = {**draw.choice(limits), "selector": _selector(name)}
            if draw.random() < 0.3:
                guard["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
            objects.append(_object("policy/v1", "PodDisruptionBudget", name, guard))
    if draw.random() < 0.5:
        objects.append(_workload("DaemonSet", "daemon", {}, _pod_spec(draw, "daemon", 0.0, is_daemon=True)))
    if draw.random() < 0.3:
        alone = _object("v1", "Pod", ALONE, _pod_spec(draw, ALONE, 0.0, is_daemon=True))
        alone["metadata"]["labels"] = {"app": ALONE}
        objects.append(alone)
        total += 1
    return RandomCluster(nodes, objects, total)


def _pod_spec(
    draw: random.Random, name: str, cores: float, *, is_daemon: bool = False, starts_pods_at_once: bool = True
) -> Tree:
    resources = {"requests": {"cpu": str(cores)}} if cores else {}
    spec: Tree = {"containers": [{"name": "c", "image": "app:1", "resources": resources}]}
    if is_daemon:
        return spec
    if draw.random() < 0.3:
        constraint = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
        spec["topologySpreadConstraints"] = [{**constraint, "labelSelector": _selector(name)}]
    if draw.random() < 0.25:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": _selector(name)}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if draw.random() < 0.2:
        spec["nodeSelector"] = {"disk": draw.choice(DISKS)}
    if draw.random() < 0.3:
        spec["priorityClassName"] = draw.choice(sorted(PRIORITIES))
    if draw.random() < 0.3:
        spec["volumes"] = [{"name": "cache", "emptyDir": {}}]
    if draw.random() < (0.2 if starts_pods_at_once else 0):
        spec["readinessGates"] = [{"conditionType": "example.com/never"}]
    return spec


def _selector(name: str) -> Tree:
    return {"matchLabels": {"app": name}}


def _object(api_version: str, kind: str, name: str, spec: Tree) -> Tree:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def _workload(kind: str, name: str, spec: Tree, pod: Tree) -> Tree:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    return _object("apps/v1", kind, name, {**spec, "selector": _selector(name), "template": template})


def is_drained(pod: Pod) -> bool:
    """Return whether a drain evicts the pod: not those of the DaemonSet."""
    return pod.metadata.labels["app"] != "daemon"


def apps(pods: list[Pod]) -> dict[str, int]:
    """Count pods by app."""
    return dict(Counter(pod.metadata.labels["app"] for pod in pods))


async def settle(client: Client, wanted: int, tick: Callable[[], Awaitable[object]]) -> list[Pod]:
    """Wait until all pods exist, none is terminating, and each runs or fits on no node; return what drains evict."""
    while True:
        await tick()
        listed = (await client.list(Pod, "default")).items
        pods = [pod for pod in listed if is_drained(pod)]
        budgets = (await client.list(PodDisruptionBudget, "default")).items
        healthy = Counter(pod.metadata.labels["app"] for pod in pods if _is_ready(pod))
        current = all(
            each.status.current_healthy == healthy[each.metadata.name]
            and each.status.observed_generation == each.metadata.generation
            and not each.status.disrupted_pods
            for each in budgets
        )
        waiting = [pod for pod in pods if pod.status.phase != "Running"]
        is_still = all(pod.metadata.deletion_timestamp is None for pod in listed)
        held_back = await _held_back(client, pods)
        if len(pods) + held_back == wanted and current and is_still and await _fit_nowhere(client, waiting):
            return pods


async def _held_back(client: Client, pods: list[Pod]) -> int:
    """Count the pods that ordered StatefulSets create only when a pod before them runs."""
    number = 0
    for each in (await client.list(StatefulSet, "default")).items:
        own = {pod.metadata.name: pod.status.phase for pod in pods}
        phases = [own.get(f"{each.metadata.name}-{ordinal}") for ordinal in range(each.spec.replicas or 0)]
        if each.spec.pod_management_policy != "Parallel":
            first = next((ordinal for ordinal, phase in enumerate(phases) if phase != "Running"), len(phases))
            number += phases[first + 1 :].count(None) if first < len(phases) and phases[first] else 0
    return number


def _is_ready(pod: Pod) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)


async def _fit_nowhere(client: Client, pods: list[Pod]) -> bool:
    """Return whether no node takes any of the pods, so that none of them is only waiting for its backoff."""
    if not pods:
        return True
    asked = engine(await live(client, "a test"))
    return all(not pod.spec.node_name and asked.schedule(pod).node is None for pod in pods)
