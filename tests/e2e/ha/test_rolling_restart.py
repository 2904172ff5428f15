"""Both API servers are restarted, one after the other, also for an upgrade: no client of the balancer notices.

Clients here do not even try again: no request fails, no write is lost, and watches go on where they ended.
"""

import asyncio
import itertools
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eventually import eventually
from ha_cluster import HaCluster, ha_cluster
from kubectl_caller import KUBECTL, Kubectl
from mooring.api.core_v1 import ConfigMap
from mooring.api.meta_v1 import ObjectMeta
from mooring.client import Client, Informers, connect

pytestmark = [
    pytest.mark.req("S.7"),
    pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on this machine"),
]
DELAY = ("--shutdown-delay-duration", "3s")
WRITERS = 4


@dataclass
class Load:
    """Clients that write and read without pause, and note what went wrong."""

    client: Client
    counters: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0
    requests: int = 0

    async def count(self, name: str) -> None:
        """Increase a number for ever: read after write, through whichever server."""
        made = ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data={"n": "0"})
        await self.client.create(made)
        for number in itertools.count(1):
            began = time.monotonic()
            try:
                found = await self.client.get(ConfigMap, name, "default")
                if found.data["n"] != str(number - 1):
                    self.failures.append(f"{name} is {found.data['n']}, not {number - 1}")
                    return
                found.data = {"n": str(number)}
                await self.client.update(found)
            except Exception as error:  # whatever it is, a client has seen it
                self.failures.append(f"{name}, {number}: {error!r}")
                return
            self.counters[name] = number
            self.requests += 2
            self.slowest = max(self.slowest, time.monotonic() - began)
            await asyncio.sleep(0.03)


@asynccontextmanager
async def load(kubeconfig: Path) -> AsyncIterator[Load]:
    async with connect(kubeconfig, user_agent="test") as client:
        found = Load(client)
        tasks = [asyncio.ensure_future(found.count(f"counter-{number}")) for number in range(WRITERS)]
        try:
            yield found
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _roll(cluster: HaCluster) -> None:
    """Restart every server, as an administrator would: the next one when the last one is ready."""
    for number, server in enumerate(list(cluster.servers)):
        assert await asyncio.to_thread(server.stop) == 0
        await asyncio.to_thread(cluster.start_server, number)
        await asyncio.to_thread(cluster.wait_for_servers, len(cluster.servers))


@pytest.mark.req("4330.13")
async def test_clients_see_no_failed_request_and_no_gap(tmp_path: Path) -> None:
    with ha_cluster(tmp_path, flags=DELAY, at_first=("--emulation-version", "1.36")) as (cluster, _):
        async with load(cluster.kubeconfig) as clients:
            informers = Informers(clients.client)
            seen: dict[str, list[int]] = {}
            maps = informers.of(ConfigMap, "default")
            maps.add_handler(
                added=lambda new: seen.setdefault(new.metadata.name, []).append(int(new.data.get("n", "-1"))),
                updated=lambda _, new: seen[new.metadata.name].append(int(new.data.get("n", "-1"))),
            )
            async with informers:
                await informers.wait_for_sync()
                await _roll(cluster)
                await asyncio.sleep(0.5)
                assert b'"minor":"37"' in (await clients.client.raw("GET", "/version")).body
                assert clients.failures == []
                assert clients.requests > 100, "there was something to see"
                assert len(clients.counters) == WRITERS
                assert clients.slowest < 10
        for name in clients.counters:
            numbers = seen[name]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), f"{name}: a gap, or one seen twice"


def test_kubectl_goes_on(tmp_path: Path) -> None:
    """What waits for something goes on over restarts. `get --watch` ends with its watch, as with any server."""
    with ha_cluster(tmp_path, flags=DELAY) as (cluster, _):
        kubectl = Kubectl(cluster.kubeconfig)
        kubectl("create", "configmap", "first")
        watch = _start(kubectl, "get", "configmaps", "--watch", "-o", "name")
        again = _start_again_and_again(kubectl, "get", "configmaps", "--watch", "-o", "name")
        wait = _start(kubectl, "wait", "--for=create", "configmap/last", "--timeout=60s")
        label = _start(kubectl, "wait", "--for=jsonpath={.data.done}=yes", "configmap/first", "--timeout=60s")
        commands = 0
        for number, server in enumerate(list(cluster.servers)):
            server.process.terminate()
            while server.process.poll() is None:
                kubectl("create", "configmap", f"while-{commands}")
                kubectl("get", "configmap", f"while-{commands}")
                commands += 1
            server.stop()
            cluster.start_server(number)
            cluster.wait_for_servers(2)
        assert commands >= 2
        kubectl("patch", "configmap", "first", "-p", '{"data":{"done":"yes"}}')
        kubectl("create", "configmap", "last")
        assert "condition met" in _end(wait)
        assert "condition met" in _end(label)
        printed = _end(watch)
        assert "configmap/first" in printed
        assert "rror" not in printed
        seen = _seen_until("configmap/last", again)
        assert seen >= {"configmap/first", *(f"configmap/while-{number}" for number in range(commands))}


def _start(kubectl: Kubectl, *words: str) -> subprocess.Popen[str]:
    assert KUBECTL
    command = [KUBECTL, "--kubeconfig", str(kubectl.kubeconfig), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _start_again_and_again(kubectl: Kubectl, *words: str) -> subprocess.Popen[str]:
    """As the page about several servers says, in a group of its own so that all of it can be ended."""
    command = f"while {KUBECTL} --kubeconfig {kubectl.kubeconfig} {' '.join(words)}; do sleep 0.2; done"
    return subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _seen_until(last: str, process: subprocess.Popen[str]) -> set[str]:
    """Return the lines of a command that does not end by itself; it is ended."""
    assert process.stdout
    seen: set[str] = set()
    try:
        for line in process.stdout:
            seen.add(line.strip())
            if last in seen:
                return seen
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    raise AssertionError(f"{last} was not seen: {seen}")


def _end(process: subprocess.Popen[str]) -> str:
    """Return what a command printed that ends well by itself."""
    eventually(lambda: process.poll() is not None, 30)
    printed, _ = process.communicate()
    assert process.returncode == 0, printed
    return printed
