"""The chain of steps that every request passes: `Application._respond`.

    begin exchange → authenticate, impersonate → limit rate, find route, authorize → receive body → take slot
        → handle: resources, reviews, nodes, discovery, OpenAPI, health → response or error → metrics and logs

Logs, exec and other requests for nodes have a handler and limits of their own (``streams/``); their response may take
the connection over. Handlers receive a `Request` and return a `Response` or raise a `StatusError`. The HTTP server
calls `serve`; in-process clients call `respond`, without sockets, TLS and HTTP. Limits are in ``limiter.py``;
``server.py`` builds the application.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast
from urllib.parse import parse_qs

from mooring.api import codec, errors
from mooring.api.batch_writes import PATH as WRITES
from mooring.api.meta_v1 import RootPaths
from mooring.api.scheme import Scheme
from mooring.apiserver.access.audit_log import AuditLog
from mooring.apiserver.access.authn import Authenticator
from mooring.apiserver.access.authz import Authorizer, attributes_of, require
from mooring.apiserver.access.impersonation import find_impersonated_user
from mooring.apiserver.access.tokens import CONFIGURATION, KEYS, IssuerPages
from mooring.apiserver.edge.calls import BodyTooLargeError, HttpCall
from mooring.apiserver.edge.responses import JOINED_BYTES, Stream, pieces_of
from mooring.apiserver.extension.definitions import Definitions
from mooring.apiserver.extension.policies import GROUP as POLICIES
from mooring.apiserver.extension.policies import PolicyStep
from mooring.apiserver.extension.webhooks.step import WebhookStep
from mooring.apiserver.messages import users
from mooring.apiserver.messages.exchange import Exchange
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.messages.routes import ResourceHandlers, ResourceRoute, resolve
from mooring.apiserver.options import VersionOptions
from mooring.apiserver.output.discovery import Discovery
from mooring.apiserver.output.formats import format_json
from mooring.apiserver.output.openapi import OpenApi
from mooring.apiserver.registry import Resources
from mooring.apiserver.registry.cluster.api_services import GROUP as API_SERVICES
from mooring.apiserver.registry.cluster.api_services import ApiServices
from mooring.apiserver.registry.verbs.connecting import admit_connection
from mooring.apiserver.requests.batch import WriteBatches
from mooring.apiserver.requests.batch_chain import BatchChain
from mooring.apiserver.requests.exchanges import Exchanges
from mooring.apiserver.requests.health import Health
from mooring.apiserver.requests.limiter import HeldSlots, RequestLimiter
from mooring.apiserver.requests.metrics import ServerMetrics
from mooring.apiserver.requests.skew import SkewReporter
from mooring.apiserver.streams.streams import Streams
from mooring.base import logs, memory
from mooring.base.clock import Clock

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
    _exchanges: Exchanges = field(init=False)

    def __post_init__(self) -> None:
        self._exchanges = exchanges = Exchanges(self.metrics, self.clock, self.audit)
        chain = BatchChain(
            scheme=self.scheme,
            skew=self.skew,
            limiter=self.limiter,
            authorizer=self.authorizer,
            resources=self.resources,
            exchanges=exchanges,
            respond_alone=partial(self.respond, in_batch=True),
        )
        self.paths = {**self.paths, WRITES: WriteBatches(chain.respond).handle}

    async def serve(self, call: HttpCall) -> Response:
        """Return the response to a request from the network."""
        request = Request(method=call.method, path=call.path, headers=call.headers)
        exchange = self._exchanges.begin(request, call.client.address)
        response = await self._respond(exchange, call)
        response.request_id = request.request_id
        if response.take_over:
            response.take_over = partial(self._exchanges.hand_over, exchange, response.take_over)
        return response

    async def respond(self, request: Request, *, in_batch: bool = False) -> Response:
        """Return the response to a request of this process, or to a write of a batch; its `user` is trusted."""
        exchange = self._exchanges.begin(request)
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
            response = self._exchanges.respond_to_error(exchange, error)
        finally:
            if body_memory is not None:
                body_memory.release()
        self._exchanges.record(exchange, response)
        return response

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
                response.body = Stream(response.body, exchange, held.keep().release if exchange.streaming else None)
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
                response.body = Stream(body, exchange, held.keep().release)
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
        self._exchanges.note_created(exchange, response)
        response.headers = {**response.headers, "content-length": str(len(body))}
        response.body = Stream(pieces_of(body), exchange, held.release)
        return response


def _has_body(exchange: Exchange) -> bool:
    """Return whether a request's body must be received before it is handled: not for an upgrade."""
    request = exchange.request
    return request.method in _WITH_BODY and not (request.upgrade and exchange.is_stream)


def _parse_query(raw: bytes) -> Mapping[str, Sequence[str]]:
    try:
        return parse_qs(raw.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise errors.bad_request("the query of the request cannot be understood") from None


def _json_response(request: Request, value: object) -> Response:
    body, content_type = format_json(codec.encode(value), request.negotiate_format(), request)
    return Response(200, body, content_type)
