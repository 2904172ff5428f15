"""Default and validate Services; the API server allocates addresses and node ports after admission."""

from msgspec.structs import replace

from mooring.admission import addresses, checks, service_families
from mooring.admission.meta import IMMUTABLE, NameCheck
from mooring.admission.service_families import HEADLESS
from mooring.admission.strategy import Request, Strategy, set_empty, set_missing
from mooring.api import core_v1, field_errors, names
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

PROTOCOLS = ("SCTP", "TCP", "UDP")
TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_KUBELET_PORT = 10250
_MAX_AFFINITY_SECONDS = 86400
_DEFAULT_AFFINITY_SECONDS = 10800
_SPEC = Path("spec")
_PORTS = _SPEC.child("ports")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_BALANCERS_ONLY = "may only be used when `type` is 'LoadBalancer'"
_EXTERNAL = ("NodePort", "LoadBalancer")
_TRAFFIC_POLICIES = ("Cluster", "Local")


class ServiceStrategy(Strategy[core_v1.Service]):
    has_generation = False
    allow_create_on_update = True

    def name_check_for(self, obj: core_v1.Service, request: Request) -> NameCheck:
        return names.dns1123_label if request.options.relaxed_service_names else names.dns1035_label

    def default(self, obj: core_v1.Service) -> None:
        spec = obj.spec
        set_empty(spec, session_affinity="None", type="ClusterIP")
        if spec.session_affinity == "None":
            spec.session_affinity_config = None
        client_ip = spec.session_affinity_config.client_ip if spec.session_affinity_config is not None else None
        has_timeout = client_ip is not None and client_ip.timeout_seconds is not None
        if spec.session_affinity == "ClientIP" and not has_timeout:
            seconds = core_v1.ClientIPConfig(timeout_seconds=_DEFAULT_AFFINITY_SECONDS)
            spec.session_affinity_config = core_v1.SessionAffinityConfig(client_ip=seconds)
        for port in spec.ports:
            set_empty(port, protocol="TCP", target_port=port.port)
        for ingress in obj.status.load_balancer.ingress if spec.type == "LoadBalancer" else ():
            if ingress.ip and ingress.ip_mode is None:
                ingress.ip_mode = "VIP"
        if spec.type in _EXTERNAL and not spec.external_traffic_policy:
            spec.external_traffic_policy = "Cluster"
        if spec.type != "ExternalName":
            set_missing(spec, internal_traffic_policy="Cluster")
        if spec.type == "LoadBalancer":
            set_missing(spec, allocate_load_balancer_node_ports=True)

    def prepare_for_create(self, obj: core_v1.Service, request: Request) -> None:
        if obj.spec.cluster_ip and not obj.spec.cluster_ips:
            obj.spec.cluster_ips = [obj.spec.cluster_ip]
        super().prepare_for_create(obj, request)
        _drop_internal_traffic_policy(obj.spec)
        service_families.set_ip_families(obj, None, request.options.service_families)

    def prepare_for_update(self, new: core_v1.Service, old: core_v1.Service, request: Request) -> None:
        super().prepare_for_update(new, old, request)
        if new.spec.cluster_ip and not new.spec.cluster_ips:
            new.spec.cluster_ips = [new.spec.cluster_ip]
        _restore_allocated_fields(new.spec, old.spec)
        _drop_fields_of_old_type(new.spec, old.spec)
        _drop_internal_traffic_policy(new.spec)
        if new.spec.type != "LoadBalancer":
            new.status = replace(new.status, load_balancer=core_v1.LoadBalancerStatus())
        service_families.set_ip_families(new, old, request.options.service_families)

    def validate(self, obj: core_v1.Service, old: core_v1.Service | None, request: Request) -> Errors:
        spec = obj.spec
        if errors := service_families.validate_ip_families(obj, old, request.options):
            return errors
        errors = checks.require(spec.ports or spec.type == "ExternalName" or spec.cluster_ip == HEADLESS, _PORTS)
        errors += _validate_type_rules(spec)
        errors += _validate_service_ports(spec.ports)
        errors += names.validate_labels(spec.selector, _SPEC.child("selector"))
        errors += _validate_session_affinity(spec)
        known = set(old.spec.external_ips) if old is not None else set()
        for index, ip in enumerate(spec.external_ips):
            here, strict = _SPEC.child("externalIPs").index(index), request.options.strict_addresses and ip not in known
            errors += addresses.validate_legacy_ip(ip, here, strict=strict) or addresses.validate_endpoint_ip(ip, here)
        errors += checks.one_of(spec.type, TYPES, _SPEC.child("type"))
        errors += _validate_unique_ports(spec)
        errors += _validate_source_ranges(obj, old, strict=request.options.strict_addresses)
        distributions = _DISTRIBUTIONS if request.options.same_node_traffic else _DISTRIBUTIONS[:1]
        errors += _validate_traffic_policies(spec)
        errors += checks.optional_one_of(spec.traffic_distribution, distributions, _SPEC.child("trafficDistribution"))
        errors += _validate_health_check(spec, old)
        return errors if old is None else errors + _validate_immutable_service_fields(spec, old.spec)

    def validate_status(self, new: core_v1.Service, old: core_v1.Service, request: Request) -> Errors:
        errors: Errors = []  # conditions are not validated
        here, ingresses = Path("status.loadBalancer.ingress"), new.status.load_balancer.ingress
        if ingresses and new.spec.type != "LoadBalancer":
            return [field_errors.forbidden(here, "may only be used when `spec.type` is 'LoadBalancer'")]
        stored = {ingress.ip for ingress in old.status.load_balancer.ingress}
        for index, ingress in enumerate(ingresses):
            at = here.index(index)
            if ingress.ip:
                strict = request.options.strict_addresses and ingress.ip not in stored
                errors += addresses.validate_legacy_ip(ingress.ip, at.child("ip"), strict=strict)
                errors += checks.one_of(ingress.ip_mode, _IP_MODES, at.child("ipMode"))
            elif ingress.ip_mode is not None:
                errors.append(field_errors.forbidden(at.child("ipMode"), "may not be specified when `ip` is not set"))
            errors += checks.optional_name(ingress.hostname or None, at.child("hostname"), names.dns1123_subdomain)
        return errors

    def warnings(self, new: core_v1.Service, old: core_v1.Service | None, request: Request) -> list[str]:
        spec, found = new.spec, []
        if "service.kubernetes.io/topology-aware-hints" in new.metadata.annotations:
            name = "service.kubernetes.io/topology-aware-hints"
            found.append(f"annotation {name} is deprecated, please use service.kubernetes.io/topology-mode instead")
        is_headless = spec.cluster_ip == "None"
        if is_headless:
            ignored = {"loadBalancerIP": spec.load_balancer_ip, "externalIPs": spec.external_ips}
            found += [f"spec.{name} is ignored for headless services" for name, value in ignored.items() if value]
            if spec.session_affinity != "None":
                found.append("spec.SessionAffinity is ignored for headless services")
        elif spec.external_ips and spec.type != "ExternalName":
            found.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
        if spec.type == "ExternalName" and spec.external_ips:
            found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
        if spec.type != "ExternalName" and spec.external_name:
            found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
        if spec.traffic_distribution == "PreferClose" and request.options.same_node_traffic:
            found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
        return found


