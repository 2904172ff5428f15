"""Fields of a PodSpec that are newer than the oldest version this server may have to go back to (4330.7).

``options.POD_FIELDS`` says which field came with which version; this says where a PodSpec uses one. An older server
would drop such a field, so a new use is refused until the minimum compatibility version knows it.
"""

from collections.abc import Iterator

from mooring.admission.new_fields import DETAIL
from mooring.api import field_errors
from mooring.api.core_v1 import Container, PodSpec
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path


def validate(spec: PodSpec, path: Path, unwritable: frozenset[str]) -> list[FieldError]:
    """An error for every use of a field that may not be written."""
    return [field_errors.forbidden(here, DETAIL) for name in sorted(unwritable) for here in uses(name, spec, path)]


def uses(name: str, spec: PodSpec, path: Path) -> Iterator[Path]:
    """Where a PodSpec uses the field of that name."""
    match name:
        case "spec.hostnameOverride":
            if spec.hostname_override is not None:
                yield path.child("hostnameOverride")
        case "spec.schedulingGroup":
            if spec.scheduling_group is not None:
                yield path.child("schedulingGroup")
        case "spec.evictionResponders":
            if spec.eviction_responders:
                yield path.child("evictionResponders")
        case "spec.securityContext.supplementalGroupsPolicy":
            if spec.security_context is not None and spec.security_context.supplemental_groups_policy is not None:
                yield path.child("securityContext", "supplementalGroupsPolicy")
        case "spec.securityContext.seLinuxChangePolicy":
            if spec.security_context is not None and spec.security_context.se_linux_change_policy is not None:
                yield path.child("securityContext", "seLinuxChangePolicy")
        case "spec.volumes[*].image" | "spec.volumes[*].projected.sources[*].podCertificate":
            yield from _in_volumes(name, spec, path.child("volumes"))
        case _:
            for container, here in _containers(spec, path):
                yield from _in_container(name, container, here)


def _in_volumes(name: str, spec: PodSpec, path: Path) -> Iterator[Path]:
    for index, volume in enumerate(spec.volumes):
        if name.endswith(".image"):
            if volume.image is not None:
                yield path.index(index).child("image")
        elif volume.projected is not None:
            for position, source in enumerate(volume.projected.sources):
                if source.pod_certificate is not None:
                    sources = path.index(index).child("projected", "sources")
                    yield sources.index(position).child("podCertificate")


def _containers(spec: PodSpec, path: Path) -> Iterator[tuple[Container, Path]]:
    for name, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            yield container, path.child(name).index(index)


def _in_container(name: str, container: Container, path: Path) -> Iterator[Path]:
    match name:
        case "spec.containers[*].restartPolicyRules":
            if container.restart_policy_rules:
                yield path.child("restartPolicyRules")
        case "spec.containers[*].lifecycle.stopSignal":
            if container.lifecycle is not None and container.lifecycle.stop_signal is not None:
                yield path.child("lifecycle", "stopSignal")
        case "spec.containers[*].env[*].valueFrom.fileKeyRef":
            for index, variable in enumerate(container.env):
                if variable.value_from is not None and variable.value_from.file_key_ref is not None:
                    yield path.child("env").index(index).child("valueFrom", "fileKeyRef")
