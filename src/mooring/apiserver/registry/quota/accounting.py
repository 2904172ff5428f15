"""Write objects in namespaces with ResourceQuotas together with the usage of the quotas, in one transaction.

`usage_change` returns how a write changes the usage of a quota. Nearly all writes do not and are plain writes. The
others queue by namespace: all waiting writes are checked in order, each with the usage after the writes before it, and
are committed together with the quotas at the revisions of the check. So usage is exact, whichever server writes and
whenever one is killed. A refused write is checked once more against the store, in case this server's memory is stale.

Usage of a new or changed quota is unknown until it was counted (``recount.py``). Until then writes leave its usage as
it is, but write the quota, so that a count that runs at the same time conflicts and starts again.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, cast

import msgspec
from msgspec.structs import replace

from mooring.admission.accounting import enforcement
from mooring.admission.accounting.evaluators import Evaluators, Usage
from mooring.api import errors
from mooring.api.core_v1 import Pod, ResourceQuota
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.apiserver.registry.storage.decoded_cache import DecodedCache
from mooring.apiserver.registry.storage.stored import Stored
from mooring.store.errors import DiskFull
from mooring.store.kv import Delete, Event, KeyValue, Outcome, Put, Store, Write

_MAX_LOCKS = 4096
_ATTEMPTS = 50
"""How many times writes are checked again after a conflict with another server."""
_MAX_PRECONDITIONS = 80
"""The maximum number of preconditions for writes in a transaction (etcd allows 128); a deletion has two."""
_MAX_QUOTAS = 40
"""The maximum number of quotas that can count the same object, given the size of a transaction."""
_MAX_BYTES = 512 * 1024


class _QueuedWrite(msgspec.Struct, eq=False):
    """A write that waits to be committed with the quotas of its namespace, and the future of its outcome."""

    write: Write
    change: enforcement.UsageChange
    done: "asyncio.Future[Outcome]" = msgspec.field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def is_open(self) -> bool:
        return not self.done.done()

    def settle(self, outcome: Outcome | Exception) -> None:
        """Set the outcome or error that the writer awaits; do nothing if it was cancelled."""
        if self.is_open:
            self.done.set_exception(outcome) if isinstance(outcome, Exception) else self.done.set_result(outcome)


class Quota(msgspec.Struct):
    """A stored ResourceQuota, and its usage including the writes that are checked but not yet committed."""

    kv: KeyValue
    object: ResourceQuota
    used: Usage
    is_touched: bool = False

    def charge(self, change: enforcement.UsageChange) -> "tuple[Quota, Usage] | None":
        """Return this quota and its usage after a change; None if unaffected. Raise Forbidden if it is exceeded."""
        difference = enforcement.compute_usage_difference(self.object, self.used, change)
        if difference:
            return self, enforcement.add_usage_difference(self.object, self.used, difference, change)
        if not enforcement.is_usage_counted(self.object) and enforcement.is_kind_limited(self.object, change.evaluator):
            return self, self.used
        return None


class _QuotaUpdate(NamedTuple):
    """The write of a quota's new status, and the quota as it is after that."""

    write: Put
    quota: ResourceQuota


