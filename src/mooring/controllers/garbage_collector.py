"""Deletes objects whose owners are gone, and finishes deletions that wait for dependents or let them go.

Three ways, as the one who deletes an owner chooses: in the background (dependents go when their owner is gone), in the
foreground (the owner waits for dependents that block it), and orphaning (dependents lose their reference and stay).
Works on objects of every kind, by `<resource> <namespace/name>`. Before an owner counts as gone, the server is asked.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mooring.api import errors
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import OwnerReference, Resource
from mooring.base import logs
from mooring.client import Index, Informer, PatchType, key_of
from mooring.controllers.controller import Context, Controller

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_NEEDED = {"list", "watch", "delete", "patch"}
_IGNORED = {"Event"}
_REMEMBERED = 10_000
Named = tuple[str, str, str, str, str]
"""How a dependent names its owner: its own namespace, and the owner's version, kind, name and uid."""
log = logs.get(__name__)


@dataclass(slots=True)
class Kept:
    """The objects of one kind."""

    kind: Kind
    objects: Informer[Any]
    by_owner: Index[Any]
    owners: Collection[str] = field(init=False)
    """All that own any of them, by uid."""

    def __post_init__(self) -> None:
        self.owners = self.by_owner.values()

    @property
    def name(self) -> str:
        return f"{self.kind.plural}.{self.kind.group}"


class Owners(msgspec.Struct):
    """What has become of the owners of an object."""

    solid: list[OwnerReference]
    """They exist, or cannot be judged."""
    dangling: list[OwnerReference]
    """They are gone."""
    waiting: list[OwnerReference]
    """They are being deleted and wait for this object."""


