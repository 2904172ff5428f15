"""The base of every controller: informers report changes, a rate-limited queue holds keys, workers reconcile them.

    class Labeller(Controller):
        name = "labeller"

        def __init__(self, context: Context) -> None:
            super().__init__(context)
            self.nodes = context.informers.of(Node)
            self.follow(self.nodes)

        async def reconcile(self, key: str) -> float | None:
            ...  # compare actual with desired state and write the difference; return when to look again, in seconds

A controller keeps no state that is not in the API server, so a restart changes no outcome. Time comes from the client's
clock, which tests control. A reconcile that raises is retried with a growing delay. Work that no key
starts is listed in `periodic`. Constructed by ``run.py``.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge

from mooring.api import errors
from mooring.api.apiextensions_v1 import ESTABLISHED, CustomResourceDefinition, holds
from mooring.api.errors import StatusError
from mooring.api.kinds import Kind, preference
from mooring.api.meta_v1 import Resource
from mooring.base import logs
from mooring.base.clock import Clock
from mooring.client import (
    Backoff,
    Client,
    ClientError,
    EventRecorder,
    Index,
    Informer,
    Informers,
    PatchType,
    WorkQueue,
    key_of,
)
from mooring.controllers.options import ControllerOptions

RETRY = Backoff(initial=0.005, maximum=300.0, jitter=0.5)
log = logs.get(__name__)
T = TypeVar("T", bound=Resource)
Item = TypeVar("Item")


KindHandler = Callable[[Kind], None]


class CustomKinds:
    """Tracks the kinds that CustomResourceDefinitions define, each in the server's preferred version.

    Controllers that handle all kinds call `follow`. Only the metadata of custom objects is cached.
    """

    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client
        self._known: dict[str, tuple[int, Kind]] = {}
        """By definition, its generation and its kind."""
        self._handlers: list[tuple[KindHandler, KindHandler]] = []
        definitions = informers.of(CustomResourceDefinition)
        definitions.add_handler(
            added=self._handle_definition,
            updated=lambda _, new: self._handle_definition(new),
            deleted=self._remove_kind,
        )

    def follow(self, added: KindHandler, removed: KindHandler) -> None:
        """Call `added` for every custom kind, existing or new, and `removed` when a kind is no longer served."""
        self._handlers.append((added, removed))
        for _, kind in self._known.values():
            added(kind)

    def _handle_definition(self, definition: CustomResourceDefinition) -> None:
        known = self._known.get(definition.metadata.name)
        generation = definition.metadata.generation
        if known is not None and known[0] == generation and holds(definition, ESTABLISHED):
            return
        self._remove_kind(definition)
        served = [version for version in definition.spec.versions if version.served]
        if not served or not holds(definition, ESTABLISHED):
            return
        from mooring.api.custom_kinds import kinds_of  # noqa: PLC0415 - clusters without any never need it

        learned = kinds_of(definition, metadata_only=True)
        preferred = min((version.name for version in served), key=preference)
        kind = next(kind for kind in learned.versions if kind.version == preferred)
        self._client.learn(learned.versions, learned.storage)
        self._known[definition.metadata.name] = (generation, kind)
        for added, _ in self._handlers:
            added(kind)

    def _remove_kind(self, definition: CustomResourceDefinition) -> None:
        known = self._known.pop(definition.metadata.name, None)
        if known is None:
            return
        for _, removed in self._handlers:
            removed(known[1])
        self._client.forget(known[1])


class ControllerMetrics:
    """Metrics of all controllers, with kube-controller-manager's names where it has them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["controller"]
        self.reconciles = Counter(
            "mooring_controller_reconciles", "Reconciled keys, by result.", [*labels, "result"], registry=registry
        )
        self.rejected_creates = Counter(
            "mooring_controller_rejected_creates",
            "Creates from a template that the API server refused.",
            labels,
            registry=registry,
        )
        self.held_creates = Counter(
            "mooring_controller_held_creates",
            "Creates skipped because the API server had just refused the same template.",
            labels,
            registry=registry,
        )
        self.depth = Gauge("workqueue_depth", "Keys that wait to be reconciled.", ["name"], registry=registry)


@dataclass
class Context:
    """The client, informers, options and recorders that the controllers of one run share."""

    client: Client
    informers: Informers
    options: ControllerOptions = field(default_factory=ControllerOptions)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    metrics: ControllerMetrics = field(init=False)
    _recorders: dict[str, EventRecorder] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.metrics = ControllerMetrics(self.registry)

    @property
    def clock(self) -> Clock:
        return self.client.clock

    @cached_property
    def custom_kinds(self) -> CustomKinds:
        return CustomKinds(self.client, self.informers)

    def recorder(self, component: str) -> EventRecorder:
        """Return the event recorder of a component, which is started and stopped with the controllers."""
        if component not in self._recorders:
            self._recorders[component] = EventRecorder(self.client, component)
        return self._recorders[component]

    async def start(self, stack: AsyncExitStack) -> None:
        """Start the informers and event recorders; they stop when the stack is closed."""
        for recorder in self._recorders.values():
            await stack.enter_async_context(recorder)
        await stack.enter_async_context(self.informers)


