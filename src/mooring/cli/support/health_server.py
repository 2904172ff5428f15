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

from mooring.apiserver.edge.calls import HttpCall
from mooring.apiserver.edge.http_server import HttpServer
from mooring.apiserver.messages.http import Response

_TEXT = "text/plain; charset=utf-8"
_SUFFIXES = ("", "_total", "_bucket", "_count", "_sum", "_created")
"""The suffixes of sample names in the metrics format."""
_GRACE_SECONDS = 1.0


class HealthServer:
    """Serves health and metrics pages over HTTP while entered; `/readyz` answers what `is_ready` returns."""

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
        """Start to listen. Raise OSError, whose message names the flag to change, if the address is taken."""
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

    async def _serve(self, call: HttpCall) -> Response:
        if call.method not in {"GET", "HEAD"}:
            return Response(405, b"only GET is answered here\n", _TEXT)
        match call.path:
            case "/metrics":
                names = parse_qs(call.query.decode("latin-1")).get("name[]")
                page = generate_latest(_NamedMetrics(self._registry, names) if names else self._registry)
                return Response(200, page, CONTENT_TYPE_LATEST)
            case "/healthz" | "/livez":
                return Response(200, b"ok", _TEXT)
            case "/readyz":
                ready = self._is_ready()
                return Response(200, b"ok", _TEXT) if ready else Response(503, b"not ready yet\n", _TEXT)
        return Response(404, b"there are /healthz, /livez, /readyz and /metrics\n", _TEXT)


class _NamedMetrics(Collector):
    """A view of a metrics registry that collects only metrics with the given names."""

    def __init__(self, registry: CollectorRegistry, names: list[str]) -> None:
        self._registry = registry
        self._names = frozenset(names)

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            if not self._names.isdisjoint(metric.name + suffix for suffix in _SUFFIXES):
                yield metric
