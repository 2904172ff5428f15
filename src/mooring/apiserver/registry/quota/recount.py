"""Recount the usage of ResourceQuotas: of new and changed ones, of those in doubt, and of all every five minutes.

Upstream Kubernetes has a controller for it. Here the server counts, because it has all objects in memory, and writes
the usage only if the quota has not changed meanwhile. Since every counted write also changes the quota
(``accounting.py``), the usage is exact. After a conflict only changed objects are decoded again. `Recount.run` is a
task of ``server.py``. If several servers share a store, all count and the first one writes.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

from mooring.admission.accounting.enforcement import is_in_scope, is_usage_counted
from mooring.admission.accounting.evaluators import ZERO, Evaluator, Usage, add_usage
from mooring.api.core_v1 import ResourceQuota
from mooring.apiserver.registry.quota.accounting import Quota, QuotaAccounting
from mooring.apiserver.registry.storage.objects import repeat_until_closed
from mooring.apiserver.registry.storage.stored import Stored, StoredKinds
from mooring.base import logs
from mooring.base.clock import Clock
from mooring.base.tasks import run_until_one_ends
from mooring.store.errors import StoreError
from mooring.store.kv import KeyValue, Store

log = logs.get(__name__)

_RESYNC_SECONDS = 300.0
_SETTLING_SECONDS = 3.0
"""The seconds until a new quota is counted again: writes in transit to etcd did not know it yet."""
_RETRY_SECONDS = 1.0
_PAUSE_SECONDS = 0.02
"""The seconds for which changes of quotas are collected: every counted write changes one."""
_ATTEMPTS = 20
_AT_ONCE = 200


class Recount:
    """Recounts the usage of ResourceQuotas: of new and changed ones, after errors, and of all periodically."""

    def __init__(self, accounting: QuotaAccounting, store: Store, kinds: StoredKinds, clock: Clock) -> None:
        self._accounting = accounting
        self._store = store
        self._kinds = kinds
        self._stored = kinds.find_by_type(ResourceQuota)
        self._clock = clock
        self._due: dict[str, float] = {}
        """When to count which quotas, by key."""
        self._news = accounting.recount_requested

    def _schedule_requested(self) -> None:
        """Schedule the recounts that the accounting requested; for one namespace, a moment later."""
        while self._accounting.to_recount:
            namespace = self._accounting.to_recount.pop()
            for kv in self._store.peek_all(self._stored.prefix_of(namespace)):
                self._schedule_recount(kv.key, _SETTLING_SECONDS if namespace else 0.0)

    def _schedule_recount(self, key: str, seconds: float) -> None:
        due = self._clock.monotonic() + seconds
        self._due[key] = min(due, self._due.get(key, due))
        self._news.set()

    async def run(self) -> None:
        """Recount quotas as they become due, until the store is closed."""
        await run_until_one_ends(repeat_until_closed(self._follow_quotas), self._recount_due_quotas())

    async def _follow_quotas(self) -> None:
        """Schedule all quotas, then those that are created or whose limits change."""
        accounting, page = self._accounting, await self._store.range(self._stored.prefix)
        for kv in page.items:
            self._schedule_recount(kv.key, 0.0)
        with self._store.watch(self._stored.prefix, after=page.revision) as watcher:
            while True:
                batch = await watcher.next()
                latest = {event.key: event.current for event in batch.events}
                for quota in latest.values():
                    if quota is not None and not is_usage_counted(accounting.decode_quota(quota)):
                        self._schedule_recount(quota.key, 0.0)
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _recount_due_quotas(self) -> None:
        while True:
            self._news.clear()
            self._schedule_requested()
            now = self._clock.monotonic()
            for key in [key for key, due in self._due.items() if due <= now]:
                del self._due[key]
                try:
                    await self._recount_quota(key)
                except StoreError as error:
                    log.warning("A quota could not be counted", extra={"fields": {"quota": key, "why": str(error)}})
                    self._schedule_recount(key, _RETRY_SECONDS)
            await self._wait_for_next()

    async def _wait_for_next(self) -> None:
        if not self._due:
            await self._news.wait()
        else:
            seconds = max(min(self._due.values()) - self._clock.monotonic(), 0.0)
            await run_until_one_ends(self._news.wait(), self._clock.sleep(seconds))

    async def _recount_quota(self, key: str) -> None:
        """Recount one quota and write its usage into its status, unless that is right already."""
        namespace = key.removeprefix(self._stored.prefix).partition("/")[0]
        known: dict[str, tuple[int, Usage]] = {}
        await self._store.write_all(())  # after the writes that began before the quota existed
        quota = self._find_quota(namespace, key)
        if quota is not None:
            await self._compute_usage(quota.object, known)  # most of the work, without the lock
        async with self._accounting.lock_of(namespace):
            for _ in range(_ATTEMPTS):
                await self._store.revision()
                quota = self._find_quota(namespace, key)
                if quota is None or await self._update_status(quota, known):
                    break
            else:
                self._schedule_recount(key, _RETRY_SECONDS)
        if quota is not None:
            self._due.setdefault(key, self._clock.monotonic() + _RESYNC_SECONDS)

    async def _update_status(self, quota: Quota, known: dict[str, tuple[int, Usage]]) -> bool:
        """Write a quota's current usage into its status if it differs; return False on a write conflict."""
        used = await self._compute_usage(quota.object, known)
        was, hard = quota.object.status, quota.object.spec.hard
        if was.hard == hard and was.used == used:
            return True
        if was.hard != hard:
            self._schedule_recount(quota.kv.key, _SETTLING_SECONDS)
        return await self._accounting.replace(quota, hard, used)

    def _find_quota(self, namespace: str, key: str) -> Quota | None:
        return next((each for each in self._accounting.quotas(namespace) if each.kv.key == key), None)

    async def _compute_usage(self, quota: ResourceQuota, known: dict[str, tuple[int, Usage]]) -> Usage:
        """Return the usage of a quota, computed from its namespace's objects in memory.

        Resources are in the order of the quota's limits. `known` caches the usage of single objects by revision.
        """
        objects = [
            (evaluator, kind, self._store.peek_all(kind.prefix_of(quota.metadata.namespace)))
            for evaluator, kind in self._find_measured_kinds(quota)
        ]
        used: Usage = {}
        for evaluator, stored, items in objects:
            names = evaluator.select_counted_resources(quota.spec.hard)
            add_usage(used, dict.fromkeys(names, ZERO))
            for place, kv in enumerate(items):
                if kv.key not in known or known[kv.key][0] != kv.mod_revision:
                    known[kv.key] = (kv.mod_revision, _usage_of(quota, evaluator, stored, kv))
                    if place % _AT_ONCE == _AT_ONCE - 1:
                        await asyncio.sleep(0)
                usage = known[kv.key][1]
                add_usage(used, {name: usage[name] for name in names if name in usage})
        kept = quota.status.used  # of resources that no evaluator measures
        return {name: used.get(name, kept.get(name, ZERO)) for name in quota.spec.hard if name in used or name in kept}

    def _find_measured_kinds(self, quota: ResourceQuota) -> Iterator[tuple[Evaluator[Any], Stored]]:
        """Yield the kinds of which a quota limits the usage or the number of objects, with their evaluators."""
        for stored in self._kinds.list_all():
            evaluator = self._accounting.evaluators.find_evaluator(stored.hub)
            if evaluator is not None and any(map(evaluator.counts_resource, quota.spec.hard)):
                yield evaluator, stored


def _usage_of(quota: ResourceQuota, evaluator: Evaluator[Any], stored: Stored, kv: KeyValue) -> Usage:
    """Return how much of a quota an object uses; objects of a kind that quotas only count are not decoded."""
    obj = quota if type(evaluator) is Evaluator else stored.decode(kv.value, kv.mod_revision)
    return evaluator.compute_usage(obj) if is_in_scope(quota.spec, evaluator, obj) else {}
