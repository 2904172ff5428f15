"""Score nodes by storage utilisation.

Utilisation is that of the matched volumes or, if volumes would be provisioned, of the capacity that drivers report.
Requests and capacities are added up by StorageClass. Each class is scored by a piecewise linear function of its
utilisation; a node gets the mean of its classes. Called by ``plugins/volume_binding.py``.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.api.quantity import Quantity
from mooring.scheduler.framework import Scores
from mooring.scheduler.volumes.claims import STORAGE, class_of
from mooring.scheduler.volumes.matching import NONE, Choice
from mooring.scheduler.volumes.provisioning import UNKNOWN, Provision

_ZERO = Quantity(0)


_Utilisation = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]
"""By node row: requested amounts, available amounts, and whether the row has any."""


def score_by_utilisation(
    by_percent: Sequence[int], choices: Sequence[Choice], provisions: Sequence[Provision], capacity: int
) -> Scores:
    """Return the scores of all node rows, given the score for each percentage of utilisation."""
    has_static = np.zeros(capacity, np.bool_)
    for choice in choices:
        has_static |= choice.by_row != NONE
    points = np.array(by_percent, np.int64)
    static = _mean_score(points, _sum_matched(choices, capacity), capacity)
    return np.where(has_static, static, _mean_score(points, _sum_provisioned(provisions, capacity), capacity))


def _mean_score(points: NDArray[np.int64], classes: Mapping[str, _Utilisation], capacity: int) -> Scores:
    total, number = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
    for requested, available, there in classes.values():
        full = (available == 0) | (requested > available)
        percent = np.where(full, 100, requested * 100 // np.maximum(available, 1))
        total += np.where(there, points[percent], 0)
        number += there
    mean: Scores = np.floor(total / np.maximum(number, 1) + 0.5).astype(np.int64)
    return mean


def _no_utilisation(capacity: int) -> _Utilisation:
    return np.zeros(capacity, np.int64), np.zeros(capacity, np.int64), np.zeros(capacity, np.bool_)


def _sum_matched(choices: Sequence[Choice], capacity: int) -> Mapping[str, _Utilisation]:
    classes: dict[str, _Utilisation] = defaultdict(lambda: _no_utilisation(capacity))
    for choice in choices:
        if not choice.groups:
            continue
        requested, available, there = classes[class_of(choice.claim)]
        sizes = np.array([group.key.size.value() for group in choice.groups], np.int64)
        rows = choice.by_row != NONE
        requested[rows] += choice.claim.spec.resources.requests.get(STORAGE, _ZERO).value()
        available[rows] += sizes[choice.by_row[rows]]
        there |= rows
    return classes


def _sum_provisioned(provisions: Sequence[Provision], capacity: int) -> Mapping[str, _Utilisation]:
    classes: dict[str, _Utilisation] = defaultdict(lambda: _no_utilisation(capacity))
    for entry in provisions:
        requested, available, there = classes[class_of(entry.claim)]
        rows = entry.rows & (entry.capacity != UNKNOWN)
        requested[rows] += entry.claim.spec.resources.requests.get(STORAGE, _ZERO).value()
        available[rows] = entry.capacity[rows]  # claims of a class draw from the same
        there |= rows
    return classes
