"""Choose a handful of round, equidistant ticks of an axis."""

import math

_TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
"""Tick steps in seconds up to a day; beyond, whole days."""
_DAY = 86400


def ticks(most: float, wanted: int = 5) -> list[float]:
    """Round numbers from 0 up to at least `most`.

    >>> ticks(90), ticks(7), ticks(0)
    ([0.0, 20.0, 40.0, 60.0, 80.0, 100.0], [0.0, 2.0, 4.0, 6.0, 8.0], [0.0, 1.0])
    """
    if most <= 1:
        return [0.0, 1.0]
    size = 10 ** math.floor(math.log10(most / wanted)) if most > wanted else 1
    step = next(size * part for part in (1, 2, 5, 10) if most / (size * part) <= wanted)
    return [float(step * number) for number in range(math.ceil(most / step) + 1)]


def time_ticks(last: float, wanted: int = 8) -> list[float]:
    """Return round times from 0 to at most `last` seconds.

    >>> time_ticks(100), time_ticks(4000)
    ([0.0, 15.0, 30.0, 45.0, 60.0, 75.0, 90.0], [0.0, 600.0, 1200.0, 1800.0, 2400.0, 3000.0, 3600.0])
    """
    step: float = next((each for each in _TIMES if last / each <= wanted), 0)
    if not step:
        step = _DAY * math.ceil(last / wanted / _DAY)
    return [float(step * number) for number in range(int(last / step) + 1)]
