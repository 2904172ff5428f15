"""Quota evaluators: how much of a quota the objects of a kind use, and which quota scopes they match.

`Evaluators.find_evaluator` returns the evaluator of a kind. Kinds whose objects are only counted have the base class
`Evaluator`; pods, claims and Services have subclasses.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeAlias, TypeVar

from mooring.admission.options import AdmissionOptions
from mooring.admission.pod.resources import qos_class
from mooring.admission.pod.rules import pod_affinity_terms
from mooring.api import times
from mooring.api.core_v1 import Container, ContainerStatus, PersistentVolumeClaim, Pod, Service
from mooring.api.core_v1.namespace import ScopedResourceSelectorRequirement
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import Resource
from mooring.api.quantity import Quantity
from mooring.api.resource_v1 import DeviceSubRequest, ExactDeviceRequest, ResourceClaim
from mooring.api.states import has_ended
from mooring.constraints.requests import is_extended, is_native, is_pod_level, sum_containers

T = TypeVar("T", bound=Resource)
Usage: TypeAlias = dict[str, Quantity]
ONE = Quantity(1)
ZERO = Quantity(0)
_ALIASES = frozenset({"configmaps", "replicationcontrollers", "resourcequotas", "secrets"})
"""Resources of the core group that quotas also accept under a second name."""


class Evaluator(Generic[T]):
    """Computes how much quota an object uses. This base class counts objects: each uses one `count/<resource>`."""

    def __init__(self, group: str, resource: str) -> None:
        self.group = group
        self.resource = resource
        self.count_name = f"count/{resource}.{group}" if group else f"count/{resource}"
        self._own_names = frozenset({self.count_name, *({resource} & _ALIASES if not group else ())})

    def counts_resource(self, name: str) -> bool:
        """Return whether objects of this kind use the quota resource `name`, such as `requests.cpu`."""
        return name in self._own_names

    def select_counted_resources(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.counts_resource(name)]

    def compute_usage(self, obj: T) -> Usage:
        """Return how much of each quota resource an object uses, by resource name."""
        return dict.fromkeys(self._own_names, ONE)

    def matches_scope(self, requirement: ScopedResourceSelectorRequirement, obj: T) -> bool:
        """Return whether an object matches one quota scope; in this base class, no object matches any."""
        return False

    def find_missing_requests(self, required: Iterable[str], obj: T) -> str:
        """Return a message for requests and limits in `required` that an object lacks; empty if it has all."""
        return ""

    def may_reject(self, new: T, old: T | None, subresource: str) -> bool:
        """Return whether an exceeded quota rejects a write; in this base class, only a create without a subresource."""
        return old is None and not subresource

    def may_change_usage(self, new: T, old: T) -> bool:
        """Return whether an update can change an object's usage or matching scopes; in this base class, never."""
        return False


def scope_requirement_matches(requirement: ScopedResourceSelectorRequirement, value: str) -> bool:
    """Return whether a scope requirement, such as `PriorityClass In (high)`, matches a value (empty: unset)."""
    match requirement.operator:
        case "In":
            return value in requirement.values if value else False
        case "NotIn":
            return value not in requirement.values if value else True
        case "Exists":
            return bool(value)
        case _:
            return not value


def add_usage(total: Usage, more: Mapping[str, Quantity]) -> None:
    """Add the amounts in `more` to those in `total`, by resource name, in place."""
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


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


