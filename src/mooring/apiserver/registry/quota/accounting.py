"""Write objects in namespaces that have ResourceQuotas, and their usage into the quotas: both or neither.

`change` says whether a write changes the usage of a quota; nearly all do not, and are plain writes. One that does waits
for its namespace's turn: all waiting writes are checked in order, each as if those before it were done,
and are committed together with the quotas, at the revisions by which they were checked. So usage is exact, whichever
server writes and whenever one is killed. A refused write is checked once more against the store's current state, in
case this server's memory is stale.

A quota that was created or changed just now holds for what has been counted (``recount.py``). Until then writes leave
it as it is, but write it nevertheless, so that nobody who counts meanwhile overlooks them.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import msgspec
from msgspec.structs import replace

from mooring.admission.accounting.enforcement import Change, concerns, difference_of, is_counted, used_with
from mooring.admission.accounting.evaluator import Usage
from mooring.admission.accounting.evaluators import Evaluators
from mooring.api import errors
from mooring.api.core_v1 import Pod, ResourceQuota
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.apiserver.registry.decoded_cache import DecodedCache
from mooring.apiserver.registry.stored import Stored
from mooring.base.bounded_cache import BoundedCache
from mooring.store.errors import DiskFull
from mooring.store.kv import Delete, Event, KeyValue, Outcome, Put, Store, Write

_QUOTAS_KNOWN = 4096
_ATTEMPTS = 50
"""How often writes are judged anew because another server was faster."""
_AT_ONCE = 80
"""How many preconditions the writes of a transaction may have: in etcd a deletion has two, and all may be 128."""
_MOST_QUOTAS = 40
"""How many quotas of a namespace may count the same object: what one transaction takes beside its objects."""
_BYTES_AT_ONCE = 512 * 1024


class _Entry(msgspec.Struct, eq=False):
    """A write that waits for its turn."""

    write: Write
    change: Change
    done: "asyncio.Future[Outcome]" = msgspec.field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def is_open(self) -> bool:
        return not self.done.done()

    def settle(self, outcome: Outcome) -> None:
        if self.is_open:
            self.done.set_result(outcome)

    def refuse(self, error: Exception) -> None:
        if self.is_open:
            self.done.set_exception(error)


class Quota(msgspec.Struct):
    """A quota as it is stored, and what is used of it once the writes are done that are being judged."""

    kv: KeyValue
    object: ResourceQuota
    used: Usage
    is_touched: bool = False

    def charge(self, change: Change) -> "tuple[Quota, Usage] | None":
        """What is used after a change, if it concerns this quota; raises Forbidden."""
        difference = difference_of(self.object, self.used, change)
        if difference:
            return self, used_with(self.object, self.used, difference, change)
        if not is_counted(self.object) and concerns(self.object, change.evaluator):
            return self, self.used
        return None


class _Turn(asyncio.Lock):
    """Whose turn it is in a namespace."""

    is_crowded = False
    """Whether several writes came at once the last time, so that it is worth a moment to wait for others."""


class _Update(NamedTuple):
    """A write of a quota, and the quota as it is then."""

    write: Put
    quota: ResourceQuota


class QuotaAccounting:
    """The quotas of all namespaces, as far as writes concern them."""

    def __init__(self, store: Store, stored: Stored, evaluators: Evaluators, decoded: DecodedCache) -> None:
        self._store = store
        self._stored = stored
        self._evaluators = evaluators
        self._cache = decoded
        self._waiting: dict[str, list[_Entry]] = {}
        self._turns: dict[str, asyncio.Task[None]] = {}
        self._known_turns: BoundedCache[str, _Turn] = BoundedCache(_QUOTAS_KNOWN)
        self.doubtful: set[str] = set()
        """Namespaces whose quotas ``recount.py`` has to count again; "" for all of them."""
        self.has_doubts = asyncio.Event()

    def recount(self, namespace: str) -> None:
        """Have the quotas of a namespace counted again; of all namespaces if it is empty, as for a new kind."""
        self.doubtful.add(namespace)
        self.has_doubts.set()

    async def write(self, write: Write, change: Change) -> Outcome:
        """Write an admitted object together with the usage it changes; raises Forbidden when a quota is exceeded."""
        entry, namespace = _Entry(write, change), (change.new or change.old or Resource()).metadata.namespace
        turn = self.turn(namespace)
        if namespace in self._turns or turn.locked() or turn.is_crowded:
            self._waiting.setdefault(namespace, []).append(entry)
            self._go_on(namespace)
            return await entry.done
        try:  # nobody else is there: then no task is needed
            async with turn:
                await self._commit(namespace, [entry])
        finally:
            self._go_on(namespace)
        return await entry.done

    def _go_on(self, namespace: str) -> None:
        """See to it that those who wait get their turn, in a task that begins when all who are ready now wait too."""
        if namespace in self._waiting and namespace not in self._turns:
            task = asyncio.create_task(self._take_turns(namespace), name=f"quotas of {namespace}")
            self._turns[namespace] = task

    async def check(self, kind: Kind, new: Resource, old: Resource | None, subresource: str = "") -> None:
        """Raises Forbidden if a write, which is not going to be done, would be refused."""
        change = self.change(kind, new, old, subresource)
        if change is not None:
            await self._store.revision()
            _charge_all(self.quotas(new.metadata.namespace), change)

    def is_idle(self, namespace: str) -> bool:
        """Whether a namespace has no quotas, as far as this server knows."""
        return not self._store.peek_all(self._stored.prefix_of(namespace))

    def change(self, kind: Kind, new: Resource | None, old: Resource | None, subresource: str) -> Change | None:
        """What a write may change in quotas; None for nearly all writes, which concern none."""
        obj = new or old
        if obj is None or not kind.namespaced:
            return None
        items = self._store.peek_all(self._stored.prefix_of(obj.metadata.namespace))
        evaluator = self._evaluators.of(kind) if items else None
        if evaluator is None or (new is not None and old is not None and not evaluator.may_differ(new, old)):
            return None
        if not any(concerns(self._decoded(kv), evaluator) for kv in items):
            return None
        if new is None and isinstance(old, Pod) and self._evaluators.pods.is_overdue(old):
            self.recount(old.metadata.namespace)  # whether it was still paid for depends on when that was looked at
        return Change(evaluator, new, old, subresource)

    def quotas(self, namespace: str) -> list[Quota]:
        """The quotas of a namespace that this server knows of, by name."""
        items = self._store.peek_all(self._stored.prefix_of(namespace))
        return [Quota(kv, found := self._decoded(kv), found.status.used) for kv in items]

    def _decoded(self, kv: KeyValue) -> ResourceQuota:
        return self._cache.get(kv, self._decode)

    def _decode(self, kv: KeyValue) -> ResourceQuota:
        return cast("ResourceQuota", self._stored.decode(kv.value, kv.mod_revision))

    # -- taking turns

    def turn(self, namespace: str) -> "_Turn":
        """Held by those who write to the quotas of a namespace through this server, so that they seldom conflict."""
        turn = self._known_turns.get(namespace)
        if turn is None:
            turn = _Turn()
            self._known_turns.put(namespace, turn)
        return turn

    async def _take_turns(self, namespace: str) -> None:
        """Write what waits, as much as fits at a time, until nothing waits any more."""
        try:
            while waiting := [entry for entry in self._waiting.get(namespace, ()) if entry.is_open]:
                batch = _as_much_as_fits(waiting)
                taken = set(map(id, batch))
                self._waiting[namespace] = [entry for entry in waiting if id(entry) not in taken]
                turn = self.turn(namespace)
                turn.is_crowded = len(batch) > 1
                try:
                    async with turn:
                        await self._commit(namespace, batch)
                except Exception as error:
                    for entry in batch:
                        entry.refuse(error)
        finally:
            del self._turns[namespace]
            for entry in self._waiting.pop(namespace, ()):
                entry.done.cancel()

    async def _commit(self, namespace: str, batch: Sequence[_Entry]) -> None:
        looked_again = False
        for _ in range(_ATTEMPTS):
            batch = [entry for entry in batch if entry.is_open]
            if not batch:
                return
            quotas = self.quotas(namespace)
            refused = _judge(quotas, batch)
            if refused and not looked_again:
                looked_again = True
                await self._store.revision()
                continue
            for entry, error in refused.items():
                entry.refuse(error)
            batch = [entry for entry in batch if entry.is_open]
            if not batch:
                return
            updates = [
                self._update(quota, quota.object.status.hard, quota.used) for quota in quotas if quota.is_touched
            ]
            writes = [*(update.write for update in updates), *(entry.write for entry in batch)]
            try:
                outcomes = await self._store.write_together(writes)
            except DiskFull as error:
                await self._relieve(namespace, batch, error)
                return
            by_key: dict[str, Outcome] = {outcome.key: outcome for outcome in outcomes}
            self._remember(updates, by_key)
            for entry in batch:
                if entry.write.key in by_key:
                    entry.settle(by_key[entry.write.key])
            looked_again = False
        for entry in batch:
            evaluator, obj = entry.change.evaluator, entry.change.new or entry.change.old or Resource()
            entry.refuse(errors.conflict(evaluator.resource, obj.metadata.name, group=evaluator.group))

    async def _relieve(self, namespace: str, batch: Sequence[_Entry], error: DiskFull) -> None:
        """The store is full: what deletes something is done without the quotas, which are counted again later."""
        self.recount(namespace)
        for entry in batch:
            if isinstance(entry.write, Delete):
                entry.settle(await self._store.write(entry.write))
            else:
                entry.refuse(error)

    def _update(self, quota: Quota, hard: Usage, used: Usage) -> "_Update":
        """The write that puts numbers into a quota's status, if it is as it was."""
        status = replace(quota.object.status, hard=hard, used=used)
        shown = replace(quota.object, metadata=replace(quota.object.metadata), status=status)
        return _Update(Put(quota.kv.key, self._stored.encode(shown), expect=quota.kv.mod_revision), shown)

    def _remember(self, updates: Sequence["_Update"], outcomes: Mapping[str, Outcome]) -> None:
        """Spare decoding what this server has written itself."""
        for update in updates:
            outcome = outcomes.get(update.write.key)
            if isinstance(outcome, Event):
                update.quota.metadata.resource_version = str(outcome.revision)
                self._cache.put(outcome.key, outcome.revision, self._decode, update.quota)

    async def replace(self, quota: Quota, hard: Usage, used: Usage) -> bool:
        """Put numbers into a quota's status; False if somebody has changed it meanwhile."""
        update = self._update(quota, hard, used)
        outcome = await self._store.write(update.write)
        self._remember([update], {outcome.key: outcome})
        return isinstance(outcome, Event)


