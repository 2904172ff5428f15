"""The workload controllers: Deployments rolled out, rolled out again, and what is sent when nothing happens.

python -m benchmarks controllers
DEPLOYMENTS=100 python -m benchmarks controllers

A server on disk and the controllers (`deployment`, `replicaset`) are processes of their own, over HTTPS. Pods are not
scheduled: a Deployment counts as done when its ReplicaSet has all pods and the status of both says so. For the idle
time, the server's own count of requests is read.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop

from mooring.api.apps_v1 import Deployment, DeploymentSpec, DeploymentStrategy
from mooring.api.core_v1 import Container, Pod, PodSpec, PodTemplateSpec
from mooring.api.meta_v1 import LabelSelector, ObjectMeta
from mooring.client import Client, Informers, connect

DEPLOYMENTS = int(os.environ.get("DEPLOYMENTS", "1000"))
REPLICAS = 10
IDLE_SECONDS = 20.0
_AT_ONCE = 32
_SECONDS = 600.0


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, _process("apiserver", "--data-dir", folder, "--port", "0") as server:
        own = Path(folder) / "controllers.kubeconfig"
        flags = ["--kubeconfig", str(own), "--controllers", "deployment,replicaset", "--port", "-1"]
        with _process("controllers", *flags) as controllers:
            uvloop.run(_measure(Path(folder) / "admin.kubeconfig", controllers.pid, server.pid))


@contextmanager
def _process(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a component and yield when it is ready."""
    process = subprocess.Popen([sys.executable, "-m", "mooring", *words], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def _deployment(number: int, image: str = "registry.example/app:1") -> Deployment:
    name = f"app-{number}"
    labels = {"app": name}
    return Deployment(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=DeploymentSpec(
            replicas=REPLICAS,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(
                metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[Container(name="c", image=image)])
            ),
            strategy=DeploymentStrategy(type="Recreate"),  # pods that never run would stop a rolling update
        ),
    )


async def _measure(kubeconfig: Path, controllers: int, server: int) -> None:
    async with connect(kubeconfig, user_agent="benchmark") as client:
        informers = Informers(client)
        deployments, pods = informers.of(Deployment), informers.of(Pod)

        def rolled_out() -> bool:
            return (
                len(pods) == DEPLOYMENTS * REPLICAS
                and len(deployments) == DEPLOYMENTS
                and all(
                    each.status.updated_replicas == each.status.replicas == REPLICAS
                    and each.status.observed_generation == each.metadata.generation
                    for each in deployments.objects()
                )
            )

        async with informers:
            await informers.wait_for_sync()
            what = f"{DEPLOYMENTS:,} Deployments of {REPLICAS} replicas"
            for done, work in (("made", _create), ("recreated", _update)):
                before = _cpu_seconds(controllers), _cpu_seconds(server)
                taken = await _timed(work(client), rolled_out)
                used = _cpu_seconds(controllers) - before[0], _cpu_seconds(server) - before[1]
                _tell(f"{what} {done}", taken, used)
        await asyncio.sleep(15)  # events that happened again are counted some seconds later
        answered, spent = await _requests(client), _cpu_seconds(controllers)
        await asyncio.sleep(IDLE_SECONDS)
        rate = (await _requests(client) - answered - 1) / IDLE_SECONDS  # one is the reading itself
        print(f"requests while nothing happens                    {rate:8.2f} /s     (target: near zero)")
        busy = (_cpu_seconds(controllers) - spent) / IDLE_SECONDS
        print(f"CPU of the controllers meanwhile                  {busy:8.2%}")
        print(f"memory of the controllers                         {_resident(controllers):8.0f} MB")


def _tell(what: str, taken: float, cpu: tuple[float, float]) -> None:
    rate = DEPLOYMENTS * REPLICAS / taken
    used = f"CPU: controllers {cpu[0]:.1f} s, server {cpu[1]:.1f} s"
    print(f"{what:48}  {taken:8.1f} s, {rate:,.0f} pods/s; {used}", flush=True)


async def _timed(work: Awaitable[None], done: Callable[[], bool]) -> float:
    """Seconds from the beginning of the work until all have followed."""
    began = time.perf_counter()
    await work
    async with asyncio.timeout(_SECONDS):
        while not done():  # noqa: ASYNC110 - the condition is about others
            await asyncio.sleep(0.05)
    return time.perf_counter() - began


async def _create(client: Client) -> None:
    numbers = iter(range(DEPLOYMENTS))

    async def some() -> None:
        for number in numbers:
            await client.create(_deployment(number))

    await asyncio.gather(*(some() for _ in range(_AT_ONCE)))


async def _update(client: Client) -> None:
    numbers = iter(range(DEPLOYMENTS))

    async def some() -> None:
        for number in numbers:
            containers = [{"name": "c", "image": "registry.example/app:2"}]
            body = {"spec": {"template": {"spec": {"containers": containers}}}}
            await client.patch(Deployment, f"app-{number}", body, "default")

    await asyncio.gather(*(some() for _ in range(_AT_ONCE)))


async def _requests(client: Client) -> float:
    """How many requests the server has answered."""
    page = (await client.raw("GET", "/metrics", accept="text/plain")).body.decode()
    return sum(float(number) for number in re.findall(r"^apiserver_request_total\{.*\} (\S+)$", page, re.MULTILINE))


def _cpu_seconds(process: int) -> float:
    """Processor time of all threads of a process, in nanoseconds: /proc/PID/stat counts in hundredths of a second."""
    return time.clock_gettime((~process << 3) | _CPUCLOCK_SCHED)


_CPUCLOCK_SCHED = 2
"""With the number of a process, as clock_getcpuclockid(3) puts them together: the clock of its time on processors."""


def _resident(process: int) -> float:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


if __name__ == "__main__":
    main()
