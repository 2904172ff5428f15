"""Messages of HTTP that do not end: trailers, chunk extensions, and bodies that go on after the response."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from app_calls import running
from mooring.apiserver.edge.limits import Limits
from mooring.apiserver.server import ApiServer

pytestmark = pytest.mark.req("S.6")
CHUNKED = b"POST /api/v1/pods HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
MOST_BYTES = 4 * 1024 * 1024
"""More than a server takes after its response, and less than would be seen in its memory."""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with running(tmp_path, limits=Limits(header_bytes=16 * 1024)) as found:
        await found.listen()
        yield found


async def connect(server: ApiServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, port = server.url.removeprefix("https://").rsplit(":", 1)
    return await asyncio.open_connection(host, int(port), ssl=context)


def trailers(number: int) -> bytes:
    return b"a%d: b\r\n" % number * 500


def one_trailer(_number: int) -> bytes:
    return b"a" * 4096


def body(_number: int) -> bytes:
    return b"1000\r\n" + b" " * 4096 + b"\r\n"


ENDLESS: list[tuple[str, bytes, Callable[[int], bytes]]] = [
    ("trailers", b"0\r\n", trailers),
    ("one trailer", b"0\r\na: ", one_trailer),
    ("a chunk extension", b"1;", one_trailer),
    ("a body after the response", b"", body),
]


@pytest.mark.parametrize(("begin", "piece"), [case[1:] for case in ENDLESS], ids=[case[0] for case in ENDLESS])
async def test_a_message_without_an_end_is_hung_up_on(
    server: ApiServer, begin: bytes, piece: Callable[[int], bytes]
) -> None:
    reader, writer = await connect(server)
    writer.write(CHUNKED + begin)
    answered = asyncio.create_task(reader.read())
    sent = 0
    while not answered.done() and sent < MOST_BYTES:
        writer.write(piece(sent))
        sent += len(piece(sent))
        try:
            await writer.drain()
        except ConnectionError:
            break
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        answer = await answered
    writer.transport.abort()
    assert answer.startswith((b"HTTP/1.1 401", b"HTTP/1.1 431")), answer[:80]


async def test_a_trailer_is_no_header(server: ApiServer) -> None:
    reader, writer = await connect(server)
    head = b"GET /version HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    writer.write(head + b"0\r\naudit-id: smuggled\r\n\r\n")
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"smuggled" not in answer


async def test_a_short_rest_of_a_body_leaves_the_connection_open(server: ApiServer) -> None:
    reader, writer = await connect(server)
    rest = b" " * 100_000
    writer.write(b"POST /api/v1/pods HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(rest))
    async with asyncio.timeout(10):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        await reader.readexactly(length)
        writer.write(rest + b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n")
        second = await reader.readline()
    writer.close()
    assert (head[:12], second[:12]) == (b"HTTP/1.1 401", b"HTTP/1.1 200")