_IP_MODES = ("Proxy", "VIP")


def needs_health_check(spec: core_v1.ServiceSpec) -> bool:
    """Return whether a Service has a health check node port: LoadBalancer with external traffic policy Local."""
    return spec.type == "LoadBalancer" and spec.external_traffic_policy == "Local"


def _restore_allocated_fields(new: core_v1.ServiceSpec, old: core_v1.ServiceSpec) -> None:
    if new.cluster_ip != old.cluster_ip and new.cluster_ips == old.cluster_ips:  # by a client that knows one field
        new.cluster_ips = [new.cluster_ip] if new.cluster_ip else []
    if "ExternalName" not in (new.type, old.type) and not new.cluster_ips:
        new.cluster_ip, new.cluster_ips = old.cluster_ip, list(old.cluster_ips)
        new.ip_families = new.ip_families or list(old.ip_families)
    if new.type in _EXTERNAL and old.type in _EXTERNAL:
        given = {(port.protocol, port.port): port.node_port for port in old.ports}
        named = {port.node_port for port in new.ports}
        for port in new.ports:
            before = given.get((port.protocol, port.port), 0)
            port.node_port = port.node_port or (before if before not in named else 0)
    if needs_health_check(new) and needs_health_check(old):
        new.health_check_node_port = new.health_check_node_port or old.health_check_node_port


