"""Pods bound a second through the API: a server on disk and a scheduler, each a process of its own, over HTTPS.

python -m benchmarks scheduler                       all workloads at 100 to 100,000 nodes: about half an hour
NODES=1000 PODS=2000 WORKLOADS=basic,cel python -m benchmarks scheduler

For each number of nodes there is one server. Workload by workload, pods are made, then a scheduler starts; what is
measured is the time from its readiness until the last pod is bound. Bound means written durably. Then all pods are
deleted. Latencies are those of an attempt, from taking the pod out of the queue until it is bound, with its wait for
the group that it is bound with. The targets are for 5,000 nodes. On a machine that others use too, look at the rate in
parentheses: pods for each second of processor time of the server or the scheduler, whichever takes more of it.

Results are kept in ``results/scheduler.json``, where a run replaces the rows that it has measured again;
``scheduler_report.py`` makes the tables and the plots in docs/ of them.
"""

import asyncio
import math
import os
import re
import time
from urllib.parse import urlencode
from urllib.request import urlopen

from benchmarks.results import Row, keep
from benchmarks.scheduler_cluster import SCHEDULER, BenchmarkCluster, Process

SIZES = {100: 1000, 1000: 2000, 5000: 5000, 15000: 3000, 50000: 2000, 100000: 2000}
"""By number of nodes, how many pods there are."""
NODES = [int(text) for text in os.environ.get("NODES", ",".join(map(str, SIZES))).split(",")]
PODS = int(os.environ.get("PODS", "0"))
TARGETS = {
    "basic": 2000,
    "numeric-toleration": 1500,
    "node-affinity": 1500,
    "semver": 1500,
    "cel": 1500,
    "spread-DoNotSchedule": 1500,
    "spread-ScheduleAnyway": 1500,
    "pod-affinity": 1000,
    "anti-affinity": 1000,
    "unschedulable-churn": None,
    "preemption": 1000,
    "device-claims": 1000,
}
"""Workloads and their targets. Churn: a fifth of the pods fits nowhere. Preemption: every pod displaces another.
Device claims: every node has eight devices, and every pod claims two of them."""
_ATTEMPTS = "scheduler_schedule_attempts_total"
_ATTEMPT = "scheduler_scheduling_attempt_duration_seconds"
_MOST_WITH_DEVICES = 50_000
_SECONDS = 120
"""How long a workload may take."""
_FASTEST = 10_000
"""Pods per second, above the rate of any scheduler."""
_LOOK_SECONDS, _LONGEST_SECONDS, _SHARE = 0.02, 0.5, 0.7
"""Reading metrics costs the scheduler some milliseconds: the next time is when so much of the rest should be over. The
pace of the beginning says little about the end, so this is the longest wait."""


def main() -> None:
    wanted = os.environ.get("WORKLOADS")
    chosen = wanted.split(",") if wanted else list(TARGETS)
    asyncio.run(_measure_all(chosen))


async def _measure_all(chosen: list[str]) -> None:
    begun = time.perf_counter()
    rates = f"{'pods':>6} {'pods/s':>7} {'(busy)':>8} {'target':>7}"
    latencies = f"{'p50 ms':>7} {'p90 ms':>7} {'p99 ms':>7}"
    print(f"{'workload':<22} {'nodes':>6} {rates} {latencies} {'ready s':>8} MB")
    for nodes in NODES:
        async with BenchmarkCluster(nodes, has_devices=nodes <= _MOST_WITH_DEVICES) as cluster:
            print(f"# {nodes} nodes made after {time.perf_counter() - begun:.0f} s", flush=True)
            for name in chosen:
                if name == "device-claims" and nodes > _MOST_WITH_DEVICES:
                    continue
                row = await _measure(cluster, name, _pods_of(name, nodes))
                keep("scheduler", row)
                _print(row)
    print(f"# done after {time.perf_counter() - begun:.0f} s")


