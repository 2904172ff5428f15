"""How scheduling works. Read top to bottom.

    pop ──► schedule ──┬─ a node ──► assume ──► reserve ──► permit ──► pre-bind ──► bind in groups ──► bound
                       │                └──────────┴───────────┴──────────┴───────────┴─ forget, try again
                       └─ none ────► preempt? ──► tell why ──► wait until something helps

From `pop` to `permit` nothing waits, so every pod is judged by the cluster as the pod before it left it, and no two
pods get the same room. What follows runs beside the cycle. A pod is bound by one call that the API server refuses if
the pod has a node already, so nothing is bound twice, whoever else schedules; when somebody else was faster, informers
correct the columns (``events.py``).
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from time import perf_counter

from mooring.api.core_v1 import Pod
from mooring.api.errors import NotFound
from mooring.base import logs
from mooring.base.clock import Clock
from mooring.client import Client
from mooring.scheduler.assumptions import AssumedPod, Assumptions
from mooring.scheduler.binding import Binder
from mooring.scheduler.diagnosis import Diagnosis
from mooring.scheduler.engine import NO_NODES, Engine, Outcome
from mooring.scheduler.events import POD_DELETED, on_node
from mooring.scheduler.framework import (
    SUCCESS,
    Code,
    FilterPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    Scope,
    Status,
    error,
)
from mooring.scheduler.metrics import SchedulerMetrics
from mooring.scheduler.plugin_times import PluginTimes
from mooring.scheduler.plugins.default_binder import DefaultBinder
from mooring.scheduler.plugins.default_preemption import DefaultPreemption
from mooring.scheduler.preemption import NOT_TRIED, Preemption
from mooring.scheduler.queue import QueuedPod, SchedulingQueue
from mooring.scheduler.reports import SCHEDULER_ERROR, UNSCHEDULABLE, Reports, Verdict
from mooring.scheduler.victims import Victims
from mooring.scheduler.waiting import WaitingPod, WaitingPods

log = logs.get(__name__)

_TURN_SECONDS = 0.01
"""After so long others get a turn: informers, and the groups that are being bound."""
_SLOW_SECONDS = 0.1


class Cycle:
    def __init__(
        self,
        *,
        engine: Engine,
        queue: SchedulingQueue,
        assumptions: Assumptions,
        client: Client,
        reports: Reports,
        metrics: SchedulerMetrics,
        times: PluginTimes,
        waiting: WaitingPods,
        latest: Callable[[Pod], Pod | None],
    ) -> None:
        self._engine = engine
        self._queue = queue
        self._assumptions = assumptions
        self._clock: Clock = client.clock
        self._reports = reports
        self._metrics = metrics
        self._times = times
        self._waiting = waiting
        self._latest = latest
        self._victims = Victims(client, queue, reports, waiting)
        self.binder = Binder(client, self._settled)
        self._tasks: set[asyncio.Task[None]] = set()
        self._own_filters = {
            _name(plugin)
            for profile in engine.profiles.values()
            for plugin in profile.pre_bind
            if isinstance(plugin, FilterPlugin) and plugin.scope is Scope.POD
        }
        """PreBind plugins that also filter pod by pod."""

    async def run(self) -> None:
        """Schedule until cancelled."""
        binding = asyncio.create_task(self.binder.run(), name="binder")
        try:
            while True:
                await self._queue.wait()
                await self._turn()
                await asyncio.sleep(0)
        finally:
            tasks = [binding, *self._tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._victims.stop()

    async def _turn(self) -> None:
        until = perf_counter() + _TURN_SECONDS
        while (queued := self._queue.pop()) is not None:
            waits = self._schedule_one(queued)
            if waits:
                await self._victims.settled()
            if perf_counter() >= until:
                return

    # -- one pod

    def _schedule_one(self, queued: QueuedPod) -> bool:
        """Try to schedule a pod; whether the next one has to wait for the deletion of this one's victims."""
        begun, started = self._clock.monotonic(), perf_counter()
        pod = self._still_wanted(queued)
        if pod is None:
            self._queue.done(queued.key)
            return False
        try:
            outcome = self._engine.schedule(pod)
            seconds = perf_counter() - started
            self._metrics.judged(outcome, seconds)
            self._trace(queued, outcome, seconds)
            if outcome.error is not None:
                self._failed(queued, outcome.error.message, begun)
            elif outcome.node is None:
                return self._fits_nowhere(queued, outcome, begun)
            else:
                assumed = AssumedPod(queued, pod, outcome.node, outcome.profile, outcome.cycle, begun)
                self._assume(assumed, outcome)
        except Exception as problem:  # a plugin's defect concerns its pod, not all others
            log.exception("scheduling a pod failed", extra={"fields": {"pod": queued.name}})
            self._failed_in_between(queued, error(f"{type(problem).__name__}: {problem}"), begun)
        return False

    def _failed_in_between(self, queued: QueuedPod, status: Status, begun: float) -> None:
        assumed = self._assumptions.get(queued.key)
        if assumed is not None:
            self._back(assumed, status, None)
        else:
            self._failed(queued, status.message, begun)

    def _still_wanted(self, queued: QueuedPod) -> Pod | None:
        """The pod as it is now, unless it is gone, going, or has a node."""
        pod = self._latest(queued.pod)
        if pod is None or pod.spec.node_name or pod.metadata.deletion_timestamp is not None:
            return None
        queued.pod = pod
        return pod

    # -- a node was found

    def _assume(self, assumed: AssumedPod, outcome: Outcome) -> None:
        """Reckon with the pod on its node, and let the plugins claim what it needs there."""
        self._assumptions.assume(assumed)
        status = self._reserve(assumed)
        timeouts: dict[str, float] = {}
        if status.is_success:
            status = self._permit(assumed, timeouts)
        if not status.is_success:
            self._back(assumed, status, outcome.diagnosis)
            return
        if timeouts or self._has_work_before_binding(assumed):
            # From now on plugins find it, also when the next pod asks them for permission before the task has begun.
            waiting = self._waiting.add(assumed.pod, timeouts) if timeouts else None
            task = asyncio.create_task(self._prepare(assumed, waiting), name="pre-bind")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._queue.done(assumed.key)
            self._submit(assumed)

    def _submit(self, assumed: AssumedPod) -> None:
        assumed.submitted = perf_counter()
        self.binder.submit(assumed)

    def _reserve(self, assumed: AssumedPod) -> Status:
        started = perf_counter()
        status = SUCCESS
        for plugin in assumed.profile.reserve:
            status = plugin.reserve(assumed.cycle, assumed.pod, assumed.node).by(_name(plugin))
            if not status.is_success:
                break
        self._point("Reserve", status, assumed, started)
        return status

    def _permit(self, assumed: AssumedPod, timeouts: dict[str, float]) -> Status:
        """Ask whether the pod may be bound; plugins that let it wait are noted in `timeouts`."""
        started = perf_counter()
        status = SUCCESS
        for plugin in assumed.profile.permit:
            status, seconds = plugin.permit(assumed.cycle, assumed.pod, assumed.node)
            if status.code is Code.WAIT:
                timeouts[_name(plugin)] = seconds
                status = SUCCESS
            elif not status.is_success:
                status = status.by(_name(plugin))
                break
        self._point("Permit", status, assumed, started)
        return status

    def _has_work_before_binding(self, assumed: AssumedPod) -> bool:
        own = any(not isinstance(plugin, DefaultBinder) for plugin in assumed.profile.bind)
        return own or next(self._pre_binders(assumed), None) is not None

    def _pre_binders(self, assumed: AssumedPod) -> Iterator[PreBindPlugin]:
        """The PreBind plugins that have something to do: one that has skipped the pod when it filtered has not."""
        for plugin in assumed.profile.pre_bind:
            name = _name(plugin)
            if name not in self._own_filters or name in assumed.cycle.pre_filter or name in assumed.cycle.data:
                yield plugin

    async def _prepare(self, assumed: AssumedPod, waiting: WaitingPod | None) -> None:
        """Wait for permission, and do what must be done before a pod is bound."""
        try:
            if waiting is not None:
                started = perf_counter()
                status = await self._waiting.decided(waiting, self._clock)
                self._point("WaitOnPermit", status, assumed, started)
                if not status.is_success:
                    self._back(assumed, status, None)
                    return
            self._queue.done(assumed.key)  # from here on nobody refuses the pod; what goes wrong is tried again
            status = await self._pre_bind(assumed)
            if status.is_success:
                status = await self._bind(assumed)
            if status.is_skip:
                self._submit(assumed)
            elif status.is_success:
                self._settled(assumed, None)
            else:
                self._back(assumed, status, None)
        except Exception as problem:
            log.exception("preparing a pod for its node failed", extra={"fields": {"pod": assumed.queued.name}})
            self._back(assumed, error(f"{type(problem).__name__}: {problem}"), None)

    async def _pre_bind(self, assumed: AssumedPod) -> Status:
        started = perf_counter()
        status = SUCCESS
        for plugin in self._pre_binders(assumed):
            status = (await plugin.pre_bind(assumed.cycle, assumed.pod, assumed.node)).by(_name(plugin))
            if not status.is_success:
                break
        self._point("PreBind", status, assumed, started)
        return status

    async def _bind(self, assumed: AssumedPod) -> Status:
        """Let plugins bind that have a way of their own; SKIP leaves the pod to the next group."""
        started = perf_counter()
        status = Status(Code.SKIP)
        for plugin in assumed.profile.bind:
            if isinstance(plugin, DefaultBinder):
                return Status(Code.SKIP)
            status = (await plugin.bind(assumed.cycle, assumed.pod, assumed.node)).by(_name(plugin))
            if not status.is_skip:
                self._point("Bind", status, assumed, started)
                return status
        return status

    # -- the outcome of binding

    def _settled(self, assumed: AssumedPod, problem: Exception | None) -> None:
        """The server has said whether a pod is bound."""
        if assumed.submitted:
            self._point("Bind", SUCCESS if problem is None else Status(Code.ERROR), assumed, assumed.submitted)
        if problem is not None:
            self._not_bound(assumed, problem)
            return
        now = self._clock.monotonic()
        for plugin in assumed.profile.post_bind:
            with _logged(plugin, "post_bind"):
                plugin.post_bind(assumed.cycle, assumed.pod, assumed.node)
        self._metrics.attempted("scheduled", assumed.profile.name, now - assumed.begun)
        self._metrics.bound(assumed.queued, now)
        self._reports.scheduled(assumed.pod, assumed.node)

    def _not_bound(self, assumed: AssumedPod, problem: Exception) -> None:
        if isinstance(problem, NotFound) and self._latest(assumed.pod) is None:
            self._give_back(assumed)  # it was deleted on its way
            return
        self._back(assumed, error(f"binding rejected: {problem}"), None)

    def _back(self, assumed: AssumedPod, status: Status, diagnosis: Diagnosis | None) -> None:
        """Give back all that was claimed for a pod, and try it again unless somebody else has bound it."""
        was_ours = self._give_back(assumed)
        pod = self._still_wanted(assumed.queued)
        if pod is None or not was_ours:
            self._queue.done(assumed.key)
            return
        if status.is_rejected:
            self._refused(assumed.queued, status, status.message, assumed.begun, diagnosis)
        else:
            self._failed(assumed.queued, status.message, assumed.begun)

    def _give_back(self, assumed: AssumedPod) -> bool:
        """Free the room and what plugins hold, and wake who can use it; whether the pod was still on its way."""
        for plugin in reversed(assumed.profile.reserve):
            with _logged(plugin, "unreserve"):
                plugin.unreserve(assumed.cycle, assumed.pod, assumed.node)
        was_ours = self._assumptions.forget(assumed)
        self._queue.move(POD_DELETED, on_node(assumed.pod, assumed.node), None, but=assumed.key)
        return was_ours

    # -- no node was found

    def _fits_nowhere(self, queued: QueuedPod, outcome: Outcome, begun: float) -> bool:
        """Look for pods to displace, tell people why there is no node, and wait for something that helps."""
        pod, diagnosis = outcome.pod, outcome.diagnosis
        queued.shape = self._engine.cluster.info(pod).shape
        if not len(self._engine.cluster):
            self._tell(queued, Verdict(UNSCHEDULABLE, NO_NODES, None), outcome.profile.name, begun, diagnosis)
            self._queue.requeue(queued, frozenset())
            return False
        found = self._post_filter(outcome)
        message = outcome.message
        if diagnosis is not None and found.message:
            message = diagnosis.after_post_filter(found.message).message()
        nominated = self._nominate(pod, found)
        if found.node is not None and found.victims:
            self._metrics.preemption_attempts.add(())
            self._metrics.victims.observe((), len(found.victims))
            self._victims.preempt(pod, found.node, found.victims)
        verdict = Verdict(UNSCHEDULABLE, message, nominated)
        self._tell(queued, verdict, outcome.profile.name, begun, diagnosis)
        waits_for = _waits_for(diagnosis)
        self._queue.requeue(queued, diagnosis.plugins() if diagnosis is not None else frozenset(), waits_for)
        return bool(found.victims) and not _is_async(outcome)

    def _post_filter(self, outcome: Outcome) -> Preemption:
        """What the first PostFilter plugin that can do something for the pod does, or what all of them say."""
        started = perf_counter()
        found, said = NOT_TRIED, []
        for plugin in outcome.profile.post_filter:
            if isinstance(plugin, DefaultPreemption):
                found = self._engine.preempt(outcome)
                said += [f"preemption: {found.message}"] if found.message else []
            else:
                found = _as_preemption(self._ask(plugin, outcome))
                said += [found.message] if found.message else []
            if found.node is not None:
                break
        code = Code.SUCCESS if found.node is not None else Code.UNSCHEDULABLE
        labels = ("PostFilter", str(code), outcome.profile.name)
        self._metrics.point_durations.observe(labels, perf_counter() - started)
        return replace(found, message=", ".join(said))

    def _ask(self, plugin: PostFilterPlugin, outcome: Outcome) -> PostFilterResult:
        return plugin.post_filter(self._engine.cluster.info(outcome.pod), _Statuses(outcome.diagnosis))

    def _nominate(self, pod: Pod, found: Preemption) -> str | None:
        """Promise the node to the pod, and take it from less important ones; or take an old promise back."""
        nominations = self._engine.nominations
        if found.node is None:
            if found.keeps_nomination:
                return None
            nominations.remove(pod)
            return ""
        mine = pod.spec.priority or 0
        for other in nominations.on(found.node):
            if (other.spec.priority or 0) < mine:
                nominations.remove(other)
                self._reports.not_nominated(other)
        nominations.put(pod, found.node)
        return found.node

    # -- telling, and going back into the queue

    def _refused(
        self, queued: QueuedPod, status: Status, message: str, begun: float, diagnosis: Diagnosis | None
    ) -> None:
        """A plugin after filtering does not want the pod on its node."""
        self._tell(queued, Verdict(UNSCHEDULABLE, message), queued.profile, begun, diagnosis)
        plugins = frozenset(filter(None, (status.plugin,)))
        waits_for = plugins if status.code is Code.PENDING else frozenset()
        self._queue.requeue(queued, plugins, waits_for)

    def _failed(self, queued: QueuedPod, message: str, begun: float) -> None:
        """Something went wrong; the pod is not to blame."""
        self._metrics.attempted("error", queued.profile, self._clock.monotonic() - begun)
        self._reports.not_scheduled(queued.pod, Verdict(SCHEDULER_ERROR, message))
        self._queue.retry(queued)

    def _tell(
        self, queued: QueuedPod, verdict: Verdict, profile: str, begun: float, diagnosis: Diagnosis | None
    ) -> None:
        self._metrics.attempted("unschedulable", profile, self._clock.monotonic() - begun)
        self._reports.not_scheduled(queued.pod, verdict, diagnosis)

    def _point(self, point: str, status: Status, assumed: AssumedPod, started: float) -> None:
        labels = (point, str(status.code), assumed.profile.name)
        self._metrics.point_durations.observe(labels, perf_counter() - started)

    def _trace(self, queued: QueuedPod, outcome: Outcome, seconds: float) -> None:
        """Count how long the choice took, and log it when that was too long."""
        points = self._times.attempt_ended(outcome.profile.name)
        result = "scheduled" if outcome.node else "error" if outcome.error else "unschedulable"
        self._metrics.scheduling_durations.observe((result, outcome.profile.name), seconds)
        if seconds > _SLOW_SECONDS:
            fields = {
                "pod": queued.name,
                "seconds": round(seconds, 3),
                "nodes": outcome.considered,
                "feasible": outcome.feasible,
                "result": result,
                "attempt": queued.attempts,
                **{point: round(spent, 3) for point, spent in points.items()},
            }
            log.warning("choosing a node took long", extra={"fields": fields})


