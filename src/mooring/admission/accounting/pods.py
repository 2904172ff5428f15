"""Quota usage of pods: their number, requests and limits, and extended resources."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from mooring.admission.accounting.evaluator import ONE, ZERO, Evaluator, Usage, add_usage, selects
from mooring.admission.pod.requests import qos_class
from mooring.api import times
from mooring.api.core_v1 import Container, ContainerStatus, Pod
from mooring.api.core_v1.namespace import ScopedResourceSelectorRequirement
from mooring.api.meta_v1 import Resource
from mooring.api.quantity import Quantity
from mooring.api.states import has_ended
from mooring.constraints.requests import is_extended, is_native, is_pod_level, sum_containers

Resources = Mapping[str, Quantity]
DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
"""The prefix of the extended resource name that every device class has implicitly."""
_REQUESTS = "requests."
_ASKED = ("cpu", "memory", "ephemeral-storage")
_NAMES = frozenset(
    {"count/pods", "pods", *_ASKED, *(f"requests.{name}" for name in _ASKED), *(f"limits.{name}" for name in _ASKED)}
)
_REQUIRED = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
"""Resources that every container must request if a quota limits them."""


class PodEvaluator(Evaluator):
    """Measure pods for quotas. A finished pod, or one past its deletion grace period, counts as an object only."""

    def __init__(self, now: Callable[[], datetime], *, pod_level: bool = True) -> None:
        super().__init__("", "pods")
        self._now = now
        self._pod_level = pod_level

    def measures(self, name: str) -> bool:
        return name in _NAMES or name.startswith(("hugepages-", "requests.hugepages-")) or is_extended_for_quota(name)

    def usage(self, obj: Resource) -> Usage:
        pod = _pod(obj)
        if has_ended(pod) or self.is_overdue(pod):
            return {"count/pods": ONE}
        usage = _usage_by_name(*total_resources(pod, pod_level=self._pod_level))
        usage["count/pods"] = ONE
        return usage

    def is_overdue(self, pod: Pod) -> bool:
        """Return whether a terminating pod is past its grace period; it then no longer uses quota."""
        deletion, grace = pod.metadata.deletion_timestamp, pod.metadata.deletion_grace_period_seconds
        if deletion is None or grace is None:
            return False
        return self._now() > times.add_seconds(times.parse(deletion), grace)

    def in_scope(self, requirement: ScopedResourceSelectorRequirement, obj: Resource) -> bool:
        pod = _pod(obj)
        match requirement.scope_name:
            case "Terminating":
                return _is_terminating(pod)
            case "NotTerminating":
                return not _is_terminating(pod)
            case "BestEffort":
                return qos_class(pod.spec) == "BestEffort"
            case "NotBestEffort":
                return qos_class(pod.spec) != "BestEffort"
            case "PriorityClass":
                return selects(requirement, pod.spec.priority_class_name)
            case "CrossNamespacePodAffinity":
                return _looks_into_other_namespaces(pod)
        return False

    def missing(self, required: Iterable[str], obj: Resource) -> str:
        pod = _pod(obj)
        if self._pod_level and _has_pod_level_resources(pod):
            return ""
        wanted = _REQUIRED.intersection(required)
        lacking: dict[str, set[str]] = {}
        for container in (*pod.spec.containers, *pod.spec.init_containers) if wanted else ():
            for name in wanted - _usage_by_name(container.resources.requests, container.resources.limits).keys():
                lacking.setdefault(name, set()).add(container.name)
        texts = [f"{name} for: {','.join(sorted(containers))}" for name, containers in sorted(lacking.items())]
        return f"must specify {'; '.join(texts)}" if texts else ""

    def may_reject(self, new: Resource, old: Resource | None, subresource: str) -> bool:
        if subresource == "resize":
            return True
        return not subresource and (old is None or _is_terminating(_pod(new)) != _is_terminating(_pod(old)))

    def may_differ(self, new: Resource, old: Resource) -> bool:
        now, before = _pod(new), _pod(old)
        if has_ended(now) != has_ended(before) or _is_terminating(now) != _is_terminating(before):
            return True
        return total_resources(now, pod_level=True) != total_resources(before, pod_level=True)


def _pod(obj: Resource) -> Pod:
    assert isinstance(obj, Pod)  # noqa: S101 - the evaluator of this kind
    return obj


def is_extended_for_quota(name: str) -> bool:
    """Return whether a quota's resource is an extended resource, such as `requests.example.com/gpu`."""
    if not name.startswith(_REQUESTS):
        return False
    return not is_native(name) or name.startswith(_REQUESTS + DEVICE_CLASS)


