"""A dictionary-encoded property of the nodes, and verdicts on it that are updated by row.

Worked example, for the label ``zone``: the rows hold ``a b a -`` (``-``: no node in this row).

    codes   [1, 2, 1, 0]            samples [-, {"zone": "a"}, {"zone": "b"}]

A verdict evaluates the samples into a table, ``[False, True, False]`` for ``zone In (a)``, and gathers
``table[codes]`` = ``[True, False, True, False]``. When row 3 becomes a node in ``b``, the column notes the row as
changed; the next read of the verdict gathers row 3 alone. A new value adds one entry to the table first.
"""

from collections.abc import Callable, Hashable
from math import inf
from time import perf_counter
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from mooring.constraints.columns.revisions import NEVER, RowLog

Sample = TypeVar("Sample")
Array = NDArray[Any]
_SLACK = 64


class UnfinishedError(Exception):
    """Not every distinct value was evaluated before the deadline. The results are kept: call again for the rest."""


class Deadline:
    """The time at which evaluations of many values stop with `UnfinishedError`: never, unless `until` is set."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self.clock = clock
        self.until = inf

    def check(self) -> None:
        if self.until != inf and self.clock() >= self.until:
            raise UnfinishedError


NO_DEADLINE: Final = Deadline()


class Column(Generic[Sample]):
    """One property of all nodes: a code for each row, and an example of the property for each code; 0 is no node."""

    def __init__(self, capacity: int) -> None:
        self.codes: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.samples: list[Sample | None] = [None]
        self.changes = RowLog(capacity)
        """Rows whose code has changed."""
        self._code_of: dict[Hashable, int] = {}

    def code(self, identity: Hashable) -> int | None:
        """Return the code of a property; None when no row has had it."""
        return self._code_of.get(identity)

    def add(self, identity: Hashable, sample: Sample) -> int:
        """Return a code for a property that no row has had yet."""
        code = self._code_of[identity] = len(self.samples)
        self.samples.append(sample)
        return code

    def set(self, row: int, code: int) -> None:
        """Set the code of a row; 0 when it has no node any more."""
        if self.codes[row] == code:
            return
        self.codes[row] = code
        self.changes.note(row)

    def fill(self, codes: list[int]) -> None:
        """Set the codes of all rows."""
        self.codes = np.array(codes, np.int32)
        self.changes.invalidate(len(codes))

    def grow(self, capacity: int) -> None:
        self.codes = with_more_rows(self.codes, capacity)
        self.changes.invalidate(capacity)

    def is_stale(self, nodes: int) -> bool:
        """Whether most of the samples belong to no node any more; samples are never removed."""
        return len(self.samples) > 2 * nodes + _SLACK


class RowVerdicts(Generic[Sample]):
    """The result of a function for every row of a column, evaluated once for each distinct sample."""

    def __init__(
        self, column: Column[Sample], evaluate: Callable[[Sample], int], dtype: type[np.generic], no_node: int = 0
    ) -> None:
        self._column = column
        self._evaluate = evaluate
        self._table: Array = np.array([no_node], dtype)
        self._rows: Array = np.empty(0, dtype)
        self._shown: Array = read_only(self._rows)
        self._verified_at = NEVER

    def rows(self, deadline: Deadline = NO_DEADLINE) -> Array:
        """Return the current verdict on each row: a read-only view that changes with the nodes.

        Raise UnfinishedError when the deadline has passed.
        """
        column = self._column
        changed_at = column.changes.changed_at
        if self._verified_at == changed_at:
            return self._shown
        if len(self._table) < len(column.samples):
            self._evaluate_new_samples(deadline)
        changed = column.changes.since(self._verified_at)
        if changed is None:
            self._rows = self._table.take(column.codes)
            self._shown = read_only(self._rows)
        else:
            self._rows[changed] = self._table[column.codes[changed]]
        self._verified_at = changed_at
        return self._shown

    def _evaluate_new_samples(self, deadline: Deadline) -> None:
        verdicts: list[int] = []
        try:
            for sample in self._column.samples[len(self._table) :]:
                if verdicts:
                    deadline.check()
                if sample is not None:
                    verdicts.append(self._evaluate(sample))
        finally:
            self._table = np.concatenate((self._table, np.array(verdicts, self._table.dtype)))


def larger_capacity(capacity: int) -> int:
    """Return the capacity that follows a full one: only a quarter more, since every pod pays for all rows."""
    return capacity + max(capacity // 4, 64)


def with_more_rows(array: Array, capacity: int) -> Array:
    """Return a copy of an array, extended by rows of 0 to `capacity` rows."""
    return np.concatenate((array, np.zeros(capacity - len(array), array.dtype)))


def read_only(array: Array) -> Array:
    """Return a view that cannot be written; changes of the array show in it."""
    view = array.view()
    view.flags.writeable = False
    return view
