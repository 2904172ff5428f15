"""The components of a timestamp in a time zone: `moment.getHours('Europe/Berlin')`. Called through standard.py."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final

from .errors import EvaluationError
from .values import NANOS, Duration, Timestamp

_OFFSET: Final = re.compile(r"([+-]?)(\d{1,2}):(\d{2})", re.ASCII)


@lru_cache(maxsize=256)
def _zone(name: str) -> tzinfo:
    """Return a zone by name, or by offset such as `-08:00`; without a sign it is east of Greenwich."""
    if name in ("", "UTC", "Z"):
        return UTC
    match = _OFFSET.fullmatch(name)
    try:
        if match is not None:
            offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
            return timezone(-offset if match[1] == "-" else offset)
        from zoneinfo import ZoneInfo  # noqa: PLC0415  most expressions need no zones, and it takes long to import

        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise EvaluationError(f"unknown time zone {name}") from None


Part = Callable[[datetime], int]

PARTS: Final[dict[str, Part]] = {
    "getFullYear": lambda local: local.year,
    "getMonth": lambda local: local.month - 1,
    "getDayOfYear": lambda local: local.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda local: local.day - 1,
    "getDate": lambda local: local.day,
    "getDayOfWeek": lambda local: local.isoweekday() % 7,
    "getHours": lambda local: local.hour,
    "getMinutes": lambda local: local.minute,
    "getSeconds": lambda local: local.second,
    "getMilliseconds": lambda local: local.microsecond // 1_000,
}
"""Months, days of the month and of the year count from 0, Sunday is 0."""


def in_zone(part: Part) -> Callable[[Timestamp, str], int]:
    def read(moment: Timestamp, zone: str) -> int:
        try:
            return part(moment.to_datetime().astimezone(_zone(zone)))
        except OverflowError:
            raise EvaluationError("timestamp overflow") from None

    return read


DURATION_UNITS: Final = {
    "getHours": 3_600 * NANOS,
    "getMinutes": 60 * NANOS,
    "getSeconds": NANOS,
    "getMilliseconds": 1_000_000,
}


def in_units(unit: int) -> Callable[[Duration], int]:
    """Return a function from a duration to its number of whole units, rounded towards zero."""
    return lambda length: -(-length.nanos // unit) if length.nanos < 0 else length.nanos // unit
