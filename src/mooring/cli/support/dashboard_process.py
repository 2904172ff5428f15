"""The dashboard beside `mooring up`: the command `mooring dashboard` in a process of its own.

So what people look at takes nothing from the server but reads, and a server without it does not load any of it. It ends
when this process does, however that ends: the other side of its standard input is gone then.
"""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from mooring.base.component import Component
from mooring.cli.support.status_line import tell

READY = "The dashboard is at "
"""How the line of `mooring dashboard` begins that has the address."""
_STOP_SECONDS = 5.0


class DashboardProcess:
    """Runs while it is entered, and tells the address when it is known."""

    def __init__(self, kubeconfig: Path, component: Component) -> None:
        self._flags = ["--kubeconfig", str(kubeconfig), *_flags_of(component)]
        self._process: Process | None = None
        self._telling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "mooring", "dashboard", "--no-browser", "--while-stdin", *self._flags,
            stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True,
        )  # fmt: skip
        self._telling = asyncio.create_task(self._tell(self._process), name="the dashboard's address")
        return self

    async def _tell(self, process: Process) -> None:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        async for line in process.stdout:
            if line.decode(errors="replace").startswith(READY):
                tell(line.decode().strip())
        tell(f"The dashboard has ended; `mooring dashboard {' '.join(self._flags)}` says why.")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._telling is not None:
            self._telling.cancel()
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


def _flags_of(component: Component) -> list[str]:
    versions, states = component.versions, component.gates.states
    found = [
        f"--emulation-version={versions.emulation}",
        f"--min-compatibility-version={versions.min_compatibility}",
    ]
    gates = [f"{name}={str(state.enabled).lower()}" for name, state in states.items() if state.enabled != state.default]
    return [*found, f"--feature-gates={','.join(gates)}"] if gates else found