class PodEvaluator(Evaluator[Pod]):
    """Measures pods: requests and limits. A finished pod, or one past its grace period, uses only `count/pods`."""

    def __init__(self, now: Callable[[], datetime], *, pod_level: bool = True) -> None:
        super().__init__("", "pods")
        self._now = now
        self._pod_level = pod_level

    def counts_resource(self, name: str) -> bool:
        return name in _NAMES or name.startswith(("hugepages-", "requests.hugepages-")) or is_extended_request(name)

    def compute_usage(self, obj: Pod) -> Usage:
        if has_ended(obj) or self.is_overdue(obj):
            return {"count/pods": ONE}
        usage = _build_pod_usage(*sum_pod_resources(obj, pod_level=self._pod_level))
        usage["count/pods"] = ONE
        return usage

    def is_overdue(self, pod: Pod) -> bool:
        """Return whether a terminating pod is past its grace period: then its requests no longer count."""
        deletion, grace = pod.metadata.deletion_timestamp, pod.metadata.deletion_grace_period_seconds
        if deletion is None or grace is None:
            return False
        return self._now() > times.add_seconds(times.parse(deletion), grace)

    def matches_scope(self, requirement: ScopedResourceSelectorRequirement, obj: Pod) -> bool:
        match requirement.scope_name:
            case "Terminating":
                return _has_active_deadline(obj)
            case "NotTerminating":
                return not _has_active_deadline(obj)
            case "BestEffort":
                return qos_class(obj.spec) == "BestEffort"
            case "NotBestEffort":
                return qos_class(obj.spec) != "BestEffort"
            case "PriorityClass":
                return scope_requirement_matches(requirement, obj.spec.priority_class_name)
            case "CrossNamespacePodAffinity":
                return _has_cross_namespace_affinity(obj)
        return False

    def find_missing_requests(self, required: Iterable[str], obj: Pod) -> str:
        if self._pod_level and _has_pod_level_resources(obj):
            return ""
        wanted = _REQUIRED.intersection(required)
        lacking: dict[str, set[str]] = {}
        for container in (*obj.spec.containers, *obj.spec.init_containers) if wanted else ():
            for name in wanted - _build_pod_usage(container.resources.requests, container.resources.limits).keys():
                lacking.setdefault(name, set()).add(container.name)
        texts = [f"{name} for: {','.join(sorted(containers))}" for name, containers in sorted(lacking.items())]
        return f"must specify {'; '.join(texts)}" if texts else ""

    def may_reject(self, new: Pod, old: Pod | None, subresource: str) -> bool:
        if subresource == "resize":
            return True
        return not subresource and (old is None or _has_active_deadline(new) != _has_active_deadline(old))

    def may_change_usage(self, new: Pod, old: Pod) -> bool:
        if has_ended(new) != has_ended(old) or _has_active_deadline(new) != _has_active_deadline(old):
            return True
        return sum_pod_resources(new, pod_level=True) != sum_pod_resources(old, pod_level=True)


def is_extended_request(name: str) -> bool:
    """Return whether a quota resource is the request of an extended resource, such as `requests.example.com/gpu`."""
    if not name.startswith(_REQUESTS):
        return False
    return not is_native(name) or name.startswith(_REQUESTS + DEVICE_CLASS)


def _build_pod_usage(requests: Resources, limits: Resources) -> Usage:
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


def sum_pod_resources(pod: Pod, *, pod_level: bool) -> tuple[Resources, Resources]:
    """Return a pod's total requests and limits. During a resize, take the maximum of allocated, actual and desired."""
    spec, status = pod.spec, pod.status
    requests = sum_containers(spec, lambda container: container.resources.requests)
    limits = sum_containers(spec, lambda container: container.resources.limits)
    if status.container_statuses or status.init_container_statuses:
        statuses = {each.name: each for each in (*status.init_container_statuses, *status.container_statuses)}
        if any(each.resources or each.allocated_resources for each in statuses.values()):
            requests, limits = _sum_resources_during_resize(pod, statuses, requests, limits)
    if pod_level and spec.resources is not None and _has_pod_level_resources(pod):
        for total, given in ((requests, spec.resources.requests), (limits, spec.resources.limits)):
            total.update({name: quantity for name, quantity in given.items() if is_pod_level(name)})
    if spec.overhead:
        add_usage(requests, spec.overhead)
        add_usage(limits, {name: more for name, more in spec.overhead.items() if not limits.get(name, ZERO).is_zero()})
    return requests, limits


