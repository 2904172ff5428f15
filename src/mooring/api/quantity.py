"""Quantities: numbers with a suffix (`100m`, `1.5Gi`, `1e3`), in which Kubernetes measures resources.

`parse` caches its results, because clusters use the same few values. A `Quantity` is an exact number
`unscaled * 10**scale` with its suffix format; `str()` gives Kubernetes' canonical form. Equality, order and hash depend
on the number alone: `1` and `1000m` are equal.

Kubernetes stores small quantities in 64 bits and others as arbitrary decimals, with visible differences: if `value()`
or `milli_value()` does not fit into 64 bits, the first kind gives 0 and the second wraps around. This module does the
same, so that absurd numbers behave equally in both systems. Read next: ``codec.py`` for how quantities pass through
JSON.
"""

import math
import re
from enum import StrEnum
from functools import lru_cache
from typing import cast

NANO = -9
MILLI = -3

_MIN_INT64, _MAX_INT64 = -(1 << 63), (1 << 63) - 1
_TEXT_LIMIT = 1000  # characters; longer numbers would make arithmetic expensive
_NEAR = 18
"""Exponents that differ by at most this are aligned without comparing magnitudes first."""
_ALIGN_LIMIT = 2000  # digits between two operands; beyond that a sum is the larger one
_new = object.__new__
_SYNTAX = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIXES = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIXES = ("", *_BINARY)


class Format(StrEnum):
    """The suffix format of a quantity."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class QuantityError(ValueError):
    """The string is not a quantity. The message is Kubernetes' own."""


_WRONG_FORMAT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_NUMBER = "unable to parse numeric part of quantity"
_WRONG_SUFFIX = "unable to parse quantity's suffix"


class _Fields:
    """The mutable base used during construction: setting fields of the immutable class takes twice as long."""

    __slots__ = ("_fast", "_milli", "_scale", "_text", "_unscaled", "_value", "format")

    format: Format
    _unscaled: int
    _scale: int
    _fast: bool  # Kubernetes would store it in 64 bits
    _text: str | None
    _value: int | None
    _milli: int | None


