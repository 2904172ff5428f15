"""`/healthz`, `/livez`, `/readyz` and `/metrics` of a component that has no API server of its own, over plain HTTP.

A page for probes and Prometheus, on the loopback address unless told otherwise; it knows nothing but these four paths.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

_TEXT = "text/plain; charset=utf-8"
_REQUEST_SECONDS = 5.0
_REQUEST_BYTES = 16 * 1024


class HealthServer:
    """Listens while it is entered. `is_ready` says whether the component does its work."""

    def __init__(
        self,
        address: str,
        port: int,
        registry: CollectorRegistry,
        is_ready: Callable[[], bool],
        *,
        flag: str = "--port",
    ) -> None:
        self._address = address
        self._port = port
        self._registry = registry
        self._is_ready = is_ready
        self._flag = flag
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        if self._server is None:
            raise RuntimeError("enter the server before you ask where it listens")
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        """Raises OSError, which names the flag that helps, when the address cannot be listened on."""
        try:
            self._server = await asyncio.start_server(self._serve, self._address, self._port, limit=_REQUEST_BYTES)
        except OSError as error:
            where = f"{self._address}:{self._port}"
            raise OSError(
                f"cannot listen on {where} for health and metrics ({error.strerror}); choose another {self._flag}"
            ) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request a connection."""
        with suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
                status, kind, body = self._answer(method, target.partition("?")[0])
                length = f"content-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
                writer.write(f"HTTP/1.1 {status}\r\n{length}".encode())
                writer.write(b"" if method == "HEAD" else body)
                await writer.drain()
        writer.close()

    def _answer(self, method: str, path: str) -> tuple[str, str, bytes]:
        if method not in {"GET", "HEAD"}:
            return "405 Method Not Allowed", _TEXT, b"only GET is answered here\n"
        match path:
            case "/metrics":
                return "200 OK", CONTENT_TYPE_LATEST, generate_latest(self._registry)
            case "/healthz" | "/livez":
                return "200 OK", _TEXT, b"ok"
            case "/readyz":
                ready = self._is_ready()
                return ("200 OK", _TEXT, b"ok") if ready else ("503 Service Unavailable", _TEXT, b"not ready yet\n")
        return "404 Not Found", _TEXT, b"there are /healthz, /livez, /readyz and /metrics\n"
