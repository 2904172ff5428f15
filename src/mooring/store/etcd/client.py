"""Calls to etcd with failover: one member at a time, the next one if it does not answer.

A failed call raises one of three exceptions, so that the caller knows what to do:

NotDone      it certainly did not happen: retry
InDoubt      no response in time: a write may be done, or may still happen
StoreError   etcd answered with an error: see `store.errors`
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, NoReturn

import grpc

from mooring.base import logs
from mooring.base.clock import Clock
from mooring.store.errors import Closed, DiskFull, OpenError, Refused, StorageError, TooLarge, Unreachable
from mooring.store.etcd.config import EtcdConfig, Server
from mooring.store.etcd.messages import PACKAGE, message

log = logs.get(__name__)

_OPTIONS: list[tuple[str, int]] = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),  # etcd enforces its own limit
    ("grpc.keepalive_time_ms", 6000),  # etcd treats more than one ping in 5 s as an attack
    ("grpc.keepalive_timeout_ms", 3000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),  # a store that is closed closes its connections
    ("grpc.enable_retries", 0),  # this client retries itself: it knows what is idempotent
]
_SERVICES = {
    "Range": "KV",
    "Txn": "KV",
    "Compact": "KV",
    "LeaseGrant": "Lease",
    "LeaseTimeToLive": "Lease",
    "Authenticate": "Auth",
    "Status": "Maintenance",
}
_MESSAGES = {"Compact": "Compaction"}
_BACKOFF_SECONDS = 0.02
_MAX_BACKOFF_SECONDS = 0.5


class NotDone(Exception):  # noqa: N818 - named as `store.errors` does
    """The call did not happen and may be repeated."""


class InDoubt(Exception):  # noqa: N818 - named as `store.errors` does
    """The outcome is unknown: the call may have happened, or may still happen."""


class LeaseGone(Exception):  # noqa: N818 - named as `store.errors` does
    """The lease of a put has expired; nothing was written."""


class RevisionGone(Exception):  # noqa: N818 - named as `store.errors` does
    """The revision was compacted."""


class Member:
    """A gRPC connection to one member of etcd."""

    def __init__(self, server: Server, credentials: grpc.ChannelCredentials | None) -> None:
        self.server = server
        self.channel = (
            grpc.aio.secure_channel(server.address, credentials, options=_OPTIONS)
            if server.tls and credentials
            else grpc.aio.insecure_channel(server.address, options=_OPTIONS)
        )
        self.calls: dict[str, Callable[..., Any]] = {
            name: self.channel.unary_unary(
                f"/{PACKAGE}.{service}/{name}",
                request_serializer=message(f"{_MESSAGES.get(name, name)}Request").SerializeToString,
                response_deserializer=message(f"{_MESSAGES.get(name, name)}Response").FromString,
            )
            for name, service in _SERVICES.items()
        }
        self.watch: Callable[..., Any] = self.channel.stream_stream(
            f"/{PACKAGE}.Watch/Watch",
            request_serializer=message("WatchRequest").SerializeToString,
            response_deserializer=message("WatchResponse").FromString,
        )


class EtcdClient:
    """Calls to the members of one etcd cluster."""

    def __init__(self, config: EtcdConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        credentials = _load_credentials(config) if any(server.tls for server in config.servers) else None
        self._members = [Member(server, credentials) for server in config.servers]
        self._current = random.randrange(len(self._members))  # noqa: S311 - to spread servers over members
        self._token = ""
        self._authenticating = asyncio.Lock()

    async def close(self) -> None:
        for member in self._members:
            await member.channel.close()

    def deadline(self) -> float:
        """Return the time at which a request that starts now has failed."""
        return self._clock.monotonic() + self._config.request_seconds

    async def call_with_retry(self, method: str, request: Any) -> Any:
        """Call an idempotent method and retry until it is answered; raise `Unreachable` on timeout."""
        deadline, tries = self.deadline(), 0
        while True:
            try:
                return await self.call(method, request, deadline)
            except (NotDone, InDoubt) as error:
                tries += 1
                await self.back_off(tries, deadline, error)

    async def revision(self, key: bytes) -> int:
        """Read etcd's current revision (linearizable): every acknowledged write is at or below it."""
        request = message("RangeRequest")(key=key, count_only=True)
        return int((await self.call_with_retry("Range", request)).header.revision)

    async def call(self, method: str, request: Any, deadline: float) -> Any:
        """Call one member once. Raise as described at the top of this module."""
        member = self._members[self._current]
        seconds = max(0.01, min(self._config.attempt_seconds, deadline - self._clock.monotonic()))
        token = self._token
        try:
            if self._config.user and not token:
                token = await self._authenticate(member, seconds)
            metadata = (("token", token),) if token else None
            return await member.calls[method](request, timeout=seconds, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            self._translate_error(member, error, token)
        except grpc.aio.UsageError:
            raise Closed("the store is closed") from None

    async def back_off(self, tries: int, deadline: float, error: Exception) -> None:
        """Back off before the next retry; raise `Unreachable` if the deadline would pass."""
        seconds = min(_BACKOFF_SECONDS * 2 ** min(tries, 10), _MAX_BACKOFF_SECONDS)
        if self._clock.monotonic() + seconds >= deadline:
            raise Unreachable(f"etcd did not answer within {self._config.request_seconds:g}s: {error}") from None
        await self._clock.sleep(seconds * random.uniform(0.5, 1))  # noqa: S311 - jitter

    async def watch(self, begin: bytes, end: bytes, start: int) -> AsyncGenerator[Any, None]:
        """Yield watch responses for a key range from a revision on; raise `NotDone` when the stream breaks."""
        member = self._members[self._current]
        request = message("WatchRequest")()
        request.create_request.key = begin
        request.create_request.range_end = end
        request.create_request.start_revision = start
        metadata = [("hasleader", "true")]  # a member without a leader ends the watch
        seconds, token = self._config.attempt_seconds, self._token
        why = "the watch ended"
        try:
            if self._config.user and not token:
                token = await self._authenticate(member, seconds)
            call = member.watch(metadata=[*metadata, ("token", token)] if token else metadata)
            try:
                async with asyncio.timeout(seconds):
                    await call.write(request)
                    response = await call.read()
                while response is not grpc.aio.EOF:
                    yield response
                    response = await call.read()
            finally:
                call.cancel()
        except grpc.aio.AioRpcError as error:
            self._translate_error(member, error, token)
        except grpc.aio.UsageError:
            raise Closed("the store is closed") from None
        except TimeoutError:
            why = f"no answer to a watch within {seconds:g}s"
        self.fail_over(member, why)
        raise NotDone(f"{member.server.url}: {why}")

    def fail_over(self, member: Member | None, why: str) -> None:
        """Fail over to the next member, unless another task already has."""
        if member is None or self._members[self._current] is member:
            old = self._members[self._current]
            self._current = (self._current + 1) % len(self._members)
            log.info("leaving a member of etcd", extra={"fields": {"server": old.server.url, "why": why}})

    def forget_token(self) -> None:
        """Drop the auth token; the next call authenticates again."""
        self._token = ""

    async def _authenticate(self, member: Member, seconds: float) -> str:
        """Return an auth token. Only one call at a time fetches one, because etcd takes long to check a password."""
        async with self._authenticating:
            if not self._token:
                request = message("AuthenticateRequest")(name=self._config.user, password=self._config.password)
                self._token = (await member.calls["Authenticate"](request, timeout=seconds)).token
            return self._token

    def _translate_error(self, member: Member, error: grpc.aio.AioRpcError, token: str) -> NoReturn:
        code, details = error.code(), error.details() or ""
        text = f"{member.server.url}: {details}"
        _raise_definite(code, details, text)
        if "auth token" in details or "revision of auth store is old" in details:
            if token == self._token:
                self.forget_token()
            raise NotDone(text)
        if "too many requests" in details:
            raise NotDone(text)
        if code in _NO_RESPONSE_CODES:
            self.fail_over(member, details)
            raise (NotDone if _was_never_sent(details) else InDoubt)(text)
        raise StorageError(f"etcd at {text}")


_NO_RESPONSE_CODES = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
)


