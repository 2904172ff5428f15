"""Index the unbound PersistentVolumes in groups of interchangeable ones, updated as volumes change.

Volumes of a group have the same class, size and modes, so a claim can use any of them or none. For each node row, a
group counts the volumes that can be used there, which is enough for filtering; a single volume is chosen only on the
node that the pod gets. Called by ``matching.py``.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim
from mooring.api.label_selector import Selector
from mooring.api.quantity import Quantity
from mooring.constraints.columns.revisions import NEVER
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.framework import Rows
from mooring.scheduler.volumes.assumed import Assumed
from mooring.scheduler.volumes.claims import STORAGE, class_of
from mooring.scheduler.volumes.reach import Reach

_ZERO = Quantity(0)
FILESYSTEM = "Filesystem"
_FEW = 8
"""Volumes that at most this number of nodes can use are indexed by node row."""


class GroupKey(NamedTuple):
    class_name: str
    size: Quantity
    access_modes: frozenset[str]
    volume_mode: str
    attributes_class: str


def group_key(volume: PersistentVolume) -> GroupKey:
    """Return the properties by which volumes are grouped."""
    spec = volume.spec
    return GroupKey(
        class_of(volume),
        spec.capacity.get(STORAGE, _ZERO),
        frozenset(spec.access_modes),
        spec.volume_mode or FILESYSTEM,
        spec.volume_attributes_class_name or "",
    )


class Group:
    """Unbound volumes with the same class, size and modes, and how many of them each node can use."""

    def __init__(self, key: GroupKey, capacity: int) -> None:
        self.key = key
        self.counts: NDArray[np.int32] = np.zeros(capacity, np.int32)
        """By node row, how many volumes of the group can be used there."""
        self.volumes: dict[str, tuple[PersistentVolume, Rows]] = {}
        self._local: dict[int, set[str]] = {}
        self._wide: set[str] = set()

    def add(self, volume: PersistentVolume, rows: Rows) -> None:
        name = volume.metadata.name
        self.volumes[name] = (volume, rows)
        self.counts[rows] += 1
        if isinstance(rows, slice) or len(rows) > _FEW:
            self._wide.add(name)
        else:
            for row in rows.tolist():
                self._local.setdefault(row, set()).add(name)

    def remove(self, name: str) -> None:
        _, rows = self.volumes.pop(name)
        self.counts[rows] -= 1
        if name in self._wide:
            self._wide.discard(name)
        elif not isinstance(rows, slice):
            for row in rows.tolist():
                self._local[row].discard(name)

    def volumes_on(self, row: int) -> Iterator[PersistentVolume]:
        """Yield the volumes of the group that the node of a row can use, sorted by name."""
        for name in sorted(self._local.get(row, set()) | self._wide):
            volume, rows = self.volumes[name]
            if isinstance(rows, slice) or row in rows:
                yield volume

    def select_volumes(self, selector: Selector) -> "Group":
        """Return a copy of this group of equal volumes with only those that a claim's label selector selects."""
        found = Group(self.key, len(self.counts))
        for volume, rows in self.volumes.values():
            if selector.matches(volume.metadata.labels):
                found.add(volume, rows)
        return found


class Stock:
    """All unbound volumes: in groups by StorageClass, or by the claim for which they are reserved."""

    def __init__(self, cluster: Cluster, volumes: Assumed[PersistentVolume], reach: Reach) -> None:
        self._cluster = cluster
        self._objects = cluster.objects(PersistentVolume)
        self._volumes = volumes
        self._reach = reach
        self._labels = (-1, -1)
        self._verified_at = (NEVER, NEVER)
        self._seen: dict[str, PersistentVolume] = {}
        self._assumed: dict[str, PersistentVolume | None] = {}
        self._group_of: dict[str, Group] = {}
        self._groups: dict[GroupKey, Group] = {}
        self._by_class: dict[str, list[Group]] = {}
        self._reserved: dict[str, dict[str, PersistentVolume]] = {}
        self._claim_of: dict[str, str] = {}

    def groups(self, class_name: str) -> Sequence[Group]:
        """Return the groups of volumes of a StorageClass, the smallest volumes first."""
        self._refresh()
        return self._by_class.get(class_name, ())

    def reserved_for(self, claim: PersistentVolumeClaim) -> Sequence[PersistentVolume]:
        """Return the volumes whose `claimRef` has the namespace and name of a claim, sorted by volume name."""
        self._refresh()
        found = self._reserved.get(f"{claim.metadata.namespace}/{claim.metadata.name}", {})
        return [found[name] for name in sorted(found)]

    def _refresh(self) -> None:
        labels = (self._cluster.labels.changed_at, self._cluster.capacity)
        if labels != self._labels:
            self._labels = labels
            self._verified_at = (NEVER, NEVER)
            self._seen, self._group_of, self._groups, self._by_class = {}, {}, {}, {}
            self._reserved, self._claim_of = {}, {}
        changed_at = (self._cluster.changed_at(PersistentVolume), self._volumes.changed_at)
        if changed_at == self._verified_at:
            return
        changed: set[str] = set()
        if changed_at[0] != self._verified_at[0]:
            changed.update(name for name, volume in self._objects.items() if self._seen.get(name) is not volume)
            changed.update(self._seen.keys() - self._objects.keys())
        self._verified_at = changed_at
        assumed = {name: self._volumes.get(name) for name in self._volumes.names()}
        changed.update(name for name, volume in assumed.items() if self._assumed.get(name) is not volume)
        changed.update(self._assumed.keys() - assumed.keys())
        self._assumed = assumed
        for name in changed:
            self._reclassify(name)

    def _reclassify(self, name: str) -> None:
        self._remove(name)
        current, volume = self._objects.get(name), self._volumes.get(name)
        if current is None or volume is None:
            return
        self._seen[name] = current
        if volume.metadata.deletion_timestamp is not None:
            return
        reference = volume.spec.claim_ref
        if reference is not None:
            claim = self._claim_of[name] = f"{reference.namespace}/{reference.name}"
            self._reserved.setdefault(claim, {})[name] = volume
        elif volume.status.phase == "Available":
            group = self._group_of[name] = self._find_group(group_key(volume))
            group.add(volume, self._reach.rows(volume))

    def _remove(self, name: str) -> None:
        self._seen.pop(name, None)
        group = self._group_of.pop(name, None)
        if group is not None:
            group.remove(name)
        claim = self._claim_of.pop(name, None)
        if claim is not None:
            del self._reserved[claim][name]
            if not self._reserved[claim]:
                del self._reserved[claim]

    def _find_group(self, key: GroupKey) -> Group:
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = Group(key, self._cluster.capacity)
            of_class = self._by_class.setdefault(key.class_name, [])
            of_class.append(found)
            of_class.sort(key=lambda group: group.key.size)
        return found
