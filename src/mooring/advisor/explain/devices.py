"""Count, for each device request of a pod, the matching and the free devices of a node, and say what is missing.

The engine searches combinations of devices; this module looks at each request alone.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mooring.advisor.explain.results import Cause
from mooring.advisor.explain.view import View, full_name
from mooring.advisor.explain.wording import Groups, did_you_mean, group_by_text
from mooring.advisor.node_facts import find_nearest
from mooring.api import resource_v1
from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import Resource
from mooring.constraints.tolerations import find_untolerated_device_taint
from mooring.scheduler import facade
from mooring.scheduler.framework import Status

_DRIVER = re.compile(r"""device\.driver\s*==\s*['"]([^'"]+)['"]""")


@dataclass(frozen=True, slots=True)
class RequestDevices:
    """The devices of one node that a device request of the pod selects, tolerates and could get, step by step."""

    claim: resource_v1.ResourceClaim
    request: facade.Request
    devices: Sequence[facade.PooledDevice]
    """All devices of the node."""
    selected: Sequence[facade.PooledDevice]
    """The devices of `devices` that the selectors of the DeviceClass and of the request select."""
    tolerated: Sequence[facade.PooledDevice]
    """The devices of `selected` without an untolerated taint."""
    free: Sequence[facade.PooledDevice]
    """The devices of `tolerated` that are not allocated."""
    failing: tuple[str, str] = ("", "")
    """The first selector that selects no device, and its error if it fails."""

    @property
    def is_enough(self) -> bool:
        return bool(self.free) and (self.request.wants_all or len(self.free) >= self.request.count)

    def untolerated_taints(self) -> list[resource_v1.DeviceTaint]:
        return [taint for device in self.selected if device not in self.tolerated for taint in device.taints]


def resource_claims_of(view: View) -> list[resource_v1.ResourceClaim]:
    """Return the existing ResourceClaims of the pod."""
    found = []
    for entry in view.pod.spec.resource_claims:
        try:
            name = facade.device_claim_name(view.pod, entry)
        except facade.ClaimError:
            continue
        claim = view.object(resource_v1.ResourceClaim, name, view.namespace) if name else None
        if claim is not None:
            found.append(claim)
    return found


def device_requests_on(view: View, node: str) -> list[RequestDevices]:
    """Return, for each device request in the pod's unallocated claims, which devices of a node it could get."""
    inventory, allocated = _device_inventory(view)
    pools = inventory.pools_on(view.info(node).row)
    devices = [device for entry in pools if not entry.pool.is_invalid for device in entry.devices]
    found = []
    for claim in resource_claims_of(view):
        if claim.status.allocation is None:
            try:
                requests = facade.device_requests_of(claim, view.engine.cluster)
            except facade.ClaimError:
                continue
            found += [_match_request(view, claim, way, devices, allocated) for ways in requests for way in ways]
    return found


def driver_of(device_class: resource_v1.DeviceClass) -> str:
    """Return the driver that a selector of a DeviceClass compares `device.driver` with; empty if none does."""
    expressions = (each.cel.expression for each in device_class.spec.selectors if each.cel is not None)
    return next((found[1] for each in expressions if (found := _DRIVER.search(each)) is not None), "")


def pods_with_devices(view: View, devices: Sequence[facade.PooledDevice]) -> list[Pod]:
    """Return the placed pods whose claims have at least one of the given devices allocated."""
    wanted = {device.id for device in devices}
    uids = set()
    for claim in view.objects(resource_v1.ResourceClaim).values():
        results = claim.status.allocation.devices.results if claim.status.allocation is not None else []
        if any(facade.DeviceId(each.driver, each.pool, each.device) in wanted for each in results):
            uids |= {consumer.uid for consumer in claim.status.reserved_for}
    return [placed.pod for placed in view.engine.cluster.placed_pods() if placed.pod.metadata.uid in uids]


def _device_inventory(view: View) -> tuple[facade.Inventory, facade.Allocated]:
    shared = view.engine.cluster.shared
    if "advisor" not in shared:
        inventory = facade.Inventory(view.engine.cluster, view.features.constraints)
        shared["advisor"] = (inventory, facade.Allocated(view.engine.cluster, inventory))
    stock: tuple[facade.Inventory, facade.Allocated] = shared["advisor"]
    stock[0].refresh()
    stock[1].refresh()
    return stock


def _match_request(
    view: View,
    claim: resource_v1.ResourceClaim,
    way: facade.Request,
    devices: Sequence[facade.PooledDevice],
    allocated: facade.Allocated,
) -> RequestDevices:
    of_class, failing = _select_devices(way.device_class.spec.selectors, devices)
    selected, own_failing = _select_devices(way.selectors, of_class)
    options = view.features.constraints
    tolerated = [
        each for each in selected if find_untolerated_device_taint(each.taints, way.tolerations, options) is None
    ]
    free = [each for each in tolerated if way.admin_access or not allocated.is_exclusive(each.id)]
    return RequestDevices(claim, way, devices, selected, tolerated, free, own_failing if of_class else failing)


