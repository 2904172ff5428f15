"""Log lines of simulated containers as a function of time: line 17 of a run always has the same text and timestamp.

So nothing is stored, `--tail` reads nothing before its lines, and `--follow` sleeps until the next line is due. As with
a kubelet that rotates files, only the last 10,000 lines and 10 MiB of a run can be read. Logs are generated in pieces
as their reader takes them, so that a slow reader takes no memory.
"""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from mooring.api import times
from mooring.apiserver.streams.query_options import LogOptions
from mooring.apiserver.streams.simulated.container import ContainerRun
from mooring.apiserver.streams.simulated.pod_annotations import DeclaredLog
from mooring.base.clock import Clock
from mooring.shell import Outcome, bytes_of

KEPT_LINES = 10_000
KEPT_BYTES = 10 * 1024 * 1024
_LOOK_SECONDS = 1.0
"""The interval, in seconds, at which a follower checks whether the container still runs."""
_PIECE_BYTES = 64 * 1024


class Log(msgspec.Struct, frozen=True):
    """The log of one run of a simulated container: its lines, and when each is written."""

    run: ContainerRun
    lines: Sequence[str]
    seconds: Sequence[float]
    """When each line is printed, in seconds after the start of the run."""
    period: float = 0.0
    """The seconds after which the lines repeat; 0 if they do not."""

    def count(self, now: datetime) -> int:
        """Return the number of lines that have been written by the time `now`."""
        passed = (min(now, self.run.ended or now) - self.run.began).total_seconds()
        if passed < 0 or not self.lines:
            return 0
        rounds, rest = divmod(passed, self.period) if self.period else (0, passed)
        return int(rounds) * len(self.lines) + bisect_right(self.seconds, rest)

    def time(self, index: int) -> datetime:
        """Return the time at which the line with an index is written."""
        rounds, place = divmod(index, len(self.lines))
        return self.run.began + timedelta(seconds=rounds * self.period + self.seconds[place])

    def text(self, index: int) -> str:
        return self.lines[index % len(self.lines)]

    def is_over(self, count: int) -> bool:
        """Return whether the run writes no more lines after the first `count`."""
        return self.run.ended is not None or not (self.period or count < len(self.lines))


def make_declared_log(run: ContainerRun, declared: DeclaredLog) -> Log:
    """Return the log that a pod's annotations declare for a run."""
    lines = declared.lines or ()
    seconds = [index * declared.seconds for index in range(len(lines))]
    return Log(run, lines, seconds, len(lines) * declared.seconds if declared.repeat else 0.0)


def make_command_log(run: ContainerRun, outcome: Outcome) -> Log:
    """Return a log with a command's output; each line has the time at which the command completed the line."""
    lines: list[str] = []
    seconds: list[float] = []
    unfinished: list[str] = []
    second = 0.0
    for printed in outcome.output:
        second = printed.second
        first, *others = printed.text.split("\n")
        unfinished.append(first)
        for text in others:
            lines.append("".join(unfinished))
            seconds.append(second)
            unfinished = [text]
    if rest := "".join(unfinished):
        lines.append(rest)
        seconds.append(second)
    return Log(run, lines, seconds)


def make_default_log(run: ContainerRun, greeting: str) -> Log:
    """Return a log with a greeting and, if the run has ended, its exit code."""
    if run.ended is None:
        return Log(run, [greeting], [0.0])
    lasted = (run.ended - run.began).total_seconds()
    return Log(run, [greeting, f"exited with code {run.exit_code}"], [0.0, lasted])


def select_lines(log: Log, options: LogOptions, now: datetime) -> AsyncIterator[bytes]:
    """Return the written lines that a log request's options select, in pieces; `limitBytes` is not applied."""
    count = log.count(now)
    most = KEPT_LINES if options.tail_lines is None else min(options.tail_lines, KEPT_LINES)
    indexes = range(_find_first_kept(log, count, most), count)
    since = _start_time(options, now)
    return _join_lines(log, (index for index in indexes if since is None or log.time(index) >= since), options)


def _find_first_kept(log: Log, count: int, most: int) -> int:
    """Return the index of the first of the last `most` lines, fewer if they exceed 10 MiB."""
    first, size = count, 0
    while first > max(0, count - most):
        size += len(bytes_of(log.text(first - 1))) + 1
        if size > KEPT_BYTES:
            break
        first -= 1
    return first


async def follow_lines(
    log: Log, options: LogOptions, clock: Clock, read_log_again: Callable[[], Awaitable[Log | None]], written: int
) -> AsyncIterator[bytes]:
    """Yield log lines after the first `written` as they are due, until `read_log_again` returns None: no such run."""
    while True:
        count = log.count(clock.now())
        first = _find_first_kept(log, count, min(KEPT_LINES, count - written))
        async for piece in _join_lines(log, range(first, count), options):
            yield piece
        written = count
        if log.run.ended is not None:
            return
        await clock.sleep(_seconds_until_next_line(log, count, clock.now()))
        current = await read_log_again()
        if current is None:
            return
        log = current


async def _join_lines(log: Log, indexes: Iterable[int], options: LogOptions) -> AsyncIterator[bytes]:
    """Yield log lines joined into pieces of about 64 KiB; after each, other tasks run."""
    piece = bytearray()
    for index in indexes:
        piece += _format_line(log, index, options)
        if len(piece) >= _PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
            await asyncio.sleep(0)
    if piece:
        yield bytes(piece)


def _seconds_until_next_line(log: Log, count: int, now: datetime) -> float:
    if log.is_over(count):
        return _LOOK_SECONDS
    return min(_LOOK_SECONDS, max(0.005, (log.time(count) - now).total_seconds()))


async def limit_log(pieces: AsyncIterator[bytes], most: int | None) -> AsyncIterator[bytes]:
    """Yield pieces of a log up to `most` bytes in total; all for None."""
    left = most
    async for piece in pieces:
        yield piece[:left]
        if left is not None:
            left -= len(piece)
            if left <= 0:
                return


def _start_time(options: LogOptions, now: datetime) -> datetime | None:
    if options.since_seconds is not None:
        return now - timedelta(seconds=min(options.since_seconds, 10**9))
    return options.since_time


def _format_line(log: Log, index: int, options: LogOptions) -> bytes:
    text = log.text(index)
    if options.timestamps:
        text = f"{times.to_microseconds(log.time(index))[:-1]}000Z {text}"
    return bytes_of(f"{text}\n")
