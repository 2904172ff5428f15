"""Natural sort order of names: node-2 before node-10."""

import re

_DIGITS = re.compile(r"([0-9]+)")


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that compares digits in names as numbers."""
    return tuple(
        (0, int(part), part) if part[0] in "0123456789" else (1, 0, part) for part in _DIGITS.split(name) if part
    )
