"""Rows of what belongs to the cluster and of what pods are configured with: nodes, namespaces, services, events…"""

from collections.abc import Iterable
from typing import Any

from mooring.api import core_v1, discovery_v1, events_v1
from mooring.apiserver.output.tables.printer import (
    NONE,
    UNKNOWN,
    UNSET,
    Printer,
    age,
    date,
    duration,
    joined,
    labels,
    number,
    text,
    wide,
)

_ROLE = "node-role.kubernetes.io/"
_OLD_ROLE = "kubernetes.io/role"


def _node(each: core_v1.Node) -> list[Any]:
    addresses = {address.type: address.address for address in reversed(each.status.addresses)}
    info = each.status.node_info
    return [
        each.metadata.name,
        _node_status(each),
        joined(_roles(each)),
        age(each.metadata.creation_timestamp),
        info.kubelet_version,
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        info.os_image or UNKNOWN,
        info.kernel_version or UNKNOWN,
        info.container_runtime_version or UNKNOWN,
    ]


def _node_status(node: core_v1.Node) -> str:
    ready = next((each.status for each in node.status.conditions if each.type == "Ready"), None)
    words = ["Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"]
    return ",".join([*words, "SchedulingDisabled"] if node.spec.unschedulable else words)


def _roles(node: core_v1.Node) -> list[str]:
    roles = {key.removeprefix(_ROLE) for key in node.metadata.labels if key.startswith(_ROLE)}
    roles.add(node.metadata.labels.get(_OLD_ROLE, ""))
    return sorted(roles - {""})


NODES = Printer(
    (
        *map(text, ("Name", "Status", "Roles", "Age", "Version")),
        *map(wide, ("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime")),
    ),
    _node,
)


def _namespace(each: core_v1.Namespace) -> list[Any]:
    return [each.metadata.name, each.status.phase, age(each.metadata.creation_timestamp)]


NAMESPACES = Printer(tuple(map(text, ("Name", "Status", "Age"))), _namespace)


def _service(each: core_v1.Service) -> list[Any]:
    spec = each.spec
    return [
        each.metadata.name,
        spec.type,
        joined(spec.cluster_ips or ([spec.cluster_ip] if spec.cluster_ip else [])),
        _external(each),
        joined(_service_ports(spec.ports)),
        age(each.metadata.creation_timestamp),
        labels(spec.selector),
    ]


def _external(service: core_v1.Service) -> str:
    spec = service.spec
    if spec.type == "ExternalName":
        return spec.external_name
    if spec.type == "LoadBalancer":
        points = [point.ip or point.hostname for point in service.status.load_balancer.ingress]
        return joined([*filter(None, points), *spec.external_ips], "<pending>")
    return joined(spec.external_ips)


def _service_ports(ports: Iterable[core_v1.ServicePort]) -> Iterable[str]:
    for port in ports:
        node = f":{port.node_port}" if port.node_port else ""
        yield f"{port.port}{node}/{port.protocol}"


SERVICES = Printer(
    (*map(text, ("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age")), wide("Selector")), _service
)


def _endpoints(each: core_v1.Endpoints) -> list[Any]:
    found = [
        address.ip + port
        for subset in each.subsets
        for port in ([f":{port.port}" for port in subset.ports] or [""])
        for address in subset.addresses
    ]
    return [each.metadata.name, _some(found), age(each.metadata.creation_timestamp)]


def _some(values: list[str], most: int = 3) -> str:
    """The first few of many."""
    if len(values) <= most:
        return joined(values)
    return f"{','.join(values[:most])} + {len(values) - most} more..."


ENDPOINTS = Printer(tuple(map(text, ("Name", "Endpoints", "Age"))), _endpoints)


def _endpoint_slice(each: discovery_v1.EndpointSlice) -> list[Any]:
    ports = ["*" if port.port is None else str(port.port) for port in each.ports]
    addresses = [address for endpoint in each.endpoints for address in endpoint.addresses]
    return [
        each.metadata.name,
        each.address_type,
        _some(ports) if ports else UNSET,
        _some(addresses) if addresses else UNSET,
        age(each.metadata.creation_timestamp),
    ]


ENDPOINT_SLICES = Printer(tuple(map(text, ("Name", "AddressType", "Ports", "Endpoints", "Age"))), _endpoint_slice)


def _core_event(each: core_v1.Event) -> list[Any]:
    first = each.first_timestamp or each.event_time
    last = each.series.last_observed_time if each.series else each.last_timestamp or first
    source = ", ".join(filter(None, (each.source.component, each.source.host)))
    return [
        age(last),
        each.type,
        each.reason,
        _object(each.involved_object),
        each.involved_object.field_path,
        source or each.reporting_component,
        each.message.strip(),
        age(first),
        each.series.count if each.series else max(each.count, 1),
        each.metadata.name,
    ]


