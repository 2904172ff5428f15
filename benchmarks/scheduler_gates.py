"""What the new gates cost pods that do not use them: the engine's time with all of them on and with all off.

python -m benchmarks scheduler_gates
NODES=1000 ROUNDS=40 python -m benchmarks scheduler_gates

Both engines place like pods in turns, a hundred at a time, so that a busy machine slows both alike. Every round does
the same work, so the fastest is the one that was disturbed the least. The target is a ratio of at most 1.03.
"""

import os
import time
from collections.abc import Callable

from benchmarks.scheduler_engine import WORKLOADS, _node, _pod, _tolerating
from mooring.api.core_v1 import PodSpec, Toleration
from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.engine import Engine
from mooring.scheduler.framework import SchedulerFeatures

NODES = int(os.environ.get("NODES", "5000"))
ROUNDS = int(os.environ.get("ROUNDS", "30"))
PODS = 100
"""In a round."""
PLAIN: dict[str, Callable[[], PodSpec]] = {
    **{name: WORKLOADS[name] for name in ("basic", "node-affinity", "spread-DoNotSchedule", "pod-affinity")},
    "toleration": lambda: _tolerating(Toleration(key="sla", operator="Exists", effect="NoSchedule")),
}
TARGET = 1.03


def main() -> None:
    print(f"{'workload':<20} {'nodes':>7} {'on µs':>8} {'off µs':>8} {'ratio':>7} {'target':>7}")
    for name, spec in PLAIN.items():
        on, off = _times(name, spec)
        best = [1e6 * min(times) / PODS for times in (on, off)]
        print(
            f"{name:<20} {NODES:>7} {best[0]:>8.1f} {best[1]:>8.1f} {best[0] / best[1]:>7.3f} {TARGET:>7}", flush=True
        )


def _times(name: str, spec: Callable[[], PodSpec]) -> tuple[list[float], list[float]]:
    """Seconds of the processor for each round, with the gates on and off."""
    engines = _engine(on=True), _engine(on=False)
    times: tuple[list[float], list[float]] = [], []
    for number in range(ROUNDS + 1):
        for which in (0, 1) if number % 2 else (1, 0):
            seconds = _round(engines[which], name, spec)
            if number:  # the first round pays for all
                times[which].append(seconds)
    return times


def _round(engine: Engine, name: str, spec: Callable[[], PodSpec]) -> float:
    pods = [_pod(name, spec()) for _ in range(PODS)]
    start = time.process_time()
    for pod in pods:
        outcome = engine.schedule(pod)
        if outcome.node is None:
            raise SystemExit(outcome.message)
        engine.assume(pod, outcome.node)
    seconds = time.process_time() - start
    for pod in pods:
        engine.forget(pod)
    return seconds


def _engine(*, on: bool) -> Engine:
    constraints = ConstraintOptions(numeric_tolerations=on, semver_operators=on, cel=on)
    engine = Engine(features=SchedulerFeatures(constraints=constraints))
    for number in range(NODES):
        engine.put(_node(number))
    return engine