def _drop_internal_traffic_policy(spec: core_v1.ServiceSpec) -> None:
    if spec.type == "ExternalName" and spec.internal_traffic_policy in _TRAFFIC_POLICIES:
        spec.internal_traffic_policy = None


def _drop_fields_of_old_type(new: core_v1.ServiceSpec, old: core_v1.ServiceSpec) -> None:
    if new.type == "ExternalName" != old.type:
        if (new.cluster_ip, new.cluster_ips) == (old.cluster_ip, old.cluster_ips):
            new.cluster_ip, new.cluster_ips = "", []
        new.ip_families = [] if new.ip_families == old.ip_families else new.ip_families
        new.ip_family_policy = None if new.ip_family_policy == old.ip_family_policy else new.ip_family_policy
    if old.type in _EXTERNAL and new.type not in _EXTERNAL:
        if {port.node_port for port in new.ports} <= {port.node_port for port in old.ports}:
            for port in new.ports:
                port.node_port = 0
        if new.external_traffic_policy == old.external_traffic_policy and not new.external_ips:
            new.external_traffic_policy = ""
    same_check = new.health_check_node_port == old.health_check_node_port
    if needs_health_check(old) and not needs_health_check(new) and same_check:
        new.health_check_node_port = 0
    if old.type == "LoadBalancer" != new.type:
        if new.allocate_load_balancer_node_ports == old.allocate_load_balancer_node_ports:
            new.allocate_load_balancer_node_ports = None
        if new.load_balancer_class == old.load_balancer_class:
            new.load_balancer_class = None


def _validate_type_rules(spec: core_v1.ServiceSpec) -> Errors:
    if spec.type == "ExternalName":
        return _validate_external_name(spec)
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


def _validate_external_name(spec: core_v1.ServiceSpec) -> Errors:
    errors = [
        field_errors.forbidden(_SPEC.child(name), "may not be set for ExternalName services")
        for name, given in checks.select_fields(spec, "clusterIPs", "ipFamilies", "ipFamilyPolicy")
        if given
    ]
    here = _SPEC.child("externalName")
    if not spec.external_name:
        return [*errors, field_errors.required(here)]
    name = spec.external_name.removesuffix(".")
    return errors + names.validate(here, name, names.dns1123_subdomain(name))


def _validate_service_ports(ports: list[core_v1.ServicePort]) -> Errors:
    errors: Errors = []
    seen = checks.UniqueKeys()
    for index, port in enumerate(ports):
        here = _PORTS.index(index)
        if not port.name:
            errors += [field_errors.required(here.child("name"))] if len(ports) > 1 else []
        else:
            errors += names.validate(here.child("name"), port.name, names.dns1123_label(port.name))
            errors += seen.add(port.name, here.child("name"))
        errors += _validate_service_port(port, here)
    return errors


def _validate_service_port(port: core_v1.ServicePort, path: Path) -> Errors:
    errors = [field_errors.invalid(path.child("port"), port.port, message) for message in names.port_number(port.port)]
    errors += checks.one_of(port.protocol, PROTOCOLS, path.child("protocol"))
    target, here = port.target_port, path.child("targetPort")
    problems = names.port_number(target) if isinstance(target, int) else names.port_name(target)
    errors += [field_errors.invalid(here, target, message) for message in problems]
    return errors + checks.optional_name(port.app_protocol, path.child("appProtocol"), names.label_key)


def _validate_unique_ports(spec: core_v1.ServiceSpec) -> Errors:
    errors = []
    seen = checks.UniqueKeys()
    nodes = checks.UniqueKeys()
    for index, port in enumerate(spec.ports):
        here, node = _PORTS.index(index), _PORTS.index(index).child("nodePort")
        if port.node_port and spec.type == "ClusterIP":
            errors.append(field_errors.forbidden(node, "may not be used when `type` is 'ClusterIP'"))
        errors += seen.add(
            (port.protocol, port.port), here, core_v1.ServicePort(protocol=port.protocol, port=port.port)
        )
        if port.node_port:
            errors += nodes.add((port.protocol, port.node_port), node, port.node_port)
    return errors


