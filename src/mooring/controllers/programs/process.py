"""One run of a program: a process, what it writes, and how it ends.

Processes end with this one, whatever ends it: bubblewrap sees to it (`--die-with-parent`), and for others `setpriv`,
where the machine has it. Called by ``container.py``.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path

import msgspec

from mooring.api import times
from mooring.base.clock import Clock
from mooring.base.processes import end, spawned

MOST_LOG_BYTES = 10 * 1024 * 1024
"""Of a run. Then the older half goes, as a kubelet rotates."""
_PIECE, _LONGEST_LINE = 64 * 1024, 256 * 1024
NOT_FOUND, NOT_EXECUTABLE, KILLED = 127, 126, 137


class StartError(Exception):
    """The process could not be started; the message is the machine's."""


class Process:
    """A program that runs, or has run. Made by `start`."""

    def __init__(self, process: asyncio.subprocess.Process, number: int, log: "LogFile") -> None:
        self._process = process
        self.number = number
        """Of the program itself, which bubblewrap has started."""
        self._writing = asyncio.create_task(_copy(process, log))

    async def wait(self) -> int:
        """The exit code, as a shell tells it; everything is in the log then."""
        code = await self._process.wait()
        with suppress(TimeoutError):  # a child that lives on may keep the output open
            await asyncio.wait_for(asyncio.shield(self._writing), 1.0)
        self._writing.cancel()
        return 128 - code if code < 0 else code

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.number, number)

    def kill(self) -> None:
        """End it and all that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self.signal(signal.SIGKILL)

    async def end(self) -> None:
        """The same, and be there until it is gone, even if cancelled; everything is in the log then."""
        self.kill()
        try:
            await end(self._process)
        finally:
            await self.wait()


async def start(
    words: Sequence[str],
    variables: Mapping[str, str],
    directory: str,
    log: "LogFile",
    info: tuple[int, int] | None,
) -> Process:
    """Start a program. `info` is a pipe by which bubblewrap tells its process's number. Raises StartError."""
    reading, writing = info or (-1, -1)
    try:
        process = await spawned(
            *(words if info else [*_ending_with_us(), *words]),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=dict(variables),
            cwd=directory or None,
            pass_fds=(writing,) if info else (),
        )
    except (OSError, ValueError, asyncio.CancelledError) as error:
        log.close()
        if info:
            os.close(reading)
        if isinstance(error, asyncio.CancelledError):
            raise
        raise StartError(f"{words[0]}: {error}") from error
    finally:
        if info:
            os.close(writing)
    if not info:
        return Process(process, process.pid, log)
    try:
        told = await asyncio.to_thread(_read_all, reading)
    except asyncio.CancelledError:
        await end(process)
        log.close()
        raise
    with suppress(msgspec.DecodeError, KeyError):
        return Process(process, int(msgspec.json.decode(told)["child-pid"]), log)
    return Process(process, process.pid, log)  # which has ended, and says why in its log


@cache
def _ending_with_us() -> tuple[str, ...]:
    """What lets a program end when this process does, also when it is killed."""
    found = shutil.which("setpriv")
    return (found, "--pdeathsig", "KILL", "--") if found else ()


def _read_all(reading: int) -> bytes:
    with os.fdopen(reading, "rb") as file:
        return file.read()


class LogFile:
    """What a container writes, in lines that begin with their times."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path, self._clock = path, clock
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb", buffering=0)
        self._size = 0

    def write(self, lines: Sequence[bytes]) -> None:
        stamp = _stamp(self._clock.now())
        text = b"".join(stamp + line + b"\n" for line in lines)
        self._file.write(text)
        self._size += len(text)
        if self._size > MOST_LOG_BYTES:
            self._halve()

    def _halve(self) -> None:
        kept = self._path.read_bytes()[-MOST_LOG_BYTES // 2 :].partition(b"\n")[2]
        fresh = self._path.with_suffix(".new")
        fresh.write_bytes(kept)
        fresh.replace(self._path)
        self._file.close()
        self._file, self._size = self._path.open("ab", buffering=0), len(kept)

    def close(self) -> None:
        self._file.close()


def _stamp(moment: datetime) -> bytes:
    return f"{times.to_microseconds(moment)} ".encode()


async def _copy(process: asyncio.subprocess.Process, log: LogFile) -> None:
    """Write what a process writes into its log, until it ends."""
    output = process.stdout
    assert output is not None  # noqa: S101 - it was started with a pipe
    rest = b""
    try:
        while piece := await output.read(_PIECE):
            *whole, rest = (rest + piece).split(b"\n")
            if len(rest) > _LONGEST_LINE:
                whole, rest = [*whole, rest], b""
            if whole:
                log.write(whole)
    finally:
        if rest:
            log.write([rest])
        log.close()
