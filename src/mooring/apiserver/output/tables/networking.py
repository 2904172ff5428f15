"""Rows of what others work on, and Mooring stores: Ingresses, policies, autoscalers; and the addresses of Services."""

from typing import Any

from mooring.api import (
    apiregistration_v1,
    autoscaling_v1,
    autoscaling_v2,
    certificates_v1,
    networking_v1,
    node_v1,
    storagemigration_v1,
)
from mooring.api.autoscaler_conversion import autoscaler_from_v1
from mooring.apiserver.output.tables.printer import NONE, UNKNOWN, UNSET, Printer, age, labels, selector, text, wide

_DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"
_WIDTH = 16
_HOSTS, _METRICS = 3, 2


def _ingress(each: networking_v1.Ingress) -> list[Any]:
    hosts = [rule.host for rule in each.spec.rules if rule.host]
    shown = ",".join(hosts[:_HOSTS]) or "*"
    if len(hosts) >= _HOSTS and len(each.spec.rules) > _HOSTS:
        shown += f" + {len(each.spec.rules) - _HOSTS} more..."
    ways = ",".join(sorted({way.ip or way.hostname for way in each.status.load_balancer.ingress} - {""}))
    return [
        each.metadata.name,
        NONE if each.spec.ingress_class_name is None else each.spec.ingress_class_name,
        shown,
        f"{ways[: _WIDTH - 3]}..." if len(ways) > _WIDTH else ways,
        "80, 443" if each.spec.tls else "80",
        age(each.metadata.creation_timestamp),
    ]


def _ingress_class(each: networking_v1.IngressClass) -> list[Any]:
    name, parameters = each.metadata.name, each.spec.parameters
    if each.metadata.annotations.get(_DEFAULT_CLASS) == "true":
        name += " (default)"
    group = f".{parameters.api_group}" if parameters is not None and parameters.api_group is not None else ""
    shown = NONE if parameters is None else f"{parameters.kind}{group}/{parameters.name}"
    return [name, each.spec.controller, shown, age(each.metadata.creation_timestamp)]


def _network_policy(each: networking_v1.NetworkPolicy) -> list[Any]:
    meta = each.metadata
    return [meta.name, selector(each.spec.pod_selector), age(meta.creation_timestamp)]


def _runtime_class(each: node_v1.RuntimeClass) -> list[Any]:
    return [each.metadata.name, each.handler, age(each.metadata.creation_timestamp)]


def _service_cidr(each: networking_v1.ServiceCIDR) -> list[Any]:
    return [each.metadata.name, ",".join(each.spec.cidrs), age(each.metadata.creation_timestamp)]


def _ip_address(each: networking_v1.IPAddress) -> list[Any]:
    parent, shown = each.spec.parent_ref, NONE
    if parent is not None:
        resource = f"{parent.resource}.{parent.group}" if parent.group else parent.resource
        shown = "/".join(part for part in (resource.lower(), parent.namespace, parent.name) if part)
    return [each.metadata.name, shown, age(each.metadata.creation_timestamp)]


def _migration(each: storagemigration_v1.StorageVersionMigration) -> list[Any]:
    wanted = each.spec.resource
    resource = f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource
    states = [state.type for state in each.status.conditions if state.status == "True"]
    return [each.metadata.name, resource, states[-1] if states else "Unknown"]


def _certificate_request(each: certificates_v1.PodCertificateRequest) -> list[Any]:
    spec, states = each.spec, [state.type for state in each.status.conditions]
    return [
        each.metadata.name,
        spec.pod_name,
        spec.service_account_name,
        spec.node_name,
        spec.signer_name,
        states[-1] if states else "Pending",
        labels(spec.unverified_user_annotations),
    ]


def _api_service(each: apiregistration_v1.APIService) -> list[Any]:
    service, found = (
        each.spec.service,
        next((state for state in each.status.conditions if state.type == "Available"), None),
    )
    shown = found.status if found else "Unknown"
    if found and found.status != "True" and found.reason:
        shown = f"{found.status} ({found.reason})"
    where = f"{service.namespace}/{service.name}" if service else "Local"
    return [each.metadata.name, where, shown, age(each.metadata.creation_timestamp)]


