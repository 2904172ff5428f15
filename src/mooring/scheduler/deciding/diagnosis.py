"""Why a pod fits nowhere: a verdict for each node, counted, and told in Kubernetes' words.

Kept compact, because it is made for every pod that fits nowhere: one number for each row, and a table from numbers to
statuses.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mooring.scheduler.columns.cluster import Cluster, NodeInfo
from mooring.scheduler.deciding.filtering import FilterSlot
from mooring.scheduler.deciding.judgement import Judgement
from mooring.scheduler.framework import Code, Mask, Status, unresolvable
from mooring.scheduler.framework.verdicts import counted

NO_NODE, FEASIBLE, _RULED_OUT = -1, 0, 1
_FEW = 16
_CODE_BITS = 32
_CODE_MASK = (1 << _CODE_BITS) - 1
"""A refusal is the number of its plugin, from 1, above 32 bits of the plugin's code."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What every node said. `verdicts` has a key of `table` for each row, or `FEASIBLE` or `NO_NODE`."""

    nodes: Sequence[NodeInfo | None]
    verdicts: NDArray[np.int64]
    table: Mapping[int, Status]
    counts: Mapping[int, int]
    """How many nodes have each verdict."""
    pre_filter: Status | None = None
    """The refusal of a plugin that did not need to look at nodes."""
    naming: tuple[str, ...] = ()
    """The plugins that ruled out nodes by naming others."""

    @property
    def number_of_nodes(self) -> int:
        return sum(self.counts.values())

    def statuses(self) -> dict[str, Status]:
        """By node, why it cannot take the pod; feasible nodes are not there."""
        return dict(self._statuses())

    def _statuses(self) -> Iterator[tuple[str, Status]]:
        for row, verdict in enumerate(self.verdicts.tolist()):
            info = self.nodes[row]
            if info is not None and verdict > FEASIBLE:
                yield info.name, self.table[verdict]

    def status_on(self, row: int) -> Status | None:
        """Why the node of a row cannot take the pod; None when it can, or there is no node."""
        return self.table.get(int(self.verdicts[row]))

    def rows_with(self, code: Code) -> NDArray[np.intp]:
        """The rows whose nodes refused with a code."""
        wanted = [verdict for verdict, status in self.table.items() if status.code is code]
        if len(wanted) > _FEW:
            return np.flatnonzero(np.isin(self.verdicts, wanted))
        found = np.zeros(len(self.verdicts), np.bool_)
        for verdict in wanted:
            found |= self.verdicts == verdict
        return np.flatnonzero(found)

    def plugins(self) -> frozenset[str]:
        """The plugins that refused: what concerns them may help."""
        refusals = [self.table[verdict] for verdict, number in self.counts.items() if verdict > FEASIBLE and number]
        if self.pre_filter is not None:
            refusals.append(self.pre_filter)
        return frozenset(filter(None, (*self.naming, *(status.plugin for status in refusals))))

    def reasons(self) -> Counter[str]:
        """How many nodes gave each reason."""
        found: Counter[str] = Counter()
        for verdict, number in self.counts.items():
            if verdict > FEASIBLE:
                for reason in self.table[verdict].reasons:
                    found[reason] += number
        return found

    def message(self, after: str = "") -> str:
        """`0/5 nodes are available: 2 Insufficient cpu, 3 node(s) were unschedulable.` and what preemption said."""
        text = f"0/{self.number_of_nodes} nodes are available:"
        if self.pre_filter is not None:
            text += f" {self.pre_filter.message}."
        else:
            parts = sorted(f"{number} {reason}" for reason, number in self.reasons().items())
            text += f" {', '.join(parts)}." if parts else ""
        return f"{text} {after}" if after else text


def diagnose(judgement: Judgement, cluster: Cluster) -> Diagnosis:
    """Gather what the filters said: for each node the first refusal, in the order of the profile."""
    nodes = cluster.labels.nodes
    number = len(cluster)
    if judgement.refusal is not None:
        table = {_RULED_OUT: judgement.refusal}
        verdicts = np.where(nodes, _RULED_OUT, NO_NODE)
        counts = {_RULED_OUT: number}
        return Diagnosis(cluster.nodes_now(), verdicts, table, counts, judgement.refusal, judgement.naming)
    gathered = _Gathered(np.where(judgement.considered, FEASIBLE, _RULED_OUT))
    gathered.verdicts[~nodes] = NO_NODE
    if judgement.naming:
        status = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(judgement.naming)}]")
        gathered.table[_RULED_OUT] = status
        gathered.counts[_RULED_OUT] = number - int(np.count_nonzero(judgement.considered))
    left = judgement.considered
    for position, slot in enumerate(judgement.filters, 1):
        if slot.asks and slot.status.is_success:
            gathered.take(position, slot, left & ~slot.ok)
            left = left & slot.ok
    for verdict, (status, rows) in enumerate(judgement.overruled, _RULED_OUT + 1):
        gathered.table[verdict] = status
        gathered.counts[verdict] = len(rows)
        gathered.verdicts[rows] = verdict
    gathered.counts[FEASIBLE] = number - sum(gathered.counts.values())
    return Diagnosis(cluster.nodes_now(), gathered.verdicts, gathered.table, gathered.counts, naming=judgement.naming)


class _Gathered:
    """Verdicts by row, what they mean, and how many there are of each."""

    def __init__(self, verdicts: NDArray[np.int64]) -> None:
        self.verdicts = verdicts
        self.table: dict[int, Status] = {}
        self.counts: dict[int, int] = {}

    def take(self, position: int, slot: FilterSlot, refused: Mask) -> None:
        codes = slot.codes[refused]
        if not len(codes):
            return
        self.verdicts[refused] = (codes.astype(np.int64) & _CODE_MASK) | (position << _CODE_BITS)
        for code, number in counted(codes):
            verdict = (code & _CODE_MASK) | (position << _CODE_BITS)
            self.table[verdict] = slot.status_of(code)
            self.counts[verdict] = number
