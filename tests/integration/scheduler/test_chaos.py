"""Chaos: nodes and pods come and go, requests and answers get lost, schedulers end and begin, others bind pods too.

Whatever happens, no pod is ever on two nodes, no node has more than it can take, and in the end every pod that could
have a node has one.
"""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mooring.api.core_v1 import Node, Pod
from mooring.api.errors import Conflict, NotFound
from mooring.client import LeaseTimes
from mooring.client.leader_election import LeaderElection
from mooring.constraints import requests
from mooring.scheduler.columns.cluster import pod_key
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.queue import Backoffs
from mooring.scheduler.running.options import COMPONENT, SchedulerConfig
from mooring.scheduler.running.runtime import Scheduler
from scheduler_rig import Rig, rig

pytestmark = pytest.mark.req("S.3")
NODE_CPU = 2000
TIMES = LeaseTimes(duration=4.0, renew_deadline=3.0, retry_period=0.1)
CONFIG = SchedulerConfig(
    backoffs=Backoffs(initial=0.05, maximum=0.2), leader_election=LeaderElection(COMPONENT, enabled=True, times=TIMES)
)


class Chaos:
    """Does something at random, again and again, and looks for what must never be."""

    def __init__(self, cluster: Rig, seed: int) -> None:
        self.cluster = cluster
        self.lot = random.Random(seed)
        self.made = 0
        self.share = 0.05
        """Of requests that are lost."""
        self.clients: list[Any] = []
        self.used: Counter[str] = Counter()
        """By node, the thousandths of a CPU that its pods ask for."""
        self.overcommitted: list[str] = []
        self.ghosts: set[str] = set()
        """Return pods that a scheduler counted on a node though they were neither bound nor being bound there."""
        cluster.informers.of(Pod).add_batch_handler(self._look)

    def start(self) -> None:
        client = self.cluster.client(lot=self.lot, share=self.share)
        self.clients.append(client)
        self.cluster.start(CONFIG, client=client, elected=True)

    async def begun(self) -> None:
        """Until a scheduler has been elected and binds, so that there is something to disturb."""
        await self._add_pods()
        async with asyncio.timeout(30):
            while not sum(client._transport.lost_bindings for client in self.clients):
                await self.supervise()
                await asyncio.sleep(0.02)

    async def supervise(self) -> None:
        """Start schedulers again that have ended because they lost their lease, as a service manager would."""
        for scheduler in [scheduler for scheduler, task in self.cluster.running if task.done()]:
            await self.cluster.stop(scheduler)
            self.start()

    async def step(self) -> None:
        await self.supervise()
        self.look_for_ghosts()
        chances = {
            self._add_pods: 8,
            self._remove_pod: 4,
            self._add_node: 2,
            self._remove_node: 1,
            self._taint: 2,
            self._steal: 3,
            self._restart: 0.3,
        }
        [what] = self.lot.choices(list(chances), list(chances.values()))
        with suppress(NotFound, Conflict):  # another client was faster, as it should be possible
            await what()
        await asyncio.sleep(self.lot.choice((0, 0, 0.001, 0.01)))

    async def _add_pods(self) -> None:
        spread = self.lot.random() < 0.2
        for _ in range(self.lot.randint(1, 8)):
            self.made += 1
            options: dict[str, Any] = {"cpu": f"{self.lot.choice((100, 300, 700))}m"}
            if spread:
                term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "spread"}}}
                wanted = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
                options |= {"labels": {"app": "spread"}, "affinity": wanted}
            await self.cluster.add_pod(f"p{self.made}", **options)

    async def _remove_pod(self) -> None:
        names = sorted(self.cluster.pods)
        if names:
            await self.cluster.remove_pod(self.lot.choice(names))

    async def _add_node(self) -> None:
        self.made += 1
        await self.cluster.add_node(f"n{self.made}", cpu=f"{NODE_CPU}m", pods=20)

    async def _remove_node(self) -> None:
        names = sorted(node.metadata.name for node in self.cluster.informers.of(Node).objects())
        if len(names) > 3:
            name = self.lot.choice(names)
            await self.cluster.admin.delete(Node, name)
            for found in [pod for pod in self.cluster.pods.values() if pod.spec.node_name == name]:
                await self.cluster.remove_pod(found.metadata.name)

    async def _taint(self) -> None:
        names = sorted(node.metadata.name for node in self.cluster.informers.of(Node).objects())
        if names:
            taints = [{"key": "a", "effect": "NoSchedule"}] if self.lot.random() < 0.4 else None
            await self.cluster.admin.patch(Node, self.lot.choice(names), {"spec": {"taints": taints}})

    async def _steal(self) -> None:
        """Bind a pod under the scheduler's hands. It asks for nothing, so that two can never disagree about room."""
        nodes = sorted(node.metadata.name for node in self.cluster.informers.of(Node).objects())
        self.made += 1
        name = f"p{self.made}"
        await self.cluster.add_pod(name, cpu="0")
        await asyncio.sleep(self.lot.choice((0, 0, 0.001)))
        if nodes:
            await self.cluster.admin.bind(name, "default", self.lot.choice(nodes))

    async def _restart(self) -> None:
        scheduler: Scheduler = self.lot.choice(self.cluster.running)[0]
        await self.cluster.stop(scheduler)
        self.start()

    async def calm(self) -> None:
        """No more losses, all nodes usable."""
        self.share = 0.0
        for client in self.clients:
            client._transport.share = 0.0
        for node in list(self.cluster.informers.of(Node).objects()):
            await self.cluster.admin.patch(Node, node.metadata.name, {"spec": {"taints": None}})
        await self._add_node()

    def _look(self, changes: Any) -> None:
        for old, new in changes:
            for pod, sign in ((old, -1), (new, 1)):
                if pod is not None and pod.spec.node_name:
                    amounts = requests.in_units(requests.requests_of(pod, pod_level=True))
                    self.used[pod.spec.node_name] += sign * amounts.get("cpu", 0)
            if new is not None and self.used[new.spec.node_name] > NODE_CPU:
                self.overcommitted.append(new.spec.node_name)

    def look_for_ghosts(self) -> None:
        """Room that was taken for a pod must be given back as soon as it is known that it will not go there."""
        for scheduler, _ in self.cluster.running:
            placed = scheduler.engine.cluster.placed_pods()
            unbound = [entry.pod for entry in placed if not entry.pod.spec.node_name]
            self.ghosts |= {pod.metadata.name for pod in unbound if scheduler.assumptions.get(pod_key(pod)) is None}

    async def forgotten(self) -> list[str]:
        """Pods without a node for which there is one, by an engine that starts from what the server says."""
        engine = Engine()
        for node in (await self.cluster.admin.list(Node)).items:
            engine.put(node)
        waiting = []
        for pod in (await self.cluster.admin.list(Pod)).items:
            if pod.spec.node_name:
                engine.put(pod)
            else:
                waiting.append(pod)
        return [pod.metadata.name for pod in waiting if engine.schedule(pod).node is not None]

    def is_known_rightly(self) -> bool:
        """Return whether the working scheduler counts exactly the pods that are bound."""
        leader = next((scheduler for scheduler, _ in self.cluster.running if scheduler.is_ready), None)
        if leader is None:
            return False
        known = {(placed.pod.metadata.name, placed.node_name) for placed in leader.engine.cluster.placed_pods()}
        nodes = {node.metadata.name for node in self.cluster.informers.of(Node).objects()}
        pods = ((pod.metadata.name, pod.spec.node_name) for pod in self.cluster.pods.values())
        bound = {(name, node) for name, node in pods if node in nodes}
        return known == bound and not len(leader.assumptions)


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 20))])
async def test_nothing_is_bound_twice_overcommitted_or_forgotten(tmp_path: Path, seed: int) -> None:
    async with rig(tmp_path) as cluster:
        chaos = Chaos(cluster, seed)
        for _ in range(4):
            await chaos._add_node()
        chaos.start()
        chaos.start()
        await chaos.begun()
        steps = 0
        async with asyncio.timeout(60):
            while steps < 150 or len(cluster.bindings) <= 50:  # on a busy machine, less is bound between two steps
                await chaos.step()
                steps += 1
        await chaos.calm()
        async with asyncio.timeout(60):
            while await _is_unsettled(chaos):  # noqa: ASYNC110 - the server is asked, there is no event
                await asyncio.sleep(0.1)
        assert cluster.moved == []
        assert chaos.overcommitted == []
        assert chaos.ghosts == set()
        await cluster.until(chaos.is_known_rightly)


async def _is_unsettled(chaos: Chaos) -> bool:
    await chaos.supervise()
    chaos.look_for_ghosts()
    return bool(await chaos.forgotten())
