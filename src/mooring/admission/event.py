"""Validate Events. Those with `eventTime` are of the newer form and have more required fields."""

from mooring.admission import checks
from mooring.admission.strategy import Request, Strategy
from mooring.api import field_errors, names
from mooring.api.core_v1 import Event
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

_NAMESPACE = Path("involvedObject.namespace")
_MAX_BYTES = 128
_MAX_NOTE_BYTES = 1024


class EventStrategy(Strategy[Event]):
    has_generation = False
    allow_create_on_update = True

    def validate(self, obj: Event, old: Event | None, request: Request) -> Errors:
        namespace, involved = obj.metadata.namespace, obj.involved_object.namespace
        if obj.event_time is None:
            agrees = namespace in ("", "default") if not involved else namespace == involved
            new_sort: Errors = []
        else:
            agrees = bool(involved) or namespace in ("default", "kube-system")
            new_sort = _validate_event_time_form(obj)
        errors = [] if agrees else [field_errors.invalid(_NAMESPACE, involved, "does not match event.namespace")]
        errors += new_sort
        return errors + names.validate(Path("namespace"), namespace, names.dns1123_subdomain(namespace))


def _validate_event_time_form(event: Event) -> Errors:
    reporter = Path("reportingComponent")
    errors = checks.require(event.reporting_component, reporter)
    errors += names.validate_label_key(event.reporting_component, reporter)
    for name, value in checks.select_fields(event, "reportingInstance", "action", "reason"):
        errors += checks.require(value, Path(name))
        errors += _validate_max_bytes(value, _MAX_BYTES, Path(name))
    return errors + _validate_max_bytes(event.message, _MAX_NOTE_BYTES, Path("message"))


def _validate_max_bytes(text: str, limit: int, path: Path) -> Errors:
    if len(text.encode(errors="surrogatepass")) <= limit:
        return []
    return [field_errors.invalid(path, "", f"can have at most {limit} characters")]
