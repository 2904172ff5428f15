"""The server's metrics, with kube-apiserver's names and labels, so that its dashboards and alerts work.

The registry is an argument: a process that runs more components shows all metrics on one page.
"""

from bisect import bisect_left
from contextlib import suppress
from typing import NamedTuple

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, generate_latest

from mooring.apiserver.messages.exchange import Exchange
from mooring.apiserver.messages.http import Response
from mooring.apiserver.requests.limiter import RequestLimiter
from mooring.base.bounded_cache import BoundedCache
from mooring.base.metrics import Counts, CountsCollector, Histograms
from mooring.store.errors import StoreError
from mooring.store.kv import Store

_BUCKETS = (*(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60),)
_SLI_FROM = 2
_SLI_BUCKETS = _BUCKETS[_SLI_FROM:]
_LIFETIMES = (
    *(0, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 345600, 604800, 2592000, 7776000, 15552000, 31104000),
)
"""The buckets for remaining lifetimes of certificates, in seconds."""
_SELF_DEFENCE = frozenset({429, 503, 504})
_SIZES = tuple(1000.0 * 10**power for power in range(7))
_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "component")
_VERBS = {"create": "POST", "update": "PUT", "patch": "PATCH", "watch": "WATCH", "list": "LIST", "get": "GET"}
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_APPLY = "application/apply-patch+yaml"
_STORE = {
    "revision": "The revision of the last write.",
    "floor": "The oldest revision that can still be read and watched.",
    "keys": "Objects in the store.",
    "history_events": "Events that are remembered for watches.",
    "history_bytes": "The size of replaced and deleted values that are remembered.",
    "watchers": "Watches on the store, the server's own among them.",
    "file_bytes": "The size of the store on disk; 0 where that is not known.",
}
"""The fields of `store.kv.Stats` that the metrics page shows."""
_MAX_SERIES = 4096
_Labels = tuple[str, str, str, str, str, str, str]


class _Series(NamedTuple):
    """The metrics of all requests that have the same labels."""

    counted: tuple[str, ...]
    durations: list[float]
    slis: list[float]
    sizes: list[float]

    def observe(self, seconds: float, size: int, times: int) -> None:
        """Record the duration and response size of a request, or of several equal ones (`times`)."""
        bucket = bisect_left(_BUCKETS, seconds)
        self.durations[bucket] += times
        self.durations[-1] += seconds * times
        self.slis[max(0, bucket - _SLI_FROM)] += times
        self.slis[-1] += seconds * times
        self.sizes[bisect_left(_SIZES, size)] += times
        self.sizes[-1] += size * times


