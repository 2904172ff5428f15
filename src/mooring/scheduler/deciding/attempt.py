"""One attempt to schedule one pod, with the same steps in a live and in a simulated cluster.

    schedule ──┬─ a node ──► assume ──► reserve ──► permit ──► granted: the driver binds the pod, or lets it run
               │              └──────────┴───────────┴─ rejected: undo and requeue
               └─ none ────► post-filter ──► nominate ──► the driver deletes victims, reports why, requeues the pod

The steps are synchronous, so every pod is evaluated with the cluster as the pod before left it. A `Driver` carries out
the outcome: ``running/cycle.py`` writes to the API server, ``advisor/simulate/scheduling.py`` to a simulated cluster.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from time import perf_counter
from typing import Any, TypeVar

import msgspec

from mooring.api.core_v1 import Pod
from mooring.api.states import priority
from mooring.base import logs
from mooring.constraints.columns import UnfinishedError
from mooring.scheduler.deciding.diagnosis import Diagnosis
from mooring.scheduler.deciding.engine import NO_NODES, Engine, Outcome
from mooring.scheduler.framework import SUCCESS, Code, CycleState, GroupBindPlugin, PostFilterResult, Status, error
from mooring.scheduler.framework.profiles import Profile
from mooring.scheduler.queue import QueuedPod, SchedulingQueue

log = logs.get(__name__)
P = TypeVar("P")


class AssumedPod(msgspec.Struct, eq=False):
    """A pod assumed on a node, with the state that the Reserve, Permit and Bind plugins need."""

    queued: QueuedPod
    pod: Pod
    node: str
    profile: Profile
    cycle: CycleState
    begun: float
    """Monotonic time at which the scheduling attempt began."""
    binder: GroupBindPlugin | None = None
    """The plugin to which the pod was submitted for binding in a batch; None before that."""
    submitted: float = 0.0
    """Monotonic time at which the pod was submitted for binding."""

    @property
    def key(self) -> str:
        return self.queued.key


class Assumptions:
    """All assumed pods, by pod key: placed in the columns before the API server confirms the binding, so that the next
    pod does not get the same room.

    An assumption ends when an informer shows the pod on a node, when the pod is deleted, or when binding fails.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._pods: dict[str, AssumedPod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, key: str) -> AssumedPod | None:
        return self._pods.get(key)

    def assume(self, assumed: AssumedPod) -> None:
        self._engine.assume(assumed.pod, assumed.node)
        self._pods[assumed.key] = assumed

    def end(self, key: str) -> AssumedPod | None:
        """Stop treating a pod as assumed, but leave it in the columns; return it, None if it was not assumed."""
        return self._pods.pop(key, None)

    def forget(self, assumed: AssumedPod) -> bool:
        """Remove an assumed pod from its node; return False if it was no longer assumed."""
        if self._pods.get(assumed.key) is not assumed:
            return False
        del self._pods[assumed.key]
        self._engine.forget(assumed.pod)
        return True


class Driver:
    """Carries out the outcomes of attempts, in a live or a simulated cluster; this base class does nothing."""

    def record_evaluation(self, queued: QueuedPod, outcome: Outcome, seconds: float) -> None:
        """Record the result of filtering and scoring a pod, and how long it took."""

    def record_point(self, point: str, status: Status, profile: str, seconds: float) -> None:
        """Record the status and duration of an extension point, after its plugins ran for a pod."""

    def record_plugin(self, plugin: str, point: str, status: Status, seconds: float) -> None:
        """Record the status and duration of one plugin at an extension point."""

    def assume(self, assumed: AssumedPod) -> None:
        """Assume a pod on its chosen node."""

    def forget(self, assumed: AssumedPod) -> bool:
        """Undo `assume`; return whether the pod was still assumed."""
        raise NotImplementedError

    def bind_pod(self, assumed: AssumedPod, timeouts: Mapping[str, float]) -> None:
        """Bind a pod once the Permit plugins in `timeouts` have allowed it, each within its number of seconds."""

    def displace(self, pod: Pod, found: PostFilterResult) -> None:
        """Delete the victims of preemption on the node for which a pod is nominated."""

    def clear_nomination(self, pod: Pod) -> None:
        """Clear the nomination of a pod whose nominated node was given to a more important pod."""

    def handle_rejection(self, queued: QueuedPod, message: str, nominated: str | None, begun: float) -> None:
        """Report and requeue a rejected pod. `nominated` is its nominated node, "" for none, None for unchanged."""

    def handle_error(self, queued: QueuedPod, message: str, begun: float) -> None:
        """Report an internal error and requeue the pod."""


