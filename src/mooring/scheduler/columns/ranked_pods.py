"""The pods of a node by importance, in columns: for those who ask which of them would have to go.

Made when somebody asks and kept until a pod of the node or the columns' layout changes (`Cluster.ranked`). Pods that
are started at the same time with the same priority stay in the order in which they came.
"""

from bisect import bisect_right
from collections.abc import Iterable
from datetime import datetime
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
    __slots__ = ("_falling", "layout", "placed", "table")

    def __init__(self, pods: Iterable["PlacedPod"], resources: ResourceColumns) -> None:
        ranked = [(importance(placed.pod), place, placed) for place, placed in enumerate(pods)]
        ranked.sort()
        self.layout = resources.layout
        self.placed: list[PlacedPod] = [placed for _, _, placed in ranked]
        """The most important first."""
        self._falling = [rank[0] for rank, _, _ in ranked]
        usage = resources.usage_table([placed.shape for placed in self.placed])
        ranks = np.array([rank for rank, _, _ in ranked], np.int64).reshape(-1, 2).T
        self.table: NDArray[np.int64] = np.concatenate((ranks, usage))
        """A column for each pod. Lines: its priority negated, its start, and what it adds to the resource columns."""

    def first_below(self, least: int) -> int:
        """From which place on pods have a lower priority."""
        falling = self._falling
        return 0 if not falling or falling[0] > -least else bisect_right(falling, -least)
