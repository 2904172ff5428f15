"""Quota usage of claims: PersistentVolumeClaims by StorageClass, ResourceClaims by DeviceClass."""

from collections.abc import Callable, Mapping, Sequence

from mooring.admission.accounting.evaluator import ONE, ZERO, Evaluator, Usage, add_usage, selects
from mooring.admission.accounting.pods import DEVICE_CLASS, is_extended_for_quota
from mooring.api.core_v1 import PersistentVolumeClaim
from mooring.api.core_v1.namespace import ScopedResourceSelectorRequirement
from mooring.api.meta_v1 import Resource
from mooring.api.quantity import Quantity
from mooring.api.resource_v1 import DeviceSubRequest, ExactDeviceRequest, ResourceClaim

_CLASS_OF_STORAGE = ".storageclass.storage.k8s.io/"
_STORAGE = ("persistentvolumeclaims", "requests.storage")
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEVICES = ".deviceclass.resource.k8s.io/devices"
_MAX_DEVICES = 32
"""The number of devices that a request with mode All is charged for."""
_REQUESTS = "requests."


class VolumeClaimEvaluator(Evaluator):
    def __init__(self) -> None:
        super().__init__("", "persistentvolumeclaims")

    def measures(self, name: str) -> bool:
        return (
            name == self.count_name or name in _STORAGE or name.endswith(tuple(_CLASS_OF_STORAGE + n for n in _STORAGE))
        )

    def usage(self, obj: Resource) -> Usage:
        claim = _volume_claim(obj)
        usage = {self.count_name: ONE, _STORAGE[0]: ONE}
        storage = _storage(claim)
        if storage is not None:
            usage[_STORAGE[1]] = storage
        by_class = claim.metadata.annotations.get(_BETA_CLASS, claim.spec.storage_class_name or "")
        if by_class:
            usage |= {f"{by_class}{_CLASS_OF_STORAGE}{name}": usage[name] for name in _STORAGE if name in usage}
        return usage

    def in_scope(self, requirement: ScopedResourceSelectorRequirement, obj: Resource) -> bool:
        if requirement.scope_name != "VolumeAttributesClass":
            return False
        classes = _attribute_classes(_volume_claim(obj))
        return any(selects(requirement, name) for name in classes or {""})

    def may_reject(self, new: Resource, old: Resource | None, subresource: str) -> bool:
        return not subresource

    def may_differ(self, new: Resource, old: Resource) -> bool:
        now, before = _volume_claim(new), _volume_claim(old)
        return self.usage(now) != self.usage(before) or _attribute_classes(now) != _attribute_classes(before)


def _volume_claim(obj: Resource) -> PersistentVolumeClaim:
    assert isinstance(obj, PersistentVolumeClaim)  # noqa: S101 - the evaluator of this kind
    return obj


def _storage(claim: PersistentVolumeClaim) -> Quantity | None:
    asked = claim.spec.resources.requests.get("storage")
    if asked is None:
        return None
    allocated = claim.status.allocated_resources.get("storage", asked)
    return max(asked.round_up(0), allocated.round_up(0))


def _attribute_classes(claim: PersistentVolumeClaim) -> set[str]:
    status = claim.status
    target = status.modify_volume_status.target_volume_attributes_class_name if status.modify_volume_status else ""
    found = (claim.spec.volume_attributes_class_name, status.current_volume_attributes_class_name, target)
    return {name for name in found if name}


class DeviceClaimEvaluator(Evaluator):
    """ResourceClaims: devices by class in the worst case, and the extended resources of device classes.

    `extended` maps device classes to extended resources. `paid` is what the pod of a claim for extended resources was
    already charged.
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

    def measures(self, name: str) -> bool:
        if name == self.count_name or name.endswith(_DEVICES):
            return True
        if not self._extended_resources or not is_extended_for_quota(name):
            return False
        resource = name.removeprefix(_REQUESTS)
        return resource in self._extended().values() or resource.removeprefix(DEVICE_CLASS) in self._extended()

    def usage(self, obj: Resource) -> Usage:
        assert isinstance(obj, ResourceClaim)  # noqa: S101 - the evaluator of this kind
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
            usage |= self._extended_usage(devices, self._paid(obj))
        return usage

    def _extended_usage(self, devices: Usage, paid: Usage) -> Usage:
        named: Usage = {}
        for name, quantity in devices.items():
            named[_REQUESTS + DEVICE_CLASS + name] = quantity
            if extended := self._extended().get(name):
                named[_REQUESTS + extended] = quantity
        open_ = {name: quantity - paid.get(name, ZERO) for name, quantity in named.items()}
        return {name: quantity for name, quantity in open_.items() if quantity.sign() > 0}

    def may_reject(self, new: Resource, old: Resource | None, subresource: str) -> bool:
        return not subresource

    def may_differ(self, new: Resource, old: Resource) -> bool:
        assert isinstance(new, ResourceClaim)  # noqa: S101 - as above
        assert isinstance(old, ResourceClaim)  # noqa: S101 - as above
        return new.spec != old.spec
