"""Default and validate kinds of networking.k8s.io.

External controllers implement Ingresses and NetworkPolicies. An IPAddress records which object uses an address; the API
server creates those of Services from the ranges in ServiceCIDRs.
"""

from mooring.admission import addresses, checks
from mooring.admission.meta import IMMUTABLE
from mooring.admission.strategy import Request, Strategy, set_missing
from mooring.api import field_errors, label_selector, names
from mooring.api import networking_v1 as v1
from mooring.api.core_v1 import TypedLocalObjectReference
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

_SPEC = Path("spec")
_CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_WRONG_IN_PATHS = ("//", "/./", "/../", "%2f", "%2F")
_WRONG_AT_THE_END = ("/..", "/.")
_SCOPES = ("Cluster", "Namespace")
_CONTROLLER_LENGTH = 250


class IngressStrategy(Strategy[v1.Ingress]):
    def mutate(self, obj: v1.Ingress, old: v1.Ingress | None, request: Request) -> None:
        """Set `ingressClassName` of a new Ingress without one to the default IngressClass."""
        is_named = obj.spec.ingress_class_name is not None or _CLASS_ANNOTATION in obj.metadata.annotations
        if old is None and not is_named:
            obj.spec.ingress_class_name = request.lookups.default_ingress_class()

    def validate(self, obj: v1.Ingress, old: v1.Ingress | None, request: Request) -> Errors:
        spec = obj.spec
        backend, detail = spec.default_backend, "either `defaultBackend` or `rules` must be specified"
        errors = checks.invalid_if(not spec.rules and backend is None, _SPEC, None, detail)
        errors += checks.optional(backend, _SPEC.child("defaultBackend"), _validate_ingress_backend, request)
        errors += checks.validate_items(spec.rules, _SPEC.child("rules"), _validate_ingress_rule, request)
        errors += checks.validate_items(spec.tls, _SPEC.child("tls"), _validate_ingress_tls)
        errors += checks.optional_name(
            spec.ingress_class_name, _SPEC.child("ingressClassName"), names.dns1123_subdomain
        )
        return errors + (_validate_class_annotation(obj) if old is None else [])

    def validate_status(self, new: v1.Ingress, old: v1.Ingress, request: Request) -> Errors:
        errors: Errors = []
        stored = {way.ip for way in old.status.load_balancer.ingress}
        for index, way in enumerate(new.status.load_balancer.ingress):
            here = Path("status.loadBalancer.ingress").index(index)
            if way.ip:
                strict = request.options.strict_addresses and way.ip not in stored
                errors += addresses.validate_legacy_ip(way.ip, here.child("ip"), strict=strict)
            name, at = way.hostname or None, here.child("hostname")
            errors += checks.optional(name, at, _validate_ingress_host, wildcards=False)
        return errors

    def warnings(self, new: v1.Ingress, old: v1.Ingress | None, request: Request) -> list[str]:
        if old is None and _CLASS_ANNOTATION in new.metadata.annotations and new.spec.ingress_class_name is None:
            return [f"annotation \"{_CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"]
        return []


def _validate_class_annotation(obj: v1.Ingress) -> Errors:
    said, name = obj.metadata.annotations.get(_CLASS_ANNOTATION), obj.spec.ingress_class_name
    if said is None or name is None or said == name:
        return []
    here = Path("annotations").child(_CLASS_ANNOTATION)
    return [field_errors.invalid(here, said, "must match `ingressClassName` when both are specified")]


def _validate_ingress_rule(rule: v1.IngressRule, path: Path, request: Request) -> Errors:
    errors = _validate_ingress_host(rule.host, path.child("host")) if rule.host else []
    if rule.http is None:
        return errors
    here = path.child("http", "paths")
    errors += checks.require(rule.http.paths, here)
    errors += checks.validate_items(rule.http.paths, here, _validate_ingress_path, request)
    return errors


def _validate_ingress_host(host: str, path: Path, *, wildcards: bool = True) -> Errors:
    errors = checks.invalid_if(addresses.is_ip(host), path, host, "must be a DNS name, not an IP address")
    check = names.wildcard_dns1123_subdomain if wildcards and "*" in host else names.dns1123_subdomain
    return errors + names.validate(path, host, check(host))


