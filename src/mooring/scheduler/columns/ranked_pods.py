"""Importance of pods, for preemption: the lowest priority on each node row, and the pods of a node in order.

The order is cached until the node's pods, their importance or the layout of the columns change (`NodeInfo.ranked`).
Pods with the same priority and start time keep the order in which they were placed.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mooring.api.core_v1 import Pod
from mooring.api.states import priority
from mooring.scheduler.columns.resources import ResourceColumns

if TYPE_CHECKING:  # ``cluster.py`` keeps these
    from mooring.scheduler.columns.cluster import PlacedPod


NOT_YET = 1 << 62
NO_PODS = 1 << 62
"""The value of a node row without pods: higher than any priority."""


def started_at(pod: Pod) -> int:
    """Return a pod's start time in microseconds; `NOT_YET` if it has not started."""
    try:
        return (
            int(datetime.fromisoformat(pod.status.start_time).timestamp() * 1e6) if pod.status.start_time else NOT_YET
        )
    except ValueError:
        return NOT_YET


def importance(pod: Pod) -> tuple[int, int]:
    """Return a key that sorts the most important pod first: by priority, then by start time."""
    return -priority(pod), started_at(pod)


class RankedPods:
    __slots__ = ("_ranks", "_table", "layout", "placed")

    def __init__(self, pods: Iterable["PlacedPod"], layout: int) -> None:
        ranked = [(importance(placed.pod), place, placed) for place, placed in enumerate(pods)]
        ranked.sort()
        self.layout = layout
        self.placed: list[PlacedPod] = [placed for _, _, placed in ranked]
        """The pods of the node, most important first."""
        self._ranks = [rank for rank, _, _ in ranked]
        self._table: NDArray[np.int64] | None = None

    def first_below(self, least: int) -> int:
        """Return the index of the first pod with a priority below the given one."""
        ranks = self._ranks
        return 0 if not ranks or ranks[0][0] > -least else bisect_right(ranks, -least, key=itemgetter(0))

    @staticmethod
    def tables(nodes: Sequence["RankedPods"], resources: ResourceColumns) -> "list[NDArray[np.int64]]":
        """Return a table for each node, with a column for each of its pods.

        The lines are the negated priority, the start time, and the amounts that the pod adds to the resource columns.
        """
        missing = [node for node in nodes if node._table is None]
        if missing:
            ranks = np.array([rank for node in missing for rank in node._ranks], np.int64).reshape(-1, 2).T
            usage = resources.usage_table([placed.signature for node in missing for placed in node.placed])
            table, begin = np.concatenate((ranks, usage)), 0
            for node in missing:
                end = begin + len(node.placed)
                node._table, begin = table[:, begin:end], end
        return [node._table for node in nodes if node._table is not None]


class PriorityColumn:
    """The lowest priority of the pods on each node row, which shows where a pod could preempt others."""

    def __init__(self, capacity: int) -> None:
        self.lowest: NDArray[np.int64] = np.full(capacity, NO_PODS, np.int64)
        self._numbers = [0] * capacity

    def add(self, row: int, priority: int) -> None:
        lowest = self.lowest.item(row)
        if priority < lowest:
            self.lowest[row] = priority
            self._numbers[row] = 1
        elif priority == lowest:
            self._numbers[row] += 1

    def subtract(self, row: int, priority: int, others: Iterable[int]) -> None:
        """Remove a pod's priority from a node row; `others` are the priorities of the pods that stay."""
        if priority != self.lowest.item(row):
            return
        self._numbers[row] -= 1
        if not self._numbers[row]:
            self.lowest[row] = NO_PODS
            for left in others:
                self.add(row, left)

    def grow(self, capacity: int) -> None:
        added = capacity - len(self.lowest)
        self.lowest = np.concatenate((self.lowest, np.full(added, NO_PODS, np.int64)))
        self._numbers += [0] * added
