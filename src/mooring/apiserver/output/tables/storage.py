"""Rows of volumes, classes and devices."""

from typing import Any

from mooring.api import core_v1, storage_v1
from mooring.apiserver.output.tables.printer import NONE, UNSET, Printer, age, number, text, wide, yes_or_no

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


def _access(modes: list[str]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)


def _volume(each: core_v1.PersistentVolume) -> list[Any]:
    spec, status = each.spec, each.status
    claim = f"{spec.claim_ref.namespace}/{spec.claim_ref.name}" if spec.claim_ref else ""
    capacity = spec.capacity.get("storage")
    return [
        each.metadata.name,
        "" if capacity is None else str(capacity),
        _access(spec.access_modes),
        spec.persistent_volume_reclaim_policy,
        "Terminating" if each.metadata.deletion_timestamp else status.phase,
        claim,
        each.metadata.annotations.get(_OLD_CLASS, spec.storage_class_name),
        spec.volume_attributes_class_name or UNSET,
        status.reason,
        age(each.metadata.creation_timestamp),
        spec.volume_mode or UNSET,
    ]


PERSISTENT_VOLUMES = Printer(
    (
        *map(text, ("Name", "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass")),
        *map(text, ("VolumeAttributesClass", "Reason", "Age")),
        wide("VolumeMode"),
    ),
    _volume,
)


def _claim(each: core_v1.PersistentVolumeClaim) -> list[Any]:
    spec, bound = each.spec, bool(each.spec.volume_name)
    storage = each.status.capacity.get("storage") if bound else None
    phase = each.status.phase
    return [
        each.metadata.name,
        "Terminating" if each.metadata.deletion_timestamp else phase,
        spec.volume_name,
        "" if storage is None else str(storage),
        _access(each.status.access_modes) if bound else "",
        each.metadata.annotations.get(_OLD_CLASS, spec.storage_class_name or ""),
        spec.volume_attributes_class_name or UNSET,
        age(each.metadata.creation_timestamp),
        spec.volume_mode or UNSET,
    ]


PERSISTENT_VOLUME_CLAIMS = Printer(
    (
        *map(text, ("Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass")),
        *map(text, ("VolumeAttributesClass", "Age")),
        wide("VolumeMode"),
    ),
    _claim,
)


def _storage_class(each: storage_v1.StorageClass) -> list[Any]:
    default = any(each.metadata.annotations.get(mark) == "true" for mark in _DEFAULT_CLASS)
    return [
        f"{each.metadata.name} (default)" if default else each.metadata.name,
        each.provisioner,
        each.reclaim_policy or "Delete",
        each.volume_binding_mode or "Immediate",
        bool(each.allow_volume_expansion),
        age(each.metadata.creation_timestamp),
    ]


STORAGE_CLASSES = Printer(
    (
        *map(text, ("Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode")),
        yes_or_no("AllowVolumeExpansion"),
        text("Age"),
    ),
    _storage_class,
)


def _attributes_class(each: storage_v1.VolumeAttributesClass) -> list[Any]:
    return [each.metadata.name, each.driver_name, age(each.metadata.creation_timestamp)]


VOLUME_ATTRIBUTES_CLASSES = Printer(tuple(map(text, ("Name", "DriverName", "Age"))), _attributes_class)


def _csi_node(each: storage_v1.CSINode) -> list[Any]:
    return [each.metadata.name, len(each.spec.drivers), age(each.metadata.creation_timestamp)]


CSI_NODES = Printer((text("Name"), number("Drivers"), text("Age")), _csi_node)


def _csi_driver(each: storage_v1.CSIDriver) -> list[Any]:
    spec = each.spec
    return [
        each.metadata.name,
        True if spec.attach_required is None else spec.attach_required,
        bool(spec.pod_info_on_mount),
        bool(spec.storage_capacity),
        ",".join(request.audience for request in spec.token_requests) or UNSET,
        bool(spec.requires_republish),
        ",".join(spec.volume_lifecycle_modes) or NONE,
        age(each.metadata.creation_timestamp),
    ]


CSI_DRIVERS = Printer(
    (
        text("Name"),
        *map(yes_or_no, ("AttachRequired", "PodInfoOnMount", "StorageCapacity")),
        text("TokenRequests"),
        yes_or_no("RequiresRepublish"),
        text("Modes"),
        text("Age"),
    ),
    _csi_driver,
)


def _storage_capacity(each: storage_v1.CSIStorageCapacity) -> list[Any]:
    capacity = UNSET if each.capacity is None else str(each.capacity)
    return [each.metadata.name, each.storage_class_name, capacity, age(each.metadata.creation_timestamp)]


CSI_STORAGE_CAPACITIES = Printer(tuple(map(text, ("Name", "StorageClassName", "Capacity", "Age"))), _storage_capacity)


def _attachment(each: storage_v1.VolumeAttachment) -> list[Any]:
    return [
        each.metadata.name,
        each.spec.attacher,
        each.spec.source.persistent_volume_name or "",
        each.spec.node_name,
        each.status.attached,
        age(each.metadata.creation_timestamp),
    ]


VOLUME_ATTACHMENTS = Printer(
    (*map(text, ("Name", "Attacher", "PV", "Node")), yes_or_no("Attached"), text("Age")), _attachment
)


def _resource_claim(each: Any) -> list[Any]:
    return [each.metadata.name, _claim_state(each), age(each.metadata.creation_timestamp)]


def _claim_state(claim: Any) -> str:
    states = []
    if claim.metadata.deletion_timestamp:
        states.append("deleted")
    if claim.status.allocation is None:
        states.append("pending")
    else:
        states.append("allocated")
        if claim.status.reserved_for:
            states.append("reserved")
    return ",".join(states)


RESOURCE_CLAIMS = Printer(tuple(map(text, ("Name", "State", "Age"))), _resource_claim)


def _resource_slice(each: Any) -> list[Any]:
    spec = each.spec
    return [
        each.metadata.name,
        spec.node_name or "",
        spec.driver,
        spec.pool.name,
        age(each.metadata.creation_timestamp),
    ]


RESOURCE_SLICES = Printer(tuple(map(text, ("Name", "Node", "Driver", "Pool", "Age"))), _resource_slice)
