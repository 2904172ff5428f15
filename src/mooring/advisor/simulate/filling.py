"""Find how many more pods of a workload fit: add pods until one is unschedulable, without preemption."""

from collections.abc import Callable

from mooring.advisor.simulate.applying import Applying
from mooring.advisor.simulate.changes import ScenarioError
from mooring.advisor.simulate.identity import display_name_of
from mooring.advisor.simulate.pods import SimulatedPod, Workload
from mooring.advisor.simulate.results import Room
from mooring.advisor.simulate.scheduling import Scheduling
from mooring.advisor.simulate.world import World
from mooring.api.apps_v1 import DaemonSet
from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import Resource

_REPORT_EVERY = 256


def fill(world: World, scheduling: Scheduling, applying: Applying, tell: Callable[[], None]) -> Room:
    """Add pods of the last added workload. Raise ScenarioError if that is ambiguous."""
    wanted = [obj for obj in applying.last if not isinstance(obj, DaemonSet)]
    if len(wanted) != 1:
        what = "several workloads were" if wanted else "no workload was"
        raise ScenarioError(f"until full: {what} added last; it takes one, to know what to add more of")
    return _Filling(world, scheduling, applying, wanted[0]).run(tell)


class _Filling:
    def __init__(self, world: World, scheduling: Scheduling, applying: Applying, wanted: Resource) -> None:
        self._world = world
        self._scheduling = scheduling
        self._applying = applying
        self._wanted = wanted
        self._name = display_name_of(wanted)
        self._owner = None if isinstance(wanted, Pod) else self._workload(wanted)

    def run(self, tell: Callable[[], None]) -> Room:
        world, fits = self._world, 0
        waiting = next((pod for pod in self._pods() if not pod.node), None)
        if waiting is not None:
            return Room(workload=self._name, fits=0, limit=world.message_of(waiting))
        self._scheduling.allow_preemption = False
        try:
            while True:
                pod = self._next(fits)
                if pod is None:
                    refusal = self._owner.refusal if self._owner is not None else world.record.refusals.pop().message
                    return Room(
                        workload=self._name, fits=fits, limit=refusal or "it is to have no more pods than these"
                    )
                self._scheduling.run()
                if not pod.node:
                    limit = world.message_of(pod)
                    self._remove_last(pod)
                    return Room(workload=self._name, fits=fits, limit=limit)
                fits += 1
                if not fits % _REPORT_EVERY:
                    tell()
        except KeyboardInterrupt:
            return Room(workload=self._name, fits=fits, limit="interrupted", is_complete=False)
        finally:
            self._scheduling.allow_preemption = True

    def _workload(self, wanted: Resource) -> Workload:
        owner = self._world.workloads.making_pods_for(wanted.kind, wanted.metadata.namespace, wanted.metadata.name)
        if owner is not None:
            return owner
        raise ScenarioError(f"until full: {self._name} is not there; was it rejected?")

    def _pods(self) -> list[SimulatedPod]:
        return [] if self._owner is None else list(self._owner.pods.values())

    def _next(self, number: int) -> SimulatedPod | None:
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

    def _remove_last(self, pod: SimulatedPod) -> None:
        if self._owner is not None:
            self._owner.wanted -= 1
        self._world.delete(pod, recreate=False)
