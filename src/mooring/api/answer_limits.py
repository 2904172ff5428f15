"""How long an answer about what is wrong may get: one rule, for every message, cause, quoted value and warning.

A request of a few kilobytes can be wrong in very many places, and each of them could be told with all of a long value.
So a value is quoted up to `MAX_QUOTED` characters, a Status has at most `MAX_CAUSES` causes and about `MAX_TEXT`
characters of them, and a validation stops that has found far more than that (``field_errors.py``). Used by
``quoting.py``, ``field_errors.py``, ``errors.py`` and whoever sends warnings.
"""

from collections.abc import Iterable

MAX_QUOTED = 10_240
"""As long as the longest CEL expression that may be written."""
MAX_CAUSES = 100
MAX_TEXT = 64 * 1024
MAX_WARNINGS = 64
"""Python's HTTP client refuses answers with more than a hundred headers, of which these are some."""
_WARNINGS_TEXT, _WARNING_TEXT = 4096, 256
"""Kubernetes' numbers: when the texts of all warnings are longer together, each is cut."""


def shortened(text: str, limit: int = MAX_TEXT) -> str:
    """A text that is not longer than a limit, apart from saying how long it was."""
    return text if len(text) <= limit else f"{text[:limit]}...({len(text)} characters)"


def add_warning(warnings: list[str], text: str) -> None:
    """Add a text once, unless there are more already than clients read."""
    if len(warnings) < MAX_WARNINGS and text not in warnings:
        warnings.append(text)


def limited_warnings(texts: Iterable[str]) -> list[str]:
    """Each text once, cut as Kubernetes cuts them where they are long together, up to as many as clients read."""
    different = list(dict.fromkeys(filter(None, texts)))[:MAX_WARNINGS]
    if sum(map(len, different)) <= _WARNINGS_TEXT:
        return different
    kept: list[str] = []
    written = 0
    for text in different:
        if written >= _WARNINGS_TEXT:
            break
        kept.append(text[:_WARNING_TEXT])
        written += len(kept[-1])
    return kept
