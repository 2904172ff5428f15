"""The second process of `mooring up`, managed by the first: scheduler and controllers on their own core.

It is forked after the first has imported what both need, so that this is imported once and its memory shared; the rest
is imported concurrently. A fork has no other threads, and their locks would stay locked; so if there are any, as when a
process is restarted, a new interpreter is started instead. They communicate over the second one's standard streams:

    first  → second    a pickled `WorkerConfig`, then a line when the server listens: begin
    second → first     a line of JSON when it is ready: {"metrics": "http://127.0.0.1:10251/metrics"}
    first  → second    end of input: stop. It also occurs when the first process is killed.

The other side is ``workers.py``.
"""

import asyncio
import gc
import json
import os
import pickle
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from mooring.base import logs
from mooring.base.component import Component
from mooring.cli.support.flags import LogFlags

if TYPE_CHECKING:
    from mooring.controllers.programs.file import Programs

_PROGRAM = """
from mooring.cli.support.process_settings import defer_collection
with defer_collection():
    from mooring.cli.support.workers import main
    raise SystemExit(main())
"""
COMMAND = [sys.executable, "-P", "-c", _PROGRAM]
DEFAULT_NODES = 3
"""Simulated nodes of a new cluster."""
_STOP_SECONDS = 10.0
_PAUSE_SECONDS = 1.0
_MAX_FILES = 65_536
"""File descriptors to close; the limit of a process can be 2^30, which older kernels would close one by one."""
log = logs.get(__name__)


class WorkersError(Exception):
    """Raised when scheduler or controllers cannot start or fail; the message says why."""


class LeaseLostError(WorkersError):
    """Raised when another instance has become the leader; a restarted process waits to become it again."""


class WorkerConfig(msgspec.Struct, frozen=True):
    """The settings of the scheduler and the controllers of `mooring up`."""

    component: Component
    kubeconfigs: Path | None = None
    """The folder with `scheduler.kubeconfig` and `controllers.kubeconfig`, for a separate process."""
    scheduler: bool = True
    controllers: bool = True
    nodes: bool = True
    """Whether simulated nodes are active and run pods."""
    programs: "Programs | None" = None
    """Programs for simulated nodes; None: nothing is executed."""
    elected: bool = False
    """Whether other instances may share the store in etcd: then one is the leader."""
    metrics_port: int | None = -1
    """Port of metrics and health. 0: any free one; -1: none; None: the default one, or any if that is taken."""
    log: LogFlags = LogFlags()

    @property
    def is_empty(self) -> bool:
        return not (self.scheduler or self.controllers or self.nodes)


class WorkerProcess:
    """Scheduler and controllers in a child process, which ends with this one. A context manager."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self._start()
        self._ready = asyncio.Event()
        self.metrics_url = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._process.wait()
        self._close_pipes()

    def kill(self) -> None:
        """Kill the child process without waiting for its end."""
        if self._process.poll() is None:
            self._process.kill()

    async def wait_until_ready(self) -> None:
        await self._ready.wait()

    async def run(self) -> None:
        """Supervise the child process until cancelled. It is restarted if it ends: it has no state of its own."""
        try:
            while True:
                self._send(b"begin\n")
                await self._read_messages()
                code = await asyncio.to_thread(self._process.wait)
                self._close_pipes()
                if not self._ready.is_set():
                    raise WorkersError(f"scheduler and controllers ended with code {code} before they were ready")
                log.error(
                    "scheduler and controllers ended with code %s, starting them again in %g s", code, _PAUSE_SECONDS
                )
                await asyncio.sleep(_PAUSE_SECONDS)
                self._ready.clear()
                self._start()
        finally:
            await self._stop()

    def _start(self) -> None:
        forked = sys.platform == "linux" and threading.active_count() == 1
        if forked:
            _import_shared_modules()
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is handled by the first process, which stops this one
            preexec_fn=_run_workers_in_fork if forked else None,  # noqa: PLW1509 - there is no other thread
        )
        self._send(pickle.dumps(self._config))

    def _send(self, message: bytes) -> None:
        pipe = self._process.stdin
        with suppress(BrokenPipeError):  # it has ended already; `run` handles that
            if pipe is not None:
                pipe.write(message)
                pipe.flush()

    async def _read_messages(self) -> None:
        pipe = self._process.stdout
        assert pipe is not None  # noqa: S101 - `_start` asks for it
        while line := await asyncio.to_thread(pipe.readline):
            said = json.loads(line)
            if "error" in said:
                raise WorkersError(said["error"])
            self.metrics_url = said["metrics"]
            self._ready.set()

    async def _stop(self) -> None:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            await asyncio.to_thread(self._process.wait, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def _import_shared_modules() -> None:
    import mooring.cel
    import mooring.controllers.simulated_nodes  # noqa: F401 - as above

    gc.freeze()  # a collection would write to every object and end the sharing


def _run_workers_in_fork() -> None:
    """Run scheduler and controllers in the forked child, in place of executing `COMMAND`; never return.

    `Popen` has not closed the first process' files, so that is done here.
    """
    code = 1
    try:
        os.closerange(3, _MAX_FILES)  # also the pipe that `Popen` waits on
        from mooring.cli.support.workers import main

        code = main()
    except Exception:
        log.exception("scheduler and controllers failed")
    finally:
        os._exit(code)  # skip the first process' exit handlers
