"""Services. Mooring runs no proxy, so it hands out no addresses: `clusterIP` and `nodePort` are kept as a client gave
them, and stay empty otherwise. Everything else is defaulted and checked as in a cluster with IPv4 alone.
"""

from collections.abc import Callable

from mooring.admission.addresses import validate_ip
from mooring.admission.conditions import validate_conditions
from mooring.admission.meta import IMMUTABLE
from mooring.admission.rule_strategy import RuleStrategy
from mooring.admission.strategy import Request
from mooring.api import field_errors, names
from mooring.api.core_v1 import ClientIPConfig, Service, ServicePort, ServiceSpec, SessionAffinityConfig
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path

PROTOCOLS = ("SCTP", "TCP", "UDP")
TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
HEADLESS = "None"
_KUBELET_PORT = 10250
_MAX_AFFINITY_SECONDS = 86400
_DEFAULT_AFFINITY_SECONDS = 10800
_SPEC = Path("spec")
_PORTS = _SPEC.child("ports")
_EXTERNAL = ("NodePort", "LoadBalancer")


class ServiceStrategy(RuleStrategy[Service]):
    """A name for a set of pods."""

    object_type = Service
    kind = "Service"
    resource = "services"
    has_generation = False
    has_status = True
    allow_create_on_update = True

    def name_check_for(self, request: Request) -> Callable[[str], names.Messages]:
        return names.dns1123_label if request.options.relaxed_service_names else names.dns1035_label

    def default(self, obj: Service) -> None:
        spec = obj.spec
        spec.session_affinity = spec.session_affinity or "None"
        if spec.session_affinity == "None":
            spec.session_affinity_config = None
        if spec.session_affinity == "ClientIP":
            _default_affinity(spec)
        spec.type = spec.type or "ClusterIP"
        for port in spec.ports:
            port.protocol = port.protocol or "TCP"
            port.target_port = port.target_port or port.port
        if spec.type in _EXTERNAL and not spec.external_traffic_policy:
            spec.external_traffic_policy = "Cluster"
        if spec.type != "ExternalName" and spec.internal_traffic_policy is None:
            spec.internal_traffic_policy = "Cluster"
        if spec.type == "LoadBalancer" and spec.allocate_load_balancer_node_ports is None:
            spec.allocate_load_balancer_node_ports = True
        if spec.cluster_ip and not spec.cluster_ips:
            spec.cluster_ips = [spec.cluster_ip]

    def prepare_for_create(self, obj: Service, request: Request) -> None:
        super().prepare_for_create(obj, request)
        _choose_families(obj.spec)

    def prepare_for_update(self, new: Service, old: Service, request: Request) -> None:
        super().prepare_for_update(new, old, request)
        if new.spec.type != "ExternalName" and old.spec.type != "ExternalName" and not new.spec.cluster_ips:
            new.spec.cluster_ip, new.spec.cluster_ips = old.spec.cluster_ip, list(old.spec.cluster_ips)
        _choose_families(new.spec)

    def rules(self, obj: Service, old: Service | None, request: Request) -> list[FieldError]:
        spec = obj.spec
        errors = _needs_ports(spec) + _type_rules(spec)
        errors += _ports(spec.ports)
        errors += names.validate_labels(spec.selector, _SPEC.child("selector"))
        errors += _affinity(spec)
        errors += _addresses(spec)
        if spec.type not in TYPES:
            errors.append(field_errors.not_supported(_SPEC.child("type"), spec.type, TYPES))
        errors += _unique_ports(spec) + _traffic(spec)
        return errors if old is None else errors + _changes(spec, old.spec)

    def status_rules(self, new: Service, old: Service, request: Request) -> list[FieldError]:
        errors = validate_conditions(new.status.conditions, Path("status", "conditions"))
        for index, ingress in enumerate(new.status.load_balancer.ingress):
            if ingress.ip:
                here = Path("status", "loadBalancer", "ingress").index(index).child("ip")
                errors += validate_ip(ingress.ip, here)
        return errors

    def warnings(self, new: Service, old: Service | None, request: Request) -> list[str]:
        return ["spec.loadBalancerIP is deprecated in v1.24+"] if new.spec.load_balancer_ip else []


