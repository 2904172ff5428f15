"""Counts what is used of ResourceQuotas: when one is created or its limits change, when in doubt, and now and then.

Kubernetes has a controller for it. Here the server does it, which has all objects in memory: they and the quota are
looked at in the same moment, and the result is written only if the quota is still the same then. Since every write that
matters writes the quota as well (``accounting.py``), the numbers are exact. Where a writer was faster, only
what has changed is read again.

`Recount.run` is a task of ``server.py``. Several servers on one store all count; the first one writes.
"""

import asyncio
from collections.abc import Iterable, Iterator

import msgspec

from mooring.admission.accounting.enforcement import is_in_scope
from mooring.admission.accounting.evaluator import ZERO, Evaluator, Usage, add_usage
from mooring.api.core_v1 import ResourceQuota
from mooring.apiserver.registry.context import HandlerContext
from mooring.apiserver.registry.quota.accounting import Quota
from mooring.apiserver.registry.stored import Stored
from mooring.base import logs
from mooring.store.errors import Closed, RevisionError, StoreError
from mooring.store.kv import KeyValue

log = logs.get(__name__)

_RESYNC_SECONDS = 300.0
_SETTLING_SECONDS = 3.0
"""When a quota is counted again that is new: writes were on their way to etcd that knew nothing of it yet."""
_RETRY_SECONDS = 1.0
_PAUSE_SECONDS = 0.02
"""Every write that quotas count changes one: so they are looked at many at a time."""
_ATTEMPTS = 20
_AT_ONCE = 200


class _Amounts(msgspec.Struct):
    hard: dict[str, str | int | float] = {}


class _Limits(msgspec.Struct):
    """As much of a quota as says whether it has been counted."""

    spec: _Amounts
    status: _Amounts


