"""Requests whose headers have come before are read without a parser, and as the parser has read them."""

from dataclasses import dataclass

import pytest

from mooring.apiserver.edge.header_cache import HeaderCache
from mooring.apiserver.messages.http import Request

_HEAD = b"Host: x\r\nAccept: */*"
_HEADERS = {"host": "x", "accept": "*/*"}


def _data(line: bytes, head: bytes = _HEAD, body: bytes = b"") -> bytes:
    return b"%b HTTP/1.1\r\n%b\r\n\r\n%b" % (line, head, body)


def _knowing(head: bytes, headers: dict[str, str], body: bytes = b"") -> HeaderCache:
    known = HeaderCache()
    known.learn(
        _data(b"POST /learned", head, body), Request(method="POST", path="/learned", headers=headers, body=body)
    )
    return known


@dataclass(frozen=True)
class Case:
    """What comes when the headers are known, and what it is taken for: method, path and query."""

    name: str
    data: bytes
    read: tuple[str, str, bytes] | None = None


_CASES = (
    Case("another path", _data(b"GET /version"), ("GET", "/version", b"")),
    Case("another method", _data(b"DELETE /api/v1/nodes/a"), ("DELETE", "/api/v1/nodes/a", b"")),
    Case("a query", _data(b"GET /a?b=c&d=%20?"), ("GET", "/a", b"b=c&d=%20?")),
    Case("an empty query", _data(b"GET /a?"), ("GET", "/a", b"")),
    Case("a path with escapes", _data(b"GET /a%2Fb%20c"), ("GET", "/a/b c", b"")),
    Case("other headers are not known", _data(b"GET /version", b"Host: y")),
    Case("a body that the headers do not announce", _data(b"GET /version", body=b"x")),
    Case("two requests at once", _data(b"GET /version") * 2),
    Case("half of the headers", _data(b"GET /version")[:-8]),
    Case("headers without their end", _data(b"GET /version")[:-3]),
    Case("only a line", b"GET /version HTTP/1.1\r\n"),
    Case("an older version of HTTP", _data(b"GET /version").replace(b"1.1", b"1.0")),
    Case("a method that hardly anybody uses", _data(b"OPTIONS /version")),
    Case("a whole address", _data(b"GET https://x/version")),
    Case("a path that looks like a host", _data(b"GET //x/version")),
    Case("a fragment", _data(b"GET /version#a")),
    Case("a space in the path", _data(b"GET /ver sion")),
    Case("bytes that are no ASCII", _data(b"GET /\xc3\xa4")),
    Case("a line break before it", b"\r\n" + _data(b"GET /version")),
    Case("nothing", b""),
)


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_a_request_with_known_headers_is_read_without_a_parser(case: Case) -> None:
    found = _knowing(_HEAD, _HEADERS).read(case.data)
    if case.read is None:
        assert found is None
        return
    assert found is not None
    request, query = found
    assert (request.method, request.path, query) == case.read
    assert (request.headers, request.body) == (_HEADERS, b"")


def test_headers_are_known_with_the_length_of_the_body_that_they_announce() -> None:
    head, headers = b"Host: x\r\nContent-Length: 3", {"host": "x", "content-length": "3"}
    known = _knowing(head, headers, b"abc")
    found = known.read(_data(b"POST /a", head, b"xyz"))
    assert found is not None
    assert found[0] == Request(method="POST", path="/a", headers=headers, body=b"xyz")
    assert known.read(_data(b"POST /a", head, b"xy")) is None
    assert known.read(_data(b"POST /a", head, b"xyz!")) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("connection", "close"),
        ("connection", "upgrade"),
        ("expect", "100-continue"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "websocket"),
        ("trailer", "x"),
    ],
)
def test_headers_that_concern_more_than_their_request_are_read_anew(name: str, value: str) -> None:
    head = f"{name}: {value}".encode()
    assert _knowing(head, {name: value}).read(_data(b"GET /a", head)) is None


def test_what_is_too_long_or_was_not_whole_is_not_learned() -> None:
    long = b"Accept: " + b"a" * 4096
    assert _knowing(long, {"accept": "a" * 4096}).read(_data(b"GET /a", long)) is None
    known = HeaderCache()
    known.learn(_data(b"POST /a", body=b"abcdef"), Request(method="POST", path="/a", headers=_HEADERS, body=b"abc"))
    known.learn(b"POST /a HTTP/1.1\r\nHost: x\r\n", Request(method="POST", path="/a", headers=_HEADERS))
    known.learn(b"", Request(method="POST", path="/a", headers=_HEADERS))
    assert known.read(_data(b"POST /a", body=b"abcdef")) is None
    assert known.read(_data(b"POST /a", body=b"abc")) is None
