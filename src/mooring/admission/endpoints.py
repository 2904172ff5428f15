"""Validate Endpoints and EndpointSlices: the endpoint addresses of a Service."""

from collections.abc import Callable

from mooring.admission import checks
from mooring.admission.addresses import canonical_ip_problems, is_ip, validate_endpoint_ip, validate_legacy_ip
from mooring.admission.service import PROTOCOLS
from mooring.admission.strategy import Request, Strategy, set_missing
from mooring.api import discovery_v1 as v1
from mooring.api import field_errors, names
from mooring.api.core_v1 import EndpointAddress, EndpointPort, Endpoints, EndpointSubset
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

MAX_ENDPOINTS = 1000
MAX_ADDRESSES = 100
MAX_PORTS = 20_000
MAX_HINTS = 8
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")


class EndpointsStrategy(Strategy[Endpoints]):
    has_generation = False
    allow_create_on_update = True

    def default(self, obj: Endpoints) -> None:
        for subset in obj.subsets:
            for port in subset.ports:
                port.protocol = port.protocol or "TCP"

    def validate(self, obj: Endpoints, old: Endpoints | None, request: Request) -> Errors:
        if old is not None and obj.subsets == old.subsets:
            return []
        here, strict = Path("subsets"), request.options.strict_addresses
        return checks.validate_items(obj.subsets, here, _validate_endpoint_subset, strict)


def _validate_endpoint_subset(subset: EndpointSubset, path: Path, strict: bool) -> Errors:
    errors: Errors = []
    if not subset.addresses and not subset.not_ready_addresses:
        errors.append(field_errors.required(path, "must specify `addresses` or `notReadyAddresses`"))
    for name, addresses in checks.select_fields(subset, "addresses", "notReadyAddresses"):
        errors += checks.validate_items(addresses, path.child(name), _validate_endpoint_address, strict)
    return errors + checks.validate_items(
        subset.ports, path.child("ports"), _validate_endpoint_port, len(subset.ports) > 1
    )


def _validate_endpoint_address(address: EndpointAddress, path: Path, strict: bool) -> Errors:
    here = path.child("ip")
    errors = validate_legacy_ip(address.ip, here, strict=strict)
    if is_ip(address.ip):
        errors += validate_endpoint_ip(address.ip, here)
    else:
        errors.append(field_errors.invalid(here, address.ip, "must be a valid IP address"))
    errors += checks.optional_name(address.hostname or None, path.child("hostname"), names.dns1123_label)
    return errors + checks.optional_name(address.node_name, path.child("nodeName"), names.dns1123_subdomain)


def _validate_endpoint_port(port: EndpointPort, path: Path, needs_name: bool) -> Errors:
    errors = [field_errors.required(path.child("name"))] if needs_name and not port.name else []
    errors += checks.optional_name(port.name or None, path.child("name"), names.dns1123_label)
    errors += [field_errors.invalid(path.child("port"), port.port, message) for message in names.port_number(port.port)]
    errors += checks.one_of(port.protocol, PROTOCOLS, path.child("protocol"))
    return errors + checks.optional_name(port.app_protocol, path.child("appProtocol"), names.label_key)


class EndpointSliceStrategy(Strategy[v1.EndpointSlice]):
    immutable = ("addressType",)

    def default(self, obj: v1.EndpointSlice) -> None:
        for port in obj.ports:
            set_missing(port, name="", protocol="TCP")

    def validate(self, obj: v1.EndpointSlice, old: v1.EndpointSlice | None, request: Request) -> Errors:
        errors = checks.require_one_of(obj.address_type, _ADDRESS_TYPES, Path("addressType"))
        if old is None or obj.endpoints != old.endpoints:
            strict = request.options.strict_addresses
            errors += _validate_slice_endpoints(obj.endpoints, obj.address_type, Path("endpoints"), strict)
        return errors + _validate_slice_ports(obj.ports, Path("ports"))

    def prepare_for_create(self, obj: v1.EndpointSlice, request: Request) -> None:
        super().prepare_for_create(obj, request)
        for endpoint in obj.endpoints:
            endpoint.deprecated_topology = {}  # v1 documents that it cannot be written

    def prepare_for_update(self, new: v1.EndpointSlice, old: v1.EndpointSlice, request: Request) -> None:
        changed = (new.endpoints, new.ports, new.metadata.labels) != (old.endpoints, old.ports, old.metadata.labels)
        new.metadata.generation = old.metadata.generation + changed
        for endpoint in new.endpoints if new.endpoints != old.endpoints else ():
            endpoint.deprecated_topology = {}

    def warnings(self, new: v1.EndpointSlice, old: v1.EndpointSlice | None, request: Request) -> list[str]:
        if new.address_type != "FQDN" or old is not None:
            return []
        return ["spec.addressType: FQDN endpoints are deprecated"]