class Recount:
    """Keeps the status of all quotas true."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context
        self._store = context.store
        self._stored = context.stored_quotas
        self._evaluators = context.evaluators
        self._clock = context.clock
        self._due: dict[str, float] = {}
        """The keys of quotas that are to be counted, and when."""
        self._news = context.accounting.has_doubts

    def _schedule_doubtful(self) -> None:
        """Schedule quotas whose usage is in doubt; those of one namespace after a pause, as more writes may follow."""
        while self._context.accounting.doubtful:
            namespace = self._context.accounting.doubtful.pop()
            for kv in self._store.peek_all(self._stored.prefix_of(namespace)):
                self._put_on_list(kv.key, _SETTLING_SECONDS if namespace else 0.0)

    def _put_on_list(self, key: str, seconds: float) -> None:
        due = self._clock.monotonic() + seconds
        self._due[key] = min(due, self._due.get(key, due))
        self._news.set()

    async def run(self) -> None:
        """Count until the store is closed."""
        counting = asyncio.create_task(self._count_what_is_due(), name="counting of quotas")
        try:
            while True:
                try:
                    await self._follow()
                except RevisionError:
                    continue
                except Closed:
                    return
                except StoreError as error:
                    log.warning("Quotas cannot be followed", extra={"fields": {"why": str(error)}})
                    await asyncio.sleep(_RETRY_SECONDS)
        finally:
            counting.cancel()

    async def _follow(self) -> None:
        """Put quotas on the list that are new, or whose limits have changed; all of them in the beginning."""
        page = await self._store.range(self._stored.prefix)
        for kv in page.items:
            self._put_on_list(kv.key, 0.0)
        with self._store.watch(self._stored.prefix, after=page.revision) as watcher:
            while True:
                batch = await watcher.next()
                latest = {event.key: event.current for event in batch.events}
                for quota in latest.values():
                    if quota is not None and not _is_counted(quota):
                        self._put_on_list(quota.key, 0.0)
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _count_what_is_due(self) -> None:
        while True:
            self._news.clear()
            self._schedule_doubtful()
            now = self._clock.monotonic()
            for key in [key for key, due in self._due.items() if due <= now]:
                del self._due[key]
                try:
                    await self._count(key)
                except StoreError as error:
                    log.warning("A quota could not be counted", extra={"fields": {"quota": key, "why": str(error)}})
                    self._put_on_list(key, _RETRY_SECONDS)
            await self._wait()

    async def _wait(self) -> None:
        """Until something is due or put on the list."""
        waiting: list[asyncio.Task[object]] = [asyncio.create_task(self._news.wait())]
        if self._due:
            seconds = max(min(self._due.values()) - self._clock.monotonic(), 0.0)
            waiting.append(asyncio.create_task(self._clock.sleep(seconds)))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()

    async def _count(self, key: str) -> None:
        """Write what is used of a quota into its status, unless it says so already."""
        namespace = key.removeprefix(self._stored.prefix).partition("/")[0]
        known: dict[str, tuple[int, Usage]] = {}
        await self._store.write_all(())  # behind what was on its way before there was a quota
        quota = self._quota(namespace, key)
        if quota is not None:
            await self._usage(quota.object, known)  # most of the work, while others may write
        async with self._context.accounting.turn(namespace):
            for _ in range(_ATTEMPTS):
                await self._store.revision()
                quota = self._quota(namespace, key)
                if quota is None or await self._is_true(quota, known):
                    break
            else:
                self._put_on_list(key, _RETRY_SECONDS)
        if quota is not None:
            self._due.setdefault(key, self._clock.monotonic() + _RESYNC_SECONDS)

    async def _is_true(self, quota: Quota, known: dict[str, tuple[int, Usage]]) -> bool:
        """Whether a quota's status says what is used, now at the latest; False if another server was faster."""
        used = await self._usage(quota.object, known)
        was, hard = quota.object.status, quota.object.spec.hard
        if was.hard == hard and was.used == used:
            return True
        if was.hard != hard:
            self._put_on_list(quota.kv.key, _SETTLING_SECONDS)
        return await self._context.accounting.replace(quota, hard, used)

    def _quota(self, namespace: str, key: str) -> Quota | None:
        return next((each for each in self._context.accounting.quotas(namespace) if each.kv.key == key), None)

    async def _usage(self, quota: ResourceQuota, known: dict[str, tuple[int, Usage]]) -> Usage:
        """What the objects of a namespace use of a quota now, in the order of its limits.

        Everything is looked up before anybody else gets a turn. `known` keeps what single objects use.
        """
        found = list(self._measured(quota))
        objects = [
            (evaluator, kind, self._store.peek_all(kind.prefix_of(quota.metadata.namespace)))
            for evaluator, kind in found
        ]
        used: Usage = {}
        for evaluator, stored, items in objects:
            names = evaluator.measured(quota.spec.hard)
            add_usage(used, dict.fromkeys(names, ZERO))
            if type(evaluator) is Evaluator:
                add_usage(used, self._counted(quota, evaluator, names, len(items)))
                continue
            for place, kv in enumerate(items):
                if kv.key not in known or known[kv.key][0] != kv.mod_revision:
                    known[kv.key] = (kv.mod_revision, _usage_of(quota, evaluator, stored, kv))
                    if place % _AT_ONCE == _AT_ONCE - 1:
                        await asyncio.sleep(0)
                usage = known[kv.key][1]
                add_usage(used, {name: usage[name] for name in names if name in usage})
        kept = quota.status.used  # of what nothing here measures
        return {name: used.get(name, kept.get(name, ZERO)) for name in quota.spec.hard if name in used or name in kept}

    def _measured(self, quota: ResourceQuota) -> Iterator[tuple[Evaluator, Stored]]:
        """The kinds whose objects use anything that a quota limits."""
        for stored in self._context.every_stored():
            evaluator = self._evaluators.of(stored.hub)
            if evaluator is not None and any(map(evaluator.measures, quota.spec.hard)):
                yield evaluator, stored

    @staticmethod
    def _counted(quota: ResourceQuota, evaluator: Evaluator, names: Iterable[str], number: int) -> Usage:
        """What objects use that are only counted; in no scope is any of them."""
        if not is_in_scope(quota.spec, evaluator, quota):
            return {}
        one = evaluator.usage(quota)
        return {name: one[name] * number for name in names if name in one}


def _usage_of(quota: ResourceQuota, evaluator: Evaluator, stored: Stored, kv: KeyValue) -> Usage:
    obj = stored.decode(kv.value, kv.mod_revision)
    return evaluator.usage(obj) if is_in_scope(quota.spec, evaluator, obj) else {}


def _is_counted(kv: KeyValue) -> bool:
    limits = msgspec.json.decode(kv.value, type=_Limits)
    return limits.spec.hard == limits.status.hard
