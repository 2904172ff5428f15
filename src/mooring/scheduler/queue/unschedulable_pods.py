"""The unschedulable pool. Pods with the same hints form a crowd, so that an event is evaluated once for all of them.

    group    pods that the same plugins of a profile rejected, or that the same plugin gates: an event concerns all of
             them, none, or those that refer to one object
    crowd    pods of a group that always get the same hint

A thousand replicas that do not fit are one crowd: a change of a node costs one evaluation of a hint, not a thousand. A
thousand pods that each wait for a claim of their own are a thousand crowds, but a new claim concerns only the pod that
refers to it.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from mooring.scheduler.queue.hints import Concerned, Hints, RejectionKey
from mooring.scheduler.queue.queued_pod import QueuedPod


@dataclass(slots=True)
class Crowd:
    """Pods by pod key that always get the same queueing hints, so that hints are evaluated for one of them."""

    pods: dict[str, QueuedPod] = field(default_factory=dict)

    @property
    def representative(self) -> QueuedPod:
        return next(iter(self.pods.values()))


@dataclass(slots=True)
class Group:
    """The pods with the same rejecting and gating plugins, in crowds."""

    crowds: dict[Hashable, Crowd] = field(default_factory=dict)
    by_reference: dict[str, set[Hashable]] = field(default_factory=dict)
    """The keys of the crowds whose pods refer to an object, by the object's key."""

    def concerned_crowds(self, concerned: Concerned) -> list[Crowd]:
        """Return the crowds that an event may help, in a new list, because callers remove some of them.

        `concerned` is True for all, False for none, or the key of an object to which pods must refer.
        """
        if concerned is True:
            return list(self.crowds.values())
        if concerned is False:
            return []
        return [self.crowds[where] for where in self.by_reference.get(concerned, ())]


class _PodPosition(NamedTuple):
    """The group and crowd that an unschedulable pod is in, and the keys of objects by which it is indexed."""

    group: RejectionKey
    crowd: Hashable
    references: tuple[str, ...]


class UnschedulablePods:
    """The unschedulable and gated pods: in groups by rejecting plugins, and in these in crowds with equal hints."""

    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self._groups: dict[RejectionKey, Group] = {}
        self._where: dict[str, _PodPosition] = {}
        self.gated = 0
        """The number of pods that a PreEnqueue plugin gates."""

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, key: str) -> bool:
        return key in self._where

    def __iter__(self) -> Iterator[QueuedPod]:
        for group in self._groups.values():
            for crowd in group.crowds.values():
                yield from crowd.pods.values()

    def get(self, key: str) -> QueuedPod | None:
        where = self._where.get(key)
        return None if where is None else self._groups[where.group].crowds[where.crowd].pods[key]

    def put(self, queued: QueuedPod) -> None:
        key = queued.key
        group_key = RejectionKey(queued.profile, queued.refused_by, queued.gated_by, queued.is_held)
        is_shared = not queued.gated_by and self._hints.may_share_hint(queued)
        crowd: Hashable = (queued.template_key, queued.waits_for) if is_shared else key
        references = () if is_shared else self._hints.find_references(queued)
        self._where[key] = _PodPosition(group_key, crowd, references)
        group = self._groups.setdefault(group_key, Group())
        group.crowds.setdefault(crowd, Crowd()).pods[key] = queued
        for reference in references:
            group.by_reference.setdefault(reference, set()).add(crowd)
        self.gated += bool(queued.gated_by)

    def take(self, key: str) -> QueuedPod | None:
        where = self._where.pop(key, None)
        if where is None:
            return None
        group = self._groups[where.group]
        crowd = group.crowds[where.crowd]
        queued = crowd.pods.pop(key)
        if not crowd.pods:
            del group.crowds[where.crowd]
        for reference in where.references:
            group.by_reference[reference].discard(where.crowd)
            if not group.by_reference[reference]:
                del group.by_reference[reference]
        if not group.crowds:
            del self._groups[where.group]
        self.gated -= bool(where.group.gated_by)
        return queued

    def replace(self, key: str, queued: QueuedPod) -> bool:
        """Put another pod into the crowd of the pod `key`, in its position; return False if that is not in the pool."""
        where = self._where.pop(key, None)
        if where is None:
            return False
        crowd = self._groups[where.group].crowds[where.crowd]
        crowd.pods = {each.key: each for each in (queued if kept == key else crowd.pods[kept] for kept in crowd.pods)}
        self._where[queued.key] = where
        return True

    def groups(self) -> list[tuple[RejectionKey, Group]]:
        """Return all groups, in a new list, because callers remove some of them."""
        return list(self._groups.items())
