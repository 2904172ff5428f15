"""What the plugins say about one pod and all nodes, and ways to ask what they would say if other pods were there.

Made by ``evaluation.py``; read by ``engine.py``, ``diagnosis.py`` and all who look for victims.
"""

from collections.abc import Hashable, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.scheduler.columns.cluster import Cluster, PlacedPod
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.deciding.filter_vectors import FilterVector
from mooring.scheduler.deciding.grouped_rows import GroupedRows
from mooring.scheduler.deciding.score_totals import BestRows
from mooring.scheduler.deciding.score_vectors import ScoreVector
from mooring.scheduler.framework import SUCCESS, CycleState, Mask, Scores, Status
from mooring.scheduler.framework.nominations import domains_of
from mooring.scheduler.framework.verdicts import status_of

_NO_MASK: Mask = np.empty(0, np.bool_)
Overruled: TypeAlias = Sequence[tuple[Status, NDArray[np.intp]]]
"""Rows that would do, were it not for pods that are expected there; each once."""


class PodEvaluation(msgspec.Struct, eq=False):
    """What the plugins say about one pod and all nodes. Arrays are by row and good until the cluster changes."""

    pod: PodInfo
    cycle: CycleState = msgspec.field(default_factory=CycleState)
    filters: list[FilterVector] = []
    refusal: Status | None = None
    """From a `pre_filter` that rules out all nodes; or an error."""
    reached: str = "PreFilter"
    """The last extension point that had something to do: a refusal is its."""
    considered: Mask = _NO_MASK
    """The nodes that were looked at: all, or those that a `pre_filter` named."""
    naming: tuple[str, ...] = ()
    """The plugins that named nodes."""
    number_considered: int = 0
    feasible: Mask = _NO_MASK
    number_feasible: int = 0
    overruled: Overruled = ()
    only_resources: bool | None = None
    """Whether resources alone decide, see `only_resources_decide`; None when nobody has looked yet."""
    promises_only_use: bool | None = None
    """Whether pods that are expected make no difference but by what they use; None when nobody has looked yet."""
    is_shared_by_template: bool = True
    """Whether the filters would say the same about the next pod of the signature."""
    asked: list[tuple[str, int, int, int]] = []
    """By Filter plugin: how many nodes it was asked about, and how many it refused for now and for good."""
    scores: list[ScoreVector] = []
    points: dict[str, Scores] = {}
    """By Score plugin, the weighted scores by row, if the caller needs them."""
    best: BestRows | GroupedRows | None = None

    @property
    def is_shared(self) -> bool:
        """Whether the next pod of the signature would find the same nodes feasible."""
        return self.is_shared_by_template and not self.overruled


def status_on(evaluation: PodEvaluation, row: int, *, only_pods_moved: bool = False) -> Status:
    """What the filters say about one row as the cluster is now, whatever they said before.

    When `only_pods_moved` since they let it pass, those that look at nothing but the node are not asked again.
    """
    rows = np.array([row], np.intp)
    for slot in evaluation.filters:
        if only_pods_moved and slot.reads_only_node:
            continue
        verdicts = slot.verdicts(rows)
        if isinstance(verdicts, Status):
            return verdicts.by(slot.name)
        if verdicts is not None and verdicts.codes[0]:
            return status_of(int(verdicts.codes[0]), verdicts.reasons, slot.name)
    return SUCCESS


def status_with(
    evaluation: PodEvaluation, cluster: Cluster, row: int, pods: Sequence[PlacedPod], *, only_pods_moved: bool = True
) -> Status:
    """As `status_on`, if some pods had come to the row."""
    if not pods:
        return SUCCESS
    with cluster.trial() as trial:
        for placed in pods:
            trial.place(placed)
        return status_on(evaluation, row, only_pods_moved=only_pods_moved)


def likeness_on(evaluation: PodEvaluation, cluster: Cluster, row: int, moved: Sequence[PlacedPod]) -> Hashable | None:
    """Equal for rows about which `status_on` says the same, also when such pods as `moved` come or go there.

    None when nobody knows.
    """
    seen = tuple(slot.row_state(row) for slot in evaluation.filters)
    if None in seen:
        return None
    return seen, tuple((placed.signature, placed.group) for placed in moved), domains_of(cluster, row, moved)


def only_resources_decide(evaluation: PodEvaluation) -> bool:
    """Whether every filter sees nothing but the node, or nothing but its resources. Asked once all have been asked."""
    if evaluation.only_resources is None:
        alone = evaluation.refusal is None and all(slot.reads_only_resources for slot in evaluation.filters)
        evaluation.only_resources = alone
    return evaluation.only_resources