def _default_affinity(spec: ServiceSpec) -> None:
    config = spec.session_affinity_config
    if config is None or config.client_ip is None or config.client_ip.timeout_seconds is None:
        seconds = ClientIPConfig(timeout_seconds=_DEFAULT_AFFINITY_SECONDS)
        spec.session_affinity_config = SessionAffinityConfig(client_ip=seconds)


def _choose_families(spec: ServiceSpec) -> None:
    if spec.type == "ExternalName":
        return
    if spec.cluster_ips and not spec.cluster_ip:
        spec.cluster_ip = spec.cluster_ips[0]
    spec.ip_family_policy = spec.ip_family_policy or "SingleStack"
    if not spec.ip_families:
        spec.ip_families = ["IPv6" if ":" in ip else "IPv4" for ip in spec.cluster_ips] or ["IPv4"]


# -- the type


def _needs_ports(spec: ServiceSpec) -> list[FieldError]:
    needed = not spec.ports and spec.type != "ExternalName" and spec.cluster_ip != HEADLESS
    return [field_errors.required(_PORTS)] if needed else []


def _type_rules(spec: ServiceSpec) -> list[FieldError]:
    if spec.type == "ExternalName":
        return _external_name(spec)
    errors = []
    if spec.type == "LoadBalancer":
        detail = f"may not expose port {_KUBELET_PORT} externally since it is used by kubelet"
        errors += [
            field_errors.invalid(_PORTS.index(index), port, detail)
            for index, port in enumerate(spec.ports)
            if port.port == _KUBELET_PORT
        ]
    if spec.type in _EXTERNAL and spec.cluster_ip == HEADLESS:
        detail = f"may not be set to 'None' for {spec.type} services"
        errors.append(field_errors.invalid(_SPEC.child("clusterIPs").index(0), HEADLESS, detail))
    return errors


def _external_name(spec: ServiceSpec) -> list[FieldError]:
    errors = [
        field_errors.forbidden(_SPEC.child(name), "may not be set for ExternalName services")
        for name, given in (
            ("clusterIPs", spec.cluster_ips),
            ("ipFamilies", spec.ip_families),
            ("ipFamilyPolicy", spec.ip_family_policy),
        )
        if given
    ]
    here = _SPEC.child("externalName")
    if not spec.external_name:
        return [*errors, field_errors.required(here)]
    name = spec.external_name.removesuffix(".")
    return errors + names.validate(here, name, names.dns1123_subdomain(name))


# -- ports


