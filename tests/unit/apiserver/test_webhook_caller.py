"""Requests to webhooks that misbehave: nothing hangs, nothing grows, and each failure has its words."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mooring.api.admissionregistration_v1 import ServiceReference, WebhookClientConfig
from mooring.apiserver.access.pki import Pki
from mooring.apiserver.extension.webhooks.caller import WebhookCaller
from mooring.apiserver.extension.webhooks.failures import WebhookError
from mooring.base.clock import SystemClock

pytestmark = pytest.mark.req("X.9", "X.11")
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


async def nowhere(namespace: str, name: str, port: int) -> list[tuple[str, int]]:
    return []


async def read_request(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length"))
    await reader.readexactly(int(length.partition(b":")[2]))


@asynccontextmanager
async def webhook(folder: Path, serve: Serve, name: str = "127.0.0.1") -> AsyncIterator[WebhookClientConfig]:
    """Yield a server that does as it likes, and how to reach it."""
    pki = Pki(folder / "webhook", SystemClock())
    made = pki.server([name])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate_file, made.key_file)
    tasks: set[asyncio.Task[None]] = set()

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())  # type: ignore[arg-type] # a coroutine runs in a task
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    running = await asyncio.start_server(once, "127.0.0.1", 0, ssl=context)
    port = running.sockets[0].getsockname()[1]
    try:
        yield WebhookClientConfig(url=f"https://127.0.0.1:{port}/x", ca_bundle=pki.authority.certificate)
    finally:
        running.close()
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def calling() -> AsyncIterator[WebhookCaller]:
    caller = WebhookCaller(nowhere)
    try:
        yield caller
    finally:
        await caller.close()


async def test_an_answer_of_a_hundred_megabytes_is_not_read_to_its_end(tmp_path: Path) -> None:
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 104857600\r\n\r\n")
        while sent < 104857600:
            writer.write(b" " * 1048576)
            await writer.drain()
            sent += 1048576

    async with webhook(tmp_path, flood) as config, calling() as caller:
        with pytest.raises(WebhookError, match="longer than 16777216 bytes"):
            await caller.call(config, b"{}", seconds=30)
        assert sent < 64 * 1048576


async def test_an_answer_that_trickles_is_given_up_in_time(tmp_path: Path) -> None:
    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        for _ in range(1000):
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.2)

    async with webhook(tmp_path, trickle) as config, calling() as caller:
        with pytest.raises(WebhookError, match=r"\?timeout=1s\": context deadline exceeded"):
            await caller.call(config, b"{}", seconds=1)


async def test_a_connection_is_used_again_and_opened_again_where_it_was_closed(tmp_path: Path) -> None:
    connections, answers = 0, 0

    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections, answers
        connections += 1
        for _ in range(2):
            await read_request(reader)
            writer.write(OK)
            answers += 1

    async with webhook(tmp_path, twice) as config, calling() as caller:
        for _ in range(5):
            assert await caller.call(config, b"{}", seconds=10) == b"{}"
        assert (connections, answers) == (3, 5)


async def test_a_server_that_speaks_no_http_is_reported(tmp_path: Path) -> None:
    async def gibberish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
        await writer.drain()

    async with webhook(tmp_path, gibberish) as config, calling() as caller:
        with pytest.raises(WebhookError, match=r"^Post \"https://127.0.0.1"):
            await caller.call(config, b"{}", seconds=10)


async def test_a_service_is_asked_at_the_first_address_that_answers(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        await writer.drain()

    async with webhook(tmp_path, serve, "hooks.default.svc") as config:
        port = int((config.url or "").rpartition(":")[2].partition("/")[0])

        async def addresses(namespace: str, name: str, wanted: int) -> list[tuple[str, int]]:
            assert (namespace, name, wanted) == ("default", "hooks", 443)
            return [("127.0.0.1", 1), ("127.0.0.1", port)]

        caller = WebhookCaller(addresses)
        service = ServiceReference(namespace="default", name="hooks")
        try:
            named = WebhookClientConfig(service=service, ca_bundle=config.ca_bundle)
            assert await caller.call(named, b"{}", seconds=10) == b"{}"
        finally:
            await caller.close()


async def test_a_certificate_of_another_name_is_not_trusted(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)

    async with webhook(tmp_path, serve, "elsewhere.default.svc") as config:
        port = int((config.url or "").rpartition(":")[2].partition("/")[0])

        async def addresses(namespace: str, name: str, wanted: int) -> list[tuple[str, int]]:
            return [("127.0.0.1", port)]

        caller = WebhookCaller(addresses)
        service = ServiceReference(namespace="default", name="hooks")
        named = WebhookClientConfig(service=service, ca_bundle=config.ca_bundle)
        with pytest.raises(WebhookError, match=r"x509: certificate is not valid for hooks\.default\.svc"):
            await caller.call(named, b"{}", seconds=10)
        await caller.close()
