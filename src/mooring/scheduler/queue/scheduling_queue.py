"""The scheduling queue: every pod without a node is in one of three pools, or in flight.

                        rejected, error ┌──────────────┐
    add ──► active ──► pop ──► in flight ─┤  unschedulable ──► an event may help ─┐
              ▲                           └► backoff ◄─────────────────────────────┤
              └──── the backoff is over ────┘                (no backoff left) ────┘─► active

Timings are kube-scheduler's: a backoff of 1 s that doubles up to 10 s; after five minutes at the latest a pod is
retried whatever happened. A requeued pod is placed after the newer pods of its priority, so a flood of unschedulable
pods does not keep others from being tried. Except for `wait`, nothing here waits or does I/O; the clock is a parameter,
and ``running/runtime.py`` calls the two `flush` methods.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import chain
from math import floor
from typing import Any

import msgspec

from mooring.api.core_v1 import Pod
from mooring.base import logs
from mooring.base.clock import Clock
from mooring.scheduler.columns.cluster import pod_key
from mooring.scheduler.framework import ClusterEvent
from mooring.scheduler.framework.profiles import Profile
from mooring.scheduler.queue.heap import Heap
from mooring.scheduler.queue.hints import EVERYTHING, Help, Hints
from mooring.scheduler.queue.in_flight import InFlight
from mooring.scheduler.queue.queued_pod import NO_PLUGINS, QueuedPod
from mooring.scheduler.queue.unschedulable_pods import Crowd, UnschedulablePods

log = logs.get(__name__)

_WINDOW = 1.0
"""Pods whose backoffs end within the same window of this many seconds leave the backoff pool by priority."""


class Pool(StrEnum):
    """A pool of the queue; the values are the labels in kube-scheduler's metrics."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"


class Backoffs(msgspec.Struct, frozen=True):
    """The durations, in seconds, for which pods wait before they are retried."""

    initial: float = 1.0
    maximum: float = 10.0
    unschedulable: float = 300.0
    """The maximum time in the unschedulable pool."""

    def after(self, failures: int) -> float:
        """Return the backoff in seconds after a number of rejections or errors in a row."""
        if failures <= 0:
            return 0.0
        return min(self.maximum, self.initial * 2.0 ** min(failures - 1, 64))


