"""DeviceClasses: sorts of devices that claims can ask for."""

from mooring.admission.dra.names import MAX_CONFIGS, validate_list
from mooring.admission.dra.requests import validate_opaque, validate_selectors
from mooring.admission.rule_strategy import RuleStrategy
from mooring.admission.strategy import Request
from mooring.api import field_errors
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path
from mooring.api.resource_v1 import DeviceClass
from mooring.constraints.requests import is_extended

_SPEC = Path("spec")


class DeviceClassStrategy(RuleStrategy[DeviceClass]):
    def rules(self, obj: DeviceClass, old: DeviceClass | None, request: Request) -> list[FieldError]:
        spec = obj.spec
        errors: list[FieldError] = []
        if old is None or spec.selectors != old.spec.selectors:
            errors += validate_selectors(spec.selectors, _SPEC.child("selectors"), request.options)
        if old is None or spec.config != old.spec.config:
            errors += validate_list(
                spec.config, MAX_CONFIGS, _SPEC.child("config"), lambda each, here: validate_opaque(each.opaque, here)
            )
        name = spec.extended_resource_name
        if name is not None and not is_extended(name):
            here = _SPEC.child("extendedResourceName")
            errors.append(field_errors.invalid(here, name, "must be a valid extended resource name"))
        return errors
