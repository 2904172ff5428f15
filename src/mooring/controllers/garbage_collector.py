"""Garbage collection: delete objects whose owners are gone, and pods that no node runs; finish deletions that wait for
dependents.

The client that deletes an owner chooses the policy: background (dependents are deleted after it), foreground (it waits
for dependents that block it) or orphan (dependents lose the reference). Keys are `<resource> <namespace/name>`. Before
an owner counts as gone, it is read from the server.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mooring.api import errors
from mooring.api.core_v1 import Node, Pod
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import OwnerReference, Resource
from mooring.api.states import has_ended, is_ready
from mooring.base import logs
from mooring.client import Index, Informer, PatchType, key_of
from mooring.controllers.conditions import disruption_target_condition
from mooring.controllers.controller import Context, Controller, index_by_owner
from mooring.controllers.taint_eviction import index_by_node

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_NEEDED = {"list", "watch", "delete", "patch"}
_IGNORED = {"Event"}
_REMEMBERED = 10_000
OwnerKey = tuple[str, str, str, str, str]
"""A dependent's namespace, and the version, kind, name and uid of its owner."""
log = logs.get(__name__)


@dataclass(slots=True)
class KindCache:
    """The cached objects of one kind, with an index by the uids of their owners."""

    kind: Kind
    objects: Informer[Any]
    by_owner: Index[Any]
    name: str
    owners: Collection[str]
    """The uids in the index."""


