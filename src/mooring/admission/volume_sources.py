"""Validate volume sources that pods and PersistentVolumes share, and their file paths and modes."""

import re
from collections.abc import Callable
from typing import Any

from mooring.admission import checks
from mooring.api import field_errors, names
from mooring.api.base import Object
from mooring.api.core_v1 import volume_source as vs
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

ONE_TYPE = "may not specify more than 1 volume type"
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
FILE_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_HOST_PATH_TYPES = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_IQN = re.compile(r"iqn\.\d{4}-\d{2}\.([a-zA-Z0-9.-]+)(:[^,;*&$|\s]+)$", re.ASCII)
_EUI = re.compile(r"eui.[a-zA-Z0-9]{16}", re.ASCII)
_NAA = re.compile(r"naa.[a-zA-Z0-9]{32}", re.ASCII)
_HOST_AND_PORT = re.compile(r"(\[[^\]]*\]|[^:\[\]]*):[^:]*")


def _validate_host_path(source: vs.HostPathVolumeSource, path: Path) -> Errors:
    if not source.path:
        return []
    errors = forbid_backsteps(source.path, path.child("path"))
    return errors + checks.optional_one_of(source.type, _HOST_PATH_TYPES, path.child("type"))


def validate_csi_driver_name(name: str, path: Path) -> Errors:
    if not name:
        return [field_errors.required(path)]
    errors = [field_errors.too_long(path, 63)] if len(name) > 63 else []
    return errors + names.validate(path, name, names.dns1123_subdomain(name.lower()))


def _validate_iscsi(source: vs.ISCSIVolumeSource | vs.ISCSIPersistentVolumeSource, path: Path) -> Errors:
    errors = checks.optional(source.iqn or None, path.child("iqn"), _validate_initiator)
    errors += checks.invalid_if(not 0 <= source.lun <= 255, path.child("lun"), source.lun, names.out_of_range(0, 255))
    needs_secret = source.chap_auth_discovery or source.chap_auth_session
    errors += checks.require(source.secret_ref is not None or not needs_secret, path.child("secretRef"))
    return errors + checks.optional(source.initiator_name, path.child("initiatorname"), _validate_initiator)


def _validate_initiator(name: str, path: Path) -> Errors:
    if not name.startswith(("iqn", "eui", "naa")):
        return [field_errors.invalid(path, name, "must be valid format starting with iqn, eui, or naa")]
    valid = _IQN.search(name) or _EUI.fullmatch(name) or _NAA.fullmatch(name)
    return [] if valid else [field_errors.invalid(path, name, "must be valid format")]


def _validate_fc(source: vs.FCVolumeSource, path: Path) -> Errors:
    here, lun = path.child("targetWWNs"), path.child("lun")
    detail = "must specify either targetWWNs or wwids, but not both"
    errors = checks.require(source.target_wwns or source.wwids, here, detail)
    detail = "targetWWNs and wwids can not be specified simultaneously"
    errors += checks.invalid_if(source.target_wwns and source.wwids, here, source.target_wwns, detail)
    if not source.target_wwns:
        return errors
    errors += checks.require(source.lun is not None, lun, "lun is required if targetWWNs is specified")
    return errors + checks.invalid_if(not 0 <= (source.lun or 0) <= 255, lun, source.lun, names.out_of_range(0, 255))


def _validate_partition(
    source: vs.GCEPersistentDiskVolumeSource | vs.AWSElasticBlockStoreVolumeSource, path: Path
) -> Errors:
    number, here = source.partition, path.child("partition")
    return checks.invalid_if(not 0 <= number <= 255, here, number, names.out_of_range(1, 255))


def _validate_nfs(source: vs.NFSVolumeSource, path: Path) -> Errors:
    is_relative = not source.path.startswith("/")
    return checks.invalid_if(is_relative, path.child("path"), source.path, "must be an absolute path")


def _validate_quobyte(source: vs.QuobyteVolumeSource, path: Path) -> Errors:
    errors = []
    pair = "must be a host:port pair or multiple pairs separated by commas"
    if not source.registry:
        errors.append(field_errors.required(path.child("registry"), pair))
    elif len(source.tenant) >= 65:
        detail = "must be a UUID and may not exceed a length of 64 characters"
        errors.append(field_errors.required(path.child("tenant"), detail))
    else:
        wrong = (item for item in source.registry.split(",") if not _HOST_AND_PORT.fullmatch(item))
        errors += [field_errors.invalid(path.child("registry"), source.registry, pair) for _ in wrong]
    return errors + checks.require_fields(source, path, "volume")


def _validate_flocker(source: vs.FlockerVolumeSource, path: Path) -> Errors:
    name, uuid = source.dataset_name, source.dataset_uuid
    errors = checks.require(name or uuid, path, "one of datasetName and datasetUUID is required")
    detail = "datasetName and datasetUUID can not be specified simultaneously"
    errors += checks.invalid_if(name and uuid, path, "resource", detail)
    return errors + checks.invalid_if("/" in name, path.child("datasetName"), name, "must not contain '/'")


def _validate_flex(source: vs.FlexVolumeSource | vs.FlexPersistentVolumeSource, path: Path) -> Errors:
    """Return an error for each flexVolume option whose key is in a domain reserved by Kubernetes."""
    return [
        field_errors.invalid(path.child("options").key(key), key, "kubernetes.io and k8s.io namespaces are reserved")
        for key in source.options
        if f".{key.partition('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io"))
    ]


