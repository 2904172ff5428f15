"""Replay a trace: pods arrive, run and leave in virtual time; nodes are added, removed and fail.

Replays drive the simulated world, as ``running.py`` does for scenarios. Events of one time are applied together, then
pending pods are tried. A pod that loses its node to a failure, a taint or a preemptor starts again, as a controller
would ensure. Memory is proportional to the current state, not to the history. ``checkpoints.py`` resumes a replay.
"""

import heapq
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, groupby, islice
from operator import attrgetter

from msgspec import structs

from mooring.advisor.simulate.applying import ChangeApplier
from mooring.advisor.simulate.changes import Add, Remove, ScenarioError
from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.pods import SimulatedPod
from mooring.advisor.simulate.scheduling import Scheduling, has_claims
from mooring.advisor.simulate.time_passing import TimePassing
from mooring.advisor.simulate.traces.checkpoints import Checkpoints, PodState, ReplayState
from mooring.advisor.simulate.traces.events import (
    Event,
    NodeArrival,
    NodeDeparture,
    ObjectArrival,
    ObjectDeparture,
    PodArrival,
    PodBinding,
    PodDeparture,
    TraceError,
)
from mooring.advisor.simulate.traces.measures import InvalidEvents, Meter, Tally
from mooring.advisor.simulate.traces.prices import Prices
from mooring.advisor.simulate.world import World
from mooring.advisor.snapshot import Snapshot
from mooring.api.core_v1 import Node, Pod
from mooring.constraints.annotations import without_bridge
from mooring.constraints.requests import PODS
from mooring.scheduler.facade import DEFAULT_SCHEDULER, pod_key

_REPORT_EVERY = 256
_CANNOT = "--checkpoint: this replay cannot be resumed, and has to do without"


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    seed: int = 0
    gives_up: bool = False
    """Whether a pod that is unschedulable on arrival is dropped."""
    until: float | None = None
    prices: Prices = field(default_factory=Prices)
    keeps_placements: bool = False
    """Whether to record the node of each pod, for comparisons; takes memory."""

    def __post_init__(self) -> None:
        if self.until is not None and not self.until >= 0:  # also rejects NaN
            raise TraceError(f"until: {self.until:g} is no moment of a trace")


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    events: int
    running: int
    waiting: int
    seconds: float


ReportProgress = Callable[[ReplayProgress], None]


