"""Clients that send too many requests are asked to retry later."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest

from app_calls import ADMIN, Caller, running
from mooring.api import errors
from mooring.api.authentication_v1 import UserInfo
from mooring.apiserver.edge.limits import Limits
from mooring.apiserver.messages.http import Response
from mooring.apiserver.requests.limiter import Deadlines, RequestLimiter, Slots
from mooring.testing.clock import MockClock

pytestmark = pytest.mark.req("S.6")
JANE, JOHN = UserInfo(username="jane"), UserInfo(username="john")
ROOT = UserInfo(username="root", groups=["system:masters"])


@pytest.fixture
def clock() -> MockClock:
    return MockClock()


@pytest.fixture
def limiter(clock: MockClock) -> RequestLimiter:
    return RequestLimiter(Limits(client_rate=2, client_burst=3, reading=2, writing=1, watches=1), clock)


def _allowed(limiter: RequestLimiter, user: UserInfo, times: int) -> int:
    allowed = 0
    for _ in range(times):
        try:
            limiter.check_rate(user)
        except errors.TooManyRequests:
            continue
        allowed += 1
    return allowed


def test_a_client_has_a_burst_and_then_a_rate(limiter: RequestLimiter, clock: MockClock) -> None:
    assert _allowed(limiter, JANE, 10) == 3
    clock.advance(1)
    assert _allowed(limiter, JANE, 10) == 2
    clock.advance(100)
    assert _allowed(limiter, JANE, 10) == 3


def test_clients_do_not_take_from_each_other(limiter: RequestLimiter) -> None:
    assert _allowed(limiter, JANE, 10) == 3
    assert _allowed(limiter, JOHN, 10) == 3


def test_masters_are_exempt(limiter: RequestLimiter) -> None:
    assert _allowed(limiter, ROOT, 100) == 100


def test_a_refusal_says_when_to_come_back() -> None:
    limiter = RequestLimiter(Limits(client_rate=0.1, client_burst=1), MockClock())
    limiter.check_rate(JANE)
    with pytest.raises(errors.TooManyRequests) as refused:
        limiter.check_rate(JANE)
    assert refused.value.status.details is not None
    assert refused.value.status.details.retry_after_seconds == 10


@pytest.mark.parametrize(("verb", "most"), [("list", 2), ("create", 1), ("delete", 1), ("watch", 1)])
def test_so_many_at_once_and_no_more(limiter: RequestLimiter, verb: str, most: int) -> None:
    with ExitStack() as places:
        for _ in range(most):
            places.enter_context(limiter.take_slot(verb, ROOT))
        with pytest.raises(errors.TooManyRequests), limiter.take_slot(verb, ROOT):
            pass
    with limiter.take_slot(verb, ROOT):
        pass


def test_reading_writing_and_watching_are_counted_apart(limiter: RequestLimiter) -> None:
    with limiter.take_slot("create", JANE), limiter.take_slot("watch", JANE), limiter.take_slot("get", JANE):
        assert (limiter.reading.taken, limiter.writing.taken, limiter.watches.taken) == (1, 1, 1)
    assert (limiter.reading.taken, limiter.writing.taken, limiter.watches.taken) == (0, 0, 0)


NODE = UserInfo(username="system:node:n1", groups=["system:nodes"])
OTHER_NODE = UserInfo(username="system:node:n2", groups=["system:nodes"])
SCHEDULER = UserInfo(username="system:kube-scheduler")
ACCOUNTS = [UserInfo(username=f"system:serviceaccount:jail:a{number}") for number in range(100)]
SHARES = [
    ("one user has a quarter", [JANE], 25),
    ("all users have three quarters", [UserInfo(username=f"u{number}") for number in range(100)], 75),
    ("service accounts of a namespace are one user", ACCOUNTS, 25),
    ("one node has a quarter", [NODE], 25),
    ("nodes have nine tenths", [UserInfo(username=f"n{n}", groups=["system:nodes"]) for n in range(100)], 90),
    ("administrators have all", [ROOT], 100),
    ("components have all", [SCHEDULER], 100),
]


def _taken(slots: Slots, holders: list[UserInfo]) -> int:
    return sum(slots.take(holders[number % len(holders)]) is not None for number in range(300))


@pytest.mark.parametrize(("holders", "most"), [case[1:] for case in SHARES], ids=[case[0] for case in SHARES])
def test_a_user_has_a_share_of_the_slots(holders: list[UserInfo], most: int) -> None:
    assert _taken(Slots(100), holders) == most


def test_slots_are_reserved_for_nodes_and_for_administrators() -> None:
    slots = Slots(100)
    crowd = [UserInfo(username=f"u{number}") for number in range(100)]
    assert _taken(slots, crowd) == 75
    assert _taken(slots, [NODE, OTHER_NODE]) == 15
    assert _taken(slots, [ROOT, SCHEDULER]) == 10


def test_released_slots_can_be_taken_again() -> None:
    slots = Slots(100)
    for _ in range(1000):
        place = slots.take(JANE, 20)
        assert place is not None
        assert not place.grow(6)
        with place:
            pass
    assert slots.taken == 0


async def test_a_refusal_is_429_with_retry_after(tmp_path: Path) -> None:
    async with running(tmp_path, limits=Limits(client_rate=1, client_burst=1)) as server:
        jane = Caller(server.app, ADMIN).as_user("jane")
        assert (await jane("GET", "/version")).status == 200
        answer = await jane("GET", "/version")
    assert (answer.status, answer.headers["retry-after"]) == (429, "1")
    assert answer.json["details"]["retryAfterSeconds"] == 1


async def test_one_watch_too_many_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, limits=Limits(watches=1)) as server:
        call = Caller(server.app, ADMIN)
        async with call.stream("/api/v1/pods?watch=1"):
            assert (await call("GET", "/api/v1/pods?watch=1")).status == 429
            assert (await call("GET", "/api/v1/pods")).status == 200


async def _wait_within(deadlines: Deadlines, event: asyncio.Event) -> str:
    try:
        with deadlines.start():
            await event.wait()
    except TimeoutError:
        return "late"
    return "done"


async def test_each_late_request_ends_with_a_timeout_and_no_other() -> None:
    deadlines, done = Deadlines(0.02), asyncio.Event()
    first, second = (asyncio.create_task(_wait_within(deadlines, asyncio.Event())) for _ in range(2))
    punctual = asyncio.create_task(_wait_within(deadlines, done))
    await asyncio.sleep(0)
    done.set()
    assert [await punctual, await first, await second] == ["done", "late", "late"]
    assert await _wait_within(deadlines, asyncio.Event()) == "late", "the timer is set again"


async def test_a_cancelled_request_does_not_end_with_a_timeout() -> None:
    waiting = asyncio.create_task(_wait_within(Deadlines(60), asyncio.Event()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_request_that_takes_too_long_is_answered_with_504(tmp_path: Path) -> None:
    async with running(tmp_path, limits=Limits(request_seconds=0.02)) as server:

        async def wait_forever(_: object) -> Response:
            await asyncio.Event().wait()
            return Response()

        server.app.paths["/slow"] = wait_forever
        answer = await Caller(server.app, ADMIN)("GET", "/slow")
    assert (answer.status, answer.json["reason"]) == (504, "Timeout")
