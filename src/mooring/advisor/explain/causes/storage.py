"""Causes for pods whose volumes or devices exclude every node."""

from collections.abc import Sequence

from mooring.advisor.explain import devices as device_view
from mooring.advisor.explain.reasons.groups import did_you_mean, pods_named, some
from mooring.advisor.explain.reasons.storage import affinity_text
from mooring.advisor.explain.results import Cause
from mooring.advisor.explain.storage import (
    claims_of,
    disk_holders,
    missing_claims,
    one_pod_holders,
    size_of,
    volume_of,
    volume_zones,
)
from mooring.advisor.explain.view import View, full_name
from mooring.advisor.node_facts import nearest
from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim
from mooring.api.meta_v1 import Resource
from mooring.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from mooring.api.storage_v1 import CSIDriver, StorageClass
from mooring.scheduler.facade import (
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    NodeInfo,
    class_of,
    is_bound,
)


def without_node(view: View) -> Cause | None:
    """Return the cause if a claim, StorageClass or driver is missing, so that no node can fit."""
    for name in missing_claims(view):
        meant = view.similar_name(PersistentVolumeClaim, name, view.namespace)
        others = [each.metadata for each in view.objects(PersistentVolumeClaim).values()]
        spaces = sorted(each.namespace for each in others if each.name == name)
        hint = f"; there is one in {some(spaces)}, which only pods there can use" if spaces else did_you_mean(meant)
        return Cause("MissingClaim", f"claim {view.namespace}/{name} does not exist{hint}")
    for claim in claims_of(view):
        cause = _unbound(view, claim)
        if cause is not None:
            return cause
    return _missing_devices(view)


def _unbound(view: View, claim: PersistentVolumeClaim) -> Cause | None:
    name, of_class = full_name(claim), class_of(claim)
    if claim.metadata.deletion_timestamp is not None:
        return Cause("ClaimTerminating", f"claim {name} is being deleted")
    if volume := claim.spec.volume_name:
        if volume_of(view, claim) is not None:
            return None
        lost = " any more: the claim is lost" if claim.status.phase == "Lost" else ""
        return Cause("MissingVolume", f"claim {name} is bound to the volume {volume}, which does not exist{lost}")
    found = view.object(StorageClass, of_class) if of_class else None
    volumes = view.objects(PersistentVolume).values()
    if of_class and found is None and all(each.spec.storage_class_name != of_class for each in volumes):
        meant = did_you_mean(view.similar_name(StorageClass, of_class))
        return Cause("MissingStorageClass", f"StorageClass {of_class} does not exist (claim {name}){meant}")
    if found is not None and found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
        return None
    classes = view.objects(StorageClass)
    if claim.spec.storage_class_name is None and not of_class and classes:
        names = some([each.metadata.name for each in classes.values()])
        text = f"claim {name} names no StorageClass, and no class is the default (existing classes: {names})"
        return Cause("NoDefaultClass", text)
    wanted = f"{size_of(claim)}, {', '.join(claim.spec.access_modes)}"
    if found is None or found.provisioner == NO_PROVISIONER:
        of = f"of class {of_class}" if of_class else "without a class"
        return Cause("NoVolume", f"claim {name} has no volume: no free PersistentVolume {of} fits it ({wanted})")
    return Cause(
        "NotProvisioned",
        f"claim {name} has no volume yet: the provisioner {found.provisioner} of StorageClass {of_class}"
        f" has not made one{_driver_hint(view, found.provisioner)}",
    )


def unprovisioned(view: View) -> Cause | None:
    """Return which claim waits for a volume on the node that the scheduler has chosen."""
    for claim in claims_of(view):
        node = claim.metadata.annotations.get(SELECTED_NODE)
        found = view.object(StorageClass, class_of(claim))
        if node and found is not None and not claim.spec.volume_name:
            text = (
                f"the scheduler has chosen node {node}, and claim {full_name(claim)} waits for its volume there: is the"
                f" provisioner {found.provisioner} of StorageClass {class_of(claim)} installed and running?"
                f"{_driver_hint(view, found.provisioner)}"
            )
            return Cause("NotProvisioned", text)
    return None


def _driver_hint(view: View, provisioner: str) -> str:
    drivers = view.objects(CSIDriver)
    known = [each.metadata.name for each in drivers.values()]
    if provisioner in known or not known:
        return ""
    return f"; no CSIDriver {provisioner} is installed{did_you_mean(nearest(provisioner, known))}"


