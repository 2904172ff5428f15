"""Replays a trace: pods arrive, run and leave in virtual time; nodes come, go and fail.

A driver of the simulated world, as ``running.py`` is for scenarios. Events of one moment happen together, then whoever
waits is tried. A pod that loses its node to a failure, a taint or a more important pod begins again from the start,
as a controller would see to it. Memory is for what is there now, not for what has been.
"""

import heapq
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from msgspec import structs

from mooring.advisor.simulate.applying import Applying
from mooring.advisor.simulate.changes import Add, Remove, ScenarioError
from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.pods import SimulatedPod
from mooring.advisor.simulate.scheduling import Scheduling
from mooring.advisor.simulate.time_passing import TimePassing
from mooring.advisor.simulate.traces.events import (
    Event,
    NodeComes,
    NodeGoes,
    ObjectComes,
    ObjectGoes,
    PodArrives,
    PodBound,
    PodLeaves,
)
from mooring.advisor.simulate.traces.measures import Meter
from mooring.advisor.simulate.traces.prices import Prices
from mooring.advisor.simulate.world import World
from mooring.advisor.snapshot import Snapshot
from mooring.scheduler.facade import DEFAULT_SCHEDULER, pod_key

_TELL_EVERY = 256


@dataclass(frozen=True, slots=True)
class Options:
    seed: int = 0
    gives_up: bool = False
    """Whether a pod that finds no node when it comes is gone."""
    until: float | None = None
    prices: Prices = field(default_factory=Prices)
    keeps_placements: bool = False
    """Whether to remember where each pod went: for comparisons, at the price of memory."""


@dataclass(frozen=True, slots=True)
class Progress:
    events: int
    running: int
    waiting: int
    seconds: float
    """Of virtual time."""


Tell = Callable[[Progress], None]


