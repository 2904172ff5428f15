"""The HTTP transport against a server that does exactly what a test says: connections, streams, and all that breaks."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from mooring.client import ConfigError, ConnectError, DeadlineError, DisconnectedError, NotLeaderError, https
from mooring.client.credentials import Credential
from mooring.client.https import HttpsTransport
from mooring.client.kubeconfig import Connection
from mooring.client.transport import Request, Response

Serve = Callable[[bytes, asyncio.StreamWriter], Awaitable[bool]]
"""Answers one request; whether the connection goes on."""
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
STREAM = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
GET = Request("GET", "/api")


class Server:
    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self.connections = 0
        self.tasks: set[asyncio.Task[None] | None] = set()
        self.requests: list[bytes] = []
        self.url = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.add(asyncio.current_task())
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                body = await reader.readexactly(int(length[0].partition(b":")[2])) if length else b""
                self.requests.append(head + body)
                if not await self._serve(head + body, writer):
                    return
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(serve: Serve, **options: int) -> AsyncIterator[tuple[Server, HttpsTransport]]:
    server = Server(serve)
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()[:2]
    server.url = f"http://{host}:{port}"
    transport = HttpsTransport(Connection(server.url), **options)
    try:
        yield server, transport
    finally:
        await transport.close()
        listening.close()
        for task in server.tasks:
            if task:
                task.cancel()
        await listening.wait_closed()


def writing(*answers: bytes, go_on: bool = True) -> Serve:
    """Write one of the answers to each request, the last one for ever."""
    left = list(answers)

    async def serve(request: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        return go_on

    return serve


async def test_requests_share_a_connection() -> None:
    async with serving(writing(OK)) as (server, transport):
        bodies = [(await transport.send(GET, 5)).body for _ in range(5)]
        assert (bodies, server.connections) == ([b"ok"] * 5, 1)


async def test_a_request_on_the_wire() -> None:
    async with serving(writing(OK)) as (server, transport):
        await transport.send(Request("POST", "/api/ä b", [("q", "x&y")], {"accept": "a/b"}, b"body"), 5)
        host = server.url.removeprefix("http://").encode()
        assert server.requests == [
            b"POST /api/%C3%A4%20b?q=x%26y HTTP/1.1\r\nhost: "
            + host
            + b"\r\naccept: a/b\r\ncontent-length: 4\r\n\r\nbody"
        ]


async def test_no_more_connections_than_allowed_and_all_requests_are_answered() -> None:
    async def slowly(request: bytes, writer: asyncio.StreamWriter) -> bool:
        await asyncio.sleep(0.001)
        writer.write(OK)
        return True

    async with serving(slowly, max_connections=3) as (server, transport):
        responses = await asyncio.gather(*(transport.send(GET, 5) for _ in range(30)))
        assert [response.status for response in responses] == [200] * 30
        assert server.connections == 3


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(OK, id="with a length"),
        pytest.param(STREAM + b"1\r\no\r\n1\r\nk\r\n0\r\n\r\n", id="in chunks"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\nok", id="until the end of the connection"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + OK, id="behind an announcement"),
        pytest.param(OK.replace(b"OK\r\n", b"OK\r\nconnection: close\r\n"), id="the last on its connection"),
    ],
)
async def test_bodies_however_they_come(answer: bytes) -> None:
    async with serving(writing(answer, go_on=False)) as (_, transport):
        for _ in range(2):
            assert (await transport.send(GET, 5)).body == b"ok"


async def test_warnings_are_read_from_headers() -> None:
    head = b'HTTP/1.1 200 OK\r\nwarning: 299 - "one"\r\nwarning: 299 - "t\\"wo\\"", 299 - "three"\r\n'
    async with serving(writing(head + b"content-length: 0\r\n\r\n")) as (_, transport):
        assert (await transport.send(GET, 5)).warnings == ("one", 't"wo"', "three")


async def closing_when_idle(request: bytes, writer: asyncio.StreamWriter) -> bool:
    """Answer the first request of a connection; close it at the second."""
    first = not hasattr(writer, "used")
    if first:
        writer.write(OK)
        writer.used = True  # type: ignore[attr-defined] # a mark of this test
    return first


async def test_a_read_is_repeated_when_the_server_had_closed_the_idle_connection() -> None:
    async with serving(closing_when_idle) as (server, transport):
        for _ in range(3):
            assert (await transport.send(GET, 5)).status == 200
        assert server.connections == 3


async def test_a_write_is_never_repeated() -> None:
    async with serving(closing_when_idle) as (server, transport):
        post = Request("POST", "/api", body=b"x")
        await transport.send(post, 5)
        with pytest.raises(DisconnectedError):
            await transport.send(post, 5)
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"SSH-2.0-OpenSSH\r\n", id="another protocol"),
        pytest.param(OK[:-1], id="half a body"),
        pytest.param(STREAM + b"5\r\nabc", id="half a chunk"),
        pytest.param(STREAM + b"zz\r\nabc\r\n", id="no chunk"),
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", id="an upgrade"),
    ],
)
async def test_answers_that_break_off_or_make_no_sense(answer: bytes) -> None:
    async with serving(writing(answer, go_on=False)) as (_, transport):
        with pytest.raises(DisconnectedError):
            await transport.send(GET, 5)
        with pytest.raises(DisconnectedError):
            await read_all(transport)


async def read_all(transport: HttpsTransport) -> bytes:
    stream = await transport.stream(GET, 5)
    return b"".join([chunk async for chunk in stream.chunks()])


async def endless(request: bytes, writer: asyncio.StreamWriter) -> bool:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while not writer.transport.is_closing():
        writer.write(b"x-more: " + b"x" * 65536 + b"\r\n")
        await writer.drain()
    return False


async def test_headers_without_end_are_given_up_before_they_fill_memory() -> None:
    async with serving(endless) as (_, transport):
        with pytest.raises(DisconnectedError, match="more than 1048576 bytes of headers"):
            await transport.send(GET, 30)
        with pytest.raises(DisconnectedError, match="more than 1048576 bytes of headers"):
            await transport.stream(GET, 30)
        await asyncio.sleep(0.01)
        assert not transport._open


async def test_long_headers_that_end_are_read() -> None:
    long = b"HTTP/1.1 200 OK\r\nx-long: " + b"x" * 500_000 + b"\r\n" + OK.partition(b"\r\n")[2]
    async with serving(writing(long)) as (server, transport):
        assert len((await transport.send(GET, 5)).headers["x-long"]) == 500_000
        assert (await transport.send(GET, 5)).body == b"ok"
        assert server.connections == 1


async def test_unrequested_bytes_end_the_connection() -> None:
    async with serving(writing(OK + b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil", OK)) as (server, transport):
        assert (await transport.send(GET, 5)).body == b"ok"
        await asyncio.sleep(0.01)
        assert (await transport.send(GET, 5)).body == b"ok"
        assert server.connections == 2


async def never(request: bytes, writer: asyncio.StreamWriter) -> bool:
    await asyncio.sleep(60)
    return False


async def test_an_answer_that_does_not_come_is_given_up_and_its_connection_with_it() -> None:
    async with serving(never) as (_, transport):
        with pytest.raises(DeadlineError, match=r"no answer within 0\.05 s"):
            await transport.send(GET, 0.05)
        with pytest.raises(DeadlineError):
            await transport.stream(GET, 0.05)
        await asyncio.sleep(0.01)
        assert not transport._open


async def test_a_server_that_is_not_there() -> None:
    async with serving(writing(OK)) as (server, _):
        url = server.url
    with pytest.raises(ConnectError, match=r"127\.0\.0\.1.*"):
        await HttpsTransport(Connection(url)).send(GET, 5)


@pytest.mark.parametrize("url", ["ftp://a", "https://", "nonsense"])
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(ConfigError, match="is no URL"):
        HttpsTransport(Connection(url))


async def test_a_stream_hands_out_what_has_arrived_and_ends_with_the_answer() -> None:
    go_on = asyncio.Event()

    async def serve(request: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(STREAM + b"3\r\nabc\r\n3\r\ndef\r\n")
        await go_on.wait()
        writer.write(b"3\r\nghi\r\n0\r\n\r\n")
        return True

    async with serving(serve) as (_, transport):
        stream = await transport.stream(GET, 5)
        chunks = []
        async for chunk in stream.chunks():
            chunks.append(chunk)
            go_on.set()
        assert chunks == [b"abcdef", b"ghi"]
        await stream.close()


async def test_a_stream_does_not_take_the_place_of_requests() -> None:
    async def serve(request: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(STREAM if b"/watch" in request else OK)
        return True

    async with serving(serve, max_connections=1) as (_, transport):
        streams = [await transport.stream(Request("GET", "/watch"), 5) for _ in range(3)]
        assert (await transport.send(GET, 5)).status == 200
        for stream in streams:
            await stream.close()


async def test_a_stream_takes_a_connection_that_is_free_and_a_new_one_where_the_server_has_closed_it() -> None:
    async def serve(request: bytes, writer: asyncio.StreamWriter) -> bool:
        writer.write(STREAM if b"/watch" in request else OK)
        return b"/last" not in request

    async with serving(serve) as (server, transport):
        for path in ("/api", "/last"):
            await transport.send(Request("GET", path), 5)
            assert (await transport.stream(Request("GET", "/watch"), 5)).status == 200
        assert server.connections == 3


async def test_a_slow_reader_slows_the_server_down_instead_of_filling_memory() -> None:
    sent = 0

    async def flood(request: bytes, writer: asyncio.StreamWriter) -> bool:
        nonlocal sent
        writer.write(STREAM)
        piece = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        for _ in range(2000):
            writer.write(piece)
            await writer.drain()
            sent += 65536
        return False

    async with serving(flood) as (_, transport):
        stream = await transport.stream(GET, 5)
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.05)
        assert sent < 60_000_000
        received = 0
        chunks = stream.chunks()
        while received <= before:
            received += len(await anext(chunks))
        await stream.close()


class Renewable:
    """Credentials of which the first is out of date."""

    def __init__(self, *tokens: str) -> None:
        self._tokens = list(tokens)

    async def current(self) -> Credential:
        return Credential(f"Bearer {self._tokens[0]}", headers=(("impersonate-user", "eve"),))

    def reject(self) -> bool:
        if len(self._tokens) == 1:
            return False
        self._tokens.pop(0)
        return True


async def only_new(request: bytes, writer: asyncio.StreamWriter) -> bool:
    assert b"impersonate-user: eve\r\n" in request
    accepted = b"authorization: Bearer new\r\n" in request
    writer.write(OK if accepted else OK.replace(b"200 OK", b"401 No"))
    return True


@pytest.mark.parametrize(
    ("tokens", "status"),
    [
        pytest.param(["old", "new"], 200, id="renewed credentials are used at once"),
        pytest.param(["old"], 401, id="without others the answer stands"),
    ],
)
async def test_rejected_credentials(tokens: list[str], status: int) -> None:
    async with serving(only_new) as (server, _):
        transport = HttpsTransport(Connection(server.url, Renewable(*tokens)))
        response: Response = await transport.send(GET, 5)
        assert response.status == status
        transport = HttpsTransport(Connection(server.url, Renewable(*tokens)))
        assert (await transport.stream(GET, 5)).status == status
        await transport.close()


async def test_a_closed_transport_refuses_and_ends_its_streams() -> None:
    async with serving(writing(STREAM)) as (_, transport):
        stream = await transport.stream(GET, 5)
        await transport.close()
        with pytest.raises(DisconnectedError):
            async for _chunk in stream.chunks():
                pass
        with pytest.raises(ConnectError, match="closed"):
            await transport.send(GET, 5)


async def test_a_cancelled_request_leaves_no_connection_that_others_would_use() -> None:
    slow = asyncio.Event()

    async def serve(request: bytes, writer: asyncio.StreamWriter) -> bool:
        if b"/slow" in request:
            slow.set()
            await asyncio.sleep(60)
        writer.write(OK)
        return True

    async with serving(serve) as (server, transport):
        task = asyncio.ensure_future(transport.send(Request("GET", "/slow"), 5))
        await slow.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (await transport.send(GET, 5)).body == b"ok"
        assert server.connections == 2


async def test_after_an_unanswered_request_no_open_connection_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind a balancer all of them may lead to the server that has stopped, and a new one leads to another."""
    monkeypatch.setattr(https, "_SILENT_SECONDS", 0.05)
    writers: set[asyncio.StreamWriter] = set()
    stopped: set[asyncio.StreamWriter] = set()

    async def serve(request: bytes, writer: asyncio.StreamWriter) -> bool:
        writers.add(writer)
        if writer in stopped:
            await asyncio.sleep(60)
        await asyncio.sleep(0.01)  # so that several connections are needed at once
        writer.write(OK)
        return True

    async with serving(serve) as (server, transport):
        await asyncio.gather(*(transport.send(GET, 5) for _ in range(3)))
        stopped |= writers
        with pytest.raises(DeadlineError):
            await transport.send(GET, 0.2)
        assert (await transport.send(GET, 5)).status == 200
        assert server.connections == 4


async def test_a_guard_is_asked_when_nothing_stands_between_it_and_the_wire() -> None:
    def refuse() -> None:
        raise NotLeaderError("not now")

    async with serving(writing(OK)) as (server, transport):
        post = Request("POST", "/api", body=b"x", guard=refuse)
        with pytest.raises(NotLeaderError):
            await transport.send(post, 5)
        assert (server.requests, server.connections) == ([], 1), "it was connected, but nothing was sent"
        assert (await transport.send(GET, 5)).status == 200
        assert server.connections == 1
