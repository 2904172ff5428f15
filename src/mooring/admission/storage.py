"""Validate storage.k8s.io kinds: storage classes, CSI drivers and nodes, attachments and capacities."""

from mooring.admission import checks
from mooring.admission.meta import IMMUTABLE, validate_immutable
from mooring.admission.persistent_volume import build_node_affinity_rules, validate_volume_spec
from mooring.admission.pod.defaults import default_volume_source
from mooring.admission.strategy import Request, Strategy, set_missing
from mooring.admission.volume_sources import validate_csi_driver_name
from mooring.api import field_errors, label_selector, names
from mooring.api import storage_v1 as v1
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

MAX_PARAMETERS = 512
MAX_PARAMETERS_BYTES = 256 * 1024
_RECLAIM_POLICIES = ("Delete", "Retain")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_FS_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_CLASS_PROTECTION = "kubernetes.io/vac-protection"
_LIFECYCLE_MODES = ("Persistent", "Ephemeral")
_MAX_NODE_ID_BYTES = 192
_ONE_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
_SPEC = Path("spec")


def _validate_class_parameters(parameters: dict[str, str], path: Path) -> Errors:
    errors = [field_errors.too_long(path, MAX_PARAMETERS)] if len(parameters) > MAX_PARAMETERS else []
    errors += checks.invalid_if("" in parameters, path, "", "field can not be empty.")
    size = sum(len(f"{key}{value}".encode(errors="surrogatepass")) for key, value in parameters.items())
    if size > MAX_PARAMETERS_BYTES:
        errors.append(field_errors.too_long(path, MAX_PARAMETERS_BYTES))
    return errors


def _forbid_change(name: str, new: object, old: object) -> Errors:
    return [] if new == old else [field_errors.forbidden(Path(name), f"updates to {name} are forbidden.")]


class StorageClassStrategy(Strategy[v1.StorageClass]):
    has_generation = False
    immutable = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")

    def default(self, obj: v1.StorageClass) -> None:
        set_missing(obj, reclaim_policy="Delete", volume_binding_mode="Immediate")

    def validate(self, obj: v1.StorageClass, old: v1.StorageClass | None, request: Request) -> Errors:
        errors = _validate_provisioner(obj.provisioner, Path("provisioner"))
        errors += _validate_class_parameters(obj.parameters, Path("parameters"))
        errors += checks.one_of(obj.reclaim_policy, _RECLAIM_POLICIES, Path("reclaimPolicy"))
        errors += checks.one_of(obj.volume_binding_mode, _BINDING_MODES, Path("volumeBindingMode"))
        return errors + _validate_topologies(obj.allowed_topologies, Path("allowedTopologies"))


def _validate_provisioner(name: str, path: Path) -> Errors:
    return names.validate(path, name, names.label_key(name.lower())) if name else [field_errors.required(path)]


def _validate_topologies(terms: list[v1.TopologySelectorTerm], path: Path) -> Errors:
    errors: Errors = []
    seen: set[frozenset[tuple[str, frozenset[str]]]] = {frozenset()}  # an empty term is refused as a duplicate
    for index, term in enumerate(terms):
        here = path.index(index).child("matchLabelExpressions")
        values: dict[str, frozenset[str]] = {}
        for position, requirement in enumerate(term.match_label_expressions):
            at = here.index(position)
            if requirement.key in values:
                errors.append(field_errors.duplicate(at.child("key"), requirement.key))
            values[requirement.key] = frozenset(requirement.values)
            errors += names.validate_label_key(requirement.key, at.child("key"))
            errors += checks.require(requirement.values, at.child("values"))
            given = checks.UniqueKeys()
            errors += checks.validate_items(requirement.values, at.child("values"), given.add)
        whole = frozenset(values.items())
        if whole in seen:
            errors.append(field_errors.duplicate(here, ""))
        seen.add(whole)
    return errors


