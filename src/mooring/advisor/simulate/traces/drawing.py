"""Workloads that are drawn from a trace: its pods in random order, and as many as a part of the cluster takes.

The experiment of the FGD paper: the pods of the list by lot; then more, drawn at random from it, until what has been
asked for of a resource is so many times what the cluster has; or fewer, when the list asks for more than that.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mooring.advisor.simulate.traces.events import PodArrives, TraceError
from mooring.advisor.simulate.traces.objects import renamed
from mooring.api.core_v1 import Node, Pod
from mooring.constraints.requests import in_units, requests_of, units

GAP = 1.0
"""Seconds between two pods."""


@dataclass(frozen=True, slots=True)
class Fill:
    """How much of a resource pods are to ask for."""

    resource: str
    times: float
    """Of what all nodes have."""


def drawn(pods: Sequence[Pod], fill: Fill | None, has: int, lot: random.Random) -> Iterator[PodArrives]:
    """The pods of a trace in random order, one a second, none of which leaves. Raises TraceError."""
    chosen = list(pods)
    lot.shuffle(chosen)
    if fill is not None:
        chosen = _filled(chosen, pods, fill, has, lot)
    for number, pod in enumerate(chosen):
        yield PodArrives(number * GAP, pod)


def drawn_by_seed(pods: Sequence[Pod], fill: Fill | None, has: int, seed: int) -> Iterator[PodArrives]:
    return drawn(pods, fill, has, random.Random(seed))  # noqa: S311 - simulations keep no secrets


def capacity(nodes: Iterable[Node], resource: str) -> int:
    """What nodes have of a resource together."""
    amounts = (node.status.allocatable.get(resource) for node in nodes)
    return sum(units(resource, amount) for amount in amounts if amount is not None)


def asked(pod: Pod, resource: str) -> int:
    return in_units(requests_of(pod, pod_level=True)).get(resource, 0)


def _filled(chosen: list[Pod], pods: Sequence[Pod], fill: Fill, has: int, lot: random.Random) -> list[Pod]:
    wanted = fill.times * has
    amounts = {id(pod): asked(pod, fill.resource) for pod in pods}
    total = sum(amounts.values())
    if not total or not has:
        who = "no pod of the trace asks for it" if has else "no node has any"
        raise TraceError(f"the cluster cannot be filled with {fill.resource}: {who}")
    while total > wanted:
        total -= amounts[id(chosen.pop(lot.randrange(len(chosen))))]
    number = 0
    while total < wanted:
        pod = pods[lot.randrange(len(pods))]
        # As the paper's simulator stops: before a pod of which one part would be too much.
        if total + min(amounts[id(pod)], 1000) > wanted:
            break
        total += amounts[id(pod)]
        chosen.append(renamed(pod, f"{pod.metadata.name}-again-{number}"))
        number += 1
    return chosen
