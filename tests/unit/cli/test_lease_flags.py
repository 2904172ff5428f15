"""Durations and the times of leader election, as flags say them."""

from dataclasses import dataclass

import click
import pytest
from click.testing import CliRunner

from mooring.base import durations
from mooring.cli.support.flags import Duration
from mooring.cli.support.leadership import ChangedTimes, lease_flags
from mooring.client import LeaseTimes

pytestmark = pytest.mark.req("S.3")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15s", 15.0), ("1m30s", 90.0), ("500ms", 0.5), ("1.5h", 5400.0), ("100us", 0.0001), ("0s", 0.0)],
)
def test_durations_as_go_writes_them(text: str, seconds: float) -> None:
    assert durations.parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "15", "s", "-1s", "1 s", "1d", "1s2", "\u0661s"])
def test_what_is_no_duration_is_reported(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write one as in 15s or 1m30s"):
        durations.parse_seconds(text)


def test_a_bare_zero_is_a_duration_for_flags() -> None:
    assert Duration().convert("0", None, None) == 0.0


@click.command()
@lease_flags
def show(lease_times: ChangedTimes) -> None:
    """Print what the flags make of 15 s, 10 s and 2 s."""
    times = lease_times(LeaseTimes())
    click.echo(f"{times.duration:g} {times.renew_deadline:g} {times.retry_period:g}")


@dataclass(frozen=True)
class Case:
    id: str
    flags: str
    printed: str
    code: int = 0


CASES = [
    Case("none", "", "15 10 2"),
    Case("one", "--leader-elect-lease-duration=1m", "60 10 2"),
    Case(
        "all",
        "--leader-elect-lease-duration=4s --leader-elect-renew-deadline=3s --leader-elect-retry-period=300ms",
        "4 3 0.3",
    ),
    Case("a lease that ends before its holder does", "--leader-elect-lease-duration=10s", "renew deadline < lease", 2),
    Case("no pause between attempts", "--leader-elect-retry-period=0s", "0 < retry period", 2),
    Case("no unit", "--leader-elect-retry-period=2", '"2" is not a duration', 2),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_flags_change_the_times_that_they_name(case: Case) -> None:
    result = CliRunner().invoke(show, case.flags.split())
    assert (case.printed in result.output, result.exit_code) == (True, case.code), result.output
