"""Informers: all objects of a kind, listed once and then kept current by a watch.

    informers = Informers(client)
    pods = informers.of(core_v1.Pod)
    by_node = pods.index("node", lambda pod: [pod.spec.node_name])
    pods.add_handler(added=..., updated=..., deleted=...)
    async with informers:
        await informers.wait_for_sync()

A watch that ends is resumed from its last version; if the server no longer has that version (410), the objects are
listed again and handlers receive the differences. Handlers are plain functions; the event loop calls them with changes
that arrived together, after the cache has applied them. Objects are shared: do not modify. They have no managed fields.
Read next: ``cache.py`` and ``watch.py``.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Generic, Self, TypeVar

from mooring.api import errors
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import Resource
from mooring.base import logs
from mooring.client.cache import Cache, Change, Index, ValuesOf
from mooring.client.client import Client
from mooring.client.errors import ClientError, DisconnectedError
from mooring.client.watch import Watch, WatchEvent
from mooring.client.workqueue import Backoff

T = TypeVar("T", bound=Resource)
BatchHandler = Callable[[Sequence[Change[T]]], None]

BACKOFF = Backoff(initial=0.8, maximum=30.0, jitter=1.0)
_WATCH_SECONDS = 300
_SHORTEST_WATCH_SECONDS = 1.0
_SILENT_SECONDS = 150.0
"""The seconds after which a silent watch counts as broken: a server sends at least a bookmark in this time."""
_TIMER_LASTS_SECONDS = 1.0
"""The seconds until a watch's timeout is reset again: resetting it costs as much as applying an event."""
_MAX_CHANGES_AT_ONCE = 1000
_CONCURRENT_LISTS = 4
"""The maximum number of lists, and of watches being opened, at a time.

Turns are given in the order of requests, so that all lists precede the first watch: caches are full before each watch
opens its connection.
"""
_MAX_EVENTS_AT_ONCE = 100
"""The maximum number of events applied before other tasks of the event loop run, such as writes."""
_TOO_LARGE = "ResourceVersionTooLarge"
log = logs.get(__name__)


