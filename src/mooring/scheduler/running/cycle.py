"""The scheduling cycle. Read top to bottom, with ``deciding/attempt.py``, which has the synchronous steps.

    pop ──► attempt ──┬─ granted ──► wait for permission ──► pre-bind ──► bind in batches ──► bound
             │        └──────────────────┴──────────────┴─ undo, retry
             └─ rejected ──► report why ──► wait until an event may help

From `pop` to `granted` nothing waits, so no two pods get the same room. The later steps run concurrently with the
cycle. The API server rejects a binding of a pod that has a node, so nothing is bound twice, also with several
schedulers; informers then correct the columns (``event_handlers.py``).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

from mooring.api.core_v1 import Pod
from mooring.api.errors import NotFound
from mooring.base import logs
from mooring.base.clock import Clock
from mooring.client import Client
from mooring.constraints.annotations import as_scheduled
from mooring.constraints.columns import UnfinishedError
from mooring.scheduler import framework as fwk
from mooring.scheduler.deciding.attempt import (
    AssumedPod,
    Assumptions,
    Attempts,
    Driver,
    log_exceptions,
    pair_with_names,
    plugin_name_of,
)
from mooring.scheduler.deciding.engine import Engine, Outcome
from mooring.scheduler.framework.waiting import WaitingPod, WaitingPods
from mooring.scheduler.queue import QueuedPod, SchedulingQueue
from mooring.scheduler.queue.cluster_events import POD_DELETED, on_node
from mooring.scheduler.running.binding import Binder
from mooring.scheduler.running.metrics import SchedulerMetrics
from mooring.scheduler.running.plugin_times import PluginTimes
from mooring.scheduler.running.reports import SCHEDULER_ERROR, UNSCHEDULABLE, NotScheduled, Reports
from mooring.scheduler.running.victims import Victims

log = logs.get(__name__)

_ROUND_SECONDS = 0.02
"""After scheduling for this long (a round), the cycle yields to the event loop: informers, and batches being bound.

