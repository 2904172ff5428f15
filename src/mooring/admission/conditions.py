"""The rules of `metav1.Condition`, which the status of newer kinds has a list of."""

from mooring.admission.checks import Unique, limit_bytes, one_of
from mooring.api import field_errors, names
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path
from mooring.api.meta_v1 import Condition

STATUSES = ("False", "True", "Unknown")
_MAX_REASON_BYTES = 1024
_MAX_MESSAGE_BYTES = 32 * 1024


def validate_conditions(conditions: list[Condition], path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    seen = Unique()
    for index, condition in enumerate(conditions):
        here = path.index(index)
        errors += seen.add(condition.type, here.child("type"))
        errors += _condition(condition, here)
    return errors


def _condition(condition: Condition, path: Path) -> list[FieldError]:
    errors = names.validate_label_key(condition.type, path.child("type"))
    errors += one_of(condition.status, STATUSES, path.child("status"))
    if condition.observed_generation < 0:
        detail = "must be greater than or equal to zero"
        errors.append(field_errors.invalid(path.child("observedGeneration"), condition.observed_generation, detail))
    if condition.last_transition_time is None:
        errors.append(field_errors.required(path.child("lastTransitionTime"), "must be set"))
    if not condition.reason:
        errors.append(field_errors.required(path.child("reason"), "must be set"))
    else:
        wrong = names.condition_reason(condition.reason)
        errors += names.validate(path.child("reason"), condition.reason, wrong)
        errors += limit_bytes(condition.reason, _MAX_REASON_BYTES, path.child("reason"))
    errors += limit_bytes(condition.message, _MAX_MESSAGE_BYTES, path.child("message"))
    return errors
