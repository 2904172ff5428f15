"""Device taints and tolerations, and DeviceTaintRules (5471.8).

Tolerations support `Equal`, `Exists`, `Lt` and `Gt`; versions and CEL are not supported for devices.
"""

from collections.abc import Collection

from mooring.admission import checks
from mooring.admission.dra.names import validate_dns_label, validate_driver_name, validate_pool_name
from mooring.admission.pod.tolerations import find_number_problems
from mooring.admission.strategy import Request, Strategy
from mooring.api import field_errors, names, times
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.resource_v1 import DeviceTaint, DeviceTaintRule, DeviceTaintSelector, DeviceToleration

EFFECTS = ("NoExecute", "NoSchedule", "None")
NUMERIC_OPERATORS = ("Lt", "Gt")
MAX_TOLERATIONS = 16
_MAX_CONDITIONS = 8


def set_time_added(taints: list[DeviceTaint], request: Request) -> None:
    """Set `timeAdded` of taints without one to the time of the request, in place."""
    for taint in taints:
        if taint.time_added is None:
            taint.time_added = times.to_seconds(request.now)


def validate_device_taint(taint: DeviceTaint, path: Path, old: DeviceTaint | None = None) -> Errors:
    """Return the errors of a device taint. An unknown effect is allowed if `old` has it too."""
    errors = names.validate_label_key(taint.key, path.child("key"))
    errors += names.validate(path.child("value"), taint.value, names.label_value(taint.value))
    if old is not None and old.effect == taint.effect:
        return errors
    return errors + checks.require_one_of(taint.effect, EFFECTS, path.child("effect"))


def validate_tolerations(
    tolerations: list[DeviceToleration],
    path: Path,
    *,
    numeric: bool,
    stored: Collection[DeviceToleration] = (),
) -> Errors:
    """Return the errors of device tolerations. Unless `numeric`, only tolerations in `stored` may use `Lt` and `Gt`."""
    if len(tolerations) > MAX_TOLERATIONS:
        return [field_errors.too_many(path, len(tolerations), MAX_TOLERATIONS)]
    return [
        error
        for index, toleration in enumerate(tolerations)
        for error in _validate_device_toleration(toleration, path.index(index), numeric or toleration in stored)
    ]


def _validate_device_toleration(toleration: DeviceToleration, path: Path, numeric: bool) -> Errors:
    errors = names.validate_label_key(toleration.key, path.child("key")) if toleration.key else []
    value, here = toleration.value, path.child("value")
    match toleration.operator:
        case "Exists":
            errors += checks.invalid_if(value, here, value, "must be empty for operator `Exists`")
        case "Equal":
            errors += names.validate(here, value, names.label_value(value))
        case "Lt" | "Gt" if numeric:
            errors += [field_errors.invalid(here, value, problem) for problem in find_number_problems(value)]
        case "":
            errors.append(field_errors.required(path.child("operator")))
        case operator:
            supported = ("Equal", "Exists", *(NUMERIC_OPERATORS if numeric else ()))
            errors.append(field_errors.not_supported(path.child("operator"), operator, supported))
    errors += checks.optional_one_of(toleration.effect or None, EFFECTS, path.child("effect"))
    return errors


class DeviceTaintRuleStrategy(Strategy[DeviceTaintRule]):
    def mutate(self, obj: DeviceTaintRule, old: DeviceTaintRule | None, request: Request) -> None:
        """Set the taint's `timeAdded` if it is missing, or if an update changes the effect and keeps the time."""
        taint = obj.spec.taint
        if old is not None:
            before = old.spec.taint
            if taint.effect != before.effect and taint.time_added == before.time_added:
                taint.time_added = None
        set_time_added([taint], request)

    def validate(self, obj: DeviceTaintRule, old: DeviceTaintRule | None, request: Request) -> Errors:
        errors = checks.optional(obj.spec.device_selector, Path("spec.deviceSelector"), _validate_taint_selector)
        return errors + validate_device_taint(
            obj.spec.taint, Path("spec.taint"), old.spec.taint if old is not None else None
        )

    def validate_status(self, new: DeviceTaintRule, old: DeviceTaintRule, request: Request) -> Errors:
        here = Path("status.conditions")
        errors = checks.validate_conditions(new.status.conditions, here)
        return errors + checks.limit_items(new.status.conditions, _MAX_CONDITIONS, here)


def _validate_taint_selector(selector: DeviceTaintSelector, path: Path) -> Errors:
    errors = checks.optional(selector.driver, path.child("driver"), validate_driver_name)
    errors += checks.optional(selector.pool, path.child("pool"), validate_pool_name)
    return errors + checks.optional(selector.device, path.child("device"), validate_dns_label)
