"""Total requests and limits of a pod, and its QoS class."""

from collections.abc import Iterable, Mapping

from mooring.api.core_v1 import PodSpec
from mooring.api.quantity import Quantity
from mooring.constraints.requests import sum_containers

Resources = Mapping[str, Quantity]
_QOS_RESOURCES = ("cpu", "memory")


def aggregate_requests(spec: PodSpec) -> dict[str, Quantity]:
    return sum_containers(spec, lambda container: container.resources.requests)


def aggregate_limits(spec: PodSpec) -> dict[str, Quantity]:
    return sum_containers(spec, lambda container: container.resources.limits)


def qos_class(spec: PodSpec) -> str:
    """Return the QoS class of a pod.

    Guaranteed if every container has equal requests and limits of cpu and memory, BestEffort if none has any, or else
    Burstable.
    """
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
