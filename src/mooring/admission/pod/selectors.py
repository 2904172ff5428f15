"""Validate references to fields or resources of the pod itself: in environment variables and downward API files."""

import re

from mooring.admission.checks import one_of
from mooring.api import field_errors, names
from mooring.api.core_v1.references import ObjectFieldSelector, ResourceFieldSelector
from mooring.api.field_errors import Errors, FieldError
from mooring.api.field_path import Path

_SUBSCRIPT = re.compile(r"(.*)\['(.*)'\]", re.DOTALL)
_FIELDS = frozenset(
    {
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.schedulerName",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    }
)
_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE_PAGES = ("requests.hugepages-", "limits.hugepages-")
_BYTE_SUFFIXES = ("", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BYTE_DIVISORS = frozenset(f"1{suffix}" for suffix in _BYTE_SUFFIXES)
_DIVISORS = {
    "cpu": (frozenset({"1m", "1"}), "only divisor's values 1m and 1 are supported with the cpu resource"),
    "memory": (_BYTE_DIVISORS, "memory resource"),
    "ephemeral-storage": (_BYTE_DIVISORS, "local ephemeral storage resource"),
    "hugepages": (_BYTE_DIVISORS, "hugepages resource"),
}
_BYTES_DETAIL = "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the "


def validate_field_ref(selector: ObjectFieldSelector, path: Path, supported: tuple[str, ...]) -> Errors:
    for name, value in (("apiVersion", selector.api_version), ("fieldPath", selector.field_path)):
        if not value:
            return [field_errors.required(path.child(name))]
    here, chosen = path.child("fieldPath"), selector.field_path
    if selector.api_version != "v1":
        detail = f"error converting fieldPath: unsupported pod version: {selector.api_version}"
        return [field_errors.invalid(here, chosen, detail)]
    subscripted = _SUBSCRIPT.fullmatch(chosen)
    if subscripted is not None and subscripted[1] in ("metadata.annotations", "metadata.labels"):
        key = subscripted[2].lower() if subscripted[1] == "metadata.annotations" else subscripted[2]
        return names.validate(path, key, names.label_key(key))
    if subscripted is not None:
        return [_not_a_field(here, chosen, f"field label does not support subscript: {chosen}")]
    if chosen not in _FIELDS:
        return [_not_a_field(here, chosen, f"field label not supported: {chosen}")]
    return one_of(chosen, supported, here)


def _not_a_field(path: Path, chosen: str, why: str) -> FieldError:
    return field_errors.invalid(path, chosen, f"error converting fieldPath: {why}")


def validate_resource_field_ref(selector: ResourceFieldSelector, path: Path, *, in_volume: bool) -> Errors:
    errors = []
    if in_volume and not selector.container_name:
        errors.append(field_errors.required(path.child("containerName")))
    elif not selector.resource:
        errors.append(field_errors.required(path.child("resource")))
    elif selector.resource not in _RESOURCES and not selector.resource.startswith(_HUGE_PAGES):
        errors.append(field_errors.not_supported(path.child("resource"), selector.resource, _RESOURCES))
    if not selector.divisor.is_zero():
        kind = selector.resource.partition(".")[2]
        allowed, detail = _DIVISORS.get("hugepages" if kind.startswith("hugepages-") else kind, (None, ""))
        if allowed is not None and str(selector.divisor) not in allowed:
            detail = detail if kind == "cpu" else _BYTES_DETAIL + detail
            errors.append(field_errors.invalid(path.child("divisor"), selector.resource, detail))
    return errors
