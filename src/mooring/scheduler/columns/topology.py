"""Topology domains: for a label key, a code for the domain of each row, and counts by row summed up by domain.

Worked example for ``zone`` with nodes in a, b, a and one without the label:

    codes [1, 2, 1, 0]     a set of pods by row {0: 3, 2: 1, 3: 5}     by domain {1: 4}

Code 0 means that the node has no such label (or the row no node); nothing is counted there. When a pod is placed or
removed, one entry of each count changes; when a node moves to another domain, its pods move along. Counts are sparse:
an app takes as much memory as it has pods, whatever the number of nodes. Topologies and counts are freed with the last
derived value that holds them.

`Domains` groups rows by several topologies at once, so that a plugin computes a small table with an entry for each
group and gathers it for rows (``table[codes[rows]]``). For zone and rack of four nodes:

    zone codes [1, 1, 2, 1]    rack codes [1, 2, 3, 1]    codes [0, 1, 2, 0]    parts [[1, 1, 2], [1, 2, 3]]

For hosts every row would be a group; `CountedDomains` groups them by their number of pods.
"""

from collections.abc import Sequence
from typing import Generic, TypeAlias, TypeVar
from weakref import WeakValueDictionary, ref

import numpy as np
from numpy.typing import NDArray

from mooring.constraints.columns.revisions import NO_ROWS, ChangeLog, Reader, next_revision

Mask: TypeAlias = NDArray[np.bool_]
Rows: TypeAlias = slice | NDArray[np.intp]
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
T = TypeVar("T")
_FEW = 32
"""Up to this number of changed node rows are regrouped one by one."""


class WeakList(Generic[T]):
    """A list of weak references to its members.

    With `weakref.WeakSet`, a pod with anti-affinity of its own takes 7 to 20 % longer to place, and one with a spread
    constraint 3 to 8 %.
    """

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
        before, after = int(self.codes[row]), self._intern_value(value)
        if before == after:
            return
        self.codes[row] = after
        self.changed_at = next_revision()
        for counts in self.counts.members():
            counts.move_row(row, before, after)

    def _intern_value(self, value: str | None) -> int:
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
        _add_to_count(self.by_row, row, number)
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
            self._change_count(code, number)

    def move_row(self, row: int, before: int, after: int) -> None:
        number = self._by_row.get(row, 0)
        if not number or (self._eligible is not None and not self._eligible[row]):
            return
        if before:
            self._change_count(before, -number)
        if after:
            self._change_count(after, number)

    def _change_count(self, code: int, number: int) -> None:
        self.changed_at = next_revision()
        after = _add_to_count(self.by_code, code, number)
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
            moved = [self._regroup_row(row) for row in changed.tolist()]
            return any(moved)
        before = self.codes
        self.codes = self._compute_codes()
        self._rows = None
        self._make_room(int(self.codes.max(initial=0)))
        return not np.array_equal(before, self.codes)

    def _regroup_row(self, row: int) -> bool:
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

    def _compute_codes(self) -> NDArray[np.intp]:
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

    def find_groups_among(self, rows: Mask) -> NDArray[np.bool_]:
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


def _add_to_count(counts: dict[int, int], key: int, number: int) -> int:
    after = counts.get(key, 0) + number
    if after:
        counts[key] = after
    else:
        del counts[key]
    return after
