"""Integers in constraints: the canonical form that tolerations demand, and the laxer one of node affinity.

Called by `tolerations`, `node_selector` and validation.
"""

import re

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_CANONICAL = re.compile(r"0|-?[1-9][0-9]{0,18}")
_LAX = re.compile(r"[+-]?[0-9]+")


def canonical_int64(text: str) -> int | None:
    """The number in `text`, if it is written as ``str()`` of a signed 64-bit integer would write it."""
    if not _CANONICAL.fullmatch(text):
        return None
    return _in_range(int(text))


def lax_int64(text: str) -> int | None:
    """The number in `text` as node affinity's ``Gt`` and ``Lt`` read it: a sign and leading zeros are allowed."""
    if not _LAX.fullmatch(text):
        return None
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > 19:  # beyond 64 bits; Python refuses to convert very long texts
        return None
    return _in_range(-int(digits or "0") if text[0] == "-" else int(digits or "0"))


def _in_range(number: int) -> int | None:
    return number if INT64_MIN <= number <= INT64_MAX else None
