"""Listens for browsers of this machine, and nobody else.

async with DashboardServer(access, port=0) as server:
    print(server.url)
"""

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from types import TracebackType
from typing import Self

import uvicorn

from mooring.dashboard.access import Access
from mooring.dashboard.app import App
from mooring.dashboard.gate import Gate, new_token
from mooring.dashboard.watching import Watching

ADDRESS = "127.0.0.1"


class _Uvicorn(uvicorn.Server):
    """uvicorn, with signals left to the caller."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class DashboardServer:
    """Listens while it is entered."""

    def __init__(self, access: Access, *, port: int = 0, token: str = "") -> None:
        self._access = access
        self._port = port
        self._token = token or new_token()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Raises OSError when the port is taken, and what `Watching` raises."""
        async with AsyncExitStack() as stack:
            listening = stack.enter_context(_listening(self._port))
            self.port: int = listening.getsockname()[1]
            self.cluster = await stack.enter_async_context(Watching(self._access))
            changing = new_token() if self._access.allow_changes else ""
            self._app = App(self.cluster, Gate(self._token, self.port, changing))
            config = uvicorn.Config(
                self._app,
                interface="asgi3",
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=2,
            )
            logging.getLogger("uvicorn").setLevel(logging.ERROR)
            self._server = _Uvicorn(config)
            self._task = asyncio.create_task(self._server.serve(sockets=[listening]), name="dashboard server")
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._app.stopping.set()
        self._server.should_exit = True
        await asyncio.gather(self._task, return_exceptions=True)
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """The address, with the token."""
        return f"http://{ADDRESS}:{self.port}/{self._token}/"


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((ADDRESS, port))
    except OSError as error:
        raise OSError(f"cannot listen on {ADDRESS}:{port} ({error.strerror}); choose another --port") from error