class Informer(Generic[T]):
    """A cache of one kind's objects, kept current by list and watch, with handlers for changes.

    It may be restricted to a namespace or by a field selector. Create it with `Informers.of`.
    """

    def __init__(
        self,
        client: Client,
        cls: type[T],
        namespace: str = "",
        *,
        field_selector: str = "",
        backoff: Backoff = BACKOFF,
        turns: asyncio.Semaphore | None = None,
        allow_stale: bool = False,
    ) -> None:
        self._client = client
        self._cls = cls
        self._kind = client.kind(cls)
        self._namespace = namespace
        self._field_selector = field_selector
        self._backoff = backoff
        self._turns = turns or asyncio.Semaphore()
        self._allow_stale = allow_stale
        self._cache: Cache[T] = Cache()
        self._handlers: list[BatchHandler[T]] = []
        self._synced = asyncio.Event()
        self._answered = asyncio.Event()
        self._version = ""
        self._failures = 0

    # -- reading

    def get(self, name: str, namespace: str = "") -> T | None:
        return self._cache.objects.get(f"{namespace}/{name}" if namespace else name)

    def by_key(self, key: str) -> T | None:
        """Return the cached object with a key (`namespace/name`, see `key_of`); None if there is none."""
        return self._cache.objects.get(key)

    def objects(self) -> Collection[T]:
        """Return a live view of the cached objects: copy it before awaiting something while iterating."""
        return self._cache.objects.values()

    def __len__(self) -> int:
        return len(self._cache.objects)

    def index(self, name: str, values_of: ValuesOf[T]) -> Index[T]:
        """Return the named index, which groups cached objects by a function's values; the first call creates it."""
        return self._cache.index(name, values_of)

    @property
    def has_synced(self) -> bool:
        """Return whether the first list is in the cache and handlers have received it."""
        return self._synced.is_set()

    async def wait_for_sync(self) -> None:
        await self._synced.wait()

    async def wait_for_answer(self) -> bool:
        """Wait until the first list was answered; return True if it succeeded, False if it was forbidden."""
        await self._answered.wait()
        return self.has_synced

    @property
    def is_failing(self) -> bool:
        """Return whether the last two or more requests failed, so that the cache may be stale."""
        return self._failures > 1

    @property
    def resource_version(self) -> str:
        """Return the resourceVersion up to which the cache has all changes; empty before the first list."""
        return self._version

    # -- handlers

    def add_handler(
        self,
        *,
        added: Callable[[T], None] | None = None,
        updated: Callable[[T, T], None] | None = None,
        deleted: Callable[[T], None] | None = None,
    ) -> None:
        """Register functions for changes: `added(new)`, `updated(old, new)`, `deleted(last)`.

        `added` is called at once for each object that is already cached.
        """

        def call_each(changes: Sequence[Change[T]]) -> None:
            for old, new in changes:
                try:
                    if old is None and new is not None and added is not None:
                        added(new)
                    elif new is None and old is not None and deleted is not None:
                        deleted(old)
                    elif old is not None and new is not None and updated is not None:
                        updated(old, new)
                except Exception:
                    log.exception("a handler of %s failed", self._kind.plural)

        self.add_batch_handler(call_each)

    def add_batch_handler(self, handler: BatchHandler[T]) -> None:
        """Register a function that gets each list of changes received together; first, cached objects as additions."""
        self._handlers.append(handler)
        if self._cache.objects:
            self._call_handlers([Change(None, obj) for obj in self._cache.objects.values()], [handler])

    def remove_batch_handler(self, handler: BatchHandler[T]) -> None:
        self._handlers.remove(handler)

    # -- running

    async def run(self) -> None:
        """List the objects and watch them, again after every failure, until cancelled."""
        while True:
            wait = 0.0
            try:
                if not self._version:
                    await self._list_objects()
                await self._watch_objects()
            except (StatusError, ClientError) as error:
                wait = self._handle_error(error)
            if wait:
                await self._client.clock.sleep(wait)

    def _handle_error(self, error: StatusError | ClientError) -> float:
        """Log a failed list or watch and return the seconds to wait; after an expired version, list again next."""
        self._failures += 1
        if isinstance(error, errors.Forbidden):
            self._answered.set()
        if _is_unknown_version(error):
            log.info("listing %s again: %s", self._kind.plural, error)
            self._version = ""
            return self._backoff.delay(self._failures - 1)  # the first time there is nothing to wait for
        level = logging.WARNING if self._failures > 1 else logging.INFO
        log.log(level, "cannot follow %s, trying again: %s", self._kind.plural, error)
        return max(self._backoff.delay(self._failures), _get_retry_after(error))

    async def _list_objects(self) -> None:
        # A later stale list would undo changes, and an answer that is too large may come in pages.
        allow_stale = self._allow_stale and not self.has_synced and not self._failures
        async with self._turns:
            listing = await self._client.list(
                self._cls,
                self._namespace,
                field_selector=self._field_selector,
                resource_version="0" if allow_stale else "",
                managed_fields=False,
            )
        handlers = list(self._handlers)  # one that is added meanwhile hears of everything in the cache by itself
        changes = self._cache.replace(listing.items)
        for begin in range(0, len(changes), _MAX_CHANGES_AT_ONCE):
            if begin:
                await asyncio.sleep(0)
            self._call_handlers(changes[begin : begin + _MAX_CHANGES_AT_ONCE], handlers)
        self._version = listing.resource_version
        self._synced.set()
        self._answered.set()

    async def _watch_objects(self) -> None:
        """Apply a watch's events until the server ends it. Raise DisconnectedError if it ends at once, eventless."""
        clock = self._client.clock
        begun = clock.monotonic()
        seconds = round(_WATCH_SECONDS * random.uniform(1, 2))  # noqa: S311 - spreads the load, no secret
        watch = self._client.watch(
            self._cls,
            self._namespace,
            resource_version=self._version,
            timeout_seconds=seconds,
            field_selector=self._field_selector,
            for_cache=True,
        )
        async with AsyncExitStack() as opened:
            async with self._turns:
                events = await opened.enter_async_context(watch)
            has_events = await self._read_events(events)
        if not has_events and clock.monotonic() - begun < _SHORTEST_WATCH_SECONDS:
            raise DisconnectedError("the watch ended as soon as it had begun")
        self._failures = 0

    async def _read_events(self, watch: Watch[T]) -> bool:
        """Apply the events of a watch; return whether there were any. Raise DisconnectedError after a long silence."""
        has_events = False
        now = asyncio.get_running_loop().time
        set_at = now()
        try:
            async with asyncio.timeout(_SILENT_SECONDS) as silence:
                async for events in watch:
                    has_events = True
                    if now() > set_at + _TIMER_LASTS_SECONDS:
                        set_at = now()
                        silence.reschedule(set_at + _SILENT_SECONDS)
                    self._failures = 0
                    await self._apply_events_in_chunks(events)
        except TimeoutError:
            raise DisconnectedError(f"the watch sent nothing for {_SILENT_SECONDS:g} s, not even a bookmark") from None
        return has_events

    async def _apply_events_in_chunks(self, events: list[WatchEvent[T]]) -> None:
        for begin in range(0, len(events), _MAX_EVENTS_AT_ONCE):
            if begin:
                await asyncio.sleep(0)
            self._apply_events(events[begin : begin + _MAX_EVENTS_AT_ONCE])

    def _apply_events(self, events: list[WatchEvent[T]]) -> None:
        changes = self._cache.apply(events)
        self._version = events[-1].object.metadata.resource_version or self._version
        if changes:
            self._call_handlers(changes, self._handlers)

    def _call_handlers(self, changes: Sequence[Change[T]], handlers: Sequence[BatchHandler[T]]) -> None:
        for handler in list(handlers):
            try:
                handler(changes)
            except Exception:  # a mistake of one handler must not keep the others from hearing
                log.exception("a handler of %s failed", self._kind.plural)


