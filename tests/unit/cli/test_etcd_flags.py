"""The flags that put a server's objects into etcd, and what is wrong with them."""

from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mooring.cli.commands.up import up
from mooring.cli.support.etcd_flags import etcd_flags
from mooring.store.etcd.config import EtcdConfig, Server

pytestmark = pytest.mark.req("S.7")


def read(*flags: str) -> EtcdConfig | str | None:
    """Return what flags mean, or the complaint about them."""
    found: list[EtcdConfig | None] = []

    @click.command()
    @etcd_flags
    def command(etcd: EtcdConfig | None) -> None:
        found.append(etcd)

    result = CliRunner().invoke(command, flags)
    return found[0] if found else result.output


def test_without_flags_there_is_no_etcd() -> None:
    assert read() is None


def test_all_flags(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("secret\n")
    config = read(
        "--etcd-servers=https://a:1, https://[::1],https://b:2",
        "--etcd-prefix=/somewhere/else",
        "--etcd-cafile=ca",
        "--etcd-certfile=cert",
        "--etcd-keyfile=key",
        "--etcd-user=me",
        f"--etcd-password-file={tmp_path / 'password'}",
    )
    assert config == EtcdConfig(
        servers=(
            Server("https://a:1", "a:1", True),
            Server("https://[::1]:2379", "[::1]:2379", True),
            Server("https://b:2", "b:2", True),
        ),
        prefix="/somewhere/else",
        ca_file=Path("ca"),
        cert_file=Path("cert"),
        key_file=Path("key"),
        user="me",
        password="secret",
    )
    assert "secret" not in repr(config)


def test_a_server_may_be_written_without_a_scheme() -> None:
    config = read("--etcd-servers=127.0.0.1:2379")
    assert isinstance(config, EtcdConfig)
    assert config.servers == (Server("http://127.0.0.1:2379", "127.0.0.1:2379", False),)


@dataclass(frozen=True)
class Case:
    id: str
    flags: list[str]
    complaint: str


CASES = [
    Case("a scheme that etcd does not speak", ["--etcd-servers=ftp://x"], "is no URL of an etcd server"),
    Case("a port that is no number", ["--etcd-servers=http://x:port"], "is no URL of an etcd server"),
    Case("a URL with a path", ["--etcd-servers=http://x/y"], "write it as https://host:2379"),
    Case("only commas", ["--etcd-servers=,"], "no server of etcd was given"),
    Case("flags without servers", ["--etcd-prefix=/x"], "the flags for etcd need --etcd-servers"),
    Case("certificates without TLS", ["--etcd-servers=http://x", "--etcd-cafile=ca"], "begins with https://"),
    Case("a certificate without its key", ["--etcd-servers=https://x", "--etcd-certfile=c"], "needs its key"),
    Case("a key without its certificate", ["--etcd-servers=https://x", "--etcd-keyfile=k"], "a key its certificate"),
    Case("a prefix that is no path", ["--etcd-servers=http://x", "--etcd-prefix=x"], "must begin with '/'"),
    Case("a prefix that ends with a slash", ["--etcd-servers=http://x", "--etcd-prefix=/x/"], "not end with it"),
    Case(
        "a password file that is not there",
        ["--etcd-servers=http://x", "--etcd-user=u", "--etcd-password-file=/none"],
        "--etcd-password-file:",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_is_wrong_is_said_in_a_sentence(case: Case) -> None:
    complaint = read(*case.flags)
    assert isinstance(complaint, str)
    assert case.complaint in complaint


def test_nothing_can_be_in_memory_and_in_etcd() -> None:
    result = CliRunner().invoke(up, ["--ephemeral", "--etcd-servers=http://127.0.0.1:1"])
    assert result.exit_code == 2
    assert "choose one of the two" in result.output
