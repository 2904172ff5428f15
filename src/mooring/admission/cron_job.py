"""CronJobs: validate the schedule, the time zone and the Job template."""

from mooring.admission import checks
from mooring.admission.job import default_job_template, validate_job_spec
from mooring.admission.strategy import Request, set_empty, set_missing
from mooring.admission.workload import SPEC, TemplateStrategy
from mooring.api import field_errors
from mooring.api.batch_v1 import CronJob, CronJobSpec, JobTemplateSpec
from mooring.api.core_v1 import PodTemplateSpec
from mooring.api.cron_schedules import find_schedule_problem
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

MAX_NAME = 63 - 11
"""The maximum length of a CronJob's name: names of its Jobs append a dash and ten digits."""
_POLICIES = ("Allow", "Forbid", "Replace")


class CronJobStrategy(TemplateStrategy[CronJob]):
    template_path = SPEC.child("jobTemplate", "spec", "template")

    def default(self, obj: CronJob) -> None:
        set_empty(obj.spec, concurrency_policy="Allow", suspend=False)
        set_missing(obj.spec, successful_jobs_history_limit=3, failed_jobs_history_limit=1)
        default_job_template(obj.spec.job_template.spec)

    def get_template(self, obj: CronJob | None) -> PodTemplateSpec | None:
        return obj.spec.job_template.spec.template if obj is not None else None

    def validate(self, obj: CronJob, old: CronJob | None, request: Request) -> Errors:
        spec = obj.spec
        errors = _validate_schedule(spec, old.spec if old is not None else None, SPEC.child("schedule"))
        errors += checks.non_negative(spec.starting_deadline_seconds, SPEC.child("startingDeadlineSeconds"))
        errors += checks.optional(spec.time_zone, SPEC.child("timeZone"), _validate_time_zone)
        errors += checks.one_of(spec.concurrency_policy, _POLICIES, SPEC.child("concurrencyPolicy"))
        old_template = old.spec.job_template if old is not None else None
        errors += _validate_job_template(spec.job_template, old_template, request)
        errors += checks.non_negative_fields(spec, SPEC, "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
        if old is None and len(obj.metadata.name) > MAX_NAME:
            detail = f"must be no more than {MAX_NAME} characters"
            errors.append(field_errors.invalid(Path("metadata.name"), obj.metadata.name, detail))
        return errors


def _validate_schedule(spec: CronJobSpec, old: CronJobSpec | None, path: Path) -> Errors:
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


def _validate_time_zone(name: str, path: Path) -> Errors:
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


def _validate_job_template(template: JobTemplateSpec, old: JobTemplateSpec | None, request: Request) -> Errors:
    here = SPEC.child("jobTemplate", "spec")
    errors = validate_job_spec(template.spec, old.spec if old is not None else None, here, request)
    detail = "`selector` will be auto-generated"
    errors += checks.invalid_if(
        template.spec.selector is not None, here.child("selector"), template.spec.selector, detail
    )
    if template.spec.manual_selector:
        errors.append(field_errors.not_supported(here.child("manualSelector"), True, ["nil", "false"]))
    return errors
