"""Node labels as columns: evaluate node selectors for all nodes at once.

A column is built when a condition first needs it: for one label key, for the few keys that a CEL expression reads
(each distinct combination of their values is evaluated once), or for the whole label set when it reads all labels.
The least recently used columns and verdicts are dropped, after an evaluation and never while it is unfinished.
"""

from collections import OrderedDict
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mooring.constraints.columns.column import (
    NO_DEADLINE,
    Column,
    Deadline,
    RowVerdicts,
    larger_capacity,
    read_only,
    with_more_rows,
)
from mooring.constraints.columns.revisions import next_revision
from mooring.constraints.node_selector import (
    Condition,
    Labels,
    NameRequirement,
    PreferredAffinity,
    RequiredAffinity,
    Selector,
    Term,
    label_keys_read,
)

Mask: TypeAlias = NDArray[np.bool_]
Keys: TypeAlias = tuple[str, ...] | None
"""The label keys that a condition reads; None when it may read all of them."""


class LabelColumns:
    """Names and labels of the nodes, row by row. Rows without a node never match."""

    def __init__(
        self,
        capacity: int = 64,
        max_columns: int = 48,
        max_verdicts: int = 96,
        deadline: Deadline = NO_DEADLINE,
    ) -> None:
        self._nodes: Mask = np.zeros(capacity, np.bool_)
        self.nodes: Mask = read_only(self._nodes)
        """The rows that have a node."""
        self.changed_at = 0
        """When a name or label last changed."""
        self._count = 0
        self._labels: list[Labels | None] = [None] * capacity
        self._names: list[str] = [""] * capacity
        self._row_of: dict[str, int] = {}
        self._columns: OrderedDict[Keys, Column[Labels]] = OrderedDict()
        self._verdicts: OrderedDict[Condition, RowVerdicts[Labels]] = OrderedDict()
        self._max_columns = max_columns
        self._max_verdicts = max_verdicts
        self._deadline = deadline

    def put(self, row: int, name: str, labels: Labels) -> None:
        """Set the node of `row`. The labels are kept, not copied: they must not be changed afterwards."""
        self._make_room(row)
        if self.nodes[row] and self._names[row] == name and self._labels[row] == labels:
            return
        if self._names[row] != name:
            self._forget_name(row)
            self._names[row] = name
            self._row_of[name] = row
        self._count += not self.nodes[row]
        self._nodes[row] = True
        self._labels[row] = labels
        self.changed_at = next_revision()
        for keys, column in self._columns.items():
            column.set(row, _code(column, labels, keys))
        for keys in [keys for keys, column in self._columns.items() if column.is_stale(self._count)]:
            self._drop(keys)

    def remove(self, row: int) -> None:
        """Remove the name and labels of a row that has no node any more."""
        if row >= len(self.nodes) or not self.nodes[row]:
            return
        self._forget_name(row)
        self._count -= 1
        self._nodes[row] = False
        self._labels[row] = None
        self.changed_at = next_revision()
        for column in self._columns.values():
            column.set(row, 0)

    def mask(self, condition: Condition, deadline: Deadline = NO_DEADLINE) -> Mask:
        """Return the rows whose labels meet one condition: a read-only view, valid until nodes change."""
        verdict = self._verdicts.get(condition)
        if verdict is None:
            deadline.check()
            column = self._column(label_keys_read(condition))
            verdict = self._verdicts[condition] = RowVerdicts(column, condition.matches, np.bool_)
        else:
            self._verdicts.move_to_end(condition)
            self._columns.move_to_end(label_keys_read(condition))
        found = verdict.rows(deadline)
        if deadline is NO_DEADLINE:
            self._evict()
        return found

    def name_mask(self, condition: NameRequirement) -> Mask:
        row = self._row_of.get(condition.name)
        found = np.zeros_like(self.nodes) if condition.equal else self.nodes.copy()
        if row is not None:
            found[row] = condition.equal
        return found

    def term_mask(self, term: Term, deadline: Deadline = NO_DEADLINE) -> Mask:
        masks = [self.name_mask(condition) for condition in term.names]
        masks += [self.mask(condition, deadline) for condition in term.labels]
        return masks[0] if len(masks) == 1 else np.logical_and.reduce(masks)

    def selector_mask(self, selector: Selector, deadline: Deadline = NO_DEADLINE) -> Mask:
        if not selector.terms:
            return np.zeros_like(self.nodes)
        masks = [self.term_mask(term, deadline) for term in selector.terms]
        return masks[0] if len(masks) == 1 else np.logical_or.reduce(masks)

    def required_mask(self, required: RequiredAffinity) -> Mask:
        """Return the rows that a pod's `nodeSelector` and required node affinity allow.

        Raise UnfinishedError when the deadline of the columns has passed.
        """
        found = self.nodes
        for condition in required.node_selector:
            found = found & self.mask(condition, self._deadline)
            if not found.any():  # a pod may require thousands of labels
                break
        else:
            if required.affinity is not None:
                found = found & self.selector_mask(required.affinity, self._deadline)
        self._evict()
        return found

    def preferred_scores(self, preferred: PreferredAffinity) -> NDArray[np.int64]:
        """Return for each row the sum of the weights of the terms that match.

        Raise UnfinishedError when the deadline of the columns has passed.
        """
        scores = np.zeros(len(self.nodes), np.int64)
        for weight, term in preferred.terms:
            scores += np.multiply(self.term_mask(term, self._deadline), weight, dtype=np.int64)
        self._evict()
        return scores

    def _column(self, keys: Keys) -> Column[Labels]:
        column = self._columns.get(keys)
        if column is None:
            column = Column(len(self.nodes))
            column.fill([0 if labels is None else _code(column, labels, keys) for labels in self._labels])
            self._columns[keys] = column
        self._columns.move_to_end(keys)
        return column

    def _evict(self) -> None:
        """Drop the least recently used verdicts and columns; those of an unfinished evaluation have been kept."""
        while len(self._verdicts) > self._max_verdicts:
            self._verdicts.popitem(last=False)
        while len(self._columns) > self._max_columns:
            self._drop(next(iter(self._columns)))

    def _drop(self, keys: Keys) -> None:
        del self._columns[keys]
        for condition in [condition for condition in self._verdicts if label_keys_read(condition) == keys]:
            del self._verdicts[condition]

    def _forget_name(self, row: int) -> None:
        if self._row_of.get(self._names[row]) == row:
            del self._row_of[self._names[row]]
        self._names[row] = ""

    def _make_room(self, row: int) -> None:
        if row < len(self.nodes):
            return
        capacity = max(row + 1, larger_capacity(len(self.nodes)))
        added = capacity - len(self.nodes)
        self._nodes = with_more_rows(self._nodes, capacity)
        self.nodes = read_only(self._nodes)
        self._labels += [None] * added
        self._names += [""] * added
        for column in self._columns.values():
            column.grow(capacity)


def _code(column: Column[Labels], labels: Labels, keys: Keys) -> int:
    identity = frozenset(labels.items()) if keys is None else tuple(map(labels.get, keys))
    code = column.code(identity)
    if code is not None:
        return code
    return column.add(identity, labels if keys is None else {key: labels[key] for key in keys if key in labels})
