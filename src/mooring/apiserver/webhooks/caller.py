"""One request to a webhook: JSON over HTTPS to a URL or a Service, within a time and a size.

    answer = await caller.call(config, body, seconds=10)

Connections are kept open and shared by those who call the same place. A Service is reached at the addresses that its
EndpointSlices name as ready, one after the other; its certificate must be good for `name.namespace.svc`. What goes
wrong on the way is a `WebhookError`, whose text is for the client. Called by ``conversion.py``.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from mooring.client.errors import ClientError
from mooring.client.https import HttpsTransport
from mooring.client.kubeconfig import Connection
from mooring.client.transport import Request

MAX_ANSWER = 16 * 1024 * 1024
_MOST_PLACES = 64
_HEADERS = {"content-type": "application/json", "accept": "application/json", "user-agent": "mooring-apiserver"}
_HTTPS = 443


class WebhookError(Exception):
    """A webhook could not be asked, or gave no answer; the message says why."""


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
"""The addresses that are ready behind a Service's port, by namespace and name of the Service."""


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

    async def call(self, config: ClientConfig, body: bytes, *, seconds: float) -> bytes:
        """The body of an answer with status 200; raises WebhookError."""
        places, path = await self._places(config)
        problem = "it has no address"
        for place in places:
            try:
                return await self._ask(place, path, body, seconds)
            except ClientError as error:
                problem = str(error)
        raise WebhookError(f"failed to call webhook: {problem}")

    async def close(self) -> None:
        transports = [*self._transports.values()]
        self._transports.clear()
        for transport in transports:
            await transport.close()

    async def _places(self, config: ClientConfig) -> tuple[list[_Place], str]:
        if config.url is not None:
            parts = urlsplit(config.url)
            return [_Place(f"{parts.scheme}://{parts.netloc}", config.ca_bundle, "")], parts.path or "/"
        service = config.service
        if service is None:
            raise WebhookError("the webhook has neither a URL nor a Service")
        found = await self._addresses(service.namespace, service.name, service.port or _HTTPS)
        if not found:
            raise WebhookError(f'no endpoints available for service "{service.name}"')
        name = f"{service.name}.{service.namespace}.svc"
        servers = [f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}" for host, port in found]
        return [_Place(server, config.ca_bundle, name) for server in servers], service.path or "/"

    async def _ask(self, place: _Place, path: str, body: bytes, seconds: float) -> bytes:
        request = Request("POST", path, (), _HEADERS, body)
        stream = await self._transport(place).stream(request, seconds)
        try:
            parts, size = [], 0
            async for chunk in stream.chunks():
                parts.append(chunk)
                size += len(chunk)
                if size > MAX_ANSWER:
                    raise WebhookError(f"the webhook's answer is longer than {MAX_ANSWER} bytes")
        finally:
            await stream.close()
        if stream.status != 200:
            text = b"".join(parts)[:200].decode(errors="replace").strip()
            raise WebhookError(f"the webhook answered with status {stream.status}: {text}")
        return b"".join(parts)

    def _transport(self, place: _Place) -> HttpsTransport:
        transport = self._transports.get(place)
        if transport is None:
            connection = Connection(place.server, certificate_authority=place.authorities, tls_server_name=place.name)
            transport = self._transports[place] = HttpsTransport(connection)
            if len(self._transports) > _MOST_PLACES:
                self._transports.popitem(last=False)
        self._transports.move_to_end(place)
        return transport
