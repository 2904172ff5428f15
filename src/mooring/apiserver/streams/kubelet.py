"""What the kubelet of a node answers: the interface that real and simulated nodes share. Read ``streams.py`` first."""

from typing import Protocol

import msgspec

from mooring.api.core_v1 import Node, Pod
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.streams.questions import LogOptions


class Place(msgspec.Struct, frozen=True):
    """Where a question goes: a node, and for most of them a pod on it and one of its containers."""

    node: Node
    pod: Pod
    container: str = ""


class Proxied(msgspec.Struct, frozen=True):
    """A request that is passed on as it is, to a port of a pod or a node."""

    request: Request
    path: str
    """What is asked for, from its first slash."""
    below: str
    """What stands before that path in the address that the client used."""
    scheme: str = ""
    port: str = ""
    """Empty for the kubelet's own, or the first that the pod names."""
    client: str = ""
    """Where the request came from."""


class Kubelet(Protocol):
    """Answers for a node. Every method raises a `StatusError` for the client when there is no answer."""

    async def log(self, place: Place, options: LogOptions) -> Response:
        """The log of a container; what is followed comes in pieces."""
        ...

    async def connect(self, place: Place, subresource: str, request: Request) -> Response:
        """`exec`, `attach` or `portforward`: a response that takes the connection over."""
        ...

    async def proxy_pod(self, place: Place, proxied: Proxied) -> Response: ...

    async def proxy_node(self, node: Node, proxied: Proxied) -> Response: ...
