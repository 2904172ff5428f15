"""Each new gate off and on again over a cluster that uses it: running, pending and template-owned pods.

The proposals recommend an order: the API server first on the way up, the scheduler first on the way down. Both orders
are walked here, the gates of the components differ for a while in each, and nothing may be placed wrongly.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from api_caller import DEPLOYMENTS, PODS
from gate_uses import USES, Use
from started_server import Start, Started, started

NODES = "/api/v1/nodes"
_MARKS = {
    "TaintTolerationComparisonOperators": ("5471.3a", "5471.3b", "5471.3c"),
    "TolerationAffinitySemverOperators": ("5721.6",),
    "TaintTolerationNodeAffinityCEL": ("5500.9",),
}
CASES = [pytest.param(use, marks=pytest.mark.req(*_MARKS[use.gate]), id=use.id) for use in USES]


@dataclass
class Walk:
    """A cluster that uses a gate, and what is to be seen in it."""

    folder: Path
    use: Use
    phase: int = 0
    replicas: int = 1

    async def begin(self) -> None:
        """With the gate on everywhere: one pod runs, one waits for a node, and a Deployment has a pod."""
        async with started(self.folder, self.flags(True), workers=self.flags(True)) as server:
            await server.create(NODES, self.use.node("now"))
            await server.create(PODS, self.use.pod("running", self.use.now))
            await server.create(PODS, self.use.pod("pending", self.use.later))
            await server.create(DEPLOYMENTS, self.use.deployment("owned"))
            await server.until(lambda: self.is_on(server, "running", "now"))
            await server.until(lambda: self.is_refused(server, "pending"))
            await server.until(lambda: self.has_replicas(server, 1))

    async def go(self, *, server_on: bool, workers_on: bool, add_later: bool = False) -> None:
        """Start the server, and scheduler with controllers, with the gate so; do and see what can be done and seen."""
        self.phase += 1
        async with started(self.folder, self.flags(server_on), workers=self.flags(workers_on)) as server:
            if add_later:
                await server.create(NODES, self.use.node("later"))
            await self.check_new_pod(server, server_on=server_on, workers_on=workers_on)
            await self.check_deployment(server, accepted=server_on, placed=workers_on)
            for name in ("running", "pending"):  # what is stored may still be changed
                await server.merge(f"{PODS}/{name}", {"metadata": {"labels": {"phase": str(self.phase)}}})
            assert await self.is_on(server, "running", "now")

    async def check_new_pod(self, server: Started, *, server_on: bool, workers_on: bool) -> None:
        name = f"new-{self.phase}"
        code, said = await server.ask("POST", PODS, self.use.pod(name, self.use.now))
        assert code == (201 if server_on else 422), said
        if not server_on:
            assert self.use.refused in said["message"]
        elif workers_on:
            await server.until(lambda: self.is_on(server, name, "now"))
        else:
            await server.until(lambda: self.is_refused(server, name))

    async def check_deployment(self, server: Started, *, accepted: bool, placed: bool) -> None:
        """Scale up by one: the new pod is created if the server accepts it, and runs if the scheduler knows how."""
        self.replicas += 1
        before = await self.refusals(server)
        await server.merge(f"{DEPLOYMENTS}/owned", {"spec": {"replicas": self.replicas}})
        if not accepted:
            await server.until(lambda: self.is_newly_refused(server, before))
            self.replicas -= 1
            await server.merge(f"{DEPLOYMENTS}/owned", {"spec": {"replicas": self.replicas}})
        elif placed:
            await server.until(lambda: self.has_replicas(server, self.replicas))

    def flags(self, on: bool) -> Start:
        return Start(gates=f"{self.use.gate}={str(on).lower()}")

    async def is_on(self, server: Started, name: str, node: str) -> bool:
        pod = await server.get(f"{PODS}/{name}")
        assert pod["spec"].get("nodeName", node) == node
        return bool(pod["status"]["phase"] == "Running")

    async def is_refused(self, server: Started, name: str) -> bool:
        """Whether the scheduler has said that nothing matches."""
        pod = await server.get(f"{PODS}/{name}")
        assert "nodeName" not in pod["spec"]
        return any(self.use.unmatched in each.get("message", "") for each in pod["status"].get("conditions", ()))

    async def has_replicas(self, server: Started, number: int) -> bool:
        status = (await server.get(f"{DEPLOYMENTS}/owned"))["status"]
        return bool(status.get("readyReplicas", 0) == number)

    async def refusals(self, server: Started) -> set[str]:
        """Return the versions of the events that tell of pods the server has refused to the Deployment."""
        events: list[dict[str, Any]] = (await server.get("/api/v1/namespaces/default/events"))["items"]
        return {
            event["metadata"]["resourceVersion"]
            for event in events
            if event["reason"] == "FailedCreate" and self.use.refused in event["message"]
        }

    async def is_newly_refused(self, server: Started, before: set[str]) -> bool:
        """Return whether there is a refusal that no earlier phase of the walk has reported."""
        return bool(await self.refusals(server) - before)

    async def stays_pending(self) -> None:
        """Look at the pod that waits, with the gate off in the scheduler, although its node is there."""
        async with started(self.folder, self.flags(True), workers=self.flags(False)) as server:
            await server.until(lambda: self.is_refused(server, "pending"))
            await asyncio.sleep(0.3)
            assert await self.is_refused(server, "pending")

    async def is_placed_at_last(self) -> None:
        """With the gate on everywhere again, what was pending runs, and nothing has moved."""
        async with started(self.folder, self.flags(True), workers=self.flags(True)) as server:
            await server.until(lambda: self.is_on(server, "pending", "later"))
            for phase in range(1, self.phase + 1):
                code, pod = await server.ask("GET", f"{PODS}/new-{phase}")
                assert code == 404 or pod["spec"].get("nodeName", "now") == "now"


@pytest.mark.req("4330.13")
@pytest.mark.parametrize("use", CASES)
async def test_in_the_recommended_order(use: Use, tmp_path: Path) -> None:
    walk = Walk(tmp_path, use)
    await walk.begin()
    await walk.go(server_on=True, workers_on=False, add_later=True)  # down: the scheduler first …
    await walk.stays_pending()
    await walk.go(server_on=False, workers_on=False)  # … then the API server
    await walk.go(server_on=True, workers_on=False)  # up: the API server first …
    await walk.stays_pending()
    await walk.go(server_on=True, workers_on=True)  # … then the scheduler
    await walk.is_placed_at_last()


@pytest.mark.req("4330.13")
@pytest.mark.parametrize("use", CASES)
async def test_in_the_other_order(use: Use, tmp_path: Path) -> None:
    walk = Walk(tmp_path, use)
    await walk.begin()
    await walk.go(server_on=False, workers_on=True)  # down: the API server first; the scheduler still knows how …
    await walk.go(server_on=False, workers_on=False, add_later=True)
    await walk.go(server_on=False, workers_on=True)  # … and up: the scheduler first, which may bind what is stored
    await walk.is_placed_at_last()
