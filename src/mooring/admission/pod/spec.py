"""Validate a PodSpec from top to bottom, in the order in which Kubernetes reports errors.

Used for pods and pod templates (`PodRules.is_pod`). ``strategy.py`` adds rules for pods only, ``update.py`` those for
updates.
"""

from mooring.admission import checks
from mooring.admission.addresses import validate_legacy_ip
from mooring.admission.pod.affinity import validate_affinity, validate_spread
from mooring.admission.pod.containers import validate_all_containers
from mooring.admission.pod.resources import validate_pod_resources, validate_resources
from mooring.admission.pod.rules import PodRules
from mooring.admission.pod.security import iterate_containers, validate_host_process, validate_os, validate_pod_security
from mooring.admission.pod.tolerations import validate_tolerations
from mooring.admission.pod.volumes import validate_volumes
from mooring.api import field_errors, names
from mooring.api.core_v1 import PodSecurityContext, PodSpec, ResourceRequirements, Volume
from mooring.api.core_v1.pod import HostAlias, PodDNSConfig, PodResourceClaim
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.meta_v1 import ObjectMeta

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_MAX_NAMESERVERS = 3
_MAX_SEARCHES = 32
_MAX_SEARCH_CHARACTERS = 2048
_MAX_HOSTNAME_BYTES = 64
_MAX_DEADLINE = 2**31 - 1
_NO_CONTEXT = PodSecurityContext()


def validate_pod_spec(spec: PodSpec, metadata: ObjectMeta | None, path: Path, rules: PodRules) -> Errors:
    """Return the errors in the spec of a pod with this metadata, or of a pod template (`metadata` is None)."""
    errors = _validate_volumes_and_containers(spec, metadata, path, rules)
    errors += _validate_policies_and_placement(spec, path, rules)
    errors += _validate_names_and_numbers(spec, path)
    if spec.tolerations:
        errors += validate_tolerations(spec.tolerations, path.child("tolerations"), rules)
    if spec.host_aliases:
        errors += _validate_host_aliases(spec.host_aliases, path.child("hostAliases"), rules)
    errors += _validate_class_names(spec, path)
    if spec.overhead:
        errors += validate_resources(ResourceRequirements(limits=spec.overhead), frozenset(), path.child("overhead"))
    if spec.os is not None:
        errors += validate_os(spec, spec.os.name, path)
    if spec.hostname_override is not None:
        errors += _validate_hostname_override(spec, spec.hostname_override, path)
    if rules.options.release_fields is not None:
        errors += rules.options.release_fields.validate_too_new_in_pod_spec(spec, path, rules.too_new_fields)
    return errors


def _validate_volumes_and_containers(spec: PodSpec, metadata: ObjectMeta | None, path: Path, rules: PodRules) -> Errors:
    errors: Errors = []
    if spec.termination_grace_period_seconds is None:
        errors.append(field_errors.required(path.child("terminationGracePeriodSeconds")))
    volumes: dict[str, Volume] = {}
    if spec.volumes:
        volumes, found = validate_volumes(spec.volumes, metadata, path.child("volumes"), rules)
        errors += found
    if spec.resource_claims:
        errors += _validate_resource_claims(spec.resource_claims, path.child("resourceClaims"))
    errors += validate_all_containers(spec, volumes, path, rules)
    if spec.resources is not None:
        errors += validate_pod_resources(spec, spec.resources, path.child("resources"))
    if spec.host_network:
        errors += _validate_host_network_ports(spec, path.child("containers"), rules)
    return errors


def _validate_policies_and_placement(spec: PodSpec, path: Path, rules: PodRules) -> Errors:
    errors = _validate_enumeration(spec.restart_policy, path, "restartPolicy", _RESTART_POLICIES)
    errors += _validate_enumeration(spec.dns_policy, path, "dnsPolicy", _DNS_POLICIES)
    if spec.node_selector:
        errors += names.validate_labels(spec.node_selector, path.child("nodeSelector"))
    is_plain = spec.security_context == _NO_CONTEXT and not spec.share_process_namespace
    if spec.security_context is not None and not is_plain:
        errors += validate_pod_security(spec, spec.security_context, path.child("securityContext"))
    if spec.affinity is not None:
        errors += validate_affinity(spec.affinity, path.child("affinity"), rules)
    if spec.dns_config is not None or spec.dns_policy == "None":
        errors += _validate_dns_config(spec.dns_config, spec.dns_policy, path.child("dnsConfig"), rules)
    for index, gate in enumerate(spec.readiness_gates):
        here = path.child("readinessGates").index(index).child("conditionType")
        errors += names.validate(here, gate.condition_type, names.label_key(gate.condition_type))
    seen = checks.UniqueKeys()
    for index, scheduling_gate in enumerate(spec.scheduling_gates):
        here, name = path.child("schedulingGates").index(index), scheduling_gate.name
        errors += names.validate(here, name, names.label_key(name)) + seen.add(name, here)
    if spec.topology_spread_constraints:
        errors += validate_spread(spec.topology_spread_constraints, path.child("topologySpreadConstraints"), rules)
    errors += validate_host_process(spec, path)
    if spec.share_process_namespace and spec.host_pid:
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(field_errors.invalid(path.child("shareProcessNamespace"), True, detail))
    if spec.host_users is False:
        errors += _validate_host_namespaces(spec, path)
    return errors


def _validate_enumeration(value: str, path: Path, name: str, supported: tuple[str, ...]) -> Errors:
    return [] if value in supported else checks.require_one_of(value, supported, path.child(name))


