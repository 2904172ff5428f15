"""Validate `metadata` with Kubernetes' messages. Used by all strategies.

`name_check` is the syntax of a kind's names; ``names.dns1123_subdomain`` suits most kinds.
"""

from collections.abc import Callable
from operator import attrgetter

from mooring.api import field_errors, names
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.meta_v1 import ManagedFieldsEntry, ObjectMeta, OwnerReference

METADATA = Path("metadata")
IMMUTABLE = "field is immutable"
MAX_ANNOTATIONS_BYTES = 256 * 1024
STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
_MAX_SUBRESOURCE_BYTES = 256
_MAX_MANAGER_BYTES = 128

_FIXED = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_get_immutable_fields = attrgetter(
    "name", "namespace", "uid", "creation_timestamp", "deletion_timestamp", "deletion_grace_period_seconds"
)
"""Return the values of the metadata fields named in `_FIXED`, which no update may change, as a tuple."""

NameCheck = Callable[[str], names.Messages]


def validate_object_meta(
    metadata: ObjectMeta,
    *,
    namespaced: bool = True,
    name_check: NameCheck = names.dns1123_subdomain,
    path: Path = METADATA,
    any_finalizer: bool = False,
) -> Errors:
    """Return the errors in a new object's metadata. `any_finalizer` allows finalizers without a domain."""
    errors: Errors = []
    if metadata.generate_name:
        generated = names.as_generated_name(metadata.generate_name)
        errors += names.validate(path.child("generateName"), metadata.generate_name, name_check(generated))
    if not metadata.name:
        errors.append(field_errors.required(path.child("name"), "name or generateName is required"))
    elif wrong := name_check(metadata.name):
        errors += names.validate(path.child("name"), metadata.name, wrong)
    errors += _validate_namespace(metadata.namespace, namespaced, path)
    if metadata.generation < 0:
        detail = "must be greater than or equal to 0"
        errors.append(field_errors.invalid(path.child("generation"), metadata.generation, detail))
    errors += _validate_labels_and_owners(metadata, path)
    if metadata.finalizers:
        errors += _validate_finalizers(metadata.finalizers, path.child("finalizers"))
    errors += _validate_managed_fields(metadata.managed_fields, path)
    if metadata.finalizers and not any_finalizer:
        errors += _validate_finalizer_names(metadata.finalizers, path)
    return errors


def validate_object_meta_update(
    new: ObjectMeta, old: ObjectMeta, path: Path = METADATA, *, any_finalizer: bool = False
) -> Errors:
    errors: Errors = []
    if old.deletion_timestamp is not None:
        errors += _validate_new_finalizers(new, old, path)
    if not new.resource_version:
        detail = "must be specified for an update"
        errors.append(field_errors.invalid(path.child("resourceVersion"), new.resource_version, detail))
    if new.generation < old.generation:
        errors.append(field_errors.invalid(path.child("generation"), new.generation, "must not be decremented"))
    now, before = _get_immutable_fields(new), _get_immutable_fields(old)
    if now != before:
        for name, value, was in zip(_FIXED, now, before, strict=True):
            errors += validate_immutable(value, was, path, name)
    errors += _validate_labels_and_owners(new, path)
    if new.finalizers:
        errors += _validate_finalizers(new.finalizers, path.child("finalizers"))
    errors += _validate_managed_fields(new.managed_fields, path)
    if new.finalizers and not any_finalizer:
        errors += _validate_finalizer_names(new.finalizers, path)
    return errors


def validate_immutable(new: object, old: object, path: Path, name: str) -> Errors:
    """Return an error at the field `name` below `path` if the value differs from the old one, else none."""
    return [] if new == old else [field_errors.invalid(path.child(name), new, IMMUTABLE)]


def validate_annotations(annotations: dict[str, str], path: Path, *, need_domain: bool = False) -> Errors:
    errors: Errors = []
    size = 0
    for key, value in annotations.items():
        if need_domain and not key:
            errors.append(field_errors.required(path))
        elif wrong := names.label_key(key.lower()):
            errors += names.validate(path, key.lower() if need_domain else key, wrong)
        elif need_domain and "/" not in key:
            detail = 'must be a domain-prefixed key (such as "acme.io/foo")'
            errors.append(field_errors.invalid(path, key.lower(), detail))
        size += len(key.encode(errors="surrogatepass")) + len(value.encode(errors="surrogatepass"))
    if size > MAX_ANNOTATIONS_BYTES:
        errors.append(field_errors.too_long(path, MAX_ANNOTATIONS_BYTES))
    return errors


