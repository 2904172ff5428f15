"""Validate ports and environment variables of containers, and references to fields and resources of their pod."""

import re

from mooring.admission import checks
from mooring.admission.options import AdmissionOptions
from mooring.admission.pod.resources import COMPUTE_RESOURCES
from mooring.admission.volume_sources import forbid_backsteps
from mooring.api import core_v1, field_errors, names
from mooring.api.core_v1.references import ObjectFieldSelector, ResourceFieldSelector
from mooring.api.field_errors import Errors, FieldError
from mooring.api.field_path import Path

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_VARIABLE_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_SOURCES = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_ONE_SOURCE = "may not have more than one field specified at a time"


def validate_ports(ports: list[core_v1.ContainerPort], path: Path) -> Errors:
    errors: Errors = []
    taken: set[str] = set()
    for index, port in enumerate(ports):
        here = path.index(index)
        if port.name:
            if wrong := names.port_name(port.name):
                errors += names.validate(here.child("name"), port.name, wrong)
            elif port.name in taken:
                errors.append(field_errors.duplicate(here.child("name"), port.name))
            taken.add(port.name)
        if port.container_port == 0:
            errors.append(field_errors.required(here.child("containerPort")))
        else:
            errors += _validate_port_number(port.container_port, here, "containerPort")
        if port.host_port != 0:
            errors += _validate_port_number(port.host_port, here, "hostPort")
        if not port.protocol:
            errors.append(field_errors.required(here.child("protocol")))
        elif port.protocol not in _PROTOCOLS:
            errors.append(field_errors.not_supported(here.child("protocol"), port.protocol, _PROTOCOLS))
    return errors


def _validate_port_number(number: int, path: Path, name: str) -> Errors:
    return [field_errors.invalid(path.child(name), number, message) for message in names.port_number(number)]


def validate_env(
    variables: list[core_v1.EnvVar], path: Path, options: AdmissionOptions, volumes: dict[str, core_v1.Volume]
) -> Errors:
    errors: Errors = []
    for index, variable in enumerate(variables):
        if not variable.name:
            errors.append(field_errors.required(path.index(index).child("name")))
        elif wrong := _find_name_problems(variable.name, options):
            errors += names.validate(path.index(index).child("name"), variable.name, wrong)
        if variable.value_from is not None:
            here = path.index(index).child("valueFrom")
            errors += _validate_value_from(variable.value_from, bool(variable.value), here, volumes)
    return errors


def validate_env_from(sources: list[core_v1.EnvFromSource], path: Path, options: AdmissionOptions) -> Errors:
    errors: Errors = []
    for index, source in enumerate(sources):
        here = path.index(index)
        if source.prefix:
            errors += names.validate(here.child("prefix"), source.prefix, _find_name_problems(source.prefix, options))
        found = 0
        for name, reference in (("configMapRef", source.config_map_ref), ("secretRef", source.secret_ref)):
            if reference is not None:
                found += 1
                at = here.child(name, "name")
                wrong = names.dns1123_subdomain(names.as_generated_name(reference.name))
                errors += names.validate(at, reference.name, wrong) if reference.name else [field_errors.required(at)]
        if not found:
            errors.append(field_errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif found > 1:
            errors.append(field_errors.invalid(path, "", _ONE_SOURCE))
    return errors


def _find_name_problems(name: str, options: AdmissionOptions) -> names.Messages:
    return names.relaxed_env_var_name(name) if options.relaxed_env_names else names.env_var_name(name)


def _validate_value_from(
    source: core_v1.EnvVarSource, has_value: bool, path: Path, volumes: dict[str, core_v1.Volume]
) -> Errors:
    errors: Errors = []
    found = 0
    if source.field_ref is not None:
        found += 1
        errors += validate_field_ref(source.field_ref, path.child("fieldRef"), _VARIABLE_FIELDS)
    if source.resource_field_ref is not None:
        found += 1
        here = path.child("resourceFieldRef")
        errors += validate_resource_field_ref(source.resource_field_ref, here, in_volume=False)
    if source.config_map_key_ref is not None:
        found += 1
        errors += _validate_key_selector(source.config_map_key_ref, path.child("configMapKeyRef"))
    if source.secret_key_ref is not None:
        found += 1
        errors += _validate_key_selector(source.secret_key_ref, path.child("secretKeyRef"))
    if source.file_key_ref is not None:
        found += 1
        errors += _validate_file_key(source.file_key_ref, path.child("fileKeyRef"), volumes)
    if not found:
        errors.append(field_errors.invalid(path, "", _SOURCES))
    elif has_value:
        errors.append(field_errors.invalid(path, "", "may not be specified when `value` is not empty"))
    elif found > 1:
        errors.append(field_errors.invalid(path, "", _ONE_SOURCE))
    return errors


def _validate_key_selector(selector: core_v1.ConfigMapKeySelector | core_v1.SecretKeySelector, path: Path) -> Errors:
    errors = names.validate(path.child("name"), selector.name, names.dns1123_subdomain(selector.name))
    return errors + checks.require_name(selector.key, path.child("key"), names.config_map_key)


def _validate_file_key(selector: core_v1.FileKeySelector, path: Path, volumes: dict[str, core_v1.Volume]) -> Errors:
    errors = checks.require_name(selector.key, path.child("key"), names.relaxed_env_var_name)
    errors += checks.require_name(selector.volume_name, path.child("volumeName"), names.dns1123_label)
    if selector.volume_name not in volumes:
        errors.append(field_errors.not_found(path.child("volumeName"), selector.volume_name))
    elif volumes[selector.volume_name].empty_dir is None:
        detail = "referenced volume must be of type emptyDir"
        errors.append(field_errors.invalid(path.child("volumeName"), selector.volume_name, detail))
    return (
        errors + checks.require(selector.path, path.child("path")) + forbid_backsteps(selector.path, path.child("path"))
    )


_SUBSCRIPT = re.compile(r"(.*)\['(.*)'\]", re.DOTALL)
_POD_FIELDS = frozenset(
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
        return [_build_field_path_error(here, chosen, f"field label does not support subscript: {chosen}")]
    if chosen not in _POD_FIELDS:
        return [_build_field_path_error(here, chosen, f"field label not supported: {chosen}")]
    return checks.one_of(chosen, supported, here)


def _build_field_path_error(path: Path, chosen: str, why: str) -> FieldError:
    return field_errors.invalid(path, chosen, f"error converting fieldPath: {why}")


def validate_resource_field_ref(selector: ResourceFieldSelector, path: Path, *, in_volume: bool) -> Errors:
    errors = []
    if in_volume and not selector.container_name:
        errors.append(field_errors.required(path.child("containerName")))
    elif not selector.resource:
        errors.append(field_errors.required(path.child("resource")))
    elif selector.resource not in COMPUTE_RESOURCES and not selector.resource.startswith(_HUGE_PAGES):
        errors.append(field_errors.not_supported(path.child("resource"), selector.resource, COMPUTE_RESOURCES))
    if not selector.divisor.is_zero():
        kind = selector.resource.partition(".")[2]
        allowed, detail = _DIVISORS.get("hugepages" if kind.startswith("hugepages-") else kind, (None, ""))
        if allowed is not None and str(selector.divisor) not in allowed:
            detail = detail if kind == "cpu" else _BYTES_DETAIL + detail
            errors.append(field_errors.invalid(path.child("divisor"), selector.resource, detail))
    return errors
