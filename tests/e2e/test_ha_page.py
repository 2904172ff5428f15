"""What docs/ha.md and docs/store-tools.md say, done: certificates, units, and the commands on stores."""

import os
import re
import socket
import ssl
import subprocess
import time
from pathlib import Path

import pytest
from click import Command
from click.testing import CliRunner
from cryptography import x509

from etcd_servers import etcd_program
from ha_page import BALANCER, MACHINES, blocks, machines, units
from kubectl_caller import KUBECTL
from mooring.cli.main import mooring
from running_server import running_server
from typed_console import ROOT, console, steps

pytestmark = pytest.mark.req("S.7")
COMPONENTS = ("mooring-apiserver", "mooring-scheduler", "mooring-controllers")


def flags_of(command: Command | None) -> set[str]:
    assert command is not None
    return {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}


@pytest.mark.parametrize("unit", COMPONENTS)
def test_the_flags_in_the_units_exist(unit: str) -> None:
    program, name, *rest = units()[unit]
    assert program == "/usr/bin/mooring"
    known = flags_of(mooring.get_command(mooring.make_context("mooring", ["--help"], resilient_parsing=True), name))
    used = [part for part in rest if part.startswith("--")]
    assert used
    assert [flag for flag in used if flag not in known] == []


def test_the_flags_of_etcd_in_its_unit_exist() -> None:
    done = subprocess.run([etcd_program(), "--help"], capture_output=True, text=True, check=True, timeout=30)
    known = set(re.findall(r"--[a-z-]+", done.stdout + done.stderr))
    assert [flag for flag in units()["etcd"] if flag.startswith("--") and flag not in known] == []


def test_the_balancer_has_the_servers_and_the_port_of_the_units() -> None:
    (config,) = blocks("haproxy")
    apiserver = units()["mooring-apiserver"]
    port = apiserver[apiserver.index("--port") + 1]
    addresses = [address.replace("127.", "10.") for address in MACHINES.values()]
    assert re.findall(r"^    server (\S+) (\S+)$", config, flags=re.MULTILINE) == [
        (name, f"{address}:{port}") for name, address in zip(MACHINES, addresses, strict=True)
    ]
    assert f"bind {apiserver[apiserver.index('--tls-san') + 1]}:{port}" in config


def kubectl(config: Path, *arguments: str) -> str:
    assert KUBECTL
    done = subprocess.run(
        [KUBECTL, "--kubeconfig", config, *arguments], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def until(text: str, log: Path, seconds: float = 45.0) -> None:
    deadline = time.monotonic() + seconds
    while text not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


@pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on this machine")
def test_the_certificates_and_units_of_the_page_make_a_cluster(tmp_path: Path) -> None:
    with machines(tmp_path) as cluster:
        for machine in MACHINES:
            cluster.start(machine, "etcd")
        for machine in ("m1", "m2"):
            cluster.start(machine, "mooring-apiserver")
        for machine in ("m1", "m2"):
            until("is ready at", cluster.log(machine, "mooring-apiserver"))
        for unit in ("mooring-scheduler", "mooring-controllers"):
            cluster.start("m1", unit)
        kubectl(cluster.kubeconfig("m1"), "create", "serviceaccount", "robot")
        token = kubectl(cluster.kubeconfig("m1"), "create", "token", "robot").strip()
        # Written through one server, read through the other, with its own certificate and the other's token.
        assert "robot" in kubectl(cluster.kubeconfig("m2"), "get", "serviceaccounts")
        authority = cluster.folder / "certs" / "mooring-ca.crt"
        assert "system:serviceaccount:default:robot" in kubectl(
            Path(os.devnull),
            f"--server={cluster.address('m2')}",
            f"--certificate-authority={authority}",
            f"--token={token}",
            "auth",
            "whoami",
        )
        assert BALANCER in certified_names(cluster.address("m2"), authority)
        assert ", 0 problems." in cluster.run("m2", *blocks("bash"))
        until("The scheduler is ready", cluster.log("m1", "mooring-scheduler"))
        until("The controllers are ready", cluster.log("m1", "mooring-controllers"))


def certified_names(url: str, authority: Path) -> list[str]:
    """Return the addresses that a server's certificate is good for."""
    host, _, port = url.removeprefix("https://").partition(":")
    context = ssl.create_default_context(cafile=str(authority))
    with (
        socket.create_connection((host, int(port)), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=host) as wrapped,
    ):
        found = x509.load_der_x509_certificate(wrapped.getpeercert(binary_form=True) or b"")
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(address) for address in names.get_values_for_type(x509.IPAddress)]


def test_the_commands_of_the_page_about_stores(tmp_path: Path) -> None:
    typed = steps(ROOT / "docs" / "store-tools.md")
    assert len(typed) >= 5
    with running_server(tmp_path / "data"), console(tmp_path) as shell:
        for step in typed:
            shell.type(step)


@pytest.mark.parametrize("name", ["ü", "a b", "https://balancer"])
def test_a_name_that_no_certificate_can_have_is_refused(name: str, tmp_path: Path) -> None:
    refused = CliRunner().invoke(mooring, ["apiserver", "--data-dir", str(tmp_path), "--tls-san", f"10.0.0.10,{name}"])
    assert refused.exit_code == 2
    assert "is neither a name of a machine nor an address" in refused.output
