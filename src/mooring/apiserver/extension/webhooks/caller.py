"""One request to a webhook: JSON over HTTPS to a URL or a Service, within a time and a size.

    answer = await caller.call(config, body, seconds=10)

Connections are kept open and shared by those who call the same place. A Service is reached at the addresses that its
EndpointSlices name as ready, one after the other; its certificate must be good for `name.namespace.svc`. What goes
wrong on the way is a `WebhookError`, in the words that kube-apiserver has for it (``failures.py``). Called by
``conversion.py`` and ``asking.py``.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from mooring.apiserver.extension.webhooks.failures import WebhookError, refused_by_status, unreachable
from mooring.client.errors import ClientError, ConnectError
from mooring.client.https import HttpsTransport
from mooring.client.kubeconfig import Connection
from mooring.client.transport import Request, Response

MAX_ANSWER = 16 * 1024 * 1024
_MOST_PLACES = 256
_HEADERS = {"content-type": "application/json", "accept": "application/json, */*", "user-agent": "mooring-apiserver"}
_HTTPS = 443


class Service(Protocol):
    """What names a Service: the struct of any API group will do."""

    namespace: str
    name: str
    path: str | None
    port: int | None


class ClientConfig(Protocol):
    """How a webhook is reached: the struct of any API group will do."""

    @property
    def url(self) -> str | None: ...
    @property
    def service(self) -> Service | None: ...
    @property
    def ca_bundle(self) -> bytes: ...


Addresses = Callable[[str, str, int], Awaitable[Sequence[tuple[str, int]]]]
"""The addresses that are ready behind a Service's port, by namespace and name of the Service; raises WebhookError."""


class _Place(NamedTuple):
    """Where requests go, and who has to answer there."""

    server: str
    authorities: bytes
    name: str


class WebhookCaller:
    """Sends requests to webhooks. It belongs to one event loop; close it at the end."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._transports: OrderedDict[_Place, HttpsTransport] = OrderedDict()

    async def call(self, config: ClientConfig, body: bytes, *, seconds: int) -> bytes:
        """The body of an answer that says that all went well; raises WebhookError."""
        shown, path = _target(config)
        request = Request(
            "POST",
            path,
            [("timeout", f"{seconds}s")],
            _HEADERS,
            body,
            max_response_bytes=MAX_ANSWER,
            is_repeatable=True,  # webhooks may be asked twice, for the one who wrote may try again, too
        )
        where = f'Post "{shown}?timeout={seconds}s"'
        try:
            async with asyncio.timeout(seconds):
                response = await self._first_answer(config, request, where, seconds)
        except TimeoutError:
            raise WebhookError(f"{where}: context deadline exceeded") from None
        if not 200 <= response.status <= 206:
            raise refused_by_status(response)
        if not response.body:
            kind = response.headers.get("content-type", "")
            raise WebhookError(f"0-length response with status code: {response.status} and content type: {kind}")
        return response.body

    async def close(self) -> None:
        transports = [*self._transports.values()]
        self._transports.clear()
        for transport in transports:
            await transport.close()

    async def _first_answer(self, config: ClientConfig, request: Request, where: str, seconds: float) -> Response:
        """Ask at one address after the other, as long as there is nobody to be reached."""
        try:
            places = await self._places(config)
        except WebhookError as error:
            raise WebhookError(f"{where}: {error}") from None
        for place in places[:-1]:
            try:
                return await self._transport(place).send(request, seconds)
            except ConnectError:
                continue
            except ClientError as error:
                raise unreachable(where, place.server, place.name, error) from None
        try:
            return await self._transport(places[-1]).send(request, seconds)
        except ClientError as error:
            raise unreachable(where, places[-1].server, places[-1].name, error) from None

    async def _places(self, config: ClientConfig) -> list[_Place]:
        """Where a webhook can be asked, at least one place; raises WebhookError."""
        service = config.service
        if config.url is not None or service is None:
            parts = urlsplit(config.url or "")
            return [_Place(f"{parts.scheme}://{parts.netloc}", config.ca_bundle, "")]
        found = await self._addresses(service.namespace, service.name, service.port or _HTTPS)
        if not found:
            raise WebhookError(f'no endpoints available for service "{service.name}"')
        name = f"{service.name}.{service.namespace}.svc"
        servers = [f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}" for host, port in found]
        return [_Place(server, config.ca_bundle, name) for server in servers]

    def _transport(self, place: _Place) -> HttpsTransport:
        transport = self._transports.get(place)
        if transport is None:
            connection = Connection(place.server, certificate_authority=place.authorities, tls_server_name=place.name)
            transport = self._transports[place] = HttpsTransport(connection)
            if len(self._transports) > _MOST_PLACES:
                self._transports.popitem(last=False)[1].retire()
        self._transports.move_to_end(place)
        return transport


def _target(config: ClientConfig) -> tuple[str, str]:
    """The URL of a webhook as errors show it, and the path in it."""
    if config.url is not None:
        return config.url, urlsplit(config.url).path or "/"
    service = config.service
    if service is None:
        raise WebhookError("webhook configuration must have either service or URL")
    path = service.path or "/"
    return f"https://{service.name}.{service.namespace}.svc:{service.port or _HTTPS}{path}", path
