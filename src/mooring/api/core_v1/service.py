"""Service and Endpoints: a stable name for a changing set of pods."""

from typing import Annotated, ClassVar

from msgspec import field

from mooring.api.base import Int32, IntOrString, Merge, Object, always, atomic, list_map, required
from mooring.api.core_v1.references import ObjectReference
from mooring.api.meta_v1 import Condition, Resource


class ServicePort(Object):
    """A port of a service."""

    name: str = ""
    """The name of the port, needed when there are several."""
    protocol: str = ""
    app_protocol: str | None = None
    port: Int32 = required(int)
    target_port: IntOrString = always(int)
    """The number or name of the pods' port; the service's own port when absent."""
    node_port: Int32 = 0
    """The port of every node that leads to the service."""


class ClientIPConfig(Object):
    """Affinity by the client's address."""

    timeout_seconds: Int32 | None = None
    """How long the affinity lasts."""


class SessionAffinityConfig(Object):
    """Options of the session affinity."""

    client_ip: ClientIPConfig | None = field(default=None, name="clientIP")


class ServiceSpec(Object):
    """The desired state of a Service: selector, ports, addresses and traffic policies."""

    ports: Annotated[list[ServicePort], list_map("port", "protocol")] = []
    selector: Annotated[dict[str, str], atomic()] = {}
    """Labels of the pods that the service routes to."""
    cluster_ip: str = field(default="", name="clusterIP")
    """The address of the service; None for a headless service."""
    cluster_ips: list[str] = field(default_factory=list, name="clusterIPs")
    """The addresses of the service, at most one of each family."""
    type: str = ""
    """ClusterIP, NodePort, LoadBalancer or ExternalName."""
    external_ips: list[str] = field(default_factory=list, name="externalIPs")
    """Further addresses at which nodes accept traffic."""
    session_affinity: str = ""
    """ClientIP or None."""
    load_balancer_ip: str = field(default="", name="loadBalancerIP")
    """Deprecated: the address that the load balancer should have."""
    load_balancer_source_ranges: list[str] = []
    """The networks of clients that the load balancer lets in."""
    external_name: str = ""
    """The name that an ExternalName service stands for."""
    external_traffic_policy: str = ""
    """Whether traffic from outside stays on its node: Cluster or Local."""
    health_check_node_port: Int32 = 0
    """The port at which nodes say whether they have pods of the service."""
    publish_not_ready_addresses: bool = False
    """Whether pods are listed before they are ready."""
    session_affinity_config: SessionAffinityConfig | None = None
    ip_families: list[str] = []
    """IPv4, IPv6 or both, in order of preference."""
    ip_family_policy: str | None = None
    """SingleStack, PreferDualStack or RequireDualStack."""
    allocate_load_balancer_node_ports: bool | None = None
    """Whether a LoadBalancer service gets node ports."""
    load_balancer_class: str | None = None
    """The implementation of the load balancer."""
    internal_traffic_policy: str | None = None
    """Whether traffic from inside stays on its node: Cluster or Local."""
    traffic_distribution: str | None = None
    """A preference for near endpoints, such as PreferSameZone."""


class PortStatus(Object):
    """The state of a port of a load balancer."""

    port: Int32 = required(int)
    protocol: str = required(str)
    error: str | None = None
    """The error, in CamelCase."""


class LoadBalancerIngress(Object):
    """An address of a load balancer."""

    ip: str = ""
    hostname: str = ""
    """The name, for load balancers that have one instead."""
    ip_mode: str | None = None
    """How traffic arrives: VIP or Proxy."""
    ports: list[PortStatus] = []
    """The state of each port."""


class LoadBalancerStatus(Object):
    """The state of a load balancer."""

    ingress: list[LoadBalancerIngress] = []
    """The addresses of the load balancer."""


class ServiceStatus(Object):
    """The state of a service."""

    load_balancer: LoadBalancerStatus = always(LoadBalancerStatus)
    conditions: Annotated[list[Condition], list_map("type")] = []


class Service(Resource):
    """A stable name and address for a changing set of pods."""

    spec: ServiceSpec = always(ServiceSpec)
    status: ServiceStatus = always(ServiceStatus)


class EndpointAddress(Object):
    """An endpoint address of a service."""

    __merge__: ClassVar[Merge | None] = atomic()

    ip: str = required(str)
    hostname: str = ""
    """The host name of the endpoint."""
    node_name: str | None = None
    target_ref: ObjectReference | None = None
    """The pod with this address."""


class EndpointPort(Object):
    """A port of the endpoints of a service."""

    __merge__: ClassVar[Merge | None] = atomic()

    name: str = ""
    """The name of the service's port."""
    port: Int32 = required(int)
    protocol: str = ""
    app_protocol: str | None = None


class EndpointSubset(Object):
    """Addresses that all have the same ports."""

    addresses: list[EndpointAddress] = []
    """Addresses that are ready."""
    not_ready_addresses: list[EndpointAddress] = []
    ports: list[EndpointPort] = []
    """The ports of all of them."""


class Endpoints(Resource):
    """The endpoint addresses of a service. Deprecated: EndpointSlices scale better."""

    subsets: list[EndpointSubset] = []
    """The addresses, grouped by ports."""


class RangeAllocation(Resource):
    """The allocated numbers of a range, as a set of bits. Only the API server itself uses it."""

    range: str = required(str)
    """The range, as 30000-32767."""
    data: bytes = required(bytes)
    """A bit for each number."""
