"""The second process of `mooring up`, seen from the first: scheduler and controllers on a core of their own.

It is a fork of the first, made when that has loaded what both need: so that is loaded once, and its memory shared; the
rest each loads at the same time. A fork has none of the other threads, and their locks stay locked for ever; so where
there are any, as when a process that has ended is started again, it is a new interpreter. What they tell each other
goes through the second one's standard input and output:

    first  → second    a pickled `WorkerConfig`, then a line when the server listens: begin
    second → first     a line of JSON when it works: {"metrics": "http://127.0.0.1:10251/metrics"}
    first  → second    the end of the input: stop. It also comes when the first process is killed.

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
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from mooring.base import logs
from mooring.base.component import Component

if TYPE_CHECKING:
    from mooring.controllers.programs.file import Programs

_PROGRAM = """
from mooring.cli.support.gc_settings import garbage_waits
with garbage_waits():
    from mooring.cli.support.workers import main
    raise SystemExit(main())
"""
COMMAND = [sys.executable, "-P", "-c", _PROGRAM]
_STOP_SECONDS = 10.0
_PAUSE_SECONDS = 1.0
_MOST_FILES = 65_536
"""The limit of a process can be a thousand million, which older kernels would close one by one."""
log = logs.get(__name__)


class WorkersError(Exception):
    """Scheduler or controllers cannot be started; the message says why."""


class LeaseLostError(WorkersError):
    """Another instance works now. Whoever begins again stands by until that one ends."""


class WorkerConfig(msgspec.Struct, frozen=True):
    """What works besides the API server, and how."""

    component: Component
    kubeconfigs: Path | None = None
    """Where a process of its own finds `scheduler.kubeconfig` and `controllers.kubeconfig`."""
    scheduler: bool = True
    controllers: bool = True
    nodes: bool = True
    """Whether simulated nodes live, and run pods."""
    programs: "Programs | None" = None
    """What runs on simulated nodes; None: nothing is executed."""
    elected: bool = False
    """Whether there may be others like them at the same store, in etcd: then one works, and the others stand by."""
    metrics_port: int | None = -1
    """Of the page of metrics and health. 0: any free one; -1: none; None: the usual one, or any if that is taken."""
    verbosity: int = 0
    json_logs: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.scheduler or self.controllers or self.nodes)


class WorkerProcess:
    """Scheduler and controllers in a process of their own, which ends with this one. A context."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self._start()
        self._ready = asyncio.Event()
        self.metrics_url = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._process.wait()
        self._close_pipes()

    def kill(self) -> None:
        """End it at once."""
        if self._process.poll() is None:
            self._process.kill()

    async def wait_until_ready(self) -> None:
        await self._ready.wait()

    async def run(self) -> None:
        """Let it work until cancelled. One that ends by itself is started again; all its state is in the API server."""
        try:
            while True:
                self._send(b"begin\n")
                await self._listen()
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
            _load_what_both_need()
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C is for the first process, which stops this one
            preexec_fn=_work_in_fork if forked else None,  # noqa: PLW1509 - there is no other thread
        )
        self._send(pickle.dumps(self._config))

    def _send(self, message: bytes) -> None:
        pipe = self._process.stdin
        with suppress(BrokenPipeError):  # it has ended already, which `run` finds out
            if pipe is not None:
                pipe.write(message)
                pipe.flush()

    async def _listen(self) -> None:
        """Hear what it says until it ends."""
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


def _load_what_both_need() -> None:
    import mooring.cel  # noqa: PLC0415 - a new interpreter loads it itself
    import mooring.controllers.simulated_nodes  # noqa: F401, PLC0415 - as above

    gc.freeze()  # the collector would write into every object that it looks at, and end the sharing


def _work_in_fork() -> None:
    """Be the second process instead of executing `COMMAND`, which is why `Popen` has not closed what is the first's."""
    code = 1
    try:
        os.closerange(3, _MOST_FILES)  # that `Popen` waits for, too
        from mooring.cli.support.workers import main  # noqa: PLC0415 - the first process does not need it

        code = main()
    except Exception:
        log.exception("scheduler and controllers failed")
    finally:
        os._exit(code)  # what the first process has to tidy up is not for this one
