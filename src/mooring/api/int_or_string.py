"""Fields that take a number or a percentage (`maxUnavailable: 1`, `maxUnavailable: 25%`).

Such a field is `int | str` in the structs. Called by workload controllers, disruption budgets and validation.
"""

import re

_PERCENT = re.compile("([+-]?[0-9]+)%")


class PercentError(ValueError):
    """The string is not a percentage."""


def parse_percent(value: int | str) -> int | None:
    """Return the percentage of a string; None for a number. Raise PercentError for other strings."""
    if isinstance(value, int):
        return None
    match = _PERCENT.fullmatch(value)
    if match is None or len(value) > 18:
        raise PercentError(f'invalid value for IntOrString: "{value}" is neither an integer nor a percentage')
    return int(match[1])


def scaled_value(value: int | str, total: int, *, round_up: bool) -> int:
    """Return a number unchanged, or a percentage of `total`. Raise PercentError for other strings.

    >>> scaled_value("25%", 10, round_up=True), scaled_value("25%", 10, round_up=False)
    (3, 2)
    """
    if isinstance(value, int):
        return value
    hundredths = (parse_percent(value) or 0) * total
    return -(-hundredths // 100) if round_up else hundredths // 100
