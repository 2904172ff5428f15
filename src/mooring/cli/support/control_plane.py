"""A whole control plane: an API server, scheduler and controllers.

    async with ControlPlane(ServerConfig(data_dir=folder, port=0), in_process(WorkerConfig(component))) as plane:
        await plane.start()
        await create_nodes(plane.client, numbered(5))
        await plane.wait_until_ready()

`mooring up`, `mooring demo` and the pytest fixture run one. With `in_process` all parts communicate without sockets;
`mooring up` passes a `WorkerProcess` on machines with a second core. Read next: ``workers.py``.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol, Self

from mooring.api.scheme import Scheme
from mooring.apiserver.in_process import handler
from mooring.apiserver.messages import users
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.base.clock import Clock
from mooring.cli.support.advice import serve_advice, with_advisor
from mooring.cli.support.worker_process import WorkerConfig
from mooring.client import Client
from mooring.client.in_process import InProcessTransport

_USERS = {
    "admin": users.authenticated("kubernetes-admin", groups=[users.MASTERS]),
    "scheduler": users.authenticated(users.SCHEDULER),
    "controllers": users.authenticated(users.CONTROLLERS),
}

Connect = Callable[[str, str, Scheme], Client]
"""Create a client for `admin`, `scheduler` or `controllers`, with a User-Agent and a scheme."""


class Crew(Protocol):
    """Scheduler and controllers: `Workers` in this process, or a `WorkerProcess`."""

    metrics_url: str

    async def run(self) -> None:
        """Work until cancelled. Raise WorkersError on failure."""
        ...

    async def wait_until_ready(self) -> None: ...

    def kill(self) -> None:
        """Stop without waiting."""
        ...


def in_process(config: WorkerConfig) -> Callable[[Connect], Crew]:
    from mooring.cli.support.workers import Workers  # noqa: PLC0415 - a second process loads it instead of this one

    return lambda connect: Workers(config, connect)


class ControlPlane:
    """A context manager; `start` begins serving. Stops scheduler and controllers before the server."""

    def __init__(
        self, config: ServerConfig, crew: Callable[[Connect], Crew] | None = None, *, clock: Clock | None = None
    ) -> None:
        self._config = with_advisor(config)
        self._clock = clock
        self._make_crew = crew
        self._crew: Crew | None = None
        self._working: asyncio.Task[None] | None = None
        self.server: ApiServer
        self.client: Client
        """The administrator's, without a socket."""

    async def __aenter__(self) -> Self:
        """Open the store; raise what `ApiServer.open` raises."""
        self.server = await ApiServer.open(self._config, clock=self._clock)
        serve_advice(self.server, self._config)
        self.client = self.connect("admin", "mooring", self.server.scheme)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        await self.server.close()

    def connect(self, name: str, agent: str, scheme: Scheme) -> Client:
        """Create a client for `admin`, `scheduler` or `controllers`, without a socket."""
        transport = InProcessTransport(handler(self.server.app, _USERS[name]))
        authority = self.server.authority
        return Client(transport, user_agent=agent, scheme=scheme, clock=self._clock, certificate_authority=authority)

    async def start(self) -> None:
        """Listen, and start scheduler and controllers. Raise ListenError and PkiError."""
        await self.server.listen()
        if self._make_crew is not None:
            self._crew = self._make_crew(self.connect)
            self._working = asyncio.create_task(self._crew.run(), name="scheduler and controllers")

    async def wait_until_ready(self) -> None:
        """Wait until scheduler and controllers are ready. Raise WorkersError if they fail."""
        if self._crew is None or self._working is None:
            return
        ready = asyncio.create_task(self._crew.wait_until_ready())
        await asyncio.wait({ready, self._working}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._working.done():
            self._working.result()

    async def wait_for_failure(self) -> None:
        """Wait for ever; raise what ends scheduler or controllers."""
        if self._working is None:
            await asyncio.Event().wait()
        else:
            await asyncio.shield(self._working)

    @property
    def metrics_url(self) -> str:
        """The metrics URL of scheduler and controllers; empty if there is none."""
        return self._crew.metrics_url if self._crew else ""

    async def stop(self) -> None:
        """Stop scheduler and controllers, then the server."""
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)
            self._working = None
        await self.server.stop()

    def stop_at_once(self) -> None:
        """Stop without waiting for running requests."""
        if self._crew is not None:
            self._crew.kill()
        self.server.stop_at_once()
