"""WebSockets to simulated containers over a real connection: what clients get, and what hostile ones cannot do."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from raw_client import RawClient
from running_server import RunningServer, running_server
from upgraded_client import WEBSOCKET, UpgradedClient

pytestmark = pytest.mark.req("N.7", "N.8")
PODS = "/api/v1/namespaces/default/pods"
EXEC = f"{PODS}/web/exec?stdout=1&stderr=1"
CAT = f"{EXEC}&stdin=1&command=cat"
MOST = 40


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("server"), "--max-streams", str(MOST)) as running:
        asyncio.run(populate(running))
        yield running


async def populate(server: RunningServer) -> None:
    """Create a simulated node and a pod that runs there, as controllers would."""
    annotations = {"simulation.mooring.dev/node": "true"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "annotations": annotations}}
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "img"}]}
    metadata = {"name": "web", "annotations": {"simulation.mooring.dev/http": "hello"}}
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    container = {"name": "c", "state": state, "ready": True, "restartCount": 0, "image": "img", "imageID": ""}
    status = {"status": {"phase": "Running", "containerStatuses": [container]}}
    async with await RawClient.connect(server) as client:
        assert (await client.request("POST", "/api/v1/nodes", node))[0] == 201
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        assert (await client.request("POST", PODS, pod))[0] == 201
        merge = "application/merge-patch+json"
        assert (await client.request("PATCH", f"{PODS}/web/status", status, merge))[0] == 200


async def open_streams(server: RunningServer) -> int:
    async with await UpgradedClient.ask(server, "/metrics", headers={"connection": "close"}) as client:
        page = client.body.decode()
    return int(float(page.partition("\nmooring_streams ")[2].partition("\n")[0]))


async def until_closed(server: RunningServer) -> None:
    async with asyncio.timeout(20):
        while await open_streams(server):  # noqa: ASYNC110 - the server is another process
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
async def test_a_command_ends_with_its_exit_code(server: RunningServer, protocol: str) -> None:
    script = "sh&command=-c&command=echo%20out;echo%20err%20%3E%262;exit%203"
    async with await UpgradedClient.websocket(server, f"{EXEC}&command={script}", protocol) as client:
        assert client.headers["sec-websocket-protocol"] == protocol
        found, status = await client.conversation()
    assert found == {1: b"out\n", 2: b"err\n"}
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


async def test_input_comes_back_and_its_end_is_sent_in_v5(server: RunningServer) -> None:
    async with await UpgradedClient.websocket(server, CAT) as client:
        await client.send(0, b"one")
        assert await client.message() == (1, b"one")
        await client.send(255, b"\x00")
        found, status = await client.conversation()
    assert (found, status["status"]) == ({}, "Success")


@pytest.mark.parametrize("protocol", ["", "channel.k8s.io"])
async def test_protocols_of_old_tell_the_end_in_words(server: RunningServer, protocol: str) -> None:
    async with await UpgradedClient.websocket(server, f"{EXEC}&command=false", protocol) as client:
        assert client.status == 101
        messages = []
        while message := await client.message():
            messages.append(message)
    assert messages == [(3, b"command terminated with non-zero exit code: exit status 1")]


async def test_a_forwarded_port_answers(server: RunningServer) -> None:
    path = f"{PODS}/web/portforward?ports=80&ports=8080"
    async with await UpgradedClient.websocket(server, path, "v4.channel.k8s.io") as client:
        greetings = [await client.message() for _ in range(4)]
        assert greetings == [(0, b"P\x00"), (1, b"P\x00"), (2, b"\x90\x1f"), (3, b"\x90\x1f")]
        await client.send(2, b"GET / HTTP/1.1\r\n")
        await client.send(2, b"\r\n")
        answer = await client.message()
    assert answer is not None
    assert answer[0] == 2
    assert answer[1].endswith(b"\r\n\r\nhello")


async def test_a_frame_of_any_size_costs_no_memory(server: RunningServer) -> None:
    """A frame that says it has 2^62 bytes, and forty megabytes that come of it."""
    before = _memory(server)
    async with await UpgradedClient.websocket(server, f"{EXEC}&command=sleep&command=100") as client:
        client.writer.write(b"\x82\xff" + (2**62).to_bytes(8, "big") + b"\x00\x00\x00\x00" + b"\x00")
        for _ in range(40):
            client.writer.write(b"x" * 2**20)
            await client.writer.drain()
    assert _memory(server) - before < 20 * 2**20
    await until_closed(server)


async def test_a_reader_that_takes_nothing_holds_the_command_back(server: RunningServer) -> None:
    before = _memory(server)
    async with await UpgradedClient.websocket(server, CAT) as client:
        frame = b"\x82\xfe\x80\x00" + bytes(4) + bytes(2**15)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_flood(client, frame), 2)
    assert _memory(server) - before < 30 * 2**20
    await until_closed(server)


@pytest.mark.parametrize(
    "garbage",
    [b"\x00" * 100, b"\xff" * 100, b"GET / HTTP/1.1\r\n\r\n", b"\x82\x80", b"\x88\x00", b"\x89\xff" + b"\xff" * 100],
    ids=["zeros", "ones", "HTTP", "half a header", "an unmasked end", "a giant ping"],
)
async def test_what_is_no_websocket_ends_the_stream(server: RunningServer, garbage: bytes) -> None:
    async with await UpgradedClient.websocket(server, CAT, early=garbage) as client:
        assert client.status == 101
        client.writer.write_eof() if client.writer.can_write_eof() else client.writer.close()
    await until_closed(server)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({**WEBSOCKET, "sec-websocket-version": "8"}, "Sec-WebSocket-Version: 13"),
        ({**WEBSOCKET, "sec-websocket-key": "\xff"}, "Sec-WebSocket-Key"),
        ({**WEBSOCKET, "sec-websocket-protocol": "v9.channel.k8s.io"}, "none of the offered protocols"),
        ({"connection": "Upgrade", "upgrade": "h2c"}, "WebSocket"),
    ],
)
async def test_a_handshake_that_cannot_be_is_refused_in_words(
    server: RunningServer, headers: dict[str, str], message: str
) -> None:
    async with await UpgradedClient.ask(server, CAT, headers=headers) as client:
        assert client.status == 400
        assert message in json.loads(client.body)["message"]
        assert await client.rest() == b""  # nothing else is understood on this connection


async def test_an_upgrade_of_an_ordinary_request_is_ignored(server: RunningServer) -> None:
    headers = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "x"}
    async with await UpgradedClient.ask(
        server, f"{PODS}/web", headers=headers, early=b"PRI * HTTP/2.0\r\n\r\n"
    ) as client:
        assert client.status == 200
        assert json.loads(client.body)["metadata"]["name"] == "web"
        assert await client.rest() == b""


async def test_of_a_thousand_streams_as_many_open_as_there_is_room_for(server: RunningServer) -> None:
    """And when they leave without a word, there is room again."""
    await until_closed(server)
    clients: list[UpgradedClient] = []

    async def attempt() -> None:
        clients.append(await UpgradedClient.websocket(server, CAT))

    for _ in range(10):
        await asyncio.gather(*(attempt() for _ in range(100)))
    opened = [client for client in clients if client.status == 101]
    refused = [client for client in clients if client.status == 429]
    assert (len(opened), len(refused)) == (MOST, 1000 - MOST)
    assert refused[0].headers["retry-after"] == "5"
    for client in clients:
        client.writer.transport.abort()
    await until_closed(server)
    async with await UpgradedClient.websocket(server, f"{EXEC}&command=true") as client:
        assert (await client.conversation())[1]["status"] == "Success"


def test_a_server_that_stops_ends_its_streams(tmp_path: Path) -> None:
    async def walk(running: RunningServer) -> int:
        await populate(running)
        async with (
            await UpgradedClient.websocket(running, CAT) as command,
            await UpgradedClient.ask(running, f"{PODS}/web/log?follow=1") as log,
        ):
            assert (command.status, log.status) == (101, 200)
            code = await asyncio.to_thread(running.stop)
            assert await log.rest() != b""
            assert await command.message() is None
            return code

    with running_server(tmp_path) as running:
        assert asyncio.run(walk(running)) == 0


async def _flood(client: UpgradedClient, frame: bytes) -> None:
    while True:
        client.writer.write(frame)
        await client.writer.drain()


def _memory(server: RunningServer) -> int:
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))