def _validate_ingress_path(each: v1.HTTPIngressPath, path: Path, request: Request) -> Errors:
    if each.path_type is None:
        return [field_errors.required(path.child("pathType"), "pathType must be specified")]
    here, text = path.child("path"), each.path
    problems: list[str] = []
    if each.path_type in ("Exact", "Prefix"):
        problems += [] if text.startswith("/") else ["must be an absolute path"]
        problems += [f"must not contain '{part}'" for part in _WRONG_IN_PATHS if part in text]
        problems += [f"cannot end with '{part}'" for part in _WRONG_AT_THE_END if text.endswith(part)]
    elif each.path_type == "ImplementationSpecific":
        problems += ["must be an absolute path"] if text and not text.startswith("/") else []
    errors = names.validate(here, text, tuple(problems))
    errors += checks.one_of(each.path_type, _PATH_TYPES, path.child("pathType"))
    return errors + _validate_ingress_backend(each.backend, path.child("backend"), request)


def _validate_ingress_backend(backend: v1.IngressBackend, path: Path, request: Request) -> Errors:
    if backend.resource is not None and backend.service is not None:
        return [field_errors.invalid(path, "", "cannot set both resource and service backends")]
    if backend.resource is not None:
        return _validate_object_reference(backend.resource, path.child("resource"))
    if backend.service is not None:
        return _validate_service_backend(backend.service, path, request)
    return [field_errors.invalid(path, "", "resource or service backend is required")]


def _validate_service_backend(service: v1.IngressServiceBackend, path: Path, request: Request) -> Errors:
    check = names.dns1123_label if request.options.relaxed_service_names else names.dns1035_label
    errors = checks.require_name(service.name, path.child("service", "name"), check)
    port, here = service.port, path.child("service", "port")
    if port.name and port.number:
        errors.append(field_errors.invalid(path, "", "cannot set both port name & port number"))
    elif port.name:
        errors += names.validate(here.child("name"), port.name, names.port_name(port.name))
    elif port.number:
        errors += [
            field_errors.invalid(here.child("number"), port.number, message)
            for message in names.port_number(port.number)
        ]
    else:
        errors.append(field_errors.required(path, "port name or number is required"))
    return errors


def _validate_ingress_tls(tls: v1.IngressTLS, path: Path) -> Errors:
    errors: Errors = []
    for index, host in enumerate(tls.hosts):
        check = names.wildcard_dns1123_subdomain if "*" in host else names.dns1123_subdomain
        errors += names.validate(path.child("hosts").index(index), host, check(host))
    return errors + checks.optional_name(tls.secret_name or None, path.child("secretName"), names.dns1123_subdomain)


def _validate_object_reference(
    reference: TypedLocalObjectReference | v1.IngressClassParametersReference, path: Path
) -> Errors:
    errors = checks.optional_name(reference.api_group, path.child("apiGroup"), names.dns1123_subdomain)
    errors += checks.require_name(reference.kind, path.child("kind"), names.path_segment_name)
    return errors + checks.require_name(reference.name, path.child("name"), names.path_segment_name)


class IngressClassStrategy(Strategy[v1.IngressClass]):
    def default(self, obj: v1.IngressClass) -> None:
        if obj.spec.parameters is not None:
            set_missing(obj.spec.parameters, scope="Cluster")

    def validate(self, obj: v1.IngressClass, old: v1.IngressClass | None, request: Request) -> Errors:
        controller, here = obj.spec.controller, _SPEC.child("controller")
        errors = checks.invalid_if(old is not None and old.spec.controller != controller, here, controller, IMMUTABLE)
        if len(controller) > _CONTROLLER_LENGTH:
            errors.append(field_errors.too_long(here, _CONTROLLER_LENGTH))
        errors += names.validate_domain_prefixed_path(controller, here)
        return errors + checks.optional(obj.spec.parameters, _SPEC.child("parameters"), _validate_class_parameters)


