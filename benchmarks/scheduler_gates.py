"""What the new gates cost pods that do not use them: the engine's time with all of them on and with all off.

python -m benchmarks scheduler_gates
NODES=1000 ROUNDS=400 python -m benchmarks scheduler_gates

A busy machine disturbs single rounds by more than what is looked for. So rounds are short and the engines take turns,
each time in another order; a round's times are compared with each other, and the median of those ratios counts. Where
an engine's arrays happen to lie in memory makes a difference of its own, so everything is done with several sets of
engines. A third engine with the gates off shows what the method cannot tell apart: "off / off" would be 1. The target
is a ratio of at most 1.03.
"""

import gc
import os
import statistics
import time
from collections.abc import Callable

from benchmarks.scheduler_engine import WORKLOADS, _node, _pod, _tolerating
from mooring.api.core_v1 import PodSpec, Toleration
from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework import SchedulerFeatures

NODES = int(os.environ.get("NODES", "5000"))
ROUNDS = int(os.environ.get("ROUNDS", "200"))
SETS = int(os.environ.get("SETS", "4"))
PODS = 25
"""In a round."""
PLAIN: dict[str, Callable[[], PodSpec]] = {
    **{name: WORKLOADS[name] for name in ("basic", "node-affinity", "spread-DoNotSchedule", "pod-affinity")},
    "toleration": lambda: _tolerating(Toleration(key="sla", operator="Exists", effect="NoSchedule")),
}
TARGET = 1.03
_ENGINES = {"on": True, "off": False, "off again": False}


def main() -> None:
    head = (
        f"{'workload':<20} {'nodes':>6} {'on µs':>7} {'off µs':>7} {'on / off':>9} {'of fastest':>11} {'off / off':>10}"
    )
    print(f"{head} {'target':>7}")
    for name, spec in PLAIN.items():
        times = _times(name, spec)
        on, off = (1e6 * statistics.median(times[which]) / PODS for which in ("on", "off"))
        fastest = min(times["on"]) / min(times["off"])
        ratios = f"{_ratio(times, 'on'):>9.3f} {fastest:>11.3f} {_ratio(times, 'off again'):>10.3f}"
        print(f"{name:<20} {NODES:>6} {on:>7.1f} {off:>7.1f} {ratios} {TARGET:>7}", flush=True)


def _ratio(times: dict[str, list[float]], which: str) -> float:
    """How much longer a round takes than the one with the gates off beside it: the median."""
    return statistics.median(one / off for one, off in zip(times[which], times["off"], strict=True))


def _times(name: str, spec: Callable[[], PodSpec]) -> dict[str, list[float]]:
    """Seconds of the processor for each round, by engine."""
    times: dict[str, list[float]] = {which: [] for which in _ENGINES}
    for number in range(SETS):
        order = _turned(list(_ENGINES), number)
        engines = {which: _engine(on=_ENGINES[which]) for which in order}
        for which in order:
            _round(engines[which], name, spec)  # the first round pays for all
        gc.collect()
        gc.disable()
        for turn in range(ROUNDS):
            for which in _turned(order, turn):
                times[which].append(_round(engines[which], name, spec))
        gc.enable()
    return times


def _turned(names: list[str], number: int) -> list[str]:
    """Return another order for each number, so that no engine is always first or always after the same one."""
    turn = number % len(names)
    turned = names[turn:] + names[:turn]
    return turned[::-1] if number // len(names) % 2 else turned


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
