"""Recent changes of pods and nodes, how long pods waited for a node, and counts of pods over time.

The timestamps of a snapshot's objects show the past; from then on every change is noted as it comes. Of a crowd
of identical changes within a second one line is kept, and of everything only the last.
"""

import heapq
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mooring.advisor.node_facts import format_taint
from mooring.advisor.simulate.results import Moment
from mooring.advisor.simulate.utilisation import requested_fraction
from mooring.advisor.snapshot import Snapshot
from mooring.api import times
from mooring.api.core_v1 import Node, Pod
from mooring.api.states import controller_of, is_ready
from mooring.client import Change
from mooring.controllers.conditions import find_condition
from mooring.scheduler.facade import Cluster

_LINES = 40
_MOMENTS = 720
"""The maximum number of samples of counts over time; when it is reached, every second one is dropped."""
_WAITS = 1000


class Line(NamedTuple):
    """One recent change of the cluster, as a line of text."""

    at: str
    """RFC 3339, to the second."""
    text: str
    kind: str
    """`pod` or `node`: where `name` is a link to; otherwise empty."""
    name: str = ""


class Wait(NamedTuple):
    """The time that a pod waited for its node."""

    at: str
    """When it got it."""
    seconds: float


class History:
    """The recent changes of a cluster, the waiting times of pods, and counts over time."""

    def __init__(self, snapshot: Snapshot, now: datetime) -> None:
        self.began = now
        found = heapq.nlargest(_LINES, (*_pod_past(snapshot.all(Pod)), *_node_past(snapshot.all(Node))))
        self.lines: deque[Line] = deque(found[::-1], _LINES)
        """The newest last."""
        self.waits: deque[Wait] = deque(_past_waits(snapshot.all(Pod)), _WAITS)
        self.moments: list[Moment] = []
        self.evicted_by: list[tuple[float, int]] = []
        """How many had to leave, at each of the moments."""
        self.bound = 0
        """Pods that got a node since `began`."""
        self.evicted = 0
        """Pods that had to leave since then."""

    def sample(self, now: datetime, running: int, pending: int, cluster: Cluster) -> None:
        """Record the current counts of pods and nodes."""
        at = (now - self.began).total_seconds()
        moment = Moment(
            at=round(at, 3),
            running=running,
            pending=pending,
            nodes=len(cluster),
            cpu=requested_fraction(cluster, "cpu"),
            memory=requested_fraction(cluster, "memory"),
        )
        self.moments.append(moment)
        self.evicted_by.append((moment.at, self.evicted))
        if len(self.moments) > _MOMENTS:
            del self.moments[1:-1:2], self.evicted_by[1:-1:2]

    def record_changes(self, changes: Sequence[Change[Any]], now: datetime) -> None:
        """Add lines for changed pods and nodes, one for many identical changes; count bound and evicted pods."""
        at = times.to_seconds(now)
        crowds: Counter[tuple[str, str]] = Counter()
        examples: dict[tuple[str, str], str] = {}
        for change in changes:
            old, new = change
            obj: Any = change.object
            if isinstance(obj, Node):
                self.lines.extend(Line(at, text, "node" if new else "", name) for name, text in _node_news(old, new))
            what = self._pod_news(old, new) if isinstance(obj, Pod) else ""
            if what:
                key = (what, _owner(obj))
                crowds[key] += 1
                examples[key] = f"{obj.metadata.namespace}/{obj.metadata.name}"
        for (what, owner), number in crowds.items():
            example = examples[what, owner]
            subject = example if number == 1 else f"{number} pods of {owner or 'no owner'}"
            gone = what == "deleted"
            self.lines.append(Line(at, f"{subject}: {what}", "" if gone else "pod", example))

    def _pod_news(self, old: Pod | None, new: Pod | None) -> str:
        if new is None:
            return "deleted"
        if old is None:
            return "created"
        if _is_evicted(new) and not _is_evicted(old):
            self.evicted += 1
            return f"has to leave {new.spec.node_name}" if new.spec.node_name else "has to leave"
        if new.spec.node_name and not old.spec.node_name:
            self.bound += 1
            self.waits.extend(_past_waits([new]))
            return "got a node"
        before, after = old.status.phase, new.status.phase
        return f"is {after} now" if before != after and after in ("Failed", "Succeeded") else ""


