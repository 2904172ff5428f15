"""Explain why no node can take a pod: a verdict for each node, and kube-scheduler's message with counts.

Every unschedulable pod has a diagnosis, so it is compact: a number for each row, and a table from numbers to statuses.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mooring.constraints.columns.revisions import NEVER, Reader
from mooring.scheduler.columns.cluster import Cluster, NodeInfo
from mooring.scheduler.deciding.filter_vectors import FilterVector
from mooring.scheduler.deciding.pod_evaluation import Overruled, PodEvaluation
from mooring.scheduler.framework import Code, Mask, Status, unresolvable
from mooring.scheduler.framework.verdicts import counted

NO_NODE, FEASIBLE, _RULED_OUT = -1, 0, 1
_FEW = 16
_FEW_ROWS = 64
"""Up to this number of rows, verdicts are read row by row."""
_CODE_BITS = 32
_CODE_MASK = (1 << _CODE_BITS) - 1
"""The low 32 bits of a rejection hold the plugin's code; the bits above hold the plugin's number, from 1."""


@dataclass(frozen=True)
class Diagnosis:
    """The verdict on every node for one pod.

    `verdicts` has a key of `table`, or `FEASIBLE` or `NO_NODE`, for each row. Pods with the same signature share a
    diagnosis, so that totals over all nodes are computed once.
    """

    nodes: Sequence[NodeInfo | None]
    verdicts: NDArray[np.int64]
    table: Mapping[int, Status]
    counts: Mapping[int, int]
    """Return the number of nodes for each verdict."""
    pre_filter: Status | None = None
    """The rejection by a PreFilter plugin, which rules out all nodes without evaluating them."""
    naming: tuple[str, ...] = ()
    """The PreFilter plugins that restricted the pod to certain nodes by name."""

    @cached_property
    def number_of_nodes(self) -> int:
        return sum(self.counts.values())

    def statuses(self) -> dict[str, Status]:
        """Return, for each node that cannot take the pod, the status that says why."""
        return dict(self._statuses())

    def _statuses(self) -> Iterator[tuple[str, Status]]:
        for row, verdict in enumerate(self.verdicts.tolist()):
            info = self.nodes[row]
            if info is not None and verdict > FEASIBLE:
                yield info.name, self.table[verdict]

    def status_on(self, row: int) -> Status | None:
        """Return why the node of one row cannot take the pod; None if it can or the row has no node."""
        return self.table.get(int(self.verdicts[row]))

    @cached_property
    def rows_for_now(self) -> NDArray[np.intp]:
        """Return the rows that rejected the pod for now (Unschedulable), so that preemption may help."""
        wanted = [verdict for verdict, status in self.table.items() if status.code is Code.UNSCHEDULABLE]
        if len(wanted) > _FEW:
            return np.flatnonzero(np.isin(self.verdicts, wanted))
        found = np.zeros(len(self.verdicts), np.bool_)
        for verdict in wanted:
            found |= self.verdicts == verdict
        return np.flatnonzero(found)

    @cached_property
    def plugins(self) -> frozenset[str]:
        """Return the names of the plugins that rejected a node."""
        refusals = [self.table[verdict] for verdict, number in self.counts.items() if verdict > FEASIBLE and number]
        if self.pre_filter is not None:
            refusals.append(self.pre_filter)
        return frozenset(filter(None, (*self.naming, *(status.plugin for status in refusals))))

    def reasons(self) -> dict[str, int]:
        """Return the number of nodes for each reason."""
        found: dict[str, int] = {}
        for verdict, number in self.counts.items():
            if verdict > FEASIBLE:
                for reason in self.table[verdict].reasons:
                    found[reason] = found.get(reason, 0) + number
        return found

    def message(self, after: str = "") -> str:
        """Return `0/5 nodes are available: 2 Insufficient cpu, 3 node(s) were unschedulable.`, then `after`."""
        return f"{self._message} {after}" if after else self._message

    @cached_property
    def _message(self) -> str:
        text = f"0/{self.number_of_nodes} nodes are available:"
        if self.pre_filter is not None:
            return f"{text} {self.pre_filter.message}."
        parts = sorted(f"{number} {reason}" for reason, number in self.reasons().items())
        return f"{text} {', '.join(parts)}." if parts else text


class Rejection(Mapping[str, Status]):
    """The rejection of a pod by all nodes, for PostFilter plugins: the status of each node, and the evaluation."""

    def __init__(self, evaluation: PodEvaluation, diagnosis: Diagnosis) -> None:
        self.evaluation = evaluation
        self.diagnosis = diagnosis

    @cached_property
    def _statuses(self) -> Mapping[str, Status]:
        return self.diagnosis.statuses()

    def __getitem__(self, node: str) -> Status:
        return self._statuses[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self._statuses)

    def __len__(self) -> int:
        return len(self._statuses)


def diagnose(evaluation: PodEvaluation, cluster: Cluster) -> Diagnosis:
    """Return the diagnosis: for each node the first rejection, in the order of the profile's plugins."""
    if evaluation.refusal is not None:
        table = {_RULED_OUT: evaluation.refusal}
        verdicts = np.where(cluster.labels.nodes, _RULED_OUT, NO_NODE)
        counts = {_RULED_OUT: len(cluster)}
        return Diagnosis(cluster.nodes_now(), verdicts, table, counts, evaluation.refusal, evaluation.naming)
    gathered = _gathered(evaluation, cluster)
    gathered.overrule(evaluation)
    return gathered.diagnosis(cluster, evaluation.naming)


