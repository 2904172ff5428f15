"""Draw workloads from a trace: its pods in random order, up to a fraction of the cluster's capacity.

The experiment of the FGD paper: the listed pods in random order; then more, drawn at random from the list, until the
requests reach a multiple of the capacity; or fewer, if the list requests more. Nodes are shuffled too, because plugins
may prefer the first among equals.

The paper's simulator is written in Go and draws by a seed. The same seed gives the same numbers here, so that results
can be compared run by run.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mooring.advisor.simulate.traces.events import PodArrives, TraceError
from mooring.advisor.simulate.traces.go_random import GoRandom
from mooring.advisor.simulate.traces.objects import rename
from mooring.api.core_v1 import Node, Pod
from mooring.constraints.requests import in_units, requests_of, to_units

GAP = 1.0
"""Seconds between two pods."""
_MAX_TIMES = 100
_TAKEN = 10
"""Random numbers that the simulator's scheduler draws between pods and nodes: one for each watched kind."""


@dataclass(frozen=True, slots=True)
class Fill:
    """How much of a resource the pods should request."""

    resource: str
    times: float
    """Multiple of the capacity of all nodes."""

    def __post_init__(self) -> None:
        if not 0 < self.times <= _MAX_TIMES:  # also rejects NaN
            wrong = f"{self.times:g} times {self.resource}"
            raise TraceError(f"a cluster cannot be filled with {wrong}: more than 0 and at most {_MAX_TIMES}")


class Drawn(NamedTuple):
    pods: Iterator[PodArrives]
    """One a second; none leaves."""
    nodes: list[Node]
    """In order of arrival."""


def draw(pods: Sequence[Pod], nodes: Sequence[Node], fill: Fill | None, seed: int) -> Drawn:
    """Draw pods and nodes in random order. Raise TraceError."""
    lot = GoRandom(seed)
    lot.bits()  # the simulator logs the first number
    listed = sorted(pods, key=lambda pod: pod.metadata.name)
    chosen = list(listed)
    lot.shuffle(chosen)
    if fill is not None:
        chosen = _fill(chosen, listed, fill, capacity(nodes, fill.resource), lot)
    for _ in range(_TAKEN):
        lot.bits()
    named = sorted(nodes, key=lambda node: node.metadata.name)
    places = lot.permutation(len(named))
    ordered = [node for _, node in sorted(zip(places, named, strict=True), key=lambda placed: placed[0])]
    return Drawn((PodArrives(number * GAP, pod) for number, pod in enumerate(chosen)), ordered)


def capacity(nodes: Iterable[Node], resource: str) -> int:
    """Return the capacity of nodes for a resource."""
    amounts = (node.status.allocatable.get(resource) for node in nodes)
    return sum(to_units(resource, amount) for amount in amounts if amount is not None)


def requested(pod: Pod, resource: str) -> int:
    return in_units(requests_of(pod, pod_level=True)).get(resource, 0)


def _fill(chosen: list[Pod], pods: Sequence[Pod], fill: Fill, has: int, lot: GoRandom) -> list[Pod]:
    wanted = fill.times * has
    amounts = {id(pod): requested(pod, fill.resource) for pod in pods}
    total = sum(amounts.values())
    if not total or not has:
        who = "no pod of the trace asks for it" if has else "no node has any"
        raise TraceError(f"the cluster cannot be filled with {fill.resource}: {who}")
    if total >= wanted:
        while total > wanted:
            total -= amounts[id(chosen.pop(lot.below(len(chosen))))]
        return chosen
    # Stop as the paper's simulator does: before a pod that would exceed the target.
    while total + min(amounts[id(pod := pods[lot.below(len(pods))])], 1000) <= wanted:
        total += amounts[id(pod)]
        chosen.append(rename(pod, f"{pod.metadata.name}-again-{len(chosen) - len(pods)}"))
    return chosen
