"""Validate annotations that Kubernetes itself reads, on pods and pod templates."""

from mooring.admission.pod.affinity import validate_node_affinity
from mooring.admission.pod.rules import DELETION_COST, PodRules, find_deletion_cost_problem
from mooring.admission.pod.security import iterate_containers
from mooring.admission.pod.tolerations import validate_tolerations
from mooring.admission.volume_sources import validate_local_path
from mooring.api import field_errors
from mooring.api.core_v1 import Pod, PodSpec
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.meta_v1 import ObjectMeta
from mooring.constraints import annotations as constraints

MIRROR = "kubernetes.io/config.mirror"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_NAMES = ("runtime/default", "docker/default", "unconfined")
_APP_ARMOR_NAMES = ("", "runtime/default", "unconfined")


def validate_pod_annotations(metadata: ObjectMeta, spec: PodSpec, path: Path, rules: PodRules) -> Errors:
    annotations = metadata.annotations
    if not annotations:
        return []
    errors: Errors = []
    if MIRROR in annotations and not spec.node_name:
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(field_errors.invalid(path.key(MIRROR), annotations[MIRROR], detail))
    cost = None if rules.invalid_deletion_cost else find_deletion_cost_problem(metadata)
    if cost is not None:
        errors.append(field_errors.invalid(path.key(DELETION_COST), cost, "must be a 32bit integer"))
    for key, value in annotations.items():
        if key == _SECCOMP_POD or key.startswith(_SECCOMP_CONTAINER):
            errors += _validate_seccomp(value, path.child(key))
        elif key.startswith(_APP_ARMOR):
            errors += _validate_app_armor(key, value, spec, path.key(key))
    return errors


def validate_annotation_updates(new: ObjectMeta, old: ObjectMeta, path: Path) -> Errors:
    """Return errors if an update adds, changes or removes annotations for AppArmor or mirror pods."""
    errors = []
    for key in {**old.annotations, **new.annotations}:
        if new.annotations.get(key) == old.annotations.get(key):
            continue
        change = "remove or update" if key in old.annotations else "add"
        if key.startswith(_APP_ARMOR):
            errors.append(field_errors.forbidden(path.key(key), f"may not {change} AppArmor annotations"))
        if key == MIRROR:
            errors.append(field_errors.forbidden(path.key(key), f"may not {change} mirror pod annotation"))
    return errors


def _validate_seccomp(value: str, path: Path) -> Errors:
    if value in _SECCOMP_NAMES:
        return []
    if value.startswith("localhost/"):
        return validate_local_path(value.removeprefix("localhost/"), path)
    return [field_errors.invalid(path, value, "must be a valid seccomp profile")]


def _validate_app_armor(key: str, value: str, spec: PodSpec, path: Path) -> Errors:
    errors = []
    name = key.removeprefix(_APP_ARMOR)
    if all(container.name != name for container, _ in iterate_containers(spec, path)):
        errors.append(field_errors.invalid(path, name, "container not found"))
    if value not in _APP_ARMOR_NAMES and not value.startswith("localhost/"):
        errors.append(field_errors.invalid(path, value, f'invalid AppArmor profile name: "{value}"'))
    return errors


def validate_constraint_annotations(pod: Pod, path: Path, rules: PodRules) -> Errors:
    """Return the errors in a pod's annotations `constraints.mooring.dev/tolerations` and `…/node-affinity`."""
    given = pod.metadata.annotations
    if not constraints.has_constraints(given):
        return []
    try:
        found = constraints.read(given)
        constraints.as_in_spec(pod)
    except constraints.AnnotationError as error:
        return [field_errors.invalid(path.key(error.key), given.get(error.key, ""), str(error))]
    errors = validate_tolerations(list(found.tolerations), path.key(constraints.TOLERATIONS), rules)
    if found.node_affinity is not None:
        errors += validate_node_affinity(found.node_affinity, path.key(constraints.NODE_AFFINITY), rules)
    return errors
