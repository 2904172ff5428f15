"""Size limits of error responses: one rule for every message, cause, quoted value and warning.

A request of a few kilobytes can be invalid in very many fields, each with a long value. So a value is quoted up to
`MAX_QUOTED` characters, a Status has at most `MAX_CAUSES` causes and about `MAX_TEXT` characters of them, and
validation stops after far more than that (``field_errors.py``). Used by ``quoting.py``, ``field_errors.py``,
``errors.py`` and senders of warnings.
"""

from collections.abc import Iterable

MAX_QUOTED = 10_240
"""The length of the longest CEL expression that may be written."""
MAX_CAUSES = 100
MAX_TEXT = 64 * 1024
MAX_WARNINGS = 64
"""Python's HTTP client rejects responses with more than a hundred headers, and warnings are headers."""
_WARNINGS_TEXT, _WARNING_TEXT = 4096, 256
"""Kubernetes' limits: if all warnings together are longer than the first, each is cut to the second."""


def shorten(text: str, limit: int = MAX_TEXT) -> str:
    """Cut a string to a limit and append its original length."""
    return text if len(text) <= limit else f"{text[:limit]}...({len(text)} characters)"


def add_warning(warnings: list[str], text: str) -> None:
    """Add a warning once, up to the limit."""
    if len(warnings) < MAX_WARNINGS and text not in warnings:
        warnings.append(text)


def limited_warnings(texts: Iterable[str]) -> list[str]:
    """Return each warning once, cut as Kubernetes cuts them, up to the limit."""
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
