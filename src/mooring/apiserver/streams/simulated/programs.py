"""Read logs of programs that run on simulated nodes, and run commands beside them (`mooring up --programs`).

The controllers, possibly in another process, start programs, and write their logs and how to enter their environment
into a folder (``mooring.api.program_folders``). Called by ``kubelet.py``.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from msgspec.structs import replace

from mooring.api import errors
from mooring.api.core_v1 import Pod
from mooring.api.program_folders import container_folder, log_file, pod_folder, read_entrance
from mooring.apiserver.streams.kubelet import Kubelet
from mooring.apiserver.streams.simulated.container import ContainerRun
from mooring.apiserver.streams.simulated.logs import Log
from mooring.apiserver.streams.simulated.terminal import Interrupted, Stdio, Write
from mooring.base.processes import kill_and_wait, spawn

_PIECE = 32 * 1024
_NOT_FOUND = 127
_REMEMBERED = 16
"""The maximum number of cached logs; a follower reads its log every second."""


class ProgramStreams:
    """Logs, commands and ports of containers that run as real processes (`mooring up --programs`)."""

    def __init__(self, folder: Path, machines: Kubelet) -> None:
        self._folder = folder
        self.machines = machines
        """The kubelet that reaches ports on this machine, as those of real nodes."""

    def has(self, pod: Pod, container: str = "") -> bool:
        """Return whether a container of the pod (any, if none is named) runs as a real process."""
        uid = pod.metadata.uid
        if not container:
            return pod_folder(self._folder, uid).is_dir()
        return read_entrance(container_folder(self._folder, uid, container)) is not None

    # -- logs

    def log(self, pod: Pod, container: str, run: ContainerRun) -> Log:
        path = log_file(container_folder(self._folder, pod.metadata.uid, container), run.restarts)
        try:
            found = path.stat()
        except FileNotFoundError:
            return Log(run, [], [])
        lines, moments = _read_lines(path, found.st_ino, found.st_size)
        if run.ended is not None and moments:
            run = replace(run, ended=max(run.ended, moments[-1]))  # a status has whole seconds
        return Log(run, lines, [max((moment - run.began).total_seconds(), 0.0) for moment in moments])

    # -- commands

    async def command(self, pod: Pod, container: str, words: Sequence[str], stdio: Stdio) -> int:
        """Run a command in the environment of a container's process, else raise InternalError; return the exit code."""
        entrance = read_entrance(container_folder(self._folder, pod.metadata.uid, container))
        if entrance is None:
            raise errors.internal_error(f'container not found ("{container}")')
        try:
            process = await spawn(
                *entrance.words,
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=entrance.environment,
                cwd=entrance.directory or None,
            )
        except (OSError, ValueError) as error:
            await stdio.err(f"{words[0]}: {error}\n".encode())
            return _NOT_FOUND
        copying = asyncio.create_task(_copy_input(process, stdio))
        try:
            await asyncio.gather(_copy_output(process.stdout, stdio.out), _copy_output(process.stderr, stdio.err))
            code = await process.wait()
        finally:
            copying.cancel()
            await kill_and_wait(process)
        return 128 - code if code < 0 else code


@lru_cache(maxsize=_REMEMBERED)
def _read_lines(path: Path, inode: int, size: int) -> tuple[list[str], list[datetime]]:  # noqa: ARG001 - tell files apart
    """Return the lines of a log and their times."""
    lines: list[str] = []
    moments: list[datetime] = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        stamp, _, text = line.partition(b" ")
        with suppress(ValueError):
            moments.append(datetime.fromisoformat(stamp.decode()))
            lines.append(text.decode(errors="surrogateescape"))
    return lines, moments


async def _copy_output(stream: asyncio.StreamReader | None, write: Write) -> None:
    while stream is not None and (data := await stream.read(_PIECE)):
        await write(data)


async def _copy_input(process: asyncio.subprocess.Process, stdio: Stdio) -> None:
    into = process.stdin
    with suppress(ConnectionError, Interrupted):
        while into is not None and (data := await stdio.read()):
            into.write(data)
            await into.drain()
    if into is not None:
        into.close()
