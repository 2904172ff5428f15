"""networking.k8s.io/v1: Ingress and IngressClass, NetworkPolicy, and the addresses of Services.

Mooring stores and checks these kinds; what they ask for is done by others: an ingress controller, a network plugin.
Only ServiceCIDR and IPAddress are its own: they are how the API server hands out cluster IPs.
"""

from typing import Annotated, ClassVar

from msgspec import field

from mooring.api.base import Int32, IntOrString, Merge, Object, always, atomic, list_map, required
from mooring.api.core_v1 import TypedLocalObjectReference
from mooring.api.meta_v1 import Condition, LabelSelector, Resource


class ServiceBackendPort(Object):
    """A port of a service, by name or by number."""

    __merge__: ClassVar[Merge | None] = atomic()

    name: str = ""
    number: Int32 = 0


class IngressServiceBackend(Object):
    """A service that requests go to."""

    name: str = required(str)
    """The service, in the namespace of the Ingress."""
    port: ServiceBackendPort = always(ServiceBackendPort)


class IngressBackend(Object):
    """The target of requests: a service or another resource."""

    service: IngressServiceBackend | None = None
    resource: TypedLocalObjectReference | None = None


class HTTPIngressPath(Object):
    """Requests with a path, and where they go."""

    path: str = ""
    """The path, beginning with a slash."""
    path_type: str | None = required(lambda: None)
    """Exact, Prefix or ImplementationSpecific."""
    backend: IngressBackend = required(IngressBackend)


class HTTPIngressRuleValue(Object):
    """The paths of a rule."""

    paths: list[HTTPIngressPath] = required(list)
    """Which path goes where."""


class IngressRule(Object):
    """The requests for a host, and where they go."""

    host: str = ""
    """The name of the host, perhaps with a wildcard as its first label; all hosts when empty."""
    http: HTTPIngressRuleValue | None = None


class IngressTLS(Object):
    """Hosts that are served with a certificate."""

    hosts: list[str] = []
    """The hosts that the certificate names."""
    secret_name: str = ""
    """The Secret with certificate and key."""


class IngressSpec(Object):
    """The rules by which requests from outside are routed."""

    ingress_class_name: str | None = None
    """The IngressClass, whose controller does the work."""
    default_backend: IngressBackend | None = None
    """Where requests go that no rule is about."""
    tls: list[IngressTLS] = []
    """The hosts with certificates."""
    rules: list[IngressRule] = []
    """Which host goes where."""


class IngressPortStatus(Object):
    """The state of a port of a load balancer."""

    port: Int32 = required(int)
    protocol: str = required(str)
    error: str | None = None


class IngressLoadBalancerIngress(Object):
    """A way in: an address or a name of a load balancer."""

    ip: str = ""
    hostname: str = ""
    ports: list[IngressPortStatus] = []
    """The state of its ports."""


class IngressLoadBalancerStatus(Object):
    """The state of a load balancer."""

    ingress: list[IngressLoadBalancerIngress] = []
    """The ways in."""


class IngressStatus(Object):
    """The state of an Ingress."""

    load_balancer: IngressLoadBalancerStatus = always(IngressLoadBalancerStatus)


class Ingress(Resource):
    """Rules by which requests from outside reach services."""

    spec: IngressSpec = always(IngressSpec)
    status: IngressStatus = always(IngressStatus)


class IngressClassParametersReference(Object):
    """An object with further parameters of a class."""

    api_group: str | None = None
    kind: str = required(str)
    name: str = required(str)
    scope: str | None = None
    """Cluster or Namespace."""
    namespace: str | None = None
    """The namespace of the parameters, if the scope is Namespace."""


class IngressClassSpec(Object):
    """The controller of the Ingresses of a class."""

    controller: str = ""
    """The controller, as a path under a domain; it cannot be changed."""
    parameters: IngressClassParametersReference | None = None


class IngressClass(Resource):
    """A class of Ingresses that one controller implements."""

    spec: IngressClassSpec = always(IngressClassSpec)


class NetworkPolicyPort(Object):
    """A port or a range of ports."""

    protocol: str | None = None
    port: IntOrString | None = None
    """The number, or the name of a port of the pods; all ports when absent."""
    end_port: Int32 | None = None
    """The end of a range that begins with `port`."""


class IPBlock(Object):
    """Addresses in a network."""

    cidr: str = required(str)
    """The network."""
    except_: list[str] = field(default_factory=list, name="except")
    """Parts of it that do not belong to the block."""


class NetworkPolicyPeer(Object):
    """A peer of traffic: pods or an address block."""

    pod_selector: LabelSelector | None = None
    """Pods by their labels."""
    namespace_selector: LabelSelector | None = None
    """Namespaces of the pods by their labels; the policy's own when absent."""
    ip_block: IPBlock | None = None


class NetworkPolicyIngressRule(Object):
    """Traffic that may come in."""

    ports: list[NetworkPolicyPort] = []
    """To which ports; any when empty."""
    from_: list[NetworkPolicyPeer] = field(default_factory=list, name="from")
    """Allowed sources; all if empty."""


class NetworkPolicyEgressRule(Object):
    """Traffic that may go out."""

    ports: list[NetworkPolicyPort] = []
    """To which ports; any when empty."""
    to: list[NetworkPolicyPeer] = []
    """Allowed destinations; all if empty."""


class NetworkPolicySpec(Object):
    """The pods that a policy selects, and the traffic that they may have."""

    pod_selector: LabelSelector = always(LabelSelector)
    """The pods; all of the namespace when empty."""
    ingress: list[NetworkPolicyIngressRule] = []
    """What may come in."""
    egress: list[NetworkPolicyEgressRule] = []
    """What may go out."""
    policy_types: list[str] = []
    """Whether it is about Ingress, Egress or both."""


class NetworkPolicy(Resource):
    """The traffic that a set of pods may have."""

    spec: NetworkPolicySpec = always(NetworkPolicySpec)


class ParentReference(Object):
    """The object that an address belongs to."""

    group: str = ""
    """The API group of the object."""
    resource: str = required(str)
    """The plural resource name, such as services."""
    namespace: str = ""
    name: str = required(str)


class IPAddressSpec(Object):
    """The owner of an address."""

    parent_ref: ParentReference | None = required(lambda: None)


class IPAddress(Resource):
    """One address that is taken; its name is the address. Who creates it has it."""

    spec: IPAddressSpec = required(IPAddressSpec)


class ServiceCIDRSpec(Object):
    """The networks of a ServiceCIDR."""

    cidrs: list[str] = []
    """One network of each family at most; it can be added to once, and is never changed."""


class ServiceCIDRStatus(Object):
    """The state of a ServiceCIDR."""

    conditions: Annotated[list[Condition], list_map("type")] = []
    """Aspects of the state: whether it is Ready."""


class ServiceCIDR(Resource):
    """Networks from which Services get their cluster IPs."""

    spec: ServiceCIDRSpec = always(ServiceCIDRSpec)
    status: ServiceCIDRStatus = always(ServiceCIDRStatus)
