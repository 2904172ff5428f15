"""Validate Leases."""

from mooring.admission import checks
from mooring.admission.strategy import Request, Strategy
from mooring.api import field_errors
from mooring.api.coordination_v1 import Lease
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

_SPEC = Path("spec")
_STRATEGIES = ("OldestEmulationVersion",)


class LeaseStrategy(Strategy[Lease]):
    has_generation = False
    allow_create_on_update = True
    allow_unconditional_update = False

    def validate(self, obj: Lease, old: Lease | None, request: Request) -> Errors:
        spec = obj.spec
        here, detail = _SPEC.child("leaseDurationSeconds"), "must be greater than 0"
        errors = checks.positive(spec.lease_duration_seconds, here, detail)
        errors += checks.non_negative(spec.lease_transitions, _SPEC.child("leaseTransitions"))
        here = _SPEC.child("strategy")
        if spec.strategy is not None and "/" not in spec.strategy and spec.strategy not in _STRATEGIES:
            errors.append(field_errors.not_supported(here, spec.strategy, _STRATEGIES))
        if spec.preferred_holder and not spec.strategy:
            detail = "can only be set if strategy is not empty"
            errors.append(field_errors.forbidden(_SPEC.child("preferredHolder"), detail))
        return errors
