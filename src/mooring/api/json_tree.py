"""Parse JSON into a tree of plain values that records duplicate fields.

The slow path of ``codec.py``, used when the fast decoder fails or a field may be duplicated; it reports exactly what is
wrong. YAML becomes the same kind of tree in ``yaml_documents.py``; ``from_tree.py`` converts it to typed objects.
"""

import json
import math
import re
from collections import Counter
from itertools import accumulate
from typing import Any, NamedTuple, NoReturn

MAX_BYTES = 3 * 1024 * 1024
MAX_DEPTH = 200


class Elements(NamedTuple):
    """The maximum number of elements of a document: each costs memory and time, however few bytes it takes."""

    objects: int
    """Objects and lists, which cost up to 30 µs each until an object is stored."""
    values: int
    """Entries of lists and fields of objects, which cost up to 3 µs each."""


MAX_ELEMENTS = Elements(8_000, 80_000)
MAX_ELEMENTS_OF_CUSTOM_OBJECT = Elements(12_000, 120_000)
"""More, because some list thousands of other objects in their status, and they cost less than built-in ones."""
MAX_ELEMENTS_OF_DEFINITION = Elements(300_000, 1_000_000)
"""What a CustomResourceDefinition may have: some have a schema of 30,000 objects."""
_MAX_DIGITS = 400

_NOT_A_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes.maketrans(b"[{]}", b"\x02\x02\x00\x00")
_OPENS = 2
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class DecodeError(ValueError):
    """The input is invalid; the message is meant for the client."""


class TooLargeError(DecodeError):
    """The input exceeds the size limits."""


class Members(dict[str, Any]):
    """An object with duplicate fields; the last value wins."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        counts = Counter(key for key, _ in pairs)
        self.repeated = {key for key, count in counts.items() if count > 1}


def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object from its fields."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else Members(pairs)


def check_limits(body: bytes, most: Elements = MAX_ELEMENTS) -> None:
    """Raise for JSON that is too large, too deep or has too many elements, before it is parsed."""
    if len(body) > MAX_BYTES:
        raise TooLargeError(f"limit is {MAX_BYTES}")
    few_values = len(body) < most.values or body.count(b",") < most.values
    if few_values and body.count(b"{") + body.count(b"[") <= MAX_DEPTH:
        return
    # Skip brackets and commas in strings. Strings are joined without a buffer per piece, unlike bytes.
    text = body.replace(b"\\\\", b"").replace(b'\\"', b"").decode("latin-1")
    outside = "".join(text.split('"')[::2]).encode("latin-1")
    steps = outside.translate(_STEPS, _NOT_A_BRACKET)
    objects = steps.count(_OPENS)
    check_elements(objects, objects + outside.count(b","), most)
    if max(accumulate(steps, lambda depth, step: depth + step - 1, initial=0)) > MAX_DEPTH:
        raise DecodeError(f"nested more than {MAX_DEPTH} levels deep")


def check_elements(objects: int, values: int, most: Elements) -> None:
    """Raise TooLargeError if a document has more objects or values than `most`."""
    if objects > most.objects:
        raise TooLargeError(f"limit is {most.objects} objects and lists in one body")
    if values > most.values:
        raise TooLargeError(f"limit is {most.values} values in one body")


def parse_json(body: bytes) -> Any:
    """Parse JSON into a tree. Raise DecodeError with the position of the error."""
    text = decode_utf8(body)
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


def decode_utf8(body: bytes) -> str:
    """Decode UTF-8; raise DecodeError."""
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