class RelayingInformer(Informer[T]):
    """An informer that copies no data: it uses the cache of another informer in this process and relays its changes.

    Its handlers first receive the existing objects, and then every change.
    """

    def __init__(self, client: Client, cls: type[T], source: Informer[T]) -> None:
        super().__init__(client, cls)
        self._source = source
        self._cache = source._cache

    def add_batch_handler(self, handler: BatchHandler[T]) -> None:
        if self.has_synced:
            super().add_batch_handler(handler)
        else:
            self._handlers.append(handler)

    async def wait_for_answer(self) -> bool:
        if await self._source.wait_for_answer():
            await self.wait_for_sync()
        return self.has_synced

    @property
    def is_failing(self) -> bool:
        return self._source.is_failing

    @property
    def resource_version(self) -> str:
        return self._source.resource_version

    async def run(self) -> None:
        """Relay the other informer's changes to the handlers until cancelled."""
        await self._source.wait_for_sync()
        relay = partial(self._call_handlers, handlers=self._handlers)
        self._source.add_batch_handler(relay)
        self._synced.set()
        try:
            await asyncio.Event().wait()
        finally:
            self._source.remove_batch_handler(relay)


class Informers:
    """The informers of one component, one for each kind, namespace and field selector, shared by all callers.

    `shared` are those of another component in this process, whose caches are used. `allow_stale` lets the first lists
    come from the server's cache, which may be a moment old (`Client.list`).
    """

    def __init__(self, client: Client, *, shared: "Informers | None" = None, allow_stale: bool = False) -> None:
        self.client = client
        self._allow_stale = allow_stale
        self._shared = shared
        self._informers: dict[tuple[type[Resource], str, str], Informer[Any]] = {}
        self._tasks: dict[Informer[Any], asyncio.Task[None]] = {}
        self._running = False
        self._turns = asyncio.Semaphore(_CONCURRENT_LISTS)

    def of(self, cls: type[T], namespace: str = "", *, field_selector: str = "") -> Informer[T]:
        """Return the informer for a kind, namespace and selector; create a missing one, which `async with` runs."""
        key = (cls, namespace, field_selector)
        informer = self._informers.get(key)
        if informer is None:
            source = self._shared._informers.get(key) if self._shared is not None else None
            if source is not None:
                informer = RelayingInformer(self.client, cls, source)
            else:
                informer = Informer(
                    self.client,
                    cls,
                    namespace,
                    field_selector=field_selector,
                    turns=self._turns,
                    allow_stale=self._allow_stale,
                )
            self._informers[key] = informer
            if self._running:
                self._start_informer(informer)
        return informer

    def follows(self, cls: type[Resource]) -> bool:
        """Return whether there is an informer for all objects of a kind, in all namespaces."""
        return (cls, "", "") in self._informers

    def forget(self, cls: type[Resource]) -> None:
        """Stop and remove the informers of a custom kind that was deleted."""
        for key in [key for key in self._informers if key[0] is cls]:
            task = self._tasks.pop(self._informers.pop(key), None)
            if task is not None:
                task.cancel()

    async def wait_for_sync(self) -> None:
        """Wait until every informer has its first list in the cache."""
        for informer in list(self._informers.values()):
            await informer.wait_for_sync()

    async def __aenter__(self) -> Self:
        """Start the list and watch tasks of all informers; those created later start at once."""
        self._running = True
        for informer in self._informers.values():
            self._start_informer(informer)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._running = False
        tasks, self._tasks = list(self._tasks.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start_informer(self, informer: Informer[Any]) -> None:
        task = asyncio.create_task(informer.run())
        task.add_done_callback(_log_informer_failure)
        self._tasks[informer] = task


def _log_informer_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("an informer has failed and its cache is no longer up to date", exc_info=error)


def _is_unknown_version(error: Exception) -> bool:
    """Return whether an error says that the requested version is compacted, or newer than any that the server has."""
    if isinstance(error, errors.Gone):
        return True
    details = error.status.details if isinstance(error, errors.Timeout) else None
    return details is not None and any(cause.reason == _TOO_LARGE for cause in details.causes)


def _get_retry_after(error: Exception) -> float:
    """Return the seconds that the error's Retry-After asks to wait; 0 if it has none."""
    details = error.status.details if isinstance(error, StatusError) else None
    return float(details.retry_after_seconds) if details else 0.0
