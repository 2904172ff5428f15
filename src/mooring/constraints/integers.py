"""The canonical integers that ``Lt`` and ``Gt`` demand in tolerations, on both sides.

Called by `tolerations` and by validation. (Node affinity's laxer reading is `mooring.api.label_selector.lax_int64`.)
"""

import re

_CANONICAL = re.compile(r"0|-?[1-9][0-9]{0,18}")


def canonical_int64(text: str) -> int | None:
    """The number in `text`, if it is written as `str()` of a signed 64-bit integer would write it."""
    if not _CANONICAL.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None
