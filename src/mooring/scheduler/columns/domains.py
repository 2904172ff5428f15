"""Rows grouped by their domains in several topologies at once, so that what is said of domains is said once for each.

Worked example for zone and rack of four nodes:

    zone codes [1, 1, 2, 1]    rack codes [1, 2, 3, 1]    codes [0, 1, 2, 0]    parts [[1, 1, 2], [1, 2, 3]]

A plugin makes a small table with an entry for each group and gathers it for rows: ``table[codes[rows]]``. Where rows
themselves differ, as for hosts, every row is a group (`by_row`).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.scheduler.columns.topology import Mask, Topology

_FEW = 32


class Domains:
    """The groups that rows are in; good while no node changes its domain (`is_current`)."""

    def __init__(self, topologies: Sequence[Topology], capacity: int, *, by_row: bool = False) -> None:
        self.topologies = tuple(topologies)
        self.by_row = by_row
        self._revisions = [topology.revision for topology in topologies]
        self._capacity = capacity
        self._members: list[Mask] | None = None
        self.codes: NDArray[np.intp]
        self.parts: list[NDArray[np.intp]]
        """For each topology the code of each group."""
        if by_row:
            self.codes = np.arange(capacity)
            self.parts = [topology.codes.copy() for topology in topologies]
        elif not self.topologies:
            self.codes = np.zeros(capacity, np.intp)
            self.parts = []
        elif len(self.topologies) == 1:
            self.codes = self.topologies[0].codes
            self.parts = [np.arange(len(self.topologies[0].values))]
        else:
            self._join()

    def _join(self) -> None:
        joint = np.zeros(self._capacity, np.intp)
        for topology in self.topologies:
            # Numbering the groups again after each topology keeps the products small.
            joint = joint * len(topology.values) + topology.codes
            joint = np.unique(joint, return_inverse=True)[1]
        _, first, self.codes = np.unique(joint, return_index=True, return_inverse=True)
        self.parts = [topology.codes[first] for topology in self.topologies]

    def __len__(self) -> int:
        """The number of groups."""
        return len(self.parts[0]) if self.parts else 1

    def is_current(self, capacity: int) -> bool:
        return self._capacity == capacity and self._revisions == [topology.revision for topology in self.topologies]

    def among(self, rows: Mask) -> Mask:
        """The groups that have one of `rows`."""
        if self.by_row:
            return rows
        if len(self) <= _FEW:
            if self._members is None:
                self._members = [np.equal(self.codes, code) for code in range(len(self))]
            return np.array([(members & rows).any() for members in self._members], np.bool_)
        found = np.zeros(len(self), np.bool_)
        found[self.codes[rows]] = True
        return found
