"""Headers that have come before are not parsed again: a client sends the same ones with nearly every request.

Of a request that comes whole in one read, only the first line and the body are its own. `HeaderCache.read` takes one
apart without a parser if httptools has read the very same bytes of headers before: what they say does not depend on
what stands around them, unless they say how the request ends or what follows it, and such ones are not remembered. It
is called by ``http_server.py``, between requests.
"""

import re
from collections.abc import Mapping
from urllib.parse import unquote

import msgspec

from mooring.apiserver.messages.http import Request
from mooring.base.bounded_cache import BoundedCache

_MOST, _LONGEST = 512, 2048
_LINE = re.compile(rb'(GET|HEAD|POST|PUT|PATCH|DELETE) (/(?!/)[!"$->@-~]*)(?:\?([!"$-~]*))? HTTP/1\.1\r\n')
"""First lines as all clients write them; others are left to the parser."""
_END = b"\r\n\r\n"
_OF_THE_CONNECTION = frozenset({"connection", "expect", "trailer", "transfer-encoding", "upgrade"})


class _Head(msgspec.Struct, frozen=True):
    """What headers say."""

    headers: Mapping[str, str]
    length: int
    """Of the body that comes with them."""


class HeaderCache:
    """The headers of the last clients of a server, by their bytes."""

    def __init__(self) -> None:
        self._heads: BoundedCache[bytes, _Head] = BoundedCache(_MOST)

    def read(self, data: bytes) -> tuple[Request, bytes] | None:
        """The request that some bytes are, and its query; None where a parser has to say what they are."""
        line = _LINE.match(data)
        if line is None:
            return None
        begin = line.end()
        end = data.find(_END, begin)
        head = self._heads.get(data[begin:end])
        if head is None or end < 0 or len(data) - end - len(_END) != head.length:
            return None
        method, raw, query = line.groups(b"")
        path = raw.decode()
        request = Request(
            method=method.decode(),
            path=unquote(path) if "%" in path else path,
            headers=head.headers,
            body=data[end + len(_END) :],
        )
        return request, query

    def learn(self, data: bytes, request: Request) -> None:
        """Remember the headers of a request that a parser has found in some bytes."""
        line = _LINE.match(data)
        begin = line.end() if line else -1
        end = data.find(_END, begin)
        is_whole = 0 < begin < end <= begin + _LONGEST and data[end + len(_END) :] == request.body
        if is_whole and not _OF_THE_CONNECTION & request.headers.keys():
            self._heads.put(data[begin:end], _Head(request.headers, len(request.body)))
