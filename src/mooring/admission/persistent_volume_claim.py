"""PersistentVolumeClaims: the request may grow once the claim is bound; the rest of the spec is immutable.

`validate_claim_spec` is also used for claims embedded in pods.
"""

from mooring.admission import checks, limit_range
from mooring.admission.meta import IMMUTABLE
from mooring.admission.persistent_volume import validate_access_modes, validate_class_name, validate_volume_mode
from mooring.admission.pod.defaults import round_to_milli
from mooring.admission.pod.warnings import find_fraction_warnings
from mooring.admission.strategy import Request, Strategy
from mooring.api import errors as api_errors
from mooring.api import field_errors, label_selector, names
from mooring.api.base import copy_of
from mooring.api.core_v1 import PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus
from mooring.api.core_v1.references import TypedLocalObjectReference, TypedObjectReference
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.quantity import Quantity
from mooring.constraints.requests import is_native

PROTECTION = "kubernetes.io/pvc-protection"
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_SPEC = Path("spec")
_RESIZES = (
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
)
_SOURCES = {("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")}
_STORAGE = Path("spec.resources.requests.storage")
_NOTHING = Quantity(0)
_SPEC_IS_IMMUTABLE = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


class PersistentVolumeClaimStrategy(Strategy[PersistentVolumeClaim]):
    has_generation = False

    def default(self, obj: PersistentVolumeClaim) -> None:
        default_claim(obj)

    def mutate(self, obj: PersistentVolumeClaim, old: PersistentVolumeClaim | None, request: Request) -> None:
        """Set a new claim's StorageClass, if it has none, to the default; add the finalizer `pvc-protection`."""
        if old is not None:
            return
        if obj.spec.storage_class_name is None and CLASS_ANNOTATION not in obj.metadata.annotations:
            obj.spec.storage_class_name = request.lookups.default_storage_class()
        if PROTECTION not in obj.metadata.finalizers:
            obj.metadata.finalizers.append(PROTECTION)

    def prepare_for_create(self, obj: PersistentVolumeClaim, request: Request) -> None:
        obj.status = PersistentVolumeClaimStatus(phase="Pending")
        _drop_unsupported_data_source(obj.spec)
        normalize_data_sources(obj.spec)

    def prepare_for_update(self, new: PersistentVolumeClaim, old: PersistentVolumeClaim, request: Request) -> None:
        super().prepare_for_update(new, old, request)
        if old.spec.data_source is None:
            _drop_unsupported_data_source(new.spec)
        normalize_data_sources(new.spec)

    def validate(self, obj: PersistentVolumeClaim, old: PersistentVolumeClaim | None, request: Request) -> Errors:
        errors = validate_claim_spec(obj.spec, _SPEC)
        return errors if old is None else errors + _validate_immutable_claim_fields(obj, old)

    def validate_status(self, new: PersistentVolumeClaim, old: PersistentVolumeClaim, request: Request) -> Errors:
        errors = checks.require(new.spec.access_modes, Path("Spec.accessModes"))
        for name, quantity in new.status.capacity.items():
            errors += checks.non_negative_quantity(quantity, Path("status.capacity").key(name))
        for field, given in checks.select_fields(new.status, "allocatedResourceStatuses", "allocatedResources"):
            here = Path("status").child(field)
            for name in given:
                if wrong := names.label_key(name):
                    errors += names.validate(here, name, wrong)
                elif name != "storage" and is_native(name):
                    errors.append(field_errors.not_supported(here, name, ("storage",)))
                if field == "allocatedResourceStatuses" and given[name] not in _RESIZES:
                    errors.append(field_errors.not_supported(here, name, _RESIZES))
        return errors

    def warnings(self, new: PersistentVolumeClaim, old: PersistentVolumeClaim | None, request: Request) -> list[str]:
        found = [*find_fraction_warnings(new.spec.resources, _SPEC, "storage")]
        if CLASS_ANNOTATION in new.metadata.annotations:
            use = 'deprecated since v1.8; use "storageClassName" attribute instead'
            found.insert(0, f"metadata.annotations[{CLASS_ANNOTATION}]: {use}")
        return found

    def admit(self, new: PersistentVolumeClaim, old: PersistentVolumeClaim | None, request: Request) -> None:
        if old is not None:
            _forbid_expansion(new, old, request)
        if old is None or old.metadata.deletion_timestamp is None:
            limit_range.check_claim(new, request)


def default_claim(claim: PersistentVolumeClaim) -> None:
    """Set the defaults of a PersistentVolumeClaim, or of a StatefulSet's claim template, in place."""
    claim.status.phase = claim.status.phase or "Pending"
    claim.spec.volume_mode = claim.spec.volume_mode or "Filesystem"
    round_to_milli(claim.spec.resources.limits)
    round_to_milli(claim.spec.resources.requests)
    round_to_milli(claim.status.capacity)


def _drop_unsupported_data_source(spec: PersistentVolumeClaimSpec) -> None:
    """Clear `dataSource` if it is neither a claim nor a snapshot and `dataSourceRef` is not set, as Kubernetes does."""
    source = spec.data_source
    if source is not None and spec.data_source_ref is None and (source.api_group or "", source.kind) not in _SOURCES:
        spec.data_source = None