class GarbageCollector(Controller):
    """The controller that deletes objects without owners, and releases dependents; reconciles objects of all kinds."""

    name = "garbage-collector"
    workers = 512
    """The number of workers, enough to fill the largest batch write (``client/batching.py``)."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._caches: dict[str, KindCache] = {}
        self._by_kind: dict[tuple[str, str], KindCache] = {}
        self._absent: OrderedDict[OwnerKey, None] = OrderedDict()
        """Uids of owners that the server does not have; a uid is never reused."""
        self._pending_reads: dict[OwnerKey, asyncio.Future[Resource | None]] = {}
        """Reads of owners in progress, shared by all dependents."""
        for kind in find_collectable_kinds(self.client.scheme.served):
            if kind.kind not in _IGNORED:
                self._add_kind(kind)
        context.custom_kinds.follow(self._add_kind, self._remove_kind)

    def _remove_kind(self, kind: Kind) -> None:
        cache = self._by_kind.pop((kind.group, kind.kind), None)
        if cache is not None:
            self._caches.pop(cache.name, None)
            self.context.informers.forget(kind.type)

    def _add_kind(self, kind: Kind) -> None:
        objects: Informer[Any] = self.context.informers.of(kind.type)
        by_owner = index_by_owner(objects)
        cache = KindCache(kind, objects, by_owner, f"{kind.plural}.{kind.group}", by_owner.values())
        self._caches[cache.name] = self._by_kind[kind.group, kind.kind] = cache
        objects.add_handler(
            added=lambda obj: self._enqueue_if_collectable(cache, obj),
            updated=lambda old, new: self._enqueue_if_owners_changed(cache, old, new),
            deleted=self._enqueue_relatives_of_deleted,
        )

    def _enqueue_if_collectable(self, cache: KindCache, obj: Resource) -> None:
        meta = obj.metadata
        owned = meta.owner_references
        if meta.deletion_timestamp is not None or not all(
            self._is_owner_alive(owner, meta.namespace) for owner in owned
        ):
            self._enqueue(cache, obj)

    def _enqueue_if_owners_changed(self, cache: KindCache, old: Resource, new: Resource) -> None:
        before, after = old.metadata, new.metadata
        changed = after.owner_references != before.owner_references
        waits = FOREGROUND in after.finalizers or ORPHAN in after.finalizers
        if changed if after.deletion_timestamp is None else waits:
            self._enqueue(cache, new)
        if changed:
            self._enqueue_terminating_owners(old)

    def _enqueue_relatives_of_deleted(self, obj: Resource) -> None:
        for cache, dependent in self._find_dependents(obj.metadata.uid):
            self._enqueue(cache, dependent)
        self._enqueue_terminating_owners(obj)

    def _enqueue_terminating_owners(self, obj: Resource) -> None:
        for reference in obj.metadata.owner_references:
            found = self._find_cached_owner(reference, obj.metadata.namespace)
            if found is not None and found[1].metadata.deletion_timestamp is not None:
                self._enqueue(*found)

    def _enqueue(self, cache: KindCache, obj: Resource) -> None:
        self.queue.add(f"{cache.name} {key_of(obj)}")

    def _find_dependents(self, uid: str) -> Iterator[tuple[KindCache, Resource]]:
        for cache in self._caches.values():
            if uid in cache.owners:
                for dependent in cache.by_owner.get(uid):
                    yield cache, dependent

    async def reconcile(self, key: str) -> None:
        name, _, where = key.partition(" ")
        cache = self._caches.get(name)
        obj: Resource | None = cache.objects.by_key(where) if cache else None
        if cache is None or obj is None:
            return
        if obj.metadata.deletion_timestamp is not None:
            await self._release_dependents(obj)
        elif obj.metadata.owner_references:
            await self._collect_if_unowned(cache, obj)

    async def _release_dependents(self, obj: Resource) -> None:
        finalizers = obj.metadata.finalizers
        if ORPHAN in finalizers:
            for other, dependent in list(self._find_dependents(obj.metadata.uid)):
                await self._remove_owner_references(other, dependent, [obj.metadata.uid])
            await self.remove_finalizer(obj, ORPHAN)
        elif FOREGROUND in finalizers:
            blocked = False
            for other, dependent in list(self._find_dependents(obj.metadata.uid)):
                owners = dependent.metadata.owner_references
                blocked = blocked or any(each.uid == obj.metadata.uid and each.block_owner_deletion for each in owners)
                if dependent.metadata.deletion_timestamp is None:
                    self._enqueue(other, dependent)
            if not blocked:
                await self.remove_finalizer(obj, FOREGROUND)

    async def _collect_if_unowned(self, cache: KindCache, obj: Resource) -> None:
        lost: list[str] = []
        is_owned = is_awaited = False
        for reference in obj.metadata.owner_references:
            owner = await self._resolve_owner(reference, obj.metadata.namespace)
            waits = isinstance(owner, Resource) and _is_deleted_in_foreground(owner)
            if owner is None or waits:
                lost.append(reference.uid)
                is_awaited = is_awaited or waits
            else:
                is_owned = True
        if not lost:
            return
        if is_owned:
            await self._remove_owner_references(cache, obj, lost)
            return
        policy = "Background"
        if ORPHAN in obj.metadata.finalizers:
            policy = "Orphan"
        elif FOREGROUND in obj.metadata.finalizers or (is_awaited and any(self._find_dependents(obj.metadata.uid))):
            policy = "Foreground"
            await self._break_ownership_cycle(obj)
        meta = obj.metadata
        log.debug("collecting %s %s (%s)", cache.kind.kind, key_of(obj), policy)
        with suppress(errors.NotFound):
            await self.client.delete_unread(
                cache.kind.type, meta.name, meta.namespace, propagation_policy=policy, uid=meta.uid
            )

    async def _break_ownership_cycle(self, obj: Resource) -> None:
        """Clear `blockOwnerDeletion` of an object if a dependent of it waits too: cyclic owners would wait for ever."""
        meta = obj.metadata
        blocking = [each.uid for each in meta.owner_references if each.block_owner_deletion]
        if blocking and any(_is_deleted_in_foreground(dependent) for _, dependent in self._find_dependents(meta.uid)):
            opened = [{"uid": uid, "blockOwnerDeletion": False} for uid in blocking]
            await self.patch(obj, {"metadata": {"uid": meta.uid, "ownerReferences": opened}})

    def _is_owner_alive(self, reference: OwnerReference, namespace: str) -> bool:
        cached = self._find_cached_owner(reference, namespace)
        return (
            cached is not None
            and not _is_deleted_in_foreground(cached[1])
            and _owner_key(reference, namespace) not in self._absent
        )

    async def _resolve_owner(self, reference: OwnerReference, namespace: str) -> Resource | bool | None:
        """Return the object that an owner reference names; True if it cannot be checked, None if it does not exist."""
        named = _owner_key(reference, namespace)
        if named in self._absent:
            return None
        cached = self._find_cached_owner(reference, namespace)
        if cached is not None:
            return cached[1]
        cache = self._find_kind_cache(reference)
        if cache is None or (cache.kind.namespaced and not namespace):
            return True
        reading = self._pending_reads.get(named)
        if reading is None:
            reading = self._pending_reads[named] = asyncio.ensure_future(self._read_owner(cache, named))
            reading.add_done_callback(lambda _: self._pending_reads.pop(named))
        return await asyncio.shield(reading)

    async def _read_owner(self, cache: KindCache, named: OwnerKey) -> Resource | None:
        namespace, _, _, name, uid = named
        owner: Resource | None = await self.client.find(
            cache.kind.type, name, namespace if cache.kind.namespaced else ""
        )
        if owner is not None and owner.metadata.uid == uid:
            return owner
        self._absent[named] = None
        if len(self._absent) > _REMEMBERED:
            self._absent.popitem(last=False)
        return None

    def _find_kind_cache(self, reference: OwnerReference) -> KindCache | None:
        group = reference.api_version.rpartition("/")[0]
        return self._by_kind.get((group, reference.kind))

    def _find_cached_owner(self, reference: OwnerReference, namespace: str) -> tuple[KindCache, Resource] | None:
        cache = self._find_kind_cache(reference)
        if cache is None:
            return None
        obj: Resource | None = cache.objects.get(reference.name, namespace if cache.kind.namespaced else "")
        return (cache, obj) if obj is not None and obj.metadata.uid == reference.uid else None

    async def _remove_owner_references(self, cache: KindCache, obj: Resource, owners: list[str]) -> None:
        meta = obj.metadata
        removed = [{"$patch": "delete", "uid": uid} for uid in owners]
        body: dict[str, Any] = {"metadata": {"uid": meta.uid, "ownerReferences": removed}}
        how = PatchType.STRATEGIC_MERGE
        if cache.kind.custom:  # no merge keys: the list is replaced
            left = [reference for reference in meta.owner_references if reference.uid not in owners]
            body = {"metadata": {"resourceVersion": meta.resource_version, "ownerReferences": left}}
            how = PatchType.MERGE
        await self.patch(obj, body, type=how)


def find_collectable_kinds(served: tuple[Kind, ...]) -> Iterator[Kind]:
    """Return the served kinds that can be listed, watched, patched and deleted, each in its first served version."""
    seen: set[tuple[str, str]] = set()
    for kind in served:
        if kind.family not in seen and set(kind.verbs) >= _NEEDED:
            seen.add(kind.family)
            yield kind


def _owner_key(reference: OwnerReference, namespace: str) -> OwnerKey:
    return namespace, reference.api_version, reference.kind, reference.name, reference.uid


def _is_deleted_in_foreground(owner: Resource) -> bool:
    return owner.metadata.deletion_timestamp is not None and FOREGROUND in owner.metadata.finalizers


PERIOD_SECONDS = 20.0
QUARANTINE_SECONDS = 40.0
ENDED_PODS_KEPT = 12_500
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class PodGarbageCollector(Controller):
    """Periodically delete pods on deleted nodes, terminating pods without a kubelet, and the oldest finished pods.

    The cache may show a pod before its node, so a node counts as deleted after 40 seconds if the server lacks it too.
    """

    name = "pod-garbage-collector"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._pods: Informer[Pod] = context.informers.of(Pod)
        self._nodes: Informer[Node] = context.informers.of(Node)
        self._by_node = index_by_node(self._pods)
        self._missing: dict[str, float] = {}
        """Nodes that pods refer to and that do not exist, and since when that is known."""
        self.periodic = (self._enqueue_unneeded_periodically,)

    async def _enqueue_unneeded_periodically(self) -> None:
        while True:
            await self.clock.sleep(PERIOD_SECONDS)
            now = self.clock.monotonic()
            missing = [name for name in self._by_node.values() if self._nodes.get(name) is None]
            self._missing = {name: self._missing.get(name, now) for name in missing}
            for pod in self._find_unneeded_pods():
                self.enqueue(pod)

    def _find_unneeded_pods(self) -> list[Pod]:
        now = self.clock.monotonic()
        found = [
            pod
            for name, since in self._missing.items()
            if now - since >= QUARANTINE_SECONDS
            for pod in self._by_node.get(name)
        ]
        ended = []
        for pod in self._pods.objects():
            if pod.metadata.deletion_timestamp is not None and self._has_no_kubelet_to_end_it(pod):
                found.append(pod)
            elif has_ended(pod):
                ended.append(pod)
        if len(ended) > ENDED_PODS_KEPT:
            ended.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))
            found += ended[: len(ended) - ENDED_PODS_KEPT]
        return found

    def _has_no_kubelet_to_end_it(self, pod: Pod) -> bool:
        if not pod.spec.node_name:
            return True
        node = self._nodes.get(pod.spec.node_name)
        if node is None:
            return False
        return not is_ready(node) and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)

    async def reconcile(self, key: str) -> None:
        pod = self._pods.by_key(key)
        if pod is None:
            return
        orphaned = pod.spec.node_name in self._missing
        if orphaned and await self.client.find(Node, pod.spec.node_name) is not None:
            return
        if not has_ended(pod):
            await self._mark_pod_failed(pod, orphaned=orphaned)
        log.info("collecting pod %s", key_of(pod), extra={"fields": {"orphaned": orphaned}})
        await self.delete(pod, grace_period_seconds=0)

    async def _mark_pod_failed(self, pod: Pod, *, orphaned: bool) -> None:
        """Set the phase Failed, so that owners that count pods do not wait for this one."""
        status: dict[str, object] = {"phase": "Failed"}
        if orphaned:
            why = ("DeletionByPodGC", "PodGC: node no longer exists")
            status["conditions"] = [disruption_target_condition(*why, self.clock.now())]
        await self.patch_status(pod, status)
