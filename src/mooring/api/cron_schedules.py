"""Check the schedules of CronJobs: five fields, or a name such as `@daily` or `@every 90m`.

The server validates CronJobs with it, the controller checks stored ones, without loading the rules of admission.

>>> find_schedule_problem("*/15 8-18 * * mon-fri") is None
True
>>> find_schedule_problem("61 * * * *")
'end of range (61) above maximum (59): 61'
"""

import re
from itertools import chain

import msgspec

_MAX_SCHEDULE_CHARACTERS = 4096
NAMED_SCHEDULES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
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
