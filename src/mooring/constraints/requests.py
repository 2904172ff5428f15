"""How much of each resource a pod sets aside: containers, init containers and sidecars, pod-level resources, overhead.

Admission, the scheduler and simulated kubelets reckon by it. The scheduler keeps two sums, as kube-scheduler does: what
is really asked for, which decides whether the pod fits, and what scoring assumes, where a container that says nothing
counts as a small one (so that a node does not look empty because its pods are modest).
"""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from mooring.api import names
from mooring.api.core_v1 import Container, ContainerStatus, Pod, PodSpec
from mooring.api.quantity import Quantity, parse
from mooring.base.remembering import remembered

Amounts: TypeAlias = Mapping[str, Quantity]

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
_ASSUMED = {CPU: parse("100m"), MEMORY: parse(str(200 * 1024 * 1024))}
"""What scoring assumes of a container that does not say."""
_ZERO = parse("0")
_NATIVE_DOMAIN = "kubernetes.io/"


class _Restarting(Protocol):
    """A container, or what somebody has read of one."""

    @property
    def restart_policy(self) -> str | None: ...


def is_scalar(resource: str) -> bool:
    """Whether a resource beside cpu, memory and ephemeral storage is one that scheduling counts."""
    if resource.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "/" in resource and not resource.startswith("requests.")


def is_native(resource: str) -> bool:
    """Whether Kubernetes itself knows the resource."""
    return "/" not in resource or _NATIVE_DOMAIN in resource


@remembered(1024)
def is_extended(resource: str) -> bool:
    """Whether somebody else has brought the resource, such as a GPU: counted in whole numbers, never overcommitted."""
    return (
        not is_native(resource) and not resource.startswith("requests.") and not names.label_key(f"requests.{resource}")
    )


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
    statuses = {
        entry.name: entry
        for entry in (*status.container_statuses, *status.init_container_statuses)
        if entry.resources is not None
    }
    total = aggregated(spec, lambda container: _container(pod, container, statuses, assumed))
    if pod_level and spec.resources is not None:
        whole = spec.resources.requests.items()
        total |= {name: amount for name, amount in whole if is_pod_level(name)}
    _add(total, spec.overhead)
    return total


def aggregated(spec: PodSpec, amounts_of: Callable[[Container], Amounts]) -> dict[str, Quantity]:
    """The sum over the containers of a pod.

    Containers and sidecars run side by side, so theirs add up. Init containers run one after the other, each beside the
    sidecars that started before it, so the largest such moment counts if it is larger.
    """
    total: dict[str, Quantity] = {}
    for container in spec.containers:
        _add(total, amounts_of(container))
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in spec.init_containers:
        own = amounts_of(container)
        moment = dict(sidecars)
        _add(moment, own)
        if is_sidecar(container):
            _add(total, own)
            sidecars = moment
        _raise(peak, moment)
    _raise(total, peak)
    return total


def is_pod_level(resource: str) -> bool:
    """Whether `spec.resources` of a pod may name it."""
    return resource in (CPU, MEMORY) or resource.startswith("hugepages-")


def is_sidecar(container: _Restarting) -> bool:
    """An init container that keeps running beside the others."""
    return container.restart_policy == "Always"


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
