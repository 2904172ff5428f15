"""A control plane as `mooring up` runs it, in processes of its own.

with running_up("--data-dir", str(tmp_path), "--nodes", "3") as plane:
    subprocess.run(["kubectl", "--kubeconfig", plane.kubeconfig, "get", "nodes"])
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mooring.api.meta_v1 import Resource
from mooring.client import Client, connect

COMMAND = [sys.executable, "-m", "mooring", "up"]
_SECONDS = 30.0
T = TypeVar("T", bound=Resource)


@dataclass
class RunningUp:
    """The first process, and what it has said."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    @property
    def kubeconfig(self) -> Path:
        found = re.search(r"KUBECONFIG=(\S+)", self.lines[-1])
        assert found
        return Path(found[1])

    def client(self) -> Client:
        return connect(self.kubeconfig, user_agent="test")

    def children(self) -> list[int]:
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(word) for word in path.read_text().split()]

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send a signal; the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(_SECONDS)
        assert self.process.stdout
        self.lines += self.process.stdout
        self.process.stdout.close()
        return code


def start_up(*flags: str, **settings: Any) -> RunningUp:
    """Start and wait until all is ready."""
    command = [*COMMAND, "--port", "0", "--metrics-port", "0", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **settings})
    plane = RunningUp(process)
    assert process.stdout
    for line in process.stdout:
        plane.lines.append(line)
        if "ready at" in line:
            return plane
    process.stdout.close()
    raise AssertionError(f"it did not start, and ended with {process.wait()}")


@contextmanager
def running_up(*flags: str) -> Iterator[RunningUp]:
    plane = start_up(*flags)
    try:
        yield plane
    finally:
        if plane.process.poll() is None:
            plane.stop()


async def until(condition: Callable[[], Awaitable[T | None]], seconds: float = _SECONDS) -> T:
    """Return what a condition gives once it gives something."""
    deadline = time.monotonic() + seconds
    while True:
        found = await condition()
        if found:
            return found
        assert time.monotonic() < deadline, "it did not come about"
        await asyncio.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be asked for its exit code does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], bool], seconds: float = _SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)