def _gathered(evaluation: PodEvaluation, cluster: Cluster) -> "_Gathered":
    nodes, number = cluster.labels.nodes, len(cluster)
    gathered = _Gathered(np.where(evaluation.considered, FEASIBLE, _RULED_OUT))
    gathered.verdicts[~nodes] = NO_NODE
    if evaluation.naming:
        status = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(evaluation.naming)}]")
        gathered.table[_RULED_OUT] = status
        gathered.counts[_RULED_OUT] = number - int(np.count_nonzero(evaluation.considered))
    left = evaluation.considered
    for position, slot in _asking(evaluation):
        gathered.take(position, slot, left & ~slot.ok)
        left = left & slot.ok
    gathered.counts[FEASIBLE] = number - sum(gathered.counts.values())
    return gathered


def _asking(evaluation: PodEvaluation) -> list[tuple[int, FilterVector]]:
    filters = enumerate(evaluation.filters, 1)
    return [(position, slot) for position, slot in filters if slot.refuses and slot.status.is_success]


class SharedDiagnosis:
    """The diagnosis shared by pods with the same signature: only rows that changed since the last pod are updated.

    Not used if a plugin reads the pod itself or names nodes.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._reader = Reader(cluster.node_changes, cluster.pod_changes)
        self._gathered: _Gathered | None = None
        self._diagnosis: Diagnosis | None = None
        self._overruled: Overruled = ()
        self._filters: list[tuple[FilterVector, bool, object]] = []
        self._verified_at = NEVER

    def of(self, evaluation: PodEvaluation, changed_at: int) -> Diagnosis:
        """Return the current diagnosis; `changed_at` is the latest revision at which a verdict may have changed."""
        if self._gathered is None or changed_at > self._verified_at:
            self._gathered, self._diagnosis = self._up_to_date(evaluation), None
            self._verified_at = changed_at
        if self._diagnosis is None or evaluation.overruled is not self._overruled:
            found = self._gathered.copy()
            found.overrule(evaluation)
            self._diagnosis, self._overruled = found.diagnosis(self._cluster), evaluation.overruled
        return self._diagnosis

    def _up_to_date(self, evaluation: PodEvaluation) -> "_Gathered":
        changes = self._reader.changes()
        filters: list[tuple[FilterVector, bool, object]]
        filters = [(slot, slot.status.is_skip, slot.reasons) for slot in evaluation.filters]
        is_same, self._filters = filters == self._filters, filters
        if self._gathered is None or not is_same or changes.nodes is None or len(changes.nodes):
            return _gathered(evaluation, self._cluster)
        rows, others = changes.either, (slot for slot in evaluation.filters if not slot.reads_only_row)
        if rows is None or len(rows) > _FEW_ROWS or any(not slot.status.is_skip for slot in others):
            return _gathered(evaluation, self._cluster)
        self._gathered.take_again(rows.tolist(), _asking(evaluation))
        return self._gathered


class _Gathered:
    """The collected verdicts by row, the status of each verdict, and the number of rows with it."""

    def __init__(self, verdicts: NDArray[np.int64]) -> None:
        self.verdicts = verdicts
        self.table: dict[int, Status] = {}
        self.counts: dict[int, int] = {}

    def copy(self) -> "_Gathered":
        made = _Gathered(self.verdicts.copy())
        made.table, made.counts = dict(self.table), dict(self.counts)
        return made

    def diagnosis(self, cluster: Cluster, naming: tuple[str, ...] = ()) -> Diagnosis:
        return Diagnosis(cluster.nodes_now(), self.verdicts, self.table, self.counts, naming=naming)

    def overrule(self, evaluation: PodEvaluation) -> None:
        """Replace verdicts by the rejections that nominated pods cause."""
        for verdict, (status, rows) in enumerate(evaluation.overruled, _RULED_OUT + 1):
            self.table[verdict] = status
            self.counts[verdict] = len(rows)
            self.counts[FEASIBLE] -= len(rows)
            self.verdicts[rows] = verdict

    def take_again(self, rows: Iterable[int], asking: Sequence[tuple[int, FilterVector]]) -> None:
        """Replace the verdicts on a few rows."""
        for row in rows:
            before, after = self.verdicts.item(row), FEASIBLE
            for position, slot in asking:
                if not slot.ok[row]:
                    code = slot.codes.item(row)
                    after = (code & _CODE_MASK) | (position << _CODE_BITS)
                    self.table[after] = slot.status_of(code)
                    break
            if before != after:
                self.verdicts[row] = after
                self.counts[before] -= 1
                self.counts[after] = self.counts.get(after, 0) + 1
                if before != FEASIBLE and not self.counts[before]:
                    del self.counts[before], self.table[before]

    def take(self, position: int, slot: FilterVector, refused: Mask) -> None:
        codes = slot.codes[refused]
        if not len(codes):
            return
        self.verdicts[refused] = (codes.astype(np.int64) & _CODE_MASK) | (position << _CODE_BITS)
        for code, number in counted(codes):
            verdict = (code & _CODE_MASK) | (position << _CODE_BITS)
            self.table[verdict] = slot.status_of(code)
            self.counts[verdict] = number
