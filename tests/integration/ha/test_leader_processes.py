"""Two schedulers, or two sets of controllers: one works. When it dies, ends or hangs, the other does; never both."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mooring.api import codec
from mooring.api.apps_v1 import ReplicaSet
from mooring.api.coordination_v1 import Lease
from mooring.api.core_v1 import Pod
from mooring.client import Client, connect
from running_server import RunningServer, running_server
from scheduler_objects import node, pod
from worker_processes import ELECTED, SECONDS, Crew, WorkerProcess

pytestmark = pytest.mark.req("S.3")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Work:
    """Something that only a component does."""

    part: str
    lease: str
    give: Callable[[Client, str], Awaitable[None]]
    is_done: Callable[[Client, str], Awaitable[bool]]


async def _give_pod(client: Client, name: str) -> None:
    wanted = pod(name)
    wanted.metadata.uid = ""
    await client.create(wanted)


async def _is_bound(client: Client, name: str) -> bool:
    return bool((await client.get(Pod, name, "default")).spec.node_name)


async def _give_replica_set(client: Client, name: str) -> None:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    tree = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
    await client.create(codec.from_tree(tree, ReplicaSet, codec.FieldValidation.STRICT)[0])


async def _has_pod(client: Client, name: str) -> bool:
    return bool((await client.list(Pod, "default", label_selector=f"app={name}")).items)


SCHEDULER = Work("scheduler", "mooring-scheduler", _give_pod, _is_bound)
CONTROLLERS = Work("controllers", "mooring-controllers", _give_replica_set, _has_pod)
both = pytest.mark.parametrize("work", [SCHEDULER, CONTROLLERS], ids=lambda work: work.part)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@dataclass
class Pair:
    """A leader and one that stands by."""

    work: Work
    client: Client
    first: WorkerProcess
    second: WorkerProcess

    async def give(self) -> str:
        """Ask for something; its name."""
        name = f"work-{next(_numbers)}"
        await self.work.give(self.client, name)
        return name

    async def done(self, name: str, seconds: float) -> float:
        """Wait until some work was done; after how long that was."""
        began = time.monotonic()
        while not await self.work.is_done(self.client, name):
            took = time.monotonic() - began
            assert took < seconds, f"{name} was not done within {seconds} s: {self.second.log.read_text()}"
            await asyncio.sleep(0.02)
        return time.monotonic() - began

    async def holder(self) -> str:
        return (await self.client.get(Lease, self.work.lease, "kube-system")).spec.holder_identity or ""

    async def taken_over(self, before: str, seconds: float) -> None:
        """Wait until another one than before holds the lease."""
        deadline = time.monotonic() + seconds
        while await self.holder() in {"", before}:
            assert time.monotonic() < deadline, f"{before} still holds the lease"
            await asyncio.sleep(0.02)


@asynccontextmanager
async def pair(
    server: RunningServer, work: Work, folder: Path, flags: tuple[str, ...] = ELECTED
) -> AsyncIterator[Pair]:
    async with connect(server.kubeconfig, user_agent="test") as client:
        await _have_node(client)
        with Crew(folder, server.data_dir) as crew:
            first = crew.start(work.part, *flags)
            await asyncio.to_thread(first.wait_until_it_leads)
            second = crew.start(work.part, *flags)
            await asyncio.to_thread(second.wait_until_it_stands_by)
            yield Pair(work, client, first, second)
            for each in (first, second):
                if each.is_running:
                    each.stop()  # gives its lease up, so that the next test need not wait for it


async def _have_node(client: Client) -> None:
    """Create a node without taints for each test: controllers of earlier tests have found the old one dead."""
    name = f"n{time.monotonic_ns()}"
    made = await client.create(node(name))
    made.spec.taints = []
    await client.update(made)


@both
async def test_another_takes_over_when_the_leader_is_killed(server: RunningServer, work: Work, tmp_path: Path) -> None:
    async with pair(server, work, tmp_path) as two:
        await two.done(await two.give(), 10)
        assert not two.second.has_led
        two.first.kill()
        took = await two.done(await two.give(), SECONDS + 4)
        assert took > 2, "the lease was respected until its end"


@both
async def test_another_takes_over_at_once_when_the_leader_ends(
    server: RunningServer, work: Work, tmp_path: Path
) -> None:
    async with pair(server, work, tmp_path, ("--leader-elect",)) as two:
        assert await asyncio.to_thread(two.first.stop) == 0
        await two.done(await two.give(), 8)  # a lease that was not given up would last for 13 s more


@both
async def test_a_leader_that_was_stopped_for_too_long_does_nothing_more(
    server: RunningServer, work: Work, tmp_path: Path
) -> None:
    async with pair(server, work, tmp_path) as two:
        before = await two.holder()
        two.first.pause()
        await two.taken_over(before, SECONDS + 4)
        await asyncio.to_thread(two.second.wait_until_it_leads)
        two.second.pause()  # so that only the first one could do what is asked for now
        late = await two.give()
        two.first.resume()
        await asyncio.to_thread(_wait_for_line, two.first, "the lease was lost")
        assert not await work.is_done(two.client, late)
        two.second.resume()
        await two.done(late, SECONDS + 10)
        assert two.first.is_running, "it stands again"
        two.second.kill()
        await two.done(await two.give(), SECONDS + 10)


def _wait_for_line(process: WorkerProcess, text: str) -> None:
    deadline = time.monotonic() + 15
    while text not in process.log.read_text():
        assert process.is_running, "it does not end"
        assert time.monotonic() < deadline, f"{text} is not in the log"
        time.sleep(0.1)


@pytest.mark.slow
@both
async def test_with_the_usual_times_a_takeover_takes_fifteen_seconds(
    server: RunningServer, work: Work, tmp_path: Path
) -> None:
    async with pair(server, work, tmp_path, ("--leader-elect",)) as two:
        await asyncio.sleep(3)
        two.first.kill()
        assert await two.done(await two.give(), 20) < 15 + 1, "a second for reading what there is"
