"""Requests that no client sends: each is answered, or refused in words, and the connection is not just closed."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app_calls import running
from mooring.api.meta_v1 import Status
from mooring.apiserver.edge.responses import status_line
from mooring.apiserver.extension.webhooks.reviewing import make_refusal_error
from mooring.apiserver.messages.exchange import Exchange
from mooring.apiserver.messages.http import Request
from mooring.apiserver.server import ApiServer

pytestmark = pytest.mark.req("S.6")

TARGETS = {
    "an absolute URI without a path": (b"GET http://localhost HTTP/1.1", b"401"),
    "an absolute URI with a query only": (b"GET http://localhost?a=b HTTP/1.1", b"401"),
    "an absolute URI": (b"GET http://localhost/version HTTP/1.1", b"200"),
    "two slashes": (b"GET //version HTTP/1.1", b"40"),
    "a scheme alone": (b"GET http:// HTTP/1.1", b"400"),
    "an asterisk": (b"OPTIONS * HTTP/1.1", b"40"),
    "a tunnel": (b"CONNECT localhost:1 HTTP/1.1", b"40"),
    "a fragment": (b"GET /version#a HTTP/1.1", b"200"),
    "half an escape": (b"GET /version%2 HTTP/1.1", b"40"),
    "an escaped line break": (b"GET /version%0d%0ax: HTTP/1.1", b"40"),
    "an escaped NUL": (b"GET /api/v1/namespaces/%00 HTTP/1.1", b"40"),
    "bytes that are no ASCII": ("GET /é HTTP/1.1".encode(), b"40"),
    "a method that nobody knows": (b"FOO /version HTTP/1.1", b"40"),
    "a port that is no number": (b"GET http://localhost:x/ HTTP/1.1", b"400"),
}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with running(tmp_path) as found:
        await found.listen()
        yield found


@pytest.mark.parametrize(("line", "status"), TARGETS.values(), ids=TARGETS.keys())
async def test_an_odd_target_is_answered(server: ApiServer, line: bytes, status: bytes) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, port = server.url.removeprefix("https://").rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
    writer.write(line + b"\r\nhost: x\r\nconnection: close\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    assert answer.startswith(b"HTTP/1.1 " + status), answer[:80]


@pytest.mark.parametrize(
    ("code", "line"), [(200, "200 OK"), (599, "599 "), (700, "700 "), (99999, "500 "), (0, "500 "), (-1, "500 ")]
)
def test_every_code_has_a_status_line(code: int, line: str) -> None:
    assert status_line(code).startswith(f"HTTP/1.1 {line}")


@pytest.mark.parametrize(("code", "expected"), [(99999, 500), (0, 400), (-5, 400), (200, 400), (418, 418)])
async def test_a_webhook_refuses_with_a_code_of_http(server: ApiServer, code: int, expected: int) -> None:
    error = make_refusal_error("w", Status(code=code, message="no"))
    exchange = Exchange(Request(method="POST", path="/"), datetime.now(UTC), 0.0)
    response = server.app._exchanges.respond_to_error(exchange, error)
    assert isinstance(response.body, bytes)
    assert (response.status, json.loads(response.body)["code"]) == (expected, expected)
