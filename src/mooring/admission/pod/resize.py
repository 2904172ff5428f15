"""The subresource `resize`: change cpu and memory of a running pod's containers."""

from mooring.admission import meta
from mooring.admission.pod.annotations import MIRROR
from mooring.admission.pod.requests import qos_class
from mooring.api import field_errors
from mooring.api.base import copy_of
from mooring.api.core_v1 import Container, Pod, PodSpec, ResourceRequirements
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path
from mooring.api.quantity import Quantity
from mooring.constraints.requests import is_sidecar

_SPEC = Path("spec")
_RESIZABLE = ("cpu", "memory")


def with_new_resources(new: PodSpec, old: PodSpec) -> PodSpec:
    """Return the old spec with the new spec's resources and resize policies, by container name."""
    spec = copy_of(old)
    wanted = {container.name: container for container in (*new.containers, *new.init_containers)}
    for container in (*spec.containers, *spec.init_containers):
        if container.name in wanted:
            container.resources = wanted[container.name].resources
            container.resize_policy = wanted[container.name].resize_policy
    return spec


def validate_resize(new: Pod, old: Pod) -> list[FieldError]:
    """Validate a change of resources; the spec as a whole is validated already."""
    for refused, why in (
        (_has_pod_level_resources(new) or _has_pod_level_resources(old), "pods with pod-level resources"),
        (MIRROR in old.metadata.annotations, "static pods"),
        (old.spec.os is not None and old.spec.os.name == "windows", "windows pods"),
    ):
        if refused:
            return [field_errors.forbidden(Path(""), f"{why} cannot be resized")]
    errors: list[FieldError] = []
    if qos_class(new.spec) != old.status.qos_class:
        detail = "Pod QOS Class may not change as a result of resizing"
        errors.append(field_errors.invalid(_SPEC, new.status.qos_class, detail))
    for name, now, before in (
        ("initContainers", new.spec.init_containers, old.spec.init_containers),
        ("containers", new.spec.containers, old.spec.containers),
    ):
        for index, (container, was) in enumerate(zip(now, before, strict=True)):
            here = _SPEC.child(name).index(index).child("resources")
            errors += _container(container, was, here, resizable=name == "containers" or is_sidecar(was))
    return errors


def _has_pod_level_resources(pod: Pod) -> bool:
    resources = pod.spec.resources
    return resources is not None and bool(resources.requests or resources.limits)


def _container(new: Container, old: Container, path: Path, *, resizable: bool) -> list[FieldError]:
    if not resizable:
        detail = "resources for non-sidecar init containers are immutable"
        return [] if new == old else [field_errors.forbidden(_SPEC, detail)]
    errors = []
    for name, now, before in (
        ("requests", new.resources.requests, old.resources.requests),
        ("limits", new.resources.limits, old.resources.limits),
    ):
        if not before.keys() <= now.keys():
            errors.append(field_errors.forbidden(path.child(name), f"resource {name} cannot be removed"))
    if _others(new.resources) != _others(old.resources) or new.resources.claims != old.resources.claims:
        errors.append(field_errors.forbidden(_SPEC, "only cpu and memory resources are mutable"))
    if new.resize_policy != old.resize_policy:
        errors.append(field_errors.invalid(path, new.resize_policy, meta.IMMUTABLE))
    return errors


def _others(resources: ResourceRequirements) -> list[dict[str, Quantity]]:
    return [
        {name: quantity for name, quantity in given.items() if name not in _RESIZABLE}
        for given in (resources.requests, resources.limits)
    ]
