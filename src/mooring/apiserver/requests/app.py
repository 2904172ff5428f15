"""The chain of steps that every request passes: `Application._respond`.

    begin exchange → authenticate, impersonate → limit rate, find route, authorize → receive body → take slot
        → handle: resources, reviews, nodes, discovery, OpenAPI, health → response or error → metrics and logs

Logs, exec and other requests for nodes have a handler and limits of their own (``streams/``); their response may take
the connection over. Handlers receive a `Request` and return a `Response` or raise a `StatusError`. The HTTP server
calls `serve`; in-process clients call `respond`, without sockets, TLS and HTTP. Limits are in ``edge/limits.py``;
``server.py`` builds the application.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import cast
from urllib.parse import parse_qs

from msgspec.structs import replace

from mooring.admission.pipeline import generate_uid
from mooring.api import codec, errors
from mooring.api.batch_writes import PATH as WRITES
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import RootPaths, Status
from mooring.api.scheme import Scheme
from mooring.apiserver.access import access_log
from mooring.apiserver.access.audit_log import AuditLog, created_by
from mooring.apiserver.access.authn import Authenticator
from mooring.apiserver.access.authz import Authorizer, attributes_of, require
from mooring.apiserver.access.impersonation import find_impersonated_user
from mooring.apiserver.access.tokens import CONFIGURATION, KEYS, IssuerPages
from mooring.apiserver.edge.calls import BodyTooLargeError, ClientGoneError, HttpCall
from mooring.apiserver.edge.limits import HeldSlots, RequestLimiter
from mooring.apiserver.edge.responses import JOINED_BYTES, Stream, pieces_of
from mooring.apiserver.extension.definitions import Definitions
from mooring.apiserver.extension.policies import GROUP as POLICIES
from mooring.apiserver.extension.policies import PolicyStep
from mooring.apiserver.extension.webhooks.step import WebhookStep
from mooring.apiserver.messages import users
from mooring.apiserver.messages.connection import Connection
from mooring.apiserver.messages.exchange import Exchange
from mooring.apiserver.messages.http import JSON, Request, Response, TakeOver
from mooring.apiserver.messages.routes import ResourceHandlers, ResourceRoute, resolve
from mooring.apiserver.options import VersionOptions
from mooring.apiserver.output.discovery import Discovery
from mooring.apiserver.output.formats import format_json
from mooring.apiserver.output.openapi import OpenApi
from mooring.apiserver.registry import Resources
from mooring.apiserver.registry.api_services import GROUP as API_SERVICES
from mooring.apiserver.registry.api_services import ApiServices
from mooring.apiserver.registry.connecting import admit_connection
from mooring.apiserver.registry.handler import Batch
from mooring.apiserver.registry.writes import Outcome, ResponsePair, status_of
from mooring.apiserver.requests.batch import WriteBatches
from mooring.apiserver.requests.health import Health
from mooring.apiserver.requests.metrics import ServerMetrics
from mooring.apiserver.requests.skew import SkewReporter
from mooring.apiserver.streams.streams import Streams
from mooring.base import logs, memory
from mooring.base.clock import Clock
from mooring.store.errors import StoreError

log = logs.get(__name__)

PathHandler = Callable[[Request], Awaitable[Response]]

_MOST_PARAMETERS = 100
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_ADDING = frozenset({"POST", "PUT", "PATCH"})
_READS = frozenset({"get", "list", "watch"})
_RBAC = "rbac.authorization.k8s.io"
_FOLLOWED = frozenset({_RBAC, "apiextensions.k8s.io", POLICIES, API_SERVICES})
"""API groups whose objects, such as roles and definitions, change how this server handles requests."""
_METHODS = _WITH_BODY | {"GET", "HEAD"}
_RESERVED_BYTES = 32 * 1024 * 1024
_BYTES_OF_A_BYTE = 16
"""The memory that handling a request may take, in bytes for each byte of its body."""


@dataclass(slots=True, kw_only=True)
class Application:
    """Serves every request: authenticates, limits, authorizes, and calls the handler of its path."""

    scheme: Scheme
    versions: VersionOptions
    clock: Clock
    authenticator: Authenticator
    authorizer: Authorizer
    limiter: RequestLimiter
    metrics: ServerMetrics
    skew: SkewReporter
    health: Health
    discovery: Discovery
    openapi: OpenApi
    issuer: IssuerPages
    resources: Resources
    streams: Streams
    definitions: Definitions
    policies: PolicyStep
    webhooks: WebhookStep
    api_services: ApiServices
    audit: AuditLog | None = None
    paths: dict[str, PathHandler] = field(default_factory=dict)
    """Handlers of additional paths, by first segment: `/explain` handles all paths below it."""
    answers: ResourceHandlers = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.paths = {**self.paths, WRITES: WriteBatches(self.respond_to_batch).handle}

    async def serve(self, call: HttpCall) -> Response:
        """Return the response to a request from the network."""
        request = Request(method=call.method, path=call.path, headers=call.headers)
        exchange = self._begin_exchange(request, call.client.address)
        response = await self._respond(exchange, call)
        response.request_id = request.request_id
        if response.take_over:
            response.take_over = partial(self._hand_over, exchange, response.take_over)
        return response

    async def respond(self, request: Request, *, in_batch: bool = False) -> Response:
        """Return the response to a request of this process, or to a write of a batch; its `user` is trusted."""
        exchange = self._begin_exchange(request)
        exchange.user = request.user
        return await self._respond(exchange, in_batch=in_batch)

    async def _respond(self, exchange: Exchange, call: HttpCall | None = None, *, in_batch: bool = False) -> Response:
        """Execute the chain for one request. An error ends it, and becomes the response, which is counted and logged.

        `call` is a request from the network. The body and the slot of a write `in_batch` are those of the batch.
        """
        request, body_memory = exchange.request, None
        try:
            if call is not None:
                await self._authenticate(exchange, call)
            await self._authorize(exchange)
            if call is not None and call.has_arrived and call.unread_bytes:
                request.body = await self._receive_body(call)
            elif call is not None and not call.has_arrived and _has_body(exchange):
                body_memory = self.limiter.reserve_body(request.user)
                request.body = await self._receive_body(call, body_memory)
            if in_batch:
                response = await self._handle_in_batch(exchange)
            elif exchange.is_stream:
                response = await self._handle_streaming(exchange)
            else:
                response = await self._handle_in_slot(exchange)
            if call is not None:
                response = self._reserve_memory(exchange, response)
        except Exception as error:
            response = self._error_response(exchange, error)
        finally:
            if body_memory is not None:
                body_memory.release()
        self.count(exchange, response)
        return response

    def _begin_exchange(self, request: Request, address: str = "") -> Exchange:
        given = request.request_id or request.headers.get("audit-id", "")
        request.request_id = given if given and _REQUEST_ID.fullmatch(given) else generate_uid()
        return Exchange(request, self.clock.now(), self.clock.monotonic(), address=address)

    # -- the steps of the chain, in their order

    async def _authenticate(self, exchange: Exchange, call: HttpCall) -> None:
        """Set the query and the user of a request from the network. Raise Unauthorized, or Forbidden to impersonate."""
        request, client = exchange.request, call.client
        if call.query:
            request.query = _parse_query(call.query)
        if client.certificate_ends is not None:
            self.metrics.record_certificate(client.certificate_ends - exchange.received.timestamp())
        user = client.user or await self.authenticator.authenticate(request.path, request.headers)
        exchange.user = request.user = user
        request.user = find_impersonated_user(user, request.headers, self.authorizer) or user

    async def _authorize(self, exchange: Exchange) -> None:
        """Find a request's route; raise an error if the user's rate is too high or it lacks the right."""
        request = exchange.request
        self.skew.check_user_agent(request.user_agent)
        self.limiter.check_rate(request.user)
        route = exchange.route = resolve(self.scheme, request.path) or await self._resolve_new_kind(request.path)
        proxied = route is not None and route.subresource == "proxy"
        if request.method not in _METHODS and not (proxied and request.method == "OPTIONS"):
            raise errors.method_not_allowed(request.method.lower(), request.path)
        attributes = attributes_of(request, route)
        exchange.verb = attributes.verb
        if users.MASTERS in request.user.groups and users.NODES not in request.user.groups:
            exchange.allowed_by = "RBAC"  # which allows them everything
            return
        await self.authorizer.prepare(request.user, attributes)
        exchange.allowed_by = require(self.authorizer, request.user, attributes).reason or "RBAC"

    async def _resolve_new_kind(self, path: str) -> ResourceRoute | None:
        """Return a path's route after reading definitions that another server may just have stored; None if unknown."""
        if not path.startswith("/apis/") or path.count("/") <= 3:
            return None
        await self.definitions.catch_up()
        return resolve(self.scheme, path)

    async def _receive_body(self, call: HttpCall, waiting: HeldSlots | None = None) -> bytes:
        """Return a request's body. Raise TooManyRequests, RequestEntityTooLarge or, if it is late, Timeout."""
        limits = self.limiter.limits
        try:
            if waiting is None:
                return await call.receive_body(limits.body_bytes)
            async with asyncio.timeout(limits.body_seconds):
                return await call.receive_body(limits.body_bytes, partial(self.limiter.grow_body, waiting))
        except TimeoutError:
            raise errors.timeout(f"the body did not come within {round(limits.body_seconds)}s") from None
        except BodyTooLargeError:
            raise errors.request_entity_too_large(f"limit is {limits.body_bytes}") from None

    async def _handle_in_slot(self, exchange: Exchange) -> Response:
        """Handle a request in a slot of its user's share. Raise TooManyRequests, ServiceUnavailable or Timeout."""
        request = exchange.request
        needed = _RESERVED_BYTES + _BYTES_OF_A_BYTE * len(request.body)
        if request.method in _ADDING and not memory.has_room_for(needed):
            raise errors.service_unavailable("the server has too little memory for this request: try again later")
        with self.limiter.take_slot(exchange.verb, request.user) as held:
            try:
                with self.limiter.deadlines.start():
                    response = await self._handle(exchange)
            except TimeoutError:
                seconds = round(self.limiter.limits.request_seconds)
                raise errors.timeout(f"request did not complete within {seconds}s") from None
            if not isinstance(response.body, bytes):
                exchange.streaming = exchange.verb != "list"  # a long list is sent in pieces, too, but soon ends
                response.body = Stream(response.body, exchange, held.keep() if exchange.streaming else None)
            return response

    async def _handle_streaming(self, exchange: Exchange) -> Response:
        """Handle a request for a kubelet (logs, exec), in a stream slot until it ends. Raise Timeout if late."""
        request, route = exchange.request, cast("ResourceRoute", exchange.route)
        with self.limiter.take_stream_slot(request.user) as held:
            try:
                with self.limiter.deadlines.start():
                    await admit_connection(self.resources.context, request, route)
                    response = await self.streams.handle(request, route, exchange.address)
            except TimeoutError:
                raise errors.timeout("the node did not answer in time") from None
            if response.take_over or not isinstance(response.body, bytes):
                body = response.body if not isinstance(response.body, bytes) else pieces_of(b"")
                exchange.streaming = True
                response.body = Stream(body, exchange, held.keep())
                response.ends_with_server = True
            return response

    async def _handle_in_batch(self, exchange: Exchange) -> Response:
        if exchange.route is None or exchange.route.streams:
            raise errors.bad_request("only objects can be written in batches")
        return await self._handle(exchange)

    async def _handle(self, exchange: Exchange) -> Response:
        request, route = exchange.request, exchange.route
        if route:
            answer = self.answers.get((route.kind.group, route.kind.plural, route.subresource))
            if answer is not None:
                subresource = route.kind.subresource(route.subresource)
                if exchange.verb not in (subresource or route.kind).verbs:
                    raise errors.method_not_allowed(exchange.verb, route.resource, group=route.group)
                return await answer(request, route)
            group = route.kind.group
            if group == API_SERVICES:
                await self.api_services.reconcile()
            response = await self.resources.handle(request, route)
            if group in _FOLLOWED and exchange.verb not in _READS:
                await self._catch_up(route)
            return response
        begin = f"/{request.path.split('/')[1]}"
        if begin in self.paths:
            return await self.paths[begin](request)
        if request.method not in {"GET", "HEAD"}:
            raise errors.path_not_found()
        return await self._non_resource_page(request)

    async def _catch_up(self, route: ResourceRoute) -> None:
        """Wait until a just written role, definition, policy or webhook configuration is in effect here."""
        if route.group == _RBAC:
            await self.authorizer.catch_up()
        elif route.kind is self.definitions.kind:
            await self.definitions.catch_up()
        elif route.group == POLICIES:
            await self.policies.catch_up()
            await self.webhooks.catch_up()
        elif route.group == API_SERVICES:
            await self.api_services.mark_unavailable()

    async def _non_resource_page(self, request: Request) -> Response:
        """Return the response to a path that names no resource, such as `/healthz`; raise NotFound if unknown."""
        match request.path.rstrip("/"):
            case "/version":
                return _json_response(request, self.versions.shown)
            case "/metrics":
                return await self.metrics.page()
            case "":
                return _json_response(request, RootPaths(paths=self._root_paths()))
        response = (
            await self.health.handle(request)
            or self.discovery.handle(request)
            or await self.openapi.handle(request)
            or self.issuer.handle(request)
        )
        if response is None:
            raise errors.path_not_found()
        return response

    def _root_paths(self) -> list[str]:
        groups = [group for group in self.scheme.groups if group]
        versions = [f"/apis/{group}/{version}" for group in groups for version in self.scheme.versions(group)]
        core = [f"/api/{version}" for version in self.scheme.versions("")]
        fixed = ["/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
        fixed += [CONFIGURATION, KEYS]
        return sorted([*fixed, *core, *(f"/apis/{group}" for group in groups), *versions, *self.paths])

    def _reserve_memory(self, exchange: Exchange, response: Response) -> Response:
        """Return a large response as a stream that holds memory of its user's share; raise if that is used up."""
        body, request = response.body, exchange.request
        if not isinstance(body, bytes) or len(body) <= JOINED_BYTES:
            return response
        held = self.limiter.reserve_response(request.user, len(body))
        if held is None and request.method in _WITH_BODY:
            raise errors.timeout("the request was executed, but this user has too many responses that were not read")
        if held is None:
            raise errors.too_many_requests("this user has too many responses that were not read", 5)
        if self.audit and exchange.verb == "create":
            exchange.created = created_by(response)
        response.headers = {**response.headers, "content-length": str(len(body))}
        response.body = Stream(pieces_of(body), exchange, held)
        return response

    # -- batches

    async def respond_to_batch(self, batch: Batch) -> list[Response]:
        """Execute writes that differ only in names and bodies; return the response to each.

        Errors become responses. If a deletion follows each update, return the response to the last of the two that was
        executed.
        """
        exchange, routes = self._exchange_of(batch.requests)
        ending = self._exchange_of(batch.deletions) if batch.deletions else None
        outcomes: Sequence[Outcome] | None = None
        try:
            if await self._may_write_all(exchange, len(batch.requests)) and (
                ending is None or await self._may_write_all(ending[0], len(batch.deletions))
            ):
                outcomes = await self.resources.write(replace(batch, routes=routes))
        except Exception as error:
            outcomes = [error] * len(batch.requests)
        if outcomes is None:
            return await asyncio.gather(*self._respond_one_by_one(batch))
        firsts = [outcome.first if isinstance(outcome, ResponsePair) else outcome for outcome in outcomes]
        answers = self._finish_responses(exchange, firsts, batch.requests, routes)
        lasts = {number: each.last for number, each in enumerate(outcomes) if isinstance(each, ResponsePair)}
        if ending is not None and lasts:
            followed = ([batch.deletions[number] for number in lasts], [ending[1][number] for number in lasts])
            answered = self._finish_responses(ending[0], list(lasts.values()), *followed)
            for number, answer in zip(lasts, answered, strict=True):
                answers[number] = answer
        return answers

    def _respond_one_by_one(self, batch: Batch) -> Iterator[Awaitable[Response]]:
        """Yield, for each write of a batch, an awaitable that authorizes and executes it alone."""
        if batch.deletions:
            return map(self._respond_in_turn, batch.requests, batch.deletions)
        return (self.respond(request, in_batch=True) for request in batch.requests)

    async def _respond_in_turn(self, write: Request, deletion: Request) -> Response:
        answer = await self.respond(write, in_batch=True)
        return await self.respond(deletion, in_batch=True) if answer.status < 300 else answer

    def _exchange_of(self, requests: Sequence[Request]) -> tuple[Exchange, list[ResourceRoute]]:
        """Return one exchange that stands for several requests, and the routes of those that have one."""
        exchange = self._begin_exchange(requests[0])
        exchange.user = requests[0].user
        routes = [route for request in requests if (route := resolve(self.scheme, request.path)) is not None]
        if len(routes) == len(requests):
            exchange.route = replace(routes[0], name="")
        return exchange, routes

    async def _may_write_all(self, exchange: Exchange, count: int) -> bool:
        """Return whether the user may write every object of the resource; if so, count each write for the rate."""
        request, route = exchange.request, exchange.route
        if route is None or route.streams or route.path or route.watch:
            return False
        self.skew.check_user_agent(request.user_agent)
        named = attributes_of(request, replace(route, name="any"))
        exchange.verb = named.verb
        attributes = replace(named, name="")
        await self.authorizer.prepare(request.user, attributes)
        decision = self.authorizer.authorize(request.user, attributes)
        exchange.allowed_by = decision.reason or "RBAC"
        for _ in range(count if decision.allowed else 0):
            self.limiter.check_rate(request.user)
        return decision.allowed

    def _finish_responses(
        self,
        exchange: Exchange,
        outcomes: Sequence[Response | Exception],
        requests: Sequence[Request],
        routes: Sequence[ResourceRoute],
    ) -> list[Response]:
        """Return a response for each outcome of a batch, errors included; count and log each."""
        exchange.route = routes[0] if routes else exchange.route
        if self.audit or access_log.is_enabled() or not all(isinstance(outcome, Response) for outcome in outcomes):
            each = zip_longest(outcomes, requests, routes)
            return [self._finish_response(exchange, *one) for one in each]
        answers = cast("list[Response]", list(outcomes))
        sizes = Counter((answer.status, len(cast("bytes", answer.body))) for answer in answers)
        for (exchange.code, exchange.bytes_sent), times in sizes.items():
            self._record_end(exchange, times)  # only the numbers differ
        return answers

    def _finish_response(
        self, exchange: Exchange, outcome: Response | Exception, request: Request, route: ResourceRoute | None
    ) -> Response:
        """Return one write's response or error with its own request id; count and log it."""
        request.request_id = generate_uid()
        each = replace(exchange, request=request, route=route or exchange.route)
        response = self._error_response(each, outcome) if isinstance(outcome, Exception) else outcome
        self.count(each, response)
        return response

    # -- the end

    def _error_response(self, exchange: Exchange, error: Exception) -> Response:
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

    def count(self, exchange: Exchange, response: Response) -> None:
        """Record a response in metrics and logs; if it is a stream, when it ends."""
        exchange.code = response.status
        body = response.body
        if isinstance(body, bytes):
            if self.audit and exchange.verb == "create":
                exchange.created = created_by(response)
            exchange.bytes_sent = len(body)
            self._record_end(exchange)
        elif isinstance(body, Stream):
            self.metrics.record_start(exchange)
            if self.audit and exchange.streaming:
                self.audit.write(exchange, "ResponseStarted")
            body.on_end = self._record_end

    def _record_end(self, exchange: Exchange, times: int = 1) -> None:
        exchange.seconds = self.clock.monotonic() - exchange.started
        self.metrics.record_end(exchange, times)
        access_log.write(exchange)
        if self.audit:
            self.audit.write(exchange)

    async def _hand_over(self, exchange: Exchange, take_over: TakeOver, connection: Connection) -> None:
        """Run the response's `take_over` on an upgraded connection, then record the bytes."""
        try:
            await take_over(connection)
        finally:
            exchange.bytes_sent = connection.sent
            self.metrics.record_stream(exchange, connection.received, connection.sent)


def _has_body(exchange: Exchange) -> bool:
    """Return whether a request's body must be received before it is handled: not for an upgrade."""
    request = exchange.request
    return request.method in _WITH_BODY and not (request.upgrade and exchange.is_stream)


def _status_body(status: Status, request: Request) -> tuple[bytes, str]:
    """Return an error's Status as protobuf if the client prefers that, else as JSON, and the media type."""
    body = codec.encode(status)
    try:
        if request.negotiate_format().format == "protobuf":
            return format_json(body, request.negotiate_format(), request)
    except StatusError:
        pass  # what it takes is not to be had; it gets JSON
    return body + b"\n", JSON


def _parse_query(raw: bytes) -> Mapping[str, Sequence[str]]:
    try:
        return parse_qs(raw.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise errors.bad_request("the query of the request cannot be understood") from None


def _json_response(request: Request, value: object) -> Response:
    body, content_type = format_json(codec.encode(value), request.negotiate_format(), request)
    return Response(200, body, content_type)
