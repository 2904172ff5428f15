"""Reserve room for nominated pods: a pod must also fit beside the pods that are nominated for a node.

Called by ``evaluation.py`` for the feasible nodes, and by ``preemption.py``. If the verdicts depend on resources alone,
all nodes are evaluated together with the amounts that the nominated pods will use. Otherwise nodes are evaluated one by
one, with the nominated pods placed in a trial.
"""

import numpy as np
from numpy.typing import NDArray

from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.resources import ResourceColumns
from mooring.scheduler.deciding.pod_evaluation import (
    Overruled,
    PodEvaluation,
    only_resources_decide,
    status_with,
)
from mooring.scheduler.framework import Status
from mooring.scheduler.framework.nominations import Expected


def leave_room(evaluation: PodEvaluation, cluster: Cluster, expected: Expected) -> None:
    """Reject the node rows where the pod would not fit beside the nominated pods."""
    rows = (evaluation.feasible & expected.is_on).nonzero()[0]
    if not len(rows):
        return
    if only_resources_decide(evaluation) and nominated_pods_only_use(evaluation, cluster, expected):
        evaluation.overruled = _evaluate_together(evaluation, cluster.resources, rows, expected)
    else:
        _evaluate_one_by_one(evaluation, cluster, rows, expected)
    if evaluation.overruled:
        evaluation.feasible = evaluation.feasible.copy()
        for _, refused in evaluation.overruled:
            evaluation.feasible[refused] = False
            evaluation.number_feasible -= len(refused)


def _evaluate_together(
    evaluation: PodEvaluation, resources: ResourceColumns, rows: NDArray[np.intp], expected: Expected
) -> Overruled:
    found: list[tuple[Status, NDArray[np.intp]]] = []
    for vector in evaluation.filters:
        if vector.reads_only_node or not len(rows):
            continue
        allocatable = resources.allocatable.take(rows, axis=1)
        used = resources.used.take(rows, axis=1) + expected.usage.take(rows, axis=1)
        ok = vector.fits_with(rows, allocatable, used)
        if ok is None or ok.all():
            continue
        refused = rows[~ok]
        statuses = vector.refusals_with(refused, allocatable[:, ~ok], used[:, ~ok])
        found += [(status, refused[indexes]) for status, indexes in statuses]
        rows = rows[ok]
    return found


def nominated_pods_only_use(evaluation: PodEvaluation, cluster: Cluster, expected: Expected) -> bool:
    """Return whether the nominated pods, once placed, change only resource usage: no other filter is affected."""
    if evaluation.nominated_pods_only_use is None:
        evaluation.nominated_pods_only_use = _changes_nothing_else(evaluation, cluster, expected)
    return evaluation.nominated_pods_only_use


def _changes_nothing_else(evaluation: PodEvaluation, cluster: Cluster, expected: Expected) -> bool:
    silent = [
        slot for slot in evaluation.filters if slot.status.is_skip and slot.may_apply_after(expected.signatures())
    ]
    for row, pods in expected.sorts() if silent else ():
        with cluster.trial() as trial:
            for placed in pods:
                trial.place(placed)
            if any(slot.verdicts(np.array([row], np.intp)) is not None for slot in silent):
                return False
    return True


def _evaluate_one_by_one(
    evaluation: PodEvaluation, cluster: Cluster, rows: NDArray[np.intp], expected: Expected
) -> None:
    refused: dict[Status, list[int]] = {}
    for row in rows.tolist():
        status = status_with(evaluation, cluster, row, expected.on(row))
        if not status.is_success:
            refused.setdefault(status, []).append(row)
    evaluation.overruled = [(status, np.array(found, np.intp)) for status, found in refused.items()]