def _owner(pod: Pod) -> str:
    owner = controller_of(pod.metadata)
    return f"{owner.kind} {pod.metadata.namespace}/{owner.name}" if owner is not None else ""


def _is_evicted(pod: Pod) -> bool:
    return pod.status.reason == "Evicted" or any(
        entry.type == "DisruptionTarget" and entry.status == "True" for entry in pod.status.conditions
    )


def _node_news(old: Node | None, new: Node | None) -> Iterator[tuple[str, str]]:
    name = (new or old).metadata.name if new or old else ""  # type: ignore[union-attr] # one of them is there
    if old is None or new is None:
        yield name, f"{name}: {'added' if old is None else 'removed'}"
        return
    if is_ready(old) != is_ready(new):
        yield name, f"{name}: {'ready' if is_ready(new) else 'not ready any more'}"
    if old.spec.unschedulable != new.spec.unschedulable:
        yield name, f"{name}: {'cordoned' if new.spec.unschedulable else 'open again'}"
    before, after = ({format_taint(each) for each in node.spec.taints} for node in (old, new))
    for taint in sorted(after - before):
        yield name, f"{name}: taint {taint}"
    for taint in sorted(before - after):
        yield name, f"{name}: taint {taint} is gone"
    if old.metadata.labels != new.metadata.labels:
        labels = old.metadata.labels.items() ^ new.metadata.labels.items()
        yield name, f"{name}: labels changed: {', '.join(sorted({key for key, _ in labels}))}"


# -- the past, as objects tell it


def _pod_past(pods: Iterable[Pod]) -> Iterator[Line]:
    newest = heapq.nlargest(_LINES, ((_last(pod), index, pod) for index, pod in enumerate(pods)), key=lambda e: e[:2])
    for at, _, pod in newest:
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        scheduled = find_condition(pod.status.conditions, "PodScheduled")
        what = "created"
        if pod.metadata.deletion_timestamp:
            what = "is being deleted"
        elif scheduled is not None and scheduled.last_transition_time == at:
            what = "got a node" if scheduled.status == "True" else "found no node"
        if at:
            yield Line(at, f"{name}: {what}", "pod", name)


def _last(pod: Pod) -> str:
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    return max(pod.metadata.creation_timestamp or "", (scheduled.last_transition_time or "") if scheduled else "")


def _node_past(nodes: Iterable[Node]) -> Iterator[Line]:
    for node in nodes:
        name = node.metadata.name
        if node.metadata.creation_timestamp:
            yield Line(node.metadata.creation_timestamp, f"{name}: added", "node", name)
        for taint in node.spec.taints:
            if taint.time_added:
                yield Line(taint.time_added, f"{name}: taint {format_taint(taint)}", "node", name)


def _past_waits(pods: Iterable[Pod]) -> list[Wait]:
    placed = (
        (entry.last_transition_time, pod.metadata.creation_timestamp)
        for pod in pods
        if (entry := find_condition(pod.status.conditions, "PodScheduled")) is not None
        and entry.status == "True"
        and entry.last_transition_time
        and pod.metadata.creation_timestamp
    )
    made = []
    for at, created in heapq.nlargest(_WAITS, placed):
        begun, ended = _moment(created), _moment(at)
        if begun is not None and ended is not None:
            made.append(Wait(at, max((ended - begun).total_seconds(), 0.0)))
    return made[::-1]


def _moment(text: str | None) -> datetime | None:
    try:
        return times.parse(text) if text else None
    except times.TimeError:
        return None