def _usage_by_name(requests: Resources, limits: Resources) -> Usage:
    usage: Usage = {"pods": ONE}
    for name, quantity in requests.items():
        if name in _ASKED or name.startswith("hugepages-"):
            usage[name] = usage[_REQUESTS + name] = quantity
        elif is_extended(name) or name.startswith(DEVICE_CLASS):
            usage[_REQUESTS + name] = quantity
    for name in _ASKED:
        if name in limits:
            usage[f"limits.{name}"] = limits[name]
    return usage


def total_resources(pod: Pod, *, pod_level: bool) -> tuple[Resources, Resources]:
    """Return the pod's total requests and limits; during a resize, the maximum of allocated, actual and desired."""
    spec, status = pod.spec, pod.status
    requests = sum_containers(spec, lambda container: container.resources.requests)
    limits = sum_containers(spec, lambda container: container.resources.limits)
    if status.container_statuses or status.init_container_statuses:
        statuses = {each.name: each for each in (*status.init_container_statuses, *status.container_statuses)}
        if any(each.resources or each.allocated_resources for each in statuses.values()):
            requests, limits = _while_resized(pod, statuses, requests, limits)
    if pod_level and spec.resources is not None and _has_pod_level_resources(pod):
        for total, given in ((requests, spec.resources.requests), (limits, spec.resources.limits)):
            total.update({name: quantity for name, quantity in given.items() if is_pod_level(name)})
    if spec.overhead:
        add_usage(requests, spec.overhead)
        add_usage(limits, {name: more for name, more in spec.overhead.items() if not limits.get(name, ZERO).is_zero()})
    return requests, limits


def _while_resized(
    pod: Pod, statuses: Mapping[str, ContainerStatus], requests: Usage, limits: Usage
) -> tuple[Usage, Usage]:
    infeasible = any(each.type == "PodResizePending" and each.reason == "Infeasible" for each in pod.status.conditions)

    def allocated_to(container: Container) -> Resources:
        status = statuses.get(container.name)
        if status is not None and status.allocated_resources:
            return status.allocated_resources
        return {} if infeasible else container.resources.requests

    def actual(container: Container) -> Resources:
        status = statuses.get(container.name)
        if status is not None and status.resources is not None and status.resources.requests:
            return status.resources.requests
        return allocated_to(container)

    def actual_limits(container: Container) -> Resources:
        status = statuses.get(container.name)
        if status is not None and status.resources is not None and status.resources.limits:
            return status.resources.limits
        return {} if infeasible else container.resources.limits

    spec = pod.spec
    wanted, wanted_limits = ({}, {}) if infeasible else (requests, limits)
    return (
        _largest(wanted, sum_containers(spec, actual), sum_containers(spec, allocated_to)),
        _largest(wanted_limits, sum_containers(spec, actual_limits)),
    )


def _largest(*each: Resources) -> Usage:
    result: Usage = {}
    for resources in each:
        for name, quantity in resources.items():
            if name not in result or result[name] < quantity:
                result[name] = quantity
    return result


def _has_pod_level_resources(pod: Pod) -> bool:
    resources = pod.spec.resources
    return resources is not None and any(map(is_pod_level, (*resources.requests, *resources.limits)))


def _is_terminating(pod: Pod) -> bool:
    return pod.spec.active_deadline_seconds is not None and pod.spec.active_deadline_seconds >= 0


def _looks_into_other_namespaces(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    if affinity is None:
        return False
    for terms in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if terms is None:
            continue
        weighted = [each.pod_affinity_term for each in terms.preferred_during_scheduling_ignored_during_execution]
        for term in (*terms.required_during_scheduling_ignored_during_execution, *weighted):
            if term.namespaces or term.namespace_selector is not None:
                return True
    return False
