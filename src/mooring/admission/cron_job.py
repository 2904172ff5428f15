"""CronJobs: validate the schedule, the time zone and the Job template.

A schedule has five fields, or a name such as `@daily` or `@every 90m`.

>>> find_schedule_problem("*/15 8-18 * * mon-fri") is None
True
>>> find_schedule_problem("61 * * * *")
'end of range (61) above maximum (59): 61'
"""

import re
from itertools import chain

import msgspec

from mooring.admission.checks import non_negative, one_of
from mooring.admission.job import default_job_template, validate_job_spec
from mooring.admission.strategy import Request
from mooring.admission.workload import SPEC, TemplateStrategy
from mooring.api import field_errors
from mooring.api.batch_v1 import CronJob, CronJobSpec, JobTemplateSpec
from mooring.api.core_v1 import PodTemplateSpec
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

MAX_NAME = 63 - 11
"""The maximum length of a CronJob's name: names of its Jobs append a dash and ten digits."""
_MAX_SCHEDULE_CHARACTERS = 4096
_POLICIES = ("Allow", "Forbid", "Replace")


class CronJobStrategy(TemplateStrategy[CronJob]):
    template_path = SPEC.child("jobTemplate", "spec", "template")

    def default(self, obj: CronJob) -> None:
        spec = obj.spec
        spec.concurrency_policy = spec.concurrency_policy or "Allow"
        spec.suspend = bool(spec.suspend)
        if spec.successful_jobs_history_limit is None:
            spec.successful_jobs_history_limit = 3
        if spec.failed_jobs_history_limit is None:
            spec.failed_jobs_history_limit = 1
        default_job_template(spec.job_template.spec)

    def template_of(self, obj: CronJob) -> PodTemplateSpec:
        return obj.spec.job_template.spec.template

    def rules(self, obj: CronJob, old: CronJob | None, request: Request) -> Errors:
        spec = obj.spec
        errors = _schedule(spec, old.spec if old is not None else None, SPEC.child("schedule"))
        errors += non_negative(spec.starting_deadline_seconds, SPEC.child("startingDeadlineSeconds"))
        if spec.time_zone is not None:
            errors += _time_zone(spec.time_zone, SPEC.child("timeZone"))
        errors += one_of(spec.concurrency_policy, _POLICIES, SPEC.child("concurrencyPolicy"))
        old_template = old.spec.job_template if old is not None else None
        errors += _job_template(spec.job_template, old_template, request)
        errors += non_negative(spec.successful_jobs_history_limit, SPEC.child("successfulJobsHistoryLimit"))
        errors += non_negative(spec.failed_jobs_history_limit, SPEC.child("failedJobsHistoryLimit"))
        if old is None and len(obj.metadata.name) > MAX_NAME:
            detail = f"must be no more than {MAX_NAME} characters"
            errors.append(field_errors.invalid(Path("metadata", "name"), obj.metadata.name, detail))
        return errors


def _schedule(spec: CronJobSpec, old: CronJobSpec | None, path: Path) -> Errors:
    if not spec.schedule:
        return [field_errors.required(path)]
    problem = find_schedule_problem(spec.schedule)
    errors = [field_errors.invalid(path, spec.schedule, problem)] if problem is not None else []
    if "TZ" in spec.schedule:
        if spec.time_zone is not None:
            detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            errors.append(field_errors.invalid(path, spec.schedule, detail))
        elif old is None or "TZ" not in old.schedule:
            detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            errors.append(field_errors.invalid(path, spec.schedule, detail))
    return errors


def _time_zone(name: str, path: Path) -> Errors:
    if not name:
        return [field_errors.invalid(path, name, "timeZone must be nil or non-empty string")]
    if name.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        return [field_errors.invalid(path, name, detail)]
    import zoneinfo  # noqa: PLC0415 - few name a zone, and it takes long to load

    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return [field_errors.invalid(path, name, f"unknown time zone {name}")]
    return []


