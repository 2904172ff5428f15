"""CronJobs: create a Job at each time of a schedule.

The Job's name contains the time, so that no time is served twice, also after a crash. The latest missed time is served
once, within `startingDeadlineSeconds`. The concurrency policy decides what happens while a Job still runs. A time that
daylight saving skips is not served; one that it repeats is served once. Admission has validated the syntax
(``mooring.admission.cron_job``).
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec
from msgspec import structs

from mooring.api import errors, times
from mooring.api.batch_v1 import CronJob, CronJobStatus, Job
from mooring.api.core_v1 import ObjectReference
from mooring.api.cron_schedules import NAMED_SCHEDULES, find_schedule_problem, parse_fields
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import LabelSelector, ObjectMeta
from mooring.api.states import controller_of
from mooring.api.times import add_seconds
from mooring.controllers.conditions import is_condition_true
from mooring.controllers.controller import Context
from mooring.controllers.workloads import job as jobs
from mooring.controllers.workloads.ownership import Children, build_controller_reference
from mooring.controllers.workloads.pod_control import describe_rejection, is_namespace_terminating
from mooring.controllers.workloads.workload import WorkloadController, find_shortest_wait

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_YEARS = 5
"""The number of years in which a schedule must have a time; otherwise (30 February) it has none."""


_FIRST_YEAR, _LAST_YEAR = 1, 9999 - _YEARS


class ScheduleError(ValueError):
    """The schedule or the time zone is invalid."""


class Schedule:
    """The times at which a CronJob creates Jobs."""

    def __init__(self, text: str, zone: tzinfo) -> None:
        problem = find_schedule_problem(text)
        if problem is not None:
            raise ScheduleError(problem)
        match = re.match(r"(?:CRON_)?TZ=(\S+)\s+", text)
        if match is not None:
            zone, text = load_time_zone(match[1]), text[match.end() :]
        self._zone = zone
        self._every = _parse_duration(text.removeprefix("@every ")) if text.startswith("@every ") else None
        if self._every is None:
            text = NAMED_SCHEDULES.get(text, text)
            self._minutes, self._hours, self._days, self._months, self._weekdays = parse_fields(text)
            _, _, day, _, weekday = text.split()
            self._any_day, self._any_weekday = day[0] in "*?", weekday[0] in "*?"

    def find_time_after(self, time: datetime) -> datetime | None:
        """Return the first scheduled time after `time`; None if there is none within 5 years."""
        if self._every is not None:
            return add_seconds(time.replace(microsecond=0), self._every)
        if not _FIRST_YEAR < time.year < _LAST_YEAR:  # beyond the range of time zone data
            return None
        local = time.astimezone(self._zone).replace(second=0, microsecond=0, tzinfo=None) + timedelta(minutes=1)
        last = local.year + _YEARS
        while local.year <= last:
            if local.month not in self._months or not self._is_day_scheduled(local):
                local = local.replace(hour=0, minute=0) + timedelta(days=1)
            elif local.hour not in self._hours:
                local = local.replace(minute=0) + timedelta(hours=1)
            elif local.minute not in self._minutes:
                local += timedelta(minutes=1)
            else:
                found = local.replace(tzinfo=self._zone).astimezone(UTC)
                exists = found.astimezone(self._zone).replace(tzinfo=None) == local
                if exists and found > time:
                    return found
                local += timedelta(minutes=1)
        return None

    def _is_day_scheduled(self, local: datetime) -> bool:
        """Return whether a date matches; of both day of month and day of week, one suffices, as in cron."""
        day = local.day in self._days
        weekday = local.isoweekday() % 7 in self._weekdays
        return day and weekday if self._any_day or self._any_weekday else day or weekday


def load_time_zone(name: str | None) -> tzinfo:
    """Return a time zone by name, UTC without one. Raise ScheduleError if the name is unknown."""
    if name is None:
        return UTC
    import zoneinfo  # noqa: PLC0415 - few name a zone, and it takes long to load

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ScheduleError(f"unknown time zone {name}") from error


def _parse_duration(text: str) -> float:
    parts = re.findall(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)", text)
    return max(1.0, min(1e12, sum(float(number) * _UNITS[unit] for number, unit in parts)) // 1)


SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_MANY = 100
_PATIENCE = 0.1
"""Seconds added when waiting for a scheduled time, so that it has certainly passed."""


class MissedTimes(msgspec.Struct, frozen=True):
    """The scheduled times since the last Job: the latest, whether there are more than 100, and the next one."""

    latest: datetime | None
    many: bool
    next: datetime | None


class CronJobController(WorkloadController[CronJob]):
    """The controller of CronJobs, which creates their Jobs."""

    name = "cronjob"
    component = "cronjob-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context, CronJob)
        self._jobs = Children(context.informers, Job)
        self.follow_children(self._jobs)

    def selector_of(self, owner: CronJob) -> LabelSelector | None:
        del owner  # Jobs are found by owner reference
        return None

    async def sync(self, key: str, owner: CronJob) -> float | None:
        children = self._jobs.owned_by(owner)
        status = self._compute_active_jobs(owner, children)
        await self._delete_old_jobs(key, owner, children)
        wait: float | None = None
        if owner.metadata.deletion_timestamp is None and not owner.spec.suspend:
            wait = await self._create_due_job(key, owner, status)
        await self.write_status(key, owner, status)
        return wait

    def _compute_active_jobs(self, owner: CronJob, children: Sequence[Job]) -> CronJobStatus:
        status = structs.replace(owner.status, active=list(owner.status.active))
        known = {reference.uid for reference in status.active}
        running = {job.metadata.uid: job for job in children if not jobs.is_finished(job)}
        for job in children:
            uid = job.metadata.uid
            if uid in known and uid not in running:
                kind = next(each.type for each in job.status.conditions if each.type in (jobs.COMPLETE, jobs.FAILED))
                message = f"Saw completed job: {job.metadata.name}, condition: {kind}"
                self.recorder.event(owner, "Normal", "SawCompletedJob", message)
            elif uid in running and uid not in known:
                message = f"Saw a job that the controller did not create or forgot: {job.metadata.name}"
                self.recorder.event(owner, "Warning", "UnexpectedJob", message)
                status.active.append(self._build_job_reference(job))
            done = job.status.completion_time
            if done and (status.last_successful_time is None or done > status.last_successful_time):
                status.last_successful_time = done
        status.active = [reference for reference in status.active if reference.uid in running]
        return status

    def _build_job_reference(self, job: Job) -> ObjectReference:
        meta = job.metadata
        return ObjectReference(
            api_version="batch/v1",
            kind="Job",
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )

    async def _delete_old_jobs(self, key: str, owner: CronJob, children: Sequence[Job]) -> None:
        for kind, limit in (
            (jobs.COMPLETE, owner.spec.successful_jobs_history_limit),
            (jobs.FAILED, owner.spec.failed_jobs_history_limit),
        ):
            ended = [
                job
                for job in children
                if is_condition_true(job.status.conditions, kind) and job.metadata.deletion_timestamp is None
            ]
            ended.sort(key=lambda job: (job.status.start_time or "", job.metadata.name))
            for job in ended[: max(0, len(ended) - limit)] if limit is not None else ():
                await self._delete_job(key, owner, job)

    async def _delete_job(self, key: str, owner: CronJob, job: Job) -> None:
        if await self._jobs.delete(key, job, self.expectations, propagation_policy="Background"):
            self.recorder.event(owner, "Normal", "SuccessfulDelete", f"Deleted job {job.metadata.name}")

    async def _create_due_job(self, key: str, owner: CronJob, status: CronJobStatus) -> float | None:
        now = self.clock.now()
        try:
            schedule = Schedule(owner.spec.schedule, load_time_zone(owner.spec.time_zone))
        except ScheduleError as error:
            reason, message = "UnparseableSchedule", f'unparseable schedule: "{owner.spec.schedule}"'
            if "time zone" in str(error):
                reason, message = "UnknownTimeZone", f'invalid timeZone: "{owner.spec.time_zone}"'
            self.recorder.event(owner, "Warning", reason, f"{message}: {error}")
            return None
        missed = find_missed_times(owner, schedule, now)
        due = schedule.find_time_after(now) if missed.latest is not None else missed.next
        wait = (due - now).total_seconds() + _PATIENCE if due is not None else None
        if missed.many:
            message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self.recorder.event(owner, "Warning", "TooManyMissedTimes", message)
        if missed.latest is None:
            return wait
        deadline = owner.spec.starting_deadline_seconds
        if deadline is not None and times.add_seconds(missed.latest, deadline) < now:
            message = f"Missed scheduled time to start a job: {times.to_seconds(missed.latest)}"
            self.recorder.event(owner, "Warning", "MissSchedule", message)
            return wait
        if status.active and owner.spec.concurrency_policy == "Forbid":
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.recorder.event(owner, "Normal", "JobAlreadyActive", message)
            return wait
        if owner.spec.concurrency_policy == "Replace":
            for job in self._jobs.owned_by(owner):
                if any(reference.uid == job.metadata.uid for reference in status.active):
                    await self._delete_job(key, owner, job)
            status.active = []
        return find_shortest_wait(wait, await self._create_job(key, owner, status, missed.latest))

    async def _create_job(self, key: str, owner: CronJob, status: CronJobStatus, time: datetime) -> float | None:
        """Create the Job of a scheduled time; if the server rejects it, return in how many seconds to retry."""
        template_rejections, template = self.pod_control.template_rejections, owner.spec.job_template
        held = template_rejections.find_backoff(owner, template)
        if held is not None:
            return held[1]
        made = build_job(owner, time)
        made.metadata.owner_references = [build_controller_reference(self.client, owner)]
        try:
            job = await self.client.create(made)
        except errors.AlreadyExists:
            job = await self.client.get(Job, made.metadata.name, made.metadata.namespace)
            holder = controller_of(job.metadata)
            if holder is None or holder.uid != owner.metadata.uid:
                raise
        except StatusError as error:
            if is_namespace_terminating(error):
                return None
            self.recorder.event(
                owner, "Warning", "FailedCreate", f"Error creating job: {describe_rejection(error, owner)}"
            )
            again = template_rejections.record_rejection(owner, template, error)
            if again is None:
                raise
            return again
        else:
            template_rejections.forget(owner)
            self.recorder.event(owner, "Normal", "SuccessfulCreate", f"Created job {job.metadata.name}")
        self.expectations.record_write(key, self._jobs.informer, job)
        if not jobs.is_finished(job) and all(each.uid != job.metadata.uid for each in status.active):
            status.active.append(self._build_job_reference(job))
        status.last_schedule_time = times.to_seconds(time)
        return None


def find_missed_times(owner: CronJob, schedule: Schedule, now: datetime) -> MissedTimes:
    """Find the scheduled times up to `now` without a Job; after 100 of them, find the latest one by bisection."""
    stamp, deadline = owner.status.last_schedule_time, owner.spec.starting_deadline_seconds
    stamp = stamp or owner.metadata.creation_timestamp
    since = times.parse(stamp) if stamp else now
    if deadline is not None:
        since = max(since, times.add_seconds(now, -deadline))
    time, latest, count = schedule.find_time_after(since), None, 0
    while time is not None and time <= now:
        latest, count = time, count + 1
        time = schedule.find_time_after(time)
        if count > _MANY and time is not None and time <= now:
            latest = _bisect_latest_time(schedule, latest, now)
            break
    return MissedTimes(latest, count > _MANY, time)


def _bisect_latest_time(schedule: Schedule, found: datetime, now: datetime) -> datetime:
    step = (now - found) / 2
    while step > timedelta(minutes=1):
        time = schedule.find_time_after(now - step)
        if time is not None and time <= now:
            found = time
        step /= 2
    while (time := schedule.find_time_after(found)) is not None and time <= now:
        found = time
    return found


def build_job(owner: CronJob, time: datetime) -> Job:
    """Build the Job of a scheduled time; its name ends with the time in minutes."""
    template = owner.spec.job_template
    annotations = {**template.metadata.annotations, SCHEDULED_AT: times.to_seconds(time)}
    meta = ObjectMeta(
        name=f"{owner.metadata.name}-{int(time.timestamp()) // 60}",
        namespace=owner.metadata.namespace,
        labels=template.metadata.labels,
        annotations=annotations,
    )
    return Job(metadata=meta, spec=template.spec)
