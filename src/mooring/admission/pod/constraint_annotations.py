"""Validate constraints in annotations with the rules and messages of the spec, at the annotation's path.

Called by the bridge (before it releases a pod, and in its webhook) and by `mooring lint`. See
``mooring.constraints.annotations``.
"""

from mooring.admission.pod.affinity import validate_node_affinity
from mooring.admission.pod.rules import PodRules
from mooring.admission.pod.tolerations import validate_tolerations
from mooring.api import field_errors
from mooring.api.core_v1 import Pod
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path
from mooring.constraints import annotations as constraints


def validate_constraint_annotations(pod: Pod, path: Path, rules: PodRules) -> list[FieldError]:
    """Validate the constraints in a pod's annotations; `path` is that of its annotations."""
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
