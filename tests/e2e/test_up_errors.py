"""A mistake in a flag or a file ends `mooring up` with a sentence that says what to do."""

import fcntl
import os
import socket
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.commands.up import up


@dataclass(frozen=True)
class Case:
    id: str
    flags: tuple[str, ...]
    code: int
    said: str


CASES = [
    Case("an address of another machine", ("--bind-address", "192.0.2.1"), 1, "choose another --bind-address"),
    Case("a part that is none", ("--without", "kubelet"), 2, "there is no part 'kubelet': name some of scheduler"),
    Case("nodes that are left out", ("--nodes", "3", "--without", "nodes"), 2, "choose one of the two"),
    Case("neither a number nor a file of nodes", ("--nodes", "many"), 2, "--nodes many: it is neither a number nor"),
    Case("too many nodes", ("--nodes", "1000000"), 2, "exceed the limit of 100000"),
    Case("an API that is none", ("--runtime-config", "nonsense"), 1, "nonsense"),
    Case("an API that components need, switched off", ("--runtime-config", "api/ga=false"), 1, "Node is not served"),
    Case("a gate that is none", ("--feature-gates", "Nonsense=true"), 2, "Nonsense"),
    Case("a version that cannot be emulated", ("--emulation-version", "1.2"), 2, "1.2"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_wrong_flag(case: Case, tmp_path: Path) -> None:
    _fails(case.flags, tmp_path, case.code, case.said)


def test_a_port_that_is_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        _fails(("--port", str(port)), tmp_path, 1, "another program listens there already; stop it, or choose another")


def _in_use(folder: Path) -> str:
    lock = os.open(folder / "state.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return "in use by another process; stop it, or choose another directory"


def _newer(folder: Path) -> str:
    with sqlite3.connect(folder / "state.db") as database:
        database.execute("PRAGMA application_id = 1297043282")
        database.execute("PRAGMA user_version = 99")
    database.close()
    return "newer"


def _foreign(folder: Path) -> str:
    (folder / "state.db").write_text("not a database at all, but some text that is long enough " * 20)
    return "state.db"


@pytest.mark.parametrize("prepare", [_in_use, _newer, _foreign], ids=["in use", "newer", "somebody else's"])
def test_a_data_directory_that_cannot_be_used(prepare: Callable[[Path], str], tmp_path: Path) -> None:
    said = prepare(tmp_path)
    _fails((), tmp_path, 1, said)


def test_a_lock_without_a_holder_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "state.lock").write_text("4194304\n")
    _fails(("--bind-address", "192.0.2.1"), tmp_path, 1, "choose another --bind-address")  # the store was opened


def test_the_kubeconfig_of_other_clusters_is_not_written_over(tmp_path: Path) -> None:
    others = tmp_path / "config"
    others.write_text("clusters: [{name: production}]")
    _fails(("--kubeconfig", str(others)), tmp_path, 2, "the file is not Mooring's; name one that does not exist yet")
    assert others.read_text() == "clusters: [{name: production}]"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Pod\nmetadata: {name: a}", "line 1: a node template is a manifest of kind Node"),
        ("kind: Node\napiVersion: v1\nmetadata: {name: 'A B'}", "metadata.name: Invalid value"),
    ],
    ids=["of another kind", "that the server refuses"],
)
def test_a_file_of_nodes(text: str, said: str, tmp_path: Path) -> None:
    manifest = tmp_path / "nodes.yaml"
    manifest.write_text(text)
    _fails(("--nodes", str(manifest)), tmp_path, 1, said)


def _fails(flags: tuple[str, ...], folder: Path, code: int, said: str) -> None:
    base = ("--data-dir", str(folder), "--single-process", "--metrics-port", "-1")
    port = () if "--port" in flags else ("--port", "0")
    result = CliRunner().invoke(up, [*base, *port, *flags])
    assert result.exit_code == code, result.output
    assert said in result.output
    assert "Traceback" not in result.output
