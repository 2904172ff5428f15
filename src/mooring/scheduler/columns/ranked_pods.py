"""The pods of a node by importance, in columns: for those who ask which of them would have to go.

Made when somebody asks and kept until a pod of the node comes, goes or is ranked otherwise, or the columns' layout
changes (`Cluster.ranked`). Pods that are started at the same time with the same priority stay in the order in which
they came.
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


def started_at(pod: Pod) -> int:
    """When the pod was started, in microseconds; one that was not yet counts as the latest."""
    try:
        return (
            int(datetime.fromisoformat(pod.status.start_time).timestamp() * 1e6) if pod.status.start_time else NOT_YET
        )
    except ValueError:
        return NOT_YET


def importance(pod: Pod) -> tuple[int, int]:
    """Sorts the most important first: by priority, then by how long it has run."""
    return -priority(pod), started_at(pod)


class RankedPods:
    __slots__ = ("_ranks", "_table", "layout", "placed")

    def __init__(self, pods: Iterable["PlacedPod"], layout: int) -> None:
        ranked = [(importance(placed.pod), place, placed) for place, placed in enumerate(pods)]
        ranked.sort()
        self.layout = layout
        self.placed: list[PlacedPod] = [placed for _, _, placed in ranked]
        """The most important first."""
        self._ranks = [rank for rank, _, _ in ranked]
        self._table: NDArray[np.int64] | None = None

    def first_below(self, least: int) -> int:
        """From which place on pods have a lower priority."""
        ranks = self._ranks
        return 0 if not ranks or ranks[0][0] > -least else bisect_right(ranks, -least, key=itemgetter(0))

    @staticmethod
    def tables(nodes: Sequence["RankedPods"], resources: ResourceColumns) -> "list[NDArray[np.int64]]":
        """For each of some nodes a table, with a column for each pod; those that there are not yet are made together.

        Lines: the pod's priority negated, its start, and what it adds to the resource columns.
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
