"""`mooring controllers` as a process of its own: health, metrics, election, and errors for wrong calls."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from mooring.cli.commands.controllers import controllers
from running_server import running_server

pytestmark = pytest.mark.req("S.4")
WORKS = 'leader_election_master_status{name="mooring-controllers"}'


@contextmanager
def started(kubeconfig: Path, *flags: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield the process and the address of its pages."""
    command = [sys.executable, "-m", "mooring", "controllers", "--port", "0", "--kubeconfig", str(kubeconfig), *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            page = next(line for line in process.stdout if "metrics are at" in line).rpartition(" ")[2].strip()
            yield process, page
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0


def read(url: str) -> str:
    with urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def ready_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return next(line for line in process.stdout if "are ready" in line)


def test_it_shows_its_health_and_metrics_and_another_takes_over_when_it_ends(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        kubeconfig = server.data_dir / "controllers.kubeconfig"
        lease = ("--leader-elect-lease-duration", "2m", "--leader-elect-renew-deadline", "1m")
        flags = ("--controllers", "deployment,replicaset", "--leader-elect", *lease)
        with started(kubeconfig, *flags) as (first, page):
            assert ready_line(first).strip() == "The controllers are ready: deployment, replicaset"
            assert read(f"{page}/readyz") == "ok"
            assert 'mooring_controller_rejected_creates_total{controller="replicaset"} 0.0' in read(f"{page}/metrics")
            assert f"{WORKS} 1.0" in read(f"{page}/metrics")
            with started(kubeconfig, *flags) as (second, other):
                assert read(f"{other}/readyz") == "ok"  # it stands by
                assert f"{WORKS} 0.0" in read(f"{other}/metrics")
                first.send_signal(signal.SIGTERM)
                began = time.monotonic()
                assert "are ready" in ready_line(second)
                assert time.monotonic() - began < 60  # the lease was given up, not left to run out


def test_a_controller_that_does_not_exist_is_a_wrong_call(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        flags = ["--kubeconfig", str(server.kubeconfig), "--controllers", "deployment,nothing", "--port", "-1"]
        result = CliRunner().invoke(controllers, flags)
    assert result.exit_code == 2
    assert "there is no controller nothing: there are" in result.output


def test_a_missing_kubeconfig_is_reported(tmp_path: Path) -> None:
    result = CliRunner().invoke(controllers, ["--kubeconfig", str(tmp_path / "none"), "--port", "-1"])
    assert result.exit_code == 1
    assert str(tmp_path / "none") in result.output
