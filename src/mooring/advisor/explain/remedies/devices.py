"""Remedies for missing devices: request fewer, request others, tolerate taints, or free allocated ones."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from mooring.advisor.explain import devices, patches
from mooring.advisor.explain.remedies.remedy import BOUND, LARGE, MODEST, SMALL, Remedy, delete_pods, with_object_change
from mooring.advisor.explain.results import Change
from mooring.advisor.explain.view import View, full_name
from mooring.advisor.node_facts import find_nearest, find_similar
from mooring.api import resource_v1
from mooring.api.base import copy_of
from mooring.api.core_v1 import Pod, PodResourceClaim
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.simulation import is_simulated
from mooring.scheduler.facade import ClaimError, NodeInfo, device_claim_name
from mooring.scheduler.framework import Status

_KEPT = "pods that exist keep the claims they have"
_IMMUTABLE = "a claim cannot be changed: it is deleted and made again"
_MOST_DEVICES = 128
"""The maximum number of devices of one ResourceSlice."""
DeviceAmount = resource_v1.ExactDeviceRequest | resource_v1.DeviceSubRequest


def device_remedies(view: View, info: NodeInfo, _status: Status) -> Iterator[Remedy]:
    yield from _create_missing_claims(view)
    yield from _fix_missing_classes(view)
    yield from _fix_silent_drivers(view, info)
    for found in devices.device_requests_on(view, info.name):
        if not found.is_enough:
            yield from _remedies_for_request(view, found)


def _remedies_for_request(view: View, found: devices.RequestDevices) -> Iterator[Remedy]:
    name, count = f"request {found.request.name} of claim {full_name(found.claim)}", len(found.free)
    if count and not found.request.wants_all:
        idea = Remedy("fewer devices", MODEST, f"let {name} ask for {count} instead of {found.request.count}")
        yield _change_claim(view, found.claim, idea, _edit_request(found, lambda asked: setattr(asked, "count", count)))
    expression = found.failing[0]
    if expression and any(each.cel and each.cel.expression == expression for each in found.request.selectors):
        idea = Remedy("drop selector", LARGE - 1, f"drop the selector `{expression}` of {name}")
        yield _change_claim(
            view, found.claim, idea, _edit_request(found, lambda asked: _drop_selector(asked, expression))
        )
    taints = found.untolerated_taints()
    if taints:
        toleration = resource_v1.DeviceToleration(key=taints[0].key, operator="Exists", effect=taints[0].effect)
        idea = Remedy("tolerate device", SMALL + 1, f"let {name} tolerate the device taint {taints[0].key}")
        yield _change_claim(
            view, found.claim, idea, _edit_request(found, lambda asked: asked.tolerations.append(toleration))
        )
    taken = [device for device in found.tolerated if device not in found.free]
    missing = max(found.request.count - len(found.free), 1)
    for remedy in delete_pods(view, devices.pods_with_devices(view, taken[:missing]), ", which has the device"):
        gone = {pod.metadata.uid for pod in remedy.remove}
        freed = []
        for claim in view.objects(resource_v1.ResourceClaim).values():
            users = {consumer.uid for consumer in claim.status.reserved_for}
            if users and users <= gone:
                freed.append(copy_of(claim))
                freed[-1].status.allocation, freed[-1].status.reserved_for = None, []
        yield replace(remedy, put=tuple(freed))


def _drop_selector(asked: DeviceAmount, expression: str) -> None:
    asked.selectors = [each for each in asked.selectors if each.cel is None or each.cel.expression != expression]


def _change_claim(
    view: View, claim: resource_v1.ResourceClaim, idea: Remedy, change: Callable[[resource_v1.ResourceClaimSpec], None]
) -> Remedy:
    """Return the remedy with a change of a ResourceClaim's spec, made in its template if it was created from one."""
    after = copy_of(claim)
    change(after.spec)
    entry = next((each for each in view.pod.spec.resource_claims if _refers_to(view, each, claim)), None)
    wanted = entry.resource_claim_template_name if entry is not None else None
    template = view.object(resource_v1.ResourceClaimTemplate, wanted, view.namespace) if wanted else None
    if template is None:
        return replace(idea, put=(after,), changes=(patches.recreate_change(claim, after),), caveat=_IMMUTABLE)
    new = copy_of(template)
    change(new.spec.spec)
    changes = [patches.recreate_change(template, new)]
    if isinstance(view.subject.source, Pod):
        edit = (lambda _: True) if view.subject.exists else None  # the pod is created again, for its new claim
        return replace(idea, edit=edit, put=(after, new), changes=tuple(changes), caveat=_KEPT)
    pending = [pod for pod in view.subject.siblings if not pod.spec.node_name]
    if pending:
        names = [pod.metadata.name for pod in pending]
        command = patches.kubectl_command("delete", "pod", *names, namespace=view.namespace)
        changes.append(Change(target=patches.target_of(pending[0]), action="delete", command=command))
    return replace(idea, put=(after, new), remove=tuple(pending), changes=tuple(changes), caveat=_KEPT)


def _refers_to(view: View, entry: PodResourceClaim, claim: resource_v1.ResourceClaim) -> bool:
    try:
        return device_claim_name(view.pod, entry) == claim.metadata.name
    except ClaimError:
        return False


def _edit_request(
    found: devices.RequestDevices, change: Callable[[DeviceAmount], None]
) -> Callable[[resource_v1.ResourceClaimSpec], None]:
    def edit(spec: resource_v1.ResourceClaimSpec) -> None:
        for request in spec.devices.requests:
            if request.name != found.request.base:
                continue
            if request.exactly is not None:
                change(request.exactly)
            for sub in request.first_available:
                if sub.name == found.request.sub:
                    change(sub)

    return edit