def restrictions(view: View, infos: Sequence[NodeInfo]) -> Cause | None:
    held = one_pod_holders(view)
    if held:
        return Cause(
            "ClaimInUse",
            f"the pod's claim may be used by one pod only (ReadWriteOncePod), and {pods_named(held)} uses it",
        )
    disks = [pod for info in infos for pod in disk_holders(view, info)]
    if not disks:
        return None
    return Cause("DiskInUse", f"{pods_named(disks)} has a disk of the pod, which cannot be mounted twice")


def binding(view: View) -> Cause | None:
    for claim in claims_of(view):
        volume = volume_of(view, claim)
        if volume is not None and volume.spec.node_affinity is not None:
            return Cause(
                "VolumeElsewhere",
                f"volume {volume.metadata.name} of claim {full_name(claim)} can be used only where"
                f" {affinity_text(volume)}, and no node left for the pod is there",
            )
    for claim in claims_of(view):
        if not is_bound(claim):
            of_class = class_of(claim)
            found = view.object(StorageClass, of_class)
            if found is not None and found.provisioner == NO_PROVISIONER:
                return Cause(
                    "NoVolume",
                    f"claim {full_name(claim)} has no volume: no free PersistentVolume of class {of_class}"
                    f" fits it on a node left for the pod ({size_of(claim)})",
                )
            if found is not None and found.allowed_topologies:
                zones = [
                    value
                    for term in found.allowed_topologies
                    for each in term.match_label_expressions
                    for value in each.values
                ]
                return Cause(
                    "ClassElsewhere",
                    f"StorageClass {of_class} makes volumes only in {some(zones)}, and no node left for the"
                    f" pod is there",
                )
            return Cause(
                "NoCapacity",
                f"claim {full_name(claim)} ({size_of(claim)}): the driver of StorageClass {of_class} has"
                f" not enough room on any node left for the pod",
            )
    return None


def zone(view: View, infos: Sequence[NodeInfo]) -> Cause | None:
    for volume, key, values in volume_zones(view):
        if all(info.node.metadata.labels.get(key) not in values for info in infos):
            there = some(sorted({info.node.metadata.labels.get(key, "none") for info in infos}))
            return Cause(
                "VolumeZone",
                f"volume {volume.metadata.name} is in zone {' or '.join(values)}, and no node left for the"
                f" pod is: they are in {there}",
            )
    return None


# -- devices


def _missing_devices(view: View) -> Cause | None:
    for entry in view.pod.spec.resource_claims:
        named: tuple[tuple[type[Resource], str | None], ...] = (
            (ResourceClaim, entry.resource_claim_name),
            (ResourceClaimTemplate, entry.resource_claim_template_name),
        )
        for kind, name in named:
            if name and view.object(kind, name, view.namespace) is None:
                meant = did_you_mean(view.similar_name(kind, name, view.namespace))
                text = f"{kind.__name__} {view.namespace}/{name} does not exist{meant}"
                return Cause(f"Missing{kind.__name__}", text)
    for claim in device_view.claims_of(view):
        for request in claim.spec.devices.requests if claim.status.allocation is None else ():
            ways = [request.exactly] if request.exactly is not None else list(request.first_available)
            causes = [_missing_class(view, way.device_class_name) for way in ways]
            if causes and all(causes):
                return causes[0]
    return None


def _missing_class(view: View, name: str) -> Cause | None:
    found = view.object(DeviceClass, name)
    if found is None:
        meant = did_you_mean(view.similar_name(DeviceClass, name))
        return Cause("MissingDeviceClass", f"DeviceClass {name} does not exist{meant}")
    drivers = {each.spec.driver for each in view.objects(ResourceSlice).values()}
    wanted = device_view.driver_of(found)
    if wanted and wanted not in drivers:
        return Cause(
            "NoResourceSlice",
            f"no ResourceSlice of driver {wanted} exists (DeviceClass {name}): is the driver"
            f" installed and running?{did_you_mean(nearest(wanted, drivers))}",
        )
    if not drivers:
        return Cause(
            "NoResourceSlice",
            f"no ResourceSlice of any driver exists (DeviceClass {name}): is a DRA driver installed and running?",
        )
    return None


def devices(view: View, infos: Sequence[NodeInfo]) -> Cause | None:
    """Return the cause of unmet device requests, for the nodes that come nearest."""
    best: tuple[int, str] | None = None
    for info in infos:
        lacking = [each for each in device_view.requests_on(view, info.name) if not each.is_enough]
        if not lacking:
            continue
        rank = max(len(each.selected) * 1000 + len(each.free) for each in lacking)
        if best is None or rank > best[0]:
            best = rank, f"{'; '.join(map(device_view.lacking_text, lacking))} (node {info.name})"
    if best is None:
        return None
    return Cause("NoDevices", f"no node has the devices: {best[1]}")
