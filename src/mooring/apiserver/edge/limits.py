"""What a request may cost: how many at once, how often, how large, how slow.

Whoever is over a limit is told `429 Too Many Requests` and when to come back; well-behaved clients (kubectl, client-go)
then wait and try again by themselves. The edge asks here before it does anything else for a request whose sender it
knows. Limits on bytes and on slow connections are kept by ``server.py`` and by the edge while it reads.
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass

import msgspec

from mooring.api import errors
from mooring.api.authentication_v1 import UserInfo
from mooring.apiserver.edge.callback_stack import CallbackStack
from mooring.apiserver.messages import users
from mooring.base.clock import Clock

_KNOWN_CLIENTS = 10_000
_EXEMPT = frozenset({users.SCHEDULER, users.CONTROLLERS})
"""Slowing these down slows down the whole cluster, and helps nobody."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a server. The defaults suit a cluster of some thousand nodes on a small machine."""

    body_bytes: int = 3 * 1024 * 1024
    header_bytes: int = 64 * 1024
    reading: int = 2000
    """Requests that read, at once; watches do not count."""
    writing: int = 1000
    """Requests that write, at once."""
    watches: int = 5000
    """Open watches."""
    streams: int = 1000
    """Open logs, commands, forwarded ports and proxied requests."""
    user_streams: int = 200
    """The same of one user; administrators are exempt."""
    client_rate: float = 2000.0
    """Requests a second of one client, in the long run. Administrators and the control plane's own are exempt."""
    client_burst: int = 4000
    header_seconds: float = 15.0
    """Until a request line and its headers must have come."""
    body_seconds: float = 30.0
    """Until a body must have come."""
    request_seconds: float = 60.0
    """Until a request must be answered; watches last longer."""
    stalled_seconds: float = 60.0
    """How long a client may refuse to take what was sent to it."""
    idle_seconds: int = 120
    """How long a connection without requests is kept."""


class RequestLimiter:
    """Counts what is going on and turns away what is too much."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self.limits = limits
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._open = {"reading": 0, "writing": 0, "watches": 0}
        self._most = {"reading": limits.reading, "writing": limits.writing, "watches": limits.watches}
        self.streams: Counter[str] = Counter()
        """Open streams by user."""

    @property
    def reading(self) -> int:
        return self._open["reading"]

    @property
    def writing(self) -> int:
        return self._open["writing"]

    @property
    def watches(self) -> int:
        return self._open["watches"]

    def check_rate(self, user: UserInfo) -> None:
        """Raises TooManyRequests when a client comes too often."""
        if user.username in _EXEMPT or users.MASTERS in user.groups:
            return
        now = self._clock.monotonic()
        bucket = self._buckets.get(user.username)
        if bucket is None:
            bucket = self._buckets[user.username] = _Bucket(float(self.limits.client_burst), now)
            if len(self._buckets) > _KNOWN_CLIENTS:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(user.username)
        wait = bucket.take(now, self.limits.client_rate, self.limits.client_burst)
        if wait > 0:
            raise _too_many(max(1, round(wait)))

    def one_more(self, verb: str) -> "Place":
        """A place for a request while it is worked on; raises TooManyRequests when there is none."""
        kind = "watches" if verb == "watch" else "reading" if verb in {"get", "list"} else "writing"
        if self._open[kind] >= self._most[kind]:
            raise _too_many(5 if kind == "watches" else 1)
        self._open[kind] += 1
        return Place(self._open, kind)

    def one_more_stream(self, user: UserInfo) -> CallbackStack:
        """A place for a stream until what is returned is closed; raises TooManyRequests when there is none."""
        name = user.username
        if self.streams.total() >= self.limits.streams:
            raise _too_many_streams(f"the server has {self.limits.streams} streams open")
        if self.streams[name] >= self.limits.user_streams and users.MASTERS not in user.groups:
            raise _too_many_streams(f"you have {self.limits.user_streams} streams open")
        self.streams[name] += 1
        place = CallbackStack()
        place.callback(self._end_stream, name)
        return place

    def _end_stream(self, name: str) -> None:
        self.streams[name] -= 1
        if not self.streams[name]:
            del self.streams[name]


class Place(msgspec.Struct, eq=False):
    """A request that counts, until the end of a `with`, or longer if it is handed on."""

    open: dict[str, int]
    kind: str
    kept: bool = True

    def __enter__(self) -> "Place":
        return self

    def __exit__(self, *_: object) -> None:
        if self.kept:
            self.open[self.kind] -= 1

    def hand_on(self) -> CallbackStack:
        """Keep the place beyond the `with`, until what is returned is closed."""
        self.kept = False
        places = CallbackStack()
        places.callback(self._leave)
        return places

    def _leave(self) -> None:
        self.open[self.kind] -= 1


@dataclass(slots=True)
class _Bucket:
    """Tokens that come back at a steady rate; a request takes one."""

    tokens: float
    at: float

    def take(self, now: float, rate: float, burst: int) -> float:
        """0 when there was a token, else the seconds until there is one."""
        self.tokens = min(float(burst), self.tokens + (now - self.at) * rate)
        self.at = now
        if self.tokens >= 1:
            self.tokens -= 1
            return 0.0
        return (1 - self.tokens) / rate


def _too_many(seconds: int) -> errors.TooManyRequests:
    return errors.too_many_requests("Too many requests, please try again later.", seconds)


def _too_many_streams(why: str) -> errors.TooManyRequests:
    return errors.too_many_requests(f"{why} (logs, exec, attach, port-forward, proxy): end one, or try again later", 5)