def _select_devices(
    selectors: Sequence[resource_v1.DeviceSelector], devices: Sequence[facade.PooledDevice]
) -> tuple[Sequence[facade.PooledDevice], tuple[str, str]]:
    """Return the devices that all selectors select; if there are none, also the selector at fault and its error."""
    for selector in selectors:
        expression = selector.cel.expression if selector.cel is not None else ""
        chosen, problem = [], ""
        for device in devices:
            try:
                if device.kind.is_selected_by(expression):
                    chosen.append(device)
            except facade.SelectorError as error:
                problem = str(error)
        if devices and not chosen:
            return (), (expression, problem)
        devices = chosen
    return devices, ("", "")


def format_lacking(found: RequestDevices) -> str:
    """Return a text saying what a device request lacks on a node."""
    asked = (
        "all devices"
        if found.request.wants_all
        else f"{found.request.count} of {found.request.device_class.metadata.name}"
    )
    where = f"request {found.request.name} of claim {full_name(found.claim)}"
    if not found.devices:
        return f"{where} asks for {asked}; no device can be used here"
    if not found.selected:
        expression, problem = found.failing
        why = f": {problem}" if problem else ""
        return f"{where} asks for {asked}; none of {len(found.devices)} devices is selected by `{expression}`{why}"
    if len(found.tolerated) < len(found.selected) and len(found.free) < found.request.count:
        taint = found.untolerated_taints()[0]
        tainted = len(found.selected) - len(found.tolerated)
        return (
            f"{where} asks for {asked}; {tainted} of {len(found.selected)} that fit have the taint"
            f" {taint.key}={taint.value}:{taint.effect}, which it does not tolerate"
        )
    return f"{where} asks for {asked}; of {len(found.selected)} that fit {len(found.free)} are free"


def describe_missing_devices(view: View, infos: Sequence[facade.NodeInfo], status: Status) -> Groups | str:
    if facade.REASON_ELSEWHERE in status.reasons:
        return "a claim of the pod has devices that cannot be used on this node"
    if not {facade.REASON_CANNOT, facade.REASON_GAVE_UP, facade.REASON_INVALID_POOL} & set(status.reasons):
        return []  # it is about the claims themselves

    def text(info: facade.NodeInfo) -> str:
        lacking = [format_lacking(found) for found in device_requests_on(view, info.name) if not found.is_enough]
        return "; ".join(lacking) or "each request could have its devices, but not all of them together"

    return group_by_text(infos, text)


def missing_device_object_cause(view: View) -> Cause | None:
    for entry in view.pod.spec.resource_claims:
        named: tuple[tuple[type[Resource], str | None], ...] = (
            (resource_v1.ResourceClaim, entry.resource_claim_name),
            (resource_v1.ResourceClaimTemplate, entry.resource_claim_template_name),
        )
        for kind, name in named:
            if name and view.object(kind, name, view.namespace) is None:
                meant = did_you_mean(view.similar_name(kind, name, view.namespace))
                text = f"{kind.__name__} {view.namespace}/{name} does not exist{meant}"
                return Cause(f"Missing{kind.__name__}", text)
    for claim in resource_claims_of(view):
        for request in claim.spec.devices.requests if claim.status.allocation is None else ():
            ways = [request.exactly] if request.exactly is not None else list(request.first_available)
            causes = [_missing_class_cause(view, way.device_class_name) for way in ways]
            if causes and all(causes):
                return causes[0]
    return None


def _missing_class_cause(view: View, name: str) -> Cause | None:
    found = view.object(resource_v1.DeviceClass, name)
    if found is None:
        meant = did_you_mean(view.similar_name(resource_v1.DeviceClass, name))
        return Cause("MissingDeviceClass", f"DeviceClass {name} does not exist{meant}")
    drivers = {each.spec.driver for each in view.objects(resource_v1.ResourceSlice).values()}
    wanted = driver_of(found)
    if wanted and wanted not in drivers:
        return Cause(
            "NoResourceSlice",
            f"no ResourceSlice of driver {wanted} exists (DeviceClass {name}): is the driver"
            f" installed and running?{did_you_mean(find_nearest(wanted, drivers))}",
        )
    if not drivers:
        text = f"no ResourceSlice of any driver exists (DeviceClass {name}): is a DRA driver installed and running?"
        return Cause("NoResourceSlice", text)
    return None


def missing_devices_cause(view: View, infos: Sequence[facade.NodeInfo]) -> Cause | None:
    """Return the cause for device requests that no node meets, for the nearest node; None if every node meets them."""
    best: tuple[int, str] | None = None
    for info in infos:
        lacking = [each for each in device_requests_on(view, info.name) if not each.is_enough]
        if not lacking:
            continue
        rank = max(len(each.selected) * 1000 + len(each.free) for each in lacking)
        if best is None or rank > best[0]:
            best = rank, f"{'; '.join(map(format_lacking, lacking))} (node {info.name})"
    if best is None:
        return None
    return Cause("NoDevices", f"no node has the devices: {best[1]}")
