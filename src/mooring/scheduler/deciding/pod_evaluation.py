"""The evaluation of one pod on all nodes, and functions that evaluate single rows with additional pods on them.

Created by ``evaluation.py``; read by ``engine.py``, ``diagnosis.py`` and preemption.
"""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.scheduler.columns.cluster import Cluster, PlacedPod
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.deciding.filter_vectors import FilterVector
from mooring.scheduler.deciding.score_sum import BestRows
from mooring.scheduler.deciding.score_vectors import ScoreVector
from mooring.scheduler.framework import SUCCESS, CycleState, Mask, Scores, Status
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
    only_resources: bool | None = None
    """The cached result of `only_resources_decide`."""
    nominated_pods_only_use: bool | None = None
    """The cached result of `nominated_pods_only_use`."""
    is_shared_by_template: bool = True
    """Whether the verdicts hold for every pod with the same pod signature."""
    asked: list[tuple[str, int, int, int]] = []
    """For each Filter plugin, how many nodes it evaluated, rejected for now, and rejected for good."""
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
    """Evaluate the filters on one node row with additional pods placed on it."""
    if not pods:
        return SUCCESS
    with cluster.trial() as trial:
        for placed in pods:
            trial.place(placed)
        return status_on(evaluation, row, only_pods_moved=only_pods_moved)


def only_resources_decide(evaluation: PodEvaluation) -> bool:
    """Return whether every filter depends only on the node or on its resources. Valid after filtering."""
    if evaluation.only_resources is None:
        alone = evaluation.refusal is None and all(slot.reads_only_resources for slot in evaluation.filters)
        evaluation.only_resources = alone
    return evaluation.only_resources
