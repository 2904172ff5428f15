"""The watch that fills the memory of a store: one stream over the whole prefix, resumed wherever it breaks.

`store` runs it as a task and hands in what to do. Every response of etcd holds all events of each revision in it, in
order; a stream that is resumed begins right behind the last revision that was applied, so there is no gap and nothing
twice. Only if etcd has compacted what we have not seen, there is a hole: then everything is read again.
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
_ANSWER_SECONDS = 5.0
_SETTLING_SECONDS = 0.5
_IDLE_SECONDS = 0.01
_PATIENCE_SECONDS = 2.0


class Feed:
    """The stream. `run` is a task of the store."""

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
        self._read_again = read_again
        self._give_up = give_up
        self._scope: asyncio.Timeout | None = None
        self._needed = asyncio.Event()
        self._went_back = False
        self._why = ""
        self._stands_since: float | None = None
        self._stood = self.heard = clock.monotonic()
        """When there was a stream for the last time, and when etcd told something."""

    async def oldest(self, revision: int) -> int:
        """The oldest revision that etcd still knows, given one that it does not; etcd tells so only to watchers."""
        stream = self._client.watch(self._keys.begin, self._keys.end, revision)
        async with asyncio.timeout(_ANSWER_SECONDS), aclosing(stream):
            async for response in stream:
                if response.canceled:
                    return int(response.compact_revision)
        raise NotDone("the watch ended")

    def settled(self) -> bool:
        """Whether the stream stands for long enough to have told what happened before it began."""
        return self._stands_since is not None and self._clock.monotonic() - self._stands_since > _SETTLING_SECONDS

    def trouble(self) -> str:
        """Why there is no stream, if there has been none for a while; empty otherwise."""
        if self._stands_since is not None or self._clock.monotonic() - self._stood < _PATIENCE_SECONDS:
            return ""
        return self._why

    async def run(self) -> None:
        """Follow etcd for as long as that makes sense."""
        while not self._went_back:
            self._why = "the member does not tell what others have written"
            try:
                async with asyncio.timeout(None) as self._scope:
                    await self._follow()
            except TimeoutError:
                self._client.leave(None, self._why)
            except (NotDone, InDoubt, RevisionGone, StoreError) as error:
                self._why = str(error)
            except Exception as error:  # a mistake of ours, but without the stream nothing goes on
                self._why = repr(error)
                log.exception("the watch on etcd failed unexpectedly")
            finally:
                self._scope = None
                self._fell()
            if logs.once(("etcd watch", self._why)):
                log.warning("the watch on etcd broke and is resumed", extra={"fields": {"why": self._why}})
            await self._clock.sleep(_PAUSE_SECONDS)

    def resume_elsewhere(self, seconds: float) -> bool:
        """Leave the member if the stream stands but has told nothing for so long; returns whether that is so."""
        now = self._clock.monotonic()
        if self._stands_since is None or self._scope is None or now - self.heard < seconds:
            return False
        self._fell()
        self._scope.reschedule(asyncio.get_running_loop().time())
        return True

    def _fell(self) -> None:
        if self._stands_since is not None:
            self._stands_since, self._stood = None, self._clock.monotonic()

    async def _follow(self) -> None:
        last = self._revision()
        stream = self._client.watch(self._keys.begin, self._keys.end, last + 1)
        async with aclosing(stream):
            async for response in stream:
                self.heard = self._clock.monotonic()
                if response.canceled:
                    self._fell()
                    await self._ended(response)
                    return
                if response.created:
                    if await self._is_behind(response):
                        self._went_back = True
                        self._give_up()
                        return
                    self._stands_since = self.heard
                before = self._revision()
                self._receive(response)
                if before > last and before == self._revision():
                    await self._idle()
                last = before

    async def _idle(self) -> None:
        """Read no more for a moment: all that comes are writes of our own, of which we know already.

        Then etcd tells of many at once, which costs less. Whoever waits for something else says `hurry`.
        """
        self._needed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(_IDLE_SECONDS):
                await self._needed.wait()

    def hurry(self) -> None:
        """Somebody waits for what others have written."""
        self._needed.set()

    async def _ended(self, response: Any) -> None:
        """Etcd itself ended the watch."""
        if response.compact_revision:
            log.warning("etcd has compacted what was not seen yet; reading everything again")
            await self._read_again()
            return
        self._client.forget_token()  # if that is why, the next one will do
        self._client.leave(None, response.cancel_reason)
        raise NotDone(response.cancel_reason)

    async def _is_behind(self, response: Any) -> bool:
        """Whether etcd as a whole, and not only a member that lags, is behind what we have seen."""
        seen = self._revision()
        return response.header.revision < seen and await self._client.revision(self._keys.store) < seen
