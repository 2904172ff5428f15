"""Requests that a kubelet answers: `Streams.handle` finds the pod and its node, and calls the node's kubelet.

    pods/web/log · exec · attach · portforward        the kubelet of the pod's node
    pods/web:8080/proxy/…                             a port of the pod
    nodes/n1/proxy/…                                  the kubelet itself, or another port of the node
    services/web:http/proxy/…                         a port of one of the service's ready pods

Requests were authorized by subresource before. Read next: ``kubelet.py``.
"""

import random
from urllib.parse import quote

from mooring.api import errors
from mooring.api.core_v1 import Node, Pod, Service
from mooring.api.discovery_v1 import Endpoint, EndpointSlice
from mooring.api.quoting import go_quote
from mooring.apiserver.access.authz import Attributes, Authorizer, require
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.messages.routes import ResourceRoute
from mooring.apiserver.registry.storage.objects import Objects
from mooring.apiserver.streams.kubelet import Kubelets, KubeletTarget, ProxiedRequest
from mooring.apiserver.streams.query_options import find_container_name, read_log_options

_SCHEMES = frozenset({"", "http", "https"})
_SERVICE = "kubernetes.io/service-name"


class Streams:
    """Handles requests that kubelets serve: logs, exec, attach, port-forward, and proxies to pods and nodes."""

    def __init__(self, objects: Objects, authorizer: Authorizer, kubelets: Kubelets, *, needs_create: bool) -> None:
        self._objects = objects
        self._authorizer = authorizer
        self._kubelets = kubelets
        self._needs_create = needs_create

    async def handle(self, request: Request, route: ResourceRoute, client: str = "") -> Response:
        """Return a kubelet's response to a request; raise a `StatusError` if pod, node or kubelet refuse it."""
        verb = route.verb(request)
        subresource = route.kind.subresource(route.subresource)
        if route.subresource == "proxy":  # the proxied server decides about methods
            return await self._respond_from_proxied(request, route, client)
        if subresource is None or verb not in subresource.verbs:
            raise errors.method_not_allowed(verb, route.resource, group=route.group)
        pod = await self._get_pod(route.namespace, route.name)
        if route.subresource == "log":
            return await self._respond_with_log(request, route, pod)
        self._require_create(request, route, verb)
        if not request.upgrade:
            raise errors.bad_request("Upgrade request required")
        container = "" if route.subresource == "portforward" else find_container_name(request, pod)
        target = await self._find_target(pod, container)
        if target is None:
            raise errors.bad_request(f"pod {route.name} does not have a host assigned")
        return await self._kubelets.find_kubelet(target.node).connect(target, route.subresource, request)

    async def _respond_with_log(self, request: Request, route: ResourceRoute, pod: Pod) -> Response:
        options = read_log_options(request, route.name)
        target = await self._find_target(pod, find_container_name(request, pod))
        over_websocket = None
        if request.upgrade:
            from mooring.apiserver.streams.log_messages import negotiate_log_messages  # noqa: PLC0415 - loads long, is needed rarely

            over_websocket = negotiate_log_messages(request)
        log = Response(200, b"", "text/plain")  # a pod without a node has logged nothing
        if target is not None:
            log = await self._kubelets.find_kubelet(target.node).log(target, options)
        return over_websocket(log) if over_websocket else log

    def _require_create(self, request: Request, route: ResourceRoute, verb: str) -> None:
        """Raise Forbidden unless the user has the verb `create`, which exec and attach need even as a GET."""
        if verb == "create" or not self._needs_create:
            return
        attributes = Attributes("create", route.group, route.resource, route.subresource, route.namespace, route.name)
        require(self._authorizer, request.user, attributes)

    # -- targets

    async def _get_pod(self, namespace: str, name: str) -> Pod:
        pod = await self._objects.get(Pod, name, namespace)
        if pod is None:
            raise errors.not_found("pods", name)
        return pod

    async def _get_node(self, name: str) -> Node:
        node = await self._objects.get(Node, name)
        if node is None:
            raise errors.not_found("nodes", name)
        return node

    async def _find_target(self, pod: Pod, container: str = "") -> KubeletTarget | None:
        """Return the node of a pod, with pod and container; None if the pod is not bound to a node."""
        if not pod.spec.node_name:
            return None
        return KubeletTarget(await self._get_node(pod.spec.node_name), pod, container)

    # -- proxies

    async def _respond_from_proxied(self, request: Request, route: ResourceRoute, client: str) -> Response:
        scheme, name, port = _split_proxied_name(route)
        below = request.path.removesuffix(route.path) if route.path else request.path
        if not route.path and not request.upgrade and request.method in {"GET", "HEAD"}:
            location = f"{quote(request.path)}/"  # so that relative links work
            return Response(301, b"", "text/plain", {"location": location})
        proxied = ProxiedRequest(request, route.path or "/", below, scheme, port, client)
        match route.resource:
            case "nodes":
                node = await self._get_node(name)
                return await self._kubelets.find_kubelet(node).proxy_node(node, proxied)
            case "pods":
                pod = await self._get_pod(route.namespace, name)
            case _:
                pod, port = await self._pick_ready_pod(route.namespace, name, port)
                proxied = ProxiedRequest(request, proxied.path, below, scheme, port, client)
        target = await self._find_target(pod)
        if target is None:
            raise errors.bad_request("address not allowed")  # Kubernetes' words for a pod without an address
        return await self._kubelets.find_kubelet(target.node).proxy_pod(target, proxied)

    async def _pick_ready_pod(self, namespace: str, name: str, port: str) -> tuple[Pod, str]:
        """Return a random ready pod of a Service, and the number of its port. Raise NotFound or ServiceUnavailable."""
        service = await self._objects.get(Service, name, namespace)
        if service is None:
            raise errors.not_found("services", name)
        if port.isdecimal():
            names = [each.name for each in service.spec.ports if str(each.port) == port]
            if not names:
                raise errors.service_unavailable(f"no service port {port} found for service {go_quote(name)}")
            port = names[0]
        slices = await self._objects.list(EndpointSlice, namespace)
        found = [
            (endpoint, str(each.port))
            for slice_ in slices
            if slice_.metadata.labels.get(_SERVICE) == name
            for each in slice_.ports
            if (each.name or "") == port and each.port
            for endpoint in slice_.endpoints
            if _is_ready_pod(endpoint)
        ]
        random.shuffle(found)
        for endpoint, number in found:
            reference = endpoint.target_ref
            pod = await self._objects.get(Pod, reference.name, namespace) if reference else None
            if pod is not None:
                return pod, number
        raise errors.service_unavailable(f"no endpoints available for service {go_quote(name)}")


def _is_ready_pod(endpoint: Endpoint) -> bool:
    reference = endpoint.target_ref
    return endpoint.conditions.ready is not False and reference is not None and reference.kind == "Pod"


def _split_proxied_name(route: ResourceRoute) -> tuple[str, str, str]:
    """Return scheme, name and port of a proxied `web`, `web:8080` or `https:web:8443`, empty where absent.

    Raise BadRequest for a malformed name.
    """
    parts = route.name.split(":")
    if len(parts) < 3:
        parts = ["", *parts, ""][:3]
    if len(parts) != 3 or not parts[1] or parts[0] not in _SCHEMES:
        raise errors.bad_request(f"invalid {route.kind.singular} request {go_quote(route.name)}")
    return parts[0], parts[1], parts[2]