def _raise_definite(code: grpc.StatusCode, details: str, text: str) -> None:
    """Raise if the error is definite, so that a retry would not change it."""
    if code is grpc.StatusCode.OUT_OF_RANGE:
        raise RevisionGone(text)
    if "lease not found" in details:
        raise LeaseGone(text)
    if "request is too large" in details or "larger than max" in details:
        raise TooLarge("the object is larger than etcd takes (1.5 MiB, unless its --max-request-bytes says otherwise)")
    if "space exceeded" in details:
        raise DiskFull(f"etcd is full: compact and defragment it, then disarm its alarm ({text})")
    if "invalid user ID or password" in details:
        raise Refused(f"etcd does not know this user and password ({text})")
    if "permission denied" in details:
        raise Refused(f"etcd does not permit this user to use the prefix ({text})")
    if "user name is empty" in details:
        raise Refused(f"etcd wants a user and a password ({text})")
    if "authentication is not enabled" in details:
        raise Refused(f"a user was given, but authentication is not enabled in etcd ({text})")


def _was_never_sent(details: str) -> bool:
    """Whether the call certainly did not reach etcd."""
    return "failed to connect" in details or "no leader" in details or "onnection refused" in details


def _load_credentials(config: EtcdConfig) -> grpc.ChannelCredentials:
    def read(path: Path | None) -> bytes | None:
        try:
            return path.read_bytes() if path else None
        except OSError as error:
            raise OpenError(f"{path}: {error.strerror}") from None

    return grpc.ssl_channel_credentials(read(config.ca_file), read(config.key_file), read(config.cert_file))
