"""`RealKubelets` sends requests to the kubelets of real nodes, and proxies to ports of nodes and pods.

Paths and parameters are the kubelet's (`/containerLogs`, `/exec`, …). Upgraded connections are relayed unchanged. The
newest WebSocket protocols (`v5.channel.k8s.io`, and SPDY within WebSockets for ports) are offered only to kubelets that
declare `ExtendWebSocketsToKubelet`; with others kubectl falls back to SPDY.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Sequence
from urllib.parse import quote, urlencode

import msgspec
from msgspec import structs

from mooring.api import errors, times
from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import Status
from mooring.api.quoting import go_quote
from mooring.apiserver.messages.connection import Connection, relay
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.streams.kubelet import KubeletTarget, ProxiedRequest
from mooring.apiserver.streams.query_options import LogOptions, read_command_options, read_ports
from mooring.apiserver.streams.real.html_links import rewrite_page
from mooring.apiserver.streams.real.http_call import CONNECT_SECONDS, Address, CallError, NodeResponse, send
from mooring.apiserver.streams.real.tls import KubeletTls, unverified_context
from mooring.base.http_head import HeadError

KUBELET_PORT = 10250
_DECLARED = "ExtendWebSocketsToKubelet"
_NEW_PROTOCOLS = ("v5.channel.k8s.io", "SPDY/3.1+")
_PROTOCOLS = "sec-websocket-protocol"
_SPDY_PROTOCOLS = "x-stream-protocol-version"
_NOT_FORWARDED = frozenset(
    {"authorization", "connection", "content-length", "expect", "host", "keep-alive", "proxy-authenticate"}
    | {"proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers that are not proxied: those of one connection, and the client's credentials for this server."""
_OF_CORS = "access-control-allow-"
_PATH_CHARACTERS = "/:~!$&'()*+,;=@"
"""Characters of a path that are not percent-encoded."""
_NAT64 = ipaddress.IPv6Address("64:ff9b::").packed[:12]
_NOT_EMBEDDED = (bytes(4), b"\0\0\0\1")
"""The last bytes of `::` and `::1`, which are IPv6 addresses without an IPv4 address in them."""


class RealKubelets:
    """The `Kubelet` of all real nodes: each request is sent to the kubelet of its node, or to a pod's port."""

    def __init__(self, tls: KubeletTls, address_types: Sequence[str]) -> None:
        self._tls = tls
        self._address_types = address_types

    async def log(self, target: KubeletTarget, options: LogOptions) -> Response:
        metadata = target.pod.metadata
        path = f"/containerLogs/{metadata.namespace}/{metadata.name}/{target.container}"
        if query := urlencode(_build_log_query(options)):
            path += f"?{query}"
        answer = await self._send_to_kubelet(target.node, "GET", path, insecure=options.insecure)
        if not 200 <= answer.status <= 206:
            raise await _read_status_error(answer)
        return Response(200, answer, "text/plain")

    async def connect(self, target: KubeletTarget, subresource: str, request: Request) -> Response:
        path = f"{_build_stream_path(target, subresource)}?{urlencode(_build_stream_query(subresource, request))}"
        headers = _forwarded_headers(request)
        if target.node.status.declared_features.count(_DECLARED) == 0:
            headers = _without_new_protocols(headers)
        return await _relay_upgraded(await self._send_to_kubelet(target.node, request.method, path, headers))

    async def proxy_node(self, node: Node, proxied: ProxiedRequest) -> Response:
        host, port = self._kubelet_address(node), _kubelet_port(node)
        tls: ssl.SSLContext | None = self._tls.for_kubelets()
        if proxied.port not in {"", str(port)}:
            port, tls = _parse_port(proxied.port), unverified_context() if proxied.scheme == "https" else None
        address = Address(host, port, tls, await resolve_proxied(host))
        return await proxy_request(address, proxied, node.metadata.name)

    async def proxy_pod(self, target: KubeletTarget, proxied: ProxiedRequest) -> Response:
        tls = unverified_context() if proxied.scheme == "https" else None
        port = proxied.port or _first_container_port(target.pod) or ("443" if tls else "80")
        host = _pod_address(target.pod)
        address = Address(host, _parse_port(port), tls, await resolve_proxied(host))
        return await proxy_request(address, proxied, target.pod.metadata.name)

    async def _send_to_kubelet(
        self, node: Node, method: str, path: str, headers: Sequence[tuple[str, str]] = (), *, insecure: bool = False
    ) -> NodeResponse:
        address = Address(self._kubelet_address(node), _kubelet_port(node), self._tls.for_kubelets(insecure=insecure))
        try:
            return await send(address, method, path, headers)
        except (CallError, HeadError) as error:
            name = go_quote(node.metadata.name)
            raise errors.service_unavailable(f"the kubelet of node {name} does not answer: {error}") from None

    def _kubelet_address(self, node: Node) -> str:
        """Return a node's address of the preferred type; raise ServiceUnavailable if it has none."""
        for kind in self._address_types:
            for each in node.status.addresses:
                if each.type == kind and each.address:
                    return each.address
        known = ", ".join(f"{each.type} {each.address}" for each in node.status.addresses) or "none"
        wanted = ", ".join(self._address_types)
        raise errors.service_unavailable(
            f"node {go_quote(node.metadata.name)} has no address of the types {wanted}; its addresses: {known}"
        )


