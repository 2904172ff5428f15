"""`mooring apiserver` as a process: it says when it is ready, stops on a signal, and names what is wrong."""

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.req("S.6")
COMMAND = [sys.executable, "-c", "from mooring.cli.commands.apiserver import apiserver; apiserver()"]


@contextmanager
def running(*flags: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Yield the process, and the line that it printed."""
    process = subprocess.Popen([*COMMAND, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "is ready" in line, process.stderr.read() if process.stderr else ""
        yield process, line
    finally:
        process.kill()
        process.communicate()


def _fails(*flags: str) -> str:
    done = subprocess.run([*COMMAND, *flags], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return done.stderr


def test_it_prints_its_address_and_stops_on_a_signal(tmp_path: Path) -> None:
    with running("--data-dir", str(tmp_path), "--port", "0") as (process, line):
        assert re.search(r"ready at https://127\.0\.0\.1:\d+; .*KUBECONFIG=.*admin\.kubeconfig", line)
        assert (tmp_path / "admin.kubeconfig").stat().st_mode & 0o777 == 0o600
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    with running("--data-dir", str(tmp_path), "--port", "0") as (process, line):
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        assert found
        with socket.create_connection(("127.0.0.1", int(found[1]))):
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 0


@pytest.mark.parametrize("command", ["apiserver", "up"])
def test_it_can_be_stopped_while_it_waits_for_etcd(tmp_path: Path, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(30)
        etcd = f"http://127.0.0.1:{silent.getsockname()[1]}"
        flags = ["--data-dir", str(tmp_path), "--port", "0", "--etcd-servers", etcd]
        process = subprocess.Popen(
            [sys.executable, "-m", "mooring", command, *flags], stderr=subprocess.PIPE, text=True
        )
        try:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=5)  # it would wait for ten
        finally:
            process.kill()
            process.communicate()
    assert (process.returncode, said) == (0, "")


def test_a_data_directory_in_use_is_reported(tmp_path: Path) -> None:
    with running("--data-dir", str(tmp_path), "--port", "0") as (process, _):
        message = _fails("--data-dir", str(tmp_path), "--port", "0")
    assert f"is in use by process {process.pid}" in message


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = _fails("--data-dir", str(tmp_path), "--port", str(port))
    assert f"cannot listen on 127.0.0.1:{port}: another program listens there already" in message


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--emulation-version", "1.99"], "--emulation-version=1.99 is out of range"),
        (["--feature-gates", "Nonsense=true"], "unrecognized feature gate: Nonsense"),
        (["--runtime-config", "nonsense/v1=true"], "names an unknown API group"),
        (["--token-auth-file", "none.csv"], "cannot read none.csv"),
        (["--audit-log", "/proc/none/audit"], "cannot write the audit log /proc/none/audit"),
        (["--port", "70000"], "70000 is not in the range"),
        (["--nonsense"], "No such option"),
        (["--data-dir", ""], "the name is empty; use . for the current directory"),
    ],
    ids=["version", "gate", "API", "token file", "audit log", "port", "flag", "empty directory"],
)
def test_what_is_wrong_with_a_flag_is_reported(tmp_path: Path, flags: list[str], message: str) -> None:
    assert message in _fails("--data-dir", str(tmp_path), *flags)


def test_a_data_directory_that_is_a_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert f"Directory '{tmp_path / 'file'}' is a file" in _fails("--data-dir", str(tmp_path / "file"))


def test_a_data_directory_that_cannot_be_made_is_reported() -> None:
    assert "Error: /proc/none" in _fails("--data-dir", "/proc/none/data", "--port", "0")


def test_a_damaged_store_is_reported_and_left_alone(tmp_path: Path) -> None:
    with running("--data-dir", str(tmp_path), "--port", "0") as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    store = tmp_path / "state.db"
    whole = store.read_bytes()
    damaged = whole[:8192] + b"\xff" * (len(whole) - 8192)
    store.write_bytes(damaged)
    assert f"Error: {store} is damaged; restore a backup" in _fails("--data-dir", str(tmp_path), "--port", "0")
    assert store.read_bytes() == damaged
