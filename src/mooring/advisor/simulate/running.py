"""Runs a scenario: the steps in their order, and time in between, until nothing more happens.

How time passes in between is in ``time_passing.py``.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mooring.advisor.simulate.applying import Applying
from mooring.advisor.simulate.changes import AFTERMATH, Scenario, ScenarioError
from mooring.advisor.simulate.filling import fill
from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.results import Moment, Room
from mooring.advisor.simulate.scheduling import Scheduling
from mooring.advisor.simulate.time_passing import TimePassing
from mooring.advisor.simulate.utilisation import Usage, part_of, usage_of
from mooring.advisor.simulate.world import World
from mooring.advisor.snapshot import Snapshot
from mooring.constraints.requests import CPU, MEMORY


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a simulation is."""

    doing: str
    running: int
    waiting: int
    seconds: float
    """Of virtual time."""


Tell = Callable[[Progress], None]


class Running:
    """One run of a scenario. What is known so far can be looked at at any time."""

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
        """Carry the scenario out. Raises ScenarioError for a step that is impossible."""
        self._doing = "placing what was pending"
        self.world.begin(keep_pending=self.scenario.keep_pending)
        self._work("")
        self._time.settle()
        for number, step in enumerate(self.scenario.steps):
            if step.at is not None:
                self._time.pass_until(step.at)
                self.world.clock.advance(step.at)
            try:
                told = [self._applying.apply(change) for change in step.changes]
            except ScenarioError as problem:
                raise ScenarioError(f"step {step.name or number + 1}: {problem}") from problem
            self._doing = step.name or "; ".join(told)
            if step.at is None:
                self._work(self._doing)
                self._time.settle()
            else:
                self._work(self._doing)
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

    @property
    def _now(self) -> float:
        return self.world.clock.monotonic()

    # -- what happens

    def _work(self, event: str) -> None:
        """All that can be done at this moment."""
        self.world.taints.run()
        self.scheduling.run()
        while self.world.workloads.roll_on():
            self.scheduling.run()
        self._note(event)
        self._progress()

    # -- telling

    def _progress(self) -> None:
        if self._tell_progress is not None:
            running = self.world.running
            self._tell_progress(Progress(self._doing, running, len(self.world.pods) - running, self._now))

    def _note(self, event: str) -> None:
        """Add a moment to the timeline, unless it looks like the last one."""
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
        if not event and self.timeline and _alike(self.timeline[-1], moment):
            return
        self.timeline.append(moment)


def _alike(one: Moment, other: Moment) -> bool:
    same = (one.running, one.pending, one.nodes, one.cpu, one.memory)
    return same == (other.running, other.pending, other.nodes, other.cpu, other.memory)
