"""Table printers of cluster and configuration kinds: nodes, namespaces, services, events and others."""

from collections.abc import Callable
from typing import Any

from mooring.api import core_v1
from mooring.apiserver.output.tables.printer import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Printer,
    age,
    date,
    join_values,
    labels,
    number,
    printer,
    selector,
    text,
    wide,
)
from mooring.apiserver.output.tables.row import duration

_ROLE = "node-role.kubernetes.io/"
_OLD_ROLE = "kubernetes.io/role"
_MAX_LISTED = 3


def _node_status(node: core_v1.Node) -> str:
    ready = next((each.status for each in node.status.conditions if each.type == "Ready"), None)
    status = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if node.spec.unschedulable else status


def _node_roles(node: core_v1.Node) -> str:
    roles = {key.removeprefix(_ROLE) for key in node.metadata.labels if key.startswith(_ROLE)}
    roles.add(node.metadata.labels.get(_OLD_ROLE, ""))
    return join_values(sorted(roles - {""}))


def _node_address(wanted: str) -> Callable[[core_v1.Node], str]:
    return lambda node: next((each.address for each in node.status.addresses if each.type == wanted), NONE)


def _external_address(service: core_v1.Service) -> str:
    spec = service.spec
    if spec.type == "ExternalName":
        return spec.external_name
    if spec.type == "LoadBalancer":
        points = [point.ip or point.hostname for point in service.status.load_balancer.ingress]
        return join_values([*filter(None, points), *spec.external_ips], "<pending>")
    return join_values(spec.external_ips)


def _service_port(port: core_v1.ServicePort) -> str:
    return f"{port.port}{f':{port.node_port}' if port.node_port else ''}/{port.protocol}"


def _format_endpoints(endpoints: core_v1.Endpoints) -> str:
    return _join_first(
        [
            address.ip + port
            for subset in endpoints.subsets
            for port in ([f":{port.port}" for port in subset.ports] or [""])
            for address in subset.addresses
        ]
    )


def _join_first(values: list[str]) -> str:
    if len(values) <= _MAX_LISTED:
        return join_values(values)
    return f"{','.join(values[:_MAX_LISTED])} + {len(values) - _MAX_LISTED} more..."


def _event_columns(subject: str, message: str, reporter: str, old: str) -> Printer:
    """Return the columns of an event kind; the two API groups name the shown fields differently."""

    def first_time(event: Any) -> Any:
        return getattr(event, f"{old}first_timestamp") or event.event_time

    def last_time(event: Any) -> Any:
        if event.series:
            return event.series.last_observed_time
        return getattr(event, f"{old}last_timestamp") or first_time(event)

    def source(event: Any) -> Any:
        found = getattr(event, f"{old}source")
        return ", ".join(filter(None, (found.component, found.host))) or getattr(event, reporter)

    def format_reference(event: Any) -> str:
        reference = getattr(event, subject)
        return f"{reference.kind.lower()}/{reference.name}" if reference.name else reference.kind.lower()

    return printer(
        text("Last Seen", lambda event: age(last_time(event))),
        text("Type", "type"),
        text("Reason", "reason"),
        text("Object", format_reference),
        wide("Subobject", f"{subject}.field_path"),
        wide("Source", source),
        text("Message", lambda event: getattr(event, message).strip()),
        wide("First Seen", lambda event: age(first_time(event))),
        wide("Count", lambda event: event.series.count if event.series else max(getattr(event, f"{old}count"), 1)),
        wide("Name", "metadata.name"),
    )


def _quantities(*, of_limits: bool) -> Callable[[core_v1.ResourceQuota], str]:
    def format_quantities(quota: core_v1.ResourceQuota) -> str:
        hard, used = quota.status.hard, quota.status.used
        names = [name for name in sorted(hard) if name.startswith("limits.") == of_limits]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return format_quantities


def _request_state(request: Any) -> str:
    decided = {condition.type for condition in request.status.conditions}
    state = "Denied" if "Denied" in decided else "Approved" if "Approved" in decided else "Pending"
    return state + ",Failed" * ("Failed" in decided) + ",Issued" * bool(request.status.certificate)


def _requested_duration(request: Any) -> str:
    wanted = request.spec.expiration_seconds
    return NONE if wanted is None else duration(wanted)


def _subjects_of_kind(kind: str) -> Callable[[Any], str]:
    def format_subjects(binding: Any) -> str:
        found = [subject for subject in binding.subjects if subject.kind == kind]
        return ", ".join(f"{one.namespace}/{one.name}" if kind == "ServiceAccount" else one.name for one in found)

    return format_subjects


def _param_kind(policy: Any) -> str:
    kind = policy.spec.param_kind
    return UNSET if kind is None else f"{kind.api_version}/{kind.kind}"


def _param_ref(binding: Any) -> str:
    ref = binding.spec.param_ref
    if ref is not None and ref.name:
        return f"{ref.namespace or '*'}/{ref.name}"
    return selector(ref.selector) if ref is not None and ref.selector is not None else UNSET


def _policies(rules: str, count: Callable[[Any], int]) -> Printer:
    return printer(NAME, number(rules, count), text("ParamKind", _param_kind), AGE)


def _queuing_field(field: str) -> Callable[[Any], Any]:
    def find(level: Any) -> Any:
        limited = level.spec.limited
        queuing = limited.limit_response.queuing if limited else None
        return getattr(queuing, field) if queuing else NONE

    return find


