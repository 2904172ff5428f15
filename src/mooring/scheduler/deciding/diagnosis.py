"""Explain why no node can take a pod: a verdict for each node, and kube-scheduler's message with counts.

Every unschedulable pod has a diagnosis, so it is compact: a number for each row, and a table from numbers to statuses.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mooring.scheduler.columns.cluster import Cluster, NodeInfo
from mooring.scheduler.deciding.pod_evaluation import PodEvaluation
from mooring.scheduler.framework import Code, Status, unresolvable
from mooring.scheduler.framework.verdicts import count_codes

NO_NODE, FEASIBLE, _RULED_OUT = -1, 0, 1
_CODE_BITS = 32
_CODE_MASK = (1 << _CODE_BITS) - 1
"""The low 32 bits of a rejection hold the plugin's code; the bits above hold the plugin's number, from 1."""


@dataclass(frozen=True)
class Diagnosis:
    """The verdict on every node for one pod.

    `verdicts` has a key of `table`, or `FEASIBLE` or `NO_NODE`, for each row.
    """

    nodes: Sequence[NodeInfo | None]
    verdicts: NDArray[np.int64]
    table: Mapping[int, Status]
    counts: Mapping[int, int]
    """The number of nodes for each verdict."""
    pre_filter: Status | None = None
    """The rejection by a PreFilter plugin, which rules out all nodes without evaluating them."""
    naming: tuple[str, ...] = ()
    """The PreFilter plugins that limited the pod to nodes that they named."""

    @cached_property
    def number_of_nodes(self) -> int:
        return sum(self.counts.values())

    def statuses(self) -> dict[str, Status]:
        """Return, for each node that cannot take the pod, the status that says why."""
        rows = zip(self.nodes, self.verdicts.tolist(), strict=False)  # a column may have fewer rows
        return {info.name: self.table[verdict] for info, verdict in rows if info is not None and verdict > FEASIBLE}

    def status_on(self, row: int) -> Status | None:
        """Return why a node, given by its row, cannot take the pod; None if it can or the row has no node."""
        return self.table.get(int(self.verdicts[row]))

    @cached_property
    def unschedulable_rows(self) -> NDArray[np.intp]:
        """Return the node rows with the code Unschedulable, where preemption may help."""
        wanted = [verdict for verdict, status in self.table.items() if status.code is Code.UNSCHEDULABLE]
        return np.flatnonzero(np.isin(self.verdicts, wanted))

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
        return Diagnosis(
            cluster.snapshot_nodes(),
            np.where(cluster.labels.nodes, _RULED_OUT, NO_NODE),
            {_RULED_OUT: evaluation.refusal},
            {_RULED_OUT: len(cluster)},
            evaluation.refusal,
            evaluation.naming,
        )
    nodes, number = cluster.labels.nodes, len(cluster)
    verdicts = np.where(evaluation.considered, FEASIBLE, _RULED_OUT)
    verdicts[~nodes] = NO_NODE
    table: dict[int, Status] = {}
    counts: dict[int, int] = {}
    if evaluation.naming:
        table[_RULED_OUT] = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(evaluation.naming)}]")
        counts[_RULED_OUT] = number - int(np.count_nonzero(evaluation.considered))
    left = evaluation.considered
    for position, vector in enumerate(evaluation.filters, 1):
        if not (vector.refuses and vector.status.is_success):
            continue
        refused = left & ~vector.ok
        codes = vector.codes[refused]
        verdicts[refused] = (codes.astype(np.int64) & _CODE_MASK) | (position << _CODE_BITS)
        for code, times in count_codes(codes):
            verdict = (code & _CODE_MASK) | (position << _CODE_BITS)
            table[verdict], counts[verdict] = vector.status_of(code), times
        left = left & vector.ok
    counts[FEASIBLE] = number - sum(counts.values())
    for verdict, (status, rows) in enumerate(evaluation.overruled, _RULED_OUT + 1):  # because of nominated pods
        table[verdict], counts[verdict] = status, len(rows)
        counts[FEASIBLE] -= len(rows)
        verdicts[rows] = verdict
    return Diagnosis(cluster.snapshot_nodes(), verdicts, table, counts, naming=evaluation.naming)
