"""Matching: `Equal` and `Exists` with the gates on and off, and 5,000 nodes evaluated for one pod over columns."""

import statistics
import timeit
from collections.abc import Callable

import numpy as np

from mooring.api.core_v1 import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodSpec,
    Taint,
    Toleration,
)
from mooring.constraints import node_selector, semver, tolerations
from mooring.constraints.columns import LabelColumns, TaintColumns
from mooring.constraints.options import ConstraintOptions

ALL_ON = ConstraintOptions()
ALL_OFF = ConstraintOptions(numeric_tolerations=False, semver_operators=False, cel=False)
KERNELS = ["5.4.0-150", "5.10.0-28", "5.15.0-91", "6.1.0-18", "6.6.12", "6.8.0-31"]


def main() -> None:
    print(f"{'what':<62} {'measured':>12} {'target':>12}")
    on, off = _equal_and_exists()
    _row("Equal and Exists, gates off", f"{off:.0f} ns")
    _row("Equal and Exists, gates on", f"{on:.0f} ns")
    _row("on / off", f"{on / off:.3f}", "≤ 1.05")
    _columns(5_000, "≤ 200 µs")
    _columns(50_000)
    _versions()


def _row(what: str, measured: str, target: str = "") -> None:
    print(f"{what:<62} {measured:>12} {target:>12}")


def _equal_and_exists() -> tuple[float, float]:
    """Measure nanoseconds a match, gates on and off, in turns so that noise affects both equally."""
    taints = [Taint(key="pool", value=value, effect="NoSchedule") for value in ("spot", "gpu")]
    pod = [
        Toleration(key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute"),
        Toleration(key="pool", operator="Equal", value="gpu"),
        Toleration(key="pool", operator="Exists"),
    ]
    pairs = [(toleration, taint) for toleration in pod for taint in taints]
    times: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(200):
        options = ALL_ON if turn % 2 else ALL_OFF
        seconds = timeit.timeit(lambda: [tolerations.tolerates(*pair, options) for pair in pairs], number=500)  # noqa: B023 - called at once
        times[options is ALL_ON].append(seconds / 500 / len(pairs) * 1e9)
    return min(times[True]), min(times[False])


def _pod() -> tuple[PodSpec, list[Toleration]]:
    term = NodeSelectorTerm(
        match_expressions=[NodeSelectorRequirement(key="kernel", operator="SemverGt", values=["5.10.0"])],
        match_cel_expressions=[
            "node.labels['zone'].startsWith('zone-') && semver.compare(node.labels['kubelet'], '>=1.30')"
        ],
    )
    required = NodeSelector(node_selector_terms=[term])
    affinity = Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required))
    pod = [Toleration(key="sla", operator="Gt", value="950", effect="NoSchedule")]
    return PodSpec(affinity=affinity, tolerations=pod), pod


def _labels(number: int, turn: int = 0) -> dict[str, str]:
    return {
        "kubernetes.io/hostname": f"node-{number}",
        "zone": f"zone-{number % 3}",
        "kernel": KERNELS[(number + turn) % len(KERNELS)],
        "kubelet": f"v1.{28 + number % 8}.{number % 5}",
    }


def _columns(nodes: int, target: str = "") -> None:
    labels, taints = LabelColumns(), TaintColumns(ALL_ON)
    for row in range(nodes):
        labels.put(row, f"node-{row}", _labels(row))
        taints.put(row, [Taint(key="sla", value=str(900 + row % 100), effect="NoSchedule")])
    spec, pod = _pod()

    def evaluate() -> int:
        required = node_selector.required_affinity(spec, ALL_ON)
        mask = labels.required_mask(required) & taints.find_untolerated(pod).mask()
        return int(np.count_nonzero(mask))

    first = timeit.timeit(evaluate, number=1)
    _row(f"{nodes:,} nodes, SemverGt + Gt + CEL, first time", f"{first * 1e3:.1f} ms")
    _row("the same afterwards", f"{_median(evaluate):.0f} µs", target)
    turn = 0

    def evaluate_after_change() -> int:
        nonlocal turn
        turn += 1
        row = turn % nodes
        labels.put(row, f"node-{row}", _labels(row, turn))
        taints.put(row, [Taint(key="sla", value=str(900 + turn % 50), effect="NoSchedule")])
        return evaluate()

    _row("the same after a node has changed its labels and taints", f"{_median(evaluate_after_change):.0f} µs", target)
    one_by_one = timeit.timeit(lambda: _one_by_one(nodes, spec, pod), number=1)
    _row("the same one node at a time, for comparison", f"{one_by_one * 1e3:.1f} ms")


def _one_by_one(nodes: int, spec: PodSpec, pod: list[Toleration]) -> int:
    required = node_selector.required_affinity(spec, ALL_ON)
    return sum(
        required.matches(_labels(row), f"node-{row}")
        and tolerations.find_untolerated([Taint(key="sla", value=str(row % 100), effect="NoSchedule")], pod, ALL_ON)
        is None
        for row in range(nodes)
    )


def _versions() -> None:
    semver.parse_tolerant("5.15.0-91-generic")
    known = timeit.timeit(lambda: semver.parse_tolerant("5.15.0-91-generic"), number=20_000) / 20_000
    fresh = iter(f"5.15.{number}-91-generic" for number in range(10_000))
    new = timeit.timeit(lambda: semver.parse_tolerant(next(fresh)), number=10_000) / 10_000
    _row("a version seen before / a new one", f"{known * 1e9:.0f} / {new * 1e9:.0f} ns")


def _median(function: Callable[[], object]) -> float:
    """Microseconds a call."""
    return statistics.median(timeit.repeat(function, number=1, repeat=301)) * 1e6
