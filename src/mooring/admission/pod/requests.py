"""What a pod asks for in all: its containers together, and the quality of service that follows from it."""

from collections.abc import Callable, Iterable, Mapping

from mooring.api.core_v1 import Container, PodSpec
from mooring.api.quantity import Quantity

Resources = Mapping[str, Quantity]
_QOS_RESOURCES = ("cpu", "memory")


def is_pod_level_resource(name: str) -> bool:
    """Whether `spec.resources` of a pod may name it."""
    return name in _QOS_RESOURCES or name.startswith("hugepages-")


def is_sidecar(container: Container) -> bool:
    """An init container that keeps running beside the others."""
    return container.restart_policy == "Always"


def aggregate_requests(spec: PodSpec) -> dict[str, Quantity]:
    """What the containers of a pod ask for together."""
    return _aggregate(spec, lambda container: container.resources.requests)


def aggregate_limits(spec: PodSpec) -> dict[str, Quantity]:
    """What the containers of a pod may use together, as far as they are limited."""
    return _aggregate(spec, lambda container: container.resources.limits)


def _aggregate(spec: PodSpec, resources_of: Callable[[Container], Resources]) -> dict[str, Quantity]:
    """The sum over a pod.

    The containers and sidecars run side by side, so theirs add up. Init containers run one after the other, each beside
    the sidecars that started before it, so the largest such moment counts if it is larger.
    """
    total: dict[str, Quantity] = {}
    for container in spec.containers:
        _add(total, resources_of(container))
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in spec.init_containers:
        moment = dict(sidecars)
        _add(moment, resources_of(container))
        if is_sidecar(container):
            _add(total, resources_of(container))
            sidecars = moment
        _raise_to(peak, moment)
    _raise_to(total, peak)
    return total


def qos_class(spec: PodSpec) -> str:
    """Guaranteed when every container has equal requests and limits of cpu and memory, BestEffort when none has any."""
    resources = spec.resources
    if resources is not None and (resources.requests or resources.limits):
        return _qos([(resources.requests, resources.limits)])
    containers = (*spec.containers, *spec.init_containers)
    return _qos((container.resources.requests, container.resources.limits) for container in containers)


def _qos(parts: Iterable[tuple[Resources, Resources]]) -> str:
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    for asked, limited in parts:
        _add(requests, _positive(asked))
        found = _positive(limited)
        _add(limits, found)
        if len(found) != len(_QOS_RESOURCES):
            guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if guaranteed and requests == limits else "Burstable"


def _positive(resources: Resources) -> dict[str, Quantity]:
    return {name: resources[name] for name in _QOS_RESOURCES if name in resources and resources[name].sign() > 0}


def _add(total: dict[str, Quantity], more: Resources) -> None:
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


def _raise_to(total: dict[str, Quantity], least: Resources) -> None:
    for name, quantity in least.items():
        if name not in total or total[name] < quantity:
            total[name] = quantity
