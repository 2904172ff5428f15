"""Compute the times of a cron schedule: five fields, or a name such as `@daily` or `@every 90m`.

Admission has validated the syntax (``mooring.admission.cron_job``). A time that daylight saving skips is not
served; one that it repeats is served once.

    >>> from datetime import UTC, datetime
    >>> Schedule("30 8 * * mon-fri", UTC).after(datetime(2026, 1, 2, 9, tzinfo=UTC)).isoformat()
    '2026-01-05T08:30:00+00:00'
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo

from mooring.admission.cron_job import find_schedule_problem
from mooring.api.times import add_seconds

_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_YEARS = 5
"""A schedule without a time in so many years (30 February) has none."""


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
            zone, text = zone_of(match[1]), text[match.end() :]
        self._zone = zone
        self._every = _seconds(text.removeprefix("@every ")) if text.startswith("@every ") else None
        if self._every is None:
            self._read(_NAMED.get(text, text).split())

    def _read(self, fields: list[str]) -> None:
        minute, hour, day, month, weekday = fields
        self._minutes = _values(minute, 0, 59)
        self._hours = _values(hour, 0, 23)
        self._days = _values(day, 1, 31)
        self._months = _values(month, 1, 12, _MONTHS, 1)
        self._weekdays = _values(weekday, 0, 6, _DAYS)
        self._any_day = day[0] in "*?"
        self._any_weekday = weekday[0] in "*?"

    def after(self, time: datetime) -> datetime | None:
        """Return the first scheduled time after `time`; None if there is none within `_YEARS`."""
        if self._every is not None:
            return add_seconds(time.replace(microsecond=0), self._every)
        if not _FIRST_YEAR < time.year < _LAST_YEAR:  # beyond the range of time zone data
            return None
        local = time.astimezone(self._zone).replace(second=0, microsecond=0, tzinfo=None) + timedelta(minutes=1)
        last = local.year + _YEARS
        while local.year <= last:
            if local.month not in self._months or not self._is_day(local):
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

    def _is_day(self, local: datetime) -> bool:
        """With both a day of the month and of the week, either matches, as in cron."""
        day = local.day in self._days
        weekday = local.isoweekday() % 7 in self._weekdays
        return day and weekday if self._any_day or self._any_weekday else day or weekday


def zone_of(name: str | None) -> tzinfo:
    """Return a time zone by name, by default UTC. Raise ScheduleError."""
    if name is None:
        return UTC
    import zoneinfo  # noqa: PLC0415 - few name a zone, and it takes long to load

    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ScheduleError(f"unknown time zone {name}") from error


def _values(text: str, low: int, high: int, names: tuple[str, ...] = (), first: int = 0) -> frozenset[int]:
    found: set[int] = set()
    for part in filter(None, text.lower().split(",")):
        span, _, step = part.partition("/")
        begin, _, end = span.partition("-")
        if begin in ("*", "?"):
            start, stop = low, high
        else:
            start = names.index(begin) + first if begin in names else int(begin)
            stop = (names.index(end) + first if end in names else int(end)) if end else high if step else start
        found.update(range(start, stop + 1, int(step or 1)))
    return frozenset(found)


def _seconds(text: str) -> float:
    parts = re.findall(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)", text)
    return max(1.0, min(1e12, sum(float(number) * _UNITS[unit] for number, unit in parts)) // 1)
