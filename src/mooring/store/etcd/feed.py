"""The watch that keeps a store's memory current: one stream over the whole prefix, resumed after every break.

`store` runs it as a task and passes callbacks. Every watch response holds all events of each of its revisions, in
order; a resumed stream starts right after the last applied revision, so there are no gaps and no duplicates. If etcd
has compacted events that were not received, everything is read again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

from mooring.base import logs
from mooring.base.clock import Clock
from mooring.store.errors import StoreError
from mooring.store.etcd.client import EtcdClient, InDoubt, NotDone, RevisionGone
from mooring.store.etcd.keys import Keys

log = logs.get(__name__)

_PAUSE_SECONDS = 0.1
_RESPONSE_SECONDS = 5.0
_SETTLING_SECONDS = 0.5
_IDLE_SECONDS = 0.01
_PATIENCE_SECONDS = 2.0


class Feed:
    """The watch stream of a store. `run` is its task."""

    def __init__(
        self,
        client: EtcdClient,
        keys: Keys,
        clock: Clock,
        *,
        revision: Callable[[], int],
        receive: Callable[[Any], None],
        read_again: Callable[[], Awaitable[None]],
        give_up: Callable[[], None],
    ) -> None:
        self._client = client
        self._keys = keys
        self._clock = clock
        self._revision = revision
        self._receive = receive
        self._reload = read_again
        self._give_up = give_up
        self._scope: asyncio.Timeout | None = None
        self._needed = asyncio.Event()
        self._is_rolled_back = False
        self._reason = ""
        self._established_since: float | None = None
        self._last_established_at = self.last_response_at = clock.monotonic()
        """When a stream was last established, and when the last response arrived."""

    async def oldest(self, revision: int) -> int:
        """Return the oldest revision that etcd still has, given a compacted one; etcd reports it only to watchers."""
        stream = self._client.watch(self._keys.begin, self._keys.end, revision)
        async with asyncio.timeout(_RESPONSE_SECONDS), aclosing(stream):
            async for response in stream:
                if response.canceled:
                    return int(response.compact_revision)
        raise NotDone("the watch ended")

    def is_settled(self) -> bool:
        """Whether the stream is established for long enough to have delivered the events before its start."""
        return (
            self._established_since is not None
            and self._clock.monotonic() - self._established_since > _SETTLING_SECONDS
        )

    def failure_reason(self) -> str:
        """Return the reason if there has been no stream for a while; otherwise an empty string."""
        if (
            self._established_since is not None
            or self._clock.monotonic() - self._last_established_at < _PATIENCE_SECONDS
        ):
            return ""
        return self._reason

    async def run(self) -> None:
        """Watch and reconnect until etcd is found to have been restored to an earlier revision."""
        while not self._is_rolled_back:
            self._reason = "the member does not tell what others have written"
            try:
                async with asyncio.timeout(None) as self._scope:
                    await self._receive_events()
            except TimeoutError:
                self._client.fail_over(None, self._reason)
            except (NotDone, InDoubt, RevisionGone, StoreError) as error:
                self._reason = str(error)
            except Exception as error:  # a bug, but the store cannot work without the stream
                self._reason = repr(error)
                log.exception("the watch on etcd failed unexpectedly")
            finally:
                self._scope = None
                self._mark_broken()
            if logs.once(("etcd watch", self._reason)):
                log.warning("the watch on etcd broke and is resumed", extra={"fields": {"why": self._reason}})
            await self._clock.sleep(_PAUSE_SECONDS)

    def fail_over_if_silent(self, seconds: float) -> bool:
        """Fail over to another member if the stream has been silent for `seconds`; return whether it did."""
        now = self._clock.monotonic()
        if self._established_since is None or self._scope is None or now - self.last_response_at < seconds:
            return False
        self._mark_broken()
        self._scope.reschedule(asyncio.get_running_loop().time())
        return True

    def _mark_broken(self) -> None:
        if self._established_since is not None:
            self._established_since, self._last_established_at = None, self._clock.monotonic()

    async def _receive_events(self) -> None:
        last = self._revision()
        stream = self._client.watch(self._keys.begin, self._keys.end, last + 1)
        async with aclosing(stream):
            async for response in stream:
                self.last_response_at = self._clock.monotonic()
                if response.canceled:
                    self._mark_broken()
                    await self._handle_cancellation(response)
                    return
                if response.created:
                    if await self._is_behind(response):
                        self._is_rolled_back = True
                        self._give_up()
                        return
                    self._established_since = self.last_response_at
                before = self._revision()
                self._receive(response)
                if before > last and before == self._revision():
                    await self._idle()
                last = before

    async def _idle(self) -> None:
        """Pause reading while only our own writes arrive, because etcd then batches events; `hurry` ends it."""
        self._needed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(_IDLE_SECONDS):
                await self._needed.wait()

    def hurry(self) -> None:
        """Resume reading at once: a caller waits for another server's writes."""
        self._needed.set()

    async def _handle_cancellation(self, response: Any) -> None:
        """Handle a watch that etcd cancelled: read everything again after a compaction, otherwise reconnect."""
        if response.compact_revision:
            log.warning("etcd has compacted what was not seen yet; reading everything again")
            await self._reload()
            return
        self._client.forget_token()  # in case the token has expired
        self._client.fail_over(None, response.cancel_reason)
        raise NotDone(response.cancel_reason)

    async def _is_behind(self, response: Any) -> bool:
        """Whether etcd as a whole, not only a lagging member, is at an older revision than this store."""
        seen = self._revision()
        return response.header.revision < seen and await self._client.revision(self._keys.store) < seen
