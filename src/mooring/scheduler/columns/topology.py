"""Topology domains: for a label key, a code for the domain of each row, and counts by row summed up by domain.

Worked example for ``zone`` with nodes in a, b, a and one without the label:

    codes [1, 2, 1, 0]     a set of pods by row {0: 3, 2: 1, 3: 5}     by domain {1: 4}

Code 0 means that the node has no such label (or the row no node); nothing is counted there. When a pod is placed or
removed, one entry of each count changes; when a node moves to another domain, its pods move along. Counts are sparse:
an app takes as much memory as it has pods, whatever the number of nodes. Topologies and counts are freed with the last
derived value that holds them.
"""

from typing import Generic, TypeAlias, TypeVar
from weakref import WeakValueDictionary, ref

import numpy as np
from numpy.typing import NDArray

from mooring.constraints.columns.revisions import ChangeLog, next_revision

Mask: TypeAlias = NDArray[np.bool_]
Rows: TypeAlias = slice | NDArray[np.intp]
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
T = TypeVar("T")


class WeakList(Generic[T]):
    """A list of weak references to its members: like `weakref.WeakSet`, but cheaper to iterate over."""

    def __init__(self) -> None:
        self._references: list[ref[T]] = []

    def add(self, member: T) -> None:
        self._references.append(ref(member))

    def remove(self, member: T) -> None:
        self._references = [entry for entry in self._references if entry() is not member]

    def members(self) -> list[T]:
        """Return the members that are still alive, oldest first."""
        if not self._references:
            return []
        alive = [member for entry in self._references if (member := entry()) is not None]
        if len(alive) < len(self._references):
            self._references = [ref(member) for member in alive]
        return alive


class Topology:
    """The topology domains of the nodes for one label key."""

    __slots__ = ("__weakref__", "_code_of", "changed_at", "codes", "counts", "key", "values")

    def __init__(self, key: str, capacity: int) -> None:
        self.key = key
        self.codes: NDArray[np.intp] = np.zeros(capacity, np.intp)
        self.values: list[str] = [""]
        """The label value of each domain code; it stays when its last node is removed."""
        self.changed_at = 0
        """The revision at which a node last changed its domain."""
        self.counts: WeakList[DomainCounts] = WeakList()
        self._code_of: dict[str, int] = {}

    def put(self, row: int, value: str | None) -> None:
        """Set the domain of a node row to a label value; None if its node lacks the label."""
        before, after = int(self.codes[row]), self._code(value)
        if before == after:
            return
        self.codes[row] = after
        self.changed_at = next_revision()
        for counts in self.counts.members():
            counts.move_row(row, before, after)

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
    """The number of pods of a set on each node row, and the counts by domain that are derived from it."""

    def __init__(self) -> None:
        self.by_row: dict[int, int] = {}
        """The number of pods by node row, without rows that have none."""
        self.total = 0
        self.changed_at = 0
        self._tables: WeakList[DomainCounts] = WeakList()

    def add(self, row: int, number: int) -> None:
        _add(self.by_row, row, number)
        self.total += number
        self.changed_at = next_revision()
        for table in self._tables.members():
            table.add_pods(row, number)

    def by_domain(self, topology: Topology, eligible: Mask | None = None) -> "DomainCounts":
        """Return the counts by domain of one topology; the table is updated while it is referenced."""
        table = DomainCounts(self, topology, eligible)
        self._tables.add(table)
        topology.counts.add(table)
        return table

    def array(self, capacity: int) -> NDArray[np.int64]:
        """Return the counts of pods on all node rows as an array."""
        found = np.zeros(capacity, np.int64)
        found[list(self.by_row)] = list(self.by_row.values())
        return found


class DomainCounts:
    """The number of pods in each topology domain, counted on the node rows of `eligible` (None: all)."""

    def __init__(self, source: RowCounts, topology: Topology, eligible: Mask | None) -> None:
        self.topology = topology
        self.by_code: dict[int, int] = {}
        """The number of pods by domain code, without domains that have none."""
        self.changed_at = 0
        """The revision at which a count last changed."""
        self.changes: ChangeLog[int] = ChangeLog()
        """Log of the codes of domains whose count changed."""
        self.flips: ChangeLog[int] = ChangeLog()
        """Log of the codes of domains whose count became zero or stopped being zero."""
        self._by_row = source.by_row  # not the source: it may hold this table, and a cycle would outlive both
        self._eligible = eligible
        self._table: NDArray[np.int64] | None = None
        for row, number in source.by_row.items():
            code = topology.codes.item(row)
            if code and (eligible is None or eligible[row]):
                self.by_code[code] = self.by_code.get(code, 0) + number

    def table(self) -> NDArray[np.int64]:
        """Return an array of the counts by domain code, with 0 for code 0. The array is shared: do not modify it."""
        size = len(self.topology.values)
        if self._table is None or len(self._table) < size:
            self._table = np.zeros(size + 16, np.int64)
            self._table[list(self.by_code)] = list(self.by_code.values())
        return self._table

    def add_pods(self, row: int, number: int) -> None:
        code = self.topology.codes.item(row)
        if code and (self._eligible is None or self._eligible[row]):
            self._add(code, number)
            self.changed_at = next_revision()

    def move_row(self, row: int, before: int, after: int) -> None:
        number = self._by_row.get(row, 0)
        if not number or (self._eligible is not None and not self._eligible[row]):
            return
        self.changed_at = next_revision()
        if before:
            self._add(before, -number)
        if after:
            self._add(after, number)

    def _add(self, code: int, number: int) -> None:
        after = _add(self.by_code, code, number)
        if self._table is not None and code < len(self._table):
            self._table[code] = after
        self.changes.note(code)
        if not after or after == number:
            self.flips.note(code)


class Topologies:
    """The topologies in use, by label key."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._known: WeakValueDictionary[str, Topology] = WeakValueDictionary()
        self._labels: list[dict[str, str] | None] = [None] * capacity

    def __len__(self) -> int:
        return len(self._known)

    def of(self, key: str) -> Topology:
        topology = self._known.get(key)
        if topology is None:
            topology = self._known[key] = Topology(key, self._capacity)
            for row, labels in enumerate(self._labels):
                if labels is not None and key in labels:
                    topology.put(row, labels[key])
        return topology

    def put(self, row: int, labels: dict[str, str] | None) -> None:
        """Set the labels of the node in a node row; None if the row has no node."""
        self._labels[row] = labels
        for key, topology in self._known.items():
            topology.put(row, None if labels is None else labels.get(key))

    def grow(self, capacity: int) -> None:
        self._labels += [None] * (capacity - self._capacity)
        self._capacity = capacity
        for topology in self._known.values():
            topology.grow(capacity)


def _add(counts: dict[int, int], key: int, number: int) -> int:
    after = counts.get(key, 0) + number
    if after:
        counts[key] = after
    else:
        del counts[key]
    return after