def _ports(ports: list[ServicePort]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        here = _PORTS.index(index)
        if not port.name:
            errors += [field_errors.required(here.child("name"))] if len(ports) > 1 else []
        else:
            errors += names.validate(here.child("name"), port.name, names.dns1123_label(port.name))
            if port.name in seen:
                errors.append(field_errors.duplicate(here.child("name"), port.name))
            seen.add(port.name)
        errors += _port(port, here)
    return errors


def _port(port: ServicePort, path: Path) -> list[FieldError]:
    errors = [field_errors.invalid(path.child("port"), port.port, message) for message in names.port_number(port.port)]
    if port.protocol not in PROTOCOLS:
        errors.append(field_errors.not_supported(path.child("protocol"), port.protocol, PROTOCOLS))
    target, here = port.target_port, path.child("targetPort")
    problems = names.port_number(target) if isinstance(target, int) else names.port_name(target)
    errors += [field_errors.invalid(here, target, message) for message in problems]
    if port.app_protocol is not None:
        wrong = names.label_key(port.app_protocol)
        errors += names.validate(path.child("appProtocol"), port.app_protocol, wrong)
    return errors


def _unique_ports(spec: ServiceSpec) -> list[FieldError]:
    errors = []
    seen: set[tuple[str, int]] = set()
    nodes: set[tuple[str, int]] = set()
    for index, port in enumerate(spec.ports):
        here, node = _PORTS.index(index), _PORTS.index(index).child("nodePort")
        if port.node_port and spec.type == "ClusterIP":
            errors.append(field_errors.forbidden(node, "may not be used when `type` is 'ClusterIP'"))
        if (port.protocol, port.port) in seen:
            errors.append(field_errors.duplicate(here, ServicePort(protocol=port.protocol, port=port.port)))
        seen.add((port.protocol, port.port))
        if port.node_port:
            if (port.protocol, port.node_port) in nodes:
                errors.append(field_errors.duplicate(node, port.node_port))
            nodes.add((port.protocol, port.node_port))
    return errors


# -- affinity, addresses and traffic


def _affinity(spec: ServiceSpec) -> list[FieldError]:
    here, config = _SPEC.child("sessionAffinityConfig"), spec.session_affinity_config
    if spec.session_affinity not in ("ClientIP", "None"):
        path = _SPEC.child("sessionAffinity")
        return [field_errors.not_supported(path, spec.session_affinity, ["ClientIP", "None"])]
    if spec.session_affinity == "None" or config is None or config.client_ip is None:
        return []
    seconds = config.client_ip.timeout_seconds or 0
    if 0 < seconds <= _MAX_AFFINITY_SECONDS:
        return []
    detail = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
    return [field_errors.invalid(here.child("clientIP", "timeoutSeconds"), seconds, detail)]


def _addresses(spec: ServiceSpec) -> list[FieldError]:
    errors: list[FieldError] = []
    here = _SPEC.child("clusterIPs")
    if spec.cluster_ip and spec.cluster_ips[:1] != [spec.cluster_ip]:
        detail = "first value must match `clusterIP`"
        errors.append(field_errors.invalid(here, spec.cluster_ips, detail))
    if len(spec.cluster_ips) > 2:
        errors.append(field_errors.invalid(here, spec.cluster_ips, "may only hold up to 2 values"))
    for index, ip in enumerate(spec.cluster_ips):
        if ip != HEADLESS:
            errors += validate_ip(ip, here.index(index))
    for index, ip in enumerate(spec.external_ips):
        errors += validate_ip(ip, _SPEC.child("externalIPs").index(index))
    families = _SPEC.child("ipFamilies")
    errors += [
        field_errors.not_supported(families.index(index), family, ["IPv4", "IPv6"])
        for index, family in enumerate(spec.ip_families)
        if family not in ("IPv4", "IPv6")
    ]
    policies = ("SingleStack", "PreferDualStack", "RequireDualStack")
    if spec.ip_family_policy is not None and spec.ip_family_policy not in policies:
        errors.append(field_errors.invalid(_SPEC.child("ipFamilyPolicy"), spec.ip_family_policy, ""))
    return errors


def _traffic(spec: ServiceSpec) -> list[FieldError]:
    errors: list[FieldError] = []
    policies = ("Cluster", "Local")
    external, here = spec.external_traffic_policy, _SPEC.child("externalTrafficPolicy")
    if external and spec.type not in _EXTERNAL and not spec.external_ips:
        errors.append(field_errors.invalid(here, external, "may only be set for externally-accessible services"))
    elif external and external not in policies:
        errors.append(field_errors.not_supported(here, external, policies))
    internal = spec.internal_traffic_policy
    if internal is not None and internal not in policies:
        errors.append(field_errors.not_supported(_SPEC.child("internalTrafficPolicy"), internal, policies))
    if spec.type == "LoadBalancer":
        return errors
    return errors + [
        field_errors.forbidden(_SPEC.child(name), "may only be used when `type` is 'LoadBalancer'")
        for name, given in (
            ("allocateLoadBalancerNodePorts", spec.allocate_load_balancer_node_ports is not None),
            ("loadBalancerClass", spec.load_balancer_class is not None),
            ("loadBalancerSourceRanges", bool(spec.load_balancer_source_ranges)),
        )
        if given
    ]


def _changes(new: ServiceSpec, old: ServiceSpec) -> list[FieldError]:
    """An address stays for as long as the service has one."""
    if "ExternalName" in (new.type, old.type) or not old.cluster_ip or new.cluster_ip == old.cluster_ip:
        return []
    return [field_errors.invalid(_SPEC.child("clusterIPs").index(0), new.cluster_ips, IMMUTABLE)]


STRATEGIES = (ServiceStrategy(),)
