"""Quota usage of Services: their number, load balancers and node ports."""

from mooring.admission.accounting.evaluator import ONE, ZERO, Evaluator, Usage
from mooring.api.core_v1 import Service
from mooring.api.meta_v1 import Resource
from mooring.api.quantity import Quantity

_LOAD_BALANCERS, _NODE_PORTS = "services.loadbalancers", "services.nodeports"
_NAMES = frozenset({"count/services", "services", _LOAD_BALANCERS, _NODE_PORTS})


class ServiceEvaluator(Evaluator):
    """Services. Node ports are not allocated yet at admission, so the required number counts."""

    def __init__(self) -> None:
        super().__init__("", "services")

    def measures(self, name: str) -> bool:
        return name in _NAMES

    def usage(self, obj: Resource) -> Usage:
        assert isinstance(obj, Service)  # noqa: S101 - the evaluator of this kind
        spec = obj.spec
        balanced = spec.type == "LoadBalancer"
        ports = 0
        if balanced and spec.allocate_load_balancer_node_ports is False:
            ports = sum(bool(port.node_port) for port in spec.ports)
        elif balanced or spec.type == "NodePort":
            ports = len(spec.ports)
        return {
            "count/services": ONE,
            "services": ONE,
            _LOAD_BALANCERS: ONE if balanced else ZERO,
            _NODE_PORTS: Quantity(ports),
        }

    def may_reject(self, new: Resource, old: Resource | None, subresource: str) -> bool:
        return not subresource

    def may_differ(self, new: Resource, old: Resource) -> bool:
        assert isinstance(new, Service)  # noqa: S101 - as above
        assert isinstance(old, Service)  # noqa: S101 - as above
        return new.spec != old.spec
