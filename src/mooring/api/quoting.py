"""Quote strings as Kubernetes quotes user input in messages (Go's `%q`), for errors of all layers."""

import re

from mooring.api.response_limits import MAX_QUOTED

_NAMED = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}
_PLAIN = re.compile(r"[ !#-\[\]-~]*")


def go_quote(text: str) -> str:
    """Quote a string, escaping quotes and unprintable characters; a long one is cut."""
    if len(text) > MAX_QUOTED:
        return f"{go_quote(text[:MAX_QUOTED])}...({len(text)} characters)"
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    return f'"{"".join(map(_escape, text))}"'


def _escape(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    if char.isprintable():
        return char
    point = ord(char)
    if point < 0x80:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def one_line(text: str) -> str:
    """Replace control characters, which a terminal would interpret, in text from a cluster."""
    return (
        text
        if text.isprintable()
        else "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    )
