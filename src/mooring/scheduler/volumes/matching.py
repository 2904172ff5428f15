"""Which existing PersistentVolume each unbound claim of a pod would get on which node.

A claim gets the smallest volume that is large enough, of its class, with its modes and labels, and usable on the node;
smaller claims choose first, and no volume is chosen twice. A volume that is reserved for the claim is taken or nothing.
The choice is made for all rows at once: volumes are written into an array from the largest to the smallest, so that
what stands there at the end is the smallest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mooring.api import label_selector
from mooring.api.core_v1 import ObjectReference, PersistentVolume, PersistentVolumeClaim
from mooring.api.quantity import Quantity
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.framework import Rows
from mooring.scheduler.volumes.assumed import Assumed
from mooring.scheduler.volumes.claims import STORAGE, class_of
from mooring.scheduler.volumes.reach import Reach

NONE = -1
_ZERO = Quantity(0)
_FILESYSTEM = "Filesystem"


@dataclass(slots=True)
class Choice:
    """The volumes that could be a claim's, and for each row the index of the one it would get there, or `NONE`."""

    claim: PersistentVolumeClaim
    volumes: Sequence[PersistentVolume] = ()
    by_row: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    _index_of: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self._index_of = {volume.metadata.name: index for index, volume in enumerate(self.volumes)}

    def on(self, row: int) -> PersistentVolume | None:
        index = int(self.by_row[row])
        return None if index == NONE else self.volumes[index]

    def leaves(self, volume: PersistentVolume, rows: Rows) -> Rows:
        """The rows on which the claim does not take the volume."""
        index = self._index_of.get(volume.metadata.name)
        if index is None:
            return rows
        numbers: NDArray[np.intp] = np.arange(len(self.by_row)) if isinstance(rows, slice) else rows
        left: NDArray[np.intp] = numbers[self.by_row[numbers] != index]
        return left


class VolumesByClass:
    """All PersistentVolumes, as assumed, by StorageClass: the smallest first, then by name."""

    def __init__(self, cluster: Cluster, volumes: Assumed[PersistentVolume]) -> None:
        self._cluster = cluster
        self._volumes = volumes
        self._revision = (-1, -1)
        self._by_class: dict[str, list[PersistentVolume]] = {}

    def of(self, class_name: str) -> Sequence[PersistentVolume]:
        revision = (self._cluster.revision(PersistentVolume), self._volumes.revision)
        if revision != self._revision:
            self._revision = revision
            self._by_class = {}
            for volume in self._volumes:
                self._by_class.setdefault(class_of(volume), []).append(volume)
            for volumes in self._by_class.values():
                volumes.sort(key=_size)
        return self._by_class.get(class_name, ())


def match(
    claims: Sequence[PersistentVolumeClaim], volumes: VolumesByClass, reach: Reach, capacity: int
) -> list[Choice]:
    """A choice for each claim, the smallest claim first."""
    choices: list[Choice] = []
    for claim in sorted(claims, key=_request):
        candidates = _candidates(claim, volumes.of(class_of(claim)))
        by_row = np.full(capacity, NONE, np.int32)
        for index in range(len(candidates) - 1, -1, -1):
            volume = candidates[index]
            rows = reach.rows(volume)
            for earlier in choices:
                rows = earlier.leaves(volume, rows)
            by_row[rows] = index
        choices.append(Choice(claim, candidates, by_row))
    return choices


def _candidates(claim: PersistentVolumeClaim, volumes: Sequence[PersistentVolume]) -> list[PersistentVolume]:
    """The volumes that would do for a claim wherever the pod goes, the smallest first."""
    wanted = _request(claim)
    selector = None if claim.spec.selector is None else label_selector.from_label_selector(claim.spec.selector)
    found: list[PersistentVolume] = []
    for volume in volumes:
        spec = volume.spec
        if spec.claim_ref is not None and not is_reserved_for(spec.claim_ref, claim):
            continue
        if _size(volume) < wanted or not _has_modes(claim, volume) or volume.metadata.deletion_timestamp is not None:
            continue
        if spec.claim_ref is not None:
            return [volume]
        if volume.status.phase != "Available" or not set(claim.spec.access_modes) <= set(spec.access_modes):
            continue
        if selector is None or selector.matches(volume.metadata.labels):
            found.append(volume)
    return found


def is_reserved_for(reference: ObjectReference, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume's reference to a claim means this one."""
    metadata = claim.metadata
    same_name = (reference.name, reference.namespace) == (metadata.name, metadata.namespace)
    return same_name and reference.uid in ("", metadata.uid)


def _has_modes(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether volume mode and attributes class are the same."""
    same_mode = (claim.spec.volume_mode or _FILESYSTEM) == (volume.spec.volume_mode or _FILESYSTEM)
    ours, theirs = claim.spec.volume_attributes_class_name, volume.spec.volume_attributes_class_name
    return same_mode and (ours or "") == (theirs or "")


def _request(claim: PersistentVolumeClaim) -> Quantity:
    return claim.spec.resources.requests.get(STORAGE, _ZERO)


def _size(volume: PersistentVolume) -> Quantity:
    return volume.spec.capacity.get(STORAGE, _ZERO)
