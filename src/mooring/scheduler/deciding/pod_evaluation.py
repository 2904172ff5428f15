"""The evaluation of one pod on all nodes, of single nodes with additional pods, and beside nominated pods.

A pod must also fit beside the pods that are nominated for a node (`leave_room`). If the verdicts depend on resources
alone, all nodes are evaluated together with the amounts that the nominated pods will use. Otherwise nodes are evaluated
one by one, with the nominated pods placed in a trial.

Created by ``evaluation.py``; read by ``engine.py``, ``diagnosis.py`` and preemption.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.scheduler.columns.cluster import Cluster, PlacedPod
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.deciding.filter_vectors import Amounts, FilterVector
from mooring.scheduler.deciding.score_vectors import BestRows, ScoreVector
from mooring.scheduler.framework import SUCCESS, CycleState, Mask, Scores, Status
from mooring.scheduler.framework.nominations import NominatedPods
from mooring.scheduler.framework.status import first_rejection

_NO_MASK: Mask = np.empty(0, np.bool_)
Overruled: TypeAlias = Sequence[tuple[Status, NDArray[np.intp]]]
"""Node rows that are infeasible only because of nominated pods, with the status to report."""


class PodEvaluation(msgspec.Struct, eq=False):
    """The results of all plugins for one pod. Arrays are by node row and valid until the cluster changes."""

    pod: PodInfo
    cycle: CycleState = msgspec.field(default_factory=CycleState)
    filters: list[FilterVector] = []
    refusal: Status | None = None
    """The rejection of all nodes by a `pre_filter`, or an error; None otherwise."""
    reached: str = "PreFilter"
    """The last extension point that ran; it rejected the pod if any did."""
    considered: Mask = _NO_MASK
    """The evaluated nodes: all, or those that a `pre_filter` named."""
    naming: tuple[str, ...] = ()
    """The PreFilter plugins that limited the pod to nodes that they named."""
    number_considered: int = 0
    feasible: Mask = _NO_MASK
    number_feasible: int = 0
    overruled: Overruled = ()
    nominated_pods_only_use: bool | None = None
    """The cached result of `nominated_pods_only_use`."""
    is_shared_by_template: bool = True
    """Whether the verdicts hold for every pod with the same pod signature."""
    rejected: Mapping[str, tuple[int, int]] = {}
    """By Filter plugin, how many nodes it rejected for now and for good of those that passed the filters before it."""
    scores: list[ScoreVector] = []
    points: dict[str, Scores] = {}
    """By Score plugin, the weighted scores of all node rows; empty unless the caller asked for them."""
    best: BestRows | None = None

    @property
    def is_shared(self) -> bool:
        """Whether every pod with the same pod signature has the same feasible nodes."""
        return self.is_shared_by_template and not self.overruled


def status_on(evaluation: PodEvaluation, row: int, *, only_pods_moved: bool = False) -> Status:
    """Evaluate the filters on one node row without caches; return the first rejection, or success.

    With `only_pods_moved`, filters that read the node alone are skipped, because the row has passed them.
    """
    vectors = (each for each in evaluation.filters if not (only_pods_moved and each.reads_only_node))
    return first_rejection(vector.verdict(row) for vector in vectors)


def status_with(
    evaluation: PodEvaluation, cluster: Cluster, row: int, pods: Sequence[PlacedPod], *, only_pods_moved: bool = True
) -> Status:
    """Evaluate the filters on one node row with additional pods there; return the first rejection, or success."""
    if not pods:
        return SUCCESS
    with cluster.trial() as trial:
        for placed in pods:
            trial.place(placed)
        return status_on(evaluation, row, only_pods_moved=only_pods_moved)


def only_resources_decide(evaluation: PodEvaluation) -> bool:
    """Return whether every filter depends only on the node or on its resources. Valid after filtering."""
    return evaluation.refusal is None and all(vector.reads_only_resources for vector in evaluation.filters)


def leave_room(evaluation: PodEvaluation, cluster: Cluster, expected: NominatedPods) -> None:
    """Reject the node rows where the pod would not fit beside the nominated pods."""
    rows = (evaluation.feasible & expected.is_on).nonzero()[0]
    if not len(rows):
        return
    if only_resources_decide(evaluation) and nominated_pods_only_use(evaluation, cluster, expected):
        allocatable = cluster.resources.allocatable.take(rows, axis=1)
        used = cluster.resources.used.take(rows, axis=1) + expected.usage.take(rows, axis=1)
        found = find_refusals(evaluation, rows, allocatable, used, np.ones(len(rows), np.bool_))
    else:
        statuses = (status_with(evaluation, cluster, row, expected.pods_on(row)) for row in rows.tolist())
        found = {index: status for index, status in enumerate(statuses) if not status.is_success}
    if found:
        indexes: dict[Status, list[int]] = {}
        for index, status in found.items():
            indexes.setdefault(status, []).append(index)
        evaluation.overruled = [(status, rows[those]) for status, those in indexes.items()]
        evaluation.feasible = evaluation.feasible.copy()
        evaluation.feasible[rows[list(found)]] = False
        evaluation.number_feasible -= len(found)


def find_refusals(
    evaluation: PodEvaluation, rows: NDArray[np.intp], allocatable: Amounts, used: Amounts, fits: Mask
) -> dict[int, Status]:
    """Return, by node index, why the pod would not fit with the given used amounts; clear `fits` for such nodes."""
    found: dict[int, Status] = {}
    for vector in evaluation.filters:
        ok = vector.fits_with(rows, allocatable, used)
        if ok is not None and len(lacking := (fits & ~ok).nonzero()[0]):
            for status, indexes in vector.refusals_with(rows[lacking], allocatable[:, lacking], used[:, lacking]):
                found |= dict.fromkeys(lacking[indexes].tolist(), status)
            fits &= ok
    return found


def nominated_pods_only_use(evaluation: PodEvaluation, cluster: Cluster, expected: NominatedPods) -> bool:
    """Return whether the nominated pods, once placed, change only resource usage: no other filter is affected."""
    if evaluation.nominated_pods_only_use is None:
        evaluation.nominated_pods_only_use = _check_only_usage_changes(evaluation, cluster, expected)
    return evaluation.nominated_pods_only_use


def _check_only_usage_changes(evaluation: PodEvaluation, cluster: Cluster, expected: NominatedPods) -> bool:
    silent = [
        vector
        for vector in evaluation.filters
        if vector.status.is_skip and vector.may_apply_after(expected.signatures())
    ]
    for row, pods in expected.distinct_combinations() if silent else ():
        with cluster.trial() as trial:
            for placed in pods:
                trial.place(placed)
            if any(vector.verdicts(np.array([row], np.intp)) is not None for vector in silent):
                return False
    return True
