"""Durations as Go prints them and as Kubernetes' flags and files use them: `15s`, `1m30s`, `500ms`."""

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?(?:ns|us|µs|ms|s|m|h))+")
_PART = re.compile(r"([0-9.]+)(ns|us|µs|ms|s|m|h)")


def parse_seconds(text: str) -> float:
    """Parse a duration into seconds; raise ValueError if it is malformed.

    >>> parse_seconds("1m30s")
    90.0
    """
    if not _DURATION.fullmatch(text):
        raise ValueError(f'"{text}" is not a duration; write one as in 15s or 1m30s')
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