def _device_requests_in(spec: resource_v1.ResourceClaimSpec) -> Iterator[DeviceAmount]:
    for request in spec.devices.requests:
        yield from [request.exactly] if request.exactly is not None else request.first_available


def _fix_missing_classes(view: View) -> Iterator[Remedy]:
    for claim, name in _wanted_classes(view):
        if view.object(resource_v1.DeviceClass, name) is not None:
            continue
        if meant := find_similar(name, view.objects(resource_v1.DeviceClass)):
            idea = Remedy("correct class", BOUND, f"correct DeviceClass {name} to {meant}")
            yield _change_claim(view, claim, idea, _rename_class_edit(name, meant))
        made = resource_v1.DeviceClass(metadata=ObjectMeta(name=name))
        yield _create_object(made, f"create the DeviceClass {name}", "it has no selectors: every device is of it")


def _wanted_classes(view: View) -> Iterator[tuple[resource_v1.ResourceClaim, str]]:
    """Yield the pod's claims without an allocation, with each DeviceClass that they ask for."""
    for claim in devices.resource_claims_of(view):
        names = dict.fromkeys(each.device_class_name for each in _device_requests_in(claim.spec))
        yield from ((claim, name) for name in names if claim.status.allocation is None)


def _fix_silent_drivers(view: View, info: NodeInfo) -> Iterator[Remedy]:
    """Suggest what helps if a driver has no ResourceSlices: its right name, another class, or simulated devices."""
    known = {each.spec.driver for each in view.objects(resource_v1.ResourceSlice).values()}
    for claim, name in _wanted_classes(view):
        found = view.object(resource_v1.DeviceClass, name)
        driver = devices.driver_of(found) if found is not None else ""
        if found is None or driver in known or (known and not driver):
            continue
        if meant := find_nearest(driver, known):
            yield _correct_driver(found, driver, meant)
        for other in sorted(
            each for each, made in view.objects(resource_v1.DeviceClass).items() if devices.driver_of(made) in known
        ):
            idea = Remedy("other class", LARGE - 1, f"ask for DeviceClass {other} instead of {name}")
            yield _change_claim(view, claim, idea, _rename_class_edit(name, other))
        if is_simulated(info.node):
            yield _publish_simulated_devices(view, info, driver or "driver.example.com")


def _correct_driver(found: resource_v1.DeviceClass, old: str, new: str) -> Remedy:
    def correct(device_class: resource_v1.DeviceClass) -> None:
        for cel in (each.cel for each in device_class.spec.selectors if each.cel is not None):
            cel.expression = cel.expression.replace(old, new)

    summary = f"correct the driver of DeviceClass {found.metadata.name} from {old} to {new}"
    return with_object_change(Remedy("correct driver", BOUND, summary), found, correct)


def _publish_simulated_devices(view: View, info: NodeInfo, driver: str) -> Remedy:
    """Suggest to create a ResourceSlice of a simulated node, with devices for all pods of the workload."""
    source: Any = view.subject.source
    replicas = getattr(source.spec, "replicas", None) or len(view.subject.siblings) or 1
    number = replicas * sum(
        each.count or 1 for claim in devices.resource_claims_of(view) for each in _device_requests_in(claim.spec)
    )
    pool = resource_v1.ResourcePool(name=info.name, generation=1, resource_slice_count=1)
    devices_of = [resource_v1.Device(name=f"device-{each}") for each in range(min(number, _MOST_DEVICES))]
    made = resource_v1.ResourceSlice(
        metadata=ObjectMeta(name=f"{info.name}-{driver}"),
        spec=resource_v1.ResourceSliceSpec(driver=driver, node_name=info.name, pool=pool, devices=devices_of),
    )
    devices_named = "one device" if number == 1 else f"{len(devices_of)} devices"
    summary = f"publish {devices_named} of driver {driver} on the simulated node {info.name} (ResourceSlice)"
    return _create_object(made, summary, "it stands for the driver, which publishes its own devices")


def _rename_class_edit(old: str, new: str) -> Callable[[resource_v1.ResourceClaimSpec], None]:
    def edit(spec: resource_v1.ResourceClaimSpec) -> None:
        for each in _device_requests_in(spec):
            each.device_class_name = new if each.device_class_name == old else each.device_class_name

    return edit


def _create_missing_claims(view: View) -> Iterator[Remedy]:
    for entry in view.pod.spec.resource_claims:
        name = entry.resource_claim_name
        if name and view.object(resource_v1.ResourceClaim, name, view.namespace) is None:
            for device_class in sorted(view.objects(resource_v1.DeviceClass))[:2]:
                exactly = resource_v1.ExactDeviceRequest(
                    device_class_name=device_class, allocation_mode="ExactCount", count=1
                )
                requests = resource_v1.DeviceClaim(requests=[resource_v1.DeviceRequest(name="device", exactly=exactly)])
                meta = ObjectMeta(name=name, namespace=view.namespace)
                made = resource_v1.ResourceClaim(metadata=meta, spec=resource_v1.ResourceClaimSpec(devices=requests))
                yield _create_object(made, f"create the claim {view.namespace}/{name} for one {device_class}")


def _create_object(
    made: resource_v1.DeviceClass | resource_v1.ResourceClaim | resource_v1.ResourceSlice,
    summary: str,
    caveat: str = "",
) -> Remedy:
    change = patches.create_change(made)
    return Remedy("create", LARGE, summary, put=(made,), changes=(change,), caveat=caveat)
