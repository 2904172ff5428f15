"""Apply informer events to the columns and pass them to the queue.

The queue wakes the pods that an event may help. Changes that scheduling does not read (a node's heartbeat, a pod's
container statuses) wake no pods. When an informer shows a pod on a node, the assumption about it ends, also if another
scheduler bound it elsewhere. Assembled by ``runtime.py``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.states import has_ended
from mooring.base import logs
from mooring.base.clock import Clock
from mooring.client import Change
from mooring.constraints.annotations import UNREADABLE, as_scheduled
from mooring.scheduler.columns.cluster import pod_key
from mooring.scheduler.deciding.attempt import Assumptions
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework import Action, ClusterEvent, Kind
from mooring.scheduler.framework.waiting import WaitingPods
from mooring.scheduler.queue import SchedulingQueue
from mooring.scheduler.queue.cluster_events import POD_DELETED, classify_node_change, classify_pod_change, on_node
from mooring.scheduler.running.reports import UNSCHEDULABLE, NotScheduled, Reports

T = TypeVar("T", bound=Resource)
log = logs.get(__name__)

_RUSH, _RUSH_SECONDS = 20, 1.0
"""If this number of pods changes together, their events may be delayed by this number of seconds."""
_ADDED = ClusterEvent(Kind.ASSIGNED_POD, Action.ADD)


@dataclass
class EventHandlers:
    """Applies the changes that informers report to the engine's columns, and wakes pods in the queue."""

    _engine: Engine
    _queue: SchedulingQueue
    _assumptions: Assumptions
    _reports: Reports
    _waiting: WaitingPods
    _clock: Clock
    _rushed_at: float = float("-inf")

    @property
    def is_busy(self) -> bool:
        """Return whether many pods changed within the last second; meanwhile Event objects are not written."""
        return self._clock.monotonic() - self._rushed_at < _RUSH_SECONDS

    # -- nodes

    def handle_nodes(self, changes: Sequence[Change[Node]]) -> None:
        _handle_each(changes, self._handle_node)

    def _handle_node(self, old: Node | None, new: Node | None) -> None:
        if new is not None:
            action = Action.ADD if old is None else classify_node_change(old, new)
            self._engine.put(new)
            if action:
                self._queue.move(ClusterEvent(Kind.NODE, action), old, new)
        elif old is not None:
            self._engine.remove(old)
            self._queue.move(ClusterEvent(Kind.NODE, Action.DELETE), old, None)

    # -- pods

    def handle_pods(self, changes: Sequence[Change[Pod]]) -> None:
        if len(changes) >= _RUSH:
            self._rushed_at = self._clock.monotonic()
        _handle_each(changes, self._handle_pod)

    def _handle_pod(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or pod_key(old) != pod_key(new)):
            if not has_ended(old):
                self._handle_gone(old)
            old = None
        if new is None:
            return
        if has_ended(new):
            if old is None or not has_ended(old):
                self._handle_gone(old or new)
        elif new.spec.node_name:
            self._handle_placed(old, new)
        elif new.spec.scheduler_name in self._engine.profiles:
            self._handle_pending(old and as_scheduled(old), as_scheduled(new))

    def _handle_placed(self, old: Pod | None, new: Pod) -> None:
        key = pod_key(new)
        self._engine.put(new)
        if new.metadata.deletion_timestamp is not None:
            self._queue.note_victim_terminating(key)
        if old is not None and old.spec.node_name:
            action = classify_pod_change(old, new)
            if action:
                self._queue.move(ClusterEvent(Kind.ASSIGNED_POD, action), old, new)
            return
        assumed = self._assumptions.end(key)
        self._engine.nominations.remove(new)
        self._queue.delete(new)
        self._queue.move(_ADDED, None, new)
        if assumed is not None and assumed.node != new.spec.node_name:
            # Another scheduler has bound the pod: the room that was assumed is free again.
            self._queue.move(POD_DELETED, on_node(assumed.pod, assumed.node), None)

    def _handle_pending(self, old: Pod | None, new: Pod) -> None:
        if self._assumptions.get(pod_key(new)) is not None:
            return  # it is on its way; what is new about it is looked up if it comes back
        wrong = new.metadata.annotations.get(UNREADABLE)
        if old is not None and old.metadata.annotations.get(UNREADABLE) != wrong:
            self._queue.delete(old)
            old = None
        if wrong is not None and old is None:
            self._reports.not_scheduled(new, NotScheduled(UNSCHEDULABLE, wrong))
        if new.status.nominated_node_name and old is None:
            self._engine.nominations.put(new, new.status.nominated_node_name)
        if old is None:
            self._queue.add(new)
            return
        action = classify_pod_change(old, new)
        if action:
            self._engine.release(old)
        events = (ClusterEvent(Kind.TARGET_POD, action),) if action else ()
        self._queue.update(old, new, events)

    def _handle_gone(self, pod: Pod) -> None:
        key = pod_key(pod)
        assumed = self._assumptions.end(key)
        nominated = self._engine.nominations.node_of(pod)
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.reject("", "the pod was deleted")
        self._engine.remove(pod if pod.spec.node_name else as_scheduled(pod))
        self._queue.delete(pod)
        self._queue.note_victim_terminating(key)
        self._reports.forget(pod)
        node = pod.spec.node_name or (assumed.node if assumed is not None else nominated or "")
        if node:
            self._queue.move(POD_DELETED, on_node(pod, node), None)

    # -- everything else

    def handler_for(self, kind: Kind | None) -> Callable[[Sequence[Change[Resource]]], None]:
        """Return a handler of changes for one kind of object other than nodes and pods."""
        return lambda changes: _handle_each(changes, lambda old, new: self._handle_other(kind, old, new))

    def _handle_other(self, kind: Kind | None, old: Resource | None, new: Resource | None) -> None:
        if new is not None:
            self._engine.put(new)
        elif old is not None:
            self._engine.remove(old)
        if kind is not None:
            action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE_OTHER
            self._queue.move(ClusterEvent(kind, action), old, new)


def _handle_each(changes: Sequence[Change[T]], handle: Callable[[T | None, T | None], None]) -> None:
    for change in changes:
        try:
            handle(*change)
        except Exception:
            meta = change.object.metadata
            fields = {"kind": change.object.kind, "namespace": meta.namespace, "name": meta.name}
            log.exception("a change was not taken in", extra={"fields": fields})
