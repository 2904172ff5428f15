"""The strings library: `strings(version)` has the functions of cel-go's library of that version.

Positions count characters (code points). Versions: 0 has the basic functions, 1 adds `format` and `strings.quote`, 3
adds `reverse`, 4 formats as the specification says and rejects offsets after the end of a string, for which earlier
versions return -1. Kubernetes uses 0 and 2.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Final

from mooring.cel.costs import (
    MAX,
    STRING,
    Argument,
    CallCost,
    CallEstimate,
    Range,
    arg,
    fixed,
    rounded_up,
    scaled,
    up_to,
)
from mooring.cel.errors import EvaluationError
from mooring.cel.ext import formatting
from mooring.cel.ext.traversal import READ_AND_KEEP_SIZE, traversal_cost
from mooring.cel.library import Library, Overload, function
from mooring.cel.syntax import Call, Expr, ListExpr, Literal, MapExpr
from mooring.cel.types import DYN, INT, list_of
from mooring.cel.types import STRING as TEXT
from mooring.cel.validators import calls_of
from mooring.cel.values import Value, size_of

LATEST: Final = 4
MAX_RESULT: Final = 1_000_000
"""The longest string that a call may build; `replace` multiplies lengths, and costs are counted afterwards."""
_SPACE: Final = (
    " \t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}


def char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise EvaluationError(f"index out of range: {index}")
    return text[index : index + 1]


def index_of_from(text: str, part: str, offset: int) -> int:
    if not part:
        return offset
    if offset < 0:
        raise EvaluationError(f"index out of range: {offset}")
    return text.find(part, offset)


def last_index_of_from(text: str, part: str, offset: int) -> int:
    if not part:
        return offset
    if offset < 0:
        raise EvaluationError(f"index out of range: {offset}")
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


def _within(text: str, part: str, offset: int) -> None:
    if part and not 0 <= offset <= len(text):
        raise EvaluationError(f"index out of range: {offset}")


def strict_index_of_from(text: str, part: str, offset: int) -> int:
    _within(text, part, offset)
    return index_of_from(text, part, offset)


def strict_last_index_of_from(text: str, part: str, offset: int) -> int:
    _within(text, part, offset)
    return last_index_of_from(text, part, offset)


def join(texts: list[Value], separator: str = "") -> str:
    if not all(isinstance(text, str) for text in texts):
        raise EvaluationError("join: invalid input: not a list of strings")
    if sum(map(len, texts)) + len(separator) * len(texts) > MAX_RESULT:
        raise EvaluationError(f"the text would have more than {MAX_RESULT} characters")
    return separator.join(texts)


def lower_ascii(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_LOWER)


def upper_ascii(text: str) -> str:
    return text.upper() if text.isascii() else text.translate(_UPPER)


def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    found = text.count(old) if old else len(text) + 1
    times = found if limit < 0 else min(limit, found)
    if len(text) + times * (len(new) - len(old)) > MAX_RESULT:
        raise EvaluationError(f"the text would have more than {MAX_RESULT} characters")
    return text.replace(old, new, times)


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if separator:
        return text.split(separator, -1 if limit < 0 else limit - 1)
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start,) if end is None else (start, end):
        if not 0 <= index <= len(text):
            raise EvaluationError(f"index out of range: {index}")
    return text[start:end]


def trim(text: str) -> str:
    return text.strip(_SPACE)


def reverse(text: str) -> str:
    return text[::-1]


# Costs


def _estimate_replace(args: Sequence[Argument]) -> CallEstimate:
    text, old, new = (each.size for each in args[:3])
    most = _size_after_replace(text.max, old.min, new.max, grows=new.max > old.min)
    least = _size_after_replace(text.min, old.max, new.min, grows=new.min < old.max)
    return CallEstimate(text.scaled(2 * STRING), Range(least, most))


def _size_after_replace(text: int, old: int, new: int, *, grows: bool) -> int:
    """Return the size of a string with `old` replaced as often as possible, or unchanged if that is larger."""
    if old == 0:
        return min((min(text + 1, MAX)) * new + text, MAX)
    return min(rounded_up(text / old) * new, MAX) if grows else text


def _estimate_split(args: Sequence[Argument]) -> CallEstimate:
    text = args[0].size
    most = text.max
    if len(args) > 2 and args[2].is_literal:
        most = args[2].literal % (MAX + 1)  # a negative limit is no limit
    return CallEstimate(text.scaled(2 * STRING), Range(0, most))


def _estimate_join(args: Sequence[Argument]) -> CallEstimate:
    texts = args[0].size
    size = texts.times(args[0].element_size)
    if len(args) > 1:
        separators = Range(max(texts.min - 1, 0), max(texts.max - 1, 0))
        size = size.plus(args[1].size.times(separators))
    return CallEstimate(size.scaled(STRING), size)


INDEX_OF: Final = CallCost(scaled(arg(0), STRING), counter=lambda args, _result: traversal_cost(args[0]))
_REPLACE: Final = CallCost(scaled(arg(0), 2 * STRING), estimator=_estimate_replace)
_SPLIT: Final = CallCost(scaled(arg(0), 2 * STRING), estimator=_estimate_split)
_JOIN: Final = CallCost(
    estimator=_estimate_join, counter=lambda _args, result: rounded_up(size_of(result) * 2 * STRING), counts_result=True
)


# The check of format strings


def _check_formats(root: Expr) -> Iterator[tuple[Expr, str]]:
    for call in calls_of("format", root):
        yield from _check_format(call)


def _check_format(call: Call) -> Iterator[tuple[Expr, str]]:
    """Yield the errors of ``'…'.format([…])`` with literal template and arguments, with their nodes."""
    template, arguments = call.target, call.args[0]
    if not isinstance(template, Literal) or not isinstance(template.value, str) or not isinstance(arguments, ListExpr):
        return
    taken = 0
    try:
        for clause in formatting.clauses(template.value):
            if isinstance(clause, str):
                continue
            if taken >= len(arguments.elements):
                yield call, f"index {taken} out of range"
                return
            wrong = _unfit(clause.verb, arguments.elements[taken])
            if wrong is not None:
                yield wrong
                return
            taken += 1
    except EvaluationError as error:
        yield call, error.message
        return
    if len(arguments.elements) > taken:
        given = len(arguments.elements)
        yield call, f"too many arguments supplied to string.format (expected {taken}, got {given})"


def _unfit(verb: str, argument: Expr) -> tuple[Expr, str] | None:
    kinds, refusal = formatting.CLAUSE_KINDS[verb.lower()]
    if not argument.type.is_dyn and argument.type.kind not in kinds:
        return argument, f"error during formatting: {refusal}, was given {argument.type.name}"
    if verb != "s" or not isinstance(argument, ListExpr | MapExpr):
        return None
    inner = (
        argument.elements
        if isinstance(argument, ListExpr)
        else [each for entry in argument.entries for each in (entry.key, entry.value)]
    )
    return next(filter(None, (_unfit("s", each) for each in inner)), None)


# Declarations

_QUOTE: Final = CallCost(scaled(arg(0), STRING), result=arg(0) + fixed(2) + up_to(arg(0)))
"""Traverse the string; every character may need an escape."""


@lru_cache
def strings(version: int = LATEST) -> Library:
    """Return the library at a library version."""
    functions = list(_BASIC)
    exact = version >= 4
    from_start = strict_index_of_from if exact else index_of_from
    from_end = strict_last_index_of_from if exact else last_index_of_from
    with_offset = (TEXT, TEXT, INT)
    functions += [
        function("indexOf", Overload("string_index_of_string_int", with_offset, INT, from_start, True, INDEX_OF)),
        function(
            "lastIndexOf", Overload("string_last_index_of_string_int", with_offset, INT, from_end, True, INDEX_OF)
        ),
    ]
    if version >= 1:
        render = partial(formatting.render, printers=formatting.PLAIN if exact else formatting.LITERAL)
        functions += [
            function("format", Overload("string_format", (TEXT, list_of(DYN)), TEXT, render, member=True)),
            function("strings.quote", Overload("strings_quote", (TEXT,), TEXT, formatting.quote, cost=_QUOTE)),
        ]
    if version >= 3:
        functions.append(function("reverse", Overload("string_reverse", (TEXT,), TEXT, reverse, member=True)))
    validators = (_check_formats,) if 1 <= version < 4 else ()
    return Library(f"strings.v{version}", functions=tuple(functions), validators=validators)


_TEXTS: Final = list_of(TEXT)
_BASIC: Final = (
    function("charAt", Overload("string_char_at_int", (TEXT, INT), TEXT, char_at, member=True)),
    function("indexOf", Overload("string_index_of_string", (TEXT, TEXT), INT, str.find, member=True, cost=INDEX_OF)),
    function(
        "lastIndexOf",
        Overload("string_last_index_of_string", (TEXT, TEXT), INT, str.rfind, member=True, cost=INDEX_OF),
    ),
    function(
        "join",
        Overload("list_join", (_TEXTS,), TEXT, join, member=True, cost=_JOIN),
        Overload("list_join_string", (_TEXTS, TEXT), TEXT, join, member=True, cost=_JOIN),
    ),
    function(
        "lowerAscii", Overload("string_lower_ascii", (TEXT,), TEXT, lower_ascii, member=True, cost=READ_AND_KEEP_SIZE)
    ),
    function(
        "upperAscii", Overload("string_upper_ascii", (TEXT,), TEXT, upper_ascii, member=True, cost=READ_AND_KEEP_SIZE)
    ),
    function(
        "replace",
        Overload("string_replace_string_string", (TEXT, TEXT, TEXT), TEXT, replace, member=True, cost=_REPLACE),
        Overload(
            "string_replace_string_string_int", (TEXT, TEXT, TEXT, INT), TEXT, replace, member=True, cost=_REPLACE
        ),
    ),
    function(
        "split",
        Overload("string_split_string", (TEXT, TEXT), _TEXTS, split, member=True, cost=_SPLIT),
        Overload("string_split_string_int", (TEXT, TEXT, INT), _TEXTS, split, member=True, cost=_SPLIT),
    ),
    function(
        "substring",
        Overload("string_substring_int", (TEXT, INT), TEXT, substring, member=True, cost=READ_AND_KEEP_SIZE),
        Overload("string_substring_int_int", (TEXT, INT, INT), TEXT, substring, member=True, cost=READ_AND_KEEP_SIZE),
    ),
    function("trim", Overload("string_trim", (TEXT,), TEXT, trim, member=True, cost=READ_AND_KEEP_SIZE)),
)
