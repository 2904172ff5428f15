"""Send requests to webhooks: JSON over HTTPS to a URL or a Service, within a limit of time and size.

    answer = await caller.call(config, body, seconds=10)

Calls to the same address share connections. A Service is called at the ready addresses of its EndpointSlices, one after
the other, and its certificate must be valid for `name.namespace.svc`. (kube-apiserver calls the cluster IP, which needs
a kube-proxy.) Failures are `WebhookError`s with kube-apiserver's messages (``failures.py``).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from mooring.api import admissionregistration_v1, apiextensions_v1, core_v1
from mooring.api.discovery_v1 import EndpointSlice
from mooring.apiserver.extension.webhooks.failures import WebhookError, describe_failure, make_status_error
from mooring.apiserver.registry.storage.objects import Objects
from mooring.client.errors import ClientError, ConnectError
from mooring.client.https import HttpsTransport
from mooring.client.kubeconfig import Connection
from mooring.client.transport import Request, Response

MAX_ANSWER = 16 * 1024 * 1024
_MAX_CONNECTIONS = 256
_HEADERS = {"content-type": "application/json", "accept": "application/json, */*", "user-agent": "mooring-apiserver"}
_HTTPS = 443
_SERVICE_LABEL = "kubernetes.io/service-name"


ClientConfig = admissionregistration_v1.WebhookClientConfig | apiextensions_v1.WebhookClientConfig
"""The URL or Service of a webhook and its authority, for admission or for conversion."""

Addresses = Callable[[str, str, int], Awaitable[Sequence[tuple[str, int]]]]
"""A function that returns the ready addresses for a Service's namespace, name and port; it raises WebhookError."""


class _WebhookAddress(NamedTuple):
    """One address of a webhook server, the authorities that verify it, and the name in its certificate."""

    server: str
    authorities: bytes
    name: str


class WebhookCaller:
    """Sends requests to webhooks over pooled TLS connections of one event loop; close it at the end."""

    def __init__(self, find_ready_addresses: Addresses) -> None:
        self._addresses = find_ready_addresses
        self._transports: OrderedDict[_WebhookAddress, HttpsTransport] = OrderedDict()

    async def call(self, config: ClientConfig, body: bytes, *, seconds: int) -> bytes:
        """POST a body to a webhook; return the response body. Raise WebhookError without a successful response."""
        shown, path = _url_and_path(config)
        request = Request(
            "POST",
            path,
            [("timeout", f"{seconds}s")],
            _HEADERS,
            body,
            max_response_bytes=MAX_ANSWER,
            is_repeatable=True,  # webhooks have to expect repeated calls, because clients retry
        )
        where = f'Post "{shown}?timeout={seconds}s"'
        try:
            async with asyncio.timeout(seconds):
                response = await self._call_first_reachable(config, request, where, seconds)
        except TimeoutError:
            raise WebhookError(f"{where}: context deadline exceeded") from None
        if not 200 <= response.status <= 206:
            raise make_status_error(response)
        if not response.body:
            kind = response.headers.get("content-type", "")
            raise WebhookError(f"0-length response with status code: {response.status} and content type: {kind}")
        return response.body

    async def close(self) -> None:
        transports = [*self._transports.values()]
        self._transports.clear()
        for transport in transports:
            await transport.close()

    async def _call_first_reachable(
        self, config: ClientConfig, request: Request, where: str, seconds: float
    ) -> Response:
        """Return the response of the first address that accepts a connection; raise WebhookError without a response."""
        try:
            *others, last = await self._find_addresses(config)
        except WebhookError as error:
            raise WebhookError(f"{where}: {error}") from None
        for place in (*others, last):
            try:
                return await self._get_transport(place).send(request, seconds)
            except ClientError as error:
                if place is last or not isinstance(error, ConnectError):
                    why = describe_failure(place.server, place.name, error)
                    raise WebhookError(f"{where}: {why}") from None
        raise AssertionError("the last address returns or raises")

    async def _find_addresses(self, config: ClientConfig) -> list[_WebhookAddress]:
        service = config.service
        if config.url is not None or service is None:
            parts = urlsplit(config.url or "")
            return [_WebhookAddress(f"{parts.scheme}://{parts.netloc}", config.ca_bundle, "")]
        found = await self._addresses(service.namespace, service.name, service.port or _HTTPS)
        if not found:
            raise WebhookError(f'no endpoints available for service "{service.name}"')
        name = f"{service.name}.{service.namespace}.svc"
        servers = [f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}" for host, port in found]
        return [_WebhookAddress(server, config.ca_bundle, name) for server in servers]

    def _get_transport(self, place: _WebhookAddress) -> HttpsTransport:
        transport = self._transports.get(place)
        if transport is None:
            connection = Connection(place.server, certificate_authority=place.authorities, tls_server_name=place.name)
            transport = self._transports[place] = HttpsTransport(connection)
            if len(self._transports) > _MAX_CONNECTIONS:
                self._transports.popitem(last=False)[1].retire()
        self._transports.move_to_end(place)
        return transport


def _url_and_path(config: ClientConfig) -> tuple[str, str]:
    """Return a webhook's URL, as errors show it, and the path to request; raise WebhookError if it has no URL."""
    if config.url is not None:
        return config.url, urlsplit(config.url).path or "/"
    service = config.service
    if service is None:
        raise WebhookError("webhook configuration must have either service or URL")
    path = service.path or "/"
    return f"https://{service.name}.{service.namespace}.svc:{service.port or _HTTPS}{path}", path


def make_address_lookup(objects: Objects) -> Addresses:
    """Return a function that looks up a Service's ready addresses in the stored EndpointSlices."""

    async def find_ready_addresses(namespace: str, name: str, port: int) -> list[tuple[str, int]]:
        service = await objects.get(core_v1.Service, name, namespace)
        if service is None:
            raise WebhookError(f'service "{name}" not found')
        if service.spec.type == "ExternalName":
            return [(service.spec.external_name, port)]
        port_name = next((each.name for each in service.spec.ports if each.port == port), None)
        if port_name is None:
            raise WebhookError(f'no service port {port} found for service "{name}"')
        found: list[tuple[str, int]] = []
        for each in await objects.list(EndpointSlice, namespace):
            if each.metadata.labels.get(_SERVICE_LABEL) != name:
                continue
            target = next((known.port for known in each.ports if (known.name or "") == port_name and known.port), None)
            if target is not None:
                ready = [endpoint for endpoint in each.endpoints if endpoint.conditions.ready is not False]
                found += [(address, target) for endpoint in ready for address in endpoint.addresses]
        return found

    return find_ready_addresses