def _validate_slice_endpoints(endpoints: list[v1.Endpoint], kind: str, path: Path, strict: bool) -> Errors:
    if len(endpoints) > MAX_ENDPOINTS:
        return [field_errors.too_many(path, len(endpoints), MAX_ENDPOINTS)]
    errors: Errors = []
    for index, endpoint in enumerate(endpoints):
        here = path.index(index)
        errors += _validate_slice_addresses(endpoint.addresses, kind, here.child("addresses"), strict)
        errors += checks.optional_name(endpoint.node_name, here.child("nodeName"), names.dns1123_subdomain)
        errors += checks.optional_name(endpoint.hostname, here.child("hostname"), names.dns1123_label)
        if endpoint.hints is not None:
            hints, at = endpoint.hints, here.child("hints")
            zones, nodes = [each.name for each in hints.for_zones], [each.name for each in hints.for_nodes]
            errors += _validate_topology_hints(zones, at.child("forZones"), names.label_value)
            errors += _validate_topology_hints(nodes, at.child("forNodes"), names.dns1123_subdomain)
    return errors


def _validate_topology_hints(given: list[str], path: Path, check: Callable[[str], names.Messages]) -> Errors:
    if len(given) > MAX_HINTS:
        return [field_errors.too_many(path, len(given), MAX_HINTS)]
    errors, seen = Errors(), checks.UniqueKeys()
    for index, name in enumerate(given):
        here = path.index(index).child("name")
        errors += seen.add(name, here) + names.validate(here, name, check(name))
    return errors


def _validate_domain_name(name: str, path: Path) -> Errors:
    """Return errors for a domain name of fewer than two labels or with malformed ones; a trailing dot is allowed."""
    if not name:
        return [field_errors.required(path)]
    name = name.removesuffix(".")
    wrong = names.dns1123_subdomain(name)
    if not wrong and "." not in name:
        wrong = ("should be a domain with at least two segments separated by dots",)
    if wrong:
        return [field_errors.invalid(path, name, ",".join(wrong))]
    labels = [(each, names.dns1123_label(each)) for each in name.split(".")]
    return [field_errors.invalid(path, each, ",".join(wrong)) for each, wrong in labels if wrong][:1]


def _validate_slice_addresses(addresses: list[str], kind: str, path: Path, strict: bool) -> Errors:
    errors = checks.require(addresses, path)
    errors += checks.limit_items(addresses, MAX_ADDRESSES, path)
    for index, address in enumerate(addresses):
        here = path.index(index)
        if kind == "FQDN":
            errors += _validate_domain_name(address, here)
        elif kind in ("IPv4", "IPv6"):
            if kind == "IPv4":
                wrong = validate_legacy_ip(address, here, strict=strict)
            else:
                wrong = names.validate(here, address, canonical_ip_problems(address))
            if not wrong and (":" in address) != (kind == "IPv6"):
                errors.append(field_errors.invalid(path, address, f"must be an {kind} address"))
            errors += wrong or validate_endpoint_ip(address, here)
    return errors


def _validate_slice_ports(ports: list[v1.EndpointPort], path: Path) -> Errors:
    if len(ports) > MAX_PORTS:
        return [field_errors.too_many(path, len(ports), MAX_PORTS)]
    errors: Errors = []
    seen = checks.UniqueKeys()
    for index, port in enumerate(ports):
        here = path.index(index)
        errors += checks.optional_name(port.name or None, here.child("name"), names.dns1123_label)
        errors += seen.add(port.name or "", here.child("name"))
        errors += checks.one_of(port.protocol, PROTOCOLS, here.child("protocol"))
        errors += checks.optional_name(port.app_protocol, here.child("appProtocol"), names.label_key)
    return errors
