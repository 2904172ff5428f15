"""The server on a socket: TLS, client certificates, clients that misbehave, and the end."""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from mooring.apiserver.access.pki import Pki
from mooring.apiserver.edge.http_server import ListenError
from mooring.apiserver.edge.limits import Limits
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.base.clock import SystemClock
from mooring.store.kv import Put

pytestmark = pytest.mark.req("S.6")


@asynccontextmanager
async def listening(directory: Path, limits: Limits | None = None, **config: Any) -> AsyncIterator[ApiServer]:
    settings = ServerConfig(data_dir=directory, ephemeral=True, port=0, limits=limits or Limits(), **config)
    async with await ApiServer.open(settings) as server:
        await server.listen()
        yield server


def _tls(directory: Path, client: str | None = "admin") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(directory / "pki" / "ca.crt"))
    if client:
        context.load_cert_chain(directory / "pki" / f"{client}.crt", directory / "pki" / f"{client}.key")
    return context


class Connection:
    """A plain HTTP/1.1 client, that can also behave badly."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, server: ApiServer, tls: ssl.SSLContext) -> "Connection":
        host, port = server.url.removeprefix("https://").rsplit(":", 1)
        return cls(*await asyncio.open_connection(host, int(port), ssl=tls))

    async def ask(self, request: str) -> tuple[int, dict[str, str], bytes]:
        self.writer.write(request.replace("\n", "\r\n").encode())
        await self.writer.drain()
        return await self.answer()

    async def get(self, path: str) -> tuple[int, dict[str, str], bytes]:
        return await self.ask(f"GET {path} HTTP/1.1\nHost: x\n\n")

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 10)).decode().split("\r\n")
        pairs = (line.partition(": ") for line in head[1:] if line)
        headers = {name.lower(): value for name, _, value in pairs}
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return int(head[0].split()[1]), headers, body

    async def chunks(self) -> bytes:
        """Return the rest of an answer that comes in chunks."""
        body = b""
        while size := int(await asyncio.wait_for(self.reader.readuntil(b"\r\n"), 10), 16):
            body += (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readexactly(2)
        return body

    async def ends(self) -> bytes:
        """All that still comes until the server hangs up."""
        return await asyncio.wait_for(self.reader.read(-1), 10)

    def close(self) -> None:
        self.writer.transport.abort()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with listening(tmp_path) as found:
        yield found


@pytest.fixture
async def connection(server: ApiServer, tmp_path: Path) -> AsyncIterator[Connection]:
    found = await Connection.open(server, _tls(tmp_path))
    yield found
    found.close()


async def test_a_client_certificate_is_a_user(connection: Connection) -> None:
    body = b"{}"
    code, _, answer = await connection.ask(
        "POST /apis/authentication.k8s.io/v1/selfsubjectreviews HTTP/1.1\nHost: x\n"
        f"Content-Type: application/json\nContent-Length: {len(body)}\n\n{{}}"
    )
    assert code == 201
    assert json.loads(answer)["status"]["userInfo"] == {
        "username": "kubernetes-admin",
        "groups": ["system:masters", "system:authenticated"],
    }


async def test_a_connection_serves_many_requests(connection: Connection) -> None:
    for _ in range(3):
        code, headers, _ = await connection.get("/api/v1/namespaces")
        assert code == 200
        assert "server" not in headers


async def test_requests_that_do_not_wait_are_answered_in_their_order(connection: Connection) -> None:
    paths = ["/version", "/healthz", "/version"]
    connection.writer.write("".join(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n" for path in paths).encode())
    bodies = [(await connection.answer())[2] for _ in paths]
    assert [body == b"ok" for body in bodies] == [False, True, False]


_CREATES = [
    "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    f"Content-Length: {len(body)}\r\n\r\n{body}"
    for body in (json.dumps({"metadata": {"name": f"map-{number}"}}) for number in range(3))
]


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
async def test_it_does_not_matter_in_how_many_pieces_requests_come(connection: Connection, size: int) -> None:
    sent = "".join(_CREATES).encode()
    for start in range(0, len(sent), size):
        connection.writer.write(sent[start : start + size])
        await connection.writer.drain()
    answers = [await connection.answer() for _ in _CREATES]
    assert [answer[0] for answer in answers] == [201] * 3
    assert [json.loads(answer[2])["metadata"]["name"] for answer in answers] == ["map-0", "map-1", "map-2"]
    head = {name: value for name, value in answers[0][1].items() if name not in {"audit-id", "date", "content-length"}}
    assert list(head) == ["content-type", "cache-control"]
    assert len(answers[0][1]) == 5


async def test_known_headers_are_understood_behind_whatever_came_before(connection: Connection) -> None:
    """The same headers whole, in two pieces, twice at once, and in the body of another request."""
    head = b"Host: x\r\nContent-Length: %d\r\n\r\n"
    ask = b"GET /healthz HTTP/1.1\r\n" + head % 0
    inner = b"POST /nowhere HTTP/1.1\r\n" + head % len(ask)
    for pieces, codes in ([ask], [200]), ([ask[:30], ask[30:]], [200]), ([ask * 2], [200] * 2), ([inner, ask], [404]):
        for _ in range(2):
            for piece in pieces:
                connection.writer.write(piece)
                await connection.writer.drain()
                await asyncio.sleep(0.05)  # so that each is read by itself
            assert [(await connection.answer())[0] for _ in codes] == codes


async def test_a_connection_without_requests_is_closed_and_one_with_requests_is_not(tmp_path: Path) -> None:
    async with listening(tmp_path, Limits(idle_seconds=1)) as server:
        idle, busy = [await Connection.open(server, _tls(tmp_path)) for _ in range(2)]
        watch = await Connection.open(server, _tls(tmp_path))
        await idle.get("/version")
        await watch.get("/version")
        assert (await watch.ask("GET /api/v1/pods?watch=1 HTTP/1.1\nHost: x\n\n"))[0] == 200
        for _ in range(6):
            assert (await busy.get("/version"))[0] == 200
            await asyncio.sleep(0.25)
        assert await idle.ends() == b""
        assert server.app.limiter.watches.taken == 1
        busy.close()
        watch.close()


async def test_head_sends_the_length_and_no_body(connection: Connection) -> None:
    connection.writer.write(b"HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    head = await asyncio.wait_for(connection.reader.readuntil(b"\r\n\r\n"), 10)
    assert b"content-length: 2\r\n" in head
    assert (await connection.get("/healthz"))[2] == b"ok"  # nothing is in between


async def test_who_speaks_http_1_0_gets_one_answer(connection: Connection) -> None:
    status, headers, body = await connection.ask("GET /healthz HTTP/1.0\n\n")
    assert (status, headers["connection"], body) == (200, "close", b"ok")
    assert await connection.ends() == b""


_MAPS = "/api/v1/namespaces/default/configmaps"


async def test_who_speaks_http_1_0_gets_a_list_in_pieces_until_the_end_of_the_connection(
    server: ApiServer, connection: Connection
) -> None:
    head = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{'
    await server.store.write_all(
        [
            Put(f"/registry/configmaps/default/c{number}", b'%b"name":"c%d","namespace":"default"}}' % (head, number))
            for number in range(1500)  # more than are sent at once
        ]
    )
    _, headers, _ = await connection.ask(f"GET {_MAPS} HTTP/1.0\n\n")
    assert (headers["connection"], "transfer-encoding" in headers) == ("close", False)
    assert len(json.loads(await connection.ends())["items"]) == 1500


@pytest.mark.parametrize("query", ["", "&fieldSelector=metadata.name%3Dc"])
async def test_who_speaks_http_1_0_gets_the_bare_lines_of_a_watch(
    server: ApiServer, connection: Connection, query: str
) -> None:
    value = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"c","namespace":"default"}}'
    await server.store.write(Put("/registry/configmaps/default/c", value))
    _, headers, _ = await connection.ask(f"GET {_MAPS}?watch=1&timeoutSeconds=1{query} HTTP/1.0\n\n")
    assert (headers["connection"], "transfer-encoding" in headers) == ("close", False)
    lines = (await connection.ends()).splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["ADDED"]


async def test_a_body_can_come_in_chunks_after_the_server_has_asked_for_it(connection: Connection) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    head = f"POST {path} HTTP/1.1\nHost: x\nExpect: 100-continue\nTransfer-Encoding: chunked\n\n"
    connection.writer.write(head.replace("\n", "\r\n").encode())
    asked = await asyncio.wait_for(connection.reader.readuntil(b"\r\n\r\n"), 10)
    assert asked.startswith(b"HTTP/1.1 100 ")
    for part in (b'{"metadata":', b'{"name":"c"}}', b""):
        connection.writer.write(b"%x\r\n%b\r\n" % (len(part), part))
    status, _, body = await connection.answer()
    assert (status, json.loads(body)["metadata"]["name"]) == (201, "c")


async def test_a_watch_begins_before_there_is_news(connection: Connection) -> None:
    status, headers, _ = await connection.ask("GET /api/v1/pods?watch=1 HTTP/1.1\nHost: x\n\n")
    assert (status, headers["transfer-encoding"]) == (200, "chunked")


@pytest.mark.parametrize("pieces", [1, 2, 3])
async def test_a_request_behind_a_watch_is_answered_after_it(connection: Connection, pieces: int) -> None:
    watch = f"GET {_MAPS}?watch=1&timeoutSeconds=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    sent = watch + b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    begins = [0, len(watch), len(watch) + 10, len(sent)]  # in the last case, the second request comes in two
    for begin, end in zip([0, *begins[-pieces:-1]], begins[-pieces:], strict=True):
        connection.writer.write(sent[begin:end])
        await asyncio.sleep(0.1)
    assert (await connection.answer())[1]["transfer-encoding"] == "chunked"
    assert await connection.chunks() == b""
    assert (await connection.answer())[2] == b"ok"
    assert (await connection.get("/healthz"))[2] == b"ok"


async def test_a_client_that_takes_its_time_misses_nothing_of_a_watch(
    server: ApiServer, connection: Connection
) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    await connection.ask(
        f"GET {maps}?watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan HTTP/1.1\nHost: x\n\n"
    )
    head = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{'
    for number in range(100):
        value = b'%b"name":"c%d","namespace":"default"},"data":{"x":"%b"}}' % (head, number, b"y" * 200_000)
        await server.store.write(Put(f"/registry/configmaps/default/c{number}", value))
        await asyncio.sleep(0)  # the server sends what it can, and this client reads nothing
    heard: list[bytes] = []
    size = 0
    while size < 100 * 200_000:
        heard.append(await asyncio.wait_for(connection.reader.read(1_000_000), 20))
        size += len(heard[-1])
    names = re.findall(rb'"type":"ADDED".{,200}?"name":"c(\d+)"', b"".join(heard))
    assert list(map(int, names)) == list(range(100))


async def test_a_large_list_comes_whole(connection: Connection) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    for name in ("a", "b"):
        body = json.dumps({"metadata": {"name": name}, "data": {"text": name * 400_000}})
        head = f"POST {path} HTTP/1.1\nHost: x\nContent-Type: application/json\nContent-Length: {len(body)}\n\n"
        assert (await connection.ask(head + body))[0] == 201
    assert (await connection.get(path))[1]["transfer-encoding"] == "chunked"
    items = json.loads(await connection.chunks())["items"]
    assert [(item["metadata"]["name"], len(item["data"]["text"])) for item in items] == [("a", 400_000), ("b", 400_000)]


async def test_a_client_has_no_say_in_where_it_comes_from(tmp_path: Path) -> None:
    async with listening(tmp_path, audit_log=tmp_path / "audit.log") as server:
        connection = await Connection.open(server, _tls(tmp_path))
        await connection.ask("GET /api/v1/pods HTTP/1.1\nHost: x\nX-Forwarded-For: 192.0.2.7\n\n")
        connection.close()
    assert "192.0.2.7" not in (tmp_path / "audit.log").read_text()


async def test_a_client_without_a_certificate_is_anonymous(server: ApiServer, tmp_path: Path) -> None:
    connection = await Connection.open(server, _tls(tmp_path, client=None))
    assert (await connection.get("/version"))[0] == 200
    assert (await connection.get("/api/v1/namespaces"))[0] == 401
    connection.close()


async def test_a_certificate_of_another_authority_is_refused(server: ApiServer, tmp_path: Path) -> None:
    other = Pki(tmp_path / "other", SystemClock()).client("c", "kubernetes-admin", ["system:masters"])
    context = _tls(tmp_path, client=None)
    context.load_cert_chain(other.certificate_file, other.key_file)
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await (await Connection.open(server, context)).get("/version")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # that old versions are old is the point
async def test_old_versions_of_tls_are_refused(server: ApiServer, tmp_path: Path) -> None:
    context = _tls(tmp_path)
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await Connection.open(server, context)


async def test_the_kubeconfig_leads_to_the_server(server: ApiServer) -> None:
    assert server.url in server.kubeconfig().read_text()
    assert {server.kubeconfig(name).name for name in ("scheduler", "controllers")} == {
        "scheduler.kubeconfig",
        "controllers.kubeconfig",
    }


async def test_garbage_is_no_request(connection: Connection) -> None:
    connection.writer.write(b"\x00\x01garbage\r\n\r\n")
    assert b"400 Bad Request" in await connection.ends()


async def test_headers_that_are_too_large_are_refused(connection: Connection) -> None:
    connection.writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 70_000 + b"\r\n\r\n")
    assert (await connection.ends()).startswith(b"HTTP/1.1 431 ")


async def test_a_header_that_never_ends_is_refused(connection: Connection) -> None:
    connection.writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\nX: ")
    for _ in range(12):
        connection.writer.write(b"a" * 8192)
        await asyncio.sleep(0.005)
    assert (await connection.ends()).startswith(b"HTTP/1.1 431 ")


async def test_a_body_that_is_too_large_is_refused(connection: Connection) -> None:
    head = f"POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: x\r\nContent-Length: {4 * 1024 * 1024}\r\n\r\n"
    connection.writer.write(head.encode() + b"x" * (4 * 1024 * 1024))
    code, headers, body = await connection.answer()
    assert (code, json.loads(body)["reason"]) == (413, "RequestEntityTooLarge")
    assert headers["connection"] == "close", "a client must not send its next request on this connection"


async def test_who_does_not_finish_a_request_is_not_waited_for(tmp_path: Path) -> None:
    async with listening(tmp_path, Limits(header_seconds=0.5)) as server:
        silent = await Connection.open(server, _tls(tmp_path))
        slow = await Connection.open(server, _tls(tmp_path))
        slow.writer.write(b"GET /version HT")
        assert await silent.ends() == b""
        assert await slow.ends() == b""
        busy = await Connection.open(server, _tls(tmp_path))
        assert (await busy.get("/version"))[0] == 200
        busy.writer.write(b"GET /ver")  # the second request of a connection is no different
        assert await busy.ends() == b""


async def test_who_does_not_read_is_not_waited_for(tmp_path: Path) -> None:
    async with listening(tmp_path, Limits(stalled_seconds=0.2)) as server:
        connection = await Connection.open(server, _tls(tmp_path))
        name = "c" * 40
        data = {"k": "x" * 900_000}
        for number in range(12):
            body = json.dumps({"metadata": {"name": f"{name}{number}"}, "data": data})
            code, _, _ = await connection.ask(
                f"POST /api/v1/namespaces/default/configmaps HTTP/1.1\nHost: x\nContent-Length: {len(body)}\n\n{body}"
            )
            assert code == 201
        connection.writer.write(b"GET /api/v1/configmaps HTTP/1.1\r\nHost: x\r\n\r\n" * 4)
        connection.writer.transport.pause_reading()  # type: ignore[attr-defined] # it is a transport to read from too
        for _ in range(600):
            await asyncio.sleep(0.05)
            if server.app.limiter.reading.taken == 0 and not server._http.connections:  # type: ignore[union-attr] # it listens
                break
        assert not server._http.connections  # type: ignore[union-attr] # as above
        connection.close()


async def test_stopping_ends_watches_and_finishes_requests(tmp_path: Path) -> None:
    async with listening(tmp_path) as server:
        watch = await Connection.open(server, _tls(tmp_path))
        watch.writer.write(b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        await watch.reader.readuntil(b"\r\n\r\n")
        url = server.url
        await asyncio.wait_for(server.stop(), 5)
        assert (await watch.ends()).endswith(b"0\r\n\r\n")  # the stream ended as it should, and was not cut off
        host, port = url.removeprefix("https://").rsplit(":", 1)
        with pytest.raises(OSError):  # noqa: PT011 - which one depends on the system
            await asyncio.open_connection(host, int(port))


async def test_who_comes_while_the_server_stops_does_not_hold_it_up(tmp_path: Path) -> None:
    """Connections whose handshake ends too late, and watches that are asked for but not open yet."""
    async with listening(tmp_path) as server:
        host, port = server.url.removeprefix("https://").rsplit(":", 1)
        early = await Connection.open(server, _tls(tmp_path))
        reader, writer = await asyncio.open_connection(host, int(port))
        await asyncio.sleep(0.05)  # it is accepted
        early.writer.write(b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0.05)
        with suppress(OSError):
            await writer.start_tls(_tls(tmp_path), server_hostname=host)
            writer.write(b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.wait_for(reader.read(-1), 5)
        await asyncio.wait_for(stopping, 5)
        writer.transport.abort()
        early.close()


async def test_a_watch_ends_when_its_client_hangs_up(server: ApiServer, tmp_path: Path) -> None:
    watch = await Connection.open(server, _tls(tmp_path))
    watch.writer.write(b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n")
    await watch.reader.readuntil(b"\r\n\r\n")
    assert server.app.limiter.watches.taken == 1
    watch.close()
    for _ in range(1000):
        if server.app.limiter.watches.taken == 0:
            break
        await asyncio.sleep(0.01)
    assert (server.app.limiter.watches.taken, server.app.resources.open_watches) == (0, 0)


async def test_a_stream_ends_when_its_client_hangs_up_after_another_request(server: ApiServer, tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"more"
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    async def handle(_: Request) -> Response:
        return Response(200, endless(), "text/plain")

    server.app.paths["/endless"] = handle
    client = await Connection.open(server, _tls(tmp_path))
    client.writer.write(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
    await client.reader.readuntil(b"\r\n\r\n")
    client.writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(0.05)
    client.close()
    await asyncio.wait_for(ended.wait(), 10)


async def test_a_port_in_use_is_reported(server: ApiServer, tmp_path: Path) -> None:
    port = int(server.url.rsplit(":", 1)[1])
    settings = ServerConfig(data_dir=tmp_path / "second", ephemeral=True, port=port)
    async with await ApiServer.open(settings) as second:
        with pytest.raises(ListenError, match="another program listens there already; stop it"):
            await second.listen()


async def test_an_address_of_another_machine_is_reported(tmp_path: Path) -> None:
    settings = ServerConfig(data_dir=tmp_path, ephemeral=True, port=0, bind_address="192.0.2.1")
    async with await ApiServer.open(settings) as server:
        with pytest.raises(ListenError, match="this machine has no such address"):
            await server.listen()


async def test_certificates_are_kept_between_starts(tmp_path: Path) -> None:
    async with listening(tmp_path):
        first = (tmp_path / "pki" / "ca.crt").read_bytes(), (tmp_path / "pki" / "apiserver.crt").read_bytes()
    async with listening(tmp_path):
        second = (tmp_path / "pki" / "ca.crt").read_bytes(), (tmp_path / "pki" / "apiserver.crt").read_bytes()
    assert first == second


async def test_a_connection_that_is_closed_already_does_not_keep_the_server_from_stopping(tmp_path: Path) -> None:
    async with listening(tmp_path) as server:
        connection = await Connection.open(server, _tls(tmp_path))
        assert (await connection.get("/version"))[0] == 200
        [protocol] = server._http.connections  # type: ignore[union-attr] # it listens
        protocol._transport.close()
        protocol.shutdown()
        await asyncio.wait_for(server.stop(), 5)
        connection.close()
