"""What every controller is made of: informers say what changed, a rate-limited queue what to look at, workers do it.

    class Labeller(Controller):
        name = "labeller"

        def __init__(self, context: Context) -> None:
            super().__init__(context)
            self.nodes = context.informers.of(Node)
            self.nodes.add_handler(added=self.enqueue, updated=lambda old, new: self.enqueue(new))

        async def reconcile(self, key: str) -> float | None:
            ...  # compare what is with what should be, and change it; return in how many seconds to look again

A controller keeps nothing that it could not find again: all state is in the API server, so a restart at any point
changes no outcome. Time comes from the client's clock, which tests drive. What a reconcile raises puts the key back
with a growing delay. A controller that is no queue of keys overrides `run`. Made by ``run.py`` from ``registry.py``.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cached_property

from prometheus_client import CollectorRegistry, Counter, Gauge

from mooring.api import errors
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import Resource
from mooring.base import logs
from mooring.base.clock import Clock
from mooring.client import Backoff, Client, ClientError, EventRecorder, Informers, WorkQueue, key_of
from mooring.controllers.custom_kinds import CustomKinds
from mooring.controllers.options import ControllerOptions

RETRY = Backoff(initial=0.005, maximum=300.0, jitter=0.5)
"""Between attempts that failed."""
log = logs.get(__name__)


class ControllerMetrics:
    """What all controllers count, with the names of kube-controller-manager where it has the same."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["controller"]
        self.reconciles = Counter(
            "mooring_controller_reconciles", "Keys worked on, by outcome.", [*labels, "result"], registry=registry
        )
        self.rejected_creates = Counter(
            "mooring_controller_rejected_creates",
            "Objects that the API server refused to create as their template has them.",
            labels,
            registry=registry,
        )
        self.held_creates = Counter(
            "mooring_controller_held_creates",
            "Times that nothing was created because the server had just refused its like.",
            labels,
            registry=registry,
        )
        self.depth = Gauge("workqueue_depth", "Keys that wait to be worked on.", ["name"], registry=registry)


@dataclass
class Context:
    """What controllers that run together share. Make one for each run."""

    client: Client
    informers: Informers
    options: ControllerOptions = field(default_factory=ControllerOptions)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    """Where controllers register metrics of their own."""
    metrics: ControllerMetrics = field(init=False)
    _recorders: dict[str, EventRecorder] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.metrics = ControllerMetrics(self.registry)

    @property
    def clock(self) -> Clock:
        return self.client.clock

    @cached_property
    def custom_kinds(self) -> CustomKinds:
        """The kinds that users have added."""
        return CustomKinds(self.client, self.informers)

    def recorder(self, component: str) -> EventRecorder:
        """Writes events in the name of a component; it is started and stopped with the controllers."""
        if component not in self._recorders:
            self._recorders[component] = EventRecorder(self.client, component)
        return self._recorders[component]

    async def enter(self, stack: AsyncExitStack) -> None:
        """Start what the controllers need, until the stack ends."""
        for recorder in self._recorders.values():
            await stack.enter_async_context(recorder)
        await stack.enter_async_context(self.informers)


class Controller(ABC):
    """One reconcile loop. Subclasses add handlers to informers in `__init__` and implement `reconcile`."""

    name: str
    """As `--controllers` and metrics have it."""
    retry: Backoff = RETRY
    workers = 32
    """How many objects it works on at a time."""

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
        """Bring one object (`namespace/name`) to where it should be. Returns in how many seconds to look again."""

    def enqueue(self, obj: Resource) -> None:
        """Have an object looked at."""
        self.queue.add(key_of(obj))

    async def run(self) -> None:
        """Work until cancelled. Called when all informers have synced."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._work(tasks, self.workers - 1))

    async def _work(self, tasks: asyncio.TaskGroup, more: int) -> None:
        """Be one of the workers. Whoever gets the first key of its life starts another one, of `more` that may be."""
        while (key := await self.queue.get()) is not None:
            if more > 0:
                tasks.create_task(self._work(tasks, more - 1))
                more = 0
            try:
                await self._reconcile(key)
            finally:
                self.queue.done(key)

    async def _reconcile(self, key: str) -> None:
        try:
            again = await self.reconcile(key)
        except (StatusError, ClientError) as error:
            delay = self._try_again(key)
            quiet = isinstance(error, errors.Conflict | errors.NotFound)  # the cache was a moment behind
            (log.debug if quiet else log.info)(
                "%s: %s, trying again in %.1f s: %s", self.name, key, delay, error, extra={"fields": {"key": key}}
            )
        except Exception:
            delay = self._try_again(key)
            log.exception("%s: a mistake while working on %s, trying again in %.1f s", self.name, key, delay)
        else:
            self._succeeded.inc()
            self.queue.forget(key)
            if again is not None:
                self.queue.add_after(key, again)

    def _try_again(self, key: str) -> float:
        self._failed.inc()
        return self.queue.add_rate_limited(key)


Factory = Callable[[Context], Controller]
"""How a controller is made: its class, as a rule."""


def split_key(key: str) -> tuple[str, str]:
    """Namespace and name.

    >>> split_key("default/web"), split_key("node-1")
    (('default', 'web'), ('', 'node-1'))
    """
    namespace, _, name = key.rpartition("/")
    return namespace, name