def _pods_of(name: str, nodes: int) -> int:
    pods = PODS or SIZES.get(nodes, 2000)
    match name:
        case "anti-affinity":
            return min(pods, nodes // 2)  # one to a node, and half of the nodes have a taint
        case "device-claims":
            return min(pods, nodes)  # an untainted node has devices for four
        case "preemption":
            return min(pods, nodes // 4)
        case _:
            return pods


async def _measure(cluster: BenchmarkCluster, name: str, pods: int) -> Row:
    await cluster.fill(name, pods)
    kubeconfig = str(cluster.folder / "scheduler.kubeconfig")
    begun = time.perf_counter()
    arguments = ("--kubeconfig", kubeconfig, "--scheduler-name", SCHEDULER, "--port", "0")
    scheduler = Process(cluster.folder, "scheduler", *arguments)
    try:
        url = scheduler.line("metrics are at").rpartition(" ")[2].strip()
        scheduler.line("is ready")
        ready = time.perf_counter()
        computed = [process.processor_seconds for process in (scheduler, cluster.server)]
        seconds, page = await _until_bound(url, ready, pods)
        busy = max(scheduler.processor_seconds - computed[0], cluster.server.processor_seconds - computed[1])
        p50, p90, p99 = (quantile(page, share) for share in (0.5, 0.9, 0.99))
        return Row(
            workload=name,
            nodes=cluster.nodes,
            pods=pods,
            rate=pods / seconds,
            busy_rate=pods / busy if busy else 0.0,
            p50=p50,
            p90=p90,
            p99=p99,
            ready_seconds=ready - begun,
            scheduler_megabytes=scheduler.megabytes,
            server_megabytes=cluster.server.megabytes,
            load=os.getloadavg()[0],
        )
    finally:
        scheduler.stop()
        await cluster.clear()


async def _until_bound(url: str, ready: float, pods: int) -> tuple[float, str]:
    """How long it took until all pods were bound, and the page of metrics after that."""
    seen, seen_at, pace = 0.0, 0.0, 0.0
    await asyncio.sleep(pods / _FASTEST)
    while True:
        page = await asyncio.to_thread(_metrics, url)
        now = time.perf_counter() - ready
        bound = _bound(page)
        if bound >= pods:
            # It happened since the last look: estimate when from the rate before.
            return (min(now, seen_at + (pods - seen) / pace) if pace else now), page
        if now > _SECONDS:
            raise TimeoutError(f"only {bound:.0f} of {pods} pods were bound in {_SECONDS} s")
        pace = (bound - seen) / (now - seen_at)
        seen, seen_at = bound, now
        left = (pods - bound) / pace if pace else _LONGEST_SECONDS
        await asyncio.sleep(min(max(_LOOK_SECONDS, left * _SHARE), _LONGEST_SECONDS))


def _print(row: Row) -> None:
    target = TARGETS.get(row.workload) or ""
    latencies = " ".join(f"{1000 * value:>7.0f}" for value in (row.p50, row.p90, row.p99))
    memory = f"{row.scheduler_megabytes:.0f} + {row.server_megabytes:.0f}"
    busy = f"({row.busy_rate:.0f})"
    rate = f"{row.pods:>6} {row.rate:>7.0f} {busy:>8} {target:>7}"
    print(f"{row.workload:<22} {row.nodes:>6} {rate} {latencies} {row.ready_seconds:>8.1f} {memory}", flush=True)


def _metrics(url: str) -> str:
    """Of the metrics, no more than is looked at: telling all would cost the scheduler what is to be measured."""
    names = urlencode([("name[]", _ATTEMPTS), ("name[]", _ATTEMPT)])
    with urlopen(f"{url}/metrics?{names}") as page:
        return str(page.read().decode())


def _bound(page: str) -> float:
    for line in page.splitlines():
        if line.startswith(_ATTEMPTS) and 'result="scheduled"' in line:
            return float(line.rpartition(" ")[2])
    return 0.0


def quantile(page: str, share: float) -> float:
    """In seconds, from a pod's being taken out of the queue until it was bound: Prometheus' `histogram_quantile`."""
    buckets: list[tuple[float, float]] = []
    for line in page.splitlines():
        if line.startswith(f"{_ATTEMPT}_bucket") and 'result="scheduled"' in line:
            bound = re.search(r'le="([^"]+)"', line)
            buckets.append((float(bound[1]) if bound else math.inf, float(line.rpartition(" ")[2])))
    wanted = share * buckets[-1][1] if buckets else 0.0
    lower = below = 0.0
    for upper, number in buckets:
        if number >= wanted:
            return lower if math.isinf(upper) else lower + (upper - lower) * (wanted - below) / max(number - below, 1)
        lower, below = upper, number
    return 0.0