class Quantity(_Fields):
    """An immutable exact number with its suffix format."""

    __slots__ = ()

    def __new__(
        cls,
        unscaled: int,
        scale: int = 0,
        format: Format = Format.DECIMAL_SI,  # noqa: A002 - Kubernetes' word
        *,
        fast: bool = True,
        text: str | None = None,
    ) -> "Quantity":
        made = _new(_Fields)
        made._unscaled = unscaled
        made._scale = scale
        made.format = format
        made._fast = fast and _MIN_INT64 <= unscaled <= _MAX_INT64
        made._text = text
        made._value = made._milli = None
        made.__class__ = Quantity  # which has the same fields
        return cast("Quantity", made)

    @staticmethod
    def parse(text: str) -> "Quantity":
        """Parse a quantity; raise QuantityError."""
        return parse(text)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"quantities are immutable: cannot set {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"quantities are immutable: cannot delete {name}")

    def __reduce__(self) -> tuple[object, ...]:
        return parse, (str(self),)

    def __copy__(self) -> "Quantity":
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> "Quantity":
        return self

    def __str__(self) -> str:
        text = self._text
        if text is None:
            text = _format_canonical(self)
            object.__setattr__(self, "_text", text)
        return text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def value(self) -> int:
        """Return the number rounded up to an integer."""
        value = self._value
        if value is None:
            value = self.scaled_value(0)
            object.__setattr__(self, "_value", value)
        return value

    def milli_value(self) -> int:
        """Return the number in thousandths, rounded up."""
        milli = self._milli
        if milli is None:
            milli = self.scaled_value(MILLI)
            object.__setattr__(self, "_milli", milli)
        return milli

    def scaled_value(self, scale: int) -> int:
        """Return the number in units of 10**scale, rounded up."""
        shift = self._scale - scale
        if self._fast:
            value = _shift_away_from_zero(self._unscaled, shift)
            return value if _fits(value) else 0
        return _wrap_int64(self._unscaled, shift)

    def as_int64(self) -> int | None:
        """Return the number if Kubernetes stores it as a 64-bit integer (not for `1.0` or `1000m`)."""
        if not self._fast or self._scale < 0 or (self._unscaled and self._scale > 18):
            return None
        value = self._unscaled * 10**self._scale if self._unscaled else 0
        return value if _fits(value) else None

    def as_approximate_float(self) -> float:
        """Return an approximate float, infinite on overflow."""
        if self._scale == 0 and self._fast:
            return float(self._unscaled)
        try:
            power = float(f"1e{self._scale}")
            return float(self._unscaled) * power if self._unscaled else 0.0
        except OverflowError:
            return math.copysign(math.inf, self._unscaled)

    def sign(self) -> int:
        """Return -1, 0 or 1 for a negative number, zero or a positive number."""
        return (self._unscaled > 0) - (self._unscaled < 0)

    def is_zero(self) -> bool:
        """Whether the number is zero."""
        return self._unscaled == 0

    def __add__(self, other: "Quantity") -> "Quantity":
        format_ = self.format if self._unscaled else other.format
        fast = self._fast and other._fast
        if not other._unscaled:
            return Quantity(self._unscaled, self._scale, format_, fast=fast)
        if not self._unscaled:
            return Quantity(other._unscaled, other._scale, format_, fast=fast)
        if self._scale == other._scale:
            return Quantity(self._unscaled + other._unscaled, self._scale, format_, fast=fast)
        high, low = (self, other) if self._scale >= other._scale else (other, self)
        shift = high._scale - low._scale
        if shift > _ALIGN_LIMIT:
            largest = max(self, other, key=_magnitude)
            return Quantity(largest._unscaled, largest._scale, format_, fast=fast)
        aligned = high._unscaled * 10**shift
        return Quantity(aligned + low._unscaled, low._scale, format_, fast=fast and _fits(aligned))

    def __neg__(self) -> "Quantity":
        return Quantity(-self._unscaled, self._scale, self.format, fast=self._fast)

    def __sub__(self, other: "Quantity") -> "Quantity":
        if self._fast and other._fast:
            # Kubernetes changes the sign in 64 bits, where the smallest number stays as it is.
            negated = _int_of_bits(-other._unscaled, 64)
            found = self + Quantity(negated, other._scale, other.format)
            if found._fast:
                return found
        return self + -other

    def __mul__(self, factor: int) -> "Quantity":
        return Quantity(self._unscaled * factor, self._scale, self.format, fast=self._fast)

    def round_up(self, scale: int) -> "Quantity":
        """Round away from zero to a multiple of 10**scale."""
        if self._scale >= scale:
            return self
        rounded = _shift_away_from_zero(self._unscaled, self._scale - scale)
        return Quantity(rounded, scale, self.format, fast=self._fast)

    def compare(self, other: "Quantity") -> int:
        """Return -1, 0 or 1."""
        if self is other:
            return 0
        a, b = self._unscaled, other._unscaled
        shift = self._scale - other._scale
        if shift and a and b and (a > 0) == (b > 0):
            if not -_NEAR <= shift <= _NEAR:
                # Only numbers of about the same magnitude need a common exponent.
                a_digits, b_digits = _magnitude(self), _magnitude(other)
                if abs(a_digits - b_digits) > 1:
                    larger = 1 if a_digits > b_digits else -1
                    return larger if a > 0 else -larger
            if shift > 0:
                a *= 10**shift
            else:
                b *= 10**-shift
        return (a > b) - (a < b)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.compare(other) == 0

    def __lt__(self, other: "Quantity") -> bool:
        return self.compare(other) < 0

    def __le__(self, other: "Quantity") -> bool:
        return self.compare(other) <= 0

    def __gt__(self, other: "Quantity") -> bool:
        return self.compare(other) > 0

    def __ge__(self, other: "Quantity") -> bool:
        return self.compare(other) >= 0

    def __hash__(self) -> int:
        return hash(_strip_zeroes(self._unscaled, self._scale))


@lru_cache(maxsize=8192)
def parse(text: str) -> Quantity:
    """Parse a quantity; raise QuantityError. Results are cached."""
    match = _SYNTAX.fullmatch(text) if text else None
    if match is None:
        raise QuantityError(_WRONG_FORMAT)
    sign, number, fraction, suffix = match.groups(default="")
    if len(text) > _TEXT_LIMIT:
        raise QuantityError(_WRONG_NUMBER)
    exponent, format_ = _suffix(suffix)
    number = number.lstrip("0") or "0"
    if format_ is Format.BINARY_SI:
        fast = not fraction and len(number) + exponent * 3 // 10 <= 14
        scale = 0
        unscaled = int(number + fraction) << exponent
    else:
        fast = len(number) + len(fraction) <= 18 and exponent - len(fraction) >= NANO
        scale = exponent
        unscaled = int(number + fraction)
    scale -= len(fraction)
    if fast:
        kept = text if _is_kept_as_written(number + fraction, scale, format_) else None
        return Quantity(-unscaled if sign == "-" else unscaled, scale, format_, text=kept)
    return _decimal(unscaled, scale, format_, negative=sign == "-")


