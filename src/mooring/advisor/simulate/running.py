"""Runs a scenario: the steps in their order, and time in between, until nothing more happens.

Time passes only when nobody is left to try. It goes on to whatever comes first: a pod whose backoff ends, a drain that
asks again, a pod that a taint drives out, the next step.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mooring.advisor.simulate.applying import Applying
from mooring.advisor.simulate.changes import AFTERMATH, Scenario, ScenarioError
from mooring.advisor.simulate.filling import fill
from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.results import Moment, Room
from mooring.advisor.simulate.scheduling import Scheduling
from mooring.advisor.simulate.utilisation import Usage, part_of, usage_of
from mooring.advisor.simulate.world import World
from mooring.advisor.snapshot import Snapshot
from mooring.constraints.requests import CPU, MEMORY
from mooring.scheduler.facade import Pool

_TICK = 1.0
"""Backoffs end on whole seconds."""
_LOOK_AGAIN = 30.0
"""How often the queue looks for pods that have waited too long."""
_LONGEST_SETTLING = 3600.0


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
        self._looked_at = 0.0
        self._note("")

    def run(self) -> None:
        """Carry the scenario out. Raises ScenarioError for a step that is impossible."""
        self._doing = "placing what was pending"
        self.world.begin(keep_pending=self.scenario.keep_pending)
        self._settle("")
        for number, step in enumerate(self.scenario.steps):
            if step.at is not None:
                self._pass_time(step.at)
                self.world.clock.advance(step.at)
            try:
                told = [self._applying.apply(change) for change in step.changes]
            except ScenarioError as problem:
                raise ScenarioError(f"step {step.name or number + 1}: {problem}") from problem
            self._doing = step.name or "; ".join(told)
            if step.at is None:
                self._settle(self._doing)
            else:
                self._work(self._doing)
        self._doing = "waiting until nothing more happens"
        until = self.scenario.until
        self._pass_time(self._now + AFTERMATH if until is None else until)
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

    # -- time

    def _settle(self, event: str) -> None:
        """Go on until every pod has a node or waits for something that has to happen first."""
        self._work(event)
        limit = self._now + _LONGEST_SETTLING
        while (due := self._soon()) is not None and due <= limit:
            self._advance(due)
            self._work("")

    def _pass_time(self, until: float) -> None:
        """Let everything happen that is due until then."""
        while True:
            due = _first(self._soon(), self.world.taints.next_due())
            if due is None or due > until:
                return
            self._advance(due)
            self._work("")

    def _soon(self) -> float | None:
        """When something follows from what has happened already."""
        backoff = self._now + _TICK if self.world.queue.counts()[Pool.BACKOFF] else None
        return _first(backoff, self.world.drains.next_due())

    def _advance(self, to: float) -> None:
        world = self.world
        world.clock.advance(to)
        world.queue.flush_backoff()
        if self._now - self._looked_at >= _LOOK_AGAIN:
            self._looked_at = self._now
            world.queue.flush_unschedulable()
        due = world.drains.next_due()
        if due is not None and due <= self._now:
            world.drains.run()
        world.taints.run()

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


def _first(*moments: float | None) -> float | None:
    """The earliest of those that there are."""
    return min((moment for moment in moments if moment is not None), default=None)


def _alike(one: Moment, other: Moment) -> bool:
    same = (one.running, one.pending, one.nodes, one.cpu, one.memory)
    return same == (other.running, other.pending, other.nodes, other.cpu, other.memory)
