"""Split source into tokens, and decode literals. Called by parser.py.

Characters that start no token are reported and skipped, so that one stray character does not hide other errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from .values import INT_MAX, INT_MIN, UINT_MAX, UInt

Report = Callable[[int, str], None]
"""Called with an offset into the source and a message."""


class Token(NamedTuple):
    kind: str
    """`id`, `escaped`, `int`, `uint`, `float`, `string`, `bytes`, `eof`; operators and keywords are their own kind."""
    text: str
    offset: int


_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"""
_QUOTED = rf"""
    [rR](?:\"\"\".*?\"\"\"|'''.*?'''|"[^"\n\r]*"|'[^'\n\r]*')
    | \"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\" | '''(?:{_ESCAPE}|[^\\])*?'''
    | "(?:{_ESCAPE}|[^\\"\n\r])*" | '(?:{_ESCAPE}|[^\\'\n\r])*'
"""
_TOKEN: Final = re.compile(
    rf"""
    (?P<skip>(?:[\t \r\n\f]+|//[^\n]*)+)
    | (?P<bytes>[bB](?:{_QUOTED}))
    | (?P<string>{_QUOTED})
    | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    | (?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
    | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
    | (?P<id>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<escaped>`[A-Za-z0-9_.\-/ ]+`)
    | (?P<op>&&|\|\||==|!=|<=|>=|[<>+\-*/%!?:,.()\[\]{{}}])
    """,
    re.VERBOSE | re.DOTALL,
)

KEYWORDS: Final = frozenset({"in", "true", "false", "null"})
RESERVED: Final = KEYWORDS | {
    *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let"),
    *("loop", "package", "namespace", "return", "var", "void", "while"),
}
"""Words that may only be field names."""


def tokenize(source: str, report: Report) -> list[Token]:
    """Return all tokens; the last one has kind `eof`."""
    tokens: list[Token] = []
    position, end = 0, len(source)
    while position < end:
        match = _TOKEN.match(source, position)
        if match is None:
            unterminated = source[position] in "\"'"  # a string: the rest of its line is not recognized
            unknown = source[position:].split("\n", 1)[0] if unterminated else source[position]
            report(position, f"Syntax error: token recognition error at: '{unknown}'")
            position += len(unknown)
            continue
        kind = match.lastgroup or ""
        text = match.group()
        if kind == "op" or (kind == "id" and text in KEYWORDS):
            kind = text
        if kind != "skip":
            tokens.append(Token(kind, text, position))
        position = match.end()
    tokens.append(Token("eof", "<EOF>", end))
    return tokens


def parse_integer(text: str, negative: bool) -> int | None:
    """Return the value of an int literal; None if it does not fit into 64 bits."""
    if len(text) > _MAX_DIGITS:
        return None
    number = int(text, 16) if text.startswith("0x") else int(text)
    number = -number if negative else number
    return number if INT_MIN <= number <= INT_MAX else None


def parse_unsigned(text: str) -> UInt | None:
    """Return the value of a uint literal; None if it does not fit into 64 bits."""
    digits = text[:-1]
    if len(digits) > _MAX_DIGITS:
        return None
    number = int(digits, 16) if digits.startswith("0x") else int(digits)
    return UInt(number) if number <= UINT_MAX else None


_MAX_DIGITS: Final = 400
"""Longer literals are rejected: Python refuses to parse numbers of thousands of digits."""

_SIMPLE: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPES: Final = re.compile(_ESCAPE)


class BadLiteral(Exception):  # noqa: N818  never leaves this package: the parser turns it into an issue
    """A well-formed literal has no value, e.g. a surrogate code point."""


def _body(text: str) -> tuple[str, bool]:
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quote = 3 if text[:3] in ('"""', "'''") and len(text) >= 6 else 1
    body = text[quote:-quote].replace("\r\n", "\n").replace("\r", "\n")
    return body, raw


def parse_string(text: str) -> str:
    """Return the value of a string literal, given with its quotes and prefix."""
    body, raw = _body(text)
    if raw or "\\" not in body:
        return body

    def replace(match: re.Match[str]) -> str:
        escape = match.group()[1:]
        if escape[0] in "xXuU":
            code = int(escape[1:], 16)
            if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
                raise BadLiteral("invalid unicode code point")
            return chr(code)
        if escape[0] in "0123":
            return chr(int(escape, 8))
        return _SIMPLE.get(escape, escape)

    return _ESCAPES.sub(replace, body)


def parse_bytes(text: str) -> bytes:
    """Return the value of a bytes literal, given with its quotes and prefix."""
    body, raw = _body(text[1:])
    if raw or "\\" not in body:
        return body.encode("utf-8", "surrogatepass")
    parts: list[bytes] = []
    position = 0
    for match in _ESCAPES.finditer(body):
        parts.append(body[position : match.start()].encode("utf-8", "surrogatepass"))
        parts.append(_byte(match.group()[1:]))
        position = match.end()
    parts.append(body[position:].encode("utf-8", "surrogatepass"))
    return b"".join(parts)


def _byte(escape: str) -> bytes:
    if escape[0] in "uU":
        raise BadLiteral("unable to unescape: unicode escapes are not allowed in bytes")
    if escape[0] in "xX":
        return bytes([int(escape[1:], 16)])
    if escape[0] in "0123":
        return bytes([int(escape, 8)])
    return _SIMPLE.get(escape, escape).encode()
