"""Validate the spec of a CustomResourceDefinition with Kubernetes' messages.

Kubernetes validates an older form, in which common parts stand above the versions. So errors name `spec.validation` if
every version has the same schema and `spec.versions[i].schema` otherwise; likewise subresources, columns and selectable
fields. `_SharedSettings` is that form.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import structs

from mooring.admission import checks
from mooring.admission.definitions import schemas
from mooring.admission.definitions.field_paths import FieldPathError, find_schema_at_path
from mooring.admission.options import CustomOptions
from mooring.admission.webhook_clients import validate_client_config, validate_review_versions
from mooring.api import advisor_v1, field_errors, names
from mooring.api import apiextensions_v1 as v1
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.kinds import KINDS
from mooring.api.quoting import go_quote

SPEC, STATUS = Path("spec"), Path("status")
APPROVED = "api-approved.kubernetes.io"
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_MAX_SELECTABLE = 8
MAX_VERSIONS = 100
"""The maximum number of versions: each costs the server up to a millisecond and half a megabyte."""
_BUILT_IN_GROUPS = frozenset(kind.group for kind in (*KINDS, *advisor_v1.KINDS))
_MAX_WARNING = 256
T = TypeVar("T")


class _SharedSettings(msgspec.Struct):
    """A definition's schema, subresources, columns and selectable fields that are equal in all versions, else None."""

    schema: v1.JSONSchemaProps | None
    subresources: v1.CustomResourceSubresources | None
    columns: list[v1.CustomResourceColumnDefinition] | None
    selectable: list[v1.SelectableField] | None


def validate(
    obj: v1.CustomResourceDefinition, old: v1.CustomResourceDefinition | None, options: CustomOptions
) -> Errors:
    spec = obj.spec
    shared = _find_shared_settings(spec.versions)
    validator = schemas.SchemaValidator.for_change(spec, old.spec if old else None, options)
    errors = _validate_group(spec.group, is_new=old is None)
    errors += checks.require_one_of(spec.scope, ("Cluster", "Namespaced"), SPEC.child("scope"))
    if len(spec.versions) > MAX_VERSIONS:
        return [*errors, field_errors.too_many(SPEC.child("versions"), len(spec.versions), MAX_VERSIONS)]
    errors += [
        field_errors.required(SPEC.child("versions").index(index).child("schema", "openAPIV3Schema"))
        for index, version in enumerate(spec.versions)
        if _get_schema(version) is None
    ]
    errors += checks.validate_items(spec.versions, SPEC.child("versions"), _validate_version, shared, validator)
    errors += _validate_versions_together(spec.versions, shared)
    errors += checks.require_fields(spec.names, SPEC.child("names"), "plural", "singular", "kind", "listKind")
    errors += validate_names(spec.names, SPEC.child("names"))
    errors += _validate_shared_settings(spec, shared, validator)
    errors += _validate_conversion(spec, established=old is not None and v1.holds(old, v1.ESTABLISHED))
    fixed = ("spec.scope", "spec.names.kind") if old is not None and v1.holds(old, v1.ESTABLISHED) else ()
    return errors + checks.forbid_changes(obj, old, *fixed, "spec.group", "spec.names.plural")


def _find_shared_settings(versions: list[v1.CustomResourceDefinitionVersion]) -> _SharedSettings:
    def find_common_value(get: Callable[[v1.CustomResourceDefinitionVersion], T]) -> T | None:
        if not versions:
            return None
        first = get(versions[0])
        return first if all(get(version) == first for version in versions[1:]) else None

    return _SharedSettings(
        find_common_value(_get_schema),
        find_common_value(lambda version: version.subresources),
        find_common_value(lambda version: version.additional_printer_columns) or None,
        find_common_value(lambda version: version.selectable_fields) or None,
    )


def _get_schema(version: v1.CustomResourceDefinitionVersion) -> v1.JSONSchemaProps | None:
    return version.schema.open_api_v3_schema if version.schema else None


def _validate_group(group: str, *, is_new: bool) -> Errors:
    path = SPEC.child("group")
    if not group:
        return [field_errors.required(path)]
    if wrong := names.dns1123_subdomain(group):
        return [field_errors.invalid(path, group, ",".join(wrong))]
    if "." not in group:
        return [field_errors.invalid(path, group, "should be a domain with at least one dot")]
    if is_new and group in _BUILT_IN_GROUPS:
        return [field_errors.invalid(path, group, "is served by this server itself: choose a group of your own")]
    return []


