"""`Kubelet`, the interface that real and simulated nodes implement, and `Kubelets`, which finds the one of a node.

Both implementations are imported at their first use: most servers need neither, and WebSockets are slow to import.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import msgspec

from mooring.api.core_v1 import Node, Pod
from mooring.api.simulation import is_simulated
from mooring.apiserver.access.pki import KeyPair
from mooring.apiserver.access.tokens import ServiceAccountTokens
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.registry.storage.objects import Objects
from mooring.apiserver.streams.parameters import KubeletOptions
from mooring.apiserver.streams.query_options import LogOptions
from mooring.base.clock import Clock


class KubeletTarget(msgspec.Struct, frozen=True):
    """The container, pod and node that a request to a kubelet is about."""

    node: Node
    pod: Pod
    container: str = ""


class ProxiedRequest(msgspec.Struct, frozen=True):
    """A client's request for forwarding to a port of a pod or node, with the path there."""

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
    """The interface of a kubelet, real or simulated. Methods raise a `StatusError` if there is no response."""

    async def log(self, target: KubeletTarget, options: LogOptions) -> Response:
        """Return a response with the log of a container; with `follow`, in pieces as lines are written."""
        ...

    async def connect(self, target: KubeletTarget, subresource: str, request: Request) -> Response:
        """Return the response to exec, attach or port-forward; it takes over the client's connection."""
        ...

    async def proxy_pod(self, target: KubeletTarget, proxied: ProxiedRequest) -> Response: ...

    async def proxy_node(self, node: Node, proxied: ProxiedRequest) -> Response: ...


class Kubelets:
    """Returns the kubelet for a node, real or simulated. `identity` is the client certificate for real ones."""

    def __init__(
        self,
        objects: Objects,
        clock: Clock,
        identity: Callable[[], KeyPair],
        options: KubeletOptions,
        tokens: ServiceAccountTokens,
    ) -> None:
        self._objects = objects
        self._tokens = tokens
        self._clock = clock
        self._identity = identity
        self._options = options

    def find_kubelet(self, node: Node) -> Kubelet:
        return self._simulated if is_simulated(node) else self._real

    @cached_property
    def _simulated(self) -> Kubelet:
        from mooring.apiserver.streams.simulated.kubelet import SimulatedKubelet  # noqa: PLC0415 - as said above

        programs = None
        if self._options.programs is not None:
            from mooring.apiserver.streams.simulated.programs import ProgramStreams  # noqa: PLC0415 - as said above

            programs = ProgramStreams(self._options.programs, self._real)
        return SimulatedKubelet(self._objects, self._clock, self._tokens.issue, programs)

    @cached_property
    def _real(self) -> Kubelet:
        from mooring.apiserver.streams.real.kubelets import RealKubelets  # noqa: PLC0415 - as said above
        from mooring.apiserver.streams.real.tls import KubeletTls  # noqa: PLC0415 - as said above

        tls = KubeletTls(self._identity, self._options.certificate_authority, self._clock)
        return RealKubelets(tls, self._options.address_types)