def _event(each: events_v1.Event) -> list[Any]:
    first = each.deprecated_first_timestamp or each.event_time
    last = each.series.last_observed_time if each.series else each.deprecated_last_timestamp or first
    old = each.deprecated_source
    source = ", ".join(filter(None, (old.component, old.host)))
    return [
        age(last),
        each.type,
        each.reason,
        _object(each.regarding),
        each.regarding.field_path,
        source or each.reporting_controller,
        each.note.strip(),
        age(first),
        each.series.count if each.series else max(each.deprecated_count, 1),
        each.metadata.name,
    ]


def _object(reference: core_v1.ObjectReference) -> str:
    return f"{reference.kind.lower()}/{reference.name}" if reference.name else reference.kind.lower()


_EVENT_COLUMNS = (
    *map(text, ("Last Seen", "Type", "Reason", "Object")),
    wide("Subobject"),
    wide("Source"),
    text("Message"),
    *map(wide, ("First Seen", "Count", "Name")),
)
CORE_EVENTS = Printer(_EVENT_COLUMNS, _core_event)
EVENTS = Printer(_EVENT_COLUMNS, _event)


def _config_map(each: core_v1.ConfigMap) -> list[Any]:
    return [each.metadata.name, len(each.data) + len(each.binary_data), age(each.metadata.creation_timestamp)]


CONFIG_MAPS = Printer((text("Name"), number("Data"), text("Age")), _config_map)


def _secret(each: core_v1.Secret) -> list[Any]:
    return [each.metadata.name, each.type, len(each.data), age(each.metadata.creation_timestamp)]


SECRETS = Printer((text("Name"), text("Type"), number("Data"), text("Age")), _secret)


def _service_account(each: core_v1.ServiceAccount) -> list[Any]:
    return [each.metadata.name, len(each.secrets), age(each.metadata.creation_timestamp)]


SERVICE_ACCOUNTS = Printer((text("Name"), number("Secrets"), text("Age")), _service_account)


def _quota(each: core_v1.ResourceQuota) -> list[Any]:
    requests: list[str] = []
    limits: list[str] = []
    for resource in sorted(each.status.hard):
        used = each.status.used.get(resource, "0")
        entry = f"{resource}: {used}/{each.status.hard[resource]}"
        (limits if resource.startswith("limits.") else requests).append(entry)
    return [
        each.metadata.name,
        ", ".join(requests),
        ", ".join(limits),
        age(each.metadata.creation_timestamp),
    ]


RESOURCE_QUOTAS = Printer(tuple(map(text, ("Name", "Request", "Limit", "Age"))), _quota)


def _created(each: Any) -> list[Any]:
    return [each.metadata.name, each.metadata.creation_timestamp]


CREATED = Printer((text("Name"), date("Created At")), _created)
"""For kinds of which Kubernetes shows nothing else: limit ranges, roles."""


def _name_and_age(each: Any) -> list[Any]:
    return [each.metadata.name, age(each.metadata.creation_timestamp)]


NAME_AND_AGE = Printer((text("Name"), text("Age")), _name_and_age)


def _lease(each: Any) -> list[Any]:
    return [each.metadata.name, each.spec.holder_identity or "", age(each.metadata.creation_timestamp)]


LEASES = Printer(tuple(map(text, ("Name", "Holder", "Age"))), _lease)


def _certificate_request(each: Any) -> list[Any]:
    decided = {condition.type for condition in each.status.conditions}
    state = "Denied" if "Denied" in decided else "Approved" if "Approved" in decided else "Pending"
    state += ",Failed" * ("Failed" in decided) + ",Issued" * bool(each.status.certificate)
    wanted = each.spec.expiration_seconds
    lasts = "<none>" if wanted is None else duration(wanted)
    made = age(each.metadata.creation_timestamp)
    return [each.metadata.name, made, each.spec.signer_name, each.spec.username, lasts, state]


CERTIFICATE_REQUESTS = Printer(
    tuple(map(text, ("Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"))), _certificate_request
)


def _binding(each: Any) -> list[Any]:
    def subjects(kind: str) -> str:
        found = [subject for subject in each.subjects if subject.kind == kind]
        return ", ".join(f"{one.namespace}/{one.name}" if kind == "ServiceAccount" else one.name for one in found)

    return [
        each.metadata.name,
        f"{each.role_ref.kind}/{each.role_ref.name}",
        age(each.metadata.creation_timestamp),
        *map(subjects, ("User", "Group", "ServiceAccount")),
    ]


ROLE_BINDINGS = Printer(
    (*map(text, ("Name", "Role", "Age")), *map(wide, ("Users", "Groups", "ServiceAccounts"))), _binding
)
