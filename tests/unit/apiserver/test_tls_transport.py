"""Connections on our own TLS transport: no byte is lost, no wait is endless, and one does not slow down others."""

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from mooring.apiserver.access.pki import Pki
from mooring.apiserver.edge import tls_transport
from mooring.apiserver.edge.http_server import listen
from mooring.apiserver.edge.tls_transport import accept_connections
from mooring.base.clock import SystemClock

pytestmark = pytest.mark.req("S.6")
LARGE = 6 * 1024 * 1024
"""More than the buffers of the system hold."""


class Server(asyncio.Protocol):
    """One side of a connection, which says of itself what happens to it."""

    def __init__(self) -> None:
        self.heard = b""
        self.happened: list[str] = []
        self.news = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard += data
        if data == b"fail":
            raise ValueError("a mistake of the protocol")
        self._note("data")

    def eof_received(self) -> None:
        self._note("eof")

    def pause_writing(self) -> None:
        self._note("pause")

    def resume_writing(self) -> None:
        self._note("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self._note("lost")

    def _note(self, what: str) -> None:
        self.happened.append(what)
        self.news.set()

    async def until(self, fits: Callable[["Server"], bool]) -> None:
        async with asyncio.timeout(30):
            while not fits(self):
                self.news.clear()
                await self.news.wait()


class Listening:
    """A listener, its connections, and a client for them."""

    def __init__(self, folder: Path) -> None:
        pki = Pki(folder, SystemClock())
        pair = pki.server()
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(pair.certificate_file, pair.key_file)
        self.client_tls = ssl.create_default_context(cadata=pki.authority.certificate.decode())
        self.socket = listen("127.0.0.1", 0)
        self.port = self.socket.getsockname()[1]
        self.made: list[Server] = []
        self.clients: list[asyncio.StreamWriter] = []
        self._new: asyncio.Queue[Server] = asyncio.Queue()
        self.accept()

    def accept(self) -> None:
        self.accepting = asyncio.create_task(accept_connections(self.socket, self.tls, self._server))

    def _server(self) -> Server:
        server = Server()
        self.made.append(server)
        self._new.put_nowait(server)
        return server

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Server]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.client_tls)
        self.clients.append(writer)
        server = await self._new.get()
        return reader, writer, server


Story = Callable[[Listening], Coroutine[Any, Any, None]]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def tell(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Story], None]:
    """Run a story on either sort of loop."""

    @asynccontextmanager
    async def listening() -> AsyncIterator[Listening]:
        found = Listening(tmp_path)
        try:
            yield found
        finally:
            found.accepting.cancel()
            found.socket.close()
            for transport in (*(it.transport for it in found.clients), *(it.transport for it in found.made)):
                transport.abort()
            await asyncio.sleep(0.01)

    async def reported(story: Story) -> None:
        async with listening() as found:
            await asyncio.wait_for(story(found), 60)

    def run(story: Story) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(reported(story))

    return run


def test_bytes_go_both_ways(tell: Callable[[Story], None]) -> None:
    async def story(listening: Listening) -> None:
        reader, writer, server = await listening.connect()
        writer.write(b"x" * 100_000)
        await server.until(lambda it: len(it.heard) == 100_000)
        server.transport.write(b"one ")
        server.transport.write(bytearray(b"two "))
        server.transport.writelines([b"three ", memoryview(b"four")])
        assert await reader.readexactly(18) == b"one two three four"
        writer.close()
        await server.until(lambda it: it.happened[-2:] == ["eof", "lost"])

    tell(story)


