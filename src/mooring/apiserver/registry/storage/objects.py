"""Read objects for parts of the server: one by one, or all of a kind, kept current by a watch."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cache
from typing import Any, Generic, TypeVar, cast

from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.api.scheme import Scheme
from mooring.apiserver.registry.storage.stored import Stored
from mooring.base import logs
from mooring.store.errors import Closed, RevisionError, StoreError
from mooring.store.kv import KeyValue, Store

log = logs.get(__name__)
R = TypeVar("R", bound=Resource)
_RETRY_SECONDS = 1.0


class Objects:
    """Reads objects of any kind from the store, decoded into the type that the caller names."""

    def __init__(self, store: Store, scheme: Scheme) -> None:
        self._store = store
        self._stored_kind = cache(lambda object_type: Stored(scheme, scheme.hub_of(object_type)))

    async def get(self, object_type: type[R], name: str, namespace: str = "") -> R | None:
        """Return the object with a name, read from the store; None if it does not exist."""
        stored = self._stored_kind(object_type)
        kv = await self._store.get(stored.key(namespace, name))
        return stored.decode_as(object_type, kv) if kv else None

    async def list(self, object_type: type[R], namespace: str = "") -> list[R]:
        """Return all objects of a kind from the store, in one namespace or, if it is empty, in all."""
        stored = self._stored_kind(object_type)
        page = await self._store.range(stored.prefix_of(namespace))
        return [stored.decode_as(object_type, kv) for kv in page.items]


async def repeat_until_closed(follow: Callable[[], Awaitable[None]]) -> None:
    """Call a function (list and watch) again after it fails, until the store is closed."""
    while True:
        try:
            await follow()
        except RevisionError:
            continue
        except Closed:
            return
        except StoreError as error:
            log.warning("The store cannot be followed", extra={"fields": {"why": str(error)}})
            await asyncio.sleep(_RETRY_SECONDS)


class Follower(Generic[R]):
    """A copy of all objects of a kind, kept current by a watch of the store; calls `changed` after each batch."""

    def __init__(
        self, store: Store, scheme: Scheme, kind: Kind, changed: Callable[[], None], namespace: str = ""
    ) -> None:
        self.objects: dict[str, R] = {}
        """The objects by key: `namespace/name`, or the name alone."""
        self.synced = asyncio.Event()
        self._store = store
        self._stored_kind = Stored(scheme, kind)
        self._prefix = self._stored_kind.prefix_of(namespace)
        self._on_changes = changed
        self._revision = 0
        self._progress = asyncio.Event()

    async def run(self) -> None:
        """List and watch the objects, again after every failure, until the store is closed."""
        await repeat_until_closed(self._follow)

    async def _follow(self) -> None:
        page = await self._store.range(self._prefix)
        self.objects = {self._key_without_prefix(kv.key): self._decode_object(kv) for kv in page.items}
        self._notify_changes(page.revision)
        self.synced.set()
        with self._store.watch(self._prefix, after=page.revision) as watcher:
            while True:
                batch = await watcher.next()
                for event in batch.events:
                    if event.current:
                        self.objects[self._key_without_prefix(event.key)] = self._decode_object(event.current)
                    else:
                        self.objects.pop(self._key_without_prefix(event.key), None)
                if batch.events:
                    self._notify_changes(batch.revision)

    def _notify_changes(self, revision: int) -> None:
        self._revision = revision
        self._on_changes()
        self._progress.set()
        self._progress = asyncio.Event()

    async def catch_up(self) -> None:
        """Wait until `objects` has every object that is in the store at the time of the call."""
        page = await self._store.range(self._prefix)
        present = {self._key_without_prefix(kv.key): str(kv.mod_revision) for kv in page.items}
        while self._revision < page.revision and present != {
            name: obj.metadata.resource_version for name, obj in self.objects.items()
        }:
            await self._progress.wait()

    def _decode_object(self, kv: KeyValue) -> R:
        return cast("R", self._stored_kind.decode(kv.value, kv.mod_revision))

    def _key_without_prefix(self, key: str) -> str:
        return key.removeprefix(self._stored_kind.prefix)


class KindsFollower(ABC):
    """A base class for parts of the server that keep copies of all objects of several kinds."""

    def __init__(self, store: Store, scheme: Scheme, kinds: Iterable[Kind]) -> None:
        self._followers: dict[str, Follower[Any]] = {
            kind.kind: Follower(store, scheme, kind, self._on_changes) for kind in kinds
        }

    @abstractmethod
    def _on_changes(self) -> None:
        """Process changes of the followed objects; called after each batch, for subclasses to override."""

    def _objects(self, kind: str) -> Mapping[str, Any]:
        """Return the copies of a kind's objects by name; none if the kind is not followed."""
        return self._followers[kind].objects if kind in self._followers else {}

    async def run(self) -> None:
        """Follow the kinds until the store is closed."""
        await asyncio.gather(*(each.run() for each in self._followers.values()))

    async def wait_for_sync(self) -> None:
        for each in self._followers.values():
            await each.synced.wait()

    async def catch_up(self) -> None:
        """Wait until all objects that are in the store now were copied and processed."""
        for each in self._followers.values():
            await each.catch_up()
