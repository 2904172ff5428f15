"""Determine which objects a workload controls, by adopting and releasing; track writes that caches do not show yet.

An object without a controller that the selector matches is adopted; one that it no longer matches is released. Both
patches name the uid, so that a stale cache is harmless; before adopting, the workload is read from the server, because
a terminating one must not adopt.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import msgspec

from mooring.api import errors, resource_version
from mooring.api.label_selector import Selector
from mooring.api.meta_v1 import OwnerReference, Resource
from mooring.api.resource_version import ResourceVersionError
from mooring.api.states import controller_of
from mooring.base.clock import Clock
from mooring.client import Change, Client, Informer, Informers, key_of

T = TypeVar("T", bound=Resource)


def build_controller_reference(client: Client, owner: Resource) -> OwnerReference:
    """Return the owner reference by which `owner` controls its dependents."""
    kind = client.kind(type(owner))
    return OwnerReference(
        api_version=kind.api_version,
        kind=kind.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def _controller_keys(obj: Resource) -> list[str]:
    owner = controller_of(obj.metadata)
    return [owner.uid if owner else f"{obj.metadata.namespace}/"]


class Children(Generic[T]):
    """Finds the cached objects of one kind by the workload that controls them; adopts, releases and deletes them."""

    def __init__(self, informers: Informers, cls: type[T]) -> None:
        self._client = informers.client
        self._cls = cls
        self.informer = informers.of(cls)
        self._index = self.informer.index("controller", _controller_keys)

    def owned_by(self, owner: Resource) -> list[T]:
        """Return the objects that the workload controls, whether or not its selector matches them."""
        return self.owned_by_uid(owner.metadata.uid)

    def owned_by_uid(self, uid: str) -> list[T]:
        return self._index.get(uid)

    def count_owned(self, owner: Resource) -> int:
        return self._index.count(owner.metadata.uid)

    async def claim(
        self,
        owner: Resource,
        selector: Selector,
        is_adoptable: Callable[[T], bool] = lambda _: True,
        finalizer: str = "",
    ) -> list[T]:
        """Adopt matching orphans, release objects that no longer match, and return those that the workload controls.

        Adopting adds `finalizer`, releasing removes it.
        """
        deleting = owner.metadata.deletion_timestamp is not None
        claimed = []
        children = self.owned_by(owner)
        labels = {id(child.metadata.labels): child.metadata.labels for child in children}  # shared within a template
        chosen = {number for number, own in labels.items() if selector.matches(own)}
        for child in children:
            if id(child.metadata.labels) in chosen:
                claimed.append(child)
            elif not deleting:
                await self._patch_metadata(child, self._release_patch(owner, child, finalizer))
        if deleting:
            return claimed
        wanted = [
            child
            for child in self._index.get(f"{owner.metadata.namespace}/")  # orphans
            if child.metadata.deletion_timestamp is None
            and selector.matches(child.metadata.labels)
            and is_adoptable(child)
        ]
        if wanted and await self._may_adopt(owner):
            adoption: dict[str, Any] = {"ownerReferences": [build_controller_reference(self._client, owner)]}
            adoption |= {"finalizers": [finalizer]} if finalizer else {}
            for child in wanted:
                adopted = await self._patch_metadata(child, adoption)
                claimed += [adopted] if adopted is not None else []
        return claimed

    async def delete(self, key: str, child: T, expectations: "Expectations", **options: Any) -> bool:
        """Delete an object of the workload `key`; return False if it no longer exists or was replaced."""
        meta = child.metadata
        try:
            await self._client.delete(self._cls, meta.name, meta.namespace, uid=meta.uid, **options)
        except (errors.NotFound, errors.Conflict):
            return False
        expectations.record_deletion(key, self.informer, child)
        return True

    async def _may_adopt(self, owner: Resource) -> bool:
        meta = owner.metadata
        stored = await self._client.find(type(owner), meta.name, meta.namespace)
        return stored is not None and stored.metadata.uid == meta.uid and stored.metadata.deletion_timestamp is None

    def _release_patch(self, owner: Resource, child: T, finalizer: str) -> dict[str, Any]:
        found: dict[str, Any] = {"ownerReferences": [{"$patch": "delete", "uid": owner.metadata.uid}]}
        if finalizer in child.metadata.finalizers:
            found["$deleteFromPrimitiveList/finalizers"] = [finalizer]
        return found

    async def _patch_metadata(self, child: T, metadata: dict[str, Any]) -> T | None:
        meta = child.metadata
        try:
            return await self._client.patch(
                self._cls, meta.name, {"metadata": {"uid": meta.uid, **metadata}}, meta.namespace
            )
        except (errors.NotFound, errors.Conflict, errors.Invalid):
            return None


class OwnerEnqueuer(Generic[T]):
    """A handler of informer changes that enqueues the workloads which control a changed object, or would adopt it."""

    def __init__(
        self, kind: str, add: Callable[[str], None], find_possible_owners: Callable[[T], Iterable[str]] = lambda _: ()
    ) -> None:
        self._kind = kind
        self._add = add
        self._find_possible_owners = find_possible_owners
        """Returns the keys of workloads that would adopt an object."""

    def __call__(self, changes: Iterable[Change[T]]) -> None:
        last_key = ""
        for change in changes:
            old, new = change
            now = controller_of(new.metadata) if new is not None else None
            before = controller_of(old.metadata) if old is not None else None
            for owner in (now,) if before is now else (before, now):  # caches share owner references
                if owner is not None and owner.kind == self._kind:
                    key = f"{change.object.metadata.namespace}/{owner.name}"
                    if key != last_key:  # pods of one workload arrive in a row
                        self._add(key)
                        last_key = key
            if new is not None and now is None and _affects_adoption(old, new):
                for key in self._find_possible_owners(new):
                    self._add(key)


def _affects_adoption(old: Resource | None, new: Resource) -> bool:
    if old is None:
        return True
    before, after = old.metadata, new.metadata
    return before.labels != after.labels or before.owner_references != after.owner_references


GIVE_UP_SECONDS = 300.0
"""The seconds after which a cache without an expected write counts as current: the server may have lost it."""


class _PendingWrites(msgspec.Struct):
    since: float
    versions: dict[Informer[Any], str] = msgspec.field(default_factory=dict)
    deleted: dict[str, tuple[Informer[Any], str]] = msgspec.field(default_factory=dict)
    """The deletions that the cache does not show yet: informer and key, by uid."""


class Expectations:
    """Track writes that the caches of one controller do not show yet: decisions by a stale cache do things twice.

    Kubernetes counts expected creates and deletes. Here the newest resourceVersion written is enough: wait until the
    informer has reached it, or for deletes until the cache shows the object as terminating. The same events enqueue
    the workload again.

        expectations.record_write("default/web", pods, created)
        expectations.is_settled("default/web")     # False until the informer has seen it
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending: dict[str, _PendingWrites] = {}

    def record_write(self, key: str, informer: Informer[Any], obj: Resource) -> None:
        """Record an object that the server returned for a create or update of a workload."""
        pending = self._get_or_create_pending(key)
        version = obj.metadata.resource_version
        if _is_version_reached(version, pending.versions.get(informer, "")):
            pending.versions[informer] = version

    def record_deletion(self, key: str, informer: Informer[Any], obj: Resource) -> None:
        """Record that a cached object was deleted on the server."""
        self._get_or_create_pending(key).deleted[obj.metadata.uid] = (informer, key_of(obj))

    def is_settled(self, key: str) -> bool:
        """Return whether all caches show every recorded write for a workload."""
        pending = self._pending.get(key)
        if pending is None:
            return True
        for informer, version in list(pending.versions.items()):
            if _is_version_reached(informer.resource_version, version):
                del pending.versions[informer]
        for uid, (informer, child) in list(pending.deleted.items()):
            obj = informer.by_key(child)
            if obj is None or obj.metadata.uid != uid or obj.metadata.deletion_timestamp is not None:
                del pending.deleted[uid]
        late = self._clock.monotonic() - pending.since > GIVE_UP_SECONDS
        if late or not (pending.versions or pending.deleted):
            del self._pending[key]
            return True
        return False

    def forget(self, key: str) -> None:
        """Drop the recorded writes of a deleted workload."""
        self._pending.pop(key, None)

    def _get_or_create_pending(self, key: str) -> _PendingWrites:
        now = self._clock.monotonic()
        pending = self._pending.setdefault(key, _PendingWrites(now))
        pending.since = now
        return pending


def _is_version_reached(version: str, wanted: str) -> bool:
    if not wanted:
        return True
    if not version:
        return False
    try:
        return resource_version.compare(version, wanted) >= 0
    except ResourceVersionError:  # unordered versions can only be compared for equality
        return version == wanted
