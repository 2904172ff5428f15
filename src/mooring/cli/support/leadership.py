"""Run the scheduler, the controllers or the bridge, each in a process of its own.

Serve health and metrics beside the work, stop on a signal, and restart after losing the lease.
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


def run_with_restarts(run: Callable[[], Coroutine[None, None, bool]]) -> None:
    """Run a component until it stops. After losing its lease, start again and wait for leadership.

    All state is rebuilt, as a service manager would do, because a former leader's state is stale.
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
    """Work until a signal arrives, and announce readiness; return False if the lease was lost.

    Serve health and metrics at `listen`, unless its port is negative.
    """
    collect_garbage_less()
    expose_leadership(registry, [running])
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
    gc.freeze()  # listed objects live long and have no cycles; a collection would delay the first pods
    click.echo(greeting)


def expose_leadership(registry: CollectorRegistry, parts: "Iterable[ElectedComponent]") -> None:
    """Expose by lease name whether a component of this process is the leader. The metric name is Kubernetes'."""
    gauge = Gauge(
        "leader_election_master_status",
        "1 if this instance is the leader, 0 if it is not.",
        ("name",),
        registry=registry,
    )
    for part in parts:
        gauge.labels(part.election.name).set_function(partial(_works, part))


def _works(part: "ElectedComponent") -> float:
    return float(part.is_ready)
