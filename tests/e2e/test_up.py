"""`mooring up`, as a user runs it: two processes, real signals, a real data directory."""

import asyncio
import os
import pty
import re
import select
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from mooring.api.core_v1 import Node, Pod
from mooring.client import Client
from mooring.testing.builders import pod
from running_up import COMMAND, RunningUp, is_alive, running_up, start_up, until, wait_until

ONE_PROCESS = ("--single-process",)
"""It starts sooner, for what has nothing to do with how many there are."""
SERVER_ALONE = ("--without", "scheduler,controllers,nodes")


async def _running(client: Client, name: str) -> Pod | None:
    found = await client.get(Pod, name, "default")
    return found if found.status.phase == "Running" else None


async def _create(client: Client, name: str) -> None:
    wanted = pod(name)
    wanted.metadata.uid = ""
    await client.create(wanted)


@pytest.mark.parametrize("flags", [(), ONE_PROCESS], ids=["in two processes", "in one process"])
async def test_a_pod_is_scheduled_and_run_and_a_restart_finds_it(tmp_path: Path, flags: tuple[str, ...]) -> None:
    with running_up("--data-dir", str(tmp_path), "--nodes", "2", *flags) as plane:
        assert len(plane.children()) == (0 if flags else 1)
        async with plane.client() as client:
            await _create(client, "web")
            before = await until(lambda: _running(client, "web"))
        assert plane.stop() == 0
    with running_up("--data-dir", str(tmp_path), *flags) as plane:
        async with plane.client() as client:
            after = await client.get(Pod, "web", "default")
            nodes = [node.metadata.name for node in (await client.list(Node)).items]
    assert (after.metadata.uid, after.spec.node_name) == (before.metadata.uid, before.spec.node_name)
    assert nodes == ["node-0", "node-1"]


async def test_nothing_is_left_of_an_ephemeral_one() -> None:
    with running_up("--ephemeral", "--nodes", "1", *ONE_PROCESS) as plane:
        folder = plane.kubeconfig.parent
        async with plane.client() as client:
            await _create(client, "web")
            await until(lambda: _running(client, "web"))
        assert not list(folder.glob("*.db"))
        assert plane.stop() == 0
    assert not folder.exists()


async def test_pods_wait_while_the_scheduler_is_left_out(tmp_path: Path) -> None:
    with running_up("--ephemeral", "--nodes", "1", "--without", "scheduler", *ONE_PROCESS) as plane:
        async with plane.client() as client:
            await _create(client, "web")
            await asyncio.sleep(0.5)
            assert (await client.get(Pod, "web", "default")).spec.node_name == ""


def test_without_all_parts_there_is_one_process() -> None:
    with running_up("--ephemeral", *SERVER_ALONE) as plane:
        assert plane.children() == []


async def test_the_kubeconfig_goes_where_it_is_wanted_and_there_are_nodes_to_begin_with(tmp_path: Path) -> None:
    wanted = tmp_path / "for-kubectl"
    with running_up("--ephemeral", "--kubeconfig", str(wanted), *ONE_PROCESS) as plane:
        assert plane.kubeconfig == wanted
        assert wanted.stat().st_mode & 0o777 == 0o600
        async with plane.client() as client:
            assert len((await client.list(Node)).items) == 3
    with running_up("--ephemeral", "--kubeconfig", str(wanted), *SERVER_ALONE):  # its own file may be replaced
        pass


def _command(process: int) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()


class TestProcesses:
    """How the two processes live and end together."""

    @pytest.fixture
    def plane(self, tmp_path: Path) -> RunningUp:
        return start_up("--data-dir", str(tmp_path), "--nodes", "1")

    def test_the_second_ends_when_the_first_is_killed(self, plane: RunningUp) -> None:
        (child,) = plane.children()
        plane.stop(signal.SIGKILL)
        wait_until(lambda: not is_alive(child))

    def test_the_second_is_a_fork_and_started_again_as_a_new_interpreter_when_it_is_killed(
        self, plane: RunningUp
    ) -> None:
        (child,) = plane.children()
        first = _command(plane.process.pid)
        assert _command(child) == first
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: plane.children() not in ([], [child]))
        wait_until(lambda: _command(plane.children()[0]) != first)  # and not a fork with the locks of other threads
        assert plane.stop() == 0

    def test_one_that_never_becomes_ready_is_reported_and_ends_it(self, plane: RunningUp) -> None:
        (child,) = plane.children()
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: plane.children() not in ([], [child]))
        os.kill(plane.children()[0], signal.SIGKILL)
        assert plane.process.wait(20) == 1
        assert plane.process.stdout
        plane.process.stdout.close()

    def test_the_service_manager_s_signal_ends_both(self, plane: RunningUp) -> None:
        (child,) = plane.children()
        assert plane.stop(signal.SIGTERM) == 0
        assert not is_alive(child)

    def test_a_second_signal_does_not_wait_for_a_process_that_hangs(self, plane: RunningUp) -> None:
        (child,) = plane.children()
        os.kill(child, signal.SIGSTOP)
        began = time.monotonic()
        plane.process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert plane.process.poll() is None
        assert plane.stop() == 0
        assert time.monotonic() - began < 5
        assert not is_alive(child)


def test_it_ends_well_when_its_input_was_closed() -> None:
    shell = ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, "--port", "0", "--ephemeral", "--nodes", "1"]
    with subprocess.Popen(shell, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        assert any("ready at" in line for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        said = process.stdout.read()
    assert process.returncode == 0, said


def test_on_a_terminal_one_line_shows_how_things_are() -> None:
    outer, inner = pty.openpty()
    process = subprocess.Popen([*COMMAND, "--port", "0", "--ephemeral", "--nodes", "3"], stdout=inner, stderr=inner)
    os.close(inner)
    shown = b""
    deadline = time.monotonic() + 60
    while b"3 nodes" not in shown and time.monotonic() < deadline:
        if select.select([outer], [], [], 0.5)[0]:
            shown += os.read(outer, 4096)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    os.close(outer)
    assert b"\r\x1b[K3 nodes \xc2\xb7 pods: none" in shown


def test_it_continues_when_the_reader_of_its_output_is_gone() -> None:
    plane = start_up("--ephemeral", "--nodes", "1")
    assert plane.process.stdout
    plane.process.stdout.close()
    plane.process.send_signal(signal.SIGINT)
    assert plane.process.wait(20) == 0


def test_a_port_for_metrics_that_is_in_use_is_reported_by_the_second_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [*COMMAND, "--ephemeral", "--port", "0", "--metrics-port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "choose another --metrics-port" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_page_on_operations_names_the_files_of_a_data_directory(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    files = re.search(r"^Everything is in the data directory: (.*?)\. One server", page, re.MULTILINE | re.DOTALL)
    assert files
    with running_up("--data-dir", str(tmp_path), *ONE_PROCESS):
        there = {path.name for path in tmp_path.iterdir() if path.suffix != ".kubeconfig"}
    assert there == {name.rstrip("/") for name in re.findall(r"`([^`]+)`", files[1])}
