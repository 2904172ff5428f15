"""Default and validate APIServices; ``apiserver/registry/cluster/api_services.py`` writes those of this server."""

from mooring.admission import checks
from mooring.admission.meta import NameCheck
from mooring.admission.strategy import Request, Strategy, set_missing
from mooring.api import apiregistration_v1 as v1
from mooring.api import field_errors, names, times
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.quoting import go_quote

_SPEC, _CONDITIONS = Path("spec"), Path("status.conditions")
_HTTPS = 443
_MOST_GROUP, _MOST_VERSION = 20_000, 1_000


class APIServiceStrategy(Strategy[v1.APIService]):
    has_generation = False
    allow_unconditional_update = False

    def default(self, obj: v1.APIService) -> None:
        if obj.spec.service is not None:
            set_missing(obj.spec.service, port=_HTTPS)

    def prepare_for_create(self, obj: v1.APIService, request: Request) -> None:
        obj.status = v1.APIServiceStatus()
        if obj.spec.service is None:
            obj.status.conditions = [
                v1.APIServiceCondition(
                    type=v1.AVAILABLE,
                    status="True",
                    reason="Local",
                    message="Local APIServices are always available",
                    last_transition_time=times.to_seconds(request.now),
                )
            ]

    def name_check_for(self, obj: v1.APIService, request: Request) -> NameCheck:
        wanted = f"{obj.spec.version}.{obj.spec.group}"

        def check(name: str) -> names.Messages:
            wrong = names.path_segment_name(name)
            if wrong or name == wanted:
                return wrong
            return (f'must be `spec.version+"."+spec.group`: {go_quote(wanted)}',)

        return check

    def validate(self, obj: v1.APIService, old: v1.APIService | None, request: Request) -> Errors:
        return _validate_group_and_version(obj.spec) + _validate_service_reference(obj.spec)

    def validate_status(self, new: v1.APIService, old: v1.APIService, request: Request) -> Errors:
        return [
            error
            for index, each in enumerate(new.status.conditions)
            for error in checks.one_of(each.status, checks.STATUSES, _CONDITIONS.index(index).child("status"))
        ]


def _validate_group_and_version(spec: v1.APIServiceSpec) -> Errors:
    errors: Errors = []
    detail = "only v1 may have an empty group and it better be legacy kube"
    errors += checks.require(spec.group or spec.version == "v1", _SPEC.child("group"), detail)
    errors += checks.optional_name(spec.group or None, _SPEC.child("group"), names.dns1123_subdomain)
    errors += names.validate(_SPEC.child("version"), spec.version, names.dns1035_label(spec.version))
    for name, most in (("groupPriorityMinimum", _MOST_GROUP), ("versionPriority", _MOST_VERSION)):
        detail, value = f"must be positive and less than {most}", checks.get_fields_by_json_name(spec)[name]
        errors += checks.invalid_if(not 0 < value <= most, _SPEC.child(name), value, detail)
    return errors


def _validate_service_reference(spec: v1.APIServiceSpec) -> Errors:
    service, skips = spec.service, _SPEC.child("insecureSkipTLSVerify")
    errors: Errors = []
    if service is None:
        shown, detail = f"{len(spec.ca_bundle)} bytes", "local APIServices may not have a caBundle"
        errors += checks.invalid_if(spec.ca_bundle, _SPEC.child("caBundle"), shown, detail)
        detail = "local APIServices may not have insecureSkipTLSVerify"
        return errors + checks.invalid_if(spec.insecure_skip_tls_verify, skips, spec.insecure_skip_tls_verify, detail)
    here = _SPEC.child("service")
    errors += checks.require_fields(service, here, "namespace", "name")
    if wrong := names.port_number(service.port or 0):
        errors.append(field_errors.invalid(here.child("port"), service.port, f"port is not valid: {', '.join(wrong)}"))
    if spec.insecure_skip_tls_verify and spec.ca_bundle:
        errors.append(field_errors.invalid(skips, True, "may not be true if caBundle is present"))
    return errors