class Replay:
    """Replays one trace on a simulated cluster, whose state can be read at any time."""

    def __init__(
        self,
        snapshot: Snapshot,
        settings: Settings,
        options: ReplayOptions,
        report: ReportProgress | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        """Set up a replay; `run` resumes from the last checkpoint. Raise TraceError if checkpoints are impossible."""
        self.options = options
        self._snapshot, self._settings = snapshot, settings
        self._checkpoints = checkpoints
        self._first_nodes = {node.metadata.name: place for place, node in enumerate(snapshot.all(Node))}
        if checkpoints is not None and snapshot.all(Pod):
            raise TraceError(f"{_CANNOT}: the cluster has pods of its own")
        self.events = 0
        self.is_complete = False
        self.placements: dict[str, str] = {}
        self.recorded: dict[str, str] = {}
        """The nodes of pods in the recorded cluster, for comparison."""
        self.real_seconds = 0.0
        self._order = count()
        self._report_progress = report
        self._start(snapshot, options.seed, Tally())

    def _start(self, snapshot: Snapshot, seed: int, tally: Tally) -> None:
        self.world = World(snapshot, self._settings, seed, Meter)
        assert isinstance(self.world.record, Meter)  # noqa: S101 - just asked for
        self.meter: Meter = self.world.record
        self.meter.begin(self.world, self.options.prices, tally)
        self._keys: dict[str, str] = {}
        """The keys of existing pods, by name."""
        self._lasts: dict[str, float] = {}
        self._leaving: list[tuple[float, int, str]] = []
        """The end times of pods, with their keys."""
        self._came: dict[str, int] = {}
        """The event numbers of pods by key, and of nodes by name, for checkpoints."""
        self._nodes_came: dict[str, int] = {}
        self._scheduling = Scheduling(self.world, self._notify_progress)
        self._applying = ChangeApplier(self.world)
        self._time = TimePassing(self.world, self._schedule_pods)
        self.world.begin(keep_pending=False)

    @property
    def tally(self) -> Tally:
        return self.meter.tally

    def run(self, events: Iterator[Event]) -> None:
        """Replay the events of a trace to the end, from the checkpoint on if there is one."""
        begun = time.perf_counter()
        try:
            self._resume(events)
            for _, together in groupby(events, key=attrgetter("at")):
                moment = list(together)
                if self.options.until is not None and moment[0].at > self.options.until:
                    break
                self._advance_to(moment[0].at)
                self._apply_events(moment)
                self._checkpoint_if_due(len(moment))
            self._finish()
            self.is_complete = True
            if self._checkpoints is not None:
                self._checkpoints.delete()
        finally:
            self.meter.take_sample(is_last=True)
            self.real_seconds += time.perf_counter() - begun

    def result_numbers(self) -> dict[str, float]:
        """Return the numbers of the result so far, by name: counts of pods, waiting times, and the last sample."""
        tally = self.tally
        last = {name: value for name, value in tally.samples[-1].items() if name != "time"} if tally.samples else {}
        return {
            "events": self.events,
            "arrived": tally.arrived,
            "placed": tally.placed,
            "seconds": round(self.world.clock.monotonic(), 3),
            "waited mean": round(tally.waits.total / max(tally.waits.number, 1), 3),
        } | last

    def _resume(self, events: Iterator[Event]) -> None:
        standing = self._checkpoints.read() if self._checkpoints is not None else None
        if standing is None:
            return
        wanted = standing.needed_events()
        known = {number: event for number, event in enumerate(islice(events, standing.events)) if number in wanted}
        if any(number >= 0 and number not in known for number in wanted):
            raise TraceError("the trace has fewer events than before")
        nodes = {number: event.node for number, event in known.items() if isinstance(event, NodeArrival)}
        pods = {number: event for number, event in known.items() if isinstance(event, PodArrival)}
        self._restore_state(standing, nodes, pods)

    def _checkpoint_if_due(self, number: int) -> None:
        checkpoints = self._checkpoints
        if checkpoints is None or self.events // checkpoints.every == (self.events - number) // checkpoints.every:
            return
        standing = self._capture_state()
        checkpoints.write(standing)
        world, lasts = self.world, self._lasts
        nodes = {self._event_of_node(info.name): info.node for info in world.engine.cluster.node_infos()}
        pods = {event: PodArrival(0.0, pod) for event, pod in self.meter.examples.values()}
        pods |= {self._came[key]: PodArrival(0.0, pod.pod, lasts.get(key)) for key, pod in world.pods.items()}
        self._restore_state(standing, nodes, pods)

    def _capture_state(self) -> ReplayState:
        world, came = self.world, self._came
        if any(placed.held for placed in world.engine.cluster.placed_pods()):
            raise TraceError(f"{_CANNOT}: a plugin of the scheduler keeps its choices with the pods")
        self.meter.count_cost()
        return ReplayState(
            events=self.events,
            seconds=world.clock.monotonic(),
            nodes=[self._event_of_node(info.name) for info in world.engine.cluster.node_infos()],
            pods=[PodState(came[key], pod.node, pod.created_at, pod.placed_at) for key, pod in world.pods.items()],
            leaving=[(due, came[key]) for due, _, key in sorted(self._leaving) if key in came],
            shapes=[(self.meter.examples[shape][0], number) for shape, number in self.meter.shapes.items()],
            tally=self.tally,
            placements=self.placements,
            recorded=self.recorded,
        )

    def _event_of_node(self, node: str) -> int:
        found = self._nodes_came.get(node)
        return found if found is not None else -1 - self._first_nodes[node]

    def _restore_state(self, standing: ReplayState, nodes: Mapping[int, Node], pods: Mapping[int, PodArrival]) -> None:
        start, first = self.world.clock.start, self._snapshot.all(Node)
        lot = random.Random(f"{self.options.seed}/{standing.events}")  # noqa: S311 - simulations keep no secrets
        self._start(self._snapshot.replace(remove=first), lot.getrandbits(32), standing.tally)
        self.events = standing.events
        self.placements, self.recorded = standing.placements, standing.recorded
        world = self.world
        world.clock.start = start
        world.clock.advance(standing.seconds)
        for event in standing.nodes:
            node = first[-1 - event] if event < 0 else nodes[event]
            if event >= 0:
                self._nodes_came[node.metadata.name] = event
            world.put_node(node)
        self.meter.capacity(PODS)
        keys: dict[int, str] = {}
        for each in standing.pods:
            arrives = pods[each.event]
            pod = SimulatedPod(_as_admitted(arrives.pod), None, each.node, each.created_at, each.placed_at)
            keys[each.event] = pod.key
            self._keys[arrives.name], self._came[pod.key] = pod.key, each.event
            if arrives.lasts is not None:
                self._lasts[pod.key] = arrives.lasts
            world.restore(pod)
        self._leaving = [(due, next(self._order), keys[event]) for due, event in standing.leaving if event in keys]
        for event, number in standing.shapes:
            self.meter.count_signature(_as_admitted(pods[event].pod), event, number)

    def _advance_to(self, at: float) -> None:
        while self._leaving and self._leaving[0][0] <= at:
            due, _, key = heapq.heappop(self._leaving)
            self._time.pass_until(due)
            self._time.advance(due)
            self._schedule_end(key, due)
            while self._leaving and self._leaving[0][0] == due:
                self._schedule_end(heapq.heappop(self._leaving)[2], due)
            self._schedule_pods()
        self._time.pass_until(at)
        self._time.advance(at)

    def _finish(self) -> None:
        until = self.options.until
        while True:
            while self._leaving and (until is None or self._leaving[0][0] <= until):
                self._advance_to(self._leaving[0][0])
            if until is not None:
                self._time.pass_until(until)
                return
            self._time.settle()
            if not self._leaving:
                return

    def _schedule_pods(self) -> None:
        meter = self.meter
        self._scheduling.run_with_controllers()
        while meter.lost:
            lost, meter.lost = meter.lost, []
            for pod in lost:
                self._recreate(pod)
            self._scheduling.run()
        for pod in meter.arrivals:
            lasts = self._lasts.get(pod.key)
            if lasts is not None and pod.placed_at is not None:
                heapq.heappush(self._leaving, (pod.placed_at + lasts, next(self._order), pod.key))
            if self.options.keeps_placements:
                self.placements[pod.name] = pod.node
        meter.arrivals.clear()
        meter.take_sample()

    def _apply_events(self, moment: list[Event]) -> None:
        numbered = enumerate(moment, self.events)
        arrived = [made for number, event in numbered if (made := self._apply_event(event, number)) is not None]
        self.events += len(moment)
        self._schedule_pods()
        if self.options.gives_up:
            for pod in arrived:
                if not pod.node and pod.key in self.world.pods:
                    self.tally.given_up += 1
                    self._remove_pod(pod)
        if arrived:
            self.meter.extend_curves()
        if not self.events % _REPORT_EVERY:
            self._notify_progress()

    def _apply_event(self, event: Event, number: int) -> SimulatedPod | None:
        world = self.world
        match event:
            case PodArrival():
                return self._add_pod(event, number)
            case PodDeparture(name=name):
                found = world.pods.get(self._keys.get(name, ""))
                if found is None:
                    self._note_invalid("pods left that were not there", name)
                else:
                    self._remove_pod(found)
            case NodeArrival(node=node):
                world.put_node(node)
                if self._checkpoints is not None:
                    self._nodes_came[node.metadata.name] = number
            case NodeDeparture(name=name):
                if world.engine.cluster.node(name) is None:
                    self._note_invalid("nodes left that were not there", name)
                world.remove_node(name)
            case PodBinding(name=name, node=node_name):
                if self.options.keeps_placements:
                    self.recorded[name] = node_name
            case ObjectArrival(object=obj):
                if self._checkpoints is not None:
                    raise TraceError(f"{_CANNOT}: the trace has objects beside pods and nodes, a {obj.kind}")
                self._applying.apply(Add((obj,)))
            case ObjectDeparture(namespace=namespace, name=name):
                try:
                    self._applying.apply(Remove(event.kind, namespace, name))
                except ScenarioError:
                    self._note_invalid("objects left that were not there", f"{namespace}/{name}")
        return None

    def _add_pod(self, event: PodArrival, number: int) -> SimulatedPod | None:
        key, node = pod_key(event.pod), event.pod.spec.node_name
        if key in self.world.pods:
            self._note_invalid("pods came that were there already, and were left out", event.name)
            return None
        if node and self.world.engine.cluster.node(node) is None:
            self._note_invalid("pods came with a node that was not there, and were left out", event.name)
            return None
        self._keys[event.name] = key
        if event.lasts is not None:
            self._lasts[key] = event.lasts
        if self._checkpoints is not None:
            self._came[key] = number
            if has_claims(event.pod):
                raise TraceError(f"{_CANNOT}: the pod {event.name} has claims for volumes or devices")
        self.world.create(_as_admitted(event.pod), None)
        made = self.world.pods[key]
        self.meter.record_arrival(made, number)
        return made

    def _schedule_end(self, key: str, due: float) -> None:
        pod = self.world.pods.get(key)
        if pod is not None and pod.placed_at is not None and pod.placed_at + self._lasts.get(key, 0.0) <= due:
            self._remove_pod(pod)

    def _remove_pod(self, pod: SimulatedPod) -> None:
        self._keys.pop(pod.name, None)
        self._lasts.pop(pod.key, None)
        self._came.pop(pod.key, None)
        self.world.delete(pod, recreate=False)

    def _recreate(self, pod: SimulatedPod) -> None:
        if pod.owner is None and pod.key not in self.world.pods and self._keys.get(pod.name) == pod.key:
            self.world.create(pod.pod, None)

    def _note_invalid(self, what: str, who: str) -> None:
        first = f"{who} at {self.world.clock.monotonic():g} s"
        self.tally.odd.setdefault(what, InvalidEvents(first)).number += 1

    def _notify_progress(self) -> None:
        if self._report_progress is not None:
            running = self.world.running
            waiting = len(self.world.pods) - running
            self._report_progress(ReplayProgress(self.events, running, waiting, self.world.clock.monotonic()))


def _as_admitted(pod: Pod) -> Pod:
    if not pod.spec.scheduler_name:
        pod = structs.replace(pod, spec=structs.replace(pod.spec, scheduler_name=DEFAULT_SCHEDULER))
    return without_bridge(pod)
