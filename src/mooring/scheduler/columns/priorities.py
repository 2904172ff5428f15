"""The lowest priority of the pods on each row: whether anybody there could be displaced at all."""

import numpy as np
from numpy.typing import NDArray

NOBODY = 1 << 62
"""The lowest priority where there are no pods: higher than all."""


class PriorityColumn:
    def __init__(self, capacity: int) -> None:
        self.lowest: NDArray[np.int64] = np.full(capacity, NOBODY, np.int64)
        self._numbers: dict[int, dict[int, int]] = {}
        """By row and priority, how many pods have it."""

    def add(self, row: int, priority: int) -> None:
        numbers = self._numbers.setdefault(row, {})
        numbers[priority] = numbers.get(priority, 0) + 1
        if numbers[priority] == 1:
            self.lowest[row] = min(numbers)

    def subtract(self, row: int, priority: int) -> None:
        numbers = self._numbers[row]
        numbers[priority] -= 1
        if not numbers[priority]:
            del numbers[priority]
            self.lowest[row] = min(numbers, default=NOBODY)

    def grow(self, capacity: int) -> None:
        added = np.full(capacity - len(self.lowest), NOBODY, np.int64)
        self.lowest = np.concatenate((self.lowest, added))