class Attempts:
    def __init__(
        self,
        engine: Engine,
        queue: SchedulingQueue,
        driver: Driver,
        post_filter: Callable[[Outcome], PostFilterResult] | None = None,
    ) -> None:
        self._engine = engine
        self._queue = queue
        self._driver = driver
        self._run_post_filter = post_filter or engine.post_filter
        self._plugins: dict[tuple[str, str], Sequence[tuple[str, Any]]] = {}
        for name, profile in engine.profiles.items():
            self._plugins["Reserve", name] = pair_with_names(profile.reserve)
            self._plugins["Permit", name] = pair_with_names(profile.permit)

    def schedule(self, queued: QueuedPod, pod: Pod, begun: float, *, until: float = inf) -> bool:
        """Try to schedule a pod; return whether the next pod must wait until this pod's victims are deleted.

        Raise UnfinishedError, with nothing done, if the pod's conditions are still being evaluated at `until`.
        """
        assumed: AssumedPod | None = None
        try:
            started = perf_counter()
            outcome = self._engine.schedule(pod, until=until)
            self._driver.record_evaluation(queued, outcome, perf_counter() - started)
            if outcome.error is not None:
                self._driver.handle_error(queued, outcome.error.message, begun)
            elif outcome.node is None:
                return self._handle_unschedulable(queued, outcome, begun)
            else:
                assumed = AssumedPod(queued, pod, outcome.node, outcome.profile, outcome.cycle, begun)
                self._assume(assumed)
        except UnfinishedError:
            raise
        except Exception as problem:  # a plugin's defect concerns its pod, not all others
            log.exception("scheduling a pod failed", extra={"fields": {"pod": queued.name}})
            status = error(f"{type(problem).__name__}: {problem}")
            if assumed is not None:
                self.requeue_rejected(assumed, status)
            else:
                self._driver.handle_error(queued, status.message, begun)
        return False

    # -- a node was found

    def _assume(self, assumed: AssumedPod) -> None:
        self._driver.assume(assumed)
        timeouts: dict[str, float] = {}
        status = self._run_plugins("Reserve", assumed, timeouts)
        if status.is_success:
            status = self._run_plugins("Permit", assumed, timeouts)
        if status.is_success:
            self._driver.bind_pod(assumed, timeouts)
        else:
            self.requeue_rejected(assumed, status)

    def _run_plugins(self, point: str, assumed: AssumedPod, timeouts: dict[str, float]) -> Status:
        """Run Reserve or Permit plugins; return the first rejection or success. Add plugins that wait to `timeouts`."""
        profile = assumed.profile.name
        started = begun = perf_counter()
        status = SUCCESS
        for name, plugin in self._plugins[point, profile]:
            if point == "Permit":
                status, seconds = plugin.permit(assumed.cycle, assumed.pod, assumed.node)
                if status.code is Code.WAIT:
                    timeouts[name] = seconds
            else:
                status = plugin.reserve(assumed.cycle, assumed.pod, assumed.node)
            now = perf_counter()
            self._driver.record_plugin(name, point, status, now - started)
            started = now
            if name in timeouts:
                status = SUCCESS
            elif not status.is_success:
                status = status.by(name)
                break
        said = Status(Code.WAIT) if timeouts and status.is_success else status
        self._driver.record_point(point, said, profile, perf_counter() - begun)
        return status

    def requeue_rejected(self, assumed: AssumedPod, status: Status) -> None:
        """Undo all reservations of a pod that was rejected after filtering or failed, and requeue the pod."""
        if not self.undo_reservations(assumed):
            self._queue.forget_in_flight(assumed.key)
        elif status.is_rejected:
            self._driver.handle_rejection(assumed.queued, status.message, None, assumed.begun)
            plugins = frozenset(filter(None, (status.plugin,)))
            self._queue.requeue(assumed.queued, plugins, plugins if status.code is Code.PENDING else frozenset())
        else:
            self._driver.handle_error(assumed.queued, status.message, assumed.begun)

    def undo_reservations(self, assumed: AssumedPod) -> bool:
        """Undo a pod's assumed placement and the plugins' reservations; return whether it was still assumed."""
        for plugin in reversed(assumed.profile.reserve):
            with log_exceptions(plugin, "unreserve"):
                plugin.unreserve(assumed.cycle, assumed.pod, assumed.node)
        return self._driver.forget(assumed)

    # -- no node was found

    def _handle_unschedulable(self, queued: QueuedPod, outcome: Outcome, begun: float) -> bool:
        pod, diagnosis = outcome.pod, outcome.diagnosis
        queued.template_key = self._engine.cluster.signatures.template_key(pod)
        if diagnosis is None or not len(self._engine.cluster):
            self._driver.handle_rejection(queued, NO_NODES, None, begun)
            self._queue.requeue(queued, frozenset())
            return False
        started = perf_counter()
        found = self._run_post_filter(outcome)
        self._driver.record_point("PostFilter", found.status, outcome.profile.name, perf_counter() - started)
        nominated = self._nominate(pod, found)
        if found.nominated is not None and found.victims:
            self._driver.displace(pod, found)
        message = diagnosis.message(found.status.message)
        self._driver.handle_rejection(queued, message, nominated, begun)
        self._queue.requeue(queued, diagnosis.plugins, _pending_plugins(diagnosis))
        return bool(found.victims) and not found.in_background

    def _nominate(self, pod: Pod, found: PostFilterResult) -> str | None:
        nominations = self._engine.nominations
        if found.nominated is None:
            if found.keeps_nomination:
                return None
            nominations.remove(pod)
            return ""
        for other in nominations.pods_on(found.nominated):
            if priority(other) < priority(pod):
                nominations.remove(other)
                self._driver.clear_nomination(other)
        nominations.put(pod, found.nominated)
        return found.nominated


@contextmanager
def log_exceptions(plugin: object, what: str) -> Iterator[None]:
    """Run a block; log an exception of a plugin instead of raising it."""
    try:
        yield
    except Exception:
        log.exception("a plugin failed", extra={"fields": {"plugin": plugin_name_of(plugin), "extension_point": what}})


def _pending_plugins(diagnosis: Diagnosis) -> frozenset[str]:
    refusal = diagnosis.pre_filter
    return frozenset({refusal.plugin}) if refusal is not None and refusal.code is Code.PENDING else frozenset()


def pair_with_names(plugins: Iterable[P]) -> Sequence[tuple[str, P]]:
    """Pair plugins with their names."""
    return [(plugin_name_of(plugin), plugin) for plugin in plugins]


def plugin_name_of(plugin: object) -> str:
    return str(getattr(plugin, "name", type(plugin).__name__))
