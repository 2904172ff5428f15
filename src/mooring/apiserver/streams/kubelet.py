"""The interface of kubelets, which real and simulated nodes implement. Read ``streams.py`` first."""

from typing import Protocol

import msgspec

from mooring.api.core_v1 import Node, Pod
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.streams.questions import LogOptions


class Place(msgspec.Struct, frozen=True):
    """The target of a request to a kubelet: a node, and usually a pod and a container on it."""

    node: Node
    pod: Pod
    container: str = ""


class Proxied(msgspec.Struct, frozen=True):
    """A request to be proxied to a port of a pod or a node."""

    request: Request
    path: str
    """The path for the proxied server."""
    below: str
    """The client's path up to the proxied one."""
    scheme: str = ""
    port: str = ""
    """The port to proxy to; empty for the kubelet's port, or the first port of the pod's containers."""
    client: str = ""


class Kubelet(Protocol):
    """Answers requests to nodes. Methods raise a `StatusError` for the client if there is no response."""

    async def log(self, place: Place, options: LogOptions) -> Response:
        """Return the log of a container; a followed log comes in pieces."""
        ...

    async def connect(self, place: Place, subresource: str, request: Request) -> Response:
        """Return the response to `exec`, `attach` or `portforward`, which takes the connection over."""
        ...

    async def proxy_pod(self, place: Place, proxied: Proxied) -> Response: ...

    async def proxy_node(self, node: Node, proxied: Proxied) -> Response: ...
