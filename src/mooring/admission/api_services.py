"""Default and validate APIServices; ``apiserver/registry/api_services.py`` writes those of this server."""

from mooring.admission import checks, meta
from mooring.admission.strategy import Request, Strategy
from mooring.api import field_errors, names, times
from mooring.api.apiregistration_v1 import (
    AVAILABLE,
    APIService,
    APIServiceCondition,
    APIServiceSpec,
    APIServiceStatus,
)
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.quoting import go_quote

_SPEC, _STATUS = Path("spec"), Path("status")
_HTTPS = 443
_MOST_GROUP, _MOST_VERSION = 20_000, 1_000
_STATES = ("True", "False", "Unknown")


class APIServiceStrategy(Strategy[APIService]):
    has_generation = False
    allow_unconditional_update = False

    def default(self, obj: APIService) -> None:
        service = obj.spec.service
        if service is not None and service.port is None:
            service.port = _HTTPS

    def prepare_for_create(self, obj: APIService, request: Request) -> None:
        obj.status = APIServiceStatus()
        if obj.spec.service is None:
            obj.status.conditions = [
                APIServiceCondition(
                    type=AVAILABLE,
                    status="True",
                    reason="Local",
                    message="Local APIServices are always available",
                    last_transition_time=times.to_seconds(request.now),
                )
            ]

    def validate_create(self, obj: APIService, request: Request) -> Errors:
        wanted = f"{obj.spec.version}.{obj.spec.group}"

        def name_check(name: str) -> names.Messages:
            wrong = names.path_segment_name(name)
            if wrong or name == wanted:
                return wrong
            return (f'must be `spec.version+"."+spec.group`: {go_quote(wanted)}',)

        errors = meta.validate_object_meta(obj.metadata, namespaced=False, name_check=name_check)
        return errors + self.rules(obj, None, request)

    def rules(self, obj: APIService, old: APIService | None, request: Request) -> Errors:
        return _validate_versions(obj.spec) + _validate_server(obj.spec)

    def status_rules(self, new: APIService, old: APIService, request: Request) -> Errors:
        return [
            field_errors.not_supported(_STATUS.child("conditions").index(index).child("status"), each.status, _STATES)
            for index, each in enumerate(new.status.conditions)
            if each.status not in _STATES
        ]


def _validate_versions(spec: APIServiceSpec) -> Errors:
    errors: Errors = []
    detail = "only v1 may have an empty group and it better be legacy kube"
    errors += checks.require(spec.group or spec.version == "v1", _SPEC.child("group"), detail)
    errors += checks.optional_name(spec.group or None, _SPEC.child("group"), names.dns1123_subdomain)
    errors += names.validate(_SPEC.child("version"), spec.version, names.dns1035_label(spec.version))
    for name, value, most in (
        ("groupPriorityMinimum", spec.group_priority_minimum, _MOST_GROUP),
        ("versionPriority", spec.version_priority, _MOST_VERSION),
    ):
        errors += checks.invalid_if(
            not 0 < value <= most, _SPEC.child(name), value, f"must be positive and less than {most}"
        )
    return errors


def _validate_server(spec: APIServiceSpec) -> Errors:
    service, skips = spec.service, _SPEC.child("insecureSkipTLSVerify")
    errors: Errors = []
    if service is None:
        if spec.ca_bundle:
            shown, detail = f"{len(spec.ca_bundle)} bytes", "local APIServices may not have a caBundle"
            errors.append(field_errors.invalid(_SPEC.child("caBundle"), shown, detail))
        detail = "local APIServices may not have insecureSkipTLSVerify"
        errors += checks.invalid_if(spec.insecure_skip_tls_verify, skips, spec.insecure_skip_tls_verify, detail)
        return errors
    here = _SPEC.child("service")
    errors += [
        field_errors.required(here.child(name))
        for name, value in (("namespace", service.namespace), ("name", service.name))
        if not value
    ]
    if wrong := names.port_number(service.port or 0):
        errors.append(field_errors.invalid(here.child("port"), service.port, f"port is not valid: {', '.join(wrong)}"))
    if spec.insecure_skip_tls_verify and spec.ca_bundle:
        errors.append(field_errors.invalid(skips, True, "may not be true if caBundle is present"))
    return errors