class QuotaAccounting:
    """Commits writes in one transaction with the usage of the quotas that count their objects."""

    def __init__(self, store: Store, stored: Stored, evaluators: Evaluators, decoded: DecodedCache) -> None:
        self._store = store
        self._stored = stored
        self.evaluators = evaluators
        self._cache = decoded
        self._waiting: dict[str, list[_QueuedWrite]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.lock_of = lru_cache(_MAX_LOCKS)(lambda namespace: asyncio.Lock())  # noqa: ARG005 - the key
        """Returns the lock that this server holds while it writes quotas of a namespace; avoids conflicts."""
        self.to_recount: set[str] = set()
        """Namespaces whose quotas ``recount.py`` must recount; "" for all of them."""
        self.recount_requested = asyncio.Event()

    def recount(self, namespace: str) -> None:
        """Request that a namespace's quotas be recounted; all quotas if the namespace is empty."""
        self.to_recount.add(namespace)
        self.recount_requested.set()

    async def write(self, write: Write, change: enforcement.UsageChange) -> Outcome:
        """Commit an admitted write with the new usage of its quotas; raise Forbidden if one is exceeded."""
        entry, namespace = _QueuedWrite(write, change), (change.new or change.old or Resource()).metadata.namespace
        self._waiting.setdefault(namespace, []).append(entry)
        if namespace not in self._tasks:
            task = asyncio.create_task(self._commit_waiting(namespace), name=f"quotas of {namespace}")
            self._tasks[namespace] = task
        return await entry.done

    async def check(self, kind: Kind, new: Resource, old: Resource | None, subresource: str = "") -> None:
        """Raise Forbidden if quotas would refuse a write, for a dry run; nothing is charged."""
        change = self.usage_change(kind, new, old, subresource)
        if change is not None:
            await self._store.revision()
            _charge_all(self.quotas(new.metadata.namespace), change)

    def has_no_quotas(self, namespace: str) -> bool:
        """Return whether this server's copy of the store has no ResourceQuota in a namespace."""
        return not self._store.peek_all(self._stored.prefix_of(namespace))

    def usage_change(
        self, kind: Kind, new: Resource | None, old: Resource | None, subresource: str
    ) -> enforcement.UsageChange | None:
        """Return the change of quota usage by a write; None if no quota can count it, as for most writes."""
        obj = new or old
        if obj is None or not kind.namespaced:
            return None
        items = self._store.peek_all(self._stored.prefix_of(obj.metadata.namespace))
        evaluator = self.evaluators.find_evaluator(kind) if items else None
        if evaluator is None or (new is not None and old is not None and not evaluator.may_change_usage(new, old)):
            return None
        if not any(enforcement.is_kind_limited(self.decode_quota(kv), evaluator) for kv in items):
            return None
        if new is None and isinstance(old, Pod) and self.evaluators.pods.is_overdue(old):
            self.recount(old.metadata.namespace)  # whether its usage counted depends on the time
        return enforcement.UsageChange(evaluator, new, old, subresource)

    def quotas(self, namespace: str) -> list[Quota]:
        """Return a namespace's quotas by name, from this server's copy of the store."""
        items = self._store.peek_all(self._stored.prefix_of(namespace))
        return [Quota(kv, found := self.decode_quota(kv), found.status.used) for kv in items]

    def decode_quota(self, kv: KeyValue) -> ResourceQuota:
        return self._cache.get(kv, self._decode)

    def _decode(self, kv: KeyValue) -> ResourceQuota:
        return cast("ResourceQuota", self._stored.decode(kv.value, kv.mod_revision))

    # -- taking turns

    async def _commit_waiting(self, namespace: str) -> None:
        """Commit a namespace's queued writes, one transaction after the other, until none is left."""
        try:
            while waiting := [entry for entry in self._waiting.get(namespace, ()) if entry.is_open]:
                batch = _first_batch(waiting)
                taken = set(batch)
                self._waiting[namespace] = [entry for entry in waiting if entry not in taken]
                try:
                    async with self.lock_of(namespace):
                        await self._commit(namespace, batch)
                except Exception as error:
                    for entry in batch:
                        entry.settle(error)
        finally:
            del self._tasks[namespace]
            for entry in self._waiting.pop(namespace, ()):
                entry.done.cancel()

    async def _commit(self, namespace: str, batch: Sequence[_QueuedWrite]) -> None:
        has_retried = False
        for _ in range(_ATTEMPTS):
            batch = [entry for entry in batch if entry.is_open]
            if not batch:
                return
            quotas = self.quotas(namespace)
            refused = _charge_in_order(quotas, batch)
            if refused and not has_retried:
                has_retried = True
                await self._store.revision()
                continue
            for entry, error in refused.items():
                entry.settle(error)
            batch = [entry for entry in batch if entry.is_open]
            if not batch:
                return
            updates = [
                self._make_update(quota, quota.object.status.hard, quota.used) for quota in quotas if quota.is_touched
            ]
            writes = [*(update.write for update in updates), *(entry.write for entry in batch)]
            try:
                outcomes = await self._store.write_together(writes)
            except DiskFull as error:
                await self._commit_deletions_only(namespace, batch, error)
                return
            by_key: dict[str, Outcome] = {outcome.key: outcome for outcome in outcomes}
            self._cache_written(updates, by_key)
            for entry in batch:
                if entry.write.key in by_key:
                    entry.settle(by_key[entry.write.key])
            has_retried = False
        for entry in batch:
            evaluator, obj = entry.change.evaluator, entry.change.new or entry.change.old or Resource()
            entry.settle(errors.conflict(evaluator.resource, obj.metadata.name, group=evaluator.group))

    async def _commit_deletions_only(self, namespace: str, batch: Sequence[_QueuedWrite], error: DiskFull) -> None:
        """Commit queued deletions without their quotas, since the store is full; request a recount."""
        self.recount(namespace)
        for entry in batch:
            if isinstance(entry.write, Delete):
                entry.settle(await self._store.write(entry.write))
            else:
                entry.settle(error)

    def _make_update(self, quota: Quota, hard: Usage, used: Usage) -> "_QuotaUpdate":
        """Return the write that sets a quota's limits and usage in its status, if its revision is unchanged."""
        status = replace(quota.object.status, hard=hard, used=used)
        shown = replace(quota.object, metadata=replace(quota.object.metadata), status=status)
        return _QuotaUpdate(Put(quota.kv.key, self._stored.encode(shown), expect=quota.kv.mod_revision), shown)

    def _cache_written(self, updates: Sequence["_QuotaUpdate"], outcomes: Mapping[str, Outcome]) -> None:
        for update in updates:
            outcome = outcomes.get(update.write.key)
            if isinstance(outcome, Event):
                update.quota.metadata.resource_version = str(outcome.revision)
                self._cache.put(outcome.key, outcome.revision, self._decode, update.quota)

    async def replace(self, quota: Quota, hard: Usage, used: Usage) -> bool:
        """Write a quota's limits and usage into its status; return False on a write conflict."""
        update = self._make_update(quota, hard, used)
        outcome = await self._store.write(update.write)
        self._cache_written([update], {outcome.key: outcome})
        return isinstance(outcome, Event)


def _first_batch(waiting: Sequence[_QueuedWrite]) -> list[_QueuedWrite]:
    """Return the first queued writes that one transaction can take; a write of a quota is alone in one."""
    batch: list[_QueuedWrite] = []
    keys: set[str] = set()
    size = preconditions = 0
    for entry in waiting:
        alone = isinstance(entry.change.new or entry.change.old, ResourceQuota)
        size += len(entry.write.value) if isinstance(entry.write, Put) else 0
        preconditions += 1 if isinstance(entry.write, Put) else 2
        if batch and (alone or preconditions > _MAX_PRECONDITIONS or size > _MAX_BYTES):
            break
        if entry.write.key not in keys:
            batch.append(entry)
            keys.add(entry.write.key)
        if alone:
            break
    return batch


def _charge_in_order(quotas: Sequence[Quota], batch: Sequence[_QueuedWrite]) -> dict[_QueuedWrite, errors.StatusError]:
    """Charge queued writes to the quotas in order; return the refused ones with their errors."""
    refused: dict[_QueuedWrite, errors.StatusError] = {}
    for entry in batch:
        others = [quota for quota in quotas if quota.kv.key != entry.write.key]
        try:
            _charge_all(others, entry.change)
        except errors.StatusError as error:
            refused[entry] = error
    return refused


def _charge_all(quotas: Sequence[Quota], change: enforcement.UsageChange) -> None:
    """Charge a change to every quota that counts it or, if one is exceeded, to none and raise Forbidden."""
    charges = [charge for quota in quotas if (charge := quota.charge(change))]
    if len(charges) > _MAX_QUOTAS and change.may_be_rejected:
        raise change.build_forbidden_error(f"more than {_MAX_QUOTAS} quotas of its namespace count it; delete some")
    for quota, after in charges:
        quota.used, quota.is_touched = after, True
