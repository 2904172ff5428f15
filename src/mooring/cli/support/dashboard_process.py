"""Run `mooring dashboard` as a child process of `mooring up`.

So the dashboard costs the server only reads, and a server without it does not import it. It ends with this process,
however that ends, because its standard input is closed then.
"""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from mooring.base.component import Component
from mooring.base.processes import kill_and_wait, spawn
from mooring.cli.support.status_line import print_line

READY = "The dashboard is at "
"""The start of the line in which `mooring dashboard` prints its address."""
_STOP_SECONDS = 5.0


@asynccontextmanager
async def run_dashboard(kubeconfig: Path, component: Component) -> AsyncIterator[None]:
    """Run `mooring dashboard` while the context is entered; print its URL as soon as it is known."""
    command = ["dashboard", "--kubeconfig", str(kubeconfig), *_component_flags(component)]
    hidden = ("--no-browser", "--while-stdin")
    process = await spawn(
        sys.executable, "-P", "-m", "mooring", *command, *hidden, stdin=PIPE, stdout=PIPE, stderr=DEVNULL
    )
    printing = asyncio.create_task(_print_address(process, command), name="the dashboard's address")
    try:
        yield
    finally:
        printing.cancel()
        with suppress(ProcessLookupError):
            process.terminate()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        await kill_and_wait(process)


async def _print_address(process: Process, command: list[str]) -> None:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    async for line in process.stdout:
        if line.decode(errors="replace").startswith(READY):
            print_line(line.decode().strip())
    print_line(f"The dashboard has ended; `mooring {' '.join(command)}` says why.")


def _component_flags(component: Component) -> list[str]:
    versions = component.versions
    gates = ",".join(f"{name}={str(on).lower()}" for name, on in component.gates.changed.items())
    return [
        f"--emulation-version={versions.emulation}",
        f"--min-compatibility-version={versions.min_compatibility}",
        f"--feature-gates={gates}",
    ]
