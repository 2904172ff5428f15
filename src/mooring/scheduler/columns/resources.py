"""Allocatable and used amounts of every node: two tables of the same form, a line for each resource.

Lines 0 to 2 are for all pods alike: how many there are, and the cpu and memory that scoring assumes of them; from line
3 on come cpu, memory, ephemeral storage and then other resources in the order in which they turned up. A pod's effect
on a node is one column vector, kept in its shape, so that placing it is one addition.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.api.core_v1 import Node
from mooring.scheduler.columns import requests
from mooring.scheduler.columns.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from mooring.scheduler.columns.shapes import PodShape

POD_COUNT, SCORED_CPU, SCORED_MEMORY = 0, 1, 2
_FIRST = 3

Table = NDArray[np.int64]


class ResourceColumns:
    def __init__(self, capacity: int) -> None:
        self._lines = {CPU: _FIRST, MEMORY: _FIRST + 1, EPHEMERAL_STORAGE: _FIRST + 2}
        shape = (_FIRST + len(self._lines), capacity)
        self.allocatable: Table = np.zeros(shape, np.int64)
        self.used: Table = np.zeros(shape, np.int64)
        self._states: dict[int, bytes] = {}

    def line(self, resource: str) -> int:
        """The line of a resource, made when it is new."""
        line = self._lines.get(resource)
        if line is None:
            line = self._lines[resource] = len(self.allocatable)
            empty = np.zeros((1, self.allocatable.shape[1]), np.int64)
            self.allocatable = np.concatenate((self.allocatable, empty))
            self.used = np.concatenate((self.used, empty))
            self._states.clear()
        return line

    def scored_line(self, resource: str) -> int:
        """The line that scoring by assumed requests looks at."""
        return {CPU: SCORED_CPU, MEMORY: SCORED_MEMORY}.get(resource) or self.line(resource)

    def resources(self) -> dict[str, int]:
        """The lines by resource."""
        return dict(self._lines)

    def state(self, row: int) -> bytes:
        """Equal for rows that have, and have used, the same amounts: what holds for one of them holds for the other."""
        found = self._states.get(row)
        if found is None:
            found = self._states[row] = self.allocatable[:, row].tobytes() + self.used[:, row].tobytes()
        return found

    def put(self, row: int, node: Node) -> bool:
        """Set what a node has; whether that changed anything."""
        amounts = node.status.allocatable
        column = np.zeros(len(self.allocatable), np.int64)
        for resource, amount in requests.in_units(amounts).items():
            line = self.line(resource)
            if line >= len(column):
                column = np.concatenate((column, np.zeros(line + 1 - len(column), np.int64)))
            column[line] = amount
        column[POD_COUNT] = amounts[PODS].value() if PODS in amounts else 0
        column[SCORED_CPU], column[SCORED_MEMORY] = column[_FIRST], column[_FIRST + 1]
        if np.array_equal(self.allocatable[:, row], column):
            return False
        self.allocatable[:, row] = column
        self._states.pop(row, None)
        return True

    def remove(self, row: int) -> None:
        self.allocatable[:, row] = 0
        self.used[:, row] = 0
        self._states.pop(row, None)

    def add(self, row: int, shape: PodShape) -> None:
        usage = shape.usage if shape.usage is not None else self.usage_of(shape)
        self.used[: len(usage), row] += usage
        self._states.pop(row, None)

    def subtract(self, row: int, shape: PodShape) -> None:
        usage = shape.usage if shape.usage is not None else self.usage_of(shape)
        self.used[: len(usage), row] -= usage
        self._states.pop(row, None)

    def usage_of(self, shape: PodShape) -> Table:
        """What one pod of a shape adds to a node's column; lines that were made later are zero for it."""
        lines = {self.line(resource): amount for resource, amount in shape.requests.items()}
        usage = np.zeros(len(self.used), np.int64)
        for line, amount in lines.items():
            usage[line] = amount
        usage[POD_COUNT] = 1
        usage[SCORED_CPU], usage[SCORED_MEMORY] = shape.scored.get(CPU, 0), shape.scored.get(MEMORY, 0)
        shape.usage = usage
        return usage

    def usage_table(self, shapes: Sequence[PodShape]) -> Table:
        """What pods of some shapes add: a line for each resource, a column for each pod."""
        usages = [shape.usage if shape.usage is not None else self.usage_of(shape) for shape in shapes]
        lines = len(self.used)
        if usages and all(len(usage) == lines for usage in usages):
            return np.array(usages).T
        table = np.zeros((lines, len(usages)), np.int64)
        for column, usage in enumerate(usages):
            table[: len(usage), column] = usage
        return table

    def grow(self, capacity: int) -> None:
        added = np.zeros((len(self.used), capacity - self.used.shape[1]), np.int64)
        self.allocatable = np.concatenate((self.allocatable, added), axis=1)
        self.used = np.concatenate((self.used, added), axis=1)