def normalize_data_sources(spec: PersistentVolumeClaimSpec) -> None:
    """If only one of `dataSource` and `dataSourceRef` is set, copy it to the other, unless it names a namespace."""
    source, reference = spec.data_source, spec.data_source_ref
    if source is not None and reference is None:
        spec.data_source_ref = TypedObjectReference(api_group=source.api_group, kind=source.kind, name=source.name)
    elif reference is not None and source is None and not reference.namespace:
        spec.data_source = TypedLocalObjectReference(
            api_group=reference.api_group, kind=reference.kind, name=reference.name
        )


def validate_claim_spec(spec: PersistentVolumeClaimSpec, path: Path) -> Errors:
    modes = validate_access_modes(spec.access_modes, path.child("accessModes"), "at least 1 access mode is required")
    errors = modes + label_selector.validate(spec.selector, path.child("selector"))
    storage, size = spec.resources.requests.get("storage"), path.child("resources").key("storage")
    errors += checks.require(storage is not None, size)
    if storage is not None and storage.sign() <= 0:
        errors.append(field_errors.invalid(size, str(storage), "must be greater than zero"))
    errors += validate_class_name(spec.storage_class_name, path.child("storageClassName"))
    errors += validate_volume_mode(spec.volume_mode, path.child("volumeMode"))
    errors += _validate_data_sources(spec, path)
    return errors + validate_class_name(spec.volume_attributes_class_name, path.child("volumeAttributesClassName"))


def _validate_data_sources(spec: PersistentVolumeClaimSpec, path: Path) -> Errors:
    source, reference, here = spec.data_source, spec.data_source_ref, path.child("dataSourceRef")
    errors = checks.optional(source, path.child("dataSource"), _validate_data_source)
    errors += checks.optional(reference, here, _validate_data_source)
    if reference is not None:
        errors += checks.optional_name(reference.namespace or None, here.child("namespace"), names.dns1123_label)
    if source is None or reference is None:
        return errors
    if reference.namespace:
        detail = "may not be specified when dataSourceRef.namespace is specified"
        errors.append(field_errors.invalid(path, str(path.child("dataSource")), detail))
    elif (source.api_group, source.kind, source.name) != (reference.api_group, reference.kind, reference.name):
        errors.append(field_errors.invalid(path, str(path.child("dataSource")), "must match dataSourceRef"))
    return errors


def _validate_data_source(source: TypedLocalObjectReference | TypedObjectReference, path: Path) -> Errors:
    errors = checks.require_fields(source, path, "name", "kind")
    detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
    errors += checks.invalid_if(
        not source.api_group and source.kind != "PersistentVolumeClaim", path, source.kind, detail
    )
    return errors + checks.optional_name(source.api_group or None, path.child("apiGroup"), names.dns1123_subdomain)


def _validate_immutable_claim_fields(new: PersistentVolumeClaim, old: PersistentVolumeClaim) -> Errors:
    errors = checks.forbidden_if(
        _without_mutable_fields(new, old) != _without_mutable_fields(old, old), _SPEC, _SPEC_IS_IMMUTABLE
    )
    wanted = _get_requested_storage(new)
    if wanted < _get_requested_storage(old) and wanted <= old.status.capacity.get("storage", _NOTHING):
        errors.append(field_errors.forbidden(_STORAGE, "field can not be less than status.capacity"))
    if new.spec.volume_mode != old.spec.volume_mode:
        errors.append(field_errors.invalid(Path("volumeMode"), new.spec.volume_mode, IMMUTABLE))
    return errors + _validate_attributes_class(new, old)


def _forbid_expansion(new: PersistentVolumeClaim, old: PersistentVolumeClaim, request: Request) -> None:
    if old.status.phase != "Bound" or _get_requested_storage(new) <= _get_requested_storage(old):
        return  # immutable before it is bound
    wanted = _get_storage_class(new)
    if wanted != _get_storage_class(old) or not request.lookups.allows_expansion(wanted):
        why = (
            "only dynamically provisioned pvc can be resized and "
            "the storageclass that provisions the pvc must support resize"
        )
        raise api_errors.forbidden("persistentvolumeclaims", new.metadata.name, why)


def _get_requested_storage(claim: PersistentVolumeClaim) -> Quantity:
    return claim.spec.resources.requests.get("storage", _NOTHING)


def _get_storage_class(claim: PersistentVolumeClaim) -> str:
    return claim.metadata.annotations.get(CLASS_ANNOTATION) or claim.spec.storage_class_name or ""


def _without_mutable_fields(claim: PersistentVolumeClaim, old: PersistentVolumeClaim) -> PersistentVolumeClaimSpec:
    spec = copy_of(claim.spec)
    if claim.status.phase == "Bound":
        spec.volume_attributes_class_name = None
    if not old.spec.volume_name:
        spec.volume_name = ""
    if claim.status.phase == "Bound" and spec.resources.requests:
        spec.resources.requests["storage"] = old.spec.resources.requests.get("storage", _NOTHING)
    if old.spec.storage_class_name is None and CLASS_ANNOTATION not in claim.metadata.annotations:
        spec.storage_class_name = None  # old claims get the default class once there is one
    return spec


def _validate_attributes_class(new: PersistentVolumeClaim, old: PersistentVolumeClaim) -> Errors:
    name = new.spec.volume_attributes_class_name
    if name == old.spec.volume_attributes_class_name or old.status.current_volume_attributes_class_name is None or name:
        return []
    value = "nil" if name is None else "empty string"
    detail = f"update to {value} is forbidden when status.currentVolumeAttributesClassName is not nil"
    return [field_errors.forbidden(Path("spec.volumeAttributesClassName"), detail)]
