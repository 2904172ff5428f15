"""The leader election flags, named as kube-scheduler's and kube-controller-manager's."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from mooring.cli.support.duration import Duration
from mooring.client import LeaseTimes

_DEFAULTS = LeaseTimes()

ChangedTimes = Callable[[LeaseTimes], LeaseTimes]
"""Apply the flags to default times. Raise UsageError for inconsistent times."""


def lease_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the three flags; the command gets them as `lease_times`."""

    @click.option(
        "--leader-elect-lease-duration",
        type=Duration(),
        help="For how long others respect a lease that is not renewed: the longest time without anybody who works.  "
        f"[default: {_DEFAULTS.duration:g}s]",
    )
    @click.option(
        "--leader-elect-renew-deadline",
        type=Duration(),
        help="After how long without a renewal the holder stops to work; shorter than the lease.  "
        f"[default: {_DEFAULTS.renew_deadline:g}s]",
    )
    @click.option(
        "--leader-elect-retry-period",
        type=Duration(),
        help=f"How often the lease is renewed or asked for.  [default: {_DEFAULTS.retry_period:g}s]",
    )
    @wraps(command)
    def wrapped(
        *args: Any,
        leader_elect_lease_duration: float | None,
        leader_elect_renew_deadline: float | None,
        leader_elect_retry_period: float | None,
        **rest: Any,
    ) -> None:
        def changed(times: LeaseTimes) -> LeaseTimes:
            try:
                return LeaseTimes(
                    _given(leader_elect_lease_duration, times.duration),
                    _given(leader_elect_renew_deadline, times.renew_deadline),
                    _given(leader_elect_retry_period, times.retry_period),
                )
            except ValueError as problem:
                raise click.UsageError(f"--leader-elect-…: {problem}") from problem

        command(*args, lease_times=changed, **rest)

    return wrapped


def _given(flag: float | None, otherwise: float) -> float:
    return otherwise if flag is None else flag
