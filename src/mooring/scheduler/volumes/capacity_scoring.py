"""Score nodes by storage utilisation.

Utilisation is that of the matched volumes or, if volumes would be provisioned, of the capacity that drivers report.
Requests and capacities are added up by StorageClass. Each class is scored by a piecewise linear function of its
utilisation; a node gets the mean of its classes. Called by ``plugins/volume_binding.py``.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.api.quantity import Quantity
from mooring.scheduler.framework import Scores
from mooring.scheduler.volumes.claims import STORAGE, class_of
from mooring.scheduler.volumes.matching import NONE, Choice
from mooring.scheduler.volumes.provisioning import UNKNOWN, Provision

_ZERO = Quantity(0)


class CapacityScore:
    def __init__(self, by_percent: Sequence[int]) -> None:
        self._by_percent = np.array(by_percent, np.int64)

    def points(self, choices: Sequence[Choice], provisions: Sequence[Provision], capacity: int) -> Scores:
        has_static = np.zeros(capacity, np.bool_)
        for choice in choices:
            has_static |= choice.by_row != NONE
        static = self._mean(_find_classes(choices, capacity), capacity)
        return np.where(has_static, static, self._mean(_made(provisions, capacity), capacity))

    def _mean(self, classes: "_Classes", capacity: int) -> Scores:
        total, number = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
        for requested, available, there in classes.values():
            full = (available == 0) | (requested > available)
            percent = np.where(full, 100, requested * 100 // np.maximum(available, 1))
            total += np.where(there, self._by_percent[percent], 0)
            number += there
        mean: Scores = np.floor(total / np.maximum(number, 1) + 0.5).astype(np.int64)
        return mean


_Classes = dict[str, tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]]
"""Requested amounts, capacities and node rows, by StorageClass."""


def _entry(
    classes: _Classes, name: str, capacity: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    if name not in classes:
        numbers = np.zeros((2, capacity), np.int64)
        classes[name] = (numbers[0], numbers[1], np.zeros(capacity, np.bool_))
    return classes[name]


def _find_classes(choices: Sequence[Choice], capacity: int) -> _Classes:
    classes: _Classes = {}
    for choice in choices:
        if not choice.groups:
            continue
        requested, available, there = _entry(classes, class_of(choice.claim), capacity)
        sizes = np.array([group.key.size.value() for group in choice.groups], np.int64)
        rows = choice.by_row != NONE
        requested[rows] += choice.claim.spec.resources.requests.get(STORAGE, _ZERO).value()
        available[rows] += sizes[choice.by_row[rows]]
        there |= rows
    return classes


def _made(provisions: Sequence[Provision], capacity: int) -> _Classes:
    classes: _Classes = {}
    for entry in provisions:
        requested, available, there = _entry(classes, class_of(entry.claim), capacity)
        rows = entry.rows & (entry.capacity != UNKNOWN)
        requested[rows] += entry.claim.spec.resources.requests.get(STORAGE, _ZERO).value()
        available[rows] = entry.capacity[rows]  # claims of a class draw from the same
        there |= rows
    return classes
