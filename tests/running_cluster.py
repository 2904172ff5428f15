"""A whole control plane as an operator runs it: API server, scheduler and controllers, a process each.

with running_cluster(tmp_path, "--emulation-version", "1.36") as cluster:
    cluster.restart("scheduler", "--feature-gates", "TaintTolerationComparisonOperators=false")

The server keeps its port when it is restarted, so that the others and kubeconfig files find it again.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from running_server import RunningServer, start_server

SERVER, SCHEDULER, CONTROLLERS = "apiserver", "scheduler", "controllers"
PARTS = (SCHEDULER, CONTROLLERS)
_SECONDS = 30


@dataclass
class Part:
    """A component beside the server."""

    name: str
    process: subprocess.Popen[str]
    log: Path

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + _SECONDS
        while f"The {self.name} {'are' if self.name == CONTROLLERS else 'is'} ready" not in self.log.read_text():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the {self.name} did not start: {self.log.read_text()}")
            time.sleep(0.02)

    def stop(self) -> None:
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(_SECONDS)
        assert code == 0, f"the {self.name} ended with {code}: {self.log.read_text()}"


@dataclass
class RunningCluster:
    """What runs, and how to run it otherwise."""

    server: RunningServer
    parts: dict[str, Part] = field(default_factory=dict)

    @property
    def kubeconfig(self) -> Path:
        return self.server.kubeconfig

    def start(self, *names: str, flags: tuple[str, ...] = ()) -> None:
        """Start components, at the same time."""
        for name in names:
            self.parts[name] = self._launch(name, flags)
        for name in names:
            self.parts[name].wait_until_ready()

    def restart(self, name: str, *flags: str) -> None:
        """Restart a component with other flags. The server finds what it has stored."""
        if name != SERVER:
            self.parts.pop(name).stop()
            self.start(name, flags=flags)
            return
        port = str(self.server.address[1])
        assert self.server.stop() == 0, self.server.log.read_text()
        self.server = start_server(self.server.data_dir, "--port", port, *flags)

    def stop(self) -> None:
        for part in self.parts.values():
            part.stop()
        self.parts.clear()
        self.server.stop()

    def _launch(self, name: str, flags: tuple[str, ...]) -> Part:
        folder = self.server.data_dir
        log = folder / f"{name}.log"
        command = [sys.executable, "-m", "mooring", name, "--port", "-1"]
        with log.open("w") as output:
            process = subprocess.Popen(
                [*command, "--kubeconfig", str(folder / f"{name}.kubeconfig"), *flags],
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )
        return Part(name, process, log)


@contextmanager
def running_cluster(data_dir: Path, *flags: str) -> Iterator[RunningCluster]:
    """Yield a control plane whose components all have the same flags; it is stopped at the end."""
    cluster = RunningCluster(start_server(data_dir, *flags))
    try:
        cluster.start(*PARTS, flags=flags)
        yield cluster
    finally:
        cluster.stop()
