"""What a pod that is proxied to responds: odd codes and many heads stay the matter of its own connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mooring.api import errors
from mooring.apiserver.edge.responses import encode_head
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.streams.kubelet import ProxiedRequest
from mooring.apiserver.streams.real.http_call import Address
from mooring.apiserver.streams.real.kubelets import proxy_request

pytestmark = pytest.mark.req("S.6")
WHOLE = b"HTTP/1.1 200 OK\r\nx-own: 1\r\ncontent-length: 2\r\n\r\nok"
HINT = b"HTTP/1.1 103 Early Hints\r\nx-hint: 1\r\n\r\n"


@asynccontextmanager
async def pod(answer: bytes) -> AsyncIterator[Address]:
    """Run a pod that sends the same bytes whatever it is asked."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])


async def proxied(answer: bytes) -> tuple[Response, bytes]:
    async with pod(answer) as address:
        response = await proxy_request(
            address, ProxiedRequest(Request(method="GET", path="/below/"), "/", "/below"), "web"
        )
        assert not isinstance(response.body, bytes)
        return response, b"".join([piece async for piece in response.body])


@pytest.mark.parametrize("hints", [1, 2, 1000])
async def test_announcements_are_left_out(hints: int) -> None:
    response, body = await proxied(HINT * hints + WHOLE)
    assert (response.status, body) == (200, b"ok")
    assert response.headers.get("x-own") == "1"
    assert "x-hint" not in response.headers


@pytest.mark.parametrize(
    "answer", [HINT * 10_000, b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"]
)
async def test_no_response_or_an_unasked_upgrade_is_an_error(answer: bytes) -> None:
    with pytest.raises(errors.ServiceUnavailable, match="error trying to reach"):
        await proxied(answer)


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb: c", "a\rb", "a\0b"])
def test_a_line_break_in_a_header_of_a_response_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="line break"):
        encode_head(Response(headers={"x-own": value}))
