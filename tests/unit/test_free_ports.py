"""Ports that tests reserve stay theirs: `tests/free_ports.py`."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

import free_ports as module
from free_ports import free_port, free_ports


def _allow_only(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST", port)
    monkeypatch.setattr(module, "_DEFAULT_END", port + 1)


def test_no_process_gets_a_port_that_another_one_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import free_ports, sys; print(free_ports.free_port(), flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=Path(module.__file__).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout
        _allow_only(int(other.stdout.readline()), monkeypatch)
        with pytest.raises(OSError, match="is in use"):
            free_port()
        other.communicate("")


def test_a_process_gets_no_port_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    _allow_only(free_port(), monkeypatch)
    with pytest.raises(OSError, match="is in use"):
        free_port()


def test_a_port_on_which_a_program_listens_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr(module, "_reserved", {})
    _allow_only(port, monkeypatch)
    with socket.create_server(("127.0.0.1", port)), pytest.raises(OSError, match="is in use"):
        free_port()


@pytest.mark.parametrize(
    ("system", "below"),
    [("32768\t60999\n", 32768), ("16000\t65535\n", 16000)],
    ids=["the default of Linux", "the default of gVisor"],
)
def test_ports_are_below_those_of_the_system(
    system: str, below: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "range").write_text(system)
    monkeypatch.setattr(module, "_SYSTEM_RANGE", tmp_path / "range")
    assert max(free_ports(20)) < below
