"""Run the scheduler, the controllers or the bridge, each in a process of its own.

Serve health and metrics beside the work, stop on a signal, and restart after losing the lease. The flags of leader
election are those of kube-scheduler and kube-controller-manager.
"""

import asyncio
import gc
import signal
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AsyncExitStack
from functools import partial

import click
import uvloop
from prometheus_client import CollectorRegistry, Gauge

from mooring.base import logs
from mooring.cli.support.flags import Duration, group_flags
from mooring.cli.support.health_server import HealthServer
from mooring.cli.support.output import report_errors
from mooring.cli.support.process_settings import collect_garbage_less
from mooring.client import LeaseTimes
from mooring.client.leader_election import ElectedComponent

log = logs.get(__name__)

ChangedTimes = Callable[[LeaseTimes], LeaseTimes]
"""Apply the flags to default times. Raise UsageError for inconsistent times."""
_DEFAULTS = LeaseTimes()


def _build_changed_times(
    leader_elect_lease_duration: float | None,
    leader_elect_renew_deadline: float | None,
    leader_elect_retry_period: float | None,
) -> ChangedTimes:
    given = (leader_elect_lease_duration, leader_elect_renew_deadline, leader_elect_retry_period)

    def change(times: LeaseTimes) -> LeaseTimes:
        defaults = zip(given, (times.duration, times.renew_deadline, times.retry_period), strict=True)
        with report_errors(ValueError, prefix="--leader-elect-…: ", usage=True):
            return LeaseTimes(*(default if flag is None else flag for flag, default in defaults))

    return change


lease_flags = group_flags(
    "lease_times",
    _build_changed_times,
    click.option(
        "--leader-elect-lease-duration",
        type=Duration(),
        help="For how long others respect a lease that is not renewed: the longest time without a leader.  "
        f"[default: {_DEFAULTS.duration:g}s]",
    ),
    click.option(
        "--leader-elect-renew-deadline",
        type=Duration(),
        help="After how long without a renewal the leader stops working; shorter than the lease.  "
        f"[default: {_DEFAULTS.renew_deadline:g}s]",
    ),
    click.option(
        "--leader-elect-retry-period",
        type=Duration(),
        help=f"The time between attempts to renew or acquire the lease.  [default: {_DEFAULTS.retry_period:g}s]",
    ),
)
"""The command gets `ChangedTimes` as `lease_times`."""


def run_with_restarts(run: Callable[[], Coroutine[None, None, bool]]) -> None:
    """Run a component until it stops; `run` returns False after losing the lease, and is then called again.

    All state is rebuilt, as a service manager would do, because a former leader's state is stale.
    """
    while not uvloop.run(run()):
        log.error("the lease was lost, perhaps to another instance: this one begins again and waits for its turn")


async def work_until_signal(
    running: ElectedComponent,
    registry: CollectorRegistry,
    listen: tuple[str, int],
    greeting: str,
    *,
    elected: bool,
) -> bool:
    """Run a component until a signal arrives, with health and metrics pages at `listen`.

    Return True, or False if the lease was lost.
    """
    collect_garbage_less()
    expose_leadership(registry, [running])
    work = asyncio.create_task(running.run_elected() if elected else _run_unelected(running))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    announce = asyncio.create_task(_announce_when_ready(running, greeting))
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


async def _run_unelected(running: ElectedComponent) -> bool:
    await running.run()
    return True


async def _announce_when_ready(running: ElectedComponent, greeting: str) -> None:
    await running.wait_until_ready()
    gc.freeze()  # listed objects live long and have no cycles; a collection would delay the first pods
    click.echo(greeting)


def expose_leadership(registry: CollectorRegistry, parts: Iterable[ElectedComponent]) -> None:
    """Register the metric `leader_election_master_status`: for each component, whether it is the leader."""
    gauge = Gauge(
        "leader_election_master_status",
        "1 if this instance is the leader, 0 if it is not.",
        ("name",),
        registry=registry,
    )
    for part in parts:
        gauge.labels(part.election.name).set_function(partial(getattr, part, "is_ready"))
