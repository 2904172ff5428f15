"""Table printers of Ingresses, network policies, autoscalers, certificates and related kinds."""

from typing import Any

from mooring.api import autoscaling_v1, autoscaling_v2, networking_v1
from mooring.api.autoscaler_conversion import autoscaler_from_v1
from mooring.apiserver.output.tables.printer import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Printer,
    age,
    class_name,
    define,
    labels,
    printer,
    selector,
    text,
    wide,
)

_WIDTH = 16
_MAX_HOSTS, _MAX_METRICS = 3, 2


def _hosts_of(ingress: networking_v1.Ingress) -> str:
    rules = ingress.spec.rules
    hosts = [rule.host for rule in rules if rule.host]
    shown = ",".join(hosts[:_MAX_HOSTS]) or "*"
    if len(hosts) >= _MAX_HOSTS and len(rules) > _MAX_HOSTS:
        shown += f" + {len(rules) - _MAX_HOSTS} more..."
    return shown


def _addresses_of(ingress: networking_v1.Ingress) -> str:
    found = ",".join(sorted({each.ip or each.hostname for each in ingress.status.load_balancer.ingress} - {""}))
    return f"{found[: _WIDTH - 3]}..." if len(found) > _WIDTH else found


def _class_parameters(each: networking_v1.IngressClass) -> str:
    parameters = each.spec.parameters
    if parameters is None:
        return NONE
    group = "" if parameters.api_group is None else f".{parameters.api_group}"
    return f"{parameters.kind}{group}/{parameters.name}"


def _format_parent(address: networking_v1.IPAddress) -> str:
    parent = address.spec.parent_ref
    if parent is None:
        return NONE
    resource = f"{parent.resource}.{parent.group}" if parent.group else parent.resource
    return "/".join(part for part in (resource.lower(), parent.namespace, parent.name) if part)


def _migrated_resource(migration: Any) -> Any:
    wanted = migration.spec.resource
    return f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource


def _migration_status(migration: Any) -> Any:
    return ["Unknown", *(each.type for each in migration.status.conditions if each.status == "True")][-1]


def _availability_of(service: Any) -> Any:
    found = next((each for each in service.status.conditions if each.type == "Available"), None)
    if found is None:
        return "Unknown"
    return f"{found.status} ({found.reason})" if found.status != "True" and found.reason else found.status


def _autoscaler(each: autoscaling_v1.HorizontalPodAutoscaler | autoscaling_v2.HorizontalPodAutoscaler) -> list[Any]:
    found = autoscaler_from_v1(each) if isinstance(each, autoscaling_v1.HorizontalPodAutoscaler) else each
    spec, status = found.spec, found.status
    shown = [
        _format_metric(metric, status.current_metrics[index] if index < len(status.current_metrics) else None)
        for index, metric in enumerate(spec.metrics)
    ]
    more = f" + {len(shown) - _MAX_METRICS} more..." if len(shown) > _MAX_METRICS else ""
    return [
        found.metadata.name,
        f"{spec.scale_target_ref.kind}/{spec.scale_target_ref.name}",
        ", ".join(shown[:_MAX_METRICS]) + more or NONE,
        UNSET if spec.min_replicas is None else str(spec.min_replicas),
        spec.max_replicas,
        status.current_replicas,
        age(found.metadata.creation_timestamp),
    ]


def _format_metric(metric: autoscaling_v2.MetricSpec, seen: autoscaling_v2.MetricStatus | None) -> str:
    """Return an autoscaler metric's current and target value, such as `cpu: 20%/80%`."""
    source = metric.object or metric.pods or metric.resource or metric.container_resource or metric.external
    if source is None:
        return "<unknown type>"
    status = seen and (seen.object or seen.pods or seen.resource or seen.container_resource or seen.external)
    current = status.current if status else autoscaling_v2.MetricValueStatus()
    target = source.target
    if isinstance(source, autoscaling_v2.ResourceMetricSource | autoscaling_v2.ContainerResourceMetricSource):
        if target.average_value is not None:
            return f"{source.name}: {_format_value(current.average_value)}/{target.average_value}"
        wanted = "<auto>" if target.average_utilization is None else f"{target.average_utilization}%"
        used = UNKNOWN if current.average_utilization is None else f"{current.average_utilization}%"
        return f"{source.name}: {used}/{wanted}"
    if target.average_value is None:
        return f"{_format_value(current.value)}/{target.value}"
    mark = "" if isinstance(source, autoscaling_v2.PodsMetricSource) else " (avg)"
    return f"{_format_value(current.average_value)}/{target.average_value}{mark}"


def _format_value(value: object | None) -> str:
    return UNKNOWN if value is None else str(value)


PRINTERS = {
    "HorizontalPodAutoscaler.autoscaling": Printer(
        tuple(map(define, ("Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"))), _autoscaler
    ),
    "APIService.apiregistration.k8s.io": printer(
        NAME,
        text(
            "Service",
            lambda each: f"{each.spec.service.namespace}/{each.spec.service.name}" if each.spec.service else "Local",
        ),
        text("Available", _availability_of),
        AGE,
    ),
    "ClusterTrustBundle.certificates.k8s.io": printer(NAME, text("SignerName", "spec.signer_name", NONE)),
    "PodCertificateRequest.certificates.k8s.io": printer(
        NAME,
        text("PodName", "spec.pod_name"),
        text("ServiceAccountName", "spec.service_account_name"),
        text("NodeName", "spec.node_name"),
        text("SignerName", "spec.signer_name"),
        text("State", lambda each: ["Pending", *(one.type for one in each.status.conditions)][-1]),
        wide("UnverifiedUserAnnotations", lambda each: labels(each.spec.unverified_user_annotations)),
    ),
    "IPAddress.networking.k8s.io": printer(NAME, text("ParentRef", _format_parent), AGE),
    "Ingress.networking.k8s.io": printer(
        NAME,
        text("Class", lambda each: NONE if each.spec.ingress_class_name is None else each.spec.ingress_class_name),
        text("Hosts", _hosts_of),
        text("Address", _addresses_of),
        text("Ports", lambda each: "80, 443" if each.spec.tls else "80"),
        AGE,
    ),
    "IngressClass.networking.k8s.io": printer(
        class_name("ingressclass.kubernetes.io"),
        text("Controller", "spec.controller"),
        text("Parameters", _class_parameters),
        AGE,
    ),
    "NetworkPolicy.networking.k8s.io": printer(
        NAME, text("Pod-Selector", lambda each: selector(each.spec.pod_selector)), AGE
    ),
    "ServiceCIDR.networking.k8s.io": printer(NAME, text("CIDRs", lambda each: ",".join(each.spec.cidrs)), AGE),
    "RuntimeClass.node.k8s.io": printer(NAME, text("Handler", "handler"), AGE),
    "StorageVersionMigration.storagemigration.k8s.io": printer(
        NAME, text("Resource", _migrated_resource), text("Status", _migration_status)
    ),
}
