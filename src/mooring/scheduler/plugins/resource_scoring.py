"""Scoring by how much of a node's resources would be used: the strategies of NodeResourcesFit, and balance.

Each strategy is a function of two tables, `requested` (the new pod included) and `allocatable`, with a line for each
resource that counts and a column for each node. All results are kube-scheduler's, to the last integer. Balance, which
another plugin scores, is here too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.base import Int32, Int64, Object, required
from mooring.constraints import requests
from mooring.scheduler.columns.resources import ResourceColumns
from mooring.scheduler.framework import MAX_NODE_SCORE, Rows, Scores
from mooring.scheduler.plugins import arguments as plugin_arguments

T = TypeVar("T")
Table: TypeAlias = NDArray[np.int64]
Strategy: TypeAlias = Callable[[Table, Table, Table], Scores]
"""Of requested, allocatable and the weights as a column."""
_MAX_EXACT = 1 << 45
"""Larger amounts are divided as integers."""
_MOST_STATES = 4096
"""So many are remembered; then remembering begins again."""


class ResourceSpec(Object):
    """A resource and how much it counts."""

    name: str = required(str)
    """The resource."""
    weight: Int64 = 0
    """From 1 to 100; 1 when absent."""


class UtilizationShapePoint(Object):
    """A point of the function from utilisation to points."""

    utilization: Int32 = required(int)
    """In per cent of the allocatable amount."""
    score: Int32 = required(int)
    """From 0 to 10."""


CPU_AND_MEMORY = (ResourceSpec(name=requests.CPU, weight=1), ResourceSpec(name=requests.MEMORY, weight=1))


class RowMemo(dict[bytes, T]):
    """What is said about single rows, by the state of the row: nodes that were filled alike share it."""

    def keep(self, state: bytes, said: T) -> T:
        if len(self) >= _MOST_STATES:
            self.clear()
        self[state] = said
        return said


class ScoredResources(msgspec.Struct, frozen=True):
    """For one shape: the lines to look at, what the pod adds to each, and their weights."""

    columns: ResourceColumns
    lines: slice | NDArray[np.intp]
    asked: Table
    weights: Table
    memo: RowMemo[Scores] = msgspec.field(default_factory=RowMemo)

    @classmethod
    def of(
        cls, columns: ResourceColumns, specs: Sequence[ResourceSpec], asked: Mapping[str, int], *, assumed: bool
    ) -> "ScoredResources":
        """Resources beside cpu, memory and ephemeral storage count only for pods that ask for them."""
        counted = [entry for entry in specs if asked.get(entry.name) or not requests.is_scalar(entry.name)]
        line = columns.scored_line if assumed else columns.line
        lines = [line(entry.name) for entry in counted]
        consecutive = bool(lines) and lines == list(range(lines[0], lines[0] + len(lines)))
        return cls(
            columns,
            slice(lines[0], lines[0] + len(lines)) if consecutive else np.array(lines, np.intp),
            np.array([[asked.get(entry.name, 0)] for entry in counted], np.int64).reshape(-1, 1),
            np.array([[entry.weight] for entry in counted], np.int64).reshape(-1, 1),
        )

    def score(self, points: Callable[["ScoredResources", Rows], Scores], rows: Rows) -> Scores:
        """What `points` says, from memory for single rows in a state that was seen before."""
        if isinstance(rows, slice) or len(rows) != 1:
            return points(self, rows)
        state = self.columns.state(rows.item())
        found = self.memo.get(state)
        return self.memo.keep(state, points(self, rows)) if found is None else found

    def tables(self, rows: Rows) -> tuple[Table, Table]:
        """What is used without the pod, and what there is."""
        return self.columns.used[self.lines][:, rows], self.columns.allocatable[self.lines][:, rows]


def least_allocated(requested: Table, allocatable: Table, weights: Table) -> Scores:
    """The emptier the better."""
    free = allocatable - requested
    np.maximum(free, 0, out=free)
    return _weighted_mean(_percent(free, allocatable), allocatable, weights)


def most_allocated(requested: Table, allocatable: Table, weights: Table) -> Scores:
    """The fuller the better."""
    used = np.minimum(requested, allocatable)
    return _weighted_mean(_percent(used, allocatable), allocatable, weights)


def _percent(part: Table, whole: Table) -> Table:
    """Return 100 * part // whole, of amounts with 0 <= part <= whole.

    Division of floats is several times as fast, and exact up to this size: where the quotient is no integer, it is
    further away from the next one than its rounding error.
    """
    if whole.max(initial=0) >= _MAX_EXACT:
        return part * MAX_NODE_SCORE // np.maximum(whole, 1)
    found = part * float(MAX_NODE_SCORE)
    np.divide(found, np.maximum(whole, 1), out=found)
    return found.astype(np.int64)


def _weighted_mean(points: Table, allocatable: Table, weights: Table) -> Scores:
    is_there = allocatable != 0
    if np.array_equal(np.logical_and.reduce(is_there), np.logical_or.reduce(is_there)):  # as for all nodes and no node
        total: Scores = np.add.reduce(points if len(weights) == weights.sum() else points * weights)
        total //= weights.sum()
        return total
    there = np.where(is_there, weights, 0)
    mean: Scores = np.add.reduce(points * there) // np.maximum(np.add.reduce(there), 1)
    return mean


def requested_to_capacity_ratio(shape: Sequence[UtilizationShapePoint]) -> Strategy:
    """Points by a broken line over the utilisation."""
    by_percent = np.array(points_by_percent(shape), np.int64)

    def strategy(requested: Table, allocatable: Table, weights: Table) -> Scores:
        beyond = (requested > allocatable) | (allocatable == 0)
        percent = np.where(beyond, 100, requested * 100 // np.maximum(allocatable, 1))
        points = np.where(allocatable != 0, by_percent[np.clip(percent, 0, 100)], 0)
        there = np.where(points > 0, weights, 0)
        total, weight = np.add.reduce(points * there), np.add.reduce(there)
        rounded: Scores = np.floor(total / np.maximum(weight, 1) + 0.5).astype(np.int64)
        return rounded

    return strategy


def points_by_percent(shape: Sequence[UtilizationShapePoint]) -> list[int]:
    """The points for a utilisation of 0 to 100 per cent."""
    at = [point.utilization for point in shape]
    worth = [point.score * 10 for point in shape]  # given from 0 to 10
    return [_on_broken_line(percent, at, worth) for percent in range(101)]


def _on_broken_line(percent: int, at: list[int], worth: list[int]) -> int:
    for index, limit in enumerate(at):
        if percent <= limit:
            if index == 0:
                return worth[0]
            rise = (worth[index] - worth[index - 1]) * (percent - at[index - 1])
            return worth[index - 1] + int(rise / (limit - at[index - 1]))  # truncates towards zero, as Go does
    return worth[-1]


def balance(requested: Table, allocatable: Table) -> Scores:
    """From 50 to 100: the closer together the used fractions of the resources are, the more."""
    fractions = requested / np.maximum(allocatable, 1)
    np.minimum(fractions, 1.0, out=fractions)
    if len(allocatable) == 2:
        deviation = np.abs(fractions[0] - fractions[1])
        deviation /= 2
        deviation *= np.logical_and.reduce(allocatable != 0)
    else:
        deviation = _deviation(fractions, allocatable != 0)
    np.subtract(1.0, deviation, out=deviation)
    deviation *= MAX_NODE_SCORE
    found: Scores = deviation.astype(np.int64)
    return found


def _deviation(fractions: NDArray[np.float64], there: NDArray[np.bool_]) -> NDArray[np.float64]:
    number = np.add.reduce(there.astype(np.int64))
    mean = np.add.reduce(fractions * there) / np.maximum(number, 1)
    spread = np.sqrt(np.add.reduce(np.where(there, (fractions - mean) ** 2, 0.0)) / np.maximum(number, 1))
    low, high = np.where(there, fractions, 1.0).min(axis=0), np.where(there, fractions, 0.0).max(axis=0)
    found: NDArray[np.float64] = np.where(number == 2, (high - low) / 2, spread) * (number >= 2)
    return found


def checked_resources(plugin: str, specs: Sequence[ResourceSpec]) -> tuple[ResourceSpec, ...]:
    """The resources of a plugin's arguments, with default weights."""
    found = tuple(ResourceSpec(name=entry.name, weight=entry.weight or 1) for entry in specs)
    for entry in found:
        if not entry.name:
            raise plugin_arguments.wrong(plugin, "a resource needs a name")
        if not 1 <= entry.weight <= 100:
            raise plugin_arguments.wrong(plugin, f"the weight of resource {entry.name} is not in 1 to 100")
    return found


def checked_shape(plugin: str, shape: Sequence[UtilizationShapePoint]) -> Sequence[UtilizationShapePoint]:
    if not shape:
        raise plugin_arguments.wrong(plugin, "at least one point must be specified in requestedToCapacityRatio.shape")
    last = -1
    for point in shape:
        if not 0 <= point.utilization <= 100 or point.utilization <= last:
            raise plugin_arguments.wrong(plugin, "utilization values must be in 0 to 100 and increase")
        if not 0 <= point.score <= 10:
            raise plugin_arguments.wrong(plugin, "score values must be in 0 to 10")
        last = point.utilization
    return shape