def _decimal(unscaled: int, scale: int, format_: Format, *, negative: bool) -> Quantity:
    """Build a quantity that Kubernetes stores as a decimal: in nanos, rounded up, binary ones capped at 2**63-1."""
    if scale < NANO:
        unscaled, scale = _shift_away_from_zero(unscaled, scale - NANO), NANO
    elif unscaled and scale <= _ALIGN_LIMIT:
        unscaled, scale = unscaled * 10 ** (scale - NANO), NANO
    if format_ is Format.BINARY_SI:
        one = 10 ** max(-scale, 0)
        if unscaled > _MAX_INT64 * one:
            unscaled, scale = _MAX_INT64, 0
        elif 0 < unscaled < one:
            format_ = Format.DECIMAL_SI
    return Quantity(-unscaled if negative else unscaled, scale, format_, fast=False)


def _suffix(suffix: str) -> tuple[int, Format]:
    exponent = _DECIMAL.get(suffix)
    if exponent is not None:
        return exponent, Format.DECIMAL_SI
    exponent = _BINARY.get(suffix)
    if exponent is not None:
        return exponent, Format.BINARY_SI
    digits = suffix[1:]
    if suffix[0] not in "eE" or not digits.lstrip("+-").isdigit():
        raise QuantityError(_WRONG_SUFFIX)
    exponent = int(digits)
    if not -(1 << 63) <= exponent < 1 << 63:
        raise QuantityError(_WRONG_SUFFIX)
    return _int_of_bits(exponent, 32), Format.DECIMAL_EXPONENT


def _is_kept_as_written(digits: str, scale: int, format_: Format) -> bool:
    """Whether Kubernetes considers the string canonical; its check is approximate: `+1` and `1.500` pass."""
    if format_ is Format.BINARY_SI:
        return int(digits) % 8 != 0
    return scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _format_canonical(quantity: Quantity) -> str:
    unscaled, scale = _strip_zeroes(quantity._unscaled, quantity._scale)
    if not unscaled:
        return "0"
    if quantity.format is Format.BINARY_SI and 0 <= scale < 40:
        value, times = unscaled * 10**scale, 0
        if abs(value) >= 1024:
            while value % 1024 == 0 and times < len(_BINARY):
                value, times = value // 1024, times + 1
            return f"{value}{_BINARY_SUFFIXES[times]}"
    surplus = scale % 3
    unscaled, scale = unscaled * 10**surplus, scale - surplus
    if quantity.format is not Format.DECIMAL_EXPONENT and scale in _DECIMAL_SUFFIXES:
        return f"{unscaled}{_DECIMAL_SUFFIXES[scale]}"
    return f"{unscaled}e{scale}" if scale else str(unscaled)


def _fits(number: int) -> bool:
    return _MIN_INT64 <= number <= _MAX_INT64


def _strip_zeroes(unscaled: int, scale: int) -> tuple[int, int]:
    if not unscaled:
        return 0, 0
    while unscaled % 10 == 0:
        unscaled, scale = unscaled // 10, scale + 1
    return unscaled, scale


def _magnitude(quantity: Quantity) -> int:
    return int(abs(quantity._unscaled).bit_length() * 0.30103) + quantity._scale if quantity._unscaled else -(1 << 40)


def _shift_away_from_zero(number: int, shift: int) -> int:
    """Return `number * 10**shift` rounded away from zero; values far beyond 64 bits are capped there."""
    if not number:
        return 0
    if shift >= 0:
        return int(number * 10 ** min(shift, 40))
    rounded: int = 1 if -shift > 2 * _TEXT_LIMIT else -(-abs(number) // 10**-shift)
    return rounded if number > 0 else -rounded


def _wrap_int64(number: int, shift: int) -> int:
    """Return `number * 10**shift` rounded up and truncated to 64 bits, as Kubernetes does for decimals."""
    if shift >= 0:
        return _int_of_bits(number * pow(10, shift, 1 << 64), 64)
    divisor = 10**-shift
    # Kubernetes adds one if there is a remainder. Large numbers are floored; all others, also large negative ones, are
    # first truncated to 64 bits and then divided towards zero.
    if number >= _MAX_INT64 or divisor > 10**18:
        quotient, remainder = divmod(number, divisor)
    else:
        number = _int_of_bits(number, 64)
        quotient = abs(number) // divisor * (1 if number >= 0 else -1)
        remainder = number - quotient * divisor
    return _int_of_bits(quotient + bool(remainder), 64)


def _int_of_bits(number: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (number + half) % (1 << bits) - half