def _sum_resources_during_resize(
    pod: Pod, statuses: Mapping[str, ContainerStatus], requests: Usage, limits: Usage
) -> tuple[Usage, Usage]:
    infeasible = any(each.type == "PodResizePending" and each.reason == "Infeasible" for each in pod.status.conditions)

    def get_allocated_requests(container: Container) -> Resources:
        status = statuses.get(container.name)
        if status is not None and status.allocated_resources:
            return status.allocated_resources
        return {} if infeasible else container.resources.requests

    def get_actual_requests(container: Container) -> Resources:
        status = statuses.get(container.name)
        if status is not None and status.resources is not None and status.resources.requests:
            return status.resources.requests
        return get_allocated_requests(container)

    def get_actual_limits(container: Container) -> Resources:
        status = statuses.get(container.name)
        if status is not None and status.resources is not None and status.resources.limits:
            return status.resources.limits
        return {} if infeasible else container.resources.limits

    spec = pod.spec
    wanted, wanted_limits = ({}, {}) if infeasible else (requests, limits)
    return (
        _take_largest_amounts(
            wanted, sum_containers(spec, get_actual_requests), sum_containers(spec, get_allocated_requests)
        ),
        _take_largest_amounts(wanted_limits, sum_containers(spec, get_actual_limits)),
    )


def _take_largest_amounts(*each: Resources) -> Usage:
    result: Usage = {}
    for resources in each:
        for name, quantity in resources.items():
            if name not in result or result[name] < quantity:
                result[name] = quantity
    return result


def _has_pod_level_resources(pod: Pod) -> bool:
    resources = pod.spec.resources
    return resources is not None and any(map(is_pod_level, (*resources.requests, *resources.limits)))


def _has_active_deadline(pod: Pod) -> bool:
    return pod.spec.active_deadline_seconds is not None and pod.spec.active_deadline_seconds >= 0


def _has_cross_namespace_affinity(pod: Pod) -> bool:
    return any(term.namespaces or term.namespace_selector is not None for term in pod_affinity_terms(pod.spec))


_CLASS_OF_STORAGE = ".storageclass.storage.k8s.io/"
_STORAGE = ("persistentvolumeclaims", "requests.storage")
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEVICES = ".deviceclass.resource.k8s.io/devices"
_MAX_DEVICES = 32
"""The number of devices that a request with mode All is charged for."""


class VolumeClaimEvaluator(Evaluator[PersistentVolumeClaim]):
    def __init__(self) -> None:
        super().__init__("", "persistentvolumeclaims")

    def counts_resource(self, name: str) -> bool:
        return (
            name == self.count_name or name in _STORAGE or name.endswith(tuple(_CLASS_OF_STORAGE + n for n in _STORAGE))
        )

    def compute_usage(self, obj: PersistentVolumeClaim) -> Usage:
        usage = {self.count_name: ONE, _STORAGE[0]: ONE}
        storage = _get_requested_storage(obj)
        if storage is not None:
            usage[_STORAGE[1]] = storage
        by_class = obj.metadata.annotations.get(_BETA_CLASS, obj.spec.storage_class_name or "")
        if by_class:
            usage |= {f"{by_class}{_CLASS_OF_STORAGE}{name}": usage[name] for name in _STORAGE if name in usage}
        return usage

    def matches_scope(self, requirement: ScopedResourceSelectorRequirement, obj: PersistentVolumeClaim) -> bool:
        if requirement.scope_name != "VolumeAttributesClass":
            return False
        return any(scope_requirement_matches(requirement, name) for name in _get_attributes_classes(obj) or {""})

    def may_reject(self, new: PersistentVolumeClaim, old: PersistentVolumeClaim | None, subresource: str) -> bool:
        return not subresource

    def may_change_usage(self, new: PersistentVolumeClaim, old: PersistentVolumeClaim) -> bool:
        return self.compute_usage(new) != self.compute_usage(old) or _get_attributes_classes(
            new
        ) != _get_attributes_classes(old)


def _get_requested_storage(claim: PersistentVolumeClaim) -> Quantity | None:
    asked = claim.spec.resources.requests.get("storage")
    if asked is None:
        return None
    allocated = claim.status.allocated_resources.get("storage", asked)
    return max(asked.round_up(0), allocated.round_up(0))


def _get_attributes_classes(claim: PersistentVolumeClaim) -> set[str]:
    status = claim.status
    target = status.modify_volume_status.target_volume_attributes_class_name if status.modify_volume_status else ""
    found = (claim.spec.volume_attributes_class_name, status.current_volume_attributes_class_name, target)
    return {name for name in found if name}


