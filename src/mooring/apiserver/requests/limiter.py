"""Limit concurrent requests, request rates, the bytes of bodies in memory, and the time of requests.

A client over a limit gets `429 Too Many Requests` with `Retry-After`, after which kubectl and client-go retry. Each
shared resource (slots for requests, watches and streams; bytes of bodies) is a `Slots`:

    75 %   at most for ordinary users together, and 25 % for one of them
    90 %   at most for ordinary users and nodes together
   100 %   for all, with administrators and the control plane's own components

so that no user can keep out other users, node heartbeats or administrators. Service accounts of one namespace count
as one user. The HTTP server limits headers and slow connections; the numbers are in ``edge/limits.py``.
"""

import asyncio
from functools import lru_cache
from typing import Any

import msgspec

from mooring.api import errors
from mooring.api.authentication_v1 import UserInfo
from mooring.apiserver.edge.limits import Limits
from mooring.apiserver.messages import users
from mooring.base.clock import Clock
from mooring.base.token_bucket import TokenBucket

_TRY_AGAIN = "Too many requests, please try again later."
_MAX_BUCKETS = 10_000
_COMPONENTS = frozenset({users.SCHEDULER, users.CONTROLLERS, users.SERVER.username})
_ORDINARY, _NODE, _EXEMPT = range(3)
"""The ranks of users: a share of all request slots is reserved for each higher rank."""
_WAITING_BODY_BYTES = 64 * 1024
"""The minimum number of bytes counted for a body in transit, for its connection and its task."""


class RequestLimiter:
    """Limits the requests of each user: their rate, how many run concurrently, and their bytes in memory."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self.limits = limits
        self._clock = clock
        self._bucket_of = lru_cache(maxsize=_MAX_BUCKETS)(self._make_bucket)
        self.reading, self.writing = Slots(limits.reading), Slots(limits.writing)
        self.watches = Slots(limits.watches)
        self.waiting_bytes = Slots(limits.waiting_bytes)
        self.streams = Slots(limits.streams, limits.user_streams)
        self.unsent_bytes = Slots(limits.unsent_bytes)
        self.deadlines = Deadlines(limits.request_seconds)

    def check_rate(self, user: UserInfo) -> None:
        """Count a request of a user; raise TooManyRequests if this exceeds the user's rate."""
        if user.username in _COMPONENTS or users.MASTERS in user.groups:
            return
        wait = self._bucket_of(user.username).take(self._clock.monotonic())
        if wait > 0:
            raise errors.too_many_requests(_TRY_AGAIN, max(1, round(wait)))

    def _make_bucket(self, _user: str) -> TokenBucket:
        return TokenBucket.full(self.limits.client_rate, self.limits.client_burst, self._clock.monotonic())

    def take_slot(self, verb: str, user: UserInfo) -> "HeldSlots":
        """Reserve and return a slot for handling a request; raise TooManyRequests if the user may have no more."""
        if verb == "watch":
            return _require_slots(self.watches.take(user), 5)
        return _require_slots((self.reading if verb in {"get", "list"} else self.writing).take(user))

    def take_stream_slot(self, user: UserInfo) -> "HeldSlots":
        """Reserve and return a slot for logs, exec or another stream; raise TooManyRequests if there is none."""
        why = "too many streams are open (logs, exec, attach, port-forward, proxy): end one, or try again later"
        return _require_slots(self.streams.take(user), 5, why)

    def reserve_body(self, user: UserInfo) -> "HeldSlots":
        """Reserve and return memory for the first bytes of a body; raise TooManyRequests if there is none."""
        return _require_slots(self.waiting_bytes.take(user, _WAITING_BODY_BYTES))

    def reserve_response(self, user: UserInfo, size: int) -> "HeldSlots | None":
        """Reserve memory for a large response until it is sent; None if its user has too much unsent.

        A response larger than a user's share counts as the share: it is sent when no other response of the user waits.
        """
        return self.unsent_bytes.take(user, min(size, self.unsent_bytes.most_of_user))

    def grow_body(self, body: "HeldSlots", size: int) -> None:
        """Reserve memory for more bytes of a body; raise TooManyRequests if its user has too many."""
        if not body.grow(size):
            raise errors.too_many_requests(_TRY_AGAIN, 1)