class VolumeAttributesClassStrategy(Strategy[v1.VolumeAttributesClass]):
    has_generation = False

    def mutate(self, obj: v1.VolumeAttributesClass, old: v1.VolumeAttributesClass | None, request: Request) -> None:
        """Add to a new class the finalizer that prevents its deletion while a volume uses it."""
        if old is None and _CLASS_PROTECTION not in obj.metadata.finalizers:
            obj.metadata.finalizers.append(_CLASS_PROTECTION)

    def validate(self, obj: v1.VolumeAttributesClass, old: v1.VolumeAttributesClass | None, request: Request) -> Errors:
        errors = _validate_provisioner(obj.driver_name, Path("driverName"))
        if old is not None:
            errors += _forbid_change("driverName", obj.driver_name, old.driver_name)
            errors += _forbid_change("parameters", obj.parameters, old.parameters)
        errors += checks.require(obj.parameters, Path("parameters"), "must contain at least one key/value pair")
        return errors + _validate_class_parameters(obj.parameters, Path("parameters"))


class CSIDriverStrategy(Strategy[v1.CSIDriver]):
    has_generation = False
    allow_unconditional_update = False

    def prepare_for_update(self, new: v1.CSIDriver, old: v1.CSIDriver, request: Request) -> None:
        """Increment the generation if the spec changes. (The generation of a new driver is 0.)"""
        super().prepare_for_update(new, old, request)
        new.metadata.generation = old.metadata.generation + (new.spec != old.spec)

    def default(self, obj: v1.CSIDriver) -> None:
        spec, off = obj.spec, ("pod_info_on_mount", "storage_capacity", "requires_republish", "se_linux_mount")
        set_missing(spec, attach_required=True, fs_group_policy="ReadWriteOnceWithFSType", **dict.fromkeys(off, False))
        set_missing(spec, prevent_pod_scheduling_if_missing=False)  # dropped where it is off
        spec.volume_lifecycle_modes = spec.volume_lifecycle_modes or ["Persistent"]

    def warnings(self, new: v1.CSIDriver, old: v1.CSIDriver | None, request: Request) -> list[str]:
        if not new.spec.token_requests or new.spec.service_account_token_in_secrets is not None:
            return []
        if old is not None and new.spec.token_requests == old.spec.token_requests:
            return []
        text = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true"
        return [f"{text} to prevent possible logging of tokens in volume attributes"]

    def validate(self, obj: v1.CSIDriver, old: v1.CSIDriver | None, request: Request) -> Errors:
        errors = validate_csi_driver_name(obj.metadata.name, Path("name")) if old is None else []
        errors += _validate_driver_spec(obj.spec)
        if old is not None:
            errors += validate_immutable(obj.spec.attach_required, old.spec.attach_required, _SPEC, "attachedRequired")
            modes, before = obj.spec.volume_lifecycle_modes, old.spec.volume_lifecycle_modes
            errors += validate_immutable(modes, before, _SPEC, "volumeLifecycleModes")
        return errors


def _validate_driver_spec(spec: v1.CSIDriverSpec) -> Errors:
    errors = checks.one_of(spec.fs_group_policy, _FS_GROUP_POLICIES, _SPEC.child("fsGroupPolicy"))
    errors += _validate_token_requests(spec.token_requests, _SPEC.child("tokenRequests"))
    here = _SPEC.child("volumeLifecycleModes")
    for mode in spec.volume_lifecycle_modes:
        errors += checks.one_of(mode, _LIFECYCLE_MODES, here)
    period, here = spec.node_allocatable_update_period_seconds, _SPEC.child("nodeAllocatableUpdatePeriodSeconds")
    is_short = period is not None and period < 10
    errors += checks.invalid_if(is_short, here, period, "must be greater than or equal to 10 seconds")
    given, here = spec.service_account_token_in_secrets, _SPEC.child("serviceAccountTokenInSecrets")
    detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
    return errors + checks.invalid_if(given is not None and not spec.token_requests, here, given, detail)


def _validate_token_requests(requests: list[v1.TokenRequest], path: Path) -> Errors:
    errors, audiences = Errors(), checks.UniqueKeys()
    for index, request in enumerate(requests):
        here = path.index(index)
        if repeated := audiences.add(request.audience, here.child("audience")):
            errors += repeated
            continue
        errors += checks.optional(
            request.expiration_seconds, here.child("expirationSeconds"), checks.validate_token_lifetime
        )
    return errors