def _trust_bundle(each: certificates_v1.ClusterTrustBundle) -> list[Any]:
    return [each.metadata.name, each.spec.signer_name or "<none>"]


# -- autoscalers


def _autoscaler(each: autoscaling_v1.HorizontalPodAutoscaler | autoscaling_v2.HorizontalPodAutoscaler) -> list[Any]:
    found = autoscaler_from_v1(each) if isinstance(each, autoscaling_v1.HorizontalPodAutoscaler) else each
    spec, status = found.spec, found.status
    shown = [
        _metric(metric, status.current_metrics[index] if index < len(status.current_metrics) else None)
        for index, metric in enumerate(spec.metrics)
    ]
    more = f" + {len(shown) - _METRICS} more..." if len(shown) > _METRICS else ""
    return [
        found.metadata.name,
        f"{spec.scale_target_ref.kind}/{spec.scale_target_ref.name}",
        ", ".join(shown[:_METRICS]) + more or NONE,
        UNSET if spec.min_replicas is None else str(spec.min_replicas),
        spec.max_replicas,
        status.current_replicas,
        age(found.metadata.creation_timestamp),
    ]


def _metric(metric: autoscaling_v2.MetricSpec, seen: autoscaling_v2.MetricStatus | None) -> str:
    """What is measured and what is aimed at: `cpu: 20%/80%`."""
    source = metric.object or metric.pods or metric.resource or metric.container_resource or metric.external
    if source is None:
        return "<unknown type>"
    status = seen and (seen.object or seen.pods or seen.resource or seen.container_resource or seen.external)
    current = status.current if status else autoscaling_v2.MetricValueStatus()
    target = source.target
    if isinstance(source, autoscaling_v2.ResourceMetricSource | autoscaling_v2.ContainerResourceMetricSource):
        if target.average_value is not None:
            return f"{source.name}: {_shown(current.average_value)}/{target.average_value}"
        wanted = "<auto>" if target.average_utilization is None else f"{target.average_utilization}%"
        used = UNKNOWN if current.average_utilization is None else f"{current.average_utilization}%"
        return f"{source.name}: {used}/{wanted}"
    if target.average_value is None:
        return f"{_shown(current.value)}/{target.value}"
    mark = "" if isinstance(source, autoscaling_v2.PodsMetricSource) else " (avg)"
    return f"{_shown(current.average_value)}/{target.average_value}{mark}"


def _shown(value: object | None) -> str:
    return UNKNOWN if value is None else str(value)


def _texts(*names: str) -> tuple[Any, ...]:
    return tuple(map(text, names))


INGRESSES = Printer(_texts("Name", "Class", "Hosts", "Address", "Ports", "Age"), _ingress)
INGRESS_CLASSES = Printer(_texts("Name", "Controller", "Parameters", "Age"), _ingress_class)
NETWORK_POLICIES = Printer(_texts("Name", "Pod-Selector", "Age"), _network_policy)
RUNTIME_CLASSES = Printer(_texts("Name", "Handler", "Age"), _runtime_class)
SERVICE_CIDRS = Printer(_texts("Name", "CIDRs", "Age"), _service_cidr)
IP_ADDRESSES = Printer(_texts("Name", "ParentRef", "Age"), _ip_address)
MIGRATIONS = Printer(_texts("Name", "Resource", "Status"), _migration)
AUTOSCALERS = Printer(_texts("Name", "Reference", "Targets", "MinPods", "MaxPods", "Replicas", "Age"), _autoscaler)
API_SERVICES = Printer(_texts("Name", "Service", "Available", "Age"), _api_service)
TRUST_BUNDLES = Printer(_texts("Name", "SignerName"), _trust_bundle)
CERTIFICATE_REQUESTS = Printer(
    (
        *_texts("Name", "PodName", "ServiceAccountName", "NodeName", "SignerName", "State"),
        wide("UnverifiedUserAnnotations"),
    ),
    _certificate_request,
)
