"""Validate PriorityClasses: reserved names and values, and at most one default in the cluster."""

from mooring.admission import checks
from mooring.admission.strategy import SYSTEM_PRIORITIES, Request, Strategy, set_missing
from mooring.api import errors, field_errors
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.scheduling_v1 import PriorityClass

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PREFIX = "system-"
_POLICIES = ("PreemptLowerPriority", "Never")


class PriorityClassStrategy(Strategy[PriorityClass]):
    immutable = ("preemptionPolicy",)

    def default(self, obj: PriorityClass) -> None:
        set_missing(obj, preemption_policy="PreemptLowerPriority")

    def mutate(self, obj: PriorityClass, old: PriorityClass | None, request: Request) -> None:
        if not obj.global_default:
            return
        present = request.lookups.default_priority_class()
        if present is not None and present.name != obj.metadata.name:
            why = f"PriorityClass {present.name} is already marked as default. Only one default can exist"
            raise errors.forbidden(self.resource, obj.metadata.name, why, group=self.group)

    def validate(self, obj: PriorityClass, old: PriorityClass | None, request: Request) -> Errors:
        if old is not None:
            return checks.forbidden_if(obj.value != old.value, Path("value"), "may not be changed in an update.")
        found = _validate_name_and_value(obj)
        return found + checks.require_one_of(obj.preemption_policy or "", _POLICIES, Path("preemptionPolicy"))


def _validate_name_and_value(cls: PriorityClass) -> Errors:
    name = cls.metadata.name
    if not name.startswith(SYSTEM_PREFIX):
        if cls.value <= HIGHEST_USER_PRIORITY:
            return []
        detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        return [field_errors.forbidden(Path("value"), detail)]
    known = SYSTEM_PRIORITIES.get(name)
    if known is None:
        why = f"{name} is not a known system priority class"
    elif known.value != cls.value:
        why = f"value of {name} PriorityClass must be {known.value}"
    elif cls.global_default:
        why = f"globalDefault of {name} PriorityClass must be false"
    else:
        return []
    detail = f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}"
    return [field_errors.forbidden(Path("metadata.name"), detail)]