class SchedulingQueue:
    """All pods without a node, in the active, backoff and unschedulable pools or in flight.

    `on_arrival` is called for each pod that enters a pool, with the name of the event that moved it.
    """

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        clock: Clock,
        *,
        backoffs: Backoffs | None = None,
        pop_from_backoff: bool = True,
        on_arrival: Callable[[QueuedPod, Pool, str], None] | None = None,
    ) -> None:
        self._profiles = profiles
        self._clock = clock
        self._backoffs = backoffs or Backoffs()
        self._pop_from_backoff = pop_from_backoff
        self._on_arrival = on_arrival
        self._hints = Hints(profiles.values())
        self._sort_key = next(iter(profiles.values())).queue_sort.sort_key
        self._active = Heap()
        self._backoff = Heap()
        self._error_backoff = Heap()
        self._unschedulable = UnschedulablePods(self._hints)
        self._pools = (self._unschedulable, self._backoff, self._error_backoff, self._active)
        self._in_flight = InFlight()
        self._held: dict[str, str] = {}
        self._last_victims: dict[str, str] = {}
        self._held_until: dict[str, dict[str, None]] = {}
        self._ready = asyncio.Event()

    def counts(self) -> dict[Pool, int]:
        return {
            Pool.ACTIVE: len(self._active),
            Pool.BACKOFF: len(self._backoff) + len(self._error_backoff),
            Pool.UNSCHEDULABLE: len(self._unschedulable) - self._unschedulable.gated,
            Pool.GATED: self._unschedulable.gated,
        }

    @property
    def has_unschedulable(self) -> bool:
        """Return whether any pod is in the unschedulable pool."""
        return bool(self._unschedulable)

    def find(self, key: str) -> QueuedPod | None:
        """Return the queue entry of a pod in any pool or in flight; None for another pod."""
        waiting = self._active.get(key) or self._unschedulable.get(key) or self._in_flight.get(key)
        return waiting or self._backoff.get(key) or self._error_backoff.get(key)

    def rejecting_plugins(self) -> Iterable[tuple[str, str]]:
        """Yield plugin and profile for every waiting pod and each plugin that rejected it, for metrics."""
        for queued in self.waiting():
            for plugin in queued.refused_by:
                yield plugin, queued.profile

    def waiting(self) -> Iterator[QueuedPod]:
        """Yield the pods of all pools; not those in flight."""
        return chain.from_iterable(self._pools)

    def sort_key_of(self, queued: QueuedPod) -> tuple[Any, ...]:
        """Return the sort key of a pod in the active pool; the pod with the lowest one is popped first."""
        return self._sort_key(queued.pod, queued.queued_at)

    def backoff_of(self, queued: QueuedPod) -> float:
        """Return the minimum time in seconds that a pod waits before it is retried."""
        return self._backoffs.after(queued.errors or queued.refusals)

    def waits_in_crowd(self, queued: QueuedPod) -> bool:
        """Return whether a pod is unschedulable and always gets the same queueing hint as pods from its template."""
        key = queued.key
        return self._unschedulable.get(key) is queued and not queued.gated_by and self._hints.may_share_hint(queued)

    def add(self, pod: Pod) -> None:
        """Add a new pod without a node to the active pool, or to the unschedulable one if a plugin gates it."""
        if self.find(pod_key(pod)) is not None:
            self.update(pod, pod)
            return
        queued = QueuedPod(pod, pod.spec.scheduler_name, self._clock.monotonic())
        self._activate(queued, "PodAdd")

    def update(self, old: Pod, new: Pod, events: Iterable[ClusterEvent] = ()) -> None:
        """Replace a queued pod by its new version, and wake it if one of `events`, its relevant changes, may help."""
        key = pod_key(new)
        flying = self._in_flight.get(key)
        if flying is not None:
            flying.pod = new
            for event in events:
                self._in_flight.record_event(event, old, new, only=key)
            return
        waiting = self._active.take(key)
        if waiting is not None:
            waiting.pod = new
            self._put_active(waiting)
            return
        backing_off = self._backoff.get(key) or self._error_backoff.get(key)
        if backing_off is not None:
            backing_off.pod = new
            return
        queued = self._unschedulable.get(key)
        if queued is None:
            self.add(new)
            return
        queued.pod = new
        for event in events:
            help_ = self._hints.help_for(queued, event, old, new)
            if help_ is not Help.NONE:
                self._unschedulable.take(key)
                self._leave_unschedulable(queued, help_, "PodUpdate")
                return
        self._unschedulable.take(key)
        self._unschedulable.put(queued)  # it may refer to other objects now

    def delete(self, pod: Pod) -> None:
        """Remove a pod that was deleted or has a node from its pool. One in flight stays until `forget_in_flight`."""
        key = pod_key(pod)
        self._forget_hold(key)
        for pool in self._pools:
            pool.take(key)

    # -- pods for which others stand in the queue: see ``advisor/simulate/identical_pending_pods.py``

    def put_first(self, queued: QueuedPod) -> None:
        """Put a pod into the active pool, before all pods with the same sort key."""
        self._active.put(queued, self.sort_key_of(queued), before_equals=True)
        self._ready.set()

    def replace(self, key: str, queued: QueuedPod) -> None:
        """Replace a waiting pod by another pod from the same template, at the same position."""
        for pool in self._pools:
            pool.replace(key, queued)

    async def wait(self) -> None:
        """Wait until a pod can be popped."""
        if not self._active and not (self._pop_from_backoff and self._backoff):
            self._ready.clear()
            await self._ready.wait()

    def pop(self) -> QueuedPod | None:
        """Return the next pod, or None; it is in flight until `forget_in_flight`, `requeue` or `retry` is called.

        If the active pool is empty, pods in backoff after a rejection are popped early (unless `pop_from_backoff` is
        False); pods in backoff after an error are not.
        """
        queued = self._active.pop()
        if queued is None and self._pop_from_backoff:
            queued = self._backoff.pop()
        if queued is None:
            return None
        queued.attempts += 1
        queued.refused_by = queued.waits_for = NO_PLUGINS
        if queued.first_tried_at is None:
            queued.first_tried_at = self._clock.monotonic()
        self._in_flight.begin(queued)
        return queued

    def forget_in_flight(self, key: str) -> None:
        """End the flight of a pod that is bound or deleted or can no longer be rejected, without putting it back."""
        self._in_flight.end(key)

    def requeue(self, queued: QueuedPod, refused_by: frozenset[str], waits_for: frozenset[str] = NO_PLUGINS) -> None:
        """Put back a rejected pod: it waits for an event that may help, unless one has occurred since it was popped."""
        queued.refused_by, queued.waits_for = refused_by | waits_for, waits_for
        queued.refusals += 1
        queued.errors = 0
        queued.queued_at = self._clock.monotonic()
        missed = self._check_missed_events(queued)
        self._in_flight.end(queued.key)
        if missed is Help.NONE:
            self._put_unschedulable(queued, "ScheduleAttemptFailure")
        else:
            self._leave_unschedulable(queued, missed, "ScheduleAttemptFailure")

    def retry(self, queued: QueuedPod) -> None:
        """Put back a pod after an internal error that it did not cause; it is tried again after a backoff."""
        queued.refused_by = queued.waits_for = NO_PLUGINS
        queued.errors += 1
        queued.queued_at = self._clock.monotonic()
        self._in_flight.end(queued.key)
        self._leave_unschedulable(queued, Help.AFTER_BACKOFF, "ScheduleAttemptFailure")

    def move(self, event: ClusterEvent, old: Any = None, new: Any = None, label: str = "", but: str = "") -> int:
        """Move the unschedulable pods that an event may help to the active or backoff pool; return the number of pods.

        `but` is the key of a pod in flight that caused the event itself, so that the event does not concern it.
        """
        self._in_flight.record_event(event, old, new, but=but)
        woken = 0
        for key, group in self._unschedulable.groups():
            for crowd in group.concerned_crowds(self._hints.find_concerned(key, event, old, new)):
                help_ = self._hints.help_for(crowd.representative, event, old, new)
                if help_ is not Help.NONE:
                    woken += self._wake_crowd(crowd, help_, label or f"{event.kind.value}{_action_label(event)}")
        return woken

    def _wake_crowd(self, crowd: Crowd, help_: Help, label: str) -> int:
        keys = list(crowd.pods)
        for key in keys:
            queued = self._unschedulable.take(key)
            if queued is not None:
                self._leave_unschedulable(queued, help_, label)
        return len(keys)

    def hold(self, key: str, plugin: str) -> None:
        """Keep a preempting pod out of the active pool while its victims are being deleted."""
        self._forget_hold(key)
        self._held[key] = plugin

    def hold_until(self, key: str, victim: str) -> None:
        """Hold a preempting pod until its last victim is terminating; the other victims are deleted already."""
        if key in self._held:
            self._last_victims[key] = victim
            self._held_until.setdefault(victim, {})[key] = None

    def note_victim_terminating(self, victim: str) -> None:
        """Release the preempting pods that are held until `victim` is terminating, so that its deletion wakes them."""
        for key in list(self._held_until.get(victim, ())):
            self.release(key)

    def release(self, key: str, *, wake: bool = False) -> None:
        """Stop holding a preempting pod. A victim's deletion will wake it; `wake` it now if none will follow."""
        self._forget_hold(key)
        queued = self._unschedulable.take(key)
        if queued is None:
            return
        if queued.is_held:
            queued.gated_by, queued.is_held = "", False
        if wake:
            self._leave_unschedulable(queued, Help.AT_ONCE, "ForceActivate")
        else:
            self._unschedulable.put(queued)

    def _forget_hold(self, key: str) -> None:
        self._held.pop(key, None)
        victim = self._last_victims.pop(key, "")
        waiting = self._held_until.get(victim)
        if waiting is not None:
            waiting.pop(key, None)
            if not waiting:
                del self._held_until[victim]

    def flush_backoff(self) -> None:
        """Move the pods whose backoff is over to the active pool. Called once a second."""
        now = floor(self._clock.monotonic() / _WINDOW)
        for pool in (self._error_backoff, self._backoff):
            while (first := pool.first()) is not None and first[0][0] <= now:
                pool.pop()
                self._activate(first[1], "BackoffComplete")

    def flush_unschedulable(self) -> None:
        """Retry pods that have been unschedulable for too long, in case a hint was wrong. Called every 30 seconds."""
        limit = self._clock.monotonic() - self._backoffs.unschedulable
        for queued in [each for each in self._unschedulable if each.queued_at < limit and not each.gated_by]:
            self._unschedulable.take(queued.key)
            self._leave_unschedulable(queued, Help.AFTER_BACKOFF, "UnschedulableTimeout")

    def _check_missed_events(self, queued: QueuedPod) -> Help:
        if queued.key not in self._in_flight:
            return Help.AFTER_BACKOFF
        missed = self._in_flight.events_for(queued.key)
        found = [self._hints.help_for(queued, each.event, each.old, each.new) for each in missed]
        return next((help_ for help_ in (Help.AT_ONCE, Help.AFTER_BACKOFF) if help_ in found), Help.NONE)

    def _leave_unschedulable(self, queued: QueuedPod, help_: Help, label: str) -> None:
        over = floor((queued.queued_at + self.backoff_of(queued)) / _WINDOW)
        if help_ is Help.AT_ONCE or over <= floor(self._clock.monotonic() / _WINDOW):
            self._activate(queued, label)
            return
        if not self._put_aside_if_gated(queued, label):
            pool = self._error_backoff if queued.errors else self._backoff
            pool.put(queued, (over, *self._sort_key(queued.pod, queued.queued_at)))
            self._report_arrival(queued, Pool.BACKOFF, label)
            self._ready.set()

    def _activate(self, queued: QueuedPod, label: str) -> None:
        if not self._put_aside_if_gated(queued, label):
            self._put_active(queued)
            self._report_arrival(queued, Pool.ACTIVE, label)

    def _put_aside_if_gated(self, queued: QueuedPod, label: str) -> bool:
        plugin = self._find_gate(queued)
        queued.gated_by, queued.is_held = plugin, queued.key in self._held
        if plugin:
            queued.refused_by |= {plugin}
            self._put_unschedulable(queued, label)
        return bool(plugin)

    def _find_gate(self, queued: QueuedPod) -> str:
        if queued.key in self._held:
            return self._held[queued.key]
        for plugin in self._profiles[queued.profile].pre_enqueue:
            name = str(getattr(plugin, "name", type(plugin).__name__))
            try:
                if not plugin.pre_enqueue(queued.pod).is_success:
                    return name
            except Exception:  # a plugin's defect must not make a pod wait for ever
                if logs.once(("pre_enqueue", name)):
                    log.exception("a plugin failed; the pod is let through", extra={"fields": {"plugin": name}})
        return ""

    def _put_unschedulable(self, queued: QueuedPod, label: str) -> None:
        if queued.key in self._held:
            queued.gated_by, queued.is_held = self._held[queued.key], True
        self._unschedulable.put(queued)
        self._report_arrival(queued, Pool.GATED if queued.gated_by else Pool.UNSCHEDULABLE, label)

    def _put_active(self, queued: QueuedPod) -> None:
        self._active.put(queued, self.sort_key_of(queued))
        self._ready.set()

    def _report_arrival(self, queued: QueuedPod, pool: Pool, label: str) -> None:
        if self._on_arrival is not None:
            self._on_arrival(queued, pool, label)


def _action_label(event: ClusterEvent) -> str:
    name = event.action.name or "Update"
    first = name.split("|", 1)[0]
    return "".join(word.capitalize() for word in first.split("_")) if event is not EVERYTHING else ""
