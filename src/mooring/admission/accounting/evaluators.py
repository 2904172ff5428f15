"""The evaluators of all kinds, by their resource."""

from collections.abc import Callable, Mapping
from datetime import datetime

from mooring.admission.accounting.claims import DeviceClaimEvaluator, VolumeClaimEvaluator
from mooring.admission.accounting.evaluator import ONE, ZERO, Evaluator, Usage
from mooring.admission.accounting.pods import PodEvaluator
from mooring.admission.options import AdmissionOptions
from mooring.api.core_v1 import Pod, Service
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.api.quantity import Quantity
from mooring.api.resource_v1 import ResourceClaim

_LOAD_BALANCERS, _NODE_PORTS = "services.loadbalancers", "services.nodeports"
_NAMES = frozenset({"count/services", "services", _LOAD_BALANCERS, _NODE_PORTS})


class ServiceEvaluator(Evaluator):
    """Measure Services for quotas. Count the node ports that will be needed: admission precedes their allocation."""

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


_UNCOUNTED = frozenset({("", "events"), ("events.k8s.io", "events")})


class Evaluators:
    """The evaluators of all kinds.

    `extended` maps device classes to extended resources; `pod_of` finds the pod for whose extended resources a
    ResourceClaim was created.
    """

    def __init__(
        self,
        options: AdmissionOptions,
        now: Callable[[], datetime],
        *,
        extended: Callable[[], Mapping[str, str]] = dict,
        pod_of: Callable[[ResourceClaim], Pod | None] = lambda _: None,
    ) -> None:
        self.pods = PodEvaluator(now, pod_level=options.pod_level_resources)

        def paid(claim: ResourceClaim) -> Usage:
            pod = pod_of(claim)
            return {} if pod is None else self.pods.usage(pod)

        devices = DeviceClaimEvaluator(extended, paid, extended_resources=options.extended_device_resources)
        special = (self.pods, ServiceEvaluator(), VolumeClaimEvaluator(), devices)
        self._known: dict[tuple[str, str], Evaluator] = {(each.group, each.resource): each for each in special}

    def of(self, kind: Kind) -> Evaluator | None:
        """Return the quota evaluator of a kind; None for kinds that quotas never count."""
        place = (kind.group, kind.plural)
        found = self._known.get(place)
        if found is None and kind.namespaced and place not in _UNCOUNTED:
            found = self._known[place] = Evaluator(*place)
        return found
