"""One run of a program: a process, its log and its exit.

Processes are killed when this one ends: by bubblewrap (`--die-with-parent`), else by `setpriv` where it is installed.
Called by ``container.py``.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

from mooring.api import times
from mooring.base.clock import Clock
from mooring.base.processes import kill_and_wait, spawn

MOST_LOG_BYTES = 10 * 1024 * 1024
"""The maximum size of a run's log; then the older half is dropped, as a kubelet rotates logs."""
_PIECE, _LONGEST_LINE = 64 * 1024, 256 * 1024
KILLED = 137


class StartError(Exception):
    """The process could not be started; the message is the operating system's."""


class Process:
    """A running program: its process id, log, signals and exit code. Made by `start`."""

    def __init__(self, process: asyncio.subprocess.Process, number: int, log: "LogFile") -> None:
        self._process = process
        self.number = number
        """The process id of the program, not of bubblewrap."""
        self._writing = asyncio.create_task(_copy_output(process, log))

    async def wait(self) -> int:
        """Wait for the process to end; return its exit code as a shell reports it. The log is complete then."""
        code = await self._process.wait()
        with suppress(TimeoutError):  # a surviving child may keep the output open
            await asyncio.wait_for(asyncio.shield(self._writing), 1.0)
        self._writing.cancel()
        return 128 - code if code < 0 else code

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.number, number)

    def kill(self) -> None:
        """Kill the process and its children."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self.send_signal(signal.SIGKILL)

    async def end(self) -> None:
        """Kill the process and wait until it has ended, even if cancelled; the log is complete then."""
        self.kill()
        try:
            await kill_and_wait(self._process)
        finally:
            await self.wait()


async def start(
    words: Sequence[str], variables: Mapping[str, str], directory: str, log: "LogFile", info: tuple[int, int] | None
) -> Process:
    """Start a program; bubblewrap writes its process id to the pipe `info`. Raise StartError if that fails."""
    reading, writing = info or (-1, -1)
    try:
        process = await spawn(
            *(words if info else [*_die_with_parent_command(), *words]),
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
        reported = await asyncio.to_thread(_read_pipe, reading)
    except asyncio.CancelledError:
        await kill_and_wait(process)
        log.close()
        raise
    with suppress(msgspec.DecodeError, KeyError):
        return Process(process, int(msgspec.json.decode(reported)["child-pid"]), log)
    return Process(process, process.pid, log)  # it has ended; the log says why


@cache
def _die_with_parent_command() -> tuple[str, ...]:
    found = shutil.which("setpriv")
    return (found, "--pdeathsig", "KILL", "--") if found else ()


def _read_pipe(reading: int) -> bytes:
    with os.fdopen(reading, "rb") as file:
        return file.read()


class LogFile:
    """The log file of a container: lines after a timestamp; a file that becomes too long loses its older half."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path, self._clock = path, clock
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("wb", buffering=0)
        self._size = 0

    def write_lines(self, lines: Sequence[bytes]) -> None:
        stamp = f"{times.to_microseconds(self._clock.now())} ".encode()
        text = b"".join(stamp + line + b"\n" for line in lines)
        self._file.write(text)
        self._size += len(text)
        if self._size > MOST_LOG_BYTES:
            self._drop_older_half()

    def _drop_older_half(self) -> None:
        kept = self._path.read_bytes()[-MOST_LOG_BYTES // 2 :].partition(b"\n")[2]
        fresh = self._path.with_suffix(".new")
        fresh.write_bytes(kept)
        fresh.replace(self._path)
        self._file.close()
        self._file, self._size = self._path.open("ab", buffering=0), len(kept)

    def close(self) -> None:
        self._file.close()


async def _copy_output(process: asyncio.subprocess.Process, log: LogFile) -> None:
    output = process.stdout
    assert output is not None  # noqa: S101 - it was started with a pipe
    rest = b""
    try:
        while piece := await output.read(_PIECE):
            *whole, rest = (rest + piece).split(b"\n")
            if len(rest) > _LONGEST_LINE:
                whole, rest = [*whole, rest], b""
            if whole:
                log.write_lines(whole)
    finally:
        if rest:
            log.write_lines([rest])
        log.close()