def _kubelet_port(node: Node) -> int:
    return node.status.daemon_endpoints.kubelet_endpoint.port or KUBELET_PORT


def _pod_address(pod: Pod) -> str:
    """Return the pod's IP address; raise BadRequest if it has none yet."""
    try:
        return str(ipaddress.ip_address(pod.status.pod_ip))
    except ValueError:
        raise errors.bad_request("address not allowed") from None


async def resolve_proxied(host: str) -> list[str]:
    """Return the IP addresses of a host name; raise BadRequest if proxying to one is not allowed.

    Loopback, link-local, multicast and unspecified addresses are not: a user who may write an address into a status
    could reach local services of this machine, in any notation (`127.1`, `::ffff:127.0.0.1`, a name). Callers connect
    to the returned addresses: a second lookup may differ.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        raise errors.service_unavailable(f"the address {go_quote(host)} cannot be resolved") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not all(_may_be_proxied(address) for address in addresses):
        raise errors.bad_request("address not allowed")
    return addresses


def _may_be_proxied(text: str) -> bool:
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address.sixtofour or _embedded_ipv4(address) or address
    return not (address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified)


def _embedded_ipv4(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address inside an IPv4-compatible (`::127.0.0.1`) or NAT64 (`64:ff9b::…`) one; else None."""
    packed = address.packed
    if packed[:12] not in {bytes(12), _NAT64} or packed[12:] in _NOT_EMBEDDED:
        return None
    return ipaddress.IPv4Address(packed[12:])


def _first_container_port(pod: Pod) -> str:
    return next((str(port.container_port) for each in pod.spec.containers for port in each.ports), "")


def _parse_port(port: str) -> int:
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        raise errors.bad_request(f"{go_quote(port)} is not a port: write a number from 1 to 65535")
    return int(port)


# -- requests


def _build_log_query(options: LogOptions) -> list[tuple[str, str]]:
    fields = msgspec.to_builtins(structs.replace(options, insecure=False, since_time=None))
    if options.since_time is not None:
        fields["sinceTime"] = times.to_seconds(options.since_time)
    return [(name, "true" if value is True else str(value)) for name, value in fields.items()]


def _build_stream_path(target: KubeletTarget, subresource: str) -> str:
    metadata = target.pod.metadata
    if subresource == "portforward":
        return f"/portForward/{metadata.namespace}/{metadata.name}"
    return f"/{subresource}/{metadata.namespace}/{metadata.name}/{target.container}"


def _build_stream_query(subresource: str, request: Request) -> list[tuple[str, str]]:
    if subresource == "portforward":
        found = read_ports(request)
        return [("port", ",".join(map(str, found)))] if found else []
    options = read_command_options(request)
    flags = {"input": options.stdin, "output": options.stdout, "error": options.stderr, "tty": options.tty}
    query = [(name, "1") for name, wanted in flags.items() if wanted]
    return [*query, *(("command", word) for word in options.command)]


def _forwarded_headers(request: Request) -> list[tuple[str, str]]:
    headers = [
        (name, value)
        for name, value in request.headers.items()
        if name not in _NOT_FORWARDED and not name.startswith("impersonate-") and name != _SPDY_PROTOCOLS
    ]
    protocols = (each.strip() for each in request.headers.get(_SPDY_PROTOCOLS, "").split(","))
    headers += ((_SPDY_PROTOCOLS, each) for each in protocols if each)  # older kubelets want a line each
    if request.upgrade:
        headers += [("connection", "Upgrade"), ("upgrade", request.headers["upgrade"])]
    return headers


