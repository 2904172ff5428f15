"""Assemble and run a scheduler: informers, columns, queue and cycle.

    scheduler = Scheduler(client, config, options.for_component(component))
    await scheduler.run()              # until cancelled; `run_elected` first waits for the lease

All state comes from the API server, so a restart loses nothing: pods without a node are queued again, pods with one are
placed in the columns, and nominations are in the pods' status. `mooring scheduler` and `mooring up` run one. Read next:
``cycle.py``.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from mooring.api.core_v1 import Node, Pod
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import Resource
from mooring.api.states import has_ended
from mooring.base import logs
from mooring.cel.cache import ProgramCache
from mooring.client import Backoff, Client, ClientError, EventRecorder, Informer, Informers
from mooring.client.leader_election import ElectedComponent
from mooring.constraints.expressions import node_expressions, taint_expressions
from mooring.scheduler.deciding.attempt import Assumptions
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework.registry import PluginError
from mooring.scheduler.framework.waiting import WaitingPods
from mooring.scheduler.plugins import IN_TREE
from mooring.scheduler.queue import SchedulingQueue
from mooring.scheduler.queue.cluster_events import DEVICES, OTHER_KINDS
from mooring.scheduler.running.cycle import Cycle
from mooring.scheduler.running.event_handlers import EventHandlers
from mooring.scheduler.running.metrics import SchedulerMetrics
from mooring.scheduler.running.options import ComponentOptions, SchedulerConfig
from mooring.scheduler.running.plugin_times import PluginTimes
from mooring.scheduler.running.reports import Reports

log = logs.get(__name__)

_BACKOFF_SECONDS = 1.0
_UNSCHEDULABLE_SECONDS = 30.0
_EXPRESSIONS: dict[str, ProgramCache[Any]] = {"taint": taint_expressions, "node": node_expressions}
_DISCOVERY_RETRIES = Backoff(initial=0.5, maximum=10.0, jitter=0.5)
_LIVING_PODS = "status.phase!=Succeeded,status.phase!=Failed"


class Scheduler(ElectedComponent):
    """A scheduler that connects queue, engine, informers and cycle; it can run once.

    The constructor raises PluginError for a profile that cannot be built. `shared` are the informers of another
    component in the process, which live as long as this one: kinds that they follow are not listed again.
    """

    def __init__(
        self,
        client: Client,
        config: SchedulerConfig,
        component: ComponentOptions,
        *,
        metrics: SchedulerMetrics | None = None,
        seed: int = 0,
        shared: Informers | None = None,
    ) -> None:
        super().__init__(client, config.leader_election, component.version)
        self.metrics = metrics or SchedulerMetrics()
        features = component.features
        self.waiting = WaitingPods()
        times = PluginTimes(self.metrics)
        self.engine = Engine(
            config.profiles,
            features=features,
            registry={**IN_TREE, **config.plugins},
            client=client,
            waiting=self.waiting,
            seed=seed,
            timed=times.wrap,
        )
        _check_queue_sort(self.engine)
        self.queue = SchedulingQueue(
            self.engine.profiles,
            client.clock,
            backoffs=config.backoffs,
            pop_from_backoff=features.pop_from_backoff,
            on_arrival=self.metrics.record_arrival,
        )
        self.assumptions = Assumptions(self.engine)
        self._informers = Informers(client, shared=shared, allow_stale=True)
        self._device_informers = Informers(client, shared=shared, allow_stale=True)
        self._devices: dict[type[Resource], Informer[Any]] = {}
        self._pod_informers = Informers(client, shared=shared, allow_stale=True)
        all_pods = shared is not None and shared.follows(Pod)
        self._pods: Informer[Pod] = self._pod_informers.of(Pod, field_selector="" if all_pods else _LIVING_PODS)
        recorders = {
            name: EventRecorder(client, name, is_busy=lambda: self.cycle.is_busy or self._handlers.is_busy)
            for name in self.engine.profiles
        }
        self._reports = Reports(client, recorders, self._get_latest_pod)
        self.cycle = Cycle(
            engine=self.engine,
            queue=self.queue,
            assumptions=self.assumptions,
            client=client,
            reports=self._reports,
            metrics=self.metrics,
            times=times,
            waiting=self.waiting,
            latest=self._get_latest_pod,
        )
        self._handlers = EventHandlers(
            self.engine, self.queue, self.assumptions, self._reports, self.waiting, client.clock
        )
        _register_readers(self)

    async def run(self) -> None:
        """Schedule pods until cancelled."""
        await self._add_handlers()
        await self.cycle.prepare()
        self._reports.start()
        try:
            async with self._informers, self._device_informers:
                # Pods last: before their nodes and claims are known, each would be retried with every event.
                await self._informers.wait_for_sync()
                await self._wait_for_devices()
                async with self._pod_informers, asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._start_cycle(), name="cycle")
                    tasks.create_task(self._repeat(self.queue.flush_backoff, _BACKOFF_SECONDS), name="backoff")
                    flush = self._repeat(self.queue.flush_unschedulable, _UNSCHEDULABLE_SECONDS)
                    tasks.create_task(flush, name="unschedulable")
        finally:
            self._ready.clear()
            await self._reports.stop()

    async def _add_handlers(self) -> None:
        self._informers.of(Node).add_batch_handler(self._handlers.handle_nodes)
        served = await self._find_served_kinds()
        for cls, kind in OTHER_KINDS.items():
            if cls in served:
                informer: Informer[Any] = (self._device_informers if cls in DEVICES else self._informers).of(cls)
                informer.add_batch_handler(self._handlers.handler_for(kind))
                if cls in DEVICES:
                    self._devices[cls] = informer
        self._pods.add_batch_handler(self._handlers.handle_pods)

    async def _find_served_kinds(self) -> set[type[Resource]]:
        failures = 0
        while True:
            try:
                return await self._client.served(OTHER_KINDS)
            except (StatusError, ClientError) as problem:
                failures += 1
                log.warning("cannot ask what the API server serves, trying again: %s", problem)
                await self._client.clock.sleep(_DISCOVERY_RETRIES.delay(failures))

    async def _wait_for_devices(self) -> None:
        for cls, informer in self._devices.items():
            if not await informer.wait_for_answer():
                plural = self._client.kind(cls).plural
                log.warning("may not list %s: pods with resource claims wait until that is allowed", plural)

    async def _start_cycle(self) -> None:
        await self._pod_informers.wait_for_sync()
        counts = {pool.value: number for pool, number in self.queue.counts().items()}
        log.info("scheduling begins", extra={"fields": {"nodes": len(self.engine.cluster), **counts}})
        self._ready.set()
        await self.cycle.run()

    async def _repeat(self, action: Callable[[], None], seconds: float) -> None:
        while True:
            await self._client.clock.sleep(seconds)
            action()

    def _get_latest_pod(self, pod: Pod) -> Pod | None:
        found = self._pods.get(pod.metadata.name, pod.metadata.namespace)
        is_same = found is not None and found.metadata.uid == pod.metadata.uid and not has_ended(found)
        return found if is_same else None


def _check_queue_sort(engine: Engine) -> None:
    kinds = {type(profile.queue_sort) for profile in engine.profiles.values()}
    if len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise PluginError(f"all profiles must sort the queue with the same plugin, not with {names}")


def _register_readers(scheduler: Scheduler) -> None:
    metrics, queue, engine = scheduler.metrics, scheduler.queue, scheduler.engine

    def count_pending() -> Iterator[tuple[tuple[str, ...], float]]:
        for pool, number in queue.counts().items():
            yield (pool.value,), number

    def count_unschedulable() -> Iterator[tuple[tuple[str, ...], float]]:
        yield from Counter(queue.rejecting_plugins()).items()

    def count_cached() -> Iterator[tuple[tuple[str, ...], float]]:
        yield ("nodes",), len(engine.cluster)
        yield ("pods",), engine.cluster.pods_placed
        yield ("assumed_pods",), len(scheduler.assumptions)

    def count_expressions(number: str) -> Iterator[tuple[tuple[str, ...], float]]:
        for name, cache in _EXPRESSIONS.items():
            yield (name,), float(len(cache) if number == "size" else getattr(cache, number))

    rejected = "Waiting pods that a plugin refused; a pod that several refused counts for each."
    in_columns = "Nodes, pods and assumed pods in the columns."
    gauge, counter, add = GaugeMetricFamily, CounterMetricFamily, metrics.add_reader
    add(gauge, "scheduler_pending_pods", "Pods that wait, by queue.", ("queue",), count_pending)
    add(gauge, "scheduler_unschedulable_pods", rejected, ("plugin", "profile"), count_unschedulable)
    add(gauge, "scheduler_cache_size", in_columns, ("type",), count_cached)
    for name, family, text in (
        ("size", gauge, "Compiled CEL programs in the cache"),
        ("hits", counter, "CEL program cache hits"),
        ("misses", counter, "CEL program cache misses"),
    ):
        about = f"{text}, for taints and for nodes."
        add(family, f"mooring_cel_cache_{name}", about, ("cache",), partial(count_expressions, name))
