"""TLS to kubelets loses nothing at the end, however slow the reader, and does not let the other side run ahead."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest
import uvloop

from mooring.apiserver.access.pki import Pki
from mooring.apiserver.messages.connection import CHUNK, Connection, ConnectionLostError
from mooring.apiserver.streams.real.http_call import Address, CallError, send
from mooring.apiserver.streams.real.tls import open_tls, unverified_context
from mooring.base.clock import SystemClock

pytestmark = pytest.mark.req("N.7")
Speak = Callable[[ssl.SSLSocket], None]


class Peer:
    """The other side, in a thread of its own. Like a kubelet, it closes when it has spoken and waits for nothing."""

    def __init__(self, folder: Path, speak: Speak, *, farewell: bool = True) -> None:
        pair = Pki(folder / "peer", SystemClock()).server()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(pair.certificate_file, pair.key_file)
        self.speak = speak
        self.farewell = farewell

    def _run(self, accept: Callable[[], socket.socket]) -> None:
        with suppress(OSError), self.context.wrap_socket(accept(), server_side=True) as sock:
            self.speak(sock)
            if self.farewell:
                sock.settimeout(0)
                sock.unwrap()

    @asynccontextmanager
    async def running(self, accept: Callable[[], socket.socket]) -> AsyncIterator[Thread]:
        thread = Thread(target=self._run, args=[accept])
        thread.start()
        try:
            yield thread
        finally:
            await asyncio.to_thread(thread.join)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Connection]:
        """Over a pair of sockets, which hold little."""
        mine, theirs = socket.socketpair()
        async with self.running(lambda: theirs):
            mine.setblocking(False)
            connection = await open_tls(mine, unverified_context(), "peer")
            try:
                yield connection
            finally:
                connection.abort()


async def rest_of(connection: Connection) -> bytes:
    found = bytearray()
    while data := await connection.read():
        found += data
    return bytes(found)


async def heard_by_a_slow_reader(peer: Peer) -> bytes:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with peer.running(lambda: listening.accept()[0]) as thread:
            address = Address("127.0.0.1", listening.getsockname()[1], unverified_context())
            answer = await send(address, "GET", "/")
            connection, heard = answer.take_connection()
            await asyncio.to_thread(thread.join, 0.1)  # the reader rests while the other side speaks and closes
            await asyncio.sleep(0.05)
            while data := await connection.read():
                heard += data
            connection.abort()
            await asyncio.sleep(0)
    return heard


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("farewell", [True, False], ids=["with a farewell", "without one"])
@pytest.mark.parametrize("size", [1, CHUNK, 700_000, 4_500_000])
def test_a_slow_reader_misses_nothing_when_the_other_side_closes(
    tmp_path: Path, size: int, farewell: bool, run: Callable[[Coroutine[None, None, bytes]], bytes]
) -> None:
    """uvloop's own TLS lost the end: always of what is longer than a reader and TLS let wait together."""
    said = (bytes(range(251)) * (size // 251 + 1))[:size]

    def speak(sock: ssl.SSLSocket) -> None:
        sock.recv(65_536)
        sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\r\n" + said)

    assert run(heard_by_a_slow_reader(Peer(tmp_path, speak, farewell=farewell))) == said


async def test_who_does_not_read_holds_the_other_side_back(tmp_path: Path) -> None:
    sent = 0

    def speak(sock: ssl.SSLSocket) -> None:
        nonlocal sent
        for _ in range(1000):
            sock.sendall(b"x" * 16_384)
            sent += 16_384

    async with Peer(tmp_path, speak).connected() as connection:
        before = -1
        while sent != before:  # until nothing moves any more
            before = sent
            await asyncio.sleep(0.1)
        assert sent < 1_000_000  # what a socket pair and a reader hold
        assert len(await rest_of(connection)) == 16_384_000


async def test_both_ways_are_open_at_once(tmp_path: Path) -> None:
    def echo(sock: ssl.SSLSocket) -> None:
        while data := sock.recv(65_536):
            sock.sendall(data)

    said = bytes(range(256)) * 8192
    async with Peer(tmp_path, echo).connected() as connection:
        async with asyncio.TaskGroup() as group:
            group.create_task(connection.write(said))
            heard = bytearray()
            while len(heard) < len(said):
                heard += await connection.read()
        assert heard == said


async def test_a_connection_that_was_closed_takes_nothing(tmp_path: Path) -> None:
    async with Peer(tmp_path, lambda _: None).connected() as connection:
        assert await rest_of(connection) == b""
        connection.close()
        connection.close()
        with pytest.raises(ConnectionLostError):
            await connection.write(b"more")


async def hangs_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def speaks_plainly(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    writer.close()


async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


@pytest.mark.parametrize(
    ("behave", "why"),
    [
        (hangs_up, r"no (TLS with|connection to) 127\.0\.0\.1:\d+: "),
        (speaks_plainly, r"no TLS with 127\.0\.0\.1:\d+: WRONG_VERSION_NUMBER"),
        (says_nothing, r"no connection to 127\.0\.0\.1:\d+ within 0\.5 s"),
    ],
    ids=["who hangs up", "who speaks plainly", "who says nothing"],
)
async def test_a_client_without_a_handshake_is_logged(
    monkeypatch: pytest.MonkeyPatch,
    behave: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    why: str,
) -> None:
    monkeypatch.setattr("mooring.apiserver.streams.real.http_call.CONNECT_SECONDS", 0.5)
    ended = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await behave(reader, writer)
            writer.close()
            await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises(CallError, match=why):
            await send(Address("127.0.0.1", port, unverified_context()), "GET", "/")
        await asyncio.wait_for(ended.wait(), 10)
        await asyncio.sleep(0)
