"""Log lines of simulated containers, as a function of time: line 17 of a run is always the same, written when it was.

So nothing is stored, `--tail` needs no reading from the start, and `--follow` waits for the moment of the next line.
As a kubelet rotates its files, only the last lines of a run are kept.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from mooring.api import times
from mooring.api.core_v1 import Node, Pod
from mooring.apiserver.streams.questions import LogOptions
from mooring.apiserver.streams.simulated.container import Run, spec_of
from mooring.apiserver.streams.simulated.rules import LogRule
from mooring.base.clock import Clock

KEPT_LINES = 10_000
_LOOK_SECONDS = 1.0
"""How often somebody who follows looks whether the container still runs."""
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Log:
    """The log of one run."""

    run: Run
    rule: LogRule
    greeting: str
    """What containers log that were told nothing."""

    def count(self, now: datetime) -> int:
        """How many lines there are by now."""
        until = min(now, self.run.ended or now)
        lines = self._lines()
        if not lines or until < self.run.began:
            return 0
        if not self.rule.seconds:
            return len(lines)
        passed = int((until - self.run.began).total_seconds() / self.rule.seconds) + 1
        return passed if self.rule.repeat else min(passed, len(lines))

    def time(self, index: int) -> datetime:
        return self.run.began + timedelta(seconds=index * self.rule.seconds)

    def text(self, index: int) -> str:
        lines = self._lines()
        return lines[index % len(lines)]

    def is_over(self, count: int) -> bool:
        """Whether no line can follow that many."""
        return self.run.ended is not None or not (self.rule.repeat or count < len(self._lines()))

    def _lines(self) -> tuple[str, ...]:
        if self.rule.lines is not None:
            return self.rule.lines
        end = (f"exited with code {self.run.exit_code}",) if self.run.ended else ()
        return (self.greeting, *end)


def greeting(node: Node, pod: Pod, container: str) -> str:
    spec = spec_of(pod, container)
    image = spec.image if spec else ""
    return f"container {container} ({image}) started on the simulated node {node.metadata.name}"


def shown(log: Log, options: LogOptions, now: datetime) -> Iterator[bytes]:
    """What is there, in a few large pieces, without the limit on bytes."""
    count = log.count(now)
    kept = min(count, KEPT_LINES if options.tail_lines is None else min(options.tail_lines, KEPT_LINES))
    since = _since(options, now)
    lines = (index for index in range(count - kept, count) if since is None or log.time(index) >= since)
    batch: list[bytes] = []
    for index in lines:
        batch.append(_line(log, index, options))
        if len(batch) == _BATCH:
            yield b"".join(batch)
            batch.clear()
    if batch:
        yield b"".join(batch)


async def followed(
    log: Log, options: LogOptions, clock: Clock, present: Callable[[], Awaitable[Log | None]], written: int
) -> AsyncIterator[bytes]:
    """The lines behind the first `written`, as they come, until the run is over; `present` looks how it is."""
    while True:
        count = log.count(clock.now())
        for first in range(max(written, count - KEPT_LINES), count, _BATCH):
            yield b"".join(_line(log, index, options) for index in range(first, min(first + _BATCH, count)))
        written = count
        if log.run.ended is not None:
            return
        await clock.sleep(_pause(log, count, clock.now()))
        current = await present()
        if current is None:
            return
        log = current


def _pause(log: Log, count: int, now: datetime) -> float:
    if log.is_over(count):
        return _LOOK_SECONDS
    return min(_LOOK_SECONDS, max(0.005, (log.time(count) - now).total_seconds()))


async def limited(pieces: AsyncIterator[bytes], most: int | None) -> AsyncIterator[bytes]:
    """The first bytes of a log."""
    left = most
    async for piece in pieces:
        if left is None:
            yield piece
            continue
        yield piece[:left]
        left -= len(piece)
        if left <= 0:
            return


def _since(options: LogOptions, now: datetime) -> datetime | None:
    if options.since_seconds is not None:
        return now - timedelta(seconds=min(options.since_seconds, 10**9))
    return options.since_time


def _line(log: Log, index: int, options: LogOptions) -> bytes:
    text = log.text(index)
    if options.timestamps:
        text = f"{times.to_microseconds(log.time(index))[:-1]}000Z {text}"
    return f"{text}\n".encode()