class Slots:
    """A limited number of slots or bytes: each user may take a share, and nodes and administrators have a reserve."""

    __slots__ = ("_most", "_most_by_rank", "_taken_by_rank", "_taken_by_user", "most_of_user", "taken")

    def __init__(self, most: int, most_of_user: int = 0) -> None:
        self._most = most
        self._most_by_rank = (max(1, most * 3 // 4), max(1, most * 9 // 10), most)
        self.most_of_user = most_of_user or -(-most // 4)
        self._taken_by_rank = [0, 0, 0]
        self._taken_by_user: dict[str, int] = {}
        self.taken = 0

    def take(self, user: UserInfo, count: int = 1) -> "HeldSlots | None":
        """Take a number of slots for a user; return None, taking none, if that exceeds a limit."""
        rank, holder = _classify_user(user)
        return HeldSlots(self, rank, holder, count) if self.add(rank, holder, count) else None

    def add(self, rank: int, holder: str, count: int) -> bool:
        """Take a number of slots for a holder of some rank; return False, taking none, if that exceeds a limit."""
        ranks, held = self._taken_by_rank, self._taken_by_user.get(holder, 0) + count
        is_over_share = rank != _EXEMPT and held > self.most_of_user
        is_reserved = rank != _EXEMPT and sum(ranks[: rank + 1]) + count > self._most_by_rank[rank]
        if is_over_share or is_reserved or self.taken + count > self._most:
            return False
        self._taken_by_user[holder] = held
        ranks[rank] += count
        self.taken += count
        return True

    def release(self, rank: int, holder: str, count: int) -> None:
        self.taken -= count
        self._taken_by_rank[rank] -= count
        held = self._taken_by_user[holder] - count
        if held:
            self._taken_by_user[holder] = held
        else:
            del self._taken_by_user[holder]


class HeldSlots(msgspec.Struct, eq=False):
    """Slots taken from a pool. They are returned at the end of a `with` block or, after `keep`, by `release`."""

    slots: Slots
    rank: int
    holder: str
    count: int = 0
    kept: bool = False

    def grow(self, count: int) -> bool:
        """Take additional slots from the pool; return False, taking none, if that exceeds a limit."""
        if not self.slots.add(self.rank, self.holder, count):
            return False
        self.count += count
        return True

    def __enter__(self) -> "HeldSlots":
        return self

    def __exit__(self, *_: object) -> None:
        if not self.kept:
            self.release()

    def keep(self) -> "HeldSlots":
        """Prevent the `with` block from returning the slots to the pool; return self."""
        self.kept = True
        return self

    def release(self) -> None:
        if self.count:
            self.slots.release(self.rank, self.holder, self.count)
            self.count = 0


class Deadlines:
    """Ends the requests that take longer than a number of seconds, by one timer for all of them.

    A timer for each (`asyncio.timeout`) would cost 3.5 µs, a tenth of the 35 µs that a get takes.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._running: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> "Deadline":
        """Return a `with` block for the current task, which raises TimeoutError if it takes longer than allowed."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(ends, self._expire)
        task = asyncio.current_task(loop)
        assert task is not None, "requests run in tasks"  # noqa: S101 - says what is known
        return Deadline(self._running, ends, task, task.cancelling())

    def _expire(self) -> None:
        """Cancel the tasks of late requests; set the timer to the time at which the next one would be late."""
        loop = asyncio.get_running_loop()
        now, self._timer = loop.time(), None
        for deadline in self._running:
            if deadline.ends <= now and not deadline.has_passed:
                deadline.has_passed = True
                deadline.task.cancel()
        waiting = [deadline.ends for deadline in self._running if not deadline.has_passed]
        if waiting:
            self._timer = loop.call_at(min(waiting), self._expire)


class Deadline(msgspec.Struct, eq=False):
    """The time at which a request must be done, as a `with` block in its task."""

    running: "set[Deadline]"
    ends: float
    task: asyncio.Task[Any]
    cancellations: int
    """How many cancellations of the task are not from this deadline."""
    has_passed: bool = False

    def __enter__(self) -> None:
        self.running.add(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self.running.discard(self)
        if self.has_passed and self.task.uncancel() <= self.cancellations and kind is asyncio.CancelledError:
            raise TimeoutError from error


def _classify_user(user: UserInfo) -> tuple[int, str]:
    """Return a user's rank (ordinary, node, exempt) and slot holder: the user, or its namespace's service accounts."""
    if users.MASTERS in user.groups or user.username in _COMPONENTS:
        return _EXEMPT, user.username
    if users.NODES in user.groups:
        return _NODE, user.username
    account = users.split_service_account(user.username)  # a user may create many in a namespace
    return _ORDINARY, f"system:serviceaccounts:{account[0]}" if account else user.username


def _require_slots(held: "HeldSlots | None", retry_seconds: int = 1, why: str = _TRY_AGAIN) -> "HeldSlots":
    if held is None:
        raise errors.too_many_requests(why, retry_seconds)
    return held
