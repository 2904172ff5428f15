"""Simulations of large clusters: time and memory of the whole command, from nodes to a result.

python -m benchmarks simulate                 5,000 nodes and 50,000 pods, a drain, a preemption; 50,000 nodes
CASES=deployment,drain python -m benchmarks simulate
CASES=a-million python -m benchmarks simulate         100,000 nodes and 1,000,000 pods: some minutes; only when named

The aims: 50,000 pods on 5,000 nodes in less than 30 s and 1.5 GB; a million on 100,000 in ten minutes and 8 GB. Each
row is a process of its own, so that its memory is. `s` is by the clock, `cpu s` of the processor: on a busy machine
neighbours count less there.
"""

import multiprocessing
import os
import resource
import time

from mooring.advisor.simulate import Add, Drain, RemoveNodes, Scenario, Step, simulate
from mooring.advisor.simulate.html import render_page
from mooring.advisor.simulate.manifests import copy_templates, read_objects
from mooring.advisor.snapshot import Snapshot

_TEMPLATE = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      priorityClassName: {priority}
      containers: [{{name: c, image: "app:1", resources: {{requests: {{cpu: {cpu}, memory: 256Mi}}}}}}]
"""
_PRIORITY = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1000\n"


def _deployment(name: str, replicas: int, cpu: str = "100m", priority: str = '""') -> Step:
    text = _TEMPLATE.format(name=name, cpu=cpu, priority=priority)
    return Step((Add(read_objects(text, name), replicas),))


CASES: dict[str, tuple[int, tuple[Step, ...]]] = {
    "deployment": (5000, (_deployment("web", 50_000),)),
    "fifty-deployments": (5000, tuple(_deployment(f"web-{number}", 1000) for number in range(50))),
    "drain": (5000, (_deployment("web", 50_000), Step((Drain(tuple(f"node-{n}" for n in range(500))),)))),
    "too-many": (500, (_deployment("web", 50_000, "1"),)),
    "preemption": (
        1000,
        (
            _deployment("web", 32_000, "1"),
            Step((Add(read_objects(_PRIORITY, "priority")),)),
            _deployment("vip", 500, "4", "high"),
        ),
    ),
    "fifty-thousand-nodes": (50_000, (_deployment("web", 10_000), Step((RemoveNodes(("node-77?",)),)))),
}
LONG_CASES: dict[str, tuple[int, tuple[Step, ...]]] = {
    "a-million": (100_000, tuple(_deployment(f"web-{number}", 10_000) for number in range(100))),
}


def main() -> None:
    wanted = os.environ.get("CASES", ",".join(CASES)).split(",")
    print(f"{'case':<21} {'nodes':>6} {'pods':>6} {'placed':>6} {'waiting':>7} {'s':>6} {'cpu s':>6}   html    MB")
    for name in [*CASES, *LONG_CASES]:
        if name in wanted:
            process = multiprocessing.get_context("spawn").Process(target=_measure, args=(name,))
            process.start()
            process.join()


def _measure(name: str) -> None:
    nodes, steps = (CASES | LONG_CASES)[name]
    begun, spent = time.perf_counter(), time.process_time()
    snapshot = Snapshot(f"{nodes} nodes", copy_templates((), nodes))
    result = simulate(snapshot, Scenario(steps))
    seconds, cpu = time.perf_counter() - begun, time.process_time() - spent
    render_page(result)
    drawn = time.process_time() - spent - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    counts = result.counts
    print(
        f"{name:<21} {nodes:>6} {counts.pods:>6} {counts.placed:>6} {counts.pending:>7} {seconds:>6.1f} {cpu:>6.1f} "
        f"{drawn:>6.1f} {memory:>5.0f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
