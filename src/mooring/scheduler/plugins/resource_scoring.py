"""Score nodes by resource usage: the strategies of NodeResourcesFit, and balanced allocation.

A strategy is a function of two tables, `requested` (the new pod included) and `allocatable`, with a line for each
scored resource and a column for each node. All results equal those of kube-scheduler.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from mooring.api.base import Int32, Int64, Object, required
from mooring.constraints import requests
from mooring.constraints.columns.revisions import NEVER
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.resources import ResourceColumns, index_of
from mooring.scheduler.framework import ALL_ROWS, MAX_NODE_SCORE, Input, Rows, Scores
from mooring.scheduler.plugins import arguments as plugin_arguments

T = TypeVar("T")
Table: TypeAlias = NDArray[np.int64]
Strategy: TypeAlias = Callable[[Table, Table, Table], Scores]
"""A function that scores nodes, given requested amounts, allocatable amounts, and weights as a column."""
_MAX_EXACT = 1 << 45
"""Amounts above this are divided as integers, because floats would be inexact."""
_MAX_ROUNDED = 1 << 42
_ROUNDING = 2.0**-43
_FEW_ROWS = 16
"""The maximum number of changed node rows that are updated one by one."""
_MOST_STATES = 4096
"""The maximum number of node states with cached scores; the cache is cleared when it is full."""


class ResourceSpec(Object):
    """A scored resource and its weight."""

    name: str = required(str)
    """The name of the resource."""
    weight: Int64 = 0
    """The weight, from 1 to 100; 1 when absent."""


class UtilizationShapePoint(Object):
    """A point of the function from utilisation to score."""

    utilization: Int32 = required(int)
    """The utilisation in per cent of the allocatable amount."""
    score: Int32 = required(int)
    """The score at this utilisation, from 0 to 10."""


CPU_AND_MEMORY = (ResourceSpec(name=requests.CPU, weight=1), ResourceSpec(name=requests.MEMORY, weight=1))


class StateCache(Generic[T]):
    """Results for single nodes, cached by node state, so that nodes of the same size and usage share them."""

    _by_state: dict[bytes, T] | None = None

    def get_or_compute(self, columns: ResourceColumns, rows: Rows, compute: Callable[[Rows], T]) -> T:
        """Return the result of `compute` for node rows; the cache is used only for a single row."""
        if isinstance(rows, slice) or len(rows) != 1:
            return compute(rows)
        if self._by_state is None or len(self._by_state) >= _MOST_STATES:
            self._by_state = {}
        state = columns.state(rows.item())
        found = self._by_state.get(state)
        if found is None:
            found = self._by_state[state] = compute(rows)
        return found


class ScoredResources(StateCache[Scores]):
    """The amounts that a pod requests of the scored resources, and these resources of all nodes."""

    def __init__(self, by: "ResourceLines", asked: Table) -> None:
        self.by = by
        self.asked = asked


class Scoring:
    """The resources, with weights, by which a plugin scores nodes."""

    def __init__(self, cluster: Cluster, specs: Sequence[ResourceSpec], *, assumed: bool) -> None:
        """Set up the resources. With `assumed`, pods without requests of cpu or memory get small default ones."""
        self._cluster = cluster
        self._specs = specs
        self._optional = frozenset(entry.name for entry in specs if requests.is_scalar(entry.name))
        self._assumed = assumed
        self._layout = NEVER
        self._lines: dict[tuple[str, ...], ResourceLines] = {}
        for entry in specs:
            cluster.resources.name(entry.name)

    def scored_resources(self, asked: Mapping[str, int]) -> ScoredResources:
        """Return the scored resources of a pod: cpu, memory and ephemeral storage, and others that it requests."""
        counted = self._specs
        if self._optional:
            counted = [entry for entry in counted if entry.name not in self._optional or asked.get(entry.name)]
        if self._layout != self._cluster.layout:
            self._layout, self._lines = self._cluster.layout, {}
        names = tuple([entry.name for entry in counted])
        lines = self._lines.get(names)
        if lines is None:
            lines = self._lines[names] = ResourceLines(self._cluster, counted, assumed=self._assumed)
        return ScoredResources(lines, np.array([asked.get(name, 0) for name in names], np.int64).reshape(-1, 1))


class ResourceLines:
    """The scored resources of all nodes.

    The error of a computed share is below `_ROUNDING`. A share that is no integer differs from the next integer by more
    than the error and `_ROUNDING` together, because amounts are below `_MAX_ROUNDED`; so rounding down is exact.
    """

    def __init__(self, cluster: Cluster, specs: Sequence[ResourceSpec], *, assumed: bool) -> None:
        self.columns = cluster.resources
        self._line_numbers = [self.columns.line(entry.name, assumed=assumed) for entry in specs]
        self._lines = index_of(self._line_numbers)
        self.weights: Table = np.array([[entry.weight] for entry in specs], np.int64).reshape(-1, 1)
        self._weight = sum(entry.weight for entry in specs)
        self._allocatable = cluster.inputs.log(Input.NODE_ALLOCATABLE)
        self._amounts = cluster.inputs.log(Input.NODE_ALLOCATABLE | Input.PODS)
        self._prepared_at = self._balance_at = NEVER

    def tables(self, rows: Rows) -> tuple[Table, Table]:
        """Return the used and the allocatable amounts on some node rows."""
        return self.columns.used[self._lines][:, rows], self.columns.allocatable[self._lines][:, rows]

    def least_allocated(self, asked: Table, rows: Rows) -> Scores:
        """Return the LeastAllocated scores of node rows for a pod that requests `asked`."""
        self._prepare()
        if not self._is_exact:
            used, allocatable = self.tables(rows)
            return least_allocated(used + asked, allocatable, self.weights)
        left = self.columns.free[self._lines][:, rows] - asked
        np.maximum(left, 0, out=left)
        shares = np.multiply(left, self._percent_of_one[:, rows], out=self._buffer_for(rows))
        shares += _ROUNDING
        percents = shares.astype(np.int32)
        if self._weight != len(percents):
            percents *= self.weights.astype(np.int32)
        total = percents[0]
        for more in percents[1:]:
            total += more
        total //= self._weight
        found: Scores = total.astype(np.int16)
        return found

    def balance_change(self, asked: Table, rows: Rows) -> Scores:
        """Return by node row how much more balanced the use of resources would be with a pod that requests `asked`."""
        self._prepare()
        self._update_balance()
        fractions = np.add(self._used[:, rows], asked, out=self._buffer_for(rows))
        np.divide(fractions, self._divisor[:, rows], out=fractions)
        np.minimum(fractions, 1.0, out=fractions)
        if len(fractions) == 2:
            deviation = np.subtract(fractions[0], fractions[1], out=fractions[0])
            np.abs(deviation, out=deviation)
            np.subtract(2.0, deviation, out=deviation)
            deviation *= MAX_NODE_SCORE / 2  # rounded exactly as 1 - deviation / 2 times 100
        else:
            deviation = _usage_deviation(fractions, self._is_there[:, rows])
            np.subtract(1.0, deviation, out=deviation)
            deviation *= MAX_NODE_SCORE
        found: Scores = deviation.astype(np.int16)
        found -= self._balance[rows]
        return found

    def _buffer_for(self, rows: Rows) -> NDArray[np.float64] | None:
        return self._buffer if isinstance(rows, slice) else None

    def _prepare(self) -> None:
        if self._allocatable.changed_at == self._prepared_at:
            return
        self._prepared_at, self._balance_at = self._allocatable.changed_at, NEVER
        allocatable = self.columns.allocatable[self._lines]
        self._is_there = allocatable != 0
        self._has_all: NDArray[np.bool_] = np.logical_and.reduce(self._is_there)
        whole = np.maximum(allocatable, 1).astype(np.float64)
        # With two resources, used fractions of nodes without one of them are 0, so that they count as balanced.
        self._divisor = np.where(self._has_all | (len(allocatable) != 2), whole, np.inf)
        self._percent_of_one = MAX_NODE_SCORE / whole
        self._percent_of_one *= self._is_there
        self._buffer = np.empty_like(whole)
        """Reused by every call: fresh memory for each pod costs more than the arithmetic."""
        has_any = np.logical_or.reduce(self._is_there)
        self._is_exact = allocatable.max(initial=0) < _MAX_ROUNDED and np.array_equal(self._has_all, has_any)

    def _update_balance(self) -> None:
        changed_at = self._amounts.changed_at
        if changed_at == self._balance_at:
            return
        rows = self._amounts.since(self._balance_at)
        self._balance_at = changed_at
        if rows is None or len(rows) > _FEW_ROWS:
            used, allocatable = self.tables(ALL_ROWS)
            self._used = used.astype(np.float64)
            self._balance: NDArray[np.int16] = balanced_allocation(used, allocatable).astype(np.int16)
            return
        for row in rows.tolist():
            amounts = [self.columns.used.item(line, row) for line in self._line_numbers]
            for place, amount in enumerate(amounts):
                self._used[place, row] = amount
            if len(amounts) == 2:
                fractions = [min(amount / self._divisor.item(place, row), 1.0) for place, amount in enumerate(amounts)]
                self._balance[row] = int((1.0 - abs(fractions[0] - fractions[1]) / 2) * MAX_NODE_SCORE)
            else:
                self._balance[row] = balanced_allocation(*self.tables(slice(row, row + 1))).item()


def least_allocated(requested: Table, allocatable: Table, weights: Table) -> Scores:
    """Score nodes higher the less of their resources is used (LeastAllocated)."""
    free = allocatable - requested
    np.maximum(free, 0, out=free)
    return _weighted_mean(_percent_of(free, allocatable), allocatable, weights)


def most_allocated(requested: Table, allocatable: Table, weights: Table) -> Scores:
    """Score nodes higher the more of their resources is used (MostAllocated)."""
    used = np.minimum(requested, allocatable)
    return _weighted_mean(_percent_of(used, allocatable), allocatable, weights)


def _percent_of(part: Table, whole: Table) -> Table:
    # Dividing floats is several times as fast as dividing integers. It is exact up to `_MAX_EXACT`: a quotient that is
    # no integer differs from the next integer by more than the rounding error.
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
    """Return a strategy that scores by a piecewise linear function of the utilisation."""
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
    """Return the score that a piecewise linear function gives each utilisation from 0 to 100 per cent."""
    at = [point.utilization for point in shape]
    worth = [point.score * 10 for point in shape]  # given from 0 to 10
    return [_interpolate(percent, at, worth) for percent in range(101)]


def _interpolate(percent: int, at: list[int], worth: list[int]) -> int:
    for index, limit in enumerate(at):
        if percent <= limit:
            if index == 0:
                return worth[0]
            rise = (worth[index] - worth[index - 1]) * (percent - at[index - 1])
            return worth[index - 1] + int(rise / (limit - at[index - 1]))  # truncates towards zero, as Go does
    return worth[-1]


def balanced_allocation(requested: Table, allocatable: Table) -> Scores:
    """Score nodes from 50 to 100: higher, the closer together the used fractions of their resources are."""
    fractions = requested / np.maximum(allocatable, 1)
    np.minimum(fractions, 1.0, out=fractions)
    if len(allocatable) == 2:
        deviation = np.abs(fractions[0] - fractions[1])
        deviation /= 2
        deviation *= np.logical_and.reduce(allocatable != 0)
    else:
        deviation = _usage_deviation(fractions, allocatable != 0)
    np.subtract(1.0, deviation, out=deviation)
    deviation *= MAX_NODE_SCORE
    found: Scores = deviation.astype(np.int64)
    return found


def _usage_deviation(fractions: NDArray[np.float64], there: NDArray[np.bool_]) -> NDArray[np.float64]:
    number = np.add.reduce(there.astype(np.int64))
    mean = np.add.reduce(fractions * there) / np.maximum(number, 1)
    spread = np.sqrt(np.add.reduce(np.where(there, (fractions - mean) ** 2, 0.0)) / np.maximum(number, 1))
    low, high = np.where(there, fractions, 1.0).min(axis=0), np.where(there, fractions, 0.0).max(axis=0)
    found: NDArray[np.float64] = np.where(number == 2, (high - low) / 2, spread) * (number >= 2)
    return found


def checked_resources(plugin: str, specs: Sequence[ResourceSpec]) -> tuple[ResourceSpec, ...]:
    """Return the resources of a plugin's arguments, with default weights filled in. Raise PluginError."""
    found = tuple(ResourceSpec(name=entry.name, weight=entry.weight or 1) for entry in specs)
    for entry in found:
        if not entry.name:
            raise plugin_arguments.error(plugin, "a resource needs a name")
        if not 1 <= entry.weight <= 100:
            raise plugin_arguments.error(plugin, f"the weight of resource {entry.name} is not in 1 to 100")
    return found


def checked_shape(plugin: str, shape: Sequence[UtilizationShapePoint]) -> Sequence[UtilizationShapePoint]:
    """Return the points of a function from utilisation to score. Raise PluginError if they are invalid."""
    if not shape:
        raise plugin_arguments.error(plugin, "at least one point must be specified in requestedToCapacityRatio.shape")
    last = -1
    for point in shape:
        if not 0 <= point.utilization <= 100 or point.utilization <= last:
            raise plugin_arguments.error(plugin, "utilization values must be in 0 to 100 and increase")
        if not 0 <= point.score <= 10:
            raise plugin_arguments.error(plugin, "score values must be in 0 to 10")
        last = point.utilization
    return shape
