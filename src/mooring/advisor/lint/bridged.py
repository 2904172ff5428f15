"""Constraints in annotations, for the bridge: whether they are valid, and whether the pods wait for it.

They are validated with all operators that the bridge knows, whatever the server's gates. Called by ``advice.py``.
"""

from collections.abc import Iterator

from mooring.admission.options import AdmissionOptions
from mooring.admission.pod.annotations import validate_constraint_annotations
from mooring.admission.pod.rules import PodRules
from mooring.advisor.lint import rules
from mooring.advisor.lint.findings import Problem
from mooring.advisor.lint.specs import PodSpecAt
from mooring.api.core_v1 import Pod
from mooring.api.field_path import Path
from mooring.api.meta_v1 import ObjectMeta
from mooring.constraints import annotations

_RULES = PodRules(options=AdmissionOptions(), is_pod=True)


def advice(at: PodSpecAt) -> Iterator[Problem]:
    """What is wrong with the annotations of a pod or of a template."""
    if not annotations.has_constraints(at.annotations):
        return
    pod = Pod(metadata=ObjectMeta(annotations=dict(at.annotations)), spec=at.spec)
    path = Path(*at.annotations_path.split("."))
    for error in validate_constraint_annotations(pod, path, _RULES):
        yield Problem(rules.WRONG_CONSTRAINTS, str(error.field), error.body)
    is_released = annotations.RELEASED in at.annotations
    if not is_released and all(gate.name != annotations.GATE for gate in at.spec.scheduling_gates):
        text = (
            f"there is no scheduling gate {annotations.GATE}: where the bridge's webhook does not add it, "
            "the pods are scheduled without these constraints"
        )
        yield Problem(rules.NO_GATE, f"{at.path}.schedulingGates", text)