The pods of a round are bound in one request, whose cost for the scheduler and the server hardly depends on their
number. A pod whose conditions are not evaluated on all nodes by then continues at the end of the next rounds.
"""
_ROUNDS_UNTIL_DOUBLED = 8
"""After this many rounds a pod has twice the time, so that it succeeds even if others evict its cached results."""
_SLOW_SECONDS = 0.1


class Cycle(Driver):
    """Pops pods and attempts to schedule them, and carries out the outcomes in a live cluster."""

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
        self._queue = queue
        self._assumptions = assumptions
        self._clock: Clock = client.clock
        self._reports = reports
        self._metrics = metrics
        self._times = times
        self._waiting = waiting
        self._get_latest_pod = latest
        self._attempts = Attempts(engine, queue, self)
        self._victims = Victims(client, queue, reports, waiting, latest)
        self.binder = Binder(client, self._finish_attempt)
        self._tasks: set[asyncio.Task[None]] = set()
        self._unfinished: dict[str, tuple[QueuedPod, int]] = {}
        self._pre_bind_plugins = {name: pair_with_names(profile.pre_bind) for name, profile in engine.profiles.items()}
        self._own_filters = {
            plugin_name_of(plugin)
            for profile in engine.profiles.values()
            for plugin in profile.pre_bind
            if isinstance(plugin, fwk.FilterPlugin) and fwk.Part.POD in plugin.filters.pod
        }
        self._group_binders = {
            profile.name: profile.bind[0]
            for profile in engine.profiles.values()
            if profile.bind and isinstance(profile.bind[0], fwk.GroupBindPlugin)
        }

    @property
    def is_busy(self) -> bool:
        """Return whether pods are being bound or victims deleted; meanwhile Event objects are not written."""
        return self.binder.is_busy or self._victims.is_busy

    async def prepare(self) -> None:
        """Call the Bind plugins of batches once without pods, so that they open connections before the first pod."""
        for binder in {id(binder): binder for binder in self._group_binders.values()}.values():
            with log_exceptions(binder, "bind_all"):
                await binder.bind_all([])

    async def run(self) -> None:
        """Schedule pods until cancelled."""
        binding = asyncio.create_task(self.binder.run(), name="binder")
        try:
            while True:
                if not self._unfinished:
                    await self._queue.wait()
                await self._run_round()
                await asyncio.sleep(0)
        finally:
            tasks = [binding, *self._tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._victims.stop()

    async def _run_round(self) -> None:
        until = perf_counter() + _ROUND_SECONDS
        while (queued := self._queue.pop()) is not None:
            await self._attempt_pod(queued, until)
            if perf_counter() >= until:
                break
        if self._unfinished:
            queued, rounds = min(self._unfinished.values(), key=lambda each: self._queue.sort_key_of(each[0]))
            await self._attempt_pod(queued, perf_counter() + _ROUND_SECONDS * (1 + rounds / _ROUNDS_UNTIL_DOUBLED))

    async def _attempt_pod(self, queued: QueuedPod, until: float) -> None:
        _, rounds = self._unfinished.pop(queued.key, (queued, 0))
        pod = self._refresh_pod(queued)
        if pod is None:
            self._queue.forget_in_flight(queued.key)
            return
        self._times.begin_attempt()
        try:
            waits = self._attempts.schedule(queued, pod, self._clock.monotonic(), until=until)
        except UnfinishedError:
            self._unfinished[queued.key] = queued, rounds + 1
            return
        if waits:
            await self._victims.wait_for_deletions()

    def _refresh_pod(self, queued: QueuedPod) -> Pod | None:
        pod = self._get_latest_pod(queued.pod)
        if pod is None or pod.spec.node_name or pod.metadata.deletion_timestamp is not None:
            return None
        queued.pod = as_scheduled(pod)
        return queued.pod

    def record_evaluation(self, queued: QueuedPod, outcome: Outcome, seconds: float) -> None:
        """Observe the duration of filtering and scoring in the metrics, and log attempts that were slow."""
        self._metrics.record_evaluation(outcome, seconds)
        points = self._times.record_attempt(outcome)
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

    def record_point(self, point: str, status: fwk.Status, profile: str, seconds: float) -> None:
        self._metrics.point_durations.observe((point, status.code, profile), seconds)

    def record_plugin(self, plugin: str, point: str, status: fwk.Status, seconds: float) -> None:
        self._times.record_call(plugin, point, status, seconds)

    def assume(self, assumed: AssumedPod) -> None:
        self._assumptions.assume(assumed)

    def forget(self, assumed: AssumedPod) -> bool:
        """Drop the assumption that a pod is on its node, and wake the pods that the freed room may help.

        Return whether the pod was assumed until now and still needs a node.
        """
        was_ours = self._assumptions.forget(assumed)
        self._queue.move(POD_DELETED, on_node(assumed.pod, assumed.node), None, but=assumed.key)
        return was_ours and self._refresh_pod(assumed.queued) is not None

    def displace(self, pod: Pod, found: fwk.PostFilterResult) -> None:
        self._metrics.preemption_attempts.add(())
        self._metrics.victims.observe((), len(found.victims))
        self._victims.preempt(pod, found.nominated or "", found.victims, found.status.plugin)

    def clear_nomination(self, pod: Pod) -> None:
        self._reports.clear_nomination(pod)

    def handle_rejection(self, queued: QueuedPod, message: str, nominated: str | None, begun: float) -> None:
        self._metrics.record_attempt("unschedulable", queued.profile, self._clock.monotonic() - begun)
        self._reports.not_scheduled(queued.pod, NotScheduled(UNSCHEDULABLE, message, nominated))

    def handle_error(self, queued: QueuedPod, message: str, begun: float) -> None:
        self._metrics.record_attempt("error", queued.profile, self._clock.monotonic() - begun)
        self._reports.not_scheduled(queued.pod, NotScheduled(SCHEDULER_ERROR, message))
        self._queue.retry(queued)

    def bind_pod(self, assumed: AssumedPod, timeouts: Mapping[str, float]) -> None:
        binder = self._group_binders.get(assumed.profile.name)
        if binder is not None and not timeouts and not self._pre_binders(assumed):
            self._queue.forget_in_flight(assumed.key)
            self.binder.submit(assumed, binder)
            return
        # From now on plugins find it, also when the next pod asks them for permission before the task has begun.
        waiting = self._waiting.add(assumed.pod, timeouts) if timeouts else None
        task = asyncio.create_task(self._permit_and_bind(assumed, waiting), name="pre-bind")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _pre_binders(self, assumed: AssumedPod) -> Sequence[tuple[str, fwk.PreBindPlugin]]:
        own, cycle = self._own_filters, assumed.cycle
        return [
            (name, plugin)
            for name, plugin in self._pre_bind_plugins[assumed.profile.name]
            if name not in own or name in cycle.pre_filter or name in cycle.data
        ]

    async def _permit_and_bind(self, assumed: AssumedPod, waiting: WaitingPod | None) -> None:
        try:
            status = fwk.SUCCESS
            if waiting is not None:
                started = perf_counter()
                status = await self._waiting.wait_for_decision(waiting, self._clock)
                self.record_point("WaitOnPermit", status, assumed.profile.name, perf_counter() - started)
            if status.is_success:
                self._queue.forget_in_flight(assumed.key)  # from here on no plugin rejects the pod; errors are retried
                status = await self._run_pre_bind_plugins(assumed)
            if status.is_success:
                await self._bind(assumed)
            else:
                self._attempts.requeue_rejected(assumed, status)
        except Exception as problem:
            log.exception("preparing a pod for its node failed", extra={"fields": {"pod": assumed.queued.name}})
            self._attempts.requeue_rejected(assumed, fwk.error(f"{type(problem).__name__}: {problem}"))

    async def _run_pre_bind_plugins(self, assumed: AssumedPod) -> fwk.Status:
        started = begun = perf_counter()
        status = fwk.SUCCESS
        for name, plugin in self._pre_binders(assumed):
            status = (await plugin.pre_bind(assumed.cycle, assumed.pod, assumed.node)).by(name)
            now = perf_counter()
            self.record_plugin(name, "PreBind", status, now - started)
            started = now
            if not status.is_success:
                break
        self.record_point("PreBind", status, assumed.profile.name, perf_counter() - begun)
        return status

    async def _bind(self, assumed: AssumedPod) -> None:
        status = fwk.error("no plugin binds the pod")
        for plugin in assumed.profile.bind:
            if isinstance(plugin, fwk.GroupBindPlugin):
                self.binder.submit(assumed, plugin)
                return
            started = perf_counter()
            said = (await plugin.bind(assumed.cycle, assumed.pod, assumed.node)).by(plugin_name_of(plugin))
            if not said.is_skip:
                status = said
                self.record_point("Bind", status, assumed.profile.name, perf_counter() - started)
                break
        if status.is_success:
            self._finish_attempt(assumed, None)
        else:
            self._attempts.requeue_rejected(assumed, status)

    def _finish_attempt(self, assumed: AssumedPod, problem: Exception | None) -> None:
        if assumed.submitted:
            status = fwk.SUCCESS if problem is None else fwk.Status(fwk.Code.ERROR)
            seconds = perf_counter() - assumed.submitted
            self.record_point("Bind", status, assumed.profile.name, seconds)
            self.record_plugin(plugin_name_of(assumed.binder), "Bind", status, seconds)
        if problem is not None:
            if isinstance(problem, NotFound) and self._get_latest_pod(assumed.pod) is None:
                self._attempts.undo_reservations(assumed)  # it was deleted on its way
            else:
                self._attempts.requeue_rejected(assumed, fwk.error(f"binding rejected: {problem}"))
            return
        now = self._clock.monotonic()
        for plugin in assumed.profile.post_bind:
            with log_exceptions(plugin, "post_bind"):
                plugin.post_bind(assumed.cycle, assumed.pod, assumed.node)
        self._metrics.record_attempt("scheduled", assumed.profile.name, now - assumed.begun)
        self._metrics.record_bound(assumed.queued, now)
        self._reports.report_scheduled(assumed.pod, assumed.node)
