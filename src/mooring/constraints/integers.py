"""Canonical integers, which ``Lt`` and ``Gt`` require in tolerations and in taint values.

Used by `tolerations` and by validation. (Node affinity's laxer parsing is
`mooring.api.label_selector.parse_lax_int64`.)
"""

import re

_CANONICAL = re.compile(r"0|-?[1-9][0-9]{0,18}")


def parse_canonical_int64(text: str) -> int | None:
    """Parse a signed 64-bit integer in canonical form, as `str()` would print it; otherwise return None."""
    if not _CANONICAL.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None
