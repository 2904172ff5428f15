"""The scheduler's engine alone: pods placed a second, by what the pods ask for and by the number of nodes.

python -m benchmarks scheduler_engine                 all workloads at 100 to 100,000 nodes
NODES=5000 PODS=2000 WORKLOADS=basic,cel python -m benchmarks scheduler_engine

Times are of the processor: the engine computes and never waits, and so neighbours on a busy machine count less. Each
row is measured in a process of its own, so that its memory is its own. Results are kept in
``results/scheduler_engine.json``; ``scheduler_report.py`` makes the table and the plot in docs/ of them.
"""

import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Callable
from itertools import count

from benchmarks.results import Row, keep
from mooring.api.core_v1 import (
    Affinity,
    Container,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
    ResourceRequirements,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from mooring.api.meta_v1 import LabelSelector, ObjectMeta
from mooring.api.quantity import parse
from mooring.scheduler.deciding.engine import Engine, fit_message

NODES = [int(text) for text in os.environ.get("NODES", "100,1000,5000,15000,50000,100000").split(",")]
PODS = int(os.environ.get("PODS", "2000"))
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
KERNELS = ["5.4.0-150", "5.10.0-28", "5.15.0-91", "6.1.0-18", "6.6.12", "6.8.0-31"]
_uids = count()


def main() -> None:
    wanted = os.environ.get("WORKLOADS")
    chosen = [name for name in WORKLOADS if not wanted or name in wanted.split(",")]
    print(f"{'workload':<20} {'nodes':>7} {'pods/s':>9} {'p50 µs':>8} {'p99 µs':>8} {'placed':>7} {'MB':>6}")
    chosen += [name for name in FULL_CLUSTER if not wanted or name in wanted.split(",")]
    for name in chosen:
        for nodes in NODES:
            process = multiprocessing.get_context("spawn").Process(target=_measure, args=(name, nodes))
            process.start()
            process.join()


def _measure(name: str, nodes: int) -> None:
    if name in FULL_CLUSTER:
        FULL_CLUSTER[name](nodes)
        return
    spec = WORKLOADS[name]
    engine = Engine()
    for number in range(nodes):
        engine.put(_node(number))
    number = min(PODS, nodes // 2) if name == "anti-affinity" else PODS
    pods = [_pod(name, spec()) for _ in range(number)]
    engine.schedule(_pod(name, spec()))  # the first of a shape pays for all
    times: list[float] = []
    placed = 0
    start = time.process_time()
    for pod in pods:
        before = time.process_time()
        outcome = engine.schedule(pod)
        if outcome.node is not None:
            engine.assume(pod, outcome.node)
            placed += 1
        times.append(time.process_time() - before)
    rate = len(pods) / (time.process_time() - start)
    _report(name, nodes, rate, times, placed)


def _report(name: str, nodes: int, rate: float, times: list[float], placed: int) -> None:
    percentiles = statistics.quantiles(times, n=100, method="inclusive")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    p50, p99 = percentiles[49] * 1e6, percentiles[98] * 1e6
    print(f"{name:<20} {nodes:>7} {rate:>9.0f} {p50:>8.0f} {p99:>8.0f} {placed:>7} {memory:>6.0f}", flush=True)
    row = Row(
        workload=name,
        nodes=nodes,
        pods=len(times),
        rate=rate,
        p50=percentiles[49],
        p99=percentiles[98],
        scheduler_megabytes=memory,
        load=os.getloadavg()[0],
    )
    keep("scheduler_engine", row)


def _measure_preemption(nodes: int) -> None:
    """Fill a cluster with pods of low priority and place pods that preempt some of them."""
    engine, _ = _full_engine(nodes)
    times: list[float] = []
    found = 0
    for _ in range(min(PODS // 20, nodes)):
        pod = _pod("high", _spec("8"))
        pod.spec.priority = 100
        before = time.process_time()
        preempted = engine.post_filter(engine.schedule(pod))
        if preempted.nominated is not None:
            for victim in preempted.victims:
                engine.remove(victim)
            engine.assume(pod, preempted.nominated)
            found += 1
        times.append(time.process_time() - before)
    _report("preemption", nodes, len(times) / sum(times), times, found)


def _measure_churn(nodes: int) -> None:
    """Fill a cluster and evaluate pending pods, one after each replacement of a pod on some node."""
    engine, running = _full_engine(nodes)
    times: list[float] = []
    for number in range(PODS):
        gone = running[number * 7919 % len(running)]
        engine.remove(gone)
        engine.put(gone)
        waiting = _pod("waiting", _spec("8"))
        before = time.process_time()
        outcome = engine.schedule(waiting)
        message = fit_message(outcome, engine.post_filter(outcome))
        times.append(time.process_time() - before)
        if "Insufficient cpu" not in message:
            raise SystemExit(message)
    _report("unschedulable-churn", nodes, len(times) / sum(times), times, 0)


def _full_engine(nodes: int) -> tuple[Engine, list[Pod]]:
    engine, pods = Engine(), []
    for number in range(nodes):
        engine.put(_node(2 * number))  # those without a taint
        for _ in range(8):
            pod = _pod("low", _spec("4"))
            pod.spec.node_name = f"node-{2 * number}"
            engine.put(pod)
            pods.append(pod)
    return engine, pods


def _node(number: int) -> Node:
    amounts = {"cpu": parse("32"), "memory": parse("128Gi"), "pods": parse("110")}
    labels = {
        HOST: f"node-{number}",
        ZONE: f"zone-{number % 3}",
        "kernel": KERNELS[number % len(KERNELS)],
        "tier": "gold" if number % 2 else "silver",
    }
    taints = [Taint(key="sla", value=str(900 + number % 100), effect="NoSchedule")] if number % 2 else []
    return Node(
        metadata=ObjectMeta(name=f"node-{number}", labels=labels),
        spec=NodeSpec(taints=taints),
        status=NodeStatus(capacity=amounts, allocatable=amounts),
    )


def _pod(workload: str, spec: PodSpec) -> Pod:
    uid = f"uid-{next(_uids)}"
    return Pod(metadata=ObjectMeta(name=uid, namespace="default", uid=uid, labels={"app": workload}), spec=spec)


def _spec(cpu: str = "100m") -> PodSpec:
    requests = {"cpu": parse(cpu), "memory": parse("128Mi")}
    return PodSpec(containers=[Container(name="c", image="app:1", resources=ResourceRequirements(requests=requests))])


def _tolerating(toleration: Toleration) -> PodSpec:
    spec = _spec()
    spec.tolerations = [toleration]
    return spec


def _on_nodes(term: NodeSelectorTerm) -> PodSpec:
    spec = _spec()
    required = NodeSelector(node_selector_terms=[term])
    spec.affinity = Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required))
    return spec


def _where(key: str, operator: str, *values: str) -> PodSpec:
    requirement = NodeSelectorRequirement(key=key, operator=operator, values=list(values))
    return _on_nodes(NodeSelectorTerm(match_expressions=[requirement]))


def _spread(action: str) -> PodSpec:
    spec = _spec()
    spec.topology_spread_constraints = [
        TopologySpreadConstraint(
            max_skew=1,
            topology_key=ZONE,
            when_unsatisfiable=action,
            label_selector=LabelSelector(match_labels={"app": f"spread-{action}"}),
        )
    ]
    return spec


def _near() -> PodSpec:
    spec = _spec()
    term = PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": "pod-affinity"}), topology_key=ZONE)
    spec.affinity = Affinity(pod_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=[term]))
    return spec


def _apart() -> PodSpec:
    spec = _spec()
    term = PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": "anti-affinity"}), topology_key=HOST)
    far = PodAntiAffinity(required_during_scheduling_ignored_during_execution=[term])
    spec.affinity = Affinity(pod_anti_affinity=far)
    return spec


def _too_large() -> PodSpec:
    spec = _spec()
    spec.containers[0].resources.requests = {"cpu": parse("64")}
    return spec


WORKLOADS: dict[str, Callable[[], PodSpec]] = {
    "basic": _spec,
    "numeric-toleration": lambda: _tolerating(Toleration(key="sla", operator="Gt", value="949", effect="NoSchedule")),
    "node-affinity": lambda: _where("tier", "In", "silver"),
    "semver": lambda: _where("kernel", "SemverGt", "5.10.0"),
    "cel": lambda: _on_nodes(
        NodeSelectorTerm(match_cel_expressions=["semver.compare(node.labels['kernel'], '>=5.10')"])
    ),
    "spread-DoNotSchedule": lambda: _spread("DoNotSchedule"),
    "spread-ScheduleAnyway": lambda: _spread("ScheduleAnyway"),
    "pod-affinity": _near,
    "anti-affinity": _apart,
    "unschedulable": _too_large,
}
FULL_CLUSTER: dict[str, Callable[[int], None]] = {
    "unschedulable-churn": _measure_churn,
    "preemption": _measure_preemption,
}
