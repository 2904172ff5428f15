"""Drain and upgrade every node in virtual time, pool by pool, as managed node pools do.

    drain_all(snapshot, DrainOptions(max_unavailable=2), Settings())

A node is cordoned and its pods are evicted within their disruption budgets, with the retries of `kubectl drain`. An
empty node returns after `node_seconds` with the new kubelet; with `surge`, a new node replaces it instead. A node that
still has pods after `timeout_seconds` stays cordoned, and the rollout goes on. The scheduler's engine places the pods.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from statistics import median
from typing import Literal

from msgspec import structs

from mooring.advisor.simulate.applying import with_unschedulable
from mooring.advisor.simulate.evictions import is_drainable
from mooring.advisor.simulate.manifests import with_node_name
from mooring.advisor.simulate.node_pools import GROUP_LABELS
from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.outcome import departure_of
from mooring.advisor.simulate.pods import SimulatedPod, Workload
from mooring.advisor.simulate.running import ReportProgress
from mooring.advisor.simulate.scheduling import Scheduling
from mooring.advisor.simulate.time_passing import StartTime, TimePassing, measured_start
from mooring.advisor.simulate.world import World, is_ready
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.upgrade.results import Block, Interruption, Move, NodeDrain, Pending, Rollout
from mooring.api.core_v1 import Node, Pod
from mooring.api.states import controller_of
from mooring.base.natural_sort import natural_key

_POOL_LABELS = (*GROUP_LABELS, "node.kubernetes.io/instance-type")
_SETTLED_SECONDS = 3600.0
"""The seconds after the last drain in which pods may still be placed."""


@dataclass(frozen=True, slots=True)
class DrainOptions:
    """The options of upgrading nodes. The defaults are one node at a time, in place."""

    version: str = ""
    """The kubelet version of upgraded nodes; empty leaves it as it is."""
    pool_label: str = ""
    """The label whose value is the name of a node's pool; empty to use the labels of cloud providers."""
    order: Literal["name", "age"] = "name"
    max_unavailable: int | None = None
    """The number of nodes of a pool that may be missing; None for one, or with `surge` for none."""
    surge: int = 0
    """The number of new nodes created before old ones are drained; drained nodes are then deleted."""
    node_seconds: float = 120.0
    """The seconds from an empty node to Ready with the new kubelet."""
    start_seconds: float = 10.0
    """The seconds from binding to Ready for pods of workloads without start times in the snapshot."""
    timeout_seconds: float = 3600.0
    """The seconds after which the drain of a node is given up."""
    force_seconds: float | None = None
    """The seconds after which pods are deleted in spite of their budgets; None for never."""
    only: frozenset[str] = frozenset()
    """The nodes to drain; empty for all."""

    @property
    def unavailable(self) -> int:
        """The number of nodes of a pool that may be missing at a time."""
        return (0 if self.surge else 1) if self.max_unavailable is None else self.max_unavailable


@dataclass(slots=True)
class _NodeDrainState:
    """The state of one node during its drain and upgrade."""

    name: str
    pool: str
    started: float
    template: Node
    drained: float | None = None
    ready: float | None = None
    evicted: int = 0
    forced: int = 0
    is_over: bool = False
    ended: float = 0.0
    waiting: dict[str, tuple[SimulatedPod, str, float]] = field(default_factory=dict)
    """The pods that a budget protects, each with its message and the time of the first refusal."""


def drain_all(
    snapshot: Snapshot, options: DrainOptions, settings: Settings, *, report: ReportProgress | None = None
) -> Rollout:
    """Simulate the drain and upgrade of all nodes, pool by pool. After KeyboardInterrupt the result is incomplete."""
    settings = replace(settings, start_time=build_start_time(snapshot, options.start_seconds))
    rollout = _NodeRollout(snapshot, options, settings, report)
    with suppress(KeyboardInterrupt):
        rollout.run()
    return rollout.result()


def pools_of(nodes: Iterable[Node], label: str = "") -> dict[str, list[Node]]:
    """Return the nodes by pool (by label `label`, or the known ones), in the order of the pools' names."""
    pools: dict[str, list[Node]] = {}
    for node in nodes:
        labels = node.metadata.labels
        found = labels.get(label, "") if label else next((labels[key] for key in _POOL_LABELS if key in labels), "")
        pools.setdefault(found or "nodes", []).append(node)
    return dict(sorted(pools.items(), key=lambda each: natural_key(each[0])))