class ServerMetrics:
    """The API server's metrics: its requests, certificates and streams, and figures of the store."""

    def __init__(self, registry: CollectorRegistry, store: Store, limiter: RequestLimiter) -> None:
        self._registry = registry
        self._store = store
        self._requests = Counts(
            "apiserver_request",
            "Requests by verb, dry run, group, version, resource, scope, component and HTTP code.",
            (*_LABELS, "dry_run", "code"),
        )
        self._durations = Histograms(
            "apiserver_request_duration_seconds", "How long requests took.", (*_LABELS, "dry_run"), _BUCKETS
        )
        self._slis = Histograms(
            "apiserver_request_sli_duration_seconds",
            "How long requests took, for objectives: only what the server answers for.",
            _LABELS,
            _SLI_BUCKETS,
        )
        self._terminations = Counts(
            "apiserver_request_terminations",
            "Requests that the server ended in self-defence, by code.",
            (*_LABELS, "code"),
        )
        self._certificates = Histograms(
            "apiserver_client_certificate_expiration_seconds",
            "For how long the certificates of clients are still good, when they use them.",
            (),
            _LIFETIMES,
        )
        self._sizes = Histograms("apiserver_response_sizes", "How large responses were, in bytes.", _LABELS, _SIZES)
        self._series: BoundedCache[tuple[_Labels, str, int], _Series] = BoundedCache(_MAX_SERIES)
        registry.register(
            CountsCollector(
                self._requests, self._durations, self._slis, self._terminations, self._certificates, self._sizes
            )
        )
        self.long_running = Gauge(
            "apiserver_longrunning_requests", "Watches and streams that are open.", _LABELS, registry=registry
        )
        in_flight = Gauge(
            "apiserver_current_inflight_requests",
            "Requests that are being worked on.",
            ("request_kind",),
            registry=registry,
        )
        in_flight.labels("readOnly").set_function(lambda: limiter.reading.taken)
        in_flight.labels("mutating").set_function(lambda: limiter.writing.taken)
        streams = Gauge(
            "mooring_streams", "Open logs, commands, forwarded ports and proxied requests.", registry=registry
        )
        streams.set_function(lambda: limiter.streams.taken)
        self.stream_bytes = Counter(
            "mooring_stream_bytes",
            "Bytes on connections that have left HTTP, as seen by the server.",
            ("subresource", "direction"),
            registry=registry,
        )
        self.skew = Counter(
            "mooring_component_version_skew",
            "Requests and leases of components whose version does not fit to this server.",
            ("component", "version"),
            registry=registry,
        )
        self._stored = {
            field: Gauge(f"mooring_store_{field}", about, registry=registry) for field, about in _STORE.items()
        }

    def record_start(self, exchange: Exchange) -> None:
        if exchange.streaming:
            self.long_running.labels(*_labels_of(exchange)).inc()

    def record_end(self, exchange: Exchange, times: int = 1) -> None:
        """Count a finished request, or several with equal labels and sizes (`times`)."""
        where = _labels_of(exchange)
        if exchange.streaming:
            self.long_running.labels(*where).dec()
        dry_run = "All" if "dryRun" in exchange.request.query else ""
        code = exchange.code
        series = self._series.get((where, dry_run, code)) or self._series_of(where, dry_run, code)
        self._requests.add(series.counted, times)
        if code in _SELF_DEFENCE:
            self._terminations.add((*where, str(code)), times)
        if not exchange.streaming:
            series.observe(exchange.seconds, exchange.bytes_sent, times)

    def _series_of(self, where: "_Labels", dry_run: str, code: int) -> "_Series":
        """Return the metrics for a combination of labels, created when it first occurs."""
        durations = self._durations.series((*where, dry_run))
        found = _Series((*where, dry_run, str(code)), durations, self._slis.series(where), self._sizes.series(where))
        self._series.put((where, dry_run, code), found)
        return found

    def record_certificate(self, seconds: float) -> None:
        """Record for how many seconds a client's certificate is still valid."""
        self._certificates.observe((), seconds)

    def record_stream(self, exchange: Exchange, received: int, sent: int) -> None:
        """Count the bytes that an upgraded connection received and sent."""
        subresource = exchange.route.subresource if exchange.route else ""
        self.stream_bytes.labels(subresource, "received").inc(received)
        self.stream_bytes.labels(subresource, "sent").inc(sent)

    async def page(self) -> Response:
        """Return the response to `/metrics`: all metrics in Prometheus' text format."""
        with suppress(StoreError):  # what was known last is shown while the store cannot be asked
            stats = await self._store.stats()
            for field, gauge in self._stored.items():
                gauge.set(getattr(stats, field))
        return Response(200, generate_latest(self._registry), CONTENT_TYPE_LATEST)


def _labels_of(exchange: Exchange) -> _Labels:
    """Return a request's metric labels; unknown paths and methods share one value, to bound their number."""
    route = exchange.route
    if route is None:
        method = exchange.request.method
        return (method if method in _METHODS else "other", "", "", "", "", "", "apiserver")
    verb = "CONNECT" if route.subresource and route.streams else _VERBS.get(exchange.verb) or exchange.verb.upper()
    if verb == "PATCH" and exchange.request.content_type == _APPLY:
        verb = "APPLY"
    scope = "resource" if route.name or exchange.verb == "create" else "namespace" if route.namespace else "cluster"
    kind = route.kind
    return (verb, kind.group, kind.version, kind.plural, route.subresource, scope, "apiserver")
