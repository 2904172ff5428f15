"""Node taints as a column of taint sets: evaluate tolerations for all nodes at once.

Nodes with the same taints share a set. A pod's tolerations are evaluated once per distinct taint, then once per
distinct set, then gathered. `timeAdded` is part of a taint's identity only for tolerations whose expression reads it,
because it makes every node's taint distinct.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.core_v1 import Taint, Toleration
from mooring.constraints import expressions
from mooring.constraints.columns.column import NO_DEADLINE, Column, Deadline, RowVerdicts, larger_capacity
from mooring.constraints.columns.revisions import next_revision
from mooring.constraints.options import ConstraintOptions
from mooring.constraints.tolerations import DO_NOT_SCHEDULE, PREFER_NO_SCHEDULE, index_tolerations

TOLERATED = -1
"""Instead of a taint's number: every taint of the node is tolerated."""
NO_NODE = -2
"""Instead of a taint's number: there is no node in this row."""

TolerationsKey: TypeAlias = tuple[tuple[str, str, str, str, str], ...]
TaintSet: TypeAlias = tuple[int, ...]


def key_of(tolerations: Sequence[Toleration]) -> TolerationsKey:
    """Return the fields of tolerations that decide whether they match: pods with the same key share verdicts."""
    return tuple((entry.key, entry.operator, entry.value, entry.effect, entry.expression) for entry in tolerations)


class Untolerated(msgspec.Struct, frozen=True):
    """For each row the first taint that a pod does not tolerate: its index in `taints`, `TOLERATED` or `NO_NODE`."""

    numbers: NDArray[np.int32]
    taints: Sequence[Taint]

    def mask(self) -> NDArray[np.bool_]:
        """Return the mask of the rows whose taints are all tolerated."""
        return np.equal(self.numbers, TOLERATED)

    def taint(self, row: int) -> Taint | None:
        number = int(self.numbers[row])
        return self.taints[number] if number >= 0 else None


class TaintColumns:
    """The taints of the nodes, row by row."""

    def __init__(
        self,
        options: ConstraintOptions,
        capacity: int = 64,
        max_verdicts: int = 32,
        deadline: Deadline = NO_DEADLINE,
    ) -> None:
        self.changed_at = 0
        """When a taint last changed."""
        self._options = options
        self._taints: list[Sequence[Taint] | None] = [None] * capacity
        self._count = 0
        self._max_verdicts = max_verdicts
        self._deadline = deadline
        self._plain = _TaintSets(self._taints, timed=False)
        self._timed: _TaintSets | None = None
        self._verdicts: OrderedDict[tuple[TolerationsKey, bool], tuple[_TaintSets, RowVerdicts[TaintSet]]] = (
            OrderedDict()
        )

    def put(self, row: int, taints: Sequence[Taint]) -> None:
        """Set the taints of the node in `row`. They are kept, not copied: they must not be changed afterwards."""
        self._make_room(row)
        if self._taints[row] == taints:
            return
        self._count += self._taints[row] is None
        self._taints[row] = taints
        self.changed_at = next_revision()
        for sets in filter(None, (self._plain, self._timed)):
            sets.column.set(row, sets.code(taints))
        if self._plain.column.is_stale(self._count) or (self._timed and self._timed.column.is_stale(self._count)):
            self._start_again()

    def remove(self, row: int) -> None:
        """Remove the taints of a row that has no node any more."""
        if row >= len(self._taints) or self._taints[row] is None:
            return
        self._taints[row] = None
        self._count -= 1
        self.changed_at = next_revision()
        for sets in filter(None, (self._plain, self._timed)):
            sets.column.set(row, 0)

    def find_untolerated(self, tolerations: Sequence[Toleration]) -> Untolerated:
        """Return the first NoSchedule or NoExecute taint of every node that `tolerations` do not match.

        Raise UnfinishedError when the deadline of the columns has passed.
        """
        sets, verdict = self._verdict(tolerations, preferences=False)
        return Untolerated(verdict.rows(self._deadline), sets.taints)

    def untolerated_preferences(self, tolerations: Sequence[Toleration]) -> NDArray[np.int32]:
        """Return the number of PreferNoSchedule taints of every node that `tolerations` do not match.

        Raise UnfinishedError when the deadline of the columns has passed.
        """
        _, verdict = self._verdict(tolerations, preferences=True)
        return verdict.rows(self._deadline)

    def _verdict(
        self, tolerations: Sequence[Toleration], *, preferences: bool
    ) -> tuple["_TaintSets", RowVerdicts[TaintSet]]:
        key = (key_of(tolerations), preferences)
        found = self._verdicts.get(key)
        if found is not None:
            self._verdicts.move_to_end(key)
            return found
        sets = self._sets(tolerations)
        effects = frozenset({PREFER_NO_SCHEDULE}) if preferences else DO_NOT_SCHEDULE
        repels = _repels(sets.taints, tuple(tolerations), effects, self._options)

        def evaluate(numbers: TaintSet) -> int:
            return sum(map(repels, numbers)) if preferences else next(filter(repels, numbers), TOLERATED)

        found = sets, RowVerdicts(sets.column, evaluate, np.int32, 0 if preferences else NO_NODE)
        self._verdicts[key] = found
        if len(self._verdicts) > self._max_verdicts:
            self._verdicts.popitem(last=False)
        return found

    def _sets(self, tolerations: Sequence[Toleration]) -> "_TaintSets":
        if not self._options.cel or not any(
            entry.expression and expressions.reads_time_added(entry.expression) for entry in tolerations
        ):
            return self._plain
        if self._timed is None:
            self._timed = _TaintSets(self._taints, timed=True)
        return self._timed

    def _start_again(self) -> None:
        self._verdicts.clear()
        self._plain = _TaintSets(self._taints, timed=False)
        self._timed = None

    def _make_room(self, row: int) -> None:
        if row < len(self._taints):
            return
        capacity = max(row + 1, larger_capacity(len(self._taints)))
        self._taints += [None] * (capacity - len(self._taints))
        for sets in filter(None, (self._plain, self._timed)):
            sets.column.grow(capacity)


class _TaintSets:
    """Distinct taints, numbered, and the column of the sets that the nodes have."""

    def __init__(self, rows: Sequence[Sequence[Taint] | None], *, timed: bool) -> None:
        self.taints: list[Taint] = []
        self.column: Column[TaintSet] = Column(len(rows))
        self._numbers: dict[tuple[str, str, str, str | None], int] = {}
        self._timed = timed
        self.column.fill([0 if taints is None else self.code(taints) for taints in rows])

    def code(self, taints: Sequence[Taint]) -> int:
        numbers = tuple([self._number(taint) for taint in taints])
        code = self.column.code(numbers)
        return self.column.add(numbers, numbers) if code is None else code

    def _number(self, taint: Taint) -> int:
        identity = (taint.key, taint.value, taint.effect, taint.time_added if self._timed else None)
        number = self._numbers.get(identity)
        if number is None:
            number = self._numbers[identity] = len(self.taints)
            self.taints.append(taint)
        return number


def _repels(
    taints: Sequence[Taint], tolerations: tuple[Toleration, ...], effects: frozenset[str], options: ConstraintOptions
) -> Callable[[int], bool]:
    known: dict[int, bool] = {}
    index = index_tolerations(tolerations, options)

    def repels(number: int) -> bool:
        verdict = known.get(number)
        if verdict is None:
            taint = taints[number]
            verdict = known[number] = taint.effect in effects and index.first_match(taint) is None
        return verdict

    return repels
