"""The rules of `metav1.Condition`, which the status of newer kinds has a list of."""

from mooring.api import field_errors, names
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path
from mooring.api.meta_v1 import Condition

STATUSES = ("False", "True", "Unknown")
_MAX_REASON_BYTES = 1024
_MAX_MESSAGE_BYTES = 32 * 1024


def validate_conditions(conditions: list[Condition], path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        here = path.index(index)
        if condition.type in seen:
            errors.append(field_errors.duplicate(here.child("type"), condition.type))
        seen.add(condition.type)
        errors += _condition(condition, here)
    return errors


def _condition(condition: Condition, path: Path) -> list[FieldError]:
    errors = names.validate_label_key(condition.type, path.child("type"))
    if condition.status not in STATUSES:
        errors.append(field_errors.not_supported(path.child("status"), condition.status, STATUSES))
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
        if len(condition.reason.encode(errors="surrogatepass")) > _MAX_REASON_BYTES:
            errors.append(field_errors.too_long(path.child("reason"), _MAX_REASON_BYTES))
    if len(condition.message.encode(errors="surrogatepass")) > _MAX_MESSAGE_BYTES:
        errors.append(field_errors.too_long(path.child("message"), _MAX_MESSAGE_BYTES))
    return errors
