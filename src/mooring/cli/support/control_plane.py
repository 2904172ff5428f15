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
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self

from msgspec.structs import replace

from mooring.api import advisor_v1
from mooring.api.scheme import Scheme, SchemeError
from mooring.apiserver.access.audit_log import AuditLogError
from mooring.apiserver.access.authn import TokenFileError
from mooring.apiserver.access.pki import PkiError
from mooring.apiserver.edge.http_server import ListenError
from mooring.apiserver.in_process import handler
from mooring.apiserver.messages import users
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.messages.routes import ResourceHandlers, ResourceRoute
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.base.clock import Clock
from mooring.cli.support.worker_process import WorkerConfig
from mooring.client import Client
from mooring.client.in_process import InProcessTransport
from mooring.store.errors import StoreError
from mooring.store.kv import Store

if TYPE_CHECKING:
    from mooring.advisor.http_api import AdvisorApi

_USERS = {
    "admin": users.authenticated_user("kubernetes-admin", groups=[users.MASTERS]),
    "scheduler": users.authenticated_user(users.SCHEDULER),
    "controllers": users.authenticated_user(users.CONTROLLERS),
}

START_ERRORS = (AuditLogError, ListenError, PkiError, SchemeError, StoreError, TokenFileError)
"""Errors in flags and files at the start of a server; each message is fit for a user."""

Connect = Callable[[str, str, Scheme], Client]
"""Create a client for `admin`, `scheduler` or `controllers`, with a User-Agent and a scheme."""


class Crew(Protocol):
    """Interface of what runs scheduler and controllers: `Workers` in this process, or a `WorkerProcess`."""

    metrics_url: str

    async def run(self) -> None:
        """Run scheduler and controllers until cancelled. Raise WorkersError if they fail."""
        ...

    async def wait_until_ready(self) -> None: ...

    def kill(self) -> None:
        """Stop scheduler and controllers without waiting for their end."""
        ...


def in_process(config: WorkerConfig) -> Callable[[Connect], Crew]:
    """Return a factory that runs scheduler and controllers in this process (`Workers`) with the given clients."""
    from mooring.cli.support.workers import Workers

    return lambda connect: Workers(config, connect)


class ControlPlane:
    """An API server with scheduler and controllers, as a context manager; `start` begins serving.

    Scheduler and controllers stop before the server.
    """

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

    async def start(self, *, listen: bool = True) -> None:
        """Listen, and start scheduler and controllers. Raise ListenError and PkiError."""
        if listen:
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
        """Wait until scheduler or controllers fail, and raise their error; without them, wait for ever."""
        if self._working is None:
            await asyncio.Event().wait()
        else:
            await asyncio.shield(self._working)

    @property
    def metrics_url(self) -> str:
        """The metrics URL of scheduler and controllers; empty if there is none."""
        return self._crew.metrics_url if self._crew else ""

    async def stop(self) -> None:
        """Stop scheduler and controllers, then the API server, and wait for their end."""
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)
            self._working = None
        await self.server.stop()

    def stop_at_once(self) -> None:
        """Stop everything without waiting for requests that are being handled."""
        if self._crew is not None:
            self._crew.kill()
        self.server.stop_at_once()


# The advisor below `/apis/advisor.mooring.dev`, imported on its first request: servers start as fast without it


def with_advisor(config: ServerConfig) -> ServerConfig:
    """Return a server's configuration with the kinds of `advisor.mooring.dev` and their request handlers."""
    return replace(config, kinds=(*config.kinds, *advisor_v1.KINDS), answers=partial(_build_advice_handlers, config))


def _build_advice_handlers(config: ServerConfig, store: Store) -> ResourceHandlers:
    """Return the handlers of requests to `advisor.mooring.dev`; the first request imports the advisor."""
    loading: list[asyncio.Task[AdvisorApi]] = []

    def load() -> "AdvisorApi":
        from mooring.advisor.audit import ask
        from mooring.advisor.http_api import AdvisorApi
        from mooring.advisor.simulate.options import for_component

        about_us = partial(ask, config.component, runtime_config=config.runtime_config)
        return AdvisorApi(store=store, ask=about_us, settings=for_component(config.component))

    async def answer(request: Request, route: ResourceRoute) -> Response:
        if not loading:  # in a thread, because importing blocks the event loop
            loading.append(asyncio.create_task(asyncio.to_thread(load), name="loading the advisor"))
        advisor = await asyncio.shield(loading[0])
        return await advisor.answers()[route.group, route.resource](request, route)

    return {(kind.group, kind.plural, ""): answer for kind in advisor_v1.KINDS}