def _validate_version(
    version: v1.CustomResourceDefinitionVersion, path: Path, shared: _SharedSettings, validator: schemas.SchemaValidator
) -> Errors:
    errors: Errors = []
    if wrong := names.dns1035_label(version.name):
        errors.append(field_errors.invalid(path.child("name"), version.name, ",".join(wrong)))
    warning = path.child("deprecationWarning")
    errors += [
        field_errors.invalid(warning, version.deprecation_warning, why) for why in _find_deprecation_problems(version)
    ]
    schema = _get_schema(version)
    if schema is not None and shared.schema is None:
        errors += validator.validate_schema(
            schema, path.child("schema"), version.name, has_status=has_status(version.subresources)
        )
    if version.subresources is not None and shared.subresources is None:
        errors += _validate_subresources(version.subresources, path.child("subresources"))
    if shared.columns is None:
        errors += _validate_columns(version.additional_printer_columns, path.child("additionalPrinterColumns"))
    if shared.selectable is None and schema is None and version.selectable_fields:
        detail = "may only be set when `version.schema.openAPIV3Schema` is not included"
        errors.append(field_errors.invalid(path.child("selectableFields"), "", detail))
    if shared.selectable is None and schema is not None:
        errors += _validate_selectable_fields(version.selectable_fields, schema, path.child("selectableFields"))
    return errors


def has_status(subresources: v1.CustomResourceSubresources | None) -> bool:
    return subresources is not None and subresources.status is not None


def _find_deprecation_problems(version: v1.CustomResourceDefinitionVersion) -> list[str]:
    text = version.deprecation_warning
    if text is None:
        return []
    if not version.deprecated:
        return ["can only be set for deprecated versions"]
    problems = []
    if len(text.encode()) > _MAX_WARNING:
        problems.append(f"must be <= {_MAX_WARNING} characters long")
    if not text:
        problems.append("must not be an empty string")
    at = next((index for index, char in enumerate(text) if not char.isprintable()), None)
    if at is not None:
        what = "must only contain printable UTF-8 characters; non-printable character found at index"
        problems.append(f"{what} {at}")
    return problems


def _validate_versions_together(versions: list[v1.CustomResourceDefinitionVersion], shared: _SharedSettings) -> Errors:
    path = SPEC.child("versions")
    shown = [_copy_without_shared_settings(version, shared) for version in versions]
    errors = []
    if len({version.name for version in versions}) < len(versions):
        errors.append(field_errors.invalid(path, shown, "must contain unique version names"))
    if sum(version.storage for version in versions) != 1:
        errors.append(field_errors.invalid(path, shown, "must have exactly one version marked as storage version"))
    if versions and versions[0].name and (wrong := names.dns1035_label(versions[0].name)):
        errors.append(field_errors.invalid(SPEC.child("version"), versions[0].name, ",".join(wrong)))
    return errors


def _copy_without_shared_settings(
    version: v1.CustomResourceDefinitionVersion, shared: _SharedSettings
) -> v1.CustomResourceDefinitionVersion:
    return structs.replace(
        version,
        schema=None if shared.schema else version.schema,
        subresources=None if shared.subresources else version.subresources,
        additional_printer_columns=[] if shared.columns else version.additional_printer_columns,
        selectable_fields=[] if shared.selectable else version.selectable_fields,
    )


def _validate_shared_settings(
    spec: v1.CustomResourceDefinitionSpec, shared: _SharedSettings, validator: schemas.SchemaValidator
) -> Errors:
    errors: Errors = []
    if shared.schema is not None:
        any_status = any(has_status(version.subresources) for version in spec.versions)
        first = spec.versions[0].name
        errors += validator.validate_schema(shared.schema, SPEC.child("validation"), first, has_status=any_status)
    errors += checks.optional(shared.subresources, SPEC.child("subresources"), _validate_subresources)
    errors += _validate_columns(shared.columns or [], SPEC.child("additionalPrinterColumns"))
    if shared.selectable and shared.schema is None:
        detail = "may only be set when validations.schema is included"
        errors.append(field_errors.invalid(SPEC.child("selectableFields"), "", detail))
    elif shared.selectable is not None and shared.schema is not None:
        errors += _validate_selectable_fields(shared.selectable, shared.schema, SPEC.child("selectableFields"))
    return errors