class DeviceClaimEvaluator(Evaluator[ResourceClaim]):
    """Measures ResourceClaims: the maximum devices of each DeviceClass that a claim can be allocated.

    `extended` returns, by DeviceClass, the extended resource name that also counts. `paid` returns the usage already
    charged to the pod for whose extended resources a claim was generated; it is subtracted.
    """

    def __init__(
        self,
        extended: Callable[[], Mapping[str, str]] = dict,
        paid: Callable[[ResourceClaim], Usage] = lambda _: {},
        *,
        extended_resources: bool = True,
    ) -> None:
        super().__init__("resource.k8s.io", "resourceclaims")
        self._extended = extended
        self._paid = paid
        self._extended_resources = extended_resources

    def counts_resource(self, name: str) -> bool:
        if name == self.count_name or name.endswith(_DEVICES):
            return True
        if not self._extended_resources or not is_extended_request(name):
            return False
        resource = name.removeprefix(_REQUESTS)
        return resource in self._extended().values() or resource.removeprefix(DEVICE_CLASS) in self._extended()

    def compute_usage(self, obj: ResourceClaim) -> Usage:
        devices: Usage = {}
        for request in obj.spec.devices.requests:
            exactly = [request.exactly] if request.exactly else []
            ways: Sequence[DeviceSubRequest | ExactDeviceRequest] = request.first_available or exactly
            most: Usage = {}
            for way in ways:
                wanted = {"ExactCount": way.count, "All": _MAX_DEVICES}.get(way.allocation_mode, 0)
                most[way.device_class_name] = max(most.get(way.device_class_name, ZERO), Quantity(wanted))
            add_usage(devices, most)
        usage = {self.count_name: ONE} | {name + _DEVICES: quantity for name, quantity in devices.items()}
        if self._extended_resources:
            usage |= self._compute_extended_usage(devices, self._paid(obj))
        return usage

    def _compute_extended_usage(self, devices: Usage, paid: Usage) -> Usage:
        named: Usage = {}
        for name, quantity in devices.items():
            named[_REQUESTS + DEVICE_CLASS + name] = quantity
            if extended := self._extended().get(name):
                named[_REQUESTS + extended] = quantity
        open_ = {name: quantity - paid.get(name, ZERO) for name, quantity in named.items()}
        return {name: quantity for name, quantity in open_.items() if quantity.sign() > 0}

    def may_reject(self, new: ResourceClaim, old: ResourceClaim | None, subresource: str) -> bool:
        return not subresource

    def may_change_usage(self, new: ResourceClaim, old: ResourceClaim) -> bool:
        return new.spec != old.spec


_LOAD_BALANCERS, _NODE_PORTS = "services.loadbalancers", "services.nodeports"
_SERVICE_NAMES = frozenset({"count/services", "services", _LOAD_BALANCERS, _NODE_PORTS})


class ServiceEvaluator(Evaluator[Service]):
    """Measures Services: their number, load balancers, and node ports (counted before they are allocated)."""

    def __init__(self) -> None:
        super().__init__("", "services")

    def counts_resource(self, name: str) -> bool:
        return name in _SERVICE_NAMES

    def compute_usage(self, obj: Service) -> Usage:
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

    def may_reject(self, new: Service, old: Service | None, subresource: str) -> bool:
        return not subresource

    def may_change_usage(self, new: Service, old: Service) -> bool:
        return new.spec != old.spec


_UNCOUNTED = frozenset({("", "events"), ("events.k8s.io", "events")})


class Evaluators:
    """The quota evaluators of all kinds.

    `extended` returns, by DeviceClass, its extended resource name; `pod_of` returns the pod for whose extended
    resources a ResourceClaim was generated.
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
            return {} if pod is None else self.pods.compute_usage(pod)

        devices = DeviceClaimEvaluator(extended, paid, extended_resources=options.extended_device_resources)
        special = (self.pods, ServiceEvaluator(), VolumeClaimEvaluator(), devices)
        self._known: dict[tuple[str, str], Evaluator[Any]] = {(each.group, each.resource): each for each in special}

    def find_evaluator(self, kind: Kind) -> Evaluator[Any] | None:
        """Return the quota evaluator of a kind; None for kinds that no quota can count, such as cluster-scoped ones."""
        place = (kind.group, kind.plural)
        found = self._known.get(place)
        if found is None and kind.namespaced and place not in _UNCOUNTED:
            found = self._known[place] = Evaluator(*place)
        return found
