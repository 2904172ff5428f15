"""Serialise the head of an HTTP/1.1 request (nothing else does), and read where the body of a response ends.

A line break in a method, target, header name or header value would begin another header, or another request on the
same connection with the credentials of this one. `HeadError` refuses it, wherever the text came from.
Called by ``client/https.py``, ``apiserver/streams/real/http_call.py`` and ``controllers/programs/container.py``.
"""

import re
from collections.abc import Iterable, Mapping

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = re.compile(r"[!-~]+")
"""Visible ASCII, without spaces: what is more must be percent-encoded before."""
_CONTROL = re.compile(r"[\r\n\0]")


class HeadError(ValueError):
    """A part of a request cannot be sent as it is. The message names the part and not its value."""


def request_line(method: str, target: str) -> str:
    """Return the first line with its line break; raise HeadError unless method and target are one word each."""
    if not _TOKEN.fullmatch(method):
        raise HeadError("the method of the request has a character that HTTP does not allow there")
    if not _TARGET.fullmatch(target):
        raise HeadError("the target of the request has a character that must be percent-encoded")
    return f"{method} {target} HTTP/1.1\r\n"


def header_lines(headers: Iterable[tuple[str, str]]) -> str:
    """Return one line for each header, with its line break; raise HeadError for a header that is not one line."""
    lines = []
    for name, value in headers:
        if not _TOKEN.fullmatch(name):
            raise HeadError("the name of a header has a character that HTTP does not allow there")
        if _CONTROL.search(value):
            raise HeadError(f"the header {name} has a line break or a NUL in its value")
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines)


def ends_with_connection(headers: Mapping[str, str]) -> bool:
    """Return whether the body of a response ends where the connection does."""
    return "content-length" not in headers and "chunked" not in headers.get("transfer-encoding", "")
