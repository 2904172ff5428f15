"""Health pages and the dashboard run on the API server's HTTP server, without TLS."""

import asyncio
import re
from urllib.parse import urlsplit

import pytest
from prometheus_client import CollectorRegistry

from dashboard_calls import shop
from mooring.advisor.simulate import Settings
from mooring.advisor.snapshot import Snapshot
from mooring.base import component
from mooring.cli.support.health_server import HealthServer
from mooring.dashboard.access import Access
from mooring.dashboard.options import Running
from mooring.dashboard.server import DashboardServer

pytestmark = pytest.mark.req("D.1")


async def _raw(url: str, *requests: bytes) -> bytes:
    """Send requests on one connection; return everything until it is closed."""
    where = urlsplit(url)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    for request in requests:
        writer.write(request % f"127.0.0.1:{where.port}".encode())
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return answer


async def test_health_pages_are_answered_on_one_connection() -> None:
    async with HealthServer("127.0.0.1", 0, CollectorRegistry(), lambda: False) as server:
        first = b"GET /healthz HTTP/1.1\r\nhost: %b\r\n\r\n"
        second = b"HEAD /readyz HTTP/1.1\r\nhost: %b\r\n\r\n"
        third = b"POST /metrics HTTP/1.1\r\nhost: %b\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        answer = await _raw(server.url, first, second, third)
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"503", b"405"]
    assert b"not ready yet" not in answer


async def test_a_page_and_its_news_end_with_the_server() -> None:
    snapshot = Snapshot("the test", shop())
    running = Running(component.resolve())
    access = Access(origin=snapshot.origin, settings=Settings(), running=running, read=lambda: snapshot)
    async with DashboardServer(access) as server:
        path = urlsplit(server.url).path.encode()
        page = await _raw(server.url, b"GET " + path + b" HTTP/1.1\r\nhost: %b\r\nconnection: close\r\n\r\n")
        assert page.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"<!DOCTYPE html>" in page
        where = urlsplit(server.url)
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        writer.write(b"GET %bevents HTTP/1.1\r\nhost: %b\r\n\r\n" % (path, where.netloc.encode()))
        assert b"text/event-stream" in await asyncio.wait_for(reader.readuntil(b"data: "), 20)
    rest = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    assert rest.endswith(b"0\r\n\r\n")
