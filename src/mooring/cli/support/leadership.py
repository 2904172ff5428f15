"""How the scheduler, the controllers and the bridge run, each in a process of its own.

Health and metrics are shown beside the work, a signal ends it, and who has lost the lease stands again.
"""

import asyncio
import gc
import signal
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

import click
import uvloop
from prometheus_client import CollectorRegistry, Gauge

from mooring.base import logs
from mooring.cli.support.gc_settings import collect_garbage_less
from mooring.cli.support.health_server import HealthServer

if TYPE_CHECKING:  # `--help` should not wait for the client
    from mooring.client.elected import ElectedComponent

log = logs.get(__name__)


def run_and_stand_again(run: Callable[[], Coroutine[None, None, bool]]) -> None:
    """Run a component until it is told to stop. One that has lost its lease begins anew and waits for its turn.

    Everything is made anew, as a service manager would do it: what a leader knew is old by now.
    """
    while not uvloop.run(run()):
        log.error("the lease was lost, perhaps to another instance: this one begins again and waits for its turn")


async def work_until_signal(
    running: "ElectedComponent",
    registry: CollectorRegistry,
    listen: tuple[str, int],
    greeting: str,
    *,
    elected: bool,
) -> bool:
    """Work until a signal comes, and say so when all is ready; False when the lease was lost.

    Health and metrics are shown at the address and port of `listen`, if that is not below 0.
    """
    collect_garbage_less()
    show_who_works(registry, [running])
    work = asyncio.create_task(running.run_elected() if elected else _forever(running))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    announce = asyncio.create_task(_announce(running, greeting))
    try:
        async with AsyncExitStack() as stack:
            if listen[1] >= 0:
                pages = HealthServer(*listen, registry, lambda: running.is_ready or running.is_standing_by)
                click.echo(f"Health and metrics are at {(await stack.enter_async_context(pages)).url}", err=True)
            return await work
    except asyncio.CancelledError:
        return True
    finally:
        work.cancel()
        announce.cancel()
        await asyncio.gather(work, announce, return_exceptions=True)


async def _forever(running: "ElectedComponent") -> bool:
    await running.run()
    return True


async def _announce(running: "ElectedComponent", greeting: str) -> None:
    await running.wait_until_ready()
    gc.freeze()  # what was listed stays, and has no cycles; to look for some would keep the first pods waiting
    click.echo(greeting)


def show_who_works(registry: CollectorRegistry, parts: "Iterable[ElectedComponent]") -> None:
    """Show, by the name of its lease, whether a part of this process works. The metric has Kubernetes' name."""
    gauge = Gauge(
        "leader_election_master_status", "1 if this instance works, 0 if it does not.", ("name",), registry=registry
    )
    for part in parts:
        gauge.labels(part.election.name).set_function(partial(_works, part))


def _works(part: "ElectedComponent") -> float:
    return float(part.is_ready)
