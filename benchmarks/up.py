"""`mooring up` in two processes and in one: how soon it is ready, what it weighs, how fast a Deployment comes to run;
and what the pytest fixture takes for each test after the first, with its end.

python -m benchmarks up
NODES=1000 PODS=2000 STARTS=5 python -m benchmarks up

A start is measured until the line that says it is ready, on a data directory that exists. The Deployment goes the whole
way: ReplicaSet, pods, scheduling, binding, simulated kubelets, status; on disk, with the load of all components.
"""

import asyncio
import os
import re
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from mooring.api.apps_v1 import Deployment
from mooring.client import connect
from mooring.testing.builders import made
from mooring.testing.control_plane import RunningControlPlane

NODES = int(os.environ.get("NODES", "1000"))
PODS = int(os.environ.get("PODS", "2000"))
STARTS = int(os.environ.get("STARTS", "5"))
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""A first start compiles bytecode, as pip does at installation, which takes as long as a start."""
MODES = {"two processes": (), "one process": ("--single-process",)}
_SECONDS = 300.0


@dataclass(frozen=True)
class Run:
    """A control plane that runs."""

    process: subprocess.Popen[str]
    kubeconfig: Path
    ready_seconds: float

    def pids(self) -> list[str]:
        first = str(self.process.pid)
        return [first, *Path(f"/proc/{first}/task/{first}/children").read_text().split()]

    def memory(self) -> float:
        """MB of all its processes, with what they share (the code of Python and its libraries) counted once."""
        pages = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in self.pids()]
        own = [sum(map(int, re.findall(r"Private_\w+:\s+(\d+)", page))) for page in pages]
        shared = [sum(map(int, re.findall(r"Shared_\w+:\s+(\d+)", page))) for page in pages]
        return (sum(own) + max(shared)) / 1024

    def processor(self) -> list[float]:
        """Seconds that each of its processes has used."""
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self.pids()]
        return [(int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK") for stat in stats]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=60)


def main() -> None:
    work = f"{PODS} pods on {NODES} nodes: pods/s"
    print(f"{'':<14} {'ready s':>8} {'CPU s':>6} {'idle MB':>8} {work:>35} {'CPU ms a pod':>14} {'MB':>5}")
    for name, flags in MODES.items():
        with tempfile.TemporaryDirectory() as folder:
            start(folder, *flags).stop()
            seconds, processor, idle = zip(*(_start_once(folder, flags) for _ in range(STARTS)), strict=True)
            rate, used, memory = _rate(folder, flags)
        medians = [statistics.median(each) for each in (seconds, processor, idle)]
        begun = f"{name:<14} {medians[0]:>8.2f} {medians[1]:>6.2f} {medians[2]:>8.0f}"
        print(f"{begun} {rate:>35.0f} {' + '.join(f'{each:.1f}' for each in used):>14} {memory:>5.0f}", flush=True)
    _, *later = [_fixture_once() for _ in range(3 * STARTS)]
    seconds, processor = (statistics.median(each) for each in zip(*later, strict=True))
    print(f"{'fixture':<14} {seconds:>8.3f} {processor:>6.3f}")


def _fixture_once() -> tuple[float, float]:
    began, used = time.monotonic(), time.process_time()
    with RunningControlPlane(nodes=1):
        pass
    return time.monotonic() - began, time.process_time() - used


def _start_once(folder: str, flags: tuple[str, ...]) -> tuple[float, float, float]:
    before = _processor()
    run = start(folder, *flags)
    memory = run.memory()
    run.stop()
    return run.ready_seconds, _processor() - before, memory


def _rate(folder: str, flags: tuple[str, ...]) -> tuple[float, list[float], float]:
    run = start(folder, "--nodes", str(NODES), *flags)
    try:
        before = run.processor()
        rate = asyncio.run(_deploy(run.kubeconfig))
        used = [1000 * (now - then) / PODS for then, now in zip(before, run.processor(), strict=True)]
        return rate, used, run.memory()
    finally:
        run.stop()


async def _deploy(kubeconfig: Path) -> float:
    wanted = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": PODS,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "app:1"}]},
            },
        },
    }
    async with connect(kubeconfig, user_agent="benchmark") as client:
        await client.create(made(Deployment, wanted))
        began = time.monotonic()
        while (await client.get(Deployment, "web", "default")).status.ready_replicas < PODS:
            if time.monotonic() - began > _SECONDS:
                raise TimeoutError("the pods did not come to run")
            await asyncio.sleep(0.2)
        return PODS / (time.monotonic() - began)


def start(folder: str, *flags: str) -> Run:
    command = [
        sys.executable,
        "-m",
        "mooring",
        "up",
        "--data-dir",
        folder,
        "--port",
        "0",
        "--metrics-port",
        "0",
        *flags,
    ]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_ENVIRONMENT)
    assert process.stdout is not None
    for line in process.stdout:
        if "ready at" in line:
            return Run(process, Path(line.rpartition("KUBECONFIG=")[2].strip()), time.monotonic() - began)
    raise RuntimeError("it ended before it was ready")


def _processor() -> float:
    """Seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
