"""Run `mooring dashboard` as a child process of `mooring up`.

So the dashboard costs the server only reads, and a server without it does not import it. It ends with this process,
however that ends, because its standard input is closed then.
"""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Self

from mooring.base.component import Component
from mooring.cli.support.status_line import print_line

READY = "The dashboard is at "
"""The start of the line in which `mooring dashboard` prints its address."""
_STOP_SECONDS = 5.0


class DashboardProcess:
    """Run while entered, and print the address when it is known."""

    def __init__(self, kubeconfig: Path, component: Component) -> None:
        self._flags = ["--kubeconfig", str(kubeconfig), *_flags_of(component)]
        self._process: Process | None = None
        self._telling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "mooring", "dashboard", "--no-browser", "--while-stdin", *self._flags,
            stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True,
        )  # fmt: skip
        self._telling = asyncio.create_task(self._print_address(self._process), name="the dashboard's address")
        return self

    async def _print_address(self, process: Process) -> None:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        async for line in process.stdout:
            if line.decode(errors="replace").startswith(READY):
                print_line(line.decode().strip())
        print_line(f"The dashboard has ended; `mooring dashboard {' '.join(self._flags)}` says why.")

    async def __aexit__(self, *_: object) -> None:
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