class GarbageCollector(Controller):
    """Works on objects, by resource and key."""

    name = "garbage-collector"
    workers = 512
    """What an owner leaves behind goes in groups of writes as large as those may be (``client/grouped.py``)."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._kept: dict[str, Kept] = {}
        self._by_kind: dict[tuple[str, str], Kept] = {}
        self._absent: OrderedDict[Named, None] = OrderedDict()
        """Owners that the server was asked for in vain; a uid never comes back."""
        self._asked: dict[Named, asyncio.Future[Resource | None]] = {}
        """What the server is being asked: thousands may want to know the same."""
        for kind in stored_kinds(self.client.scheme.served):
            if kind.kind not in _IGNORED:
                self._keep(kind)
        context.custom_kinds.follow(self._keep, self._drop)

    def _drop(self, kind: Kind) -> None:
        """A custom kind is gone, and its objects with it."""
        kept = self._by_kind.pop((kind.group, kind.kind), None)
        if kept is not None:
            self._kept.pop(kept.name, None)
            self.context.informers.forget(kind.type)

    def _keep(self, kind: Kind) -> None:
        objects: Informer[Any] = self.context.informers.of(kind.type)
        kept = Kept(kind, objects, objects.index("owner", _owner_uids))
        self._kept[kept.name] = self._by_kind[kind.group, kind.kind] = kept
        objects.add_handler(
            added=lambda obj: self._added(kept, obj),
            updated=lambda old, new: self._updated(kept, old, new),
            deleted=self._deleted,
        )

    # -- what changes

    def _added(self, kept: Kept, obj: Resource) -> None:
        meta = obj.metadata
        owned = meta.owner_references
        if meta.deletion_timestamp is not None or not all(self._is_solid(owner, meta.namespace) for owner in owned):
            self._look_at(kept, obj)

    def _updated(self, kept: Kept, old: Resource, new: Resource) -> None:
        before, after = old.metadata, new.metadata
        if after.deletion_timestamp is not None:
            if FOREGROUND in after.finalizers or ORPHAN in after.finalizers:
                self._look_at(kept, new)
        elif after.owner_references != before.owner_references:
            self._look_at(kept, new)
        if after.owner_references != before.owner_references:
            self._look_at_owners(old)

    def _deleted(self, obj: Resource) -> None:
        for kept, dependent in self._dependents(obj.metadata.uid):
            self._look_at(kept, dependent)
        self._look_at_owners(obj)

    def _look_at_owners(self, obj: Resource) -> None:
        """Owners may have waited for this object."""
        for reference in obj.metadata.owner_references:
            found = self._cached(reference, obj.metadata.namespace)
            if found is not None and found[1].metadata.deletion_timestamp is not None:
                self._look_at(*found)

    def _look_at(self, kept: Kept, obj: Resource) -> None:
        self.queue.add(f"{kept.name} {key_of(obj)}")

    def _dependents(self, uid: str) -> Iterator[tuple[Kept, Resource]]:
        for kept in self._kept.values():
            if uid in kept.owners:
                for dependent in kept.by_owner.get(uid):
                    yield kept, dependent

    # -- what follows

    async def reconcile(self, key: str) -> float | None:
        name, _, where = key.partition(" ")
        kept = self._kept.get(name)
        obj: Resource | None = kept.objects.by_key(where) if kept else None
        if kept is None or obj is None:
            return None
        if obj.metadata.deletion_timestamp is not None:
            await self._finish(kept, obj)
        elif obj.metadata.owner_references:
            await self._judge(kept, obj)
        return None

    async def _finish(self, kept: Kept, obj: Resource) -> None:
        """Do what a deletion waits for."""
        finalizers = obj.metadata.finalizers
        if ORPHAN in finalizers:
            for other, dependent in list(self._dependents(obj.metadata.uid)):
                await self._let_go(other, dependent, [obj.metadata.uid])
            await self._remove_finalizer(kept, obj, ORPHAN)
        elif FOREGROUND in finalizers:
            blocked = False
            for other, dependent in list(self._dependents(obj.metadata.uid)):
                blocked = blocked or _blocks(dependent, obj.metadata.uid)
                if dependent.metadata.deletion_timestamp is None:
                    self._look_at(other, dependent)
            if not blocked:
                await self._remove_finalizer(kept, obj, FOREGROUND)

    async def _judge(self, kept: Kept, obj: Resource) -> None:
        """Delete an object that nobody owns any more; where an owner is left, forget those that are gone."""
        owners = await self._owners(obj)
        lost = [*owners.dangling, *owners.waiting]
        if not lost:
            return
        if owners.solid:
            await self._let_go(kept, obj, [reference.uid for reference in lost])
            return
        policy = "Background"
        if ORPHAN in obj.metadata.finalizers:
            policy = "Orphan"
        elif FOREGROUND in obj.metadata.finalizers or (owners.waiting and self._has_dependents(obj)):
            policy = "Foreground"
            await self._open_circle(kept, obj)
        meta = obj.metadata
        log.debug("collecting %s %s (%s)", kept.kind.kind, key_of(obj), policy)
        with suppress(errors.NotFound):
            await self.client.delete_unread(
                kept.kind.type, meta.name, meta.namespace, propagation_policy=policy, uid=meta.uid
            )

    async def _open_circle(self, kept: Kept, obj: Resource) -> None:
        """Where a dependent waits already, it may wait for this object's owner in turn: no longer block that one."""
        meta = obj.metadata
        blocking = [each.uid for each in meta.owner_references if each.block_owner_deletion]
        if blocking and any(_waits(dependent) for _, dependent in self._dependents(meta.uid)):
            opened = [{"uid": uid, "blockOwnerDeletion": False} for uid in blocking]
            body = {"metadata": {"uid": meta.uid, "ownerReferences": opened}}
            with suppress(errors.NotFound):
                await self.client.patch(kept.kind.type, meta.name, body, meta.namespace)

    def _has_dependents(self, obj: Resource) -> bool:
        return next(self._dependents(obj.metadata.uid), None) is not None

    def _is_solid(self, reference: OwnerReference, namespace: str) -> bool:
        """Whether an owner is known to be there, and not waiting for its dependents to go."""
        cached = self._cached(reference, namespace)
        return cached is not None and not _waits(cached[1]) and _named(reference, namespace) not in self._absent

    async def _owners(self, obj: Resource) -> Owners:
        found = Owners([], [], [])
        for reference in obj.metadata.owner_references:
            owner = await self._owner(reference, obj.metadata.namespace)
            if owner is None:
                found.dangling.append(reference)
            elif isinstance(owner, Resource) and _waits(owner):
                found.waiting.append(reference)
            else:
                found.solid.append(reference)
        return found

    async def _owner(self, reference: OwnerReference, namespace: str) -> Resource | bool | None:
        """The owner; True when nobody can tell whether it exists, None when it does not."""
        named = _named(reference, namespace)
        if named in self._absent:
            return None
        cached = self._cached(reference, namespace)
        if cached is not None:
            return cached[1]
        kept = self._kept_of(reference)
        if kept is None or (kept.kind.namespaced and not namespace):
            return True
        asked = self._asked.get(named)
        if asked is None:
            asked = self._asked[named] = asyncio.ensure_future(self._ask(kept, named))
            asked.add_done_callback(lambda _: self._asked.pop(named))
        return await asyncio.shield(asked)

    async def _ask(self, kept: Kept, named: Named) -> Resource | None:
        """The owner as the server has it; None when it does not."""
        namespace, _, _, name, uid = named
        try:
            owner: Resource = await self.client.get(kept.kind.type, name, namespace if kept.kind.namespaced else "")
        except errors.NotFound:
            pass
        else:
            if owner.metadata.uid == uid:
                return owner
        self._absent[named] = None
        if len(self._absent) > _REMEMBERED:
            self._absent.popitem(last=False)
        return None

    def _kept_of(self, reference: OwnerReference) -> Kept | None:
        group = reference.api_version.rpartition("/")[0]
        return self._by_kind.get((group, reference.kind))

    def _cached(self, reference: OwnerReference, namespace: str) -> tuple[Kept, Resource] | None:
        kept = self._kept_of(reference)
        if kept is None:
            return None
        obj: Resource | None = kept.objects.get(reference.name, namespace if kept.kind.namespaced else "")
        return (kept, obj) if obj is not None and obj.metadata.uid == reference.uid else None

    async def _let_go(self, kept: Kept, obj: Resource, owners: list[str]) -> None:
        """Remove references to owners."""
        meta = obj.metadata
        removed = [{"$patch": "delete", "uid": uid} for uid in owners]
        body: dict[str, Any] = {"metadata": {"uid": meta.uid, "ownerReferences": removed}}
        how = PatchType.STRATEGIC_MERGE
        if kept.kind.custom:  # which has no keys to merge by: the list is written as a whole
            left = [reference for reference in meta.owner_references if reference.uid not in owners]
            body, how = (
                {"metadata": {"resourceVersion": meta.resource_version, "ownerReferences": left}},
                PatchType.MERGE,
            )
        with suppress(errors.NotFound):
            await self.client.patch(kept.kind.type, meta.name, body, meta.namespace, type=how)

    async def _remove_finalizer(self, kept: Kept, obj: Resource, finalizer: str) -> None:
        meta = obj.metadata
        left = [name for name in meta.finalizers if name != finalizer]
        body = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": left}}
        with suppress(errors.NotFound):
            await self.client.patch(kept.kind.type, meta.name, body, meta.namespace, type=PatchType.MERGE)


def stored_kinds(served: tuple[Kind, ...]) -> Iterator[Kind]:
    """The kinds whose objects live in the server, each once: in the newest version that is served."""
    seen: set[tuple[str, str]] = set()
    for kind in served:
        if kind.family not in seen and set(kind.verbs) >= _NEEDED:
            seen.add(kind.family)
            yield kind


def _owner_uids(obj: Resource) -> list[str]:
    return [owner.uid for owner in obj.metadata.owner_references]


def _named(reference: OwnerReference, namespace: str) -> Named:
    return namespace, reference.api_version, reference.kind, reference.name, reference.uid


def _waits(owner: Resource) -> bool:
    return owner.metadata.deletion_timestamp is not None and FOREGROUND in owner.metadata.finalizers


def _blocks(dependent: Resource, uid: str) -> bool:
    return any(owner.uid == uid and owner.block_owner_deletion for owner in dependent.metadata.owner_references)
