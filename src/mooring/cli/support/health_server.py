"""`/healthz`, `/livez`, `/readyz` and `/metrics` of a component that has no API server of its own, over plain HTTP.

A page for probes and Prometheus, on the loopback address unless told otherwise; it knows nothing but these four paths.
`/metrics?name[]=…` has only the metrics that are named, as with Prometheus' own exporters: for those who look often.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

_TEXT = "text/plain; charset=utf-8"
_ENDINGS = ("", "_total", "_bucket", "_count", "_sum", "_created")
"""Of the names of samples, after that of the metric."""
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
                path, _, query = target.partition("?")
                status, kind, body = self._answer(method, path, query)
                length = f"content-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
                writer.write(f"HTTP/1.1 {status}\r\n{length}".encode())
                writer.write(b"" if method == "HEAD" else body)
                await writer.drain()
        writer.close()

    def _answer(self, method: str, path: str, query: str) -> tuple[str, str, bytes]:
        if method not in {"GET", "HEAD"}:
            return "405 Method Not Allowed", _TEXT, b"only GET is answered here\n"
        match path:
            case "/metrics":
                names = parse_qs(query).get("name[]")
                page = generate_latest(_Named(self._registry, names) if names else self._registry)
                return "200 OK", CONTENT_TYPE_LATEST, page
            case "/healthz" | "/livez":
                return "200 OK", _TEXT, b"ok"
            case "/readyz":
                ready = self._is_ready()
                return ("200 OK", _TEXT, b"ok") if ready else ("503 Service Unavailable", _TEXT, b"not ready yet\n")
        return "404 Not Found", _TEXT, b"there are /healthz, /livez, /readyz and /metrics\n"


class _Named(Collector):
    """The metrics of a registry that have one of some names, with or without what a sample's name ends in."""

    def __init__(self, registry: CollectorRegistry, names: list[str]) -> None:
        self._registry = registry
        self._names = frozenset(names)

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            if not self._names.isdisjoint(metric.name + ending for ending in _ENDINGS):
                yield metric
