"""Text in double quotes, as Kubernetes quotes what users wrote in its messages (Go's `%q`).

Called by ``field_errors.py``, ``errors.py`` and whoever words a message about a user's text.
"""

import re

from mooring.api.answer_limits import MAX_QUOTED

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


def quoted(text: str) -> str:
    """`text` in double quotes, with escapes for quotes and for what cannot be printed; the beginning of a long one."""
    if len(text) > MAX_QUOTED:
        return f"{quoted(text[:MAX_QUOTED])}...({len(text)} characters)"
    if _PLAIN.fullmatch(text):
        return f'"{text}"'
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    if char.isprintable():
        return char
    point = ord(char)
    if point < 0x80:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def one_line(text: str) -> str:
    """Text from a cluster on one line, without control characters that a terminal would obey."""
    return (
        text
        if text.isprintable()
        else "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    )
