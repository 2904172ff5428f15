"""The lowest priority of the pods on each node row, which shows where a pod could preempt others."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

NO_PODS = 1 << 62
"""The value of a node row without pods: higher than any priority."""


class PriorityColumn:
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
