"""ServiceCIDRs and IPAddresses: the ranges of cluster IPs, and the allocated ones.

The creator of an IPAddress owns the address. The API server creates those of Services.
"""

from mooring.admission.addresses import canonical_ip_problems, network_of, validate_canonical_cidr
from mooring.admission.checks import optional_name, require_name
from mooring.admission.meta import IMMUTABLE
from mooring.admission.strategy import Request, Strategy
from mooring.api import field_errors, names
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.networking_v1 import IPAddress, ParentReference, ServiceCIDR

_CIDRS = Path("spec", "cidrs")
_PARENT = Path("spec", "parentRef")
_ONE_OF_EACH = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"


class IPAddressStrategy(Strategy[IPAddress]):
    has_generation = False

    def name_check(self, name: str) -> names.Messages:
        return canonical_ip_problems(name)

    def rules(self, obj: IPAddress, old: IPAddress | None, request: Request) -> Errors:
        parent = obj.spec.parent_ref
        errors = [field_errors.required(_PARENT)] if parent is None else _validate_parent(parent)
        if old is not None and parent != old.spec.parent_ref:
            errors.append(field_errors.invalid(_PARENT, parent, IMMUTABLE))
        return errors


def _validate_parent(parent: ParentReference) -> Errors:
    errors = optional_name(parent.group or None, _PARENT.child("group"), names.dns1123_subdomain)
    errors += require_name(parent.resource, _PARENT.child("resource"), names.path_segment_name)
    errors += require_name(parent.name, _PARENT.child("name"), names.path_segment_name)
    return errors + optional_name(parent.namespace or None, _PARENT.child("namespace"), names.path_segment_name)


class ServiceCIDRStrategy(Strategy[ServiceCIDR]):
    has_generation = False

    def rules(self, obj: ServiceCIDR, old: ServiceCIDR | None, request: Request) -> Errors:
        cidrs = obj.spec.cidrs
        if old is None:
            return _validate_networks(cidrs)
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
        return changed + _validate_networks(cidrs)


def _validate_networks(cidrs: list[str]) -> Errors:
    if not cidrs:
        return [field_errors.required(_CIDRS, "at least one CIDR required")]
    if len(cidrs) > 2:
        return [field_errors.invalid(_CIDRS, {"CIDRs": cidrs}, "may only hold up to 2 values")]
    errors: Errors = []
    for index, cidr in enumerate(cidrs):
        errors += validate_canonical_cidr(cidr, _CIDRS.index(index))
    families = [network.version for cidr in cidrs if (network := network_of(cidr)) is not None]
    if len(families) == 2 and families[0] == families[1]:
        errors.append(field_errors.invalid(_CIDRS, cidrs, _ONE_OF_EACH))
    return errors
