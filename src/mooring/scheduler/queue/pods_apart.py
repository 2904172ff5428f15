"""The unschedulable pool. Pods that would get the same hint stand together, so that an event asks once for all of them.

A thousand replicas that do not fit are one crowd: a change of a node costs one question, not a thousand.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from mooring.scheduler.queue.hints import Hints
from mooring.scheduler.queue.queued_pod import QueuedPod


@dataclass(slots=True)
class Crowd:
    """Pods by key; they have the same hints, so any of them speaks for all."""

    pods: dict[str, QueuedPod] = field(default_factory=dict)

    @property
    def speaker(self) -> QueuedPod:
        return next(iter(self.pods.values()))


class PodsApart:
    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self._crowds: dict[Hashable, Crowd] = {}
        self._where: dict[str, Hashable] = {}
        self.gated = 0
        """How many of them a plugin does not let become active."""

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, key: str) -> bool:
        return key in self._where

    def __iter__(self) -> Iterator[QueuedPod]:
        return (queued for crowd in self._crowds.values() for queued in crowd.pods.values())

    def get(self, key: str) -> QueuedPod | None:
        where = self._where.get(key)
        return None if where is None else self._crowds[where].pods[key]

    def put(self, queued: QueuedPod) -> None:
        key = queued.key
        where: Hashable = key
        if not queued.gated_by and self._hints.shared(queued):
            where = (queued.profile, queued.shape, queued.refused_by, queued.waits_for)
        self._where[key] = where
        self._crowds.setdefault(where, Crowd()).pods[key] = queued
        self.gated += bool(queued.gated_by)

    def take(self, key: str) -> QueuedPod | None:
        where = self._where.pop(key, None)
        if where is None:
            return None
        crowd = self._crowds[where]
        queued = crowd.pods.pop(key)
        if not crowd.pods:
            del self._crowds[where]
        self.gated -= bool(queued.gated_by)
        return queued

    def crowds(self) -> list[Crowd]:
        """All crowds, in a list of its own: who asks usually takes some of them away."""
        return list(self._crowds.values())
