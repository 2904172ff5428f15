"""Choose and validate the IP families of a Service. The API server allocates addresses after admission."""

from mooring.admission import checks
from mooring.admission.addresses import is_ip, validate_legacy_ip
from mooring.admission.options import AdmissionOptions
from mooring.api import field_errors
from mooring.api.core_v1 import Service, ServiceSpec
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

HEADLESS = "None"
SINGLE, PREFER, REQUIRE = "SingleStack", "PreferDualStack", "RequireDualStack"
_POLICIES = (SINGLE, PREFER, REQUIRE)
_FAMILIES = ("IPv4", "IPv6")
_SPEC = Path("spec")
_POLICY, _IPS, _GIVEN = _SPEC.child("ipFamilyPolicy"), _SPEC.child("clusterIPs"), _SPEC.child("ipFamilies")


def is_headless(spec: ServiceSpec) -> bool:
    return spec.cluster_ips[:1] == [HEADLESS] or spec.cluster_ip == HEADLESS


def get_ip_family(address: str) -> str:
    return "IPv6" if ":" in address else "IPv4"


def set_ip_families(new: Service, old: Service | None, families: tuple[str, ...]) -> None:
    """Set a Service's missing IP family policy and families; `families` are the cluster's, the default first."""
    spec = new.spec
    if spec.type == "ExternalName" or (old is not None and _keeps_families(spec, old.spec)):
        return
    spec.ip_family_policy = spec.ip_family_policy or _choose_default_policy(spec, old)
    if old is not None and spec.ip_family_policy == SINGLE:
        if spec.cluster_ips == old.spec.cluster_ips:
            spec.cluster_ips = spec.cluster_ips[:1]
        if spec.ip_families == old.spec.ip_families:
            spec.ip_families = spec.ip_families[:1]
    for address in spec.cluster_ips[len(spec.ip_families) :]:
        family = get_ip_family(address)
        if not is_ip(address) or family not in families or family in spec.ip_families:
            break
        spec.ip_families.append(family)
    if not spec.ip_families and spec.cluster_ips in ([], [HEADLESS]):
        spec.ip_families = [families[0]]
    has_both = len(families) == 2 or (is_headless(spec) and not spec.selector)
    if spec.ip_family_policy != SINGLE and len(spec.ip_families) == 1 and has_both:
        spec.ip_families.append("IPv6" if spec.ip_families[0] == "IPv4" else "IPv4")


def _keeps_families(new: ServiceSpec, old: ServiceSpec) -> bool:
    same = (new.cluster_ips, new.ip_families, new.type) == (old.cluster_ips, old.ip_families, old.type)
    return same and new.ip_family_policy == old.ip_family_policy == PREFER


def _choose_default_policy(spec: ServiceSpec, old: Service | None) -> str:
    if old is not None and old.spec.ip_family_policy is not None:
        return old.spec.ip_family_policy
    return REQUIRE if is_headless(spec) and not spec.selector else SINGLE


def validate_ip_families(new: Service, old: Service | None, options: AdmissionOptions) -> Errors:
    """Return errors in a Service's cluster IPs, IP families and policy. With these, Kubernetes reports no others."""
    spec, families = new.spec, options.service_families
    if spec.type == "ExternalName":
        return []
    errors = _validate_cluster_ips(spec, old.spec.cluster_ips if old is not None else [], options)
    if errors:
        return errors
    if spec.ip_family_policy == SINGLE:
        detail = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
        for what, given in (("cluster IPs", spec.cluster_ips), ("IP families", spec.ip_families)):
            if len(given) == 2:
                errors.append(field_errors.invalid(_POLICY, spec.ip_family_policy, detail.format(what)))
    elif old is not None and old.spec.type != "ExternalName":
        detail = "must be 'SingleStack' to release the secondary {}"
        for what, given, before in (
            ("cluster IP", spec.cluster_ips, old.spec.cluster_ips),
            ("IP family", spec.ip_families, old.spec.ip_families),
        ):
            if len(before) == 2 and len(given) == 1:
                errors.append(field_errors.invalid(_POLICY, spec.ip_family_policy, detail.format(what)))
    for index, address in enumerate(spec.cluster_ips):
        is_extra = index >= len(spec.ip_families) and address != HEADLESS and get_ip_family(address) not in families
        detail = f"{get_ip_family(address)} is not configured on this cluster"
        errors += checks.invalid_if(is_extra, _IPS.index(index), spec.cluster_ips, detail)
    return errors or _validate_configured_families(spec, old, families)


def _validate_cluster_ips(spec: ServiceSpec, stored: list[str], options: AdmissionOptions) -> Errors:
    addresses, errors = spec.cluster_ips, Errors()
    if spec.cluster_ip and addresses[:1] != [spec.cluster_ip]:
        errors.append(field_errors.invalid(_IPS, addresses, "first value must match `clusterIP`"))
    if addresses and not spec.cluster_ip:
        errors.append(field_errors.invalid(_IPS, addresses, "must be empty when `clusterIP` is not specified"))
    errors += _validate_listed_families(spec)
    wrong: Errors = []
    if addresses[:1] == [HEADLESS] and len(addresses) > 1:
        wrong.append(field_errors.invalid(_IPS, addresses, "'None' must be the first and only value"))
    for index, address in enumerate(addresses):
        if address not in stored and (index or address != HEADLESS):
            wrong += validate_legacy_ip(address, _IPS.index(index), strict=options.strict_addresses)
    errors += wrong
    errors += checks.invalid_if(len(addresses) > 2, _IPS, addresses, "may only hold up to 2 values")
    if wrong:
        return errors
    if len(addresses) > 1 and {get_ip_family(address) for address in addresses} != set(_FAMILIES):
        errors.append(field_errors.invalid(_IPS, addresses, "may specify no more than one IP for each IP family"))
    return errors + _validate_addresses_match_families(spec)


def _validate_listed_families(spec: ServiceSpec) -> Errors:
    errors = checks.optional_one_of(spec.ip_family_policy, sorted(_POLICIES), _POLICY)
    seen = checks.UniqueKeys()
    for index, family in enumerate(spec.ip_families):
        errors += checks.one_of(family, _FAMILIES, _GIVEN.index(index)) + seen.add(family, _GIVEN.index(index))
    return errors


def _validate_addresses_match_families(spec: ServiceSpec) -> Errors:
    pairs = list(zip(spec.cluster_ips, spec.ip_families, strict=False))
    return [
        field_errors.invalid(
            _IPS.index(index), address, f"expected an {family} value as indicated by `ipFamilies[{index}]`"
        )
        for index, (address, family) in enumerate(pairs)
        if address not in ("", HEADLESS) and family in _FAMILIES and get_ip_family(address) != family
    ]


def _validate_configured_families(spec: ServiceSpec, old: Service | None, families: tuple[str, ...]) -> Errors:
    if (is_headless(spec) and not spec.selector) or (old is not None and _keeps_families(spec, old.spec)):
        return []
    detail, policy = "this cluster is not configured for dual-stack services", spec.ip_family_policy
    errors = checks.invalid_if(policy == REQUIRE and len(families) < 2, _POLICY, policy, detail)
    return errors + [
        field_errors.invalid(_GIVEN.index(index), family, "not configured on this cluster")
        for index, family in enumerate(spec.ip_families)
        if family not in families
    ]
