"""The outcome of a write whose answer was lost is reported truly: no compare-and-swap is acknowledged twice."""

import asyncio
import math
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from etcd_servers import EtcdServers
from linearizability import Operation, is_linearizable
from mooring.store.errors import Unreachable
from mooring.store.etcd.client import InDoubt
from mooring.store.etcd.store import EtcdStore
from mooring.store.kv import Conflict, Delete, Event, Put

pytestmark = pytest.mark.req("S.7")
KEY = "/r/counter"


class Faults:
    """Loses requests before they are sent, and answers after they were given."""

    def __init__(self, store: EtcdStore, chance: random.Random) -> None:
        self._call = store._client.call
        self._chance = chance
        self.lose: str = ""
        self.share = 0.0
        store._client.call = self.call  # type: ignore[method-assign]

    async def call(self, method: str, request: Any, deadline: float) -> Any:
        if method != "Txn" or not any(
            (each.request_put.key or each.request_delete_range.key).endswith(b"counter") for each in request.success
        ):
            return await self._call(method, request, deadline)
        lose, self.lose = self.lose, ""
        if self._chance.random() < self.share:
            lose = self._chance.choice(["request", "answer"])
        if lose == "request":
            await asyncio.sleep(self._chance.random() / 200)
            raise InDoubt("nobody knows")
        answer = await self._call(method, request, deadline)
        if lose == "answer":
            raise InDoubt("nobody knows")
        return answer


@asynccontextmanager
async def two_servers(etcd: EtcdServers) -> AsyncIterator[tuple[EtcdStore, EtcdStore, list[Faults]]]:
    config = etcd.fresh()
    one, two = await EtcdStore.open(config), await EtcdStore.open(config)
    chance = random.Random(28)
    try:
        yield one, two, [Faults(one, chance), Faults(two, chance)]
    finally:
        await asyncio.gather(one.close(), two.close())


async def test_a_swap_by_another_client_with_the_same_bytes_is_not_ours(etcd: EtcdServers) -> None:
    async with two_servers(etcd) as (one, two, faults):
        first = await one.write(Put(KEY, b"5"))
        assert isinstance(first, Event)
        await two.revision()
        faults[1].lose = "request"
        ours = Put(KEY, b"4", expect=first.revision)
        outcomes = await asyncio.gather(one.write(ours), two.write(ours))
        assert [type(outcome) for outcome in outcomes] == [Event, Conflict]


async def test_a_delete_by_another_client_is_not_ours(etcd: EtcdServers) -> None:
    async with two_servers(etcd) as (one, two, faults):
        first = await one.write(Put(KEY, b"5"))
        assert isinstance(first, Event)
        await two.revision()
        faults[1].lose = "request"
        ours = Delete(KEY, expect=first.revision)
        outcomes = await asyncio.gather(one.write(ours), two.write(ours))
        assert [type(outcome) for outcome in outcomes] == [Event, Conflict]


@pytest.mark.parametrize("write", [Put(KEY, b"4", expect=1), Put(KEY, b"4"), Delete(KEY, expect=1)], ids=str)
async def test_a_write_that_was_done_is_acknowledged(etcd: EtcdServers, write: Put | Delete) -> None:
    async with two_servers(etcd) as (one, two, faults):
        first = await one.write(Put(KEY, b"5"))
        assert isinstance(first, Event)
        expect = first.revision if write.expect else None
        ours = Put(KEY, write.value, expect) if isinstance(write, Put) else Delete(KEY, expect)
        faults[0].lose = "answer"
        outcome = await one.write(ours)
        assert isinstance(outcome, Event)
        assert outcome.previous is not None
        assert outcome.previous.value == b"5"
        found = await two.get(KEY)
        assert (found.mod_revision if found else None) == (outcome.revision if isinstance(write, Put) else None)


async def test_clients_that_count_down_together_get_true_answers(etcd: EtcdServers) -> None:
    async with two_servers(etcd) as (one, two, faults):
        start = 1000
        await one.write(Put(KEY, str(start).encode()))
        for each in faults:
            each.share = 0.4
        history: list[Operation] = []
        clock = asyncio.get_running_loop().time

        async def client(store: EtcdStore) -> None:
            for _ in range(8):
                began = clock()
                kv = await store.get(KEY)
                assert kv is not None
                value = int(kv.value)
                history.append(Operation(began, clock(), None, value, succeeded=True))
                began = clock()
                try:
                    outcome = await store.write(Put(KEY, str(value - 1).encode(), expect=kv.mod_revision))
                except Unreachable:
                    history.append(Operation(began, math.inf, value, value - 1, succeeded=None))
                    continue
                done = isinstance(outcome, Event)
                history.append(Operation(began, clock(), value, value - 1, succeeded=done))

        await asyncio.gather(*(client(store) for store in (one, two) for _ in range(4)))
        for each in faults:
            each.share = 0.0
        final = await one.get(KEY)
        assert final is not None
        reported = sum(each.succeeded is True and each.expected is not None for each in history)
        unknown = sum(each.succeeded is None for each in history)
        assert reported <= start - int(final.value) <= reported + unknown
        assert is_linearizable(history, start)


HISTORIES = [
    ("one after the other", [(0, 1, 5, 4, True), (2, 3, 4, 3, True), (4, 5, None, 3, True)], True),
    ("one swap told to two", [(0, 3, 5, 4, True), (1, 4, 5, 4, True)], False),
    ("at the same time, in the only order that works", [(0, 9, 4, 3, True), (1, 8, 5, 4, True)], True),
    ("a read of what was there before", [(0, 1, 5, 4, True), (2, 3, None, 5, True)], False),
    ("a refusal without a reason", [(0, 1, 5, 4, False)], False),
    ("a write of which nobody knows, that was done", [(0, math.inf, 5, 4, None), (2, 3, None, 4, True)], True),
    ("a write of which nobody knows, that was not done", [(0, math.inf, 5, 4, None), (2, 3, None, 5, True)], True),
    ("and is done later", [(0, math.inf, 5, 4, None), (2, 3, None, 5, True), (4, 5, None, 4, True)], True),
    ("and undone", [(0, math.inf, 5, 4, None), (2, 3, None, 4, True), (4, 5, None, 5, True)], False),
]


@pytest.mark.parametrize(("steps", "fits"), [case[1:] for case in HISTORIES], ids=[case[0] for case in HISTORIES])
def test_the_checker_distinguishes_histories(steps: list[tuple[Any, ...]], fits: bool) -> None:
    history = [Operation(*step) for step in steps]
    assert is_linearizable(history, 5) is fits
