"""Begin and end exchanges: what happens to every request before and after it is handled.

`Exchanges` gives a request its id and time, turns an error into the response to it, and records the response in
metrics, the access log and the audit log. Called by ``app.py`` and, for the writes of a batch, by ``batch_chain.py``.
"""

import re

from mooring.admission.pipeline import generate_uid
from mooring.api import codec, errors
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import Status
from mooring.apiserver.access import access_log
from mooring.apiserver.access.audit_log import AuditLog, created_by
from mooring.apiserver.edge.calls import ClientGoneError
from mooring.apiserver.edge.responses import Stream
from mooring.apiserver.messages import users
from mooring.apiserver.messages.connection import Connection
from mooring.apiserver.messages.exchange import Exchange
from mooring.apiserver.messages.http import JSON, Request, Response, TakeOver
from mooring.apiserver.output.formats import format_json
from mooring.apiserver.registry.verbs.executor import status_of
from mooring.apiserver.requests.metrics import ServerMetrics
from mooring.base import logs
from mooring.base.clock import Clock
from mooring.store.errors import StoreError

log = logs.get(__name__)

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Exchanges:
    """Begins and ends the exchanges of all requests: ids and times, responses to errors, metrics and logs."""

    def __init__(self, metrics: ServerMetrics, clock: Clock, audit: AuditLog | None) -> None:
        self._metrics = metrics
        self._clock = clock
        self._audit = audit

    def begin(self, request: Request, address: str = "") -> Exchange:
        """Return the exchange of a request that was just received; its id is the client's if that is valid."""
        given = request.request_id or request.headers.get("audit-id", "")
        request.request_id = given if given and _REQUEST_ID.fullmatch(given) else generate_uid()
        return Exchange(request, self._clock.now(), self._clock.monotonic(), address=address)

    @property
    def logs_each(self) -> bool:
        """Whether a log has an entry for each request, so that equal ones cannot be recorded together."""
        return self._audit is not None or access_log.is_enabled()

    def note_created(self, exchange: Exchange, response: Response) -> None:
        """Record the created object for the audit log, while the response's body is still in one piece."""
        if self._audit and exchange.verb == "create":
            exchange.created = created_by(response)

    def respond_to_error(self, exchange: Exchange, error: Exception) -> Response:
        """Return the response for an error; an unexpected exception is logged, and not shown to the client."""
        request = exchange.request
        if isinstance(error, ClientGoneError):
            exchange.reason = "ClientGone"
            return Response(499, b"")
        if isinstance(error, StoreError):
            error = status_of(error)
        if not isinstance(error, StatusError):
            fields = {"method": request.method, "path": request.path, "request_id": request.request_id}
            log.error("A request failed unexpectedly", exc_info=error, extra={"fields": fields})
            error = errors.internal_error(f"the server has logged why, with request id {request.request_id}")
        status = error.status
        if not 400 <= (status.code or 0) < 600:  # as webhooks may say
            status.code = 500
        exchange.reason = status.reason
        body, content_type = _status_body(status, request)
        response = Response(status.code or 500, body, content_type, warnings=error.warnings)
        if exchange.user is None:
            request.user = users.anonymous()
        if status.details and status.details.retry_after_seconds:
            response.headers["retry-after"] = str(status.details.retry_after_seconds)
        return response

    def record(self, exchange: Exchange, response: Response) -> None:
        """Record a response in metrics and logs; if it is a stream, when it ends."""
        exchange.code = response.status
        body = response.body
        if isinstance(body, bytes):
            self.note_created(exchange, response)
            exchange.bytes_sent = len(body)
            self.record_end(exchange)
        elif isinstance(body, Stream):
            self._metrics.record_start(exchange)
            if self._audit and exchange.streaming:
                self._audit.write(exchange, "ResponseStarted")
            body.on_end = self.record_end

    def record_end(self, exchange: Exchange, times: int = 1) -> None:
        exchange.seconds = self._clock.monotonic() - exchange.started
        self._metrics.record_end(exchange, times)
        access_log.write(exchange)
        if self._audit:
            self._audit.write(exchange)

    async def hand_over(self, exchange: Exchange, take_over: TakeOver, connection: Connection) -> None:
        """Run the response's `take_over` on an upgraded connection, then record the bytes."""
        try:
            await take_over(connection)
        finally:
            exchange.bytes_sent = connection.sent
            self._metrics.record_stream(exchange, connection.received, connection.sent)


def _status_body(status: Status, request: Request) -> tuple[bytes, str]:
    """Return an error's Status as protobuf if the client prefers that, else as JSON, and the media type."""
    body = codec.encode(status)
    try:
        if request.negotiate_format().format == "protobuf":
            return format_json(body, request.negotiate_format(), request)
    except StatusError:
        pass  # what it takes is not to be had; it gets JSON
    return body + b"\n", JSON
