"""A server that was started with given versions, gates and kinds, alone or with scheduler and controllers beside it.

async with started(tmp_path, Start(emulation="1.36"), workers=Start(gates="…=false")) as server:
    code, body = await server.ask("GET", "/apis")

All run in this process, so that a walk through many starts takes seconds. Its data stays in the folder.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mooring.api.errors import StatusError
from mooring.api.kinds import KINDS, Kind
from mooring.api.scheme import parse_runtime_config
from mooring.apiserver.options import ServerConfig
from mooring.base import component
from mooring.base.component import Component
from mooring.base.gates import Gate
from mooring.base.known_gates import KNOWN
from mooring.cli.support.control_plane import ControlPlane, in_process
from mooring.cli.support.worker_process import WorkerConfig
from mooring.store.etcd.config import EtcdConfig


@dataclass(frozen=True, kw_only=True)
class Start:
    """The flags that something is started with, and what is registered there."""

    emulation: str | None = None
    min_compatibility: str | None = None
    gates: str = ""
    runtime_config: str = ""
    known: tuple[Gate, ...] = KNOWN
    kinds: tuple[Kind, ...] = KINDS

    def component(self) -> Component:
        """Raise what the command would print."""
        return component.resolve(
            gates=self.gates, emulation=self.emulation, min_compatibility=self.min_compatibility, known=self.known
        )


class Started:
    """A server that runs, and how to ask it."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    async def ask(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        """Code and body of an answer."""
        try:
            sent = b"" if body is None else json.dumps(body).encode()
            answer = await self.plane.client.raw(method, path, body=sent, content_type=content_type)
        except StatusError as error:
            return error.status.code, {"message": error.status.message}
        return answer.status, json.loads(answer.body)

    async def get(self, path: str) -> dict[str, Any]:
        code, found = await self.ask("GET", path)
        assert code == 200, found
        return found

    async def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        code, made = await self.ask("POST", path, body)
        assert code == 201, made
        return made

    async def merge(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Change an object by a merge patch."""
        code, changed = await self.ask("PATCH", path, body, "application/merge-patch+json")
        assert code == 200, changed
        return changed

    async def stored(self, key: str) -> dict[str, Any]:
        """Return what lies in the store."""
        found = await self.plane.server.store.get(key)
        assert found is not None
        value: dict[str, Any] = json.loads(found.value)
        return value

    async def until(self, question: Callable[[], Awaitable[Any]], seconds: float = 20.0) -> None:
        """Wait until a question has a true answer."""
        async with asyncio.timeout(seconds):
            while not await question():  # noqa: ASYNC110 - the server is asked, there is no event
                await asyncio.sleep(0.05)


@asynccontextmanager
async def started(
    folder: Path,
    start: Start,
    *,
    workers: Start | None = None,
    controllers: bool = True,
    etcd: EtcdConfig | None = None,
) -> AsyncIterator[Started]:
    """Yield a server that listens, with scheduler and controllers started as `workers` says, if it does."""
    config = ServerConfig(
        data_dir=folder,
        component=start.component(),
        port=0,
        runtime_config=parse_runtime_config(start.runtime_config),
        kinds=start.kinds,
        etcd=etcd,
    )
    crew = None
    if workers:
        crew = in_process(WorkerConfig(workers.component(), controllers=controllers, nodes=controllers))
    async with ControlPlane(config, crew) as plane:
        await plane.start()
        await plane.wait_until_ready()
        yield Started(plane)