def _validate_namespace(namespace: str, namespaced: bool, path: Path) -> Errors:
    if not namespaced:
        return [field_errors.forbidden(path.child("namespace"), "not allowed on this type")] if namespace else []
    if not namespace:
        return [field_errors.required(path.child("namespace"))]
    wrong = names.dns1123_label(namespace)
    return names.validate(path.child("namespace"), namespace, wrong) if wrong else []


def _validate_labels_and_owners(metadata: ObjectMeta, path: Path) -> Errors:
    errors: Errors = []
    if metadata.labels and not names.are_cached_labels(metadata.labels):
        errors += names.validate_labels(metadata.labels, path.child("labels"))
    if metadata.annotations:
        errors += validate_annotations(metadata.annotations, path.child("annotations"))
    if metadata.owner_references:
        errors += _validate_owner_references(metadata.owner_references, path.child("ownerReferences"))
    return errors


def _validate_owner_references(references: list[OwnerReference], path: Path) -> Errors:
    errors: Errors = []
    controller = ""
    for reference in references:
        errors += _validate_owner_reference(reference, path)
        if reference.controller:
            if controller:
                detail = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {reference.name}"
                )
                errors.append(field_errors.invalid(path, references, detail))
            controller = controller or reference.name
    return errors


def _validate_owner_reference(reference: OwnerReference, path: Path) -> Errors:
    errors = []
    group, _, version = reference.api_version.rpartition("/")
    if not version or "/" in group:
        detail = "version must not be empty"
        errors.append(field_errors.invalid(path.child("apiVersion"), reference.api_version, detail))
    for name, value in (("kind", reference.kind), ("name", reference.name), ("uid", reference.uid)):
        if not value:
            errors.append(field_errors.invalid(path.child(name), value, "must not be empty"))
    if reference.kind == "Event" and reference.api_version == "v1":
        errors.append(field_errors.invalid(path, reference, "/v1, Kind=Event is disallowed from being an owner"))
    return errors


def _validate_finalizers(finalizers: list[str], path: Path) -> Errors:
    errors: Errors = []
    for finalizer in finalizers:
        errors += names.validate(path, finalizer, names.label_key(finalizer))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(field_errors.invalid(path, finalizers, detail))
    return errors


def _validate_finalizer_names(finalizers: list[str], path: Path) -> Errors:
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        field_errors.invalid(path.child("finalizers").index(index), name, detail)
        for index, name in enumerate(finalizers)
        if "/" not in name and name not in STANDARD_FINALIZERS
    ]


def _validate_new_finalizers(new: ObjectMeta, old: ObjectMeta, path: Path) -> Errors:
    extra = sorted(set(new.finalizers) - set(old.finalizers))
    if not extra:
        return []
    shown = ", ".join(f'"{name}"' for name in extra)
    detail = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
    return [field_errors.forbidden(path.child("finalizers"), detail)]


def _validate_managed_fields(entries: list[ManagedFieldsEntry], path: Path) -> Errors:
    errors: Errors = []
    for index, entry in enumerate(entries):
        if _is_valid_managed_fields_entry(entry):
            continue
        here = path.child("managedFields").index(index)
        if entry.operation not in ("Apply", "Update"):
            errors.append(field_errors.invalid(here.child("operation"), entry.operation, "must be `Apply` or `Update`"))
        if entry.fields_type and entry.fields_type != "FieldsV1":
            errors.append(field_errors.invalid(here.child("fieldsType"), entry.fields_type, "must be `FieldsV1`"))
        if len(entry.manager.encode(errors="surrogatepass")) > _MAX_MANAGER_BYTES:
            errors.append(field_errors.too_long(here.child("manager"), _MAX_MANAGER_BYTES))
        if len(entry.subresource.encode(errors="surrogatepass")) > _MAX_SUBRESOURCE_BYTES:
            errors.append(field_errors.too_long(here.child("subresource"), _MAX_SUBRESOURCE_BYTES))
    return errors


def _is_valid_managed_fields_entry(entry: ManagedFieldsEntry) -> bool:
    return (
        entry.operation in ("Apply", "Update")
        and entry.fields_type in ("", "FieldsV1")
        and 4 * len(entry.manager) <= _MAX_MANAGER_BYTES
        and 4 * len(entry.subresource) <= _MAX_SUBRESOURCE_BYTES
    )