def _validate_class_parameters(parameters: v1.IngressClassParametersReference, path: Path) -> Errors:
    errors = _validate_object_reference(parameters, path)
    scope, namespace, here = parameters.scope, parameters.namespace, path.child("namespace")
    if scope not in _SCOPES:
        errors.append(field_errors.not_supported(path.child("scope"), scope, _SCOPES))
    elif scope == "Cluster" and namespace is not None:
        errors.append(field_errors.forbidden(here, "`parameters.scope` is set to 'Cluster'"))
    elif scope == "Namespace" and namespace is None:
        errors.append(field_errors.required(here, "`parameters.scope` is set to 'Namespace'"))
    elif scope == "Namespace" and namespace is not None:
        errors += names.validate(here, namespace, names.dns1123_label(namespace))
    return errors


_PROTOCOLS = ("TCP", "UDP", "SCTP")
_TYPES = ("Ingress", "Egress")


class NetworkPolicyStrategy(Strategy[v1.NetworkPolicy]):
    def default(self, obj: v1.NetworkPolicy) -> None:
        spec = obj.spec
        ports = [port for rule in spec.ingress for port in rule.ports]
        for port in ports + [port for rule in spec.egress for port in rule.ports]:
            set_missing(port, protocol="TCP")
        if not spec.policy_types:
            spec.policy_types = ["Ingress", "Egress"] if spec.egress else ["Ingress"]

    def validate(self, obj: v1.NetworkPolicy, old: v1.NetworkPolicy | None, request: Request) -> Errors:
        spec = obj.spec
        errors = label_selector.validate(spec.pod_selector, _SPEC.child("podSelector"))
        sides = (
            ("ingress", "from", [(rule.ports, rule.from_) for rule in spec.ingress]),
            ("egress", "to", [(rule.ports, rule.to) for rule in spec.egress]),
        )
        before = _collect_policy_cidrs(old)
        for side, whom, rules in sides:
            for index, (ports, peers) in enumerate(rules):
                here = _SPEC.child(side).index(index)
                errors += checks.validate_items(ports, here.child("ports"), _validate_policy_port)
                for at, peer in enumerate(peers):
                    errors += _validate_policy_peer(peer, here.child(whom).index(at))
                    if peer.ip_block is not None and request.options.strict_addresses:
                        errors += _validate_strict_ip_block(
                            peer.ip_block, before, here.child(whom).index(at).child("ipBlock")
                        )
        types = _SPEC.child("policyTypes")
        if len(spec.policy_types) > len(_TYPES):
            detail = "may not specify more than two policyTypes"
            return [*errors, field_errors.invalid(types, spec.policy_types, detail)]
        return errors + [
            field_errors.not_supported(types.index(index), each, _TYPES)
            for index, each in enumerate(spec.policy_types)
            if each not in _TYPES
        ]


def _collect_policy_cidrs(policy: v1.NetworkPolicy | None) -> frozenset[str]:
    if policy is None:
        return frozenset()
    peers = [peer for rule in policy.spec.ingress for peer in rule.from_]
    peers += [peer for rule in policy.spec.egress for peer in rule.to]
    blocks = [peer.ip_block for peer in peers if peer.ip_block is not None]
    return frozenset(text for block in blocks for text in (block.cidr, *block.except_))


def _validate_strict_ip_block(block: v1.IPBlock, before: frozenset[str], path: Path) -> Errors:
    places = [(block.cidr, path.child("cidr"))]
    places += [(text, path.child("except").index(index)) for index, text in enumerate(block.except_)]
    return [
        error
        for text, here in places
        if text not in before and addresses.parse_network(text) is not None
        for error in addresses.validate_legacy_cidr(text, here, strict=True)
    ]


def _validate_policy_port(port: v1.NetworkPolicyPort, path: Path) -> Errors:
    errors = checks.optional_one_of(port.protocol, _PROTOCOLS, path.child("protocol"))
    here, end = path.child("port"), path.child("endPort")
    if isinstance(port.port, int):
        errors += [field_errors.invalid(here, port.port, message) for message in names.port_number(port.port)]
        if port.end_port is not None:
            problems = [] if port.end_port >= port.port else ["must be greater than or equal to `port`"]
            problems += names.port_number(port.end_port)
            errors += [field_errors.invalid(end, port.end_port, message) for message in problems]
        return errors
    if port.end_port is not None:
        why = "not specified" if port.port is None else "non-numeric"
        errors.append(field_errors.invalid(end, port.end_port, f"may not be specified when `port` is {why}"))
    return errors + (names.validate(here, port.port, names.port_name(port.port)) if port.port is not None else [])