def _as_much_as_fits(waiting: Sequence[_Entry]) -> list[_Entry]:
    """The first of those that wait, as many as one transaction takes; a write of a quota has it to itself."""
    batch: list[_Entry] = []
    keys: set[str] = set()
    size = preconditions = 0
    for entry in waiting:
        alone = isinstance(entry.change.new or entry.change.old, ResourceQuota)
        size += len(entry.write.value) if isinstance(entry.write, Put) else 0
        preconditions += 1 if isinstance(entry.write, Put) else 2
        if batch and (alone or preconditions > _AT_ONCE or size > _BYTES_AT_ONCE):
            break
        if entry.write.key not in keys:
            batch.append(entry)
            keys.add(entry.write.key)
        if alone:
            break
    return batch


def _judge(quotas: Sequence[Quota], batch: Sequence[_Entry]) -> dict[_Entry, errors.StatusError]:
    """Charge one after the other; returns those that are refused, and why."""
    refused: dict[_Entry, errors.StatusError] = {}
    for entry in batch:
        others = [quota for quota in quotas if quota.kv.key != entry.write.key]
        try:
            _charge_all(others, entry.change)
        except errors.StatusError as error:
            refused[entry] = error
    return refused


def _charge_all(quotas: Sequence[Quota], change: Change) -> None:
    """Charge a change to all quotas that it concerns, or to none; raises Forbidden."""
    charges = [charge for quota in quotas if (charge := quota.charge(change))]
    if len(charges) > _MOST_QUOTAS and change.may_be_rejected:
        raise change.forbidden(f"more than {_MOST_QUOTAS} quotas of its namespace count it; delete some")
    for quota, after in charges:
        quota.used, quota.is_touched = after, True
