"""discovery.k8s.io/v1: EndpointSlice, a subset of a service's endpoint addresses."""

from typing import Annotated, ClassVar

from mooring.api.base import Int32, Merge, Object, always, atomic, list_set, required
from mooring.api.core_v1 import ObjectReference
from mooring.api.meta_v1 import Resource


class EndpointConditions(Object):
    """The state of an endpoint."""

    ready: bool | None = None
    """Whether it takes traffic; unknown, when absent, means yes."""
    serving: bool | None = None
    """As ready, but true also while it ends."""
    terminating: bool | None = None
    """Whether it is about to end."""


class ForZone(Object):
    """A zone that should use an endpoint."""

    name: str = required(str)
    """The zone."""


class ForNode(Object):
    """A node that should use an endpoint."""

    name: str = required(str)
    """The node."""


class EndpointHints(Object):
    """Hints which consumers should use an endpoint."""

    for_zones: list[ForZone] = []
    """The zones that should use it."""
    for_nodes: list[ForNode] = []
    """The nodes that should use it."""


class Endpoint(Object):
    """One backend of a service."""

    addresses: Annotated[list[str], list_set(patch_merge=False)] = required(list)
    """The addresses of the endpoint, which are interchangeable."""
    conditions: EndpointConditions = always(EndpointConditions)
    hostname: str | None = None
    """The host name of the endpoint."""
    target_ref: ObjectReference | None = None
    """The pod of the endpoint."""
    deprecated_topology: dict[str, str] = {}
    """Topology labels in the older shape."""
    node_name: str | None = None
    zone: str | None = None
    hints: EndpointHints | None = None


class EndpointPort(Object):
    """A port of all endpoints of a slice."""

    __merge__: ClassVar[Merge | None] = atomic()

    name: str | None = None
    """The name of the service's port."""
    protocol: str | None = None
    port: Int32 | None = None
    """The number of the port; all ports when absent."""
    app_protocol: str | None = None


class EndpointSlice(Resource):
    """A subset of a service's endpoint addresses, all with the same ports."""

    address_type: str = required(str)
    """IPv4, IPv6 or FQDN; it cannot be changed."""
    endpoints: list[Endpoint] = always(list)
    """The backends."""
    ports: list[EndpointPort] = always(list)
    """The ports of all of them."""