def _validate_policy_peer(peer: v1.NetworkPolicyPeer, path: Path) -> Errors:
    errors: Errors = []
    selectors = (("podSelector", peer.pod_selector), ("namespaceSelector", peer.namespace_selector))
    given = [(name, selector) for name, selector in selectors if selector is not None]
    for name, selector in given:
        errors += label_selector.validate(selector, path.child(name))
    if peer.ip_block is not None:
        errors += _validate_ip_block(peer.ip_block, path.child("ipBlock"))
        errors += checks.forbidden_if(given, path, "may not specify both ipBlock and another peer")
    elif not given:
        errors.append(field_errors.required(path, "must specify a peer"))
    return errors


def _validate_ip_block(block: v1.IPBlock, path: Path) -> Errors:
    here = path.child("cidr")
    if not block.cidr:
        return [field_errors.required(here)]
    errors = addresses.validate_cidr(block.cidr, here)
    whole = addresses.parse_network(block.cidr)
    for index, text in enumerate(block.except_ if whole is not None else ()):
        at = path.child("except").index(index)
        errors += addresses.validate_cidr(text, at)
        part = addresses.parse_network(text)
        if part is None or whole is None:
            continue
        inside = part.version == whole.version and part.network_address in whole and part.prefixlen > whole.prefixlen
        errors += checks.invalid_if(not inside, at, text, "must be a strict subset of `cidr`")
    return errors


_CIDRS = Path("spec.cidrs")
_PARENT = Path("spec.parentRef")
_ONE_OF_EACH = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"


class IPAddressStrategy(Strategy[v1.IPAddress]):
    has_generation = False
    immutable = ("spec.parentRef",)

    def name_check(self, name: str) -> names.Messages:
        return addresses.canonical_ip_problems(name)

    def validate(self, obj: v1.IPAddress, old: v1.IPAddress | None, request: Request) -> Errors:
        parent, segment = obj.spec.parent_ref, names.path_segment_name
        if parent is None:
            return [field_errors.required(_PARENT)]
        errors = checks.optional_name(parent.group or None, _PARENT.child("group"), names.dns1123_subdomain)
        errors += checks.require_name(parent.resource, _PARENT.child("resource"), segment)
        errors += checks.require_name(parent.name, _PARENT.child("name"), segment)
        return errors + checks.optional_name(parent.namespace or None, _PARENT.child("namespace"), segment)


class ServiceCIDRStrategy(Strategy[v1.ServiceCIDR]):
    has_generation = False

    def validate(self, obj: v1.ServiceCIDR, old: v1.ServiceCIDR | None, request: Request) -> Errors:
        cidrs = obj.spec.cidrs
        if old is None:
            return _validate_service_cidrs(cidrs)
        before = old.spec.cidrs
        if len(before) == len(cidrs):
            return [
                field_errors.invalid(_CIDRS.index(index), cidr, IMMUTABLE)
                for index, cidr in enumerate(cidrs)
                if cidr != before[index]
            ]
        if (len(before), len(cidrs)) != (1, 2):
            return [field_errors.invalid(_CIDRS, cidrs, IMMUTABLE)]
        changed = [] if cidrs[0] == before[0] else [field_errors.invalid(_CIDRS.index(0), cidrs[0], IMMUTABLE)]
        return changed + _validate_service_cidrs(cidrs)


def _validate_service_cidrs(cidrs: list[str]) -> Errors:
    if not cidrs:
        return [field_errors.required(_CIDRS, "at least one CIDR required")]
    if len(cidrs) > 2:
        return [field_errors.invalid(_CIDRS, {"CIDRs": cidrs}, "may only hold up to 2 values")]
    errors = checks.validate_items(cidrs, _CIDRS, addresses.validate_canonical_cidr)
    families = [network.version for cidr in cidrs if (network := addresses.parse_network(cidr)) is not None]
    errors += checks.invalid_if(len(families) == 2 and families[0] == families[1], _CIDRS, cidrs, _ONE_OF_EACH)
    return errors