def _without_new_protocols(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    kept = []
    for name, value in headers:
        if name == _PROTOCOLS:
            known = [word.strip() for word in value.split(",") if not word.strip().startswith(_NEW_PROTOCOLS)]
            if not known:
                raise errors.bad_request(
                    f"the kubelet does not declare {_DECLARED}: use SPDY/3.1, or v4.channel.k8s.io over WebSocket"
                )
            value = ", ".join(known)  # noqa: PLW2901 - the same header
        kept.append((name, value))
    return kept


# -- responses


async def _relay_upgraded(answer: NodeResponse) -> Response:
    """Return a response that relays an upgraded connection to the client; else raise the kubelet's error."""
    if answer.status != 101:
        if answer.status < 400:
            await answer.text()
            raise errors.internal_error(f"invalid upgrade response: status code {answer.status}")
        content_type = answer.headers.get("content-type", "text/plain")
        return Response(answer.status, await answer.text(), content_type)
    kubelet, early = answer.take_connection()

    async def take_over(client: Connection) -> None:
        if early:
            await client.write(early)
        await relay(client, kubelet)

    return Response(101, answer, headers=answer.headers, take_over=take_over)


async def proxy_request(address: Address, proxied: ProxiedRequest, name: str) -> Response:
    """Forward a client's request to an address of the pod or node `name`; return the response.

    Raise BadRequest for a header that HTTP does not allow, ServiceUnavailable if the address does not respond.
    """
    request = proxied.request
    path = quote(proxied.path, safe=_PATH_CHARACTERS)
    headers = [*_forwarded_headers(request), ("x-forwarded-uri", quote(proxied.below, safe=_PATH_CHARACTERS) + path)]
    pairs = [(key, value) for key, values in request.query.items() for value in values]
    if pairs:
        path += f"?{urlencode(pairs)}"
    if proxied.client:
        headers.append(("x-forwarded-for", proxied.client))
    try:
        answer = await send(address, request.method, path, headers, request.body)
    except HeadError as error:
        raise errors.bad_request(str(error)) from None
    except CallError as error:
        raise errors.service_unavailable(f"error trying to reach {go_quote(name)}: {error}") from None
    if request.upgrade:
        return await _relay_upgraded(answer)
    if answer.status == 101:  # a proxy in front of this server would treat the connection as a tunnel
        await answer.aclose()
        raise errors.service_unavailable(f"error trying to reach {go_quote(name)}: it changes the protocol unasked")
    return await _respond_through_proxy(answer, proxied, address)


async def _respond_through_proxy(answer: NodeResponse, proxied: ProxiedRequest, address: Address) -> Response:
    """Return a proxied server's response, in which links and redirects to that server lead to the proxy."""
    kept = {
        key: value
        for key, value in answer.headers.items()
        if key not in _NOT_FORWARDED and key != "content-type" and not key.startswith(_OF_CORS)
    }
    if "location" in kept:
        kept["location"] = _rewrite_link(kept["location"], proxied, address)
    content_type = answer.headers.get("content-type", "application/octet-stream")
    if answer.status in {204, 304}:
        await answer.aclose()
        return Response(answer.status, b"", content_type, kept)
    if content_type.partition(";")[0].strip() == "text/html" and "content-encoding" not in kept:
        page = rewrite_page(answer, lambda link: _rewrite_link(link, proxied, address))
        return Response(answer.status, page, content_type, kept)
    return Response(answer.status, answer, content_type, kept)


def _rewrite_link(location: str, proxied: ProxiedRequest, address: Address) -> str:
    """Return a link that leads to the proxied server as one to the proxy; other links unchanged."""
    for own in (f"https://{address}", f"http://{address}"):
        location = location.removeprefix(own)
    is_outside = not location.startswith("/") or location.startswith(("//", proxied.below))
    return location if is_outside else f"{proxied.below}{location}"


async def _read_status_error(answer: NodeResponse) -> errors.StatusError:
    """Return the Status error for a kubelet's plain-text error, with the same code and text."""
    text = (await answer.text()).decode(errors="replace").strip() or f"status {answer.status}"
    if answer.status == 500:
        return errors.internal_error(text)
    status = Status(kind="Status", api_version="v1", status="Failure", message=text, code=answer.status)
    found = errors.from_status(status)
    status.reason = found.reason
    return found
