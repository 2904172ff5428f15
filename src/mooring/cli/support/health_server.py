"""`/healthz`, `/livez`, `/readyz` and `/metrics` of a component that has no API server of its own, over plain HTTP.

For probes and Prometheus, on the loopback address by default; only these four paths. `/metrics?name[]=…` returns only
the named metrics, as with Prometheus' own exporters, for frequent readers.
"""

import socket
from collections.abc import Callable, Iterator
from typing import Self
from urllib.parse import parse_qs

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Metric, generate_latest
from prometheus_client.registry import Collector

from mooring.apiserver.edge.http_server import HttpServer
from mooring.apiserver.edge.sending import Receive, Scope, Send, respond

_TEXT = "text/plain; charset=utf-8"
_SUFFIXES = ("", "_total", "_bucket", "_count", "_sum", "_created")
"""The suffixes of sample names in the metrics format."""
_GRACE_SECONDS = 1.0


class HealthServer:
    """Listen while entered. `is_ready` is the readiness of the component."""

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
        self._listening: socket.socket | None = None
        self._server: HttpServer | None = None

    @property
    def url(self) -> str:
        if self._listening is None:
            raise RuntimeError("enter the server before you ask where it listens")
        host, port = self._listening.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        """Raise OSError, which names the flag that helps, when the address cannot be listened on."""
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        try:
            self._listening = socket.create_server((self._address, self._port), family=family)
        except OSError as error:
            where = f"{self._address}:{self._port}"
            raise OSError(
                f"cannot listen on {where} for health and metrics ({error.strerror}); choose another {self._flag}"
            ) from error
        self._server = HttpServer(self._serve, self._listening, grace_seconds=_GRACE_SECONDS)
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            await self._server.stop()

    async def _serve(self, scope: Scope, _: Receive, send: Send) -> None:
        query = scope["query_string"].decode("latin-1")
        status, kind, body = self._answer(scope["method"], scope["path"], query)
        await respond(send, status, body, kind)

    def _answer(self, method: str, path: str, query: str) -> tuple[int, str, bytes]:
        if method not in {"GET", "HEAD"}:
            return 405, _TEXT, b"only GET is answered here\n"
        match path:
            case "/metrics":
                names = parse_qs(query).get("name[]")
                page = generate_latest(_Named(self._registry, names) if names else self._registry)
                return 200, CONTENT_TYPE_LATEST, page
            case "/healthz" | "/livez":
                return 200, _TEXT, b"ok"
            case "/readyz":
                ready = self._is_ready()
                return (200, _TEXT, b"ok") if ready else (503, _TEXT, b"not ready yet\n")
        return 404, _TEXT, b"there are /healthz, /livez, /readyz and /metrics\n"


class _Named(Collector):
    """The metrics of a registry with certain names, also of collectors that do not describe theirs."""

    def __init__(self, registry: CollectorRegistry, names: list[str]) -> None:
        self._registry = registry
        self._names = frozenset(names)

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            if not self._names.isdisjoint(metric.name + suffix for suffix in _SUFFIXES):
                yield metric
