"""Resource requests of a pod: containers, init containers and sidecars, pod-level resources, overhead.

Used by admission, the scheduler and simulated kubelets. Like kube-scheduler, compute two sums: the actual requests,
which decide whether the pod fits, and those for scoring, where a container without requests counts with a small default
(so that a node full of such pods does not look empty).
"""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from mooring.api import names
from mooring.api.core_v1 import Container, ContainerStatus, Pod, PodSpec
from mooring.api.quantity import Quantity, parse
from mooring.base.short_string_cache import cache_short

Amounts: TypeAlias = Mapping[str, Quantity]

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
_ASSUMED = {CPU: parse("100m"), MEMORY: parse(str(200 * 1024 * 1024))}
"""The requests that scoring assumes for a container without any."""
_ZERO = parse("0")
_NATIVE_DOMAIN = "kubernetes.io/"


class _Restarting(Protocol):
    """A container, or a partial view of one."""

    @property
    def restart_policy(self) -> str | None: ...


def is_scalar(resource: str) -> bool:
    """Whether scheduling counts a resource other than cpu, memory and ephemeral storage."""
    if resource.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "/" in resource and not resource.startswith("requests.")


def is_native(resource: str) -> bool:
    """Whether a resource is one of Kubernetes' own."""
    return "/" not in resource or _NATIVE_DOMAIN in resource


@cache_short(1024)
def is_extended(resource: str) -> bool:
    """Whether a resource is an extended resource, such as a GPU: whole numbers, never overcommitted."""
    return (
        not is_native(resource) and not resource.startswith("requests.") and not names.label_key(f"requests.{resource}")
    )


def to_units(resource: str, amount: Quantity) -> int:
    """Convert an amount to the integer that scheduling uses: millicores of cpu, whole units of the rest."""
    return amount.milli_value() if resource == CPU else amount.value()


def requests_of(pod: Pod, *, pod_level: bool) -> dict[str, Quantity]:
    """Return the pod's requests by resource."""
    return _total(pod, {}, pod_level=pod_level)


def scored_requests_of(pod: Pod, *, pod_level: bool) -> dict[str, Quantity]:
    """Return the pod's requests with defaults for containers without cpu or memory requests."""
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
    total = sum_containers(spec, lambda container: _container(pod, container, statuses, assumed))
    if pod_level and spec.resources is not None:
        whole = spec.resources.requests.items()
        total |= {name: amount for name, amount in whole if is_pod_level(name)}
    _add(total, spec.overhead)
    return total


def sum_containers(spec: PodSpec, amounts_of: Callable[[Container], Amounts]) -> dict[str, Quantity]:
    """Sum amounts over the containers of a pod.

    Containers and sidecars run concurrently, so their amounts add up. Init containers run one after the other, each
    with the sidecars started before it: the largest such sum counts if it is larger.
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
        _raise_to(peak, moment)
    _raise_to(total, peak)
    return total


def is_pod_level(resource: str) -> bool:
    """Whether a pod's `spec.resources` may name the resource."""
    return resource in (CPU, MEMORY) or resource.startswith("hugepages-")


def is_sidecar(container: _Restarting) -> bool:
    """Whether an init container keeps running beside the others."""
    return container.restart_policy == "Always"


def _container(
    pod: Pod, container: Container, statuses: Mapping[str, ContainerStatus], assumed: Amounts
) -> dict[str, Quantity]:
    asked = dict(container.resources.requests)
    status = statuses.get(container.name)
    if status is not None and status.resources is not None:  # being resized: allocated resources count until released
        conditions = pod.status.conditions
        if any(each.type == "PodResizePending" and each.reason == "Infeasible" for each in conditions):
            asked = {}
        _raise_to(asked, status.resources.requests)
        _raise_to(asked, status.allocated_resources)
    for resource, amount in assumed.items():
        asked.setdefault(resource, amount)
    return asked


def _add(total: dict[str, Quantity], amounts: Amounts) -> None:
    for resource, amount in amounts.items():
        total[resource] = total[resource] + amount if resource in total else amount


def _raise_to(total: dict[str, Quantity], amounts: Amounts) -> None:
    for resource, amount in amounts.items():
        if total.get(resource, _ZERO) < amount or resource not in total:
            total[resource] = amount


def in_units(amounts: Amounts) -> dict[str, int]:
    """Return the amounts that scheduling counts, as integers."""
    return {
        resource: to_units(resource, amount)
        for resource, amount in amounts.items()
        if resource in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar(resource)
    }
