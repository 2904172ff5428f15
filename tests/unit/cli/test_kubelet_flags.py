"""The flags that say how kubelets are reached, and for how long they are believed."""

import click
import pytest
from click.testing import CliRunner

from mooring.apiserver.streams.parameters import KubeletOptions
from mooring.cli.support.server_flags import kubelet_flags

pytestmark = pytest.mark.req("N.5", "N.7")


@click.command()
@kubelet_flags
def show(*, kubelets: KubeletOptions) -> None:
    click.echo(f"{kubelets.address_types[0]} {kubelets.signing_duration}")


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        ("", "InternalIP 365 days, 0:00:00"),
        ("--cluster-signing-duration 90m", "InternalIP 1:30:00"),
        ("--kubelet-preferred-address-types Hostname,InternalIP", "Hostname 365 days, 0:00:00"),
    ],
)
def test_what_flags_mean(flags: str, shown: str) -> None:
    assert CliRunner().invoke(show, flags.split()).output.strip() == shown


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ("--cluster-signing-duration 59s", "from a minute to ten years"),
        ("--cluster-signing-duration 100000h", "from a minute to ten years"),
        ("--cluster-signing-duration year", "--cluster-signing-duration"),
        ("--kubelet-preferred-address-types Street", "'Street' is none of InternalIP"),
    ],
)
def test_what_is_refused(flags: str, problem: str) -> None:
    answer = CliRunner().invoke(show, flags.split())
    assert answer.exit_code == 2
    assert problem in answer.output