def _validate_azure_disk(source: vs.AzureDiskVolumeSource, path: Path) -> Errors:
    modes, kinds = ("None", "ReadOnly", "ReadWrite"), ("Dedicated", "Managed", "Shared")
    errors = checks.optional_one_of(source.caching_mode, modes, path.child("cachingMode"))
    errors += checks.optional_one_of(source.kind, kinds, path.child("kind"))
    managed = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
    blob = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
    here = path.child("diskURI")
    if source.kind == "Managed" and not source.disk_uri.startswith("/subscriptions/"):
        errors.append(field_errors.not_supported(here, source.disk_uri, [managed]))
    if source.kind not in (None, "Managed") and not source.disk_uri.startswith("https://"):
        errors.append(field_errors.not_supported(here, source.disk_uri, [blob]))
    return errors


def _validate_secret(source: Any, path: Path) -> Errors:
    secret = source.secret_ref
    wanted = ("name", "namespace") if hasattr(secret, "namespace") else ("name",)
    return checks.require_fields(secret, path.child("secretRef"), *wanted)


def _validate_storage_os(source: vs.StorageOSVolumeSource | vs.StorageOSPersistentVolumeSource, path: Path) -> Errors:
    errors: Errors = []
    for name, value in checks.select_fields(source, "volumeName", "volumeNamespace"):
        errors += checks.optional_name(value or None, path.child(name), names.dns1123_label)
    return errors + _validate_secret(source, path)


_REQUIRED = {
    "awsElasticBlockStore": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "azureFile": ("secretName", "shareName"),
    "cephfs": ("monitors",),
    "cinder": ("volumeID",),
    "configMap": ("name",),
    "flexVolume": ("driver",),
    "gcePersistentDisk": ("pdName",),
    "gitRepo": ("repository",),
    "glusterfs": ("endpoints", "path"),
    "hostPath": ("path",),
    "iscsi": ("targetPortal", "iqn"),
    "local": ("path",),
    "nfs": ("server", "path"),
    "persistentVolumeClaim": ("claimName",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "rbd": ("monitors", "image"),
    "scaleIO": ("gateway", "system", "volumeName"),
    "secret": ("secretName",),
    "storageos": ("volumeName",),
    "vsphereVolume": ("volumePath",),
}
"""The fields that a volume source requires."""
_RULES: dict[str, Callable[[Any, Path], Errors]] = {
    "awsElasticBlockStore": _validate_partition,
    "azureDisk": _validate_azure_disk,
    "cinder": _validate_secret,
    "fc": _validate_fc,
    "flexVolume": _validate_flex,
    "flocker": _validate_flocker,
    "gcePersistentDisk": _validate_partition,
    "hostPath": _validate_host_path,
    "iscsi": _validate_iscsi,
    "nfs": _validate_nfs,
    "quobyte": _validate_quobyte,
    "storageos": _validate_storage_os,
}
"""The rules that pods and PersistentVolumes share, by the name of the source."""
OWN_NAMES = {"gcePersistentDisk": "persistentDisk"}
"""Names of volume sources in the paths of their own errors, where Kubernetes uses another name than the field's."""
SURPLUS_NAMES = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Names of volume sources in the path of the error for a second source, where Kubernetes uses another name."""


def validate_source(name: str, source: Any, path: Path) -> Errors:
    """Return the errors of a volume source of a pod or PersistentVolume; `name` is its field, such as `nfs`."""
    errors = checks.require_fields(source, path, *_REQUIRED.get(name, ()))
    return errors + _RULES[name](source, path) if name in _RULES else errors


def forbid_other_fields(source: Object, allowed: tuple[str, ...], path: Path, detail: str) -> Errors:
    """Return a `Forbidden` error for each field that is set and not among the `allowed` attributes."""
    blank = type(source)()
    return [
        field_errors.forbidden(path.child("uID" if name == "uid" else name), detail)  # as Kubernetes writes the name
        for attribute, name in zip(source.__struct_fields__, source.__struct_encode_fields__, strict=True)
        if attribute not in allowed and getattr(source, attribute) != getattr(blank, attribute)
    ]


def validate_file_mode(mode: int | None, path: Path) -> Errors:
    return [] if mode is None or 0 <= mode <= 0o777 else [field_errors.invalid(path, mode, FILE_MODE)]


def validate_pull_policy(policy: str, path: Path) -> Errors:
    return checks.require_one_of(policy, PULL_POLICIES, path)


def forbid_backsteps(target: str, path: Path) -> Errors:
    """Return an error for a file path with an element `..`."""
    return [field_errors.invalid(path, target, "must not contain '..'")] if ".." in target.split("/") else []


def validate_local_path(target: str, path: Path) -> Errors:
    """Return errors for a file path that is absolute or has an element `..`."""
    absolute = [field_errors.invalid(path, target, "must be a relative path")] if target.startswith("/") else []
    return absolute + forbid_backsteps(target, path)


def validate_non_reserved_path(target: str, path: Path) -> Errors:
    """Return errors for a file path that is absolute, has an element `..` or starts with `..` (reserved names)."""
    errors = validate_local_path(target, path)
    if target.startswith("..") and not target.startswith("../"):
        errors.append(field_errors.invalid(path, target, "must not start with '..'"))
    return errors
