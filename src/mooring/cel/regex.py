"""Regular expressions: RE2, which matches in linear time whatever the pattern. Called by standard.py and libraries."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from .errors import EvaluationError

_MEMORY: Final = 2**21
"""For each pattern; RE2's own default of 8 MiB is much for a cache of many."""
_REMEMBERED: Final = 256
"""Longer texts are not worth remembering."""


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Any:
    """A compiled pattern, with `search` and `finditer` as in Python's `re`."""
    import re2  # noqa: PLC0415  loading the library takes longer than everything else in this package

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as problem:
        raise EvaluationError(f"error parsing regexp: {_in_gos_words(problem)}") from None


_GOS_WORDS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "trailing \\": "trailing backslash at end of expression",
    "invalid perl operator": "invalid or unsupported Perl syntax",
}


def _in_gos_words(problem: Exception) -> str:
    """What is wrong with a pattern, as Go's library says it, which has the same syntax."""
    given = problem.args[0] if problem.args else ""
    text = given.decode(errors="replace") if isinstance(given, bytes) else str(given)
    what, _, where = text.partition(": ")
    what = _GOS_WORDS.get(what, what)
    return f"{what}: `{where}`" if where else what


def matches(text: str, pattern: str) -> bool:
    """Whether the pattern is found anywhere in the text."""
    return _matches(text, pattern) if len(text) <= _REMEMBERED else is_found(text, pattern)


def is_found(text: str, pattern: str) -> bool:
    """The same, for texts that do not come again."""
    compiled = compile_pattern(pattern)
    return bool(_quick(pattern).Match(text)) or compiled.search(text) is not None


@lru_cache(maxsize=256)
def _quick(pattern: str) -> Any:
    """Says yes several times faster than a search, which makes an object of it; its no may mean too little memory."""
    import re2  # noqa: PLC0415  see above

    found = re2.Set.SearchSet()
    found.Add(pattern)
    found.Compile()
    return found


@lru_cache(maxsize=4096)
def _matches(text: str, pattern: str) -> bool:
    """In a cluster the same texts come again and again, and a look into the cache is ten times faster."""
    return is_found(text, pattern)
