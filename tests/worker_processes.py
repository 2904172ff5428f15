"""Schedulers and controllers as processes of their own, several of each, that are stopped, killed and started again.

with Crew(folder, kubeconfigs) as crew:
    first = crew.start("scheduler", *ELECTED)
    first.wait_until_it_leads()
    first.pause()
"""

import itertools
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

ELECTED = (
    "--leader-elect",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=300ms",
)
"""Short times, so that tests do not take long."""
SECONDS = 4.0
"""The duration of the lease."""
_PATIENCE = 30.0


@dataclass
class WorkerProcess:
    """An instance of a component."""

    part: str
    process: subprocess.Popen[bytes]
    log: Path
    paused: bool = False

    @property
    def has_led(self) -> bool:
        """Whether it has the lease, or had it."""
        return " ready: " in self.log.read_text()

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait_until_it_leads(self, seconds: float = _PATIENCE) -> None:
        self._wait_for(" ready: ", seconds)

    def wait_until_it_stands_by(self) -> None:
        """Wait until the process takes part in the election. It needs a health page."""
        self._wait_for("Health and metrics are at", _PATIENCE)

    def _wait_for(self, words: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while words not in (said := self.log.read_text()):
            assert self.is_running, f"the {self.part} ended with {self.process.returncode}: {said}"
            assert time.monotonic() < deadline, f"not {words!r} within {seconds} s: {said}"
            time.sleep(0.02)

    def pause(self) -> None:
        """Stop it as a debugger does: it cannot know, and goes on later as if nothing had been."""
        self.process.send_signal(signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.paused = False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end, as a service manager does; its exit code."""
        self.resume()
        self.process.terminate()
        return self.process.wait(_PATIENCE)


@dataclass
class Crew:
    """The instances that run. All that still do are killed at the end."""

    folder: Path
    """Of their logs."""
    kubeconfigs: Path
    """The folder of `scheduler.kubeconfig` and `controllers.kubeconfig`."""
    started: list[WorkerProcess] = field(default_factory=list)
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def start(self, part: str, *flags: str) -> WorkerProcess:
        """Start an instance of `scheduler` or `controllers`; it may not be ready yet."""
        log = self.folder / f"{part}-{next(self._numbers)}.log"
        kubeconfig = str(self.kubeconfigs / f"{part}.kubeconfig")
        command = [sys.executable, "-u", "-m", "mooring", part, "--port", "0", "--kubeconfig", kubeconfig, *flags]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        self.started.append(WorkerProcess(part, process, log))
        return self.started[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.started:
            if each.is_running:
                each.kill()
