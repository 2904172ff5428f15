"""JSON as a tree of plain values that remembers which fields were written twice.

The slow road of ``codec.py``: it is taken when the fast decoder refuses something, or when a field may be there twice,
and it says exactly what is wrong. YAML becomes the same kind of tree in ``yaml_documents.py``; ``from_tree.py`` makes
typed objects of it.
"""

import json
import math
import re
from collections import Counter
from itertools import accumulate
from typing import Any, NoReturn

MAX_BYTES = 3 * 1024 * 1024
MAX_DEPTH = 200
_MAX_DIGITS = 400

_NOT_A_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\x02\x02\x00\x00")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class DecodeError(ValueError):
    """The input is not what it should be; the message is meant for whoever sent it."""


class TooLargeError(DecodeError):
    """The input is larger than anybody may send."""


class Members(dict[str, Any]):
    """An object of which some fields were written more than once; the last value counts."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.repeated = {key for key, count in counts.items() if count > 1}


def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object with these fields."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else Members(pairs)


def check_limits(body: bytes) -> None:
    """Raises for input that is too large or nested too deeply, before anything is made of it."""
    if len(body) > MAX_BYTES:
        raise TooLargeError(f"limit is {MAX_BYTES}")
    if body.count(b"{") + body.count(b"[") <= MAX_DEPTH:
        return
    outside = body.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]  # of texts, whose brackets do not count
    steps = b"".join(outside).translate(_STEPS, _NOT_A_BRACKET)
    if max(accumulate(steps, lambda depth, step: depth + step - 1, initial=0)) > MAX_DEPTH:
        raise DecodeError(f"nested more than {MAX_DEPTH} levels deep")


def json_tree(body: bytes) -> Any:
    """The tree that JSON text says. Raises DecodeError with the place of what is wrong."""
    text = text_of(body)
    try:
        tree = json.loads(
            text,
            object_pairs_hook=members,
            parse_int=_integer,
            parse_float=_number,
            parse_constant=_not_a_number,
        )
    except json.JSONDecodeError as error:
        raise DecodeError(_syntax_error(error)) from None
    except RecursionError:
        raise DecodeError("nested too deeply") from None
    if _SURROGATE.search(text):
        _refuse_lone_surrogates(tree)
    return tree


def text_of(body: bytes) -> str:
    """The text of UTF-8 bytes."""
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"invalid UTF-8 at byte {error.start}") from None


def _syntax_error(error: json.JSONDecodeError) -> str:
    if not error.doc.strip():
        return "the input is empty"
    place = f"line {error.lineno}, column {error.colno}"
    if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string"):
        return f"invalid JSON: the input ends too early ({place})"
    return f"invalid JSON: {error.msg[:1].lower()}{error.msg[1:]} ({place})"


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise DecodeError(f"a number of {len(digits)} digits is too long")
    return int(digits)


def _number(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise DecodeError(f"the number {digits[:40]} is out of range")
    return number


def _not_a_number(name: str) -> NoReturn:
    raise DecodeError(f"invalid JSON: {name} is not a number of JSON")


def _refuse_lone_surrogates(tree: Any) -> None:
    try:
        json.dumps(tree, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])[1:-1]
        raise DecodeError(f"half of a surrogate pair ({half}) is not a character") from None