def _job_template(template: JobTemplateSpec, old: JobTemplateSpec | None, request: Request) -> Errors:
    here = SPEC.child("jobTemplate", "spec")
    errors = validate_job_spec(template.spec, old.spec if old is not None else None, here, request)
    if template.spec.selector is not None:
        detail = "`selector` will be auto-generated"
        errors.append(field_errors.invalid(here.child("selector"), template.spec.selector, detail))
    if template.spec.manual_selector:
        errors.append(field_errors.not_supported(here.child("manualSelector"), True, ["nil", "false"]))
    return errors


NAMED_SCHEDULES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = {
    "jan": 1,
    "feb": 2,
    "mar": 3,
    "apr": 4,
    "may": 5,
    "jun": 6,
    "jul": 7,
    "aug": 8,
    "sep": 9,
    "oct": 10,
    "nov": 11,
    "dec": 12,
}
_DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_DURATION = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_ZONE = re.compile(r"(?:CRON_)?TZ=\S+\s+")


class _Field(msgspec.Struct, frozen=True):
    low: int
    high: int
    names: dict[str, int] = msgspec.field(default_factory=dict)


_FIELDS = (_Field(0, 59), _Field(0, 23), _Field(1, 31), _Field(1, 12, _MONTHS), _Field(0, 6, _DAYS))


class _SyntaxError(ValueError):
    """The schedule has invalid syntax."""


def find_schedule_problem(schedule: str) -> str | None:
    """Return the problem of a schedule, or None."""
    try:
        _check(schedule)
    except _SyntaxError as error:
        return str(error)
    return None


def _check(schedule: str) -> None:
    if not schedule:
        raise _SyntaxError("empty spec string")
    if len(schedule) > _MAX_SCHEDULE_CHARACTERS:
        raise _SyntaxError(f"must be no more than {_MAX_SCHEDULE_CHARACTERS} characters")
    rest = _ZONE.sub("", schedule, count=1) if schedule.startswith(("TZ=", "CRON_TZ=")) else schedule
    if rest.startswith("@"):
        _check_named(rest)
        return
    parse_fields(rest)


def parse_fields(text: str) -> list[frozenset[int]]:
    """Return the values of the five fields of a schedule; raise ValueError."""
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise _SyntaxError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    return [
        frozenset(chain.from_iterable(_values(part, bounds) for part in filter(None, field.split(","))))
        for field, bounds in zip(fields, _FIELDS, strict=True)
    ]


def _check_named(text: str) -> None:
    if text in NAMED_SCHEDULES:
        return
    if not text.startswith("@every "):
        raise _SyntaxError(f"unrecognized descriptor: {text}")
    duration = text.removeprefix("@every ")
    if duration != "0" and not re.fullmatch(f"(?:{_DURATION.pattern})+", duration):
        raise _SyntaxError(f'failed to parse duration {text}: time: invalid duration "{duration}"')


def _values(text: str, bounds: _Field) -> range:
    span, *steps = text.split("/")
    ends = span.split("-")
    single = len(ends) == 1
    if ends[0] in ("*", "?"):
        low, high = bounds.low, bounds.high
    else:
        low = high = _number(ends[0], bounds)
        if len(ends) > 2:
            raise _SyntaxError(f"too many hyphens: {text}")
        if not single:
            high = _number(ends[1], bounds)
    if len(steps) > 1:
        raise _SyntaxError(f"too many slashes: {text}")
    step = _integer(steps[0]) if steps else 1
    if steps and single:
        high = bounds.high  # `5/10` begins at 5 and goes on to the end
    if step == 0:
        raise _SyntaxError(f"step of range should be a positive number: {text}")
    if low < bounds.low:
        raise _SyntaxError(f"beginning of range ({low}) below minimum ({bounds.low}): {text}")
    if high > bounds.high:
        raise _SyntaxError(f"end of range ({high}) above maximum ({bounds.high}): {text}")
    if low > high:
        raise _SyntaxError(f"beginning of range ({low}) beyond end of range ({high}): {text}")
    return range(low, high + 1, step)


def _number(text: str, bounds: _Field) -> int:
    known = bounds.names.get(text.lower())
    return _integer(text) if known is None else known


def _integer(text: str) -> int:
    if not re.fullmatch("[+-]?[0-9]{1,18}", text):
        raise _SyntaxError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    number = int(text)
    if number < 0:
        raise _SyntaxError(f"negative number ({number}) not allowed: {text}")
    return number
