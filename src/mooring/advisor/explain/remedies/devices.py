"""What helps where devices are missing: fewer of them, other ones, tainted ones, or those that others have."""

from collections.abc import Callable, Iterator

from mooring.advisor.explain import patches
from mooring.advisor.explain.devices import Found, holders, look
from mooring.advisor.explain.remedies.remedy import LARGE, MODEST, SMALL, Remedy, delete_pods
from mooring.advisor.explain.results import Change
from mooring.advisor.explain.view import View, full_name
from mooring.api import codec
from mooring.api.base import copy_of
from mooring.api.core_v1 import PodResourceClaim
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.resource_v1 import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from mooring.scheduler.columns.cluster import NodeInfo
from mooring.scheduler.framework import Status

PLUGIN = "DynamicResources"
_IMMUTABLE = "claims cannot be changed: it is made again, and so is its template, if it has one"
Asked = ExactDeviceRequest | DeviceSubRequest


def devices(view: View, info: NodeInfo, _status: Status) -> Iterator[Remedy]:
    yield from _missing_claims(view)
    yield from _missing_classes(view)
    for found in look(view, info.name):
        if not found.is_enough:
            yield from _for_request(view, found)


def _for_request(view: View, found: Found) -> Iterator[Remedy]:
    name, count = f"request {found.request.name} of claim {full_name(found.claim)}", len(found.free)
    if count and not found.request.wants_all:
        yield _changed(found, "fewer devices", MODEST, f"let {name} ask for {count} instead of {found.request.count}",
                       lambda asked: setattr(asked, "count", count))  # fmt: skip
    expression = found.failing[0]
    if expression and any(each.cel and each.cel.expression == expression for each in found.request.selectors):
        yield _changed(found, "drop selector", LARGE - 1, f"drop the selector `{expression}` of {name}",
                       lambda asked: _drop_selector(asked, expression))  # fmt: skip
    taints = found.taints()
    if taints:
        taint = taints[0]
        toleration = DeviceToleration(key=taint.key, operator="Exists", effect=taint.effect)
        yield _changed(found, "tolerate device", SMALL + 1, f"let {name} tolerate the device taint {taint.key}",
                       lambda asked: asked.tolerations.append(toleration))  # fmt: skip
    taken = [device for device in found.tolerated if device not in found.free]
    missing = max(found.request.count - len(found.free), 1)
    remedy = delete_pods(view, PLUGIN, holders(view, taken[:missing]), ", which has the device")
    if remedy is not None:
        freed = [claim for claim in view.objects(ResourceClaim).values() if _is_held_by(claim, remedy)]
        yield Remedy(
            PLUGIN,
            remedy.family,
            remedy.size,
            remedy.summary,
            put=tuple(_freed(claim) for claim in freed),
            remove=remedy.remove,
            changes=remedy.changes,
            caveat=remedy.caveat,
        )


def _is_held_by(claim: ResourceClaim, remedy: Remedy) -> bool:
    users = {consumer.uid for consumer in claim.status.reserved_for}
    return bool(users) and users <= {pod.metadata.uid for pod in remedy.remove}


def _freed(claim: ResourceClaim) -> ResourceClaim:
    """A claim after its last user has gone."""
    after = copy_of(claim)
    after.status.allocation, after.status.reserved_for = None, []
    return after


def _drop_selector(asked: Asked, expression: str) -> None:
    asked.selectors = [each for each in asked.selectors if each.cel is None or each.cel.expression != expression]


def _changed(found: Found, family: str, size: int, summary: str, change: Callable[[Asked], None]) -> Remedy:
    after = copy_of(found.claim)
    for request in after.spec.devices.requests:
        if request.name != found.request.base:
            continue
        if request.exactly is not None:
            change(request.exactly)
        for sub in request.first_available:
            if sub.name == found.request.sub:
                change(sub)
    operations = patches.difference(codec.to_tree(found.claim), codec.to_tree(after))
    target = patches.target_of(found.claim)
    command = patches.recreate_command(target, operations)
    done = Change(target=target, action="patch", patch=operations, command=command)
    return Remedy(PLUGIN, family, size, summary, put=(after,), changes=(done,), caveat=_IMMUTABLE)


def _missing_classes(view: View) -> Iterator[Remedy]:
    """Classes that claims of the pod name and that are not there."""
    names = {
        asked.device_class_name
        for claim in view.objects(ResourceClaim).values()
        if claim.metadata.namespace == view.namespace
        for request in claim.spec.devices.requests
        for asked in (*([request.exactly] if request.exactly is not None else ()), *request.first_available)
    }
    for name in sorted(names):
        if name and view.object(DeviceClass, name) is None:
            made = DeviceClass(api_version="resource.k8s.io/v1", kind="DeviceClass", metadata=ObjectMeta(name=name))
            yield _creating(made, f"create the DeviceClass {name}", "it has no selectors: every device is of it")


def _missing_claims(view: View) -> Iterator[Remedy]:
    for entry in view.pod.spec.resource_claims:
        name = entry.resource_claim_name
        if name and view.object(ResourceClaim, name, view.namespace) is None:
            for device_class in sorted(view.objects(DeviceClass))[:2]:
                yield _creating(
                    _claim(view, entry, device_class),
                    f"create the claim {view.namespace}/{name} for one {device_class}",
                )


def _claim(view: View, entry: PodResourceClaim, device_class: str) -> ResourceClaim:
    exactly = ExactDeviceRequest(device_class_name=device_class, allocation_mode="ExactCount", count=1)
    return ResourceClaim(
        api_version="resource.k8s.io/v1",
        kind="ResourceClaim",
        metadata=ObjectMeta(name=entry.resource_claim_name or "", namespace=view.namespace),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=[DeviceRequest(name="device", exactly=exactly)])),
    )


def _creating(made: DeviceClass | ResourceClaim, summary: str, caveat: str = "") -> Remedy:
    change = patches.creation(made)
    return Remedy(PLUGIN, "create", LARGE, summary, put=(made,), changes=(change,), caveat=caveat)
