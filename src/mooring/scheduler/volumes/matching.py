"""Choose an existing PersistentVolume for each unbound claim of a pod, on every node.

A claim gets the smallest volume that is large enough, of its class, with its modes and labels, and usable on the node.
Smaller claims choose first, and no volume is chosen twice. A claim with a reserved volume gets this one or none. The
choice is made for all rows at once: groups of volumes (``stock.py``) are written into an array from the largest to the
smallest, so that the smallest suitable one remains.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api import label_selector
from mooring.api.core_v1 import ObjectReference, PersistentVolume, PersistentVolumeClaim
from mooring.api.quantity import Quantity
from mooring.scheduler.volumes.claims import STORAGE, class_of
from mooring.scheduler.volumes.reach import Reach
from mooring.scheduler.volumes.stock import FILESYSTEM, Group, Stock, group_key

NONE = -1
_ZERO = Quantity(0)


class Choice(msgspec.Struct, frozen=True):
    """The groups of volumes that suit a claim, and for each node row the index of the chosen group, or `NONE`."""

    claim: PersistentVolumeClaim
    groups: Sequence[Group]
    by_row: NDArray[np.int32]

    def rows_taking(self, group: Group) -> NDArray[np.bool_] | None:
        """Return the node rows on which the claim takes a volume of a group; None if the group does not suit it."""
        index = next((index for index, own in enumerate(self.groups) if own.key == group.key), None)
        return None if index is None else self.by_row == index


def match_claims(claims: Sequence[PersistentVolumeClaim], stock: Stock, reach: Reach, capacity: int) -> list[Choice]:
    """Return for each claim, the smallest first, the group of volumes from which it would get one, on each node.

    No volume is given to two claims on the same node.
    """
    choices: list[Choice] = []
    for claim in sorted(claims, key=_requested_size):
        groups = _suitable_groups(claim, stock, reach, capacity)
        by_row = np.full(capacity, NONE, np.int32)
        for index in range(len(groups) - 1, -1, -1):
            left = groups[index].counts
            for earlier in choices:
                taken = earlier.rows_taking(groups[index])
                if taken is not None:
                    left = left - taken
            by_row[left > 0] = index
        choices.append(Choice(claim, groups, by_row))
    return choices


def matched_volumes_on(choices: Sequence[Choice], row: int) -> list[tuple[PersistentVolume, PersistentVolumeClaim]]:
    """Return the single volumes that the claims get on the node of a row, with the claims."""
    found: list[tuple[PersistentVolume, PersistentVolumeClaim]] = []
    taken: set[str] = set()
    for choice in choices:
        index = int(choice.by_row[row])
        volumes = choice.groups[index].volumes_on(row) if index != NONE else iter(())
        volume = next((volume for volume in volumes if volume.metadata.name not in taken), None)
        if volume is not None:
            taken.add(volume.metadata.name)
            found.append((volume, choice.claim))
    return found


def _suitable_groups(claim: PersistentVolumeClaim, stock: Stock, reach: Reach, capacity: int) -> Sequence[Group]:
    for volume in stock.reserved_for(claim):
        own = volume.spec.claim_ref
        key = group_key(volume)._replace(access_modes=frozenset())  # no other group has this key
        fits = key.size >= _requested_size(claim) and key[3:] == _modes_of(claim) and key.class_name == class_of(claim)
        if own is not None and is_reserved_for(own, claim) and fits:
            group = Group(key, capacity)
            group.add(volume, reach.rows(volume))
            return [group]
    wanted, modes, access = _requested_size(claim), _modes_of(claim), frozenset(claim.spec.access_modes)
    found = [
        group
        for group in stock.groups(class_of(claim))
        if group.key.size >= wanted and group.key[3:] == modes and access <= group.key.access_modes
    ]
    if claim.spec.selector is None:
        return found
    selector = label_selector.from_label_selector(claim.spec.selector)
    return [group.select_volumes(selector) for group in found]


def is_reserved_for(reference: ObjectReference, claim: PersistentVolumeClaim) -> bool:
    """Return whether the `claimRef` of a volume refers to this claim."""
    metadata = claim.metadata
    same_name = (reference.name, reference.namespace) == (metadata.name, metadata.namespace)
    return same_name and reference.uid in ("", metadata.uid)


def _modes_of(claim: PersistentVolumeClaim) -> tuple[str, str]:
    return claim.spec.volume_mode or FILESYSTEM, claim.spec.volume_attributes_class_name or ""


def _requested_size(claim: PersistentVolumeClaim) -> Quantity:
    return claim.spec.resources.requests.get(STORAGE, _ZERO)
