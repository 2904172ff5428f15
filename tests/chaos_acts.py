"""Who is killed, stopped and restarted, when and for how long: at random, but the same for the same seed.

Of each kind (members of etcd, API servers, schedulers, controllers) one at a time is out of order, of different kinds
several at once. Now and then etcd has no majority, or there is no API server at all. What ends by itself is started
again, as a service manager does.
"""

import asyncio
import functools
import random
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from etcd_servers import etcd_program
from ha_cluster import HaCluster
from worker_processes import ELECTED, SECONDS, Crew, WorkerProcess

PARTS = ("scheduler", "controllers")
INSTANCES = 2
WAYS = ("kill", "stop", "pause")
OUTAGE = "end, with others,"
"""So many at once that nothing works any more."""


Act = Callable[[str, int, float], None]
"""Do something to the instance of a number: how, and for how many seconds."""


@functools.cache
def etcd_survives_kills() -> bool:
    """Whether this etcd keeps its data consistent when it is killed under load, which 3.5.0 to 3.5.2 do not."""
    said = subprocess.run([str(etcd_program()), "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", said)
    assert found, said
    return not (3, 5, 0) <= tuple(map(int, found.groups())) < (3, 5, 3)


@dataclass
class Chaos:
    """Disturbs a cluster for some seconds."""

    cluster: HaCluster
    crew: Crew
    seed: int
    acts: list[str] = field(default_factory=list)
    workers: dict[str, list[WorkerProcess]] = field(default_factory=dict)
    _until: float = 0.0

    def start_workers(self) -> None:
        for part in PARTS:
            self.workers[part] = [self.crew.start(part, *ELECTED) for _ in range(INSTANCES)]

    async def run(self, seconds: float) -> None:
        """Do it. At the end everything runs again."""
        self._until = time.monotonic() + seconds
        acts: list[tuple[str, int, Act]] = [
            ("etcd", len(self.cluster.etcd.members), self._etcd),
            ("server", len(self.cluster.servers), self._server),
        ]
        acts += [(part, INSTANCES, functools.partial(self._worker, part)) for part in PARTS]
        await asyncio.gather(*(asyncio.to_thread(self._disturb, *each) for each in acts))

    def supervise(self) -> None:
        """Start again what has ended."""
        for part in PARTS:
            self._supervise(part)

    def _supervise(self, part: str) -> None:
        instances = self.workers[part]
        for index, worker in enumerate(instances):
            if not worker.is_running:
                instances[index] = self.crew.start(part, *ELECTED)

    def _disturb(self, kind: str, count: int, act: Act) -> None:
        """Do everything to everyone, in an order and for times that the seed says, until the time is over."""
        lot = random.Random(f"{self.seed} {kind}")
        for way, number in _shuffled(lot, count, outage=kind not in PARTS):
            time.sleep(lot.uniform(0.2, 1.0))
            if time.monotonic() > self._until:
                return
            seconds = lot.uniform(0.0, 2.0)
            act(way, number, seconds)
            self.acts.append(f"{way} {kind} {number} for {seconds:.1f} s")

    def _etcd(self, way: str, number: int, seconds: float) -> None:
        members = self.cluster.etcd.members
        member = members[number]
        if way in {"pause", OUTAGE}:
            stopped = [member, members[number - 1]] if way == OUTAGE else [member]
            for each in stopped:
                each.pause()
            time.sleep(seconds)
            for each in stopped:
                each.resume()
        else:
            assert member.process
            if way == "stop" or not etcd_survives_kills():
                member.process.terminate()
                member.process.wait()
            member.kill()
            time.sleep(seconds)
            member.start()
        self.cluster.etcd.wait()

    def _server(self, way: str, number: int, seconds: float) -> None:
        server = self.cluster.servers[number]
        if way == "pause":
            server.pause()
            time.sleep(seconds)
            server.resume()
            return
        numbers = range(len(self.cluster.servers)) if way == OUTAGE else [number]
        for each in numbers:
            self.cluster.servers[each].stop() if way == "stop" else self.cluster.servers[each].kill()
        time.sleep(seconds)
        for each in numbers:
            self.cluster.start_server(each)

    def _worker(self, part: str, way: str, number: int, seconds: float) -> None:
        self._supervise(part)
        worker = self.workers[part][number]
        if way == "pause":
            worker.pause()
            time.sleep(seconds * SECONDS / 1.4)  # often for longer than its lease lasts
            worker.resume()
        else:
            worker.kill() if way == "kill" else worker.stop()
            time.sleep(seconds)
            self.workers[part][number] = self.crew.start(part, *ELECTED)


def _shuffled(lot: random.Random, count: int, *, outage: bool) -> Iterator[tuple[str, int]]:
    """Every way and everyone, again and again, each time in another order."""
    every = [(way, number) for way in WAYS for number in range(count)]
    if outage:
        every.append((OUTAGE, lot.randrange(count)))
    while True:
        lot.shuffle(every)
        yield from every