def build_start_time(snapshot: Snapshot, default: float) -> StartTime:
    """Return a function for the start time of pods: the median of the workload's pods in the snapshot, or the default.

    Pods of a workload without a ready pod are assumed never to become ready.
    """
    measured: dict[tuple[str, str, str], list[float]] = {}
    for pod in snapshot.all(Pod):
        if pod.spec.node_name and (owner := controller_of(pod.metadata)) is not None:
            of_workload = measured.setdefault((owner.kind, pod.metadata.namespace, owner.name), [])
            if is_ready(pod):
                of_workload.append(default if (seconds := measured_start(pod)) is None else seconds)
    medians = {key: median(values) if values else inf for key, values in measured.items()}

    def start_time(pod: SimulatedPod) -> float:
        owner = pod.owner
        return default if owner is None else medians.get((owner.kind, owner.namespace, owner.name), default)

    return start_time


class _NodeRollout:
    """Drains and upgrades all nodes of a simulated cluster, pool by pool, and records the result."""

    def __init__(
        self, snapshot: Snapshot, options: DrainOptions, settings: Settings, report: ReportProgress | None
    ) -> None:
        self._options = options
        self._world = World(snapshot, settings, seed=0)
        self._report = report
        self._doing = "starting"
        self._scheduling = Scheduling(self._world, self._notify_progress)
        self._time = TimePassing(self._world, self._work_until_idle)
        self._start_time = settings.start_time
        self._queue: list[tuple[str, Node]] = []
        self._active: list[_NodeDrainState] = []
        self._done: list[_NodeDrainState] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self._surge_ready = 0
        """New nodes that are ready, without those that have replaced a drained one."""
        self._surge_left = 0
        """How many nodes of the pool have no copy yet."""
        self._blocks: list[Block] = []
        self._pending_since: dict[str, float] = {}
        self._delays: dict[str, tuple[int, float]] = {}
        """By display name of a workload, how many of its pods had no node for a while, and the longest time."""
        self._without_ready_pods: dict[str, tuple[Workload, float]] = {}
        """Workloads that a drain may have left without a ready pod, and since when, by display name."""
        self._outages: dict[str, list[float]] = {}
        """How long a workload had no ready pod, each time."""
        self._timeline: list[tuple[float, int, int]] = []
        self._seen_evictions = 0
        self._begun = False
        self._start = 0.0
        self._is_complete = False
        self._pending_before: frozenset[str] = frozenset()

    # -- the run

    def run(self) -> None:
        world = self._world
        world.begin(keep_pending=False)
        self._work_until_idle()
        self._time.settle()
        self._pending_before = frozenset(key for key, pod in world.pods.items() if not pod.node)
        self._begun, self._start = True, self._now
        nodes = [info.node for info in world.engine.cluster.node_infos()]
        for pool, members in pools_of(nodes, self._options.pool_label).items():
            self._drain_pool(pool, members)
        self._doing = "waiting for the last pods"
        self._time.pass_until(self._now + _SETTLED_SECONDS)
        self._is_complete = True

    def _drain_pool(self, pool: str, members: list[Node]) -> None:
        ordered = sorted(members, key=lambda node: natural_key(node.metadata.name))
        if self._options.order == "age":
            ordered.sort(key=lambda node: node.metadata.creation_timestamp or "")
        wanted = self._options.only
        self._queue = [(pool, node) for node in ordered if not wanted or node.metadata.name in wanted]
        self._surge_ready = 0
        self._surge_left = len(self._queue) if self._options.surge else 0
        for _, node in self._queue[: self._options.surge]:
            self._order_surge_node(node)
        self._work_until_idle()
        while self._queue or self._active:
            self._advance_to(self._events[0][0])  # there is one, because every active drain has a timeout
            _, _, act = heapq.heappop(self._events)
            act()
            self._work_until_idle()

    def _advance_to(self, moment: float) -> None:
        """Advance virtual time to a moment, or to an earlier event that was scheduled on the way."""
        self._time.pass_until(moment)
        if self._events and self._events[0][0] < moment:
            moment = self._events[0][0]
        self._world.clock.advance(moment)

    def _work_until_idle(self) -> None:
        """Schedule pods, and begin and finish drains, until nothing more is possible at the current time."""
        while True:
            self._scheduling.run_with_controllers()
            if not self._begun or not self._advance_drains():
                break
        self._record_pods()
        self._record_outages()
        self._notify_progress()

    def _advance_drains(self) -> bool:
        """Finish the drains of empty nodes and begin further drains; return whether any began or finished."""
        changed = False
        self._count_evictions()
        for each in list(self._active):
            self._watch_blocks(each)
            if each.drained is None and not self._drainable_pods(each.name):
                self._finish_drain(each)
                changed = True
        limit = self._options.unavailable + self._surge_ready
        while self._queue and len(self._active) < limit:
            self._begin_drain(*self._queue.pop(0))
            changed = True
        return changed

    # -- one node

    def _begin_drain(self, pool: str, node: Node) -> None:
        name = node.metadata.name
        info = self._world.engine.cluster.node(name)
        if info is None:
            return
        self._doing = f"draining {name}"
        each = _NodeDrainState(name, pool, self._now, info.node)
        self._active.append(each)
        self._world.put_node(with_unschedulable(info.node, unschedulable=True))
        self._world.drains.begin(name)
        if self._options.force_seconds is not None:
            self._schedule_event(self._options.force_seconds, partial(self._delete_blocked, each))
        self._schedule_event(self._options.timeout_seconds, partial(self._give_up, each))

    def _finish_drain(self, each: _NodeDrainState) -> None:
        """Upgrade the empty node in place, or delete it if a new node has replaced it."""
        each.drained = self._now
        self._world.drains.end(each.name)
        self._close_blocks(each, is_final=False)
        if self._options.surge:
            each.ready = self._now
            self._world.remove_node(each.name)
            self._end_drain(each)
            self._surge_ready -= 1
            self._order_surge_node(each.template)
        else:
            self._schedule_event(self._options.node_seconds, lambda: self._restore_upgraded_node(each))

    def _restore_upgraded_node(self, each: _NodeDrainState) -> None:
        each.ready = self._now
        node = _with_kubelet(each.template, self._options.version)
        self._world.put_node(with_unschedulable(node, unschedulable=each.template.spec.unschedulable))
        self._end_drain(each)

    def _give_up(self, each: _NodeDrainState) -> None:
        if each.is_over or each.drained is not None:
            return
        self._world.drains.end(each.name)
        self._watch_blocks(each)
        self._close_blocks(each, is_final=True)
        self._end_drain(each)

    def _delete_blocked(self, each: _NodeDrainState) -> None:
        if each.is_over or each.drained is not None:
            return
        for pod in self._drainable_pods(each.name):
            each.forced += 1
            self._world.evict(pod, "deleted by force")

    def _end_drain(self, each: _NodeDrainState) -> None:
        each.is_over = True
        each.ended = self._now
        self._active.remove(each)
        self._done.append(each)

    def _order_surge_node(self, like: Node) -> None:
        """Schedule the arrival of a surge node, a copy of this node, unless the pool has had all its surge nodes."""
        if self._surge_left:
            self._surge_left -= 1
            self._schedule_event(self._options.node_seconds, partial(self._add_surge_node, like))

    def _add_surge_node(self, like: Node) -> None:
        """Add a surge node: an upgraded copy of this node, as an autoscaling group does."""
        self._order += 1
        node = _with_kubelet(with_node_name(like, f"{like.metadata.name}-new-{self._order}"), self._options.version)
        self._world.put_node(with_unschedulable(node, unschedulable=False))
        self._surge_ready += 1

    # -- observation

    @property
    def _now(self) -> float:
        return self._world.clock.monotonic()

    def _schedule_event(self, seconds: float, act: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (self._now + seconds, self._order, act))

    def _drainable_pods(self, node: str) -> list[SimulatedPod]:
        return [pod for pod in self._world.pods_on(node) if is_drainable(pod)]

    def _watch_blocks(self, each: _NodeDrainState) -> None:
        refused = {key: found for key, found in self._world.drains.refused.items() if found[0].node == each.name}
        for key, (pod, message) in refused.items():
            each.waiting.setdefault(key, (pod, message, self._now))
        for key in [key for key in each.waiting if key not in refused]:
            pod, message, since = each.waiting.pop(key)
            self._add_block(each, pod, message, since, is_final=False)

    def _close_blocks(self, each: _NodeDrainState, *, is_final: bool) -> None:
        for pod, message, since in each.waiting.values():
            self._add_block(each, pod, message, since, is_final=is_final)
        each.waiting.clear()

    def _add_block(
        self, each: _NodeDrainState, pod: SimulatedPod, message: str, since: float, *, is_final: bool
    ) -> None:
        seconds = round(self._now - since, 3)
        if seconds or is_final:
            budgets = sorted(entry.budget.metadata.name for entry in self._world.budgets.budgets_of(pod))
            self._blocks.append(Block(pod.name, pod.owner_name, each.name, message, seconds, is_final, tuple(budgets)))

    def _count_evictions(self) -> None:
        evictions = self._world.record.evictions
        active = {each.name: each for each in self._active}
        for departure in evictions[self._seen_evictions :]:
            if departure.node in active:
                active[departure.node].evicted += 1
            pod, owner = departure.pod, departure.pod.owner
            if owner is not None and owner.kind != "Job" and pod.is_ready and is_drainable(pod):
                self._without_ready_pods.setdefault(owner.display_name, (owner, departure.at))
        self._seen_evictions = len(evictions)

    def _record_pods(self) -> None:
        """Record the numbers of running and pending pods, and since when pods are pending."""
        world = self._world
        point = (round(self._now - self._start, 3), world.running, len(world.pods) - world.running)
        if not self._begun:
            return
        if not self._timeline or self._timeline[-1][1:] != point[1:]:
            self._timeline.append(point)
        waiting = {key: pod for key, pod in world.pods.items() if not pod.node} if point[2] else {}
        for key, since in list(self._pending_since.items()):
            if key not in waiting:
                del self._pending_since[key]
                self._add_delay(key, since)
        for key in waiting:
            if key not in self._pending_before:
                self._pending_since.setdefault(key, self._now)

    def _record_outages(self) -> None:
        for name, (owner, since) in list(self._without_ready_pods.items()):
            if any(pod.is_healthy for pod in owner.pods.values()):
                del self._without_ready_pods[name]
                if self._now > since or owner.desired == 1:
                    self._outages.setdefault(name, []).append(round(self._now - since, 3))

    def _add_delay(self, key: str, since: float) -> None:
        pod = self._world.pods.get(key)
        seconds = self._now - since
        if pod is not None and seconds > 0:
            name = pod.owner_name or pod.name
            count, longest = self._delays.get(name, (0, 0.0))
            self._delays[name] = (count + 1, max(longest, seconds))

    def _notify_progress(self) -> None:
        if self._report is not None:
            self._report(self._world.progress(self._doing))

    # -- the result

    def result(self) -> Rollout:
        nodes = [_to_node_drain(each, self._start) for each in (*self._done, *self._active)]
        finished = [each.ended - self._start for each in self._done]
        # Pods of DaemonSets are deleted only with their node.
        evicted = (each for each in self._world.record.evictions if is_drainable(each.pod))
        departures = [departure_of(each, self._world) for each in evicted]
        return Rollout(
            seconds=round(max(finished, default=0.0), 3),
            nodes=tuple(nodes),
            blocks=tuple(self._blocks),
            pending=self._count_pending_at_end(),
            delayed=tuple(
                Pending(workload=name, pods=count, message="", seconds=round(longest, 3))
                for name, (count, longest) in sorted(self._delays.items(), key=lambda each: -each[1][1])
            ),
            interruptions=self._collect_interruptions(),
            moves=tuple(
                Move(round(each.at - self._start, 3), each.pod, each.owner, each.node, each.replacement_node)
                for each in departures
            ),
            daemon_pods=sum(pod.is_daemon for pod in self._world.pods.values()),
            timeline=tuple(self._timeline),
            is_complete=self._is_complete,
        )

    def _count_pending_at_end(self) -> tuple[Pending, ...]:
        """Return, by workload and reason, the pods that had a node before the drains and are pending at the end."""
        found = Counter(
            (pod.owner_name or pod.name, self._world.message_of(pod))
            for key, pod in self._world.pods.items()
            if not pod.node and key not in self._pending_before
        )
        return tuple(Pending(workload=name, pods=count, message=text) for (name, text), count in found.items())

    def _collect_interruptions(self) -> tuple[Interruption, ...]:
        """Return the workloads that had no ready pod at times during the drains; workloads that stay down first."""
        found = [
            Interruption(name, len(times), max(times))
            for name, times in self._outages.items()
            if name not in self._without_ready_pods
        ]
        found.sort(key=lambda each: -each.times * (each.longest_seconds or 0))
        ended = [Interruption(name, len(self._outages.get(name, ())) + 1, None) for name in self._without_ready_pods]
        return (*ended, *found)


def _to_node_drain(each: _NodeDrainState, start: float) -> NodeDrain:
    started, drained, ready = (
        None if moment is None else round(moment - start, 3) for moment in (each.started, each.drained, each.ready)
    )
    return NodeDrain(each.name, each.pool, started or 0.0, drained, ready, each.evicted, each.forced)


def _with_kubelet(node: Node, version: str) -> Node:
    if not version:
        return node
    info = structs.replace(node.status.node_info, kubelet_version=f"v{version.removeprefix('v')}.0")
    return structs.replace(node, status=structs.replace(node.status, node_info=info))
