"""Combine filter vectors into the set of feasible nodes, cached for the next pod with the same vectors.

A pipeline contains only vectors that reject some node, so pods that differ in other filters share it. Called by
``evaluation.py``.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mooring.constraints.columns.revisions import NEVER
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.deciding.filter_vectors import FilterVector
from mooring.scheduler.framework import Mask


class Feasible(NamedTuple):
    """The nodes that pass all filters, as a mask. The object is replaced only when the set of nodes changes."""

    rows: Mask
    number: int
    considered: int
    rejected: tuple[tuple[int, int], ...]
    """For each filter, how many of the nodes that passed the filters before it it rejects, for now and for good."""


class _Passed(NamedTuple):
    """The nodes that pass one filter, among those that passed the filters before it."""

    rows: Mask
    number: int
    for_good: int


class FilterPipeline:
    def __init__(self, vectors: Sequence[FilterVector], cluster: Cluster) -> None:
        self.vectors = vectors
        self._cluster = cluster
        self._nodes_at = NEVER
        self._verified_at = [NEVER] * len(vectors)
        self._stages: list[_Passed] = []
        self._found: Feasible | None = None

    def refresh(self) -> Feasible:
        """Recompute the feasible nodes from the first changed filter vector on; the vectors must be up to date."""
        first, found = len(self.vectors), self._found
        for index, vector in enumerate(self.vectors):
            if vector.changed_at != self._verified_at[index]:
                self._verified_at[index] = vector.changed_at
                first = min(first, index)
        if self._cluster.nodes_changed_at != self._nodes_at:
            self._nodes_at, first, found = self._cluster.nodes_changed_at, 0, None
            nodes = self._cluster.labels.nodes.copy()
            self._all = _Passed(nodes, int(np.count_nonzero(nodes)), 0)
        if found is None or first < len(self.vectors):
            del self._stages[first:]
            found = self._found = self._combine(self._all)
        return found

    def _combine(self, everything: _Passed) -> Feasible:
        for vector in self.vectors[len(self._stages) :]:
            last = self._stages[-1] if self._stages else everything
            self._stages.append(pass_filter(last.rows, last.number, vector))
        rejected, before = [], everything.number
        for stage in self._stages:
            rejected.append((before - stage.number - stage.for_good, stage.for_good))
            before = stage.number
        last = self._stages[-1] if self._stages else everything
        return Feasible(last.rows, last.number, everything.number, tuple(rejected))


def pass_filter(before: Mask, number_before: int, vector: FilterVector) -> _Passed:
    """Return the nodes of `before` that also pass a filter vector."""
    rows = before & vector.ok
    number = int(np.count_nonzero(rows))
    if number == number_before:
        return _Passed(before, number, 0)
    return _Passed(rows, number, int(np.count_nonzero(before & (vector.codes < 0))))