def _validate_resource_claims(claims: list[PodResourceClaim], path: Path) -> Errors:
    errors: Errors = []
    seen = checks.UniqueKeys()
    for index, claim in enumerate(claims):
        here = path.index(index)
        repeated = seen.add(claim.name, here.child("name")) if claim.name else []
        errors += repeated or checks.require_name(claim.name, here.child("name"), names.dns1123_label)
        given = [claim.resource_claim_name, claim.resource_claim_template_name]
        if None not in given:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(field_errors.invalid(here, claim, detail))
        if given == [None, None]:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(field_errors.invalid(here, claim, detail))
        for name, value in zip(("resourceClaimName", "resourceClaimTemplateName"), given, strict=True):
            errors += checks.optional_name(value, here.child(name), names.dns1123_subdomain)
    return errors


def _validate_host_network_ports(spec: PodSpec, path: Path, rules: PodRules) -> Errors:
    detail = "must match `containerPort` when `hostNetwork` is true"
    return [
        field_errors.invalid(path.index(index).child("ports").index(position).child("hostPort"), port.host_port, detail)
        for index, container in enumerate(spec.containers)
        for position, port in enumerate(container.ports)
        if port.host_port != port.container_port and (rules.is_pod or port.host_port)
    ]


def _validate_host_namespaces(spec: PodSpec, path: Path) -> Errors:
    given = {"hostNetwork": spec.host_network, "HostPID": spec.host_pid, "HostIPC": spec.host_ipc}
    places = [path.child(name) for name, value in given.items() if value]
    places += [
        here.child("volumeDevices") for container, here in iterate_containers(spec, path) if container.volume_devices
    ]
    return [field_errors.forbidden(place, "when `hostUsers` is false") for place in places]


def _validate_names_and_numbers(spec: PodSpec, path: Path) -> Errors:
    errors: Errors = []
    for name, value in (("serviceAccountName", spec.service_account_name), ("nodeName", spec.node_name)):
        if value and (wrong := names.dns1123_subdomain(value)):
            errors += names.validate(path.child(name), value, wrong)
    deadline = spec.active_deadline_seconds
    if deadline is not None and not 1 <= deadline <= _MAX_DEADLINE:
        detail = names.out_of_range(1, _MAX_DEADLINE)
        errors.append(field_errors.invalid(path.child("activeDeadlineSeconds"), deadline, detail))
    for name, value in (("hostname", spec.hostname), ("subdomain", spec.subdomain)):
        errors += checks.optional_name(value or None, path.child(name), names.dns1123_label)
    return errors


def _validate_class_names(spec: PodSpec, path: Path) -> Errors:
    errors: Errors = []
    for name, value in (
        ("priorityClassName", spec.priority_class_name or None),
        ("runtimeClassName", spec.runtime_class_name),
    ):
        if value is not None and (wrong := names.dns1123_subdomain(value)):
            errors += names.validate(path.child(name), value, wrong)
    if spec.preemption_policy is not None:
        errors += _validate_enumeration(spec.preemption_policy, path, "preemptionPolicy", _PREEMPTION_POLICIES)
    return errors


def _validate_hostname_override(spec: PodSpec, name: str, path: Path) -> Errors:
    here = path.child("hostnameOverride")
    if len(name) > _MAX_HOSTNAME_BYTES:
        errors = [field_errors.too_long(here, _MAX_HOSTNAME_BYTES)]
    else:
        errors = names.validate(here, name, names.dns1123_subdomain(name))
    if spec.host_network:
        errors.append(field_errors.forbidden(here, "may not be specified when hostNetwork is true"))
    if spec.set_hostname_as_fqdn:
        errors.append(field_errors.forbidden(here, "may not be specified when setHostnameAsFQDN is true"))
    return errors


def _validate_dns_config(config: PodDNSConfig | None, policy: str, path: Path, rules: PodRules) -> Errors:
    if policy == "None":
        if config is None:
            return [field_errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.nameservers:
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [field_errors.required(path.child("nameservers"), detail)]
    if config is None:
        return []
    errors: Errors = []
    if len(config.nameservers) > _MAX_NAMESERVERS:
        detail = f"must not have more than {_MAX_NAMESERVERS} nameservers"
        errors.append(field_errors.invalid(path.child("nameservers"), config.nameservers, detail))
    for index, server in enumerate(config.nameservers):
        here, strict = path.child("nameservers").index(index), rules.options.strict_addresses
        errors += validate_legacy_ip(server, here, strict=strict)
    errors += _validate_dns_searches(config.searches, path.child("searches"), rules)
    for index, option in enumerate(config.options):
        errors += checks.require(option.name, path.child("options").index(index), "must not be empty")
    return errors


def _validate_dns_searches(searches: list[str], path: Path, rules: PodRules) -> Errors:
    errors: Errors = []
    if len(searches) > _MAX_SEARCHES:
        errors.append(field_errors.invalid(path, searches, f"must not have more than {_MAX_SEARCHES} search paths"))
    if len(" ".join(searches).encode(errors="surrogatepass")) > _MAX_SEARCH_CHARACTERS:
        detail = f"must not have more than {_MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        errors.append(field_errors.invalid(path, searches, detail))
    relaxed = rules.options.relaxed_dns_searches
    check = names.dns1123_subdomain_with_underscore if relaxed else names.dns1123_subdomain
    for index, search in enumerate(searches):
        if not (relaxed and search == "."):
            domain = search.removesuffix(".")
            errors += names.validate(path.index(index), domain, check(domain))
    return errors


def _validate_host_aliases(aliases: list[HostAlias], path: Path, rules: PodRules) -> Errors:
    errors: Errors = []
    for index, alias in enumerate(aliases):
        here = path.index(index)
        errors += validate_legacy_ip(alias.ip, here.child("ip"), strict=rules.options.strict_addresses)
        for position, name in enumerate(alias.hostnames):
            errors += names.validate(here.child("hostnames").index(position), name, names.dns1123_subdomain(name))
    return errors
