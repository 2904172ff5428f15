"""Logs, commands and proxies reach the kubelet of a real node: a stand-in says what it was asked, and misbehaves."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mooring.api import errors
from mooring.apiserver.access.pki import KeyPair, Pki
from mooring.apiserver.messages.connection import ConnectionLostError
from mooring.apiserver.messages.http import Request
from mooring.apiserver.streams.kubelet import ProxiedRequest
from mooring.apiserver.streams.real.http_call import Address, CallError, send
from mooring.apiserver.streams.real.kubelets import proxy_request
from mooring.apiserver.streams.real.tls import KubeletTls
from mooring.base.clock import SystemClock
from raw_client import RawClient
from running_server import RunningServer, running_server
from standin_kubelet import Asked, StandInKubelet, echo_upgraded, standin_kubelet, text
from upgraded_client import WEBSOCKET, UpgradedClient

pytestmark = pytest.mark.req("N.7")
PODS = "/api/v1/namespaces/default/pods"
DECLARED = ["ExtendWebSocketsToKubelet"]
SPDY = {"connection": "Upgrade", "upgrade": "SPDY/3.1"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("server"), "--max-streams", "30") as running:
        yield running


@pytest.fixture
async def kubelet(server: RunningServer, tmp_path: Path) -> AsyncIterator[StandInKubelet]:
    """Yield the kubelet of the node `real`, on which the pod `web` runs."""
    async with standin_kubelet(tmp_path, server.data_dir / "pki" / "ca.crt") as kubelet:
        await create_node(server, "real", kubelet.port, DECLARED)
        await create_pod(server, "web", "real")
        yield kubelet
    async with await RawClient.connect(server) as client:
        await client.request("DELETE", f"{PODS}/web?gracePeriodSeconds=0")
        await client.request("DELETE", "/api/v1/nodes/real")


async def create_node(server: RunningServer, name: str, port: int, declared: list[str]) -> None:
    status = {
        "addresses": [
            {"type": "Hostname", "address": "nowhere.invalid"},
            {"type": "InternalIP", "address": "127.0.0.1"},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "declaredFeatures": declared,
    }
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}
    async with await RawClient.connect(server) as client:
        assert (await client.request("POST", "/api/v1/nodes", node))[0] == 201
        code, found = await client.request("GET", f"/api/v1/nodes/{name}")
        found["status"] = status
        code, found = await client.request("PUT", f"/api/v1/nodes/{name}/status", found)
        assert code == 200, found


async def create_pod(server: RunningServer, name: str, node: str, containers: tuple[str, ...] = ("c",)) -> None:
    spec = {"nodeName": node, "containers": [{"name": each, "image": "img"} for each in containers]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    async with await RawClient.connect(server) as client:
        code, answer = await client.request("POST", PODS, pod)
        assert code == 201, answer


async def test_a_log_is_asked_for_in_the_kubelets_words(server: RunningServer, kubelet: StandInKubelet) -> None:
    query = "tailLines=5&timestamps=true&sinceSeconds=60&limitBytes=100&previous=true&pretty=1"
    async with await UpgradedClient.ask(server, f"{PODS}/web/log?{query}") as client:
        assert (client.status, client.headers["content-type"]) == (200, "text/plain")
        assert b"hello" in await client.read(10)
    asked = kubelet.asked[-1]
    path, _, query = asked.target.partition("?")
    assert (asked.method, path, asked.user) == ("GET", "/containerLogs/default/web/c", "kube-apiserver-kubelet-client")
    assert set(query.split("&")) == {
        "previous=true",
        "timestamps=true",
        "sinceSeconds=60",
        "tailLines=5",
        "limitBytes=100",
    }


async def test_what_a_kubelet_refuses_is_reported_with_its_words(
    server: RunningServer, kubelet: StandInKubelet
) -> None:
    kubelet.answer = text('container "c" in pod "web" is waiting to start: ContainerCreating', "400 Bad Request")
    async with await RawClient.connect(server) as client:
        code, status = await client.request("GET", f"{PODS}/web/log")
    assert (code, status["reason"]) == (400, "BadRequest")
    assert status["message"] == 'container "c" in pod "web" is waiting to start: ContainerCreating'


async def test_a_followed_log_comes_as_it_is_written(server: RunningServer, kubelet: StandInKubelet) -> None:
    go_on = asyncio.Event()

    async def answer(_: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\none\n\r\n")
        await go_on.wait()
        writer.write(b"4\r\ntwo\n\r\n0\r\n\r\n")

    kubelet.answer = answer
    async with await UpgradedClient.ask(server, f"{PODS}/web/log?follow=true") as client:
        assert await client.read(9) == b"4\r\none\n\r\n"
        go_on.set()
        assert await client.read(14) == b"4\r\ntwo\n\r\n0\r\n\r\n"
    assert kubelet.asked[-1].target.endswith("?follow=true")


@pytest.mark.parametrize(
    ("protocol", "said"),
    [("binary.k8s.io", b"\x82\x05hello"), ("", b"\x82\x05hello"), ("base64.binary.k8s.io", b"\x81\x08aGVsbG8=")],
)
async def test_a_log_is_sent_in_messages_to_clients_that_ask_for_them(
    server: RunningServer, kubelet: StandInKubelet, protocol: str, said: bytes
) -> None:
    async with await UpgradedClient.websocket(server, f"{PODS}/web/log", protocol) as client:
        assert client.status == 101
        assert client.headers.get("sec-websocket-protocol", "") == protocol
        assert await client.rest() == b"\x82\x00" + said + b"\x88\x02\x03\xe8"
    assert not [name for name, _ in kubelet.asked[-1].headers if name.startswith(("upgrade", "sec-"))]


async def test_a_log_in_an_unknown_protocol_is_refused_before_the_kubelet_is_asked(
    server: RunningServer, kubelet: StandInKubelet
) -> None:
    async with await UpgradedClient.websocket(server, f"{PODS}/web/log", "v5.channel.k8s.io") as client:
        assert client.status == 400
    assert kubelet.asked == []


async def test_a_slow_reader_holds_the_kubelet_back(server: RunningServer, kubelet: StandInKubelet) -> None:
    sent = 0

    async def answer(_: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _piece in range(1000):
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    kubelet.answer = answer
    async with await UpgradedClient.ask(server, f"{PODS}/web/log", headers={"connection": "close"}) as client:
        before = -1
        while sent != before:  # until nothing moves any more
            before = sent
            await asyncio.sleep(0.5)
        assert sent < 32 * 2**20  # buffers of the system on the way are a part of it
        assert (await client.rest()).count(b"x") == 1000 * 65536


async def test_a_log_that_breaks_off_does_not_look_whole(server: RunningServer, kubelet: StandInKubelet) -> None:
    async def answer(_: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\none\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.2)
        writer.transport.abort()

    kubelet.answer = answer
    async with await UpgradedClient.ask(server, f"{PODS}/web/log?follow=true") as client:
        try:
            rest = await client.rest()
        except ConnectionResetError:
            rest = b""
        assert not rest.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("headers", [SPDY, WEBSOCKET], ids=["SPDY", "WebSocket"])
async def test_an_upgraded_connection_passes_both_ways(
    server: RunningServer, kubelet: StandInKubelet, headers: dict[str, str]
) -> None:
    kubelet.answer = echo_upgraded
    path = f"{PODS}/web/exec?command=sh&command=-c&command=a+b&stdin=true&stdout=1&stderr=true&tty=false"
    method = "GET" if headers is WEBSOCKET else "POST"
    async with await UpgradedClient.ask(server, path, method, headers, b"early;") as client:
        assert (client.status, client.headers["upgrade"]) == (101, headers["upgrade"].lower())
        assert await client.read(12) == b"first;early;"
        big = bytes(range(256)) * 4096
        client.writer.write(big)
        assert await client.read(len(big)) == big
    asked = kubelet.asked[-1]
    assert asked.target == "/exec/default/web/c?input=1&output=1&error=1&command=sh&command=-c&command=a+b"
    assert asked.method == method


async def test_spdy_protocols_are_offered_a_line_each(server: RunningServer, kubelet: StandInKubelet) -> None:
    kubelet.answer = echo_upgraded
    offered = {**SPDY, "x-stream-protocol-version": "v5.channel.k8s.io, v4.channel.k8s.io"}
    async with await UpgradedClient.ask(server, f"{PODS}/web/attach?stdout=1", "POST", offered) as client:
        assert client.status == 101
    assert kubelet.asked[-1].values("x-stream-protocol-version") == ["v5.channel.k8s.io", "v4.channel.k8s.io"]
    assert kubelet.asked[-1].target == "/attach/default/web/c?output=1"


async def test_ports_are_forwarded_without_a_container(server: RunningServer, kubelet: StandInKubelet) -> None:
    kubelet.answer = echo_upgraded
    async with await UpgradedClient.ask(server, f"{PODS}/web/portforward?ports=80,443", "POST", SPDY) as client:
        assert client.status == 101
    assert kubelet.asked[-1].target == "/portForward/default/web?port=80%2C443"


async def test_older_kubelets_are_not_offered_what_they_do_not_know(
    server: RunningServer, kubelet: StandInKubelet
) -> None:
    kubelet.answer = echo_upgraded
    await create_node(server, "older", kubelet.port, [])
    await create_pod(server, "on-older", "older")
    path = f"{PODS}/on-older/exec?command=x&stdout=1"
    async with await UpgradedClient.websocket(server, path, "v5.channel.k8s.io, v4.channel.k8s.io") as client:
        assert (client.status, client.headers["sec-websocket-protocol"]) == (101, "v4.channel.k8s.io")
    async with await UpgradedClient.websocket(server, path, "v5.channel.k8s.io") as client:
        assert client.status == 400  # kubectl then takes SPDY
        assert b"ExtendWebSocketsToKubelet" in client.body


async def test_a_refused_upgrade_is_passed_on(server: RunningServer, kubelet: StandInKubelet) -> None:
    kubelet.answer = text('container not found ("c")', "500 Internal Server Error")
    async with await UpgradedClient.ask(server, f"{PODS}/web/exec?command=x&stdout=1", "POST", SPDY) as client:
        assert (client.status, client.body) == (500, b'container not found ("c")')


async def test_a_node_that_dies_ends_the_stream(server: RunningServer, kubelet: StandInKubelet) -> None:
    kubelet.answer = echo_upgraded
    async with await UpgradedClient.ask(server, f"{PODS}/web/exec?command=x&stdout=1", "POST", SPDY) as client:
        await client.read(6)
        kubelet.die()
        assert await client.rest() == b""


async def test_what_a_kubelet_sent_before_it_hung_up_arrives(server: RunningServer, kubelet: StandInKubelet) -> None:
    async def answer(_: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\r\n")
        writer.write(b"x" * 2**23)

    kubelet.answer = answer
    async with await UpgradedClient.ask(server, f"{PODS}/web/exec?command=x&stdout=1", "POST", SPDY) as client:
        assert await client.rest() == b"x" * 2**23


async def test_a_client_that_leaves_ends_the_kubelets_connection(
    server: RunningServer, kubelet: StandInKubelet
) -> None:
    left = asyncio.Event()

    async def answer(asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await echo_upgraded(asked, reader, writer)
        finally:
            left.set()

    kubelet.answer = answer
    async with await UpgradedClient.ask(server, f"{PODS}/web/exec?command=x&stdout=1", "POST", SPDY) as client:
        await client.read(6)
    await asyncio.wait_for(left.wait(), 10)


async def test_a_dead_node_is_reported_in_seconds(server: RunningServer, kubelet: StandInKubelet) -> None:
    await create_node(server, "dead", 1, [])
    await create_pod(server, "on-dead", "dead")
    began = time.monotonic()
    async with await RawClient.connect(server) as client:
        code, status = await client.request("GET", f"{PODS}/on-dead/log")
    assert (code, status["reason"]) == (503, "ServiceUnavailable")
    assert 'the kubelet of node "dead" does not answer: no connection to 127.0.0.1:1' in status["message"]
    assert time.monotonic() - began < 10
    async with await RawClient.connect(server) as client:
        await create_pod(server, "nowhere", "no-such-node")
        code, status = await client.request("GET", f"{PODS}/nowhere/log")
        assert (code, status["message"]) == (404, 'nodes "no-such-node" not found')


async def test_garbage_from_a_kubelet_is_an_error_and_no_answer(server: RunningServer, kubelet: StandInKubelet) -> None:
    async def answer(_: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x00\x01 what is this")

    kubelet.answer = answer
    async with await RawClient.connect(server) as client:
        code, status = await client.request("GET", f"{PODS}/web/log")
    assert code == 503
    assert "no HTTP" in status["message"]


async def test_several_containers_want_a_choice(server: RunningServer, kubelet: StandInKubelet) -> None:
    await create_pod(server, "two", "real", ("a", "b"))
    async with await RawClient.connect(server) as client:
        for query, message in (
            ("", "a container name must be specified for pod two, choose one of: [a b]"),
            ("?container=z", "container z is not valid for pod two"),
            ("?container=a&tailLines=-1", "greater than or equal to 0"),
            ("?container=a&limitBytes=x", "the parameter limitBytes cannot be used"),
            ("?container=a&sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", "at most one of"),
        ):
            code, status = await client.request("GET", f"{PODS}/two/log{query}")
            assert code in {400, 422}
            assert message in status["message"]
        code, status = await client.request("POST", f"{PODS}/web/exec?command=x&stdout=1")
        assert (code, status["message"]) == (400, "Upgrade request required")


async def test_proxies_do_not_lead_to_this_machine_itself(server: RunningServer, kubelet: StandInKubelet) -> None:
    local = {"status": {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}}
    async with await RawClient.connect(server) as client:
        await client.request("PATCH", f"{PODS}/web/status", local, "application/merge-patch+json")
        for path in ("/api/v1/nodes/real/proxy/", "/api/v1/nodes/real:22/proxy/", f"{PODS}/web:6443/proxy/"):
            code, status = await client.request("GET", path)
            assert (code, status["message"]) == (400, "address not allowed")
    assert kubelet.asked == []


# -- proxies and certificates, without a server in between


async def test_a_proxy_passes_any_method_on_and_nothing_else_takes_options(server: RunningServer) -> None:
    async with await RawClient.connect(server) as client:
        code, status = await client.request("OPTIONS", "/api/v1/namespaces/default/services/none/proxy/")
        assert (code, status["reason"]) == (404, "NotFound")
        for path in (PODS, f"{PODS}/web/exec", "/version"):
            assert (await client.request("OPTIONS", path))[0] == 405


async def test_a_proxy_passes_everything_on_but_secrets(tmp_path: Path) -> None:
    own = Pki(tmp_path / "own", SystemClock())
    async with standin_kubelet(tmp_path, own.authority.certificate_file) as target:
        headers = {"authorization": "Bearer secret", "impersonate-user": "root", "x-own": "1", "connection": "close"}
        request = Request(method="POST", path="/below/a b", query={"q": ["1", "2"]}, headers=headers, body=b"data")
        context = KubeletTls(lambda: own.client("me", "me"), None, SystemClock()).for_kubelets()
        address = Address("127.0.0.1", target.port, context)
        response = await proxy_request(address, ProxiedRequest(request, "/a b", "/below", client="10.0.0.9"), "web")
        assert response.status == 200
        assert not isinstance(response.body, bytes)
        assert b"".join([piece async for piece in response.body]) == b"hello"
    asked = target.asked[0]
    assert (asked.method, asked.target) == ("POST", "/a%20b?q=1&q=2")
    names = {name for name, _ in asked.headers}
    assert {"authorization", "impersonate-user"} & names == set()
    assert {("x-own", "1"), ("x-forwarded-for", "10.0.0.9"), ("content-length", "4")} <= set(asked.headers)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ("content-type: text/html; charset=utf-8", b'<a href="/below/x">'),
        ("content-type: text/html\r\ncontent-encoding: br", b'<a href="/x">'),
        ("content-type: text/plain", b'<a href="/x">'),
    ],
    ids=["HTML", "compressed HTML", "text"],
)
async def test_links_in_a_page_lead_through_the_proxy(tmp_path: Path, headers: str, expected: bytes) -> None:
    own = Pki(tmp_path / "own", SystemClock())

    async def answer(_: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f'HTTP/1.1 200 OK\r\n{headers}\r\ncontent-length: 13\r\n\r\n<a href="/x">'.encode())

    async with standin_kubelet(tmp_path, own.authority.certificate_file) as target:
        target.answer = answer
        context = KubeletTls(lambda: own.client("me", "me"), None, SystemClock()).for_kubelets()
        proxied = ProxiedRequest(Request(method="GET", path="/below/"), "/", "/below")
        response = await proxy_request(Address("127.0.0.1", target.port, context), proxied, "web")
        assert not isinstance(response.body, bytes)
        assert b"".join([piece async for piece in response.body]) == expected


async def test_only_certificates_of_the_authority_are_taken_where_there_is_one(tmp_path: Path) -> None:
    others = Pki(tmp_path / "others", SystemClock())

    def identity() -> KeyPair:
        return others.client("me", "me")

    async with standin_kubelet(tmp_path, others.authority.certificate_file) as kubelet:
        for authority, insecure, trusted in (
            (kubelet.authority, False, True),
            (others.authority.certificate_file, False, False),
            (others.authority.certificate_file, True, True),
            (None, False, True),
        ):
            tls = KubeletTls(identity, authority, SystemClock()).for_kubelets(insecure=insecure)
            asked = send(Address("127.0.0.1", kubelet.port, tls), "GET", "/")
            if trusted:
                assert await (await asked).text() == b"hello"
            else:
                with pytest.raises(CallError, match="not trusted"):
                    await asked
        with pytest.raises(errors.InternalError, match="cannot be used"):
            KubeletTls(identity, tmp_path / "none", SystemClock()).for_kubelets()


async def test_a_body_that_is_shorter_than_it_says_is_broken(tmp_path: Path) -> None:
    own = Pki(tmp_path / "own", SystemClock())

    async def answer(_: Asked, __: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")

    async with standin_kubelet(tmp_path, own.authority.certificate_file) as kubelet:
        kubelet.answer = answer
        context = KubeletTls(lambda: own.client("me", "me"), None, SystemClock()).for_kubelets()
        found = await send(Address("127.0.0.1", kubelet.port, context), "GET", "/")
        assert await anext(found) == b"half"
        with pytest.raises(ConnectionLostError):
            await anext(found)