class Controller(ABC):
    """A reconcile loop: a queue of keys and its workers. Subclasses follow informers and implement `reconcile`."""

    name: str
    retry: Backoff = RETRY
    workers = 32
    periodic: Sequence[Callable[[], Coroutine[Any, Any, None]]] = ()
    """Endless coroutines that run beside the workers."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.client = context.client
        self.clock = context.clock
        self.queue: WorkQueue[str] = WorkQueue(self.clock, self.retry)
        context.metrics.depth.labels(self.name).set_function(lambda: len(self.queue))
        count = context.metrics.reconciles
        self._succeeded = count.labels(self.name, "success")
        self._failed = count.labels(self.name, "error")

    @abstractmethod
    async def reconcile(self, key: str) -> float | None:
        """Reconcile one object (`namespace/name`); return the seconds until it is reconciled again, or None."""

    def enqueue(self, obj: Resource) -> None:
        self.queue.add(key_of(obj))

    def follow(
        self, informer: Informer[T], handler: Callable[[T], None] | None = None, *, deleted: bool = False
    ) -> None:
        """Call a handler, by default `enqueue`, with each added or updated object; with `deleted`, also at deletion."""
        handle = handler or self.enqueue
        informer.add_handler(added=handle, updated=lambda _, new: handle(new), deleted=handle if deleted else None)

    async def delete(self, obj: Resource, **options: Any) -> None:
        """Delete an object; do nothing if it no longer exists. Raise Conflict if another one has its name now."""
        meta = obj.metadata
        with suppress(errors.NotFound):
            await self.client.delete(type(obj), meta.name, meta.namespace, uid=meta.uid, **options)

    async def remove_finalizer(self, obj: Resource, finalizer: str) -> None:
        """Remove a finalizer from an object, unless it no longer exists. Raise Conflict if the object has changed."""
        meta = obj.metadata
        left = [name for name in meta.finalizers if name != finalizer]
        body = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": left}}
        await self.patch(obj, body, type=PatchType.MERGE)

    async def patch(self, obj: Resource, body: Any, **options: Any) -> None:
        """Patch an object; do nothing if it no longer exists."""
        with suppress(errors.NotFound):
            await self.client.patch(type(obj), obj.metadata.name, body, obj.metadata.namespace, **options)

    async def patch_status(self, obj: Resource, status: dict[str, Any]) -> None:
        """Patch the status of an object, unless it no longer exists. Raise Conflict if another one has its name now."""
        await self.patch(obj, {"metadata": {"uid": obj.metadata.uid}, "status": status}, subresource="status")

    async def run(self) -> None:
        """Reconcile keys from the queue, and run `periodic`, until cancelled. Called when all informers have synced."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._run_worker(tasks, self.workers - 1))
            for work in self.periodic:
                tasks.create_task(work())

    async def _run_worker(self, tasks: asyncio.TaskGroup, more: int) -> None:
        """Reconcile keys until the queue shuts down; start another worker at the first key, if `more` may start."""
        while (key := await self.queue.get()) is not None:
            if more > 0:
                tasks.create_task(self._run_worker(tasks, more - 1))
                more = 0
            try:
                await self._reconcile_and_requeue(key)
            finally:
                self.queue.done(key)

    async def _reconcile_and_requeue(self, key: str) -> None:
        try:
            again = await self.reconcile(key)
        except (StatusError, ClientError) as error:
            delay = self._requeue_after_failure(key)
            quiet = isinstance(error, errors.Conflict | errors.NotFound)  # the cache was stale
            (log.debug if quiet else log.info)(
                "%s: %s, trying again in %.1f s: %s", self.name, key, delay, error, extra={"fields": {"key": key}}
            )
        except Exception:
            delay = self._requeue_after_failure(key)
            log.exception("%s: unexpected error while reconciling %s, trying again in %.1f s", self.name, key, delay)
        else:
            self._succeeded.inc()
            self.queue.forget(key)
            if again is not None:
                self.queue.add_after(key, again)

    def _requeue_after_failure(self, key: str) -> float:
        self._failed.inc()
        return self.queue.add_rate_limited(key)


ControllerFactory = Callable[[Context], Controller]


def index_by_namespace(informer: Informer[T]) -> Index[T]:
    return informer.index("namespace", lambda obj: [obj.metadata.namespace])


def index_by_owner(informer: Informer[T]) -> Index[T]:
    """Return an index of objects by the uids of their owners."""
    return informer.index("owner", lambda obj: [owner.uid for owner in obj.metadata.owner_references])


async def for_each_concurrently(items: Iterable[Item], work: Callable[[Item], Awaitable[None]], at_once: int) -> None:
    """Call a function for each item, several concurrently. An error or a cancellation ends all calls."""
    left = iter(items)  # shared: each task takes the next one

    async def process_remaining() -> None:
        for item in left:
            await work(item)

    tasks = [asyncio.create_task(process_remaining()) for _ in range(at_once)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def split_key(key: str) -> tuple[str, str]:
    """Split a key into namespace and name.

    >>> split_key("default/web"), split_key("node-1")
    (('default', 'web'), ('', 'node-1'))
    """
    namespace, _, name = key.rpartition("/")
    return namespace, name
