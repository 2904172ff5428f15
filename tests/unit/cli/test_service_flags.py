"""The flags that say how Services are reached."""

import click
import pytest
from click.testing import CliRunner

from mooring.apiserver.service_network import ServiceNetwork
from mooring.cli.support.server_flags import service_flags

pytestmark = pytest.mark.req("N.9")


@click.command()
@service_flags
def show(*, services: ServiceNetwork) -> None:
    ports = services.node_ports
    click.echo(f"{services.advertise_address or '-'} {services.cluster_ips} {ports[0]}-{ports[-1]} {services.first}")


@pytest.mark.parametrize(
    ("flags", "shown"),
    [
        ("", "- ('10.0.0.0/24',) 30000-32767 10.0.0.1"),
        ("--service-cluster-ip-range fd00::/112,10.1.0.0/16", "- ('fd00::/112', '10.1.0.0/16') 30000-32767 fd00::1"),
        ("--service-node-port-range 31000-31999", "- ('10.0.0.0/24',) 31000-31999 10.0.0.1"),
        ("--service-node-port-range 31000+9", "- ('10.0.0.0/24',) 31000-31009 10.0.0.1"),
        ("--advertise-address 192.168.7.1", "192.168.7.1 ('10.0.0.0/24',) 30000-32767 10.0.0.1"),
    ],
)
def test_what_flags_mean(flags: str, shown: str) -> None:
    assert CliRunner().invoke(show, flags.split()).output.strip() == shown


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ("--service-cluster-ip-range 10.0.0.0", "must have a prefix"),
        ("--service-cluster-ip-range 10.0.0.1/24", "has host bits set"),
        ("--service-cluster-ip-range 10.0.0.0/24,10.1.0.0/24", "one of IPv4 and one of IPv6"),
        ("--service-cluster-ip-range fd00::/16", "must have a prefix of /64 to /125"),
        ("--service-node-port-range 5-1", "is no range such as"),
        ("--service-node-port-range x", "is no range such as"),
        ("--service-node-port-range 60000-70000", "is no range such as"),
        ("--advertise-address 127.0.0.1", "cannot be reached from other machines"),
        ("--advertise-address here", "is no address such as"),
    ],
)
def test_what_is_refused(flags: str, problem: str) -> None:
    answer = CliRunner().invoke(show, flags.split())
    assert answer.exit_code == 2
    assert problem in answer.output
