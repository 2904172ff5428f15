"""Validate non-negative numbers and numbers that may be a percentage (`maxUnavailable`)."""

from mooring.api import field_errors, names
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path
from mooring.api.int_or_string import PercentError, parse_percent
from mooring.api.quantity import Quantity

NEGATIVE = "must be greater than or equal to 0"


def non_negative(value: int | None, path: Path) -> list[FieldError]:
    return [field_errors.invalid(path, value, NEGATIVE)] if value is not None and value < 0 else []


def non_negative_quantity(value: Quantity, path: Path) -> list[FieldError]:
    return [field_errors.invalid(path, str(value), NEGATIVE)] if value.sign() < 0 else []


def number_or_percent(value: int | str, path: Path) -> list[FieldError]:
    """Validate a non-negative number or a percentage."""
    if isinstance(value, int):
        return non_negative(value, path)
    return names.validate(path, value, names.percent(value))


def at_most_all(value: int | str, path: Path) -> list[FieldError]:
    """Validate that a percentage is at most 100; other values pass."""
    part = _percent(value)
    return (
        [field_errors.invalid(path, value, "must not be greater than 100%")] if part is not None and part > 100 else []
    )


def is_zero(value: int | str) -> bool:
    return value == 0 or _percent(value) == 0


def _percent(value: int | str) -> int | None:
    try:
        return parse_percent(value)
    except PercentError:
        return None
