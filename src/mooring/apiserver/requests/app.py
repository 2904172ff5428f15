"""The edge: an ASGI application in which every request takes the same way.

    receive → who is it (authn, impersonation) → may they come so often (limits) → may they do it (authz)
            → read the body → handler: health, discovery, OpenAPI, reviews, resources → send → metrics and logs

Logs, commands and what else reaches through to a node have a handler and limits of their own (``streams/``), and may
leave HTTP: their response then takes the connection over.

Handlers know nothing of ASGI: they are given a `Request` and return a `Response` or raise a `StatusError`. Clients in
the same process call `respond` and spare sockets, TLS and HTTP. ``server.py`` puts the parts together.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import cast
from urllib.parse import parse_qs

from msgspec.structs import replace

from mooring.admission.pipeline import new_uid
from mooring.api import codec, errors
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import RootPaths, Status
from mooring.api.scheme import Scheme
from mooring.apiserver.access import access_log
from mooring.apiserver.access.audit_log import AuditLog
from mooring.apiserver.access.authn import Authenticator
from mooring.apiserver.access.authz import Authorizer, attributes_of, forbidden
from mooring.apiserver.access.impersonation import impersonated
from mooring.apiserver.access.issuer import CONFIGURATION, KEYS, IssuerPages
from mooring.apiserver.access.reviews import Reviews
from mooring.apiserver.edge.callback_stack import CallbackStack
from mooring.apiserver.edge.client import Client
from mooring.apiserver.edge.limits import RequestLimiter
from mooring.apiserver.edge.sending import (
    BROKEN,
    CLIENT,
    TAKE_OVER,
    Receive,
    Scope,
    Send,
    Stream,
    headers_of,
    nothing,
    send_stream,
    send_whole,
)
from mooring.apiserver.extension.definitions import Definitions
from mooring.apiserver.extension.policies import GROUP as POLICIES
from mooring.apiserver.extension.policies import PolicyStep
from mooring.apiserver.extension.webhooks.step import WebhookStep
from mooring.apiserver.messages import users
from mooring.apiserver.messages.connection import ConnectionLostError
from mooring.apiserver.messages.exchange import Exchange
from mooring.apiserver.messages.http import JSON, Request, Response, headers_by_name
from mooring.apiserver.messages.routes import ResourceRoute, Routes
from mooring.apiserver.options import VersionOptions
from mooring.apiserver.output.discovery import Discovery
from mooring.apiserver.output.formats import formatted
from mooring.apiserver.output.openapi import OpenApi
from mooring.apiserver.registry import Resources
from mooring.apiserver.registry.api_services import GROUP as API_SERVICES
from mooring.apiserver.registry.api_services import ApiServices
from mooring.apiserver.registry.connecting import admit_connection
from mooring.apiserver.registry.store_errors import status_of
from mooring.apiserver.requests.flow_control.classification import Classification
from mooring.apiserver.requests.health import Health
from mooring.apiserver.requests.metrics import ServerMetrics
from mooring.apiserver.requests.skew import SkewWatch
from mooring.apiserver.streams.streams import Streams
from mooring.base import logs
from mooring.base.clock import Clock
from mooring.base.deadlines import Deadlines
from mooring.store.errors import StoreError

log = logs.get(__name__)

PathHandler = Callable[[Request], Awaitable[Response]]
ResourceHandler = Callable[[Request, ResourceRoute], Awaitable[Response]]

_MOST_PARAMETERS = 100
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_READS = frozenset({"get", "list", "watch"})
_RBAC = "rbac.authorization.k8s.io"
_FOLLOWED = frozenset({_RBAC, "apiextensions.k8s.io", POLICIES, API_SERVICES})
"""Groups whose objects say how this server behaves."""
_METHODS = _WITH_BODY | {"GET", "HEAD"}


@dataclass(slots=True, kw_only=True)
class Application:
    """All parts of the server behind one ASGI callable."""

    scheme: Scheme
    versions: VersionOptions
    clock: Clock
    authenticator: Authenticator
    authorizer: Authorizer
    limiter: RequestLimiter
    metrics: ServerMetrics
    skew: SkewWatch
    health: Health
    discovery: Discovery
    openapi: OpenApi
    issuer: IssuerPages
    reviews: Reviews
    resources: Resources
    streams: Streams
    definitions: Definitions
    policies: PolicyStep
    webhooks: WebhookStep
    api_services: ApiServices
    classification: Classification
    audit: AuditLog | None = None
    paths: dict[str, PathHandler] = field(default_factory=dict)
    """Handlers of more paths, by what they begin with: `/explain` answers `/explain` and all below it."""
    answers: dict[tuple[str, str], ResourceHandler] = field(default_factory=dict)
    """Handlers of resources that are not stored, by group and resource; authorised as all others are."""
    routes: Routes = field(init=False)
    deadlines: Deadlines = field(default_factory=Deadlines, init=False)

    def __post_init__(self) -> None:
        self.routes = Routes(self.scheme)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"only HTTP is served, not {scope['type']}")
        request = Request(method=scope["method"], path=scope["path"], headers=headers_by_name(scope["headers"]))
        if "upgrade" in request.headers and TAKE_OVER not in scope:
            request.headers = {name: value for name, value in request.headers.items() if name != "upgrade"}
        exchange, response = await self.answer(request, scope["query_string"], scope[CLIENT], receive)
        if response.take_over:
            await self._hand_over(exchange, response, scope)
        else:
            await self.send(exchange, response, receive, send)

    async def answer(
        self, request: Request, query: bytes, client: Client, receive: Receive | None = None
    ) -> tuple[Exchange, Response]:
        """What a request that came over the network is answered with, which is still to be sent. Never raises.

        Its body is there already, unless there is a `receive` that waits for it.
        """
        exchange = self._exchange(request, client.address)
        try:
            if query:
                request.query = _query(query)
            if client.certificate_ends is not None:
                self.metrics.certificate_used(client.certificate_ends - exchange.received.timestamp())
            user = client.user or await self.authenticator.authenticate(request.path, request.headers)
            exchange.user = request.user = user
            request.user = impersonated(user, request.headers, self.authorizer) or user
            response = await self._respond(exchange, receive, by_network=True)
        except Exception as error:
            response = self._failed(exchange, error)
        return exchange, response

    async def respond(self, request: Request) -> Response:
        """Answer a request of a client in this process, whose `user` is taken at its word. Never raises."""
        exchange = self._exchange(request)
        exchange.user = request.user
        try:
            response = await self._respond(exchange, None)
        except Exception as error:
            response = self._failed(exchange, error)
        self.count(exchange, response)
        return response

    async def respond_in_group(self, request: Request) -> Response:
        """Answer a write that came with others as if it had come alone; its group has a place. Never raises."""
        exchange = self._exchange(request)
        exchange.user = request.user
        try:
            await self._admit(exchange)
            if exchange.route is None or exchange.route.streams:
                raise errors.bad_request("only objects can be written in groups")
            response = await self._handle(exchange)
        except Exception as error:
            response = self._failed(exchange, error)
        self.count(exchange, response)
        return response

    async def respond_alike(self, request: Request, count: int) -> list[Response]:
        """Answer so many equal requests of a group, each with a record of its own. Never raises."""
        exchange = self._exchange(request)
        exchange.user = request.user
        try:
            await self._admit(exchange)
            for _ in range(count - 1):
                self.limiter.check_rate(request.user)
            route = exchange.route
            outcomes = await self.resources.create_alike(request, route, count) if route else None
        except Exception as error:
            outcomes = [error] * count
        if outcomes is None:
            return await asyncio.gather(*(self.respond_in_group(replace(request)) for _ in range(count)))
        return self._all_answered(exchange, outcomes)

    async def respond_together(self, requests: Sequence[Request]) -> list[Response]:
        """Answer writes of a group that differ in nothing but names and bodies. Never raises."""
        exchange, routes = self._exchange_of(requests)
        outcomes: Sequence[Response | Exception] | None = None
        try:
            if await self._may_write_all(exchange, len(requests)):
                outcomes = await self.resources.write_together(requests, routes)
        except Exception as error:
            outcomes = [error] * len(requests)
        if outcomes is None:
            return await asyncio.gather(*map(self.respond_in_group, requests))
        return self._all_answered(exchange, outcomes, requests, routes)

    async def respond_ending(self, writes: Sequence[Request], deletions: Sequence[Request]) -> list[Response]:
        """The same for updates, each with the deletion that follows it: the answer to the last that was done."""
        exchange, routes = self._exchange_of(writes)
        last, last_routes = self._exchange_of(deletions)
        outcomes: Sequence[tuple[Response | Exception, Response | Exception | None]] | None = None
        try:
            if await self._may_write_all(exchange, len(writes)) and await self._may_write_all(last, len(deletions)):
                outcomes = await self.resources.end_together((writes, routes), (deletions, last_routes))
        except Exception as error:
            outcomes = [(error, None)] * len(writes)
        if outcomes is None:
            return await asyncio.gather(*map(self._respond_in_turn, writes, deletions))
        answers = self._all_answered(exchange, [written for written, _ in outcomes], writes, routes)
        ended = {number: deleted for number, (_, deleted) in enumerate(outcomes) if deleted is not None}
        told = ([deletions[number] for number in ended], [last_routes[number] for number in ended])
        for number, answer in zip(ended, self._all_answered(last, list(ended.values()), *told), strict=True):
            answers[number] = answer
        return answers

    async def _respond_in_turn(self, write: Request, deletion: Request) -> Response:
        answer = await self.respond_in_group(write)
        return await self.respond_in_group(deletion) if answer.status < 300 else answer

    def _exchange_of(self, requests: Sequence[Request]) -> tuple[Exchange, list[ResourceRoute]]:
        """The first of several requests, in the name of all, and where each goes; no route where one has none."""
        exchange = self._exchange(requests[0])
        exchange.user = requests[0].user
        resolved = self.routes.resolve_alike([request.path for request in requests])
        routes = [route for route in resolved if route is not None]
        if len(routes) == len(requests):
            exchange.route = replace(routes[0], name="")
        return exchange, routes

    async def _may_write_all(self, exchange: Exchange, count: int) -> bool:
        """Whether somebody may do something to all objects of a sort, whatever their names are, and so often."""
        request, route = exchange.request, exchange.route
        if route is None or route.streams or route.path or route.watch:
            return False
        self.skew.see_agent(request.user_agent)
        named = attributes_of(request, replace(route, name="any"))
        exchange.verb = named.verb
        attributes = replace(named, name="")
        await self.authorizer.prepare(request.user, attributes)
        decision = self.authorizer.authorize(request.user, attributes)
        exchange.allowed_by = decision.reason or "RBAC"
        for _ in range(count if decision.allowed else 0):
            self.limiter.check_rate(request.user)
        return decision.allowed

    def _all_answered(
        self,
        exchange: Exchange,
        outcomes: Sequence[Response | Exception],
        requests: Sequence[Request] = (),
        routes: Sequence[ResourceRoute] = (),
    ) -> list[Response]:
        """Several answers, each counted and logged; without requests and routes of their own they share those."""
        exchange.route = routes[0] if routes else exchange.route
        if self.audit or access_log.is_kept() or not all(isinstance(outcome, Response) for outcome in outcomes):
            each = zip(outcomes, requests or repeat(None), routes or repeat(None), strict=False)
            return [self._answered(exchange, *one) for one in each]
        answers = cast("list[Response]", list(outcomes))
        alike = Counter((answer.status, len(cast("bytes", answer.body))) for answer in answers)
        for (exchange.code, exchange.bytes_sent), times in alike.items():
            self._ended(exchange, times)  # in which nothing is its own but its numbers
        return answers

    def _answered(
        self, exchange: Exchange, outcome: Response | Exception, request: Request | None, route: ResourceRoute | None
    ) -> Response:
        """One of several answers, counted and logged under an id of its own."""
        own = request or replace(exchange.request)
        own.request_id = new_uid()
        each = replace(exchange, request=own, route=route or exchange.route)
        response = self._failed(each, outcome) if isinstance(outcome, Exception) else outcome
        self.count(each, response)
        return response

    def _exchange(self, request: Request, address: str = "") -> Exchange:
        given = request.request_id or request.headers.get("audit-id", "")
        request.request_id = given if given and _REQUEST_ID.fullmatch(given) else new_uid()
        return Exchange(request, self.clock.now(), self.clock.monotonic(), address=address)

    async def _respond(self, exchange: Exchange, receive: Receive | None, *, by_network: bool = False) -> Response:
        """The way of a request whose sender is known."""
        request = exchange.request
        await self._admit(exchange, by_network=by_network)
        route = exchange.route
        if route and route.subresource and route.streams:
            return await self._stream(exchange, route, receive)
        with self.limiter.one_more(exchange.verb) as place:
            try:
                with self.deadlines.begin(self.limiter.limits.request_seconds):
                    if receive and request.method in _WITH_BODY:
                        request.body = await self._body(receive)
                    response = await self._handle(exchange)
            except TimeoutError:
                seconds = round(self.limiter.limits.request_seconds)
                raise errors.timeout(f"request did not complete within {seconds}s") from None
            if not isinstance(response.body, bytes):
                exchange.streaming = exchange.verb != "list"  # of which long ones come in pieces, too, but soon end
                at_end = place.hand_on() if exchange.streaming else CallbackStack()
                response.body = Stream(response.body, exchange, at_end)
            return response

    async def _admit(self, exchange: Exchange, *, by_network: bool = False) -> None:
        """Find out what a request asks for; raises when its sender may not, or comes too often."""
        request = exchange.request
        self.skew.see_agent(request.user_agent)
        self.limiter.check_rate(request.user)
        route = exchange.route = self.routes.resolve(request.path) or await self._late_route(request.path)
        proxied = route is not None and route.subresource == "proxy"
        if request.method not in _METHODS and not (proxied and request.method == "OPTIONS"):
            raise errors.method_not_allowed(request.method.lower(), request.path)
        attributes = attributes_of(request, route)
        exchange.verb = attributes.verb
        if by_network and not (proxied or (route and route.subresource and route.streams)):
            exchange.classified = self.classification.headers(request.user, attributes)
        if users.MASTERS in request.user.groups and users.NODES not in request.user.groups:
            exchange.allowed_by = "RBAC"  # which allows them everything
            return
        await self.authorizer.prepare(request.user, attributes)
        decision = self.authorizer.authorize(request.user, attributes)
        if not decision.allowed:
            raise forbidden(request.user, attributes, decision.reason)
        exchange.allowed_by = decision.reason or "RBAC"

    async def _stream(self, exchange: Exchange, route: ResourceRoute, receive: Receive | None) -> Response:
        """What reaches through to a node: it counts among the streams, for as long as it lasts."""
        request = exchange.request
        with self.limiter.one_more_stream(request.user) as place:
            try:
                async with asyncio.timeout(self.limiter.limits.request_seconds):
                    if receive and request.method in _WITH_BODY and not request.upgrade:
                        request.body = await self._body(receive)
                    await admit_connection(self.resources.context, request, route)
                    response = await self.streams.handle(request, route, exchange.address)
            except TimeoutError:
                raise errors.timeout("the node did not answer in time") from None
            if response.take_over or not isinstance(response.body, bytes):
                body = response.body if not isinstance(response.body, bytes) else nothing()
                exchange.streaming = True
                response.body = Stream(body, exchange, place.pop_all())
            return response

    async def _late_route(self, path: str) -> ResourceRoute | None:
        """The resource that a path names whose definition may have come through another server just now."""
        if not path.startswith("/apis/") or path.count("/") <= 3:
            return None
        await self.definitions.catch_up()
        return self.routes.resolve(path)

    async def _handle(self, exchange: Exchange) -> Response:
        request, route = exchange.request, exchange.route
        if route:
            handler = self.reviews.handler_for(route)
            if handler:
                if route.verb(request) != "create":
                    raise errors.method_not_allowed(route.verb(request), route.resource, group=route.group)
                return await handler(request, route)
            answer = self.answers.get((route.kind.group, route.kind.plural))
            if answer:
                if exchange.verb not in route.kind.verbs or route.subresource:
                    raise errors.method_not_allowed(exchange.verb, route.resource, group=route.group)
                return await answer(request, route)
            group = route.kind.group
            if group == API_SERVICES:
                await self.api_services.keep()
            response = await self.resources.handle(request, route)
            if group in _FOLLOWED and exchange.verb not in _READS:
                await self._catch_up(route)
            return response
        begin = f"/{request.path.split('/')[1]}"
        if begin in self.paths:
            return await self.paths[begin](request)
        if request.method not in {"GET", "HEAD"}:
            raise errors.path_not_found()
        return await self._page(request)

    async def _catch_up(self, route: ResourceRoute) -> None:
        """Who has given a right, defined a kind, made a policy or named a webhook may rely on it."""
        if route.group == _RBAC:
            await self.authorizer.catch_up()
        elif route.kind is self.definitions.kind:
            await self.definitions.catch_up()
        elif route.group == POLICIES:
            await self.policies.catch_up()
            await self.webhooks.catch_up()
        elif route.group == API_SERVICES:
            await self.api_services.judge()

    async def _page(self, request: Request) -> Response:
        """What is there besides resources."""
        match request.path.rstrip("/"):
            case "/version":
                return _shown(request, self.versions.shown)
            case "/metrics":
                return await self.metrics.page()
            case "":
                return _shown(request, RootPaths(paths=self._root_paths()))
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

    async def _body(self, receive: Receive) -> bytes:
        limits = self.limiter.limits
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise _ClientGoneError
                    part = message.get("body", b"")
                    size += len(part)
                    if size > limits.body_bytes:
                        raise errors.request_entity_too_large(f"limit is {limits.body_bytes}")
                    parts.append(part)
                    if not message.get("more_body"):
                        return parts[0] if len(parts) == 1 else b"".join(parts)
        except TimeoutError:
            raise errors.timeout(f"the body did not come within {round(limits.body_seconds)}s") from None

    # -- the end

    def _failed(self, exchange: Exchange, error: Exception) -> Response:
        """What a client is told when something went wrong; mistakes of ours are logged, and not explained to it."""
        request = exchange.request
        if isinstance(error, _ClientGoneError):
            exchange.reason = "ClientGone"
            return Response(499, b"")
        if isinstance(error, StoreError):
            error = status_of(error)
        if not isinstance(error, StatusError):
            fields = {"method": request.method, "path": request.path, "request_id": request.request_id}
            log.error("A request failed unexpectedly", exc_info=error, extra={"fields": fields})
            error = errors.internal_error(f"the server has logged why, with request id {request.request_id}")
        status = error.status
        exchange.reason = status.reason
        body, content_type = _status_body(status, request)
        response = Response(status.code or 500, body, content_type)
        if exchange.user is None:
            request.user = users.anonymous()
        if status.details and status.details.retry_after_seconds:
            response.headers["retry-after"] = str(status.details.retry_after_seconds)
        return response

    def count(self, exchange: Exchange, response: Response) -> None:
        """Count and log a response, a stream when it has ended."""
        exchange.code = response.status
        body = response.body
        if isinstance(body, bytes):
            exchange.bytes_sent = len(body)
            self._ended(exchange)
        elif isinstance(body, Stream):
            self.metrics.began(exchange)
            if self.audit and exchange.streaming:
                self.audit.write(exchange, "ResponseStarted")
            body.at_end.callback(self._ended, exchange)

    def _ended(self, exchange: Exchange, times: int = 1) -> None:
        exchange.seconds = self.clock.monotonic() - exchange.started
        self.metrics.ended(exchange, times)
        access_log.write(exchange)
        if self.audit:
            self.audit.write(exchange)

    async def _hand_over(self, exchange: Exchange, response: Response, scope: Scope) -> None:
        """Let a response have the connection until it has done with it."""
        self.count(exchange, response)
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers.items()]
        body = cast("Stream", response.body)
        try:
            connection = scope[TAKE_OVER](headers)
            if connection and response.take_over:
                try:
                    with self.streams.until_the_end():
                        await response.take_over(connection)
                except ConnectionLostError:
                    pass  # as good an end as any
                finally:
                    connection.close()
                    exchange.bytes_sent = connection.sent
                    self.metrics.streamed(exchange, connection.received, connection.sent)
        finally:
            await body.aclose()

    async def send(self, exchange: Exchange, response: Response, receive: Receive, send: Send) -> None:
        """Send a response in messages of ASGI."""
        self.count(exchange, response)
        if response.status == 499:
            return  # nobody is listening
        headers = headers_of(exchange, response)
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        if isinstance(response.body, bytes):
            await send_whole(response.body, send)
            return
        if exchange.route is None or not exchange.route.streams:
            await send_stream(response.body, receive, send)
            return
        try:
            with self.streams.until_the_end():
                await send_stream(response.body, receive, send)
        except ConnectionLostError as error:
            log.info("A stream broke off", extra={"fields": {"path": exchange.request.path, "why": str(error)}})
        await send({"type": BROKEN})  # unless it came to its end


class _ClientGoneError(Exception):
    """The client hung up while it was sending."""


def _status_body(status: Status, request: Request) -> tuple[bytes, str]:
    """An error as the client reads best: JSON, unless it would rather have protobuf."""
    body = codec.encode(status)
    try:
        if request.accepted().format == "protobuf":
            return formatted(body, request.accepted(), request)
    except StatusError:
        pass  # what it takes is not to be had; it gets JSON
    return body + b"\n", JSON


def _query(raw: bytes) -> Mapping[str, Sequence[str]]:
    if not raw:
        return {}
    try:
        return parse_qs(raw.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise errors.bad_request("the query of the request cannot be understood") from None


def _shown(request: Request, value: object) -> Response:
    body, content_type = formatted(codec.encode(value), request.accepted(), request)
    return Response(200, body, content_type)
