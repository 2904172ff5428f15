"""Run a scenario: apply the steps in order; ``time_passing.py`` advances time until nothing changes."""

from collections.abc import Callable

from msgspec import structs

from mooring.advisor.simulate.applying import ChangeApplier
from mooring.advisor.simulate.changes import AFTERMATH, Scenario, ScenarioError, Step
from mooring.advisor.simulate.descheduling import INTERVAL_SECONDS, Descheduler
from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.pods import SimulatedPod, display_name_of
from mooring.advisor.simulate.results import Moment, Room
from mooring.advisor.simulate.scheduling import Scheduling
from mooring.advisor.simulate.time_passing import TimePassing
from mooring.advisor.simulate.utilisation import Usage, requested_fraction, usage_of
from mooring.advisor.simulate.world import Progress, World
from mooring.advisor.snapshot import Snapshot
from mooring.api.apps_v1 import DaemonSet
from mooring.api.core_v1 import Pod
from mooring.constraints.requests import CPU, MEMORY

_MOST_DESCHEDULER_RUNS = 12


ReportProgress = Callable[[Progress], None]


class SimulationRun:
    """Runs a scenario: holds the simulated cluster and the timeline, both readable during the run."""

    def __init__(
        self, snapshot: Snapshot, scenario: Scenario, settings: Settings, report: ReportProgress | None = None
    ) -> None:
        self.scenario = scenario
        self.world = World(snapshot, settings, scenario.seed)
        self.before: Usage = usage_of(self.world.engine.cluster)
        self.timeline: list[Moment] = []
        self.room: Room | None = None
        self.is_complete = False
        self._report_progress = report
        self._doing = "beginning"
        self.scheduling = Scheduling(self.world, self._notify_progress)
        self._applying = ChangeApplier(self.world)
        self._time = TimePassing(self.world, lambda: self._schedule_and_record(""))
        self._add_moment("")

    def run(self) -> None:
        """Apply the steps in order and advance time until nothing changes. Raise ScenarioError for a bad step."""
        self._doing = "placing what was pending"
        self.world.begin(keep_pending=self.scenario.keep_pending)
        self._schedule_and_record("")
        self._time.settle()
        for number, step in enumerate(self.scenario.steps):
            if step.at is not None:
                self._advance_to(step.at)
            try:
                self._execute_step(step)
            except ScenarioError as problem:
                raise ScenarioError(f"step {step.name or number + 1}: {problem}") from problem
        self._deschedule()
        self._doing = "waiting until nothing more happens"
        if self.scenario.until is None:
            self._time.pass_until(self._now + AFTERMATH)
        else:
            self._advance_to(self.scenario.until)
        if self.scenario.until_full:
            self._doing = "adding pods until one does not fit"
            self.room = _FillRun(self.world, self.scheduling, self._applying).run(self._notify_progress)
        self._add_moment("")
        self.is_complete = self.room is None or self.room.is_complete

    def run_step(self, step: Step) -> None:
        """Apply one more step to a finished run, and advance time until nothing changes any more."""
        self.is_complete = False
        self._execute_step(step)
        self._time.pass_until(self._now + AFTERMATH)
        self._add_moment("")
        self.is_complete = True

    def _execute_step(self, step: Step) -> None:
        text = [self._applying.apply(change) for change in step.changes]
        self._doing = step.name or "; ".join(text)
        self._schedule_and_record(self._doing)
        if step.at is None:
            self._time.settle()

    def _deschedule(self) -> None:
        if not self.scenario.descheduler:
            return
        self._doing = "descheduling"
        descheduler = Descheduler(self.world, self.scenario.descheduler, self.scheduling.run)
        for number in range(_MOST_DESCHEDULER_RUNS):
            evicted = descheduler.run()
            self._schedule_and_record(f"descheduler run {number + 1}: {evicted} evicted")
            if not evicted:
                break
            self._advance_to(self._now + INTERVAL_SECONDS)

    def _advance_to(self, moment: float) -> None:
        self._time.pass_until(moment)
        self.world.clock.advance(moment)

    @property
    def _now(self) -> float:
        return self.world.clock.monotonic()

    def _schedule_and_record(self, event: str) -> None:
        self.scheduling.run_with_controllers()
        self._add_moment(event)
        self._notify_progress()

    def _notify_progress(self) -> None:
        if self._report_progress is not None:
            self._report_progress(self.world.progress(self._doing))

    def _add_moment(self, event: str) -> None:
        cluster = self.world.engine.cluster
        moment = Moment(
            at=round(self._now, 3),
            running=self.world.running,
            pending=len(self.world.pods) - self.world.running,
            nodes=len(cluster),
            cpu=requested_fraction(cluster, CPU),
            memory=requested_fraction(cluster, MEMORY),
            event=event,
        )
        if event or not self.timeline or structs.replace(self.timeline[-1], at=moment.at, event="") != moment:
            self.timeline.append(moment)


_REPORT_EVERY = 256


class _FillRun:
    """Adds pods of the one workload that was added last, until one does not fit."""

    def __init__(self, world: World, scheduling: Scheduling, applying: ChangeApplier) -> None:
        """Find the workload. Raise ScenarioError if several workloads or none were added last."""
        added = [obj for obj in applying.last if not isinstance(obj, DaemonSet)]
        if len(added) != 1:
            what = "several workloads were" if added else "no workload was"
            raise ScenarioError(f"until full: {what} added last; it takes one, to know what to add more of")
        self._world, self._scheduling, self._applying, self._wanted = world, scheduling, applying, added[0]
        self._name = display_name_of(self._wanted)
        meta = self._wanted.metadata
        self._owner = world.workloads.current_workload(self._wanted.kind, meta.namespace, meta.name)
        if self._owner is None and not isinstance(self._wanted, Pod):
            raise ScenarioError(f"until full: {self._name} is not there; was it rejected?")

    def run(self, report: Callable[[], None]) -> Room:
        world, fits = self._world, 0
        pods = () if self._owner is None else self._owner.pods.values()
        waiting = next((pod for pod in pods if not pod.node), None)
        if waiting is not None:
            return Room(workload=self._name, fits=0, limit=world.message_of(waiting))
        self._scheduling.allow_preemption = False
        try:
            while True:
                pod = self._add_pod(fits)
                if pod is None:
                    refusal = self._owner.refusal if self._owner is not None else world.record.refusals.pop().message
                    return Room(
                        workload=self._name, fits=fits, limit=refusal or "it is to have no more pods than these"
                    )
                self._scheduling.run()
                if not pod.node:
                    limit = world.message_of(pod)
                    if self._owner is not None:
                        self._owner.wanted -= 1
                    world.delete(pod, recreate=False)
                    return Room(workload=self._name, fits=fits, limit=limit)
                fits += 1
                if not fits % _REPORT_EVERY:
                    report()
        except KeyboardInterrupt:
            return Room(workload=self._name, fits=fits, limit="interrupted", is_complete=False)
        finally:
            self._scheduling.allow_preemption = True

    def _add_pod(self, number: int) -> SimulatedPod | None:
        owner = self._owner
        if owner is None:
            assert isinstance(self._wanted, Pod)  # noqa: S101 - a wanted thing without an owner is a pod
            return self._applying.add_pod(self._wanted, number, 2)
        before = len(owner.pods)
        owner.wanted += 1
        self._world.workloads.reconcile(owner)
        if len(owner.pods) == before:
            owner.wanted -= 1
            return None
        return next(reversed(owner.pods.values()))
