"""Times of the API: RFC 3339 strings, to the second (`metav1.Time`) or to the microsecond (`metav1.MicroTime`).

Structs keep the strings; `parse` converts them. Python's `fromisoformat` accepts far more than RFC 3339, so the syntax
is checked here.
"""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_FRACTION = 7
"""The group of the fraction."""
_SHOWN = 100
_TO_SECONDS = len("2006-01-02T15:04:05Z")
_MAX_CACHED_LENGTH = len("2006-01-02T15:04:05.000000000+00:00")


class TimeError(ValueError):
    """The string is not an RFC 3339 time; the message shows the format."""


def parse(text: str) -> datetime:
    """Parse a time into UTC, truncated to microseconds. Raise TimeError."""
    # Objects created together have the same times. A fraction may have any number of digits: long strings are not
    # cached.
    return _parse_cached(text) if len(text) <= _MAX_CACHED_LENGTH else _parse_uncached(text)


def parse_microseconds(text: str) -> datetime:
    """Parse a `metav1.MicroTime`, which has exactly six decimals."""
    match = _RFC3339.fullmatch(text)
    if match is None or len(match[_FRACTION] or "") != 6:
        raise TimeError(
            f'"{text[:_SHOWN]}" is not a time as in "2006-01-02T15:04:05.000000Z" (RFC 3339, with six digits)'
        )
    return parse(text)


def _parse_uncached(text: str) -> datetime:
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise TimeError(f'"{text[:_SHOWN]}" is not a time as in "2006-01-02T15:04:05Z" (RFC 3339)')
    if len(text) == _TO_SECONDS:
        with suppress(ValueError):  # the code below reports the error
            return datetime.fromisoformat(text)
    *numbers, fraction, sign, hours, minutes = match.groups()
    year, month, day, hour, minute, second = map(int, numbers)
    microsecond = int((fraction or "")[:6].ljust(6, "0"))
    try:
        offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        zone = timezone(-offset if sign == "-" else offset)
        return datetime(year, month, day, hour, minute, second, microsecond, zone).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise TimeError(f'"{text[:_SHOWN]}" is not a time: {error}') from None


_parse_cached = lru_cache(maxsize=4096)(_parse_uncached)


def add_seconds(time: datetime, seconds: float) -> datetime:
    """Add seconds to an instant in UTC; the last instant of the calendar where that is beyond it.

    >>> add_seconds(datetime(2026, 1, 1, tzinfo=UTC), 2**62).year
    9999
    """
    try:
        return time + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if seconds > 0 else datetime.min.replace(tzinfo=UTC)


def to_seconds(time: datetime) -> str:
    """Format as `2006-01-02T15:04:05Z`, for object timestamps."""
    utc = time if time.tzinfo is UTC else time.astimezone(UTC)
    return _format_second((utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second))


@lru_cache(maxsize=64)
def _format_second(second: tuple[int, int, int, int, int, int]) -> str:
    """Format and cache: many objects are written in the same second."""
    return "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z".format(*second)


def to_microseconds(time: datetime) -> str:
    """Format as `2006-01-02T15:04:05.000000Z`, for leases and events."""
    return f"{to_seconds(time)[:-1]}.{time.microsecond:06}Z"