def _validate_session_affinity(spec: core_v1.ServiceSpec) -> Errors:
    here, config = _SPEC.child("sessionAffinityConfig"), spec.session_affinity_config
    if spec.session_affinity != "ClientIP" or config is None or config.client_ip is None:
        return checks.one_of(spec.session_affinity, ("ClientIP", "None"), _SPEC.child("sessionAffinity"))
    seconds = config.client_ip.timeout_seconds or 0
    if 0 < seconds <= _MAX_AFFINITY_SECONDS:
        return []
    detail = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
    return [field_errors.invalid(here.child("clientIP", "timeoutSeconds"), seconds, detail)]


def _validate_source_ranges(obj: core_v1.Service, old: core_v1.Service | None, *, strict: bool) -> Errors:
    given, here = obj.spec.load_balancer_source_ranges, _SPEC.child("LoadBalancerSourceRanges")
    known = {each.strip() for each in old.spec.load_balancer_source_ranges} if old is not None else set()
    text = obj.metadata.annotations.get(_SOURCE_RANGES)
    if not given and text is None:
        return []
    errors: Errors = []
    paths = [here.index(index) for index in range(len(given))]
    if text is not None and not given:
        here = Path("metadata.annotations").key(_SOURCE_RANGES)
        is_kept = old is not None and old.metadata.annotations.get(_SOURCE_RANGES) == text
        given = text.split(",") if text.strip() and not is_kept else []
        paths = [here] * len(given)
    errors += checks.forbidden_if(obj.spec.type != "LoadBalancer", here, _BALANCERS_ONLY)
    for path, each in zip(paths, map(str.strip, given), strict=True):
        if each not in known:
            errors += addresses.validate_legacy_cidr(each, path, strict=strict)
    return errors


def _validate_traffic_policies(spec: core_v1.ServiceSpec) -> Errors:
    errors: Errors = []
    external, here = spec.external_traffic_policy, _SPEC.child("externalTrafficPolicy")
    if external and spec.type not in _EXTERNAL and not spec.external_ips:
        errors.append(field_errors.invalid(here, external, "may only be set for externally-accessible services"))
    elif external:
        errors += checks.one_of(external, _TRAFFIC_POLICIES, here)
    errors += checks.optional_one_of(
        spec.internal_traffic_policy, _TRAFFIC_POLICIES, _SPEC.child("internalTrafficPolicy")
    )
    if spec.type == "LoadBalancer":
        return errors + checks.optional_name(
            spec.load_balancer_class, _SPEC.child("loadBalancerClass"), names.label_key
        )
    for name, value in checks.select_fields(spec, "allocateLoadBalancerNodePorts", "loadBalancerClass"):
        errors += checks.forbidden_if(value is not None, _SPEC.child(name), _BALANCERS_ONLY)
    return errors


def _validate_health_check(spec: core_v1.ServiceSpec, old: core_v1.Service | None) -> Errors:
    here, port = _SPEC.child("healthCheckNodePort"), spec.health_check_node_port
    if port and not needs_health_check(spec):
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        return [field_errors.invalid(here, port, detail)]
    errors = [field_errors.invalid(here, port, wrong) for wrong in names.port_number(port)] if port else []
    before = old.spec.health_check_node_port if old is not None and needs_health_check(old.spec) else port
    return errors + ([field_errors.forbidden(here, IMMUTABLE)] if needs_health_check(spec) and port != before else [])


def _validate_immutable_service_fields(new: core_v1.ServiceSpec, old: core_v1.ServiceSpec) -> Errors:
    if "ExternalName" in (new.type, old.type):
        return []
    detail, errors = "may not change once set", []
    if new.type == old.type == "LoadBalancer" and new.load_balancer_class != old.load_balancer_class:
        errors.append(field_errors.invalid(_SPEC.child("loadBalancerClass"), new.load_balancer_class, detail))
    here = _SPEC.child("clusterIPs")
    for index, (address, before) in enumerate(zip(new.cluster_ips, old.cluster_ips, strict=False)):
        errors += checks.invalid_if(before and address != before, here.index(index), new.cluster_ips, detail)
    return errors