def validate_stored_versions(obj: v1.CustomResourceDefinition) -> Errors:
    path, stored = STATUS.child("storedVersions"), obj.status.stored_versions
    if not stored:
        return [field_errors.invalid(path, None, "must have at least one stored version")]
    left, errors = list(stored), Errors()
    for version in obj.spec.versions:
        if version.storage and version.name in left:
            left.remove(version.name)
        elif version.storage:
            errors.append(field_errors.invalid(path, stored, f"must have the storage version {version.name}"))
    known = {version.name for version in obj.spec.versions}
    for index, name in enumerate(stored):
        if name not in known:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions"
                f" until a storage migration ensures no data remains persisted in {name} and removes {name} from"
                " status.storedVersions"
            )
            errors.append(field_errors.invalid(path.index(index), name, detail))
    return errors


def validate_names(named: v1.CustomResourceDefinitionNames, path: Path) -> Errors:
    errors: Errors = []
    for name, value in checks.select_fields(named, "plural", "singular"):
        if value and (wrong := names.dns1035_label(value)):
            errors.append(field_errors.invalid(path.child(name), value, ",".join(wrong)))
    for name, value in checks.select_fields(named, "kind", "listKind"):
        if value and (wrong := names.dns1035_label(value.lower())):
            detail = "may have mixed case, but should otherwise match: " + ",".join(wrong)
            errors.append(field_errors.invalid(path.child(name), value, detail))
    errors += _validate_dns_labels(named.short_names, path.child("shortNames"))
    detail = "kind and listKind may not be the same"
    errors += checks.invalid_if(
        named.kind and named.kind == named.list_kind, path.child("listKind"), named.list_kind, detail
    )
    return errors + _validate_dns_labels(named.categories, path.child("categories"))


def _validate_dns_labels(values: Iterable[str], path: Path) -> Errors:
    return [
        field_errors.invalid(path.index(index), value, ",".join(wrong))
        for index, value in enumerate(values)
        if (wrong := names.dns1035_label(value))
    ]


def validate_approval(obj: v1.CustomResourceDefinition, old: v1.CustomResourceDefinition | None) -> Errors:
    if not obj.spec.group.endswith((".k8s.io", ".kubernetes.io")) and obj.spec.group not in {"k8s.io", "kubernetes.io"}:
        return []
    state = _get_approval_state(obj)
    if state in {"approved", "bypassed"} or (old is not None and _get_approval_state(old) == state):
        return []
    path = Path("metadata.annotations").key(APPROVED)
    why = "see https://github.com/kubernetes/enhancements/pull/1111"
    begin = f"protected groups must have approval annotation {go_quote(APPROVED)}"
    if state == "missing":
        return [field_errors.required(path, f"{begin}, {why}")]
    detail = f'{begin} with either a URL or a reason starting with "unapproved", {why}'
    return [field_errors.invalid(path, obj.metadata.annotations.get(APPROVED, ""), detail)]


def _get_approval_state(obj: v1.CustomResourceDefinition) -> str:
    text = obj.metadata.annotations.get(APPROVED, "")
    if not text:
        return "missing"
    if text.startswith("unapproved"):
        return "bypassed"
    try:
        parts = urlsplit(text)
    except ValueError:
        return "invalid"
    return "approved" if parts.scheme and parts.netloc else "invalid"


def _validate_subresources(subresources: v1.CustomResourceSubresources, path: Path) -> Errors:
    scale = subresources.scale
    if scale is None:
        return []
    errors: Errors = []
    for name, value, roots, place in (
        ("specReplicasPath", scale.spec_replicas_path, (".spec.",), ".spec"),
        ("statusReplicasPath", scale.status_replicas_path, (".status.",), ".status"),
        ("labelSelectorPath", scale.label_selector_path or "", (".spec.", ".status."), "either .spec or .status"),
    ):
        here = path.child(f"scale.{name}")
        if not value:
            errors += [] if name == "labelSelectorPath" else [field_errors.required(here)]
        elif wrong := _validate_leading_dot(value, here):
            errors += wrong
        elif not value.startswith(roots):
            errors.append(field_errors.invalid(here, value, f"should be a json path under {place}"))
    return errors


