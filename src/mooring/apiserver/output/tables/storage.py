"""Table printers of volumes, storage classes and devices."""

from typing import Any

from mooring.api import core_v1
from mooring.apiserver.output.tables.printer import (
    AGE,
    NAME,
    NONE,
    UNSET,
    boolean,
    class_name,
    number,
    printer,
    text,
    wide,
)

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


def _access_modes(modes: list[str]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _phase_of(each: Any) -> Any:
    return "Terminating" if each.metadata.deletion_timestamp else each.status.phase


def _size_of(amounts: Any) -> str:
    storage = amounts.get("storage")
    return "" if storage is None else str(storage)


def _class_of(each: Any) -> Any:
    return each.metadata.annotations.get(_OLD_CLASS, each.spec.storage_class_name or "")


def _claim_of(volume: core_v1.PersistentVolume) -> str:
    claim = volume.spec.claim_ref
    return f"{claim.namespace}/{claim.name}" if claim else ""


def _claim_state(claim: Any) -> str:
    states = ["deleted"] if claim.metadata.deletion_timestamp else []
    if claim.status.allocation is None:
        states.append("pending")
    else:
        states += ["allocated", "reserved"] if claim.status.reserved_for else ["allocated"]
    return ",".join(states)


_ATTRIBUTES_CLASS = text("VolumeAttributesClass", "spec.volume_attributes_class_name", UNSET)
_VOLUME_MODE = wide("VolumeMode", "spec.volume_mode", UNSET)

PRINTERS = {
    "PersistentVolume": printer(
        NAME,
        text("Capacity", lambda each: _size_of(each.spec.capacity)),
        text("Access Modes", lambda each: _access_modes(each.spec.access_modes)),
        text("Reclaim Policy", "spec.persistent_volume_reclaim_policy"),
        text("Status", _phase_of),
        text("Claim", _claim_of),
        text("StorageClass", _class_of),
        _ATTRIBUTES_CLASS,
        text("Reason", "status.reason"),
        AGE,
        _VOLUME_MODE,
    ),
    "PersistentVolumeClaim": printer(
        NAME,
        text("Status", _phase_of),
        text("Volume", "spec.volume_name"),
        text("Capacity", lambda each: _size_of(each.status.capacity) if each.spec.volume_name else ""),
        text("Access Modes", lambda each: _access_modes(each.status.access_modes) if each.spec.volume_name else ""),
        text("StorageClass", _class_of),
        _ATTRIBUTES_CLASS,
        AGE,
        _VOLUME_MODE,
    ),
    "ResourceClaim.resource.k8s.io": printer(NAME, text("State", _claim_state), AGE),
    "ResourceSlice.resource.k8s.io": printer(
        NAME,
        text("Node", "spec.node_name", ""),
        text("Driver", "spec.driver"),
        text("Pool", "spec.pool.name"),
        AGE,
    ),
    "CSIDriver.storage.k8s.io": printer(
        NAME,
        boolean("AttachRequired", lambda each: each.spec.attach_required is not False),
        boolean("PodInfoOnMount", lambda each: bool(each.spec.pod_info_on_mount)),
        boolean("StorageCapacity", lambda each: bool(each.spec.storage_capacity)),
        text("TokenRequests", lambda each: ",".join(one.audience for one in each.spec.token_requests), UNSET),
        boolean("RequiresRepublish", lambda each: bool(each.spec.requires_republish)),
        text("Modes", lambda each: ",".join(each.spec.volume_lifecycle_modes), NONE),
        AGE,
    ),
    "CSINode.storage.k8s.io": printer(NAME, number("Drivers", lambda each: len(each.spec.drivers)), AGE),
    "CSIStorageCapacity.storage.k8s.io": printer(
        NAME,
        text("StorageClassName", "storage_class_name"),
        text("Capacity", lambda each: UNSET if each.capacity is None else str(each.capacity)),
        AGE,
    ),
    "StorageClass.storage.k8s.io": printer(
        class_name("storageclass.kubernetes.io", "storageclass.beta.kubernetes.io"),
        text("Provisioner", "provisioner"),
        text("ReclaimPolicy", "reclaim_policy", "Delete"),
        text("VolumeBindingMode", "volume_binding_mode", "Immediate"),
        boolean("AllowVolumeExpansion", lambda each: bool(each.allow_volume_expansion)),
        AGE,
    ),
    "VolumeAttachment.storage.k8s.io": printer(
        NAME,
        text("Attacher", "spec.attacher"),
        text("PV", "spec.source.persistent_volume_name", ""),
        text("Node", "spec.node_name"),
        boolean("Attached", "status.attached"),
        AGE,
    ),
    "VolumeAttributesClass.storage.k8s.io": printer(NAME, text("DriverName", "driver_name"), AGE),
}
