"""Run a scenario: apply the steps in order and advance time until nothing more happens.

``time_passing.py`` advances time.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mooring.advisor.simulate.applying import Applying
from mooring.advisor.simulate.changes import AFTERMATH, Scenario, ScenarioError
from mooring.advisor.simulate.descheduling import INTERVAL_SECONDS, Descheduler
from mooring.advisor.simulate.filling import fill
from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.results import Moment, Room
from mooring.advisor.simulate.scheduling import Scheduling
from mooring.advisor.simulate.time_passing import TimePassing
from mooring.advisor.simulate.utilisation import Usage, part_of, usage_of
from mooring.advisor.simulate.world import World
from mooring.advisor.snapshot import Snapshot
from mooring.constraints.requests import CPU, MEMORY

_MOST_DESCHEDULER_RUNS = 12


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a simulation."""

    doing: str
    running: int
    waiting: int
    seconds: float
    """Virtual seconds."""


Tell = Callable[[Progress], None]


class Running:
    """One run of a scenario. Its state can be read at any time."""

    def __init__(self, snapshot: Snapshot, scenario: Scenario, settings: Settings, tell: Tell | None = None) -> None:
        self.scenario = scenario
        self.world = World(snapshot, settings, scenario.seed)
        self.before: Usage = usage_of(self.world.engine.cluster)
        self.timeline: list[Moment] = []
        self.room: Room | None = None
        self.is_complete = False
        self._tell_progress = tell
        self._doing = "beginning"
        self.scheduling = Scheduling(self.world, self._progress)
        self._applying = Applying(self.world)
        self._time = TimePassing(self.world, lambda: self._work(""))
        self._note("")

    def run(self) -> None:
        """Execute the scenario. Raise ScenarioError for an impossible step."""
        self._doing = "placing what was pending"
        self.world.begin(keep_pending=self.scenario.keep_pending)
        self._work("")
        self._time.settle()
        for number, step in enumerate(self.scenario.steps):
            if step.at is not None:
                self._time.pass_until(step.at)
                self.world.clock.advance(step.at)
            try:
                text = [self._applying.apply(change) for change in step.changes]
            except ScenarioError as problem:
                raise ScenarioError(f"step {step.name or number + 1}: {problem}") from problem
            self._doing = step.name or "; ".join(text)
            if step.at is None:
                self._work(self._doing)
                self._time.settle()
            else:
                self._work(self._doing)
        self._deschedule()
        self._doing = "waiting until nothing more happens"
        until = self.scenario.until
        self._time.pass_until(self._now + AFTERMATH if until is None else until)
        if until is not None:
            self.world.clock.advance(until)
        if self.scenario.until_full:
            self._doing = "adding pods until one does not fit"
            self.room = fill(self.world, self.scheduling, self._applying, self._progress)
        self._note("")
        self.is_complete = self.room is None or self.room.is_complete

    def _deschedule(self) -> None:
        if not self.scenario.descheduler:
            return
        self._doing = "descheduling"
        descheduler = Descheduler(self.world, self.scenario.descheduler, self.scheduling.run)
        for number in range(_MOST_DESCHEDULER_RUNS):
            evicted = descheduler.run()
            self._work(f"descheduler run {number + 1}: {evicted} evicted")
            if not evicted:
                break
            until = self._now + INTERVAL_SECONDS
            self._time.pass_until(until)
            self.world.clock.advance(until)

    @property
    def _now(self) -> float:
        return self.world.clock.monotonic()

    def _work(self, event: str) -> None:
        self.world.taints.run()
        self.scheduling.run()
        while self.world.workloads.roll_on():
            self.scheduling.run()
        self._note(event)
        self._progress()

    def _progress(self) -> None:
        if self._tell_progress is not None:
            running = self.world.running
            self._tell_progress(Progress(self._doing, running, len(self.world.pods) - running, self._now))

    def _note(self, event: str) -> None:
        cluster = self.world.engine.cluster
        moment = Moment(
            at=round(self._now, 3),
            running=self.world.running,
            pending=len(self.world.pods) - self.world.running,
            nodes=len(cluster),
            cpu=part_of(cluster, CPU),
            memory=part_of(cluster, MEMORY),
            event=event,
        )
        if not event and self.timeline and _is_same_state(self.timeline[-1], moment):
            return
        self.timeline.append(moment)


def _is_same_state(one: Moment, other: Moment) -> bool:
    same = (one.running, one.pending, one.nodes, one.cpu, one.memory)
    return same == (other.running, other.pending, other.nodes, other.cpu, other.memory)
