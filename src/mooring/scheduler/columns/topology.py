"""Topology domains: for a label key, a code for the domain of each row, and counts by row summed up by domain.

Worked example for ``zone`` with nodes in a, b, a and one without the label:

    codes [1, 2, 1, 0]     a set of pods by row [3, 0, 1, 5]     by domain [0, 4, 0]

Code 0 means that the node has no such label (or the row no node); nothing is counted there. When a pod comes or goes,
one entry of each table changes; when a node moves to another domain, what is on it moves along.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mooring.constraints.columns.revisions import ChangeLog, next_revision
from mooring.scheduler.columns.weak_list import WeakList

Mask: TypeAlias = NDArray[np.bool_]
Rows: TypeAlias = slice | NDArray[np.intp]
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


class Topology:
    """The domains of one label key."""

    def __init__(self, key: str, capacity: int) -> None:
        self.key = key
        self.codes: NDArray[np.intp] = np.zeros(capacity, np.intp)
        self.values: list[str] = [""]
        """By code; a value stays when its last node has gone."""
        self.changed_at = 0
        """When a node last changed its domain."""
        self.counts: WeakList[DomainCounts] = WeakList()
        self._code_of: dict[str, int] = {}

    def put(self, row: int, value: str | None) -> None:
        """Set the domain of a row; None when it has none."""
        before, after = int(self.codes[row]), self._code(value)
        if before == after:
            return
        self.codes[row] = after
        self.changed_at = next_revision()
        for counts in self.counts.members():
            counts.moved(row, before, after)

    def _code(self, value: str | None) -> int:
        if value is None:
            return 0
        code = self._code_of.get(value)
        if code is None:
            code = self._code_of[value] = len(self.values)
            self.values.append(value)
        return code

    def grow(self, capacity: int) -> None:
        self.codes = np.concatenate((self.codes, np.zeros(capacity - len(self.codes), np.intp)))


class RowCounts:
    """How many of something there are on each row, and tables of the same by domain that follow it."""

    def __init__(self, capacity: int) -> None:
        self.by_row: NDArray[np.int64] = np.zeros(capacity, np.int64)
        self.total = 0
        self.changed_at = 0
        self._tables: WeakList[DomainCounts] = WeakList()

    def add(self, row: int, number: int) -> None:
        self.by_row[row] += number
        self.total += number
        self.changed_at = next_revision()
        for table in self._tables.members():
            table.added(row, number)

    def by_domain(self, topology: Topology, eligible: Mask | None = None) -> "DomainCounts":
        """A table that stays up to date for as long as somebody holds it."""
        table = DomainCounts(self, topology, eligible)
        self._tables.add(table)
        topology.counts.add(table)
        return table

    def grow(self, capacity: int) -> None:
        self.by_row = np.concatenate((self.by_row, np.zeros(capacity - len(self.by_row), np.int64)))


class DomainCounts:
    """Counts by domain, of the rows in `eligible` (None: all rows)."""

    def __init__(self, source: RowCounts, topology: Topology, eligible: Mask | None) -> None:
        self.topology = topology
        self.changed_at = 0
        """When an entry last changed."""
        self.changes: ChangeLog[int] = ChangeLog()
        """The codes of domains whose entry has changed."""
        self._source = source
        self._eligible = eligible
        counted = source.by_row if eligible is None else source.by_row * eligible
        size = len(topology.values) + 16
        found = np.flatnonzero(counted)
        sums = np.bincount(topology.codes[found], weights=counted[found], minlength=size)
        self._table: NDArray[np.int64] = sums.astype(np.int64)
        self._table[0] = 0
        self.total = int(self._table.sum())
        """Of all domains."""

    def table(self) -> NDArray[np.int64]:
        """The counts by code, at least one for each domain; 0 for code 0. Not to be changed."""
        self._make_room()
        return self._table

    def at(self, code: int) -> int:
        """The count of one domain."""
        return self._table.item(code) if code < len(self._table) else 0

    def added(self, row: int, number: int) -> None:
        code = int(self.topology.codes[row])
        if code and (self._eligible is None or self._eligible[row]):
            self._add(code, number)
            self.changed_at = next_revision()

    def moved(self, row: int, before: int, after: int) -> None:
        number = int(self._source.by_row[row])
        if not number or (self._eligible is not None and not self._eligible[row]):
            return
        self.changed_at = next_revision()
        if before:
            self._add(before, -number)
        if after:
            self._add(after, number)

    def _add(self, code: int, number: int) -> None:
        if code >= len(self._table):
            self._make_room()
        self._table[code] += number
        self.total += number
        self.changes.note(code)

    def _make_room(self) -> None:
        missing = len(self.topology.values) - len(self._table)
        if missing > 0:
            added = np.zeros(missing + len(self._table), np.int64)
            self._table = np.concatenate((self._table, added))


class Topologies:
    """The topologies that somebody uses, by label key."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._known: dict[str, Topology] = {}
        self._labels: list[dict[str, str] | None] = [None] * capacity

    def of(self, key: str) -> Topology:
        topology = self._known.get(key)
        if topology is None:
            topology = self._known[key] = Topology(key, self._capacity)
            for row, labels in enumerate(self._labels):
                if labels is not None and key in labels:
                    topology.put(row, labels[key])
        return topology

    def put(self, row: int, labels: dict[str, str] | None) -> None:
        """Set the labels of the node in a row; None when there is no node any more."""
        self._labels[row] = labels
        for key, topology in self._known.items():
            topology.put(row, None if labels is None else labels.get(key))

    def grow(self, capacity: int) -> None:
        self._labels += [None] * (capacity - self._capacity)
        self._capacity = capacity
        for topology in self._known.values():
            topology.grow(capacity)
