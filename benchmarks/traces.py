"""Replays of growing traces: time and memory, from a file to its measures.

python -m benchmarks traces                        1,000 nodes and 10,000 pods, ten times as much, a hundred times
SIZES=1000:10000 python -m benchmarks traces       others

The aim: 100,000 nodes and 1,000,000 pods in less than 8 GB. Pods of eight shapes arrive over ten thousand seconds and
run for five thousand on average. Each row is a process of its own, so that its memory is; `cpu s` is of one core.
Results are kept in ``results/traces.json``; ``scheduler_report.py`` makes the table and the plot in docs/ of them.
"""

import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.results import Row, keep
from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.traces.opening import Trace
from mooring.advisor.simulate.traces.replaying import Replay, ReplayOptions, ReplayProgress
from mooring.advisor.snapshot import Snapshot

_SIZES = "1000:10000,10000:100000,100000:1000000"
_SECONDS = 10_000.0


def main() -> None:
    print(f"{'nodes':>8} {'pods':>9} {'placed':>9} {'running':>8} {'s':>7} {'cpu s':>7} {'pods/cpu s':>10} {'MB':>6}")
    context = multiprocessing.get_context("spawn")
    for size in os.environ.get("SIZES", _SIZES).split(","):
        nodes, pods = map(int, size.split(":"))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.csv"
            write(path, nodes, pods)
            process = context.Process(target=_measure, args=(path, nodes, pods))
            process.start()
            process.join()


def write(path: Path, nodes: int, pods: int) -> None:
    lot = random.Random(1)
    with path.open("w", encoding="utf-8") as stream:
        stream.write("time,event,kind,name,resources,duration\n")
        stream.writelines(f"0,add,Node,n{number},cpu=32 memory=128Gi,\n" for number in range(nodes))
        for number in range(pods):
            cores = 1 << lot.randrange(4)
            memory = lot.choice((2, 4))
            at, lasts = _SECONDS * number / pods, lot.expovariate(2 / _SECONDS)
            stream.write(f"{at:.3f},add,Pod,p{number},cpu={cores} memory={cores * memory}Gi,{lasts:.1f}\n")


def _measure(path: Path, nodes: int, pods: int) -> None:
    begun, cpu = time.perf_counter(), time.process_time()
    replay = Replay(Snapshot("nothing", []), Settings(), ReplayOptions(until=_SECONDS), _tell)
    replay.run(Trace((path,)).events())
    seconds, used = time.perf_counter() - begun, time.process_time() - cpu
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    numbers = replay.result_numbers()
    placed, running = int(numbers["placed"]), int(numbers["running"])
    print(f"{nodes:>8,} {pods:>9,} {placed:>9,} {running:>8,}", end=" ")
    print(f"{seconds:>7.1f} {used:>7.1f} {pods / used:>10,.0f} {megabytes:>6,.0f}", flush=True)
    row = Row(
        workload="replay of a trace",
        nodes=nodes,
        pods=pods,
        rate=pods / used,
        p50=used / pods,
        p99=0.0,
        scheduler_megabytes=megabytes,
        load=os.getloadavg()[0],
    )
    keep("traces", row)


def _tell(progress: ReplayProgress) -> None:
    """Print progress now and then."""
    if not progress.events % (256 * 128):
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"  {progress.events:,} events, {progress.running:,} pods run, {megabytes:,.0f} MB", file=sys.stderr)
