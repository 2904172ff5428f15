"""Asks a dashboard without a socket and without a browser, for a cluster that tests make."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from mooring.advisor.simulate import Settings
from mooring.advisor.simulate.options import for_component
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.snapshot.to_file import write_snapshot
from mooring.api.meta_v1 import Resource
from mooring.apiserver.edge.calls import Client, HttpCall
from mooring.base import component
from mooring.dashboard.access import Access
from mooring.dashboard.app import App
from mooring.dashboard.gate import CHANGING, Gate
from mooring.dashboard.options import Running
from mooring.dashboard.watching import Watching
from mooring.testing.builders import node, pod

TOKEN = "a-token-of-tests"
PORT = 8123
HOST = f"127.0.0.1:{PORT}"
ORIGIN = f"http://{HOST}"
CHANGING_TOKEN = "a-token-of-changes"
OWN = {"host": HOST, "origin": ORIGIN, CHANGING: CHANGING_TOKEN}
"""The headers of a page that may change the cluster."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Caller:
    """A browser without eyes."""

    app: App
    cluster: Watching

    async def get(self, path: str = "", **query: str) -> Answer:
        return await self.send("GET", f"/{TOKEN}/{path}", query=urlencode(query), headers={"host": HOST})

    async def data(self, path: str = "", **query: str) -> Any:
        """Return what a page shows, as data."""
        answer = await self.get(path, format="json", **query)
        assert answer.status == 200, answer.text
        return answer.json

    async def post(self, path: str, **form: str) -> Answer:
        headers = {"host": HOST, "origin": ORIGIN, "content-type": "application/x-www-form-urlencoded"}
        path, _, query = path.partition("?")
        return await self.send("POST", f"/{TOKEN}/{path}", headers=headers, query=query, body=urlencode(form).encode())

    async def change(self, path: str = "", **form: str) -> Answer:
        """Ask for a change of the cluster, or confirm one by its name."""
        return await self.change_with(OWN, path, form)

    async def change_with(self, headers: dict[str, str], path: str, form: dict[str, str]) -> Answer:
        where = f"/{TOKEN}/changes/{path}" if path else f"/{TOKEN}/changes"
        return await self.send("POST", where, headers=headers, query="format=json", body=urlencode(form).encode())

    async def until(self, path: str, condition: Callable[[Any], bool]) -> Any:
        """Return what a page shows as soon as it shows something."""
        async with asyncio.timeout(20):
            while not condition(found := await self.data(path)):
                await self.cluster.wait_for_change(self.cluster.revision)
        return found

    async def send(
        self, method: str, path: str, *, headers: dict[str, str], query: str = "", body: bytes = b""
    ) -> Answer:
        call = HttpCall(method, path, query.encode(), headers, Client())
        call.target = path.encode()
        call.add_body(body)
        call.end_body()
        response = await self.app.serve(call)
        parts = [response.body] if isinstance(response.body, bytes) else [part async for part in response.body]
        return Answer(response.status, {"content-type": response.content_type, **response.headers}, b"".join(parts))


@asynccontextmanager
async def dashboard(
    snapshot: Snapshot, settings: Settings | None = None, *, changing: str = ""
) -> AsyncIterator[Caller]:
    """Yield a dashboard of a snapshot, ready."""
    running = Running(component.resolve())
    access = Access(
        origin=snapshot.origin,
        settings=settings or for_component(running.component),
        running=running,
        read=lambda: snapshot,
    )
    async with Watching(access) as cluster:
        assert await cluster.ready(), cluster.problem
        yield Caller(App(cluster, Gate(TOKEN, PORT, changing)), cluster)


def dumped(objects: Iterable[Resource], path: Path) -> Path:
    """Return the same cluster as a file, for commands."""
    with path.open("wb") as file:
        write_snapshot(Snapshot("the test", objects), file)
    return path


def shop() -> list[Resource]:
    """Return a small shop in two zones: running pods, pods pending for different reasons, taints and versions."""
    zones = [node(f"east-{number}", cpu="8", zone="east", labels={"kernel": "6.1.0"}) for number in range(3)]
    zones += [
        node(f"west-{number}", cpu="8", zone="west", labels={"kernel": "5.4.0"}, taints=["sla=940:NoExecute"])
        for number in range(2)
    ]
    tolerating = {"tolerations": [{"key": "sla", "operator": "Gt", "value": "900", "effect": "NoExecute"}]}
    running = [pod(f"web-{number}", cpu="2", on=f"east-{number % 3}") for number in range(5)]
    running += [pod(f"batch-{number}", cpu="1", on="west-0", spec=tolerating) for number in range(3)]
    expression = "'kernel' in node.labels && semver.compare(node.labels['kernel'], '>=7.0')"
    terms = {"nodeSelectorTerms": [{"matchCELExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    waiting = [
        pod("huge", cpu="100"),
        pod("new-kernel", spec={"affinity": affinity}),
        pod("gated", spec={"schedulingGates": [{"name": "example.com/wait"}]}),
    ]
    return [*zones, *running, *waiting]