def test_a_slow_reader_gets_all_and_the_protocol_is_paused(tell: Callable[[Story], None]) -> None:
    async def story(listening: Listening) -> None:
        reader, writer, server = await listening.connect()
        sent = bytes(range(256)) * (LARGE // 256)
        for begin in range(0, LARGE, 100_000):
            server.transport.write(sent[begin : begin + 100_000])
        assert server.happened == ["pause"]
        assert server.transport.get_write_buffer_size() > 0
        await asyncio.sleep(0.05)
        assert await reader.readexactly(LARGE) == sent
        await server.until(lambda it: it.happened == ["pause", "resume"])
        assert server.transport.get_write_buffer_size() == 0
        writer.close()

    tell(story)


def test_closing_sends_what_is_unsent_whatever_the_client_still_says(tell: Callable[[Story], None]) -> None:
    async def story(listening: Listening) -> None:
        reader, writer, server = await listening.connect()
        server.transport.write(b"y" * LARGE)
        server.transport.close()
        server.transport.write(b"too late")
        assert server.transport.is_closing()
        writer.write(b"x" * 50_000)
        assert len(await reader.read(-1)) == LARGE
        assert "data" not in server.happened
        writer.close()
        await server.until(lambda it: it.happened[-1] == "lost")

    tell(story)


def test_who_does_not_hang_up_in_time_is_hung_up_on(
    tell: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_transport, "_FAREWELL_SECONDS", 0.05)

    async def story(listening: Listening) -> None:
        _, writer, server = await listening.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined] # it is a transport to read from too
        server.transport.write(b"y" * LARGE)
        server.transport.close()
        await server.until(lambda it: it.happened[-1:] == ["lost"])

    tell(story)


def test_aborting_ends_it_once(tell: Callable[[Story], None]) -> None:
    async def story(listening: Listening) -> None:
        reader, _, server = await listening.connect()
        server.transport.abort()
        server.transport.close()
        server.transport.abort()
        assert server.happened == [], "the protocol is told later"
        with suppress(OSError):
            assert await reader.read(-1) == b""
        assert server.happened == ["lost"]

    tell(story)


def test_a_client_that_vanishes_is_lost(tell: Callable[[Story], None]) -> None:
    async def story(listening: Listening) -> None:
        _, writer, server = await listening.connect()
        raw: socket.socket = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset in place of an end
        writer.transport.abort()
        await server.until(lambda it: it.happened[-1:] == ["lost"])
        server.transport.write(b"to nobody")

    tell(story)


def test_a_paused_connection_hears_nothing_until_it_goes_on(tell: Callable[[Story], None]) -> None:
    async def story(listening: Listening) -> None:
        _, writer, server = await listening.connect()
        server.transport.pause_reading()
        writer.write(b"hello")
        await writer.drain()
        await asyncio.sleep(0.05)
        assert server.heard == b""
        server.transport.resume_reading()
        await server.until(lambda it: it.heard == b"hello")

    tell(story)


def test_a_mistake_of_a_protocol_costs_its_own_connection_only(tell: Callable[[Story], None]) -> None:
    async def story(listening: Listening) -> None:
        reported: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        _, bad_writer, bad = await listening.connect()
        _, writer, good = await listening.connect()
        bad_writer.write(b"fail")
        await bad.until(lambda it: it.happened == ["lost"])
        assert [str(context["exception"]) for context in reported] == ["a mistake of the protocol"]
        writer.write(b"fine")
        await good.until(lambda it: it.heard == b"fine")

    tell(story)


def test_who_speaks_no_tls_or_nothing_at_all_is_hung_up_on(
    tell: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_transport, "_HANDSHAKE_SECONDS", 0.2)

    async def story(listening: Listening) -> None:
        for words in (b"GET / HTTP/1.1\r\n\r\n", b""):
            reader, writer = await asyncio.open_connection("127.0.0.1", listening.port)
            writer.write(words)
            with suppress(OSError):
                await asyncio.wait_for(reader.read(-1), 30)
            writer.close()
        assert listening.made == []

    tell(story)


def test_a_listener_that_can_have_no_more_files_tries_again(
    tell: Callable[[Story], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_transport, "_FULL_SECONDS", 0.05)

    async def story(listening: Listening) -> None:
        refused: list[int] = []

        class Full(socket.socket):
            def accept(self) -> Any:
                if len(refused) < 2:
                    refused.append(1)
                    raise OSError(errno.EMFILE, "too many open files")
                return super().accept()

        listening.accepting.cancel()
        listening.socket = Full(fileno=listening.socket.detach())
        listening.accept()
        _, writer, server = await listening.connect()
        writer.write(b"hello")
        await server.until(lambda it: it.heard == b"hello")
        assert len(refused) == 2

    tell(story)