class Replay:
    """One run. What is known so far can be looked at at any time."""

    def __init__(self, snapshot: Snapshot, settings: Settings, options: Options, tell: Tell | None = None) -> None:
        self.options = options
        self.world = World(snapshot, settings, options.seed, Meter)
        assert isinstance(self.world.record, Meter)  # noqa: S101 - just asked for
        self.meter: Meter = self.world.record
        self.meter.begin(self.world, options.prices)
        self.events = 0
        self.unknown = 0
        """Events about pods and nodes that are not there."""
        self.is_complete = False
        self.placements: dict[str, str] = {}
        self.recorded: dict[str, str] = {}
        """Where the recorded cluster put pods."""
        self.real_seconds = 0.0
        self._keys: dict[str, str] = {}
        """Of the pods that are there, by name."""
        self._lasts: dict[str, float] = {}
        self._leaving: list[tuple[float, int, str]] = []
        """When pods have run their time, with their keys."""
        self._order = count()
        self._tell_progress = tell
        self._scheduling = Scheduling(self.world, self._progress)
        self._applying = Applying(self.world)
        self._time = TimePassing(self.world, self._work)
        self.world.begin(keep_pending=False)

    def run(self, events: Iterator[Event]) -> None:
        """Let everything happen."""
        begun = time.perf_counter()
        try:
            for moment in _moments(events):
                if self.options.until is not None and moment[0].at > self.options.until:
                    break
                self._until(moment[0].at)
                self._happens(moment)
            self._end()
            self.is_complete = True
        finally:
            self.meter.look(is_last=True)
            self.real_seconds += time.perf_counter() - begun

    def numbers(self) -> dict[str, float]:
        """How it stands, in numbers."""
        meter, world = self.meter, self.world
        last = {name: value for name, value in meter.samples[-1].items() if name != "time"} if meter.samples else {}
        return {
            "events": self.events,
            "arrived": meter.arrived,
            "placed": meter.placed_pods,
            "seconds": round(world.clock.monotonic(), 3),
            "waited mean": round(meter.waits.total / max(meter.waits.number, 1), 3),
        } | last

    # -- time

    def _until(self, at: float) -> None:
        """Let pods leave whose time is over, and all else that is due before a moment."""
        while self._leaving and self._leaving[0][0] <= at:
            due, _, key = heapq.heappop(self._leaving)
            self._time.pass_until(due)
            self._time.advance(due)
            self._ends(key, due)
            while self._leaving and self._leaving[0][0] == due:
                self._ends(heapq.heappop(self._leaving)[2], due)
            self._work()
        self._time.pass_until(at)
        self._time.advance(at)

    def _end(self) -> None:
        """Everybody who runs for a time ends; those who cannot are left waiting."""
        until = self.options.until
        while True:
            while self._leaving and (until is None or self._leaving[0][0] <= until):
                self._until(self._leaving[0][0])
            if until is not None:
                self._time.pass_until(until)
                return
            self._time.settle()
            if not self._leaving:
                return

    def _work(self) -> None:
        """Try whoever waits, note who has got a node, and let come again who has lost one."""
        world, meter = self.world, self.meter
        world.taints.run()
        self._scheduling.run()
        while world.workloads.roll_on():
            self._scheduling.run()
        while meter.lost:
            lost, meter.lost = meter.lost, []
            for pod in lost:
                self._again(pod)
            self._scheduling.run()
        for pod in meter.arrivals:
            lasts = self._lasts.get(pod.key)
            if lasts is not None and pod.placed_at is not None:
                heapq.heappush(self._leaving, (pod.placed_at + lasts, next(self._order), pod.key))
            if self.options.keeps_placements:
                self.placements[pod.name] = pod.node
        meter.arrivals.clear()
        meter.look()

    # -- events

    def _happens(self, moment: list[Event]) -> None:
        arrived = [made for event in moment if (made := self._apply(event)) is not None]
        self.events += len(moment)
        self._work()
        if self.options.gives_up:
            for pod in arrived:
                if not pod.node and pod.key in self.world.pods:
                    self.meter.given_up += 1
                    self._remove(pod)
        if arrived:
            self.meter.note_curves()
        if not self.events % _TELL_EVERY:
            self._progress()

    def _apply(self, event: Event) -> SimulatedPod | None:
        world = self.world
        match event:
            case PodArrives():
                return self._arrives(event)
            case PodLeaves(name=name):
                found = world.pods.get(self._keys.get(name, ""))
                if found is None:
                    self.unknown += 1
                else:
                    self._remove(found)
            case NodeComes(node=node):
                world.put_node(node)
            case NodeGoes(name=name):
                self.unknown += world.engine.cluster.node(name) is None
                world.remove_node(name)
            case PodBound(name=name, node=node_name):
                self.recorded[name] = node_name
            case ObjectComes(object=obj):
                self._applying.apply(Add((obj,)))
            case ObjectGoes():
                try:
                    self._applying.apply(Remove(event.kind, event.namespace, event.name))
                except ScenarioError:
                    self.unknown += 1
        return None

    def _arrives(self, event: PodArrives) -> SimulatedPod | None:
        key = pod_key(event.pod)
        if key in self.world.pods:
            self.unknown += 1
            return None
        self._keys[event.name] = key
        if event.lasts is not None:
            self._lasts[key] = event.lasts
        pod = event.pod
        if not pod.spec.scheduler_name:  # no server has seen it
            pod = structs.replace(pod, spec=structs.replace(pod.spec, scheduler_name=DEFAULT_SCHEDULER))
        self.world.create(pod, None)
        made = self.world.pods[key]
        self.meter.arrives(made)
        return made

    def _ends(self, key: str, due: float) -> None:
        """A pod has run its time, unless it has lost its node in between."""
        pod = self.world.pods.get(key)
        if pod is not None and pod.placed_at is not None and pod.placed_at + self._lasts.get(key, 0.0) <= due:
            self._remove(pod)

    def _remove(self, pod: SimulatedPod) -> None:
        self._keys.pop(pod.name, None)
        self._lasts.pop(pod.key, None)
        self.world.delete(pod, recreate=False)

    def _again(self, pod: SimulatedPod) -> None:
        """A pod that had to go, and has no controller, comes again if the trace still has it."""
        if pod.owner is None and pod.key not in self.world.pods and self._keys.get(pod.name) == pod.key:
            self.world.create(pod.pod, None)

    def _progress(self) -> None:
        if self._tell_progress is not None:
            running = self.world.running
            waiting = len(self.world.pods) - running
            self._tell_progress(Progress(self.events, running, waiting, self.world.clock.monotonic()))


def _moments(events: Iterator[Event]) -> Iterator[list[Event]]:
    """Events that happen at the same time."""
    moment: list[Event] = []
    for event in events:
        if moment and event.at != moment[0].at:
            yield moment
            moment = []
        moment.append(event)
    if moment:
        yield moment
