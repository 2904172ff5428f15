"""The dashboard's HTTP server, which listens on the loopback address.

async with DashboardServer(access, port=0) as server:
    print(server.url)
"""

import socket
from contextlib import AsyncExitStack
from typing import Self

from mooring.apiserver.edge.http_server import HttpServer
from mooring.dashboard.access import Access
from mooring.dashboard.app import App
from mooring.dashboard.gate import Gate, new_token
from mooring.dashboard.watching import Watching

ADDRESS = "127.0.0.1"
_GRACE_SECONDS = 2.0


class DashboardServer:
    """A dashboard server as an async context manager: it listens while entered."""

    def __init__(self, access: Access, *, port: int = 0, token: str = "") -> None:
        self._access = access
        self._port = port
        self._token = token or new_token()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Listen and start to follow the cluster. Raise OSError for a taken port, and what `Watching` raises."""
        async with AsyncExitStack() as stack:
            listening = stack.enter_context(_listening(self._port))
            self.port: int = listening.getsockname()[1]
            self.cluster = await stack.enter_async_context(Watching(self._access))
            changing = new_token() if self._access.allow_changes else ""
            app = App(self.cluster, Gate(self._token, self.port, changing))
            server = HttpServer(app.serve, listening, grace_seconds=_GRACE_SECONDS)
            await server.start()
            stack.push_async_callback(server.stop)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """The address of the dashboard, with its token."""
        return f"http://{ADDRESS}:{self.port}/{self._token}/"


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((ADDRESS, port))
    except OSError as error:
        raise OSError(f"cannot listen on {ADDRESS}:{port} ({error.strerror}); choose another --port") from error