class CSINodeStrategy(Strategy[v1.CSINode]):
    has_generation = False
    allow_unconditional_update = False

    def validate(self, obj: v1.CSINode, old: v1.CSINode | None, request: Request) -> Errors:
        errors, seen = Errors(), checks.UniqueKeys()
        before = {driver.name: driver for driver in old.spec.drivers} if old is not None else {}
        for index, driver in enumerate(obj.spec.drivers):
            here, known = _SPEC.child("drivers").index(index), before.get(driver.name, driver)
            errors += _validate_node_driver(driver, here) + seen.add(driver.name, here.child("name"))
            is_changed = (known.node_id, known.topology_keys) != (driver.node_id, driver.topology_keys)
            errors += checks.invalid_if(is_changed, here, driver, IMMUTABLE)
        return errors


def _validate_node_driver(driver: v1.CSINodeDriver, path: Path) -> Errors:
    errors = validate_csi_driver_name(driver.name, path.child("name"))
    here = path.child("nodeID")
    errors += checks.require(driver.node_id, here)
    if len(driver.node_id.encode(errors="surrogatepass")) > _MAX_NODE_ID_BYTES:
        errors.append(field_errors.invalid(here, driver.node_id, f"must be {_MAX_NODE_ID_BYTES} characters or less"))
    if driver.allocatable is not None:
        errors += checks.non_negative(driver.allocatable.count, path.child("allocatable", "count"))
    seen = checks.UniqueKeys()
    for key in driver.topology_keys:
        errors += checks.require(key, path)
        errors += seen.add(key, path)
        errors += names.validate(path, key, names.label_key(key))
    return errors


class CSIStorageCapacityStrategy(Strategy[v1.CSIStorageCapacity]):
    has_generation = False
    allow_unconditional_update = False
    immutable = ("nodeTopology", "storageClassName")

    def validate(self, obj: v1.CSIStorageCapacity, old: v1.CSIStorageCapacity | None, request: Request) -> Errors:
        name = obj.storage_class_name
        errors = names.validate(Path("storageClassName"), name, names.dns1123_subdomain(name))
        errors += label_selector.validate(obj.node_topology, Path("nodeTopology"))
        return errors + checks.non_negative_quantity(obj.capacity, Path("capacity"))


class VolumeAttachmentStrategy(Strategy[v1.VolumeAttachment]):
    has_generation = False
    allow_unconditional_update = False
    immutable = ("spec",)

    def default(self, obj: v1.VolumeAttachment) -> None:
        if obj.spec.source.inline_volume_spec is not None:
            default_volume_source(obj.spec.source.inline_volume_spec)

    def validate(self, obj: v1.VolumeAttachment, old: v1.VolumeAttachment | None, request: Request) -> Errors:
        spec = obj.spec
        errors = validate_csi_driver_name(spec.attacher, _SPEC.child("attacher"))
        source, here = spec.source, _SPEC.child("source")
        inline, name = source.inline_volume_spec, source.persistent_volume_name
        if inline is None and name is None:
            errors.append(field_errors.required(here, _ONE_SOURCE))
        elif inline is not None and name is not None:
            errors.append(field_errors.forbidden(here, _ONE_SOURCE))
        elif name == "":
            detail = "must specify non empty persistentVolumeName"
            errors.append(field_errors.required(here.child("persistentVolumeName"), detail))
        elif inline is not None:
            affinity = build_node_affinity_rules(request.options, None)
            errors += validate_volume_spec(inline, here.child("inlineVolumeSpec"), affinity, inline=True)
        errors += checks.optional_name(name, here.child("persistentVolumeName"), names.dns1123_subdomain)
        return errors + checks.optional_name(spec.node_name, _SPEC.child("nodeName"), names.dns1123_subdomain)

    def validate_status(self, new: v1.VolumeAttachment, old: v1.VolumeAttachment, request: Request) -> Errors:
        detail, errors = "must be between 0 and 2147483647, inclusive", Errors()
        for name, failure in checks.select_fields(new.status, "attachError", "detachError"):
            code = failure.error_code if failure is not None else None
            errors += checks.invalid_if((code or 0) < 0, Path("status").child(name, "errorCode"), code, detail)
        return errors
