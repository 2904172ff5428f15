"""The queue of a controller: each item is in it once, and with one worker at a time.

The semantics are Kubernetes': an item that is added while it waits is not added twice; one that is added while a worker
has it returns to the queue when the worker is done. `add_rate_limited` delays an item longer after each failure.

    while (key := await queue.get()) is not None:
        try:
            await reconcile(key)
            queue.forget(key)
        except StatusError:
            queue.add_rate_limited(key)
        finally:
            queue.done(key)
"""

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

import msgspec

from mooring.base.clock import Clock

K = TypeVar("K", bound=Hashable)


class Backoff(msgspec.Struct, frozen=True):
    """Exponential delays: `initial` seconds after the first failure, then `factor` times longer, up to `maximum`."""

    initial: float
    maximum: float
    factor: float = 2.0
    jitter: float = 0.0
    """The largest random part that is added to a delay, as a fraction of it."""

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after this many failures in a row."""
        if failures <= 0:
            return 0.0
        try:
            plain = self.initial * self.factor ** (failures - 1)
        except OverflowError:
            return self.maximum
        spread = 1 + random.random() * self.jitter  # noqa: S311 - not a secret
        return min(plain * spread, self.maximum)


DEFAULT_BACKOFF = Backoff(initial=0.005, maximum=1000.0)
"""The default backoff, that of Kubernetes."""


class WorkQueue(Generic[K]):
    """A queue of items for workers in one event loop: an item is queued once and processed by one worker at a time."""

    def __init__(self, clock: Clock, backoff: Backoff = DEFAULT_BACKOFF) -> None:
        self._clock = clock
        self._backoff = backoff
        self._ready: deque[K] = deque()
        self._dirty: set[K] = set()
        """Items that need work: those in `_ready`, and those that a worker has and that were added again."""
        self._processing: set[K] = set()
        self._available = asyncio.Semaphore(0)
        """Counts the items of `_ready`, and one more when the queue is shut down."""
        self._failures: dict[K, int] = {}
        self._later: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        """When each delayed item is due; entries of `_later` with another time are stale."""
        self._order = 0
        self._timer: asyncio.Task[None] | None = None
        self._closed = False

    def __len__(self) -> int:
        """Return the number of items that `get` can return now."""
        return len(self._ready)

    @property
    def in_progress(self) -> int:
        return len(self._processing)

    def add(self, item: K) -> None:
        """Add an item at the end, unless it is queued; one that a worker has is queued when the worker calls `done`."""
        if self._closed or item in self._dirty:
            return
        self._dirty.add(item)
        if item not in self._processing:
            self._append_ready(item)

    def add_after(self, item: K, seconds: float) -> None:
        """Add an item after some seconds; if it is delayed already, the earlier of the two times counts."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(item)
            return
        due = self._clock.monotonic() + seconds
        if due >= self._due.get(item, float("inf")):
            return
        self._due[item] = due
        self._order += 1
        entry = (due, self._order, item)
        heapq.heappush(self._later, entry)
        if self._later[0] is entry:
            self._set_timer()

    def add_rate_limited(self, item: K) -> float:
        """Add an item that failed after a delay that grows with each failure; return the delay in seconds."""
        failures = self._failures[item] = self._failures.get(item, 0) + 1
        delay = self._backoff.delay(failures)
        self.add_after(item, delay)
        return delay

    def add_delayed_now(self) -> None:
        """Add all delayed items at once, without waiting until they are due."""
        for item in list(self._due):
            self.add(item)
        self._due.clear()

    def forget(self, item: K) -> None:
        """Reset an item's count of failures, because it succeeded."""
        self._failures.pop(item, None)

    def failures(self, item: K) -> int:
        """Return how often an item was added by `add_rate_limited` since the last `forget`."""
        return self._failures.get(item, 0)

    async def get(self) -> K | None:
        """Wait for an item and return it; None if the queue is shut down and empty. Call `done` after processing it."""
        await self._available.acquire()
        if not self._ready:
            self._available.release()  # for the next getter
            return None
        item = self._ready.popleft()
        self._dirty.discard(item)
        self._processing.add(item)
        return item

    def done(self, item: K) -> None:
        """Declare an item processed; if it was added again meanwhile, it becomes ready for `get` again."""
        self._processing.discard(item)
        if item in self._dirty:
            self._append_ready(item)

    def shut_down(self) -> None:
        """Ignore items added from now on and drop delayed ones; `get` returns the ready ones, then None."""
        if not self._closed:
            self._available.release()
        self._closed = True
        self._later.clear()
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _append_ready(self, item: K) -> None:
        self._ready.append(item)
        self._available.release()

    def _set_timer(self) -> None:
        """Start the timer for the delayed item that is due next, in place of a running one."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().create_task(self._add_due_items_after_wait(self._later[0][0]))

    async def _add_due_items_after_wait(self, time: float) -> None:
        await self._clock.sleep(time - self._clock.monotonic())
        now = self._clock.monotonic()
        while self._later and self._later[0][0] <= now:
            due, _, item = heapq.heappop(self._later)
            if self._due.get(item) == due:
                del self._due[item]
                self.add(item)
        self._timer = None
        if self._later:
            self._set_timer()
