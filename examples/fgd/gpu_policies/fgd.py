"""FGD, fragmentation gradient descent: the node, and the card, where the expected fragmentation grows least.

What is left on a node's cards is a fragment for a task that cannot use it: all of it if the task does not fit there,
otherwise what is left on cards with too little for it. The expected fragmentation is the mean over the typical tasks
of the workload, by how often they come. Counts instead of frequencies keep all sums exact.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpu_policies.cards import MODEL, WHOLE, Amounts, Cards, Demand, accepted, demand_of
from mooring.api.core_v1 import Pod
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.framework import (
    MAX_NODE_SCORE,
    Declaration,
    Handle,
    Input,
    Part,
    PluginArguments,
    Rows,
    ScorePlugin,
    Scores,
)

_POPULAR = 95
"""The most frequent tasks that together are so many per cent of all are the typical ones."""


class _Typical(NamedTuple):
    """The typical tasks that ask for cards, in columns."""

    count: Amounts
    """How often each comes."""
    cpu: Amounts
    cards: Amounts
    level: NDArray[np.intp]
    """Which of `levels` each asks for."""
    levels: Amounts
    """Thousandths of a card."""
    models: list[frozenset[str]]
    all: int
    """How often typical tasks come, those without cards too."""


class _Points:
    """The points of all rows for one shape, and when each was found."""

    def __init__(self, demand: Demand, capacity: int) -> None:
        self.demand = demand
        self.points: Scores = np.zeros(capacity, np.int64)
        self.found_at: Amounts = np.full(capacity, -1, np.int64)


class FGD(ScorePlugin[_Points]):
    name = "FGD"
    scores = Declaration(Part.RESOURCES, Input.NODE | Input.PODS)

    def __init__(self, _arguments: PluginArguments, handle: Handle) -> None:
        self._cluster, self._workload = handle.cluster, handle.workload
        self._typical: _Typical | None = None
        self._cards = Cards.of(handle.cluster)
        self._cards.pick = self._card

    def pre_score(self, pod: PodInfo, cluster: Cluster) -> _Points:
        return _Points(demand_of(pod.signature), cluster.capacity)

    def score(self, state: _Points, rows: Rows) -> Scores:
        cards = self._cards
        cards.sync()
        asked = np.arange(len(state.points))[rows]
        stale = asked[state.found_at[asked] != cards.changed_at[asked]]
        if len(stale):
            state.points[stale] = 0
            of, points = self._points(state.demand, stale)
            np.maximum.at(state.points, stale[of], points)
            state.found_at[stale] = cards.changed_at[stale]
        return state.points[rows]

    def _card(self, row: int, fitting: NDArray[np.intp], demand: Demand) -> int:
        """Return the first card with the highest score."""
        left = self._cards.left[row]
        after = np.repeat(left[None, :], len(fitting), axis=0)
        after[np.arange(len(fitting)), fitting] -= demand.part
        # The pod itself is on the node already: its processors are taken.
        cpu, model = self._cards.cpu_left(np.array([row])), self._cards.model[[row]]
        grown = self._fragments(after, cpu.repeat(len(fitting)), model.repeat(len(fitting)))
        before = self._fragments(left[None, :], cpu + demand.cpu, model)
        return int(fitting[_sigmoid((before - grown) / self._of_workload().all).argmax()])

    def _points(self, demand: Demand, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], Scores]:
        """Ways to put a pod on some rows: which of the rows, and the points for it."""
        cards = self._cards
        left, cpu, model = cards.left[rows], cards.cpu_left(rows), cards.model[rows]
        if demand.total and demand.part < WHOLE:
            of, card = ((left >= demand.part) & ~_repeated(left)).nonzero()
            after = left[of]
            after[np.arange(len(of)), card] -= demand.part
        else:
            idle = left == WHOLE
            of = (idle.sum(axis=1) >= demand.count).nonzero()[0]
            after = np.where(idle[of] & (idle[of].cumsum(axis=1) <= demand.count), 0, left[of])
        before = self._fragments(left, cpu, model)
        grown = self._fragments(after, cpu[of] - demand.cpu, model[of])
        return of, _sigmoid((before[of] - grown) / self._of_workload().all)

    def _fragments(self, left: Amounts, cpu: Amounts, model: Amounts) -> Amounts:
        """Return the expected fragmentation of nodes, times the number of typical tasks."""
        tasks = self._of_workload()
        enough = left[:, None, :] >= tasks.levels[None, :, None]
        cards, useful = enough.sum(axis=2), (left[:, None, :] * enough).sum(axis=2)
        fits = (cards[:, tasks.level] >= tasks.cards) & (cpu[:, None] >= tasks.cpu)
        if any(tasks.models):
            names = list(self._cards.models)
            reach = np.array([[not models or name in models for models in tasks.models] for name in names])
            fits &= reach[model]
        used: Amounts = (fits * useful[:, tasks.level]) @ tasks.count
        return left.sum(axis=1) * tasks.all - used

    def _of_workload(self) -> _Typical:
        if self._typical is None:
            self._typical = _typical(self._workload, self._cluster)
        return self._typical


def _typical(workload: Iterable[Pod], cluster: Cluster) -> _Typical:
    """Sample the workload."""
    seen = Counter(
        (demand_of(cluster.info(pod).signature), pod.metadata.annotations.get(MODEL, "")) for pod in workload
    )
    ranked = sorted(
        seen.items(), key=lambda task: (task[1], task[0][0].cpu, task[0][0].total, task[0][1]), reverse=True
    )
    kept, number = list[tuple[Demand, str, int]](), 0
    for (demand, models), count in ranked:
        if 100 * number >= _POPULAR * sum(seen.values()):
            break
        kept.append((demand, models, count))
        number += count
    tasks = [(demand, models, count) for demand, models, count in kept if demand.total]
    levels = sorted({demand.part for demand, _, _ in tasks})
    return _Typical(
        count=np.array([count for *_, count in tasks], np.int64),
        cpu=np.array([demand.cpu for demand, *_ in tasks], np.int64),
        cards=np.array([demand.count for demand, *_ in tasks], np.int64),
        level=np.array([levels.index(demand.part) for demand, *_ in tasks], np.intp),
        levels=np.array(levels, np.int64),
        models=[accepted(models) for _, models, _ in tasks],
        all=max(number, 1),
    )


def _repeated(left: Amounts) -> NDArray[np.bool_]:
    """Cards of which as much is left as of an earlier one of the node."""
    same = left[:, :, None] == left[:, None, :]
    return np.asarray(np.tril(same, -1).any(axis=2))


def _sigmoid(milli: NDArray[np.float64]) -> Scores:
    """Points for so many thousandths of a card that are saved from becoming fragments."""
    return (MAX_NODE_SCORE / (1.0 + np.exp(-milli / 1000))).astype(np.int64)
