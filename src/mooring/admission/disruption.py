"""Validate PodDisruptionBudgets, and the Evictions that they restrict."""

from mooring.admission import checks
from mooring.admission.strategy import Request, Strategy
from mooring.admission.workload import SPEC, STATUS
from mooring.api import field_errors, label_selector
from mooring.api.field_errors import Errors
from mooring.api.policy_v1 import Eviction, PodDisruptionBudget

_EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


class PodDisruptionBudgetStrategy(Strategy[PodDisruptionBudget]):
    allow_unconditional_update = False

    def validate(self, obj: PodDisruptionBudget, old: PodDisruptionBudget | None, request: Request) -> Errors:
        spec = obj.spec
        errors: Errors = []
        if spec.min_available is not None and spec.max_unavailable is not None:
            errors.append(field_errors.invalid(SPEC, spec, "minAvailable and maxUnavailable cannot be both set"))
        for name, value in checks.select_fields(spec, "minAvailable", "maxUnavailable"):
            if value is not None:
                errors += checks.number_or_percent(value, SPEC.child(name)) + checks.at_most_100_percent(
                    value, SPEC.child(name)
                )
        errors += label_selector.validate(spec.selector, SPEC.child("selector"))
        policy = spec.unhealthy_pod_eviction_policy
        errors += checks.optional_one_of(policy, _EVICTION_POLICIES, SPEC.child("unhealthyPodEvictionPolicy"))
        return errors

    def validate_status(self, new: PodDisruptionBudget, old: PodDisruptionBudget, request: Request) -> Errors:
        errors = checks.validate_conditions(new.status.conditions, STATUS.child("conditions"))
        counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        return errors + checks.non_negative_fields(new.status, STATUS, *counts)


class EvictionStrategy(Strategy[Eviction]):
    has_generation = False

    def validate_create(self, obj: Eviction, request: Request) -> Errors:
        return []