DEFAULT = printer(NAME, AGE)
"""The printer of kinds that have none of their own: name and age."""
_CREATED = printer(NAME, date("Created At", "metadata.creation_timestamp"))
_ROLE_BINDINGS = printer(
    NAME,
    text("Role", lambda binding: f"{binding.role_ref.kind}/{binding.role_ref.name}"),
    AGE,
    wide("Users", _subjects_of_kind("User")),
    wide("Groups", _subjects_of_kind("Group")),
    wide("ServiceAccounts", _subjects_of_kind("ServiceAccount")),
)
_POLICY_BINDINGS = printer(NAME, text("PolicyName", "spec.policy_name"), text("ParamRef", _param_ref), AGE)

PRINTERS = {
    "ConfigMap": printer(NAME, number("Data", lambda each: len(each.data) + len(each.binary_data)), AGE),
    "Endpoints": printer(NAME, text("Endpoints", _format_endpoints), AGE),
    "Event": _event_columns("involved_object", "message", "reporting_component", ""),
    "LimitRange": _CREATED,
    "Namespace": printer(NAME, text("Status", "status.phase"), AGE),
    "Node": printer(
        NAME,
        text("Status", _node_status),
        text("Roles", _node_roles),
        AGE,
        text("Version", "status.node_info.kubelet_version"),
        wide("Internal-IP", _node_address("InternalIP")),
        wide("External-IP", _node_address("ExternalIP")),
        wide("OS-Image", "status.node_info.os_image", UNKNOWN),
        wide("Kernel-Version", "status.node_info.kernel_version", UNKNOWN),
        wide("Container-Runtime", "status.node_info.container_runtime_version", UNKNOWN),
    ),
    "ResourceQuota": printer(
        NAME, text("Request", _quantities(of_limits=False)), text("Limit", _quantities(of_limits=True)), AGE
    ),
    "Secret": printer(NAME, text("Type", "type"), number("Data", lambda each: len(each.data)), AGE),
    "Service": printer(
        NAME,
        text("Type", "spec.type"),
        text("Cluster-IP", lambda each: join_values(each.spec.cluster_ips or filter(None, [each.spec.cluster_ip]))),
        text("External-IP", _external_address),
        text("Port(s)", lambda each: join_values(map(_service_port, each.spec.ports))),
        AGE,
        wide("Selector", lambda each: labels(each.spec.selector)),
    ),
    "ServiceAccount": printer(NAME, number("Secrets", lambda each: len(each.secrets)), AGE),
    "MutatingAdmissionPolicy.admissionregistration.k8s.io": _policies(
        "Mutations", lambda each: len(each.spec.mutations)
    ),
    "MutatingAdmissionPolicyBinding.admissionregistration.k8s.io": _POLICY_BINDINGS,
    "ValidatingAdmissionPolicy.admissionregistration.k8s.io": _policies(
        "Validations", lambda each: len(each.spec.validations)
    ),
    "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io": _POLICY_BINDINGS,
    "CustomResourceDefinition.apiextensions.k8s.io": _CREATED,
    "CertificateSigningRequest.certificates.k8s.io": printer(
        NAME,
        AGE,
        text("SignerName", "spec.signer_name"),
        text("Requestor", "spec.username"),
        text("RequestedDuration", _requested_duration),
        text("Condition", _request_state),
    ),
    "Lease.coordination.k8s.io": printer(NAME, text("Holder", "spec.holder_identity", ""), AGE),
    "EndpointSlice.discovery.k8s.io": printer(
        NAME,
        text("AddressType", "address_type"),
        text(
            "Ports",
            lambda each: _join_first(["*" if one.port is None else str(one.port) for one in each.ports] or [UNSET]),
        ),
        text("Endpoints", lambda each: _join_first([ip for one in each.endpoints for ip in one.addresses] or [UNSET])),
        AGE,
    ),
    "Event.events.k8s.io": _event_columns("regarding", "note", "reporting_controller", "deprecated_"),
    "FlowSchema.flowcontrol.apiserver.k8s.io": printer(
        NAME,
        text("PriorityLevel", "spec.priority_level_configuration.name"),
        text("MatchingPrecedence", "spec.matching_precedence"),
        text(
            "DistinguisherMethod",
            lambda each: each.spec.distinguisher_method.type if each.spec.distinguisher_method else NONE,
        ),
        AGE,
        text(
            "MissingPL",
            lambda each: next((one.status for one in each.status.conditions if one.type == "Dangling"), "?"),
        ),
    ),
    "PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io": printer(
        NAME,
        text("Type", "spec.type"),
        text(
            "NominalConcurrencyShares",
            lambda each: each.spec.limited.nominal_concurrency_shares if each.spec.limited else NONE,
        ),
        text("Queues", _queuing_field("queues")),
        text("HandSize", _queuing_field("hand_size")),
        text("QueueLengthLimit", _queuing_field("queue_length_limit")),
        AGE,
    ),
    "ClusterRole.rbac.authorization.k8s.io": _CREATED,
    "ClusterRoleBinding.rbac.authorization.k8s.io": _ROLE_BINDINGS,
    "Role.rbac.authorization.k8s.io": _CREATED,
    "RoleBinding.rbac.authorization.k8s.io": _ROLE_BINDINGS,
}