class _Statuses(Mapping[str, Status]):
    """Why each node refused a pod. Made when somebody looks, because most PostFilter plugins need not."""

    def __init__(self, diagnosis: Diagnosis | None) -> None:
        self._diagnosis = diagnosis

    @cached_property
    def _found(self) -> Mapping[str, Status]:
        return self._diagnosis.statuses() if self._diagnosis is not None else {}

    def __getitem__(self, node: str) -> Status:
        return self._found[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


@contextmanager
def _logged(plugin: object, what: str) -> Iterator[None]:
    """What may not fail: a plugin's defect there must not keep others from being told."""
    try:
        yield
    except Exception:
        log.exception("a plugin failed", extra={"fields": {"plugin": _name(plugin), "extension_point": what}})


def _waits_for(diagnosis: Diagnosis | None) -> frozenset[str]:
    """The plugins that wait for something outside of the scheduler."""
    refusal = None if diagnosis is None else diagnosis.pre_filter
    return frozenset({refusal.plugin}) if refusal is not None and refusal.code is Code.PENDING else frozenset()


def _is_async(outcome: Outcome) -> bool:
    return all(plugin.is_async for plugin in outcome.profile.post_filter if isinstance(plugin, DefaultPreemption))


def _as_preemption(result: PostFilterResult) -> Preemption:
    return Preemption(result.nominated, result.victims, result.status.message)


def _name(plugin: object) -> str:
    return str(getattr(plugin, "name", type(plugin).__name__))
