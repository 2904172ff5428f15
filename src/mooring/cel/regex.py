"""Regular expressions with RE2, which matches in linear time. Called by standard.py and libraries."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from .errors import EvaluationError

_MEMORY: Final = 2**21
"""Memory limit per pattern; RE2's default of 8 MiB is much for a cache of many."""
_MAX_CACHED_LENGTH: Final = 256
"""Results for longer strings are not cached."""


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Any:
    """Compile a pattern, with `search` and `finditer` as in Python's `re`."""
    import re2  # noqa: PLC0415  loading the library takes longer than everything else in this package

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as problem:
        raise EvaluationError(f"error parsing regexp: {_translate_to_go(problem)}") from None


_GO_MESSAGES: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "trailing \\": "trailing backslash at end of expression",
    "invalid perl operator": "invalid or unsupported Perl syntax",
}


def _translate_to_go(problem: Exception) -> str:
    given = problem.args[0] if problem.args else ""
    text = given.decode(errors="replace") if isinstance(given, bytes) else str(given)
    what, _, where = text.partition(": ")
    what = _GO_MESSAGES.get(what, what)
    return f"{what}: `{where}`" if where else what


def matches(text: str, pattern: str) -> bool:
    """Whether the pattern matches anywhere in the string; cached for short strings."""
    return _matches_cached(text, pattern) if len(text) <= _MAX_CACHED_LENGTH else is_found(text, pattern)


def is_found(text: str, pattern: str) -> bool:
    """Whether the pattern matches anywhere in the string, uncached."""
    compiled = compile_pattern(pattern)
    return bool(_compile_set(pattern).Match(text)) or compiled.search(text) is not None


@lru_cache(maxsize=256)
def _compile_set(pattern: str) -> Any:
    """Return an RE2 set: its positive result is much faster than a search; a negative may mean out of memory."""
    import re2  # noqa: PLC0415  see above

    found = re2.Set.SearchSet()
    found.Add(pattern)
    found.Compile()
    return found


_matches_cached = lru_cache(maxsize=4096)(is_found)
"""Clusters evaluate the same strings again and again, and a hit is ten times faster."""