def _validate_leading_dot(value: str, path: Path) -> Errors:
    is_other = not value.startswith(".")
    return checks.invalid_if(is_other, path, value, "must be a simple json path starting with .")


def _validate_columns(columns: list[v1.CustomResourceColumnDefinition], path: Path) -> Errors:
    errors: Errors = []
    for index, column in enumerate(columns):
        here = path.index(index)
        errors += checks.require(column.name, here.child("name"))
        kinds, formats = (f"must be one of {','.join(each)}" for each in (_COLUMN_TYPES, _COLUMN_FORMATS))
        is_unknown = column.type and column.type not in _COLUMN_TYPES
        errors += checks.require(column.type, here.child("type"), kinds)
        errors += checks.invalid_if(is_unknown, here.child("type"), column.type, kinds)
        is_unknown = column.format and column.format not in _COLUMN_FORMATS
        errors += checks.invalid_if(is_unknown, here.child("format"), column.format, formats)
        errors += checks.require(column.json_path, here.child("JSONPath"))
        errors += checks.optional(column.json_path or None, here.child("JSONPath"), _validate_leading_dot)
    return errors


def _validate_selectable_fields(fields: list[v1.SelectableField], schema: v1.JSONSchemaProps, path: Path) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, each in enumerate(fields):
        here = path.index(index).child("jsonPath")
        if not each.json_path:
            errors.append(field_errors.required(here))
            continue
        try:
            place, found = find_schema_at_path(each.json_path, schema, arrays=False)
        except FieldPathError as error:
            errors.append(field_errors.invalid(here, each.json_path, f"is an invalid path: {error}"))
            continue
        if place.split(".")[0] == "metadata":
            errors.append(field_errors.invalid(here, each.json_path, "must not point to fields in metadata"))
        if found is None or found.type not in {"string", "boolean", "integer"}:
            detail = (
                "must point to a field of type string, boolean or integer."
                " Enum string fields and strings with formats are allowed."
            )
            errors.append(field_errors.invalid(here, each.json_path, detail))
        if place in seen:
            errors.append(field_errors.duplicate(here, each.json_path))
        seen.add(place)
    return errors + checks.limit_items(seen, _MAX_SELECTABLE, path)


def _validate_conversion(spec: v1.CustomResourceDefinitionSpec, *, established: bool) -> Errors:
    conversion, path, errors = spec.conversion, SPEC.child("conversion"), Errors()
    if conversion is None:
        return []
    if spec.preserve_unknown_fields and conversion.strategy != "None":
        detail = "must be None if spec.preserveUnknownFields is true"
        errors.append(field_errors.invalid(path.child("strategy"), conversion.strategy, detail))
    errors += checks.require_one_of(conversion.strategy, ("None", "Webhook"), path.child("strategy"))
    webhook = conversion.webhook
    config = webhook.client_config if webhook else None
    reviews = webhook.conversion_review_versions if webhook else []
    place, versions_place = path.child("webhookClientConfig"), path.child("conversionReviewVersions")
    if conversion.strategy != "Webhook":
        detail = "should not be set when strategy is not set to Webhook"
        errors += [field_errors.forbidden(place, detail)] if config else []
        return errors + ([field_errors.forbidden(versions_place, detail)] if reviews else [])
    if config is None:
        errors.append(field_errors.required(place, "required when strategy is set to Webhook"))
    else:
        errors += validate_client_config(config, place)
        if config.ca_bundle and established:
            errors += _validate_ca_bundle(config.ca_bundle, place.child("caBundle"))
    if not reviews:
        return [*errors, field_errors.required(versions_place)]
    return errors + validate_review_versions(reviews, versions_place)


def _validate_ca_bundle(bundle: bytes, path: Path) -> Errors:
    from cryptography import x509  # noqa: PLC0415 - few definitions have a webhook

    try:
        x509.load_pem_x509_certificates(bundle)
    except ValueError as error:
        shown = bundle.decode(errors="replace")
        return [field_errors.invalid(path, shown, f"unable to load root certificates: {error}")]
    return []
