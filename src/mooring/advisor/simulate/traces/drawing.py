"""Workloads that are drawn from a trace: its pods in random order, and as many as a part of the cluster takes.

The experiment of the FGD paper: the pods of the list by lot; then more, drawn at random from it, until what has been
asked for of a resource is so many times what the cluster has; or fewer, when the list asks for more than that. Nodes
come in random order too: plugins may prefer the first among equals.

The paper's simulator is written in Go, and draws by a seed. A seed gives here what it gives there, number by number, so
that results can be compared run by run.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mooring.advisor.simulate.traces.events import PodArrives, TraceError
from mooring.advisor.simulate.traces.go_random import GoRandom
from mooring.advisor.simulate.traces.objects import renamed
from mooring.api.core_v1 import Node, Pod
from mooring.constraints.requests import in_units, requests_of, units

GAP = 1.0
"""Seconds between two pods."""
_MOST_TIMES = 100
_TAKEN = 10
"""Numbers that the simulator's scheduler takes between pods and nodes: one for each kind that it begins to watch."""


@dataclass(frozen=True, slots=True)
class Fill:
    """How much of a resource pods are to ask for."""

    resource: str
    times: float
    """Of what all nodes have."""

    def __post_init__(self) -> None:
        """Raises TraceError."""
        if not 0 < self.times <= _MOST_TIMES:  # which is also said of what is no number
            wrong = f"{self.times:g} times {self.resource}"
            raise TraceError(f"a cluster cannot be filled with {wrong}: more than 0 and at most {_MOST_TIMES}")


class Drawn(NamedTuple):
    pods: Iterator[PodArrives]
    """One a second, none of which leaves."""
    nodes: list[Node]
    """In the order in which they come."""


def drawn(pods: Sequence[Pod], nodes: Sequence[Node], fill: Fill | None, seed: int) -> Drawn:
    """Pods and nodes in random order. Raises TraceError."""
    lot = GoRandom(seed)
    lot.bits()  # the simulator writes the first into its log
    listed = sorted(pods, key=lambda pod: pod.metadata.name)
    chosen = list(listed)
    lot.shuffle(chosen)
    if fill is not None:
        chosen = _filled(chosen, listed, fill, capacity(nodes, fill.resource), lot)
    for _ in range(_TAKEN):
        lot.bits()
    named = sorted(nodes, key=lambda node: node.metadata.name)
    places = lot.permutation(len(named))
    ordered = [node for _, node in sorted(zip(places, named, strict=True), key=lambda placed: placed[0])]
    return Drawn((PodArrives(number * GAP, pod) for number, pod in enumerate(chosen)), ordered)


def capacity(nodes: Iterable[Node], resource: str) -> int:
    """What nodes have of a resource together."""
    amounts = (node.status.allocatable.get(resource) for node in nodes)
    return sum(units(resource, amount) for amount in amounts if amount is not None)


def asked(pod: Pod, resource: str) -> int:
    return in_units(requests_of(pod, pod_level=True)).get(resource, 0)


def _filled(chosen: list[Pod], pods: Sequence[Pod], fill: Fill, has: int, lot: GoRandom) -> list[Pod]:
    wanted = fill.times * has
    amounts = {id(pod): asked(pod, fill.resource) for pod in pods}
    total = sum(amounts.values())
    if not total or not has:
        who = "no pod of the trace asks for it" if has else "no node has any"
        raise TraceError(f"the cluster cannot be filled with {fill.resource}: {who}")
    if total >= wanted:
        while total > wanted:
            total -= amounts[id(chosen.pop(lot.below(len(chosen))))]
        return chosen
    # As the paper's simulator stops: before a pod of which one part would be too much.
    while total + min(amounts[id(pod := pods[lot.below(len(pods))])], 1000) <= wanted:
        total += amounts[id(pod)]
        chosen.append(renamed(pod, f"{pod.metadata.name}-again-{len(chosen) - len(pods)}"))
    return chosen
