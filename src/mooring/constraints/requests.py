"""How much of each resource a pod sets aside: containers, init containers and sidecars, pod-level resources, overhead.

Called when a shape is made. Two sums are kept, as kube-scheduler keeps them: what is really asked for, which decides
whether the pod fits, and what scoring assumes, where a container that says nothing counts as a small one (so that a
node does not look empty because its pods are modest).
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from mooring.api.core_v1 import Container, ContainerStatus, Pod
from mooring.api.quantity import Quantity, parse

Amounts: TypeAlias = Mapping[str, Quantity]

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
_ASSUMED = {CPU: parse("100m"), MEMORY: parse(str(200 * 1024 * 1024))}
"""What scoring assumes of a container that does not say."""
_ZERO = parse("0")
_NATIVE_DOMAIN = "kubernetes.io/"


def is_scalar(resource: str) -> bool:
    """Whether a resource beside cpu, memory and ephemeral storage is one that scheduling counts."""
    if resource.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "/" in resource and not resource.startswith("requests.")


def is_extended(resource: str) -> bool:
    """Whether a resource is one that devices and administrators add, outside of Kubernetes' own domain."""
    return "/" in resource and _NATIVE_DOMAIN not in resource and not resource.startswith("requests.")


def units(resource: str, amount: Quantity) -> int:
    """An amount as the integer that scheduling reckons with: thousandths of a cpu, whole units of the rest."""
    return amount.milli_value() if resource == CPU else amount.value()


def requests_of(pod: Pod, *, pod_level: bool) -> dict[str, Quantity]:
    """What the pod asks for, by resource."""
    return _total(pod, {}, pod_level=pod_level)


def scored_requests_of(pod: Pod, *, pod_level: bool) -> dict[str, Quantity]:
    """The same with assumed amounts for containers that do not ask for cpu or memory."""
    assumed: dict[str, Quantity] = _ASSUMED
    if pod_level and pod.spec.resources is not None and pod.spec.resources.requests:
        asked = requests_of(pod, pod_level=True)
        assumed = {resource: amount for resource, amount in _ASSUMED.items() if resource not in asked}
    return _total(pod, assumed, pod_level=pod_level)


def _total(pod: Pod, assumed: Amounts, *, pod_level: bool) -> dict[str, Quantity]:
    spec, status = pod.spec, pod.status
    statuses = {entry.name: entry for entry in status.container_statuses if entry.resources is not None}
    total: dict[str, Quantity] = {}
    for container in spec.containers:
        _add(total, _container(pod, container, statuses, assumed))
    sidecars: dict[str, Quantity] = {}
    starting: dict[str, Quantity] = {}
    statuses = {entry.name: entry for entry in status.init_container_statuses if entry.resources is not None}
    for container in spec.init_containers:
        asked = _container(pod, container, statuses, assumed)
        if container.restart_policy == "Always":  # it stays, beside the later init containers and the others
            _add(total, asked)
            _add(sidecars, asked)
            _raise(starting, sidecars)
        else:
            _add(asked, sidecars)
            _raise(starting, asked)
    _raise(total, starting)
    if pod_level and spec.resources is not None:
        whole = spec.resources.requests.items()
        total |= {name: amount for name, amount in whole if name in (CPU, MEMORY) or name.startswith("hugepages-")}
    _add(total, spec.overhead)
    return total


def _container(
    pod: Pod, container: Container, statuses: Mapping[str, ContainerStatus], assumed: Amounts
) -> dict[str, Quantity]:
    asked = dict(container.resources.requests)
    status = statuses.get(container.name)
    if status is not None and status.resources is not None:  # being resized: what it has counts until it has let go
        if _resize_is_infeasible(pod):
            asked = {}
        _raise(asked, status.resources.requests)
        _raise(asked, status.allocated_resources)
    for resource, amount in assumed.items():
        asked.setdefault(resource, amount)
    return asked


def _resize_is_infeasible(pod: Pod) -> bool:
    return any(
        condition.type == "PodResizePending" and condition.reason == "Infeasible" for condition in pod.status.conditions
    )


def _add(total: dict[str, Quantity], amounts: Amounts) -> None:
    for resource, amount in amounts.items():
        total[resource] = total[resource] + amount if resource in total else amount


def _raise(total: dict[str, Quantity], amounts: Amounts) -> None:
    """Makes each entry at least what `amounts` says."""
    for resource, amount in amounts.items():
        if total.get(resource, _ZERO) < amount or resource not in total:
            total[resource] = amount


def in_units(amounts: Amounts) -> dict[str, int]:
    """What of a pod's amounts scheduling counts."""
    return {
        resource: units(resource, amount)
        for resource, amount in amounts.items()
        if resource in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar(resource)
    }


def sidecars(containers: Iterable[Container]) -> list[Container]:
    """The init containers that keep running."""
    return [container for container in containers if container.restart_policy == "Always"]
