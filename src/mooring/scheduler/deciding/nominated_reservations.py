"""Reserve room for nominated pods: a pod must also fit beside the pods that are nominated for a node.

Called by ``evaluation.py`` for the feasible nodes, and by ``preemption.py``. If the verdicts depend on resources alone,
all nodes are evaluated together with the amounts that the nominated pods will use, and the result is cached by
signature. Otherwise nodes are evaluated one by one, with the nominated pods placed in a trial.
"""

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from mooring.constraints.columns.revisions import NO_ROWS
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.deciding.pod_evaluation import (
    Overruled,
    PodEvaluation,
    likeness_on,
    only_resources_decide,
    status_with,
)
from mooring.scheduler.deciding.row_cache import RowCache
from mooring.scheduler.framework import SUCCESS, Codes, Status
from mooring.scheduler.framework.nominations import Expected
from mooring.scheduler.framework.verdicts import counted


class NominatedReservations:
    """Cached rejections of pods of one signature because of nominated pods, where resources alone decide."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rows = RowCache(cluster)
        self._codes: Codes = np.zeros(cluster.capacity, np.int32)
        self._statuses: list[Status] = [SUCCESS]
        self._last: tuple[NDArray[np.intp], Overruled] = NO_ROWS, ()

    def overruled(self, evaluation: PodEvaluation, rows: NDArray[np.intp], expected: Expected) -> Overruled:
        """Return the rejections among some rows, each with its rows; the object is replaced only when they change."""
        self._rows.refresh(expected)
        missing = rows[~self._rows.known[rows]]
        if len(missing):
            self._evaluate(evaluation, missing, expected)
            self._rows.learn(missing)
        elif np.array_equal(rows, self._last[0]):
            return self._last[1]
        codes = self._codes[rows]
        found = [(self._statuses[code], rows[codes == code]) for code, _ in counted(codes) if code]
        self._last = rows, found
        return found

    def _evaluate(self, evaluation: PodEvaluation, rows: NDArray[np.intp], expected: Expected) -> None:
        resources = self._cluster.resources
        self._codes[rows] = 0
        for slot in evaluation.filters:
            if slot.reads_only_node or not len(rows):
                continue
            allocatable = resources.allocatable.take(rows, axis=1)
            used = resources.used.take(rows, axis=1) + expected.usage.take(rows, axis=1)
            ok = slot.fits_with(rows, allocatable, used)
            if ok is None or ok.all():
                continue
            refused = rows
            if ok.any():
                refused, allocatable, used = rows[~ok], allocatable[:, ~ok], used[:, ~ok]
            for status, places in slot.refusals_with(refused, allocatable, used):
                self._codes[refused[places]] = self._number(status)
            rows = rows[ok]

    def _number(self, status: Status) -> int:
        if status not in self._statuses:
            self._statuses.append(status)
        return self._statuses.index(status)


def leave_room(evaluation: PodEvaluation, cluster: Cluster, expected: Expected, known: NominatedReservations) -> None:
    """Reject the rows where the pod would not fit beside the nominated pods."""
    rows = (evaluation.feasible & expected.is_on).nonzero()[0]
    if not len(rows):
        return
    if only_resources_decide(evaluation) and promises_only_use(evaluation, cluster, expected):
        evaluation.overruled = known.overruled(evaluation, rows, expected)
    else:
        _evaluate_one_by_one(evaluation, cluster, rows, expected)
    if evaluation.overruled:
        evaluation.feasible = evaluation.feasible.copy()
        for _, refused in evaluation.overruled:
            evaluation.feasible[refused] = False
            evaluation.number_feasible -= len(refused)


def promises_only_use(evaluation: PodEvaluation, cluster: Cluster, expected: Expected) -> bool:
    """Return whether placing the nominated pods would change only resource usage, so that no further filter applies."""
    if evaluation.promises_only_use is None:
        evaluation.promises_only_use = _changes_nothing_else(evaluation, cluster, expected)
    return evaluation.promises_only_use


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
    known: dict[Hashable, Status] = {}
    refused: dict[Status, list[int]] = {}
    for row in rows.tolist():
        pods = expected.on(row)
        likeness = likeness_on(evaluation, cluster, row, pods)
        status = known.get(likeness) or status_with(evaluation, cluster, row, pods)
        if likeness is not None:
            known[likeness] = status
        if not status.is_success:
            refused.setdefault(status, []).append(row)
    evaluation.overruled = [(status, np.array(found, np.intp)) for status, found in refused.items()]
