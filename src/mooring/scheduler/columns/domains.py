"""Group rows by their domains in several topologies at once, so that a result is computed once for each group.

Worked example for zone and rack of four nodes:

    zone codes [1, 1, 2, 1]    rack codes [1, 2, 3, 1]    codes [0, 1, 2, 0]    parts [[1, 1, 2], [1, 2, 3]]

A plugin computes a small table with an entry for each group and gathers it for rows: ``table[codes[rows]]``. For hosts
every row would be a group; `CountedDomains` groups them by their number of pods.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.constraints.columns.revisions import NO_ROWS, Reader
from mooring.scheduler.columns.topology import Mask, RowCounts, Topology

_FEW = 32


class Domains:
    """The node rows grouped by their topology domains; valid until a node changes its domain."""

    def __init__(self, topologies: Sequence[Topology], capacity: int) -> None:
        self.codes: NDArray[np.intp] = np.zeros(capacity, np.intp)
        self.parts: list[NDArray[np.intp]] = []
        """For each topology, the domain code of each group."""
        if len(topologies) == 1:
            self.codes = topologies[0].codes
            self.parts = [np.arange(len(topologies[0].values))]
        elif topologies:
            joint = self.codes
            for topology in topologies:
                # Numbering the groups again after each topology keeps the products small.
                joint = joint * len(topology.values) + topology.codes
                joint = np.unique(joint, return_inverse=True)[1]
            _, first, self.codes = np.unique(joint, return_index=True, return_inverse=True)
            self.parts = [topology.codes[first] for topology in topologies]

    def __len__(self) -> int:
        """Return the number of groups of node rows."""
        return len(self.parts[0]) if self.parts else 1


class CountedDomains:
    """Groups of rows that are in the same domains and have the same number of pods of a set: far fewer than rows.

    A group's code is ``level * len(domains) + domain``. Level 0 is for rows outside `counting`; a row with n pods has
    level n + 1. When a pod is placed on a row, only that row changes its group.
    """

    def __init__(self, domains: Domains, pods: RowCounts | None, counting: Mask, changes: Reader) -> None:
        """Group the node rows; without `pods`, every row of `counting` has level 1."""
        self.domains = domains
        self.counts_pods = pods is not None
        self._pods = pods
        self._counting = counting
        self._changes = changes
        self._rows: Mask | None = None
        self._numbers: NDArray[np.int64] = np.zeros(0, np.int64)
        self._present: NDArray[np.bool_] | None = None
        self.codes: NDArray[np.intp] = np.zeros(len(counting), np.intp)
        self.levels = 0

    def refresh(self) -> bool:
        """Update the groups of node rows whose pods changed; return whether any row changed its group."""
        changed = self._changes.changes() if self.counts_pods or not self.levels else NO_ROWS
        if changed is not None and len(changed) <= _FEW:
            moved = [self._move(row) for row in changed.tolist()]
            return any(moved)
        before = self.codes
        self.codes = self._all_codes()
        self._rows = None
        self._make_room(int(self.codes.max(initial=0)))
        return not np.array_equal(before, self.codes)

    def _move(self, row: int) -> bool:
        old, level = self.codes.item(row), 0
        if self._counting[row]:
            level = 1 if self._pods is None else self._pods.by_row.get(row, 0) + 1
        new = level * len(self.domains) + self.domains.codes.item(row)
        if old == new:
            return False
        self._make_room(new)
        self.codes[row] = new
        if self._rows is not None and self._rows[row]:
            left, joined = self._numbers.item(old) - 1, self._numbers.item(new) + 1
            self._numbers[old], self._numbers[new] = left, joined
            if left == 0 or joined == 1:
                self._present = None
        return True

    def _all_codes(self) -> NDArray[np.intp]:
        levels = self._counting.astype(np.intp)
        if self._pods is not None:
            levels *= self._pods.array(len(levels)) + 1
        return levels * len(self.domains) + self.domains.codes

    def _make_room(self, code: int) -> None:
        levels = code // len(self.domains) + 1
        if levels > self.levels:
            added = np.zeros((levels - self.levels) * len(self.domains), np.int64)
            self._numbers = np.concatenate((self._numbers, added))
            self.levels = levels
            self._present = None

    def among(self, rows: Mask) -> NDArray[np.bool_]:
        """Return, by level and domain, whether a group contains one of `rows`; the same array while nothing changes.

        The cost depends on how many rows differ from those of the last call.
        """
        if self._rows is None:
            self._numbers = np.bincount(self.codes[rows], minlength=self.levels * len(self.domains))
            self._present = None
        elif rows is not self._rows:
            moved = (rows != self._rows).nonzero()[0]
            np.add.at(self._numbers, self.codes[moved], np.where(rows[moved], 1, -1))
            self._present = None
        self._rows = rows
        if self._present is None:
            self._present = self._numbers.reshape(self.levels, len(self.domains)) > 0
        return self._present
