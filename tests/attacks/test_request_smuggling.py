"""Line breaks in what becomes the head of another request, and addresses that lead to this machine itself."""

import asyncio
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mooring
from app_calls import Caller
from mooring.api import errors
from mooring.api.core_v1 import Container, HTTPGetAction, HTTPHeader, Pod, PodStatus, Probe
from mooring.apiserver.access.pki import Pki
from mooring.apiserver.messages.http import Request
from mooring.apiserver.streams.kubelet import ProxiedRequest
from mooring.apiserver.streams.real.http_call import Address, serialize_request
from mooring.apiserver.streams.real.kubelets import proxy_request, resolve_proxied
from mooring.apiserver.streams.real.tls import KubeletTls
from mooring.base.clock import SystemClock
from mooring.base.http_head import HeadError
from mooring.client.credentials import Credential
from mooring.client.errors import ClientError
from mooring.client.https import HttpsTransport
from mooring.client.kubeconfig import Connection
from mooring.client.transport import Request as ClientRequest
from mooring.controllers.programs import container as containers
from standin_kubelet import standin_kubelet

pytestmark = pytest.mark.req("S.6")
SMUGGLED = "x HTTP/1.1\r\ncontent-length: 0\r\n\r\nPOST /run/default/p/c"
BREAKS = ["\r", "\n", "\r\n", "\0"]


def _kubelet_call(host: str = "n", **changed: Any) -> None:
    serialize_request(Address(host, 10250), **{"method": "GET", "target": "/", **changed})


def _client_call(credential: Credential | None = None, **changed: Any) -> None:
    transport = HttpsTransport(Connection("https://127.0.0.1:1"))
    transport._serialize_request(ClientRequest(**{"method": "GET", "path": "/", **changed}), credential or Credential())


SERIALISED: list[tuple[str, Callable[[str], None]]] = [
    ("the method of a call to a kubelet", lambda text: _kubelet_call(method=text)),
    ("the target of a call to a kubelet", lambda text: _kubelet_call(target=f"/{text}")),
    ("the host of a call to a kubelet", lambda text: _kubelet_call(host=text)),
    ("the name of a header to a kubelet", lambda text: _kubelet_call(headers=[(text, "v")])),
    ("the value of a header to a kubelet", lambda text: _kubelet_call(headers=[("x", text)])),
    ("the method of a client's request", lambda text: _client_call(method=text)),
    ("the name of a client's header", lambda text: _client_call(headers={text: "v"})),
    ("the value of a client's header", lambda text: _client_call(headers={"x": text})),
    ("a client's token", lambda text: _client_call(Credential(authorization=f"Bearer {text}"))),
    ("a client's impersonation", lambda text: _client_call(Credential(headers=(("impersonate-user", text),)))),
]


@pytest.mark.parametrize("line_break", BREAKS, ids=["CR", "LF", "CR LF", "NUL"])
@pytest.mark.parametrize("serialise", [case[1] for case in SERIALISED], ids=[case[0] for case in SERIALISED])
def test_a_line_break_is_refused_before_anything_is_sent(serialise: Callable[[str], None], line_break: str) -> None:
    with pytest.raises((HeadError, ClientError)):
        serialise(f"a{line_break}b")


def test_requests_are_serialised_in_one_place() -> None:
    source = Path(mooring.__file__).parent
    found = [file for file in source.rglob("*.py") if re.search(r"\} HTTP/1\.[01]", file.read_text())]
    assert [str(file.relative_to(source)) for file in found] == ["base/http_head.py"]


async def test_a_proxied_path_stays_one_request(tmp_path: Path) -> None:
    own = Pki(tmp_path / "own", SystemClock())
    async with standin_kubelet(tmp_path, own.authority.certificate_file) as target:
        context = KubeletTls(lambda: own.client("me", "me"), None, SystemClock()).for_kubelets()
        path = f"/metrics {SMUGGLED}"
        request = Request(method="GET", path=f"/below{path}")
        response = await proxy_request(
            Address("127.0.0.1", target.port, context), ProxiedRequest(request, path, "/below"), "web"
        )
        assert response.status == 200
        assert not isinstance(response.body, bytes)
        assert b"".join([piece async for piece in response.body]) == b"hello"
    (asked,) = target.asked
    assert asked.values("x-forwarded-uri") == [f"/below{asked.target}"]
    assert "%0D%0A%0D%0APOST%20/run" in asked.target


async def test_a_probe_sends_one_request() -> None:
    received = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        writer.close()

    async def command(_words: list[str], _seconds: float) -> int:
        raise AssertionError

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        pod = Pod(status=PodStatus(pod_ip="127.0.0.1"))
        by_path = HTTPGetAction(path=f"/{SMUGGLED}", port=port)
        by_header = HTTPGetAction(path="/", port=port, http_headers=[HTTPHeader(name="x", value=SMUGGLED)])
        assert await containers.probe_once(Probe(http_get=by_path), pod, Container(name="c"), command)
        assert not await containers.probe_once(Probe(http_get=by_header), pod, Container(name="c"), command)
    assert len(received) == 1
    assert b"POST /run" not in received[0]


async def test_a_redirect_to_the_root_of_a_proxy_is_one_header(call: Caller) -> None:
    answer = await call("GET", "/api/v1/namespaces/default/pods/a\r\nset-cookie: x=y ź/proxy")
    assert answer.status == 301
    assert answer.headers["location"].endswith("a%0D%0Aset-cookie%3A%20x%3Dy%20%C5%BA/proxy/")


async def test_a_port_of_many_digits_is_no_mistake_of_the_server(call: Caller) -> None:
    service = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    assert (await call("POST", "/api/v1/namespaces/default/services", service)).status == 201
    answer = await call("GET", f"/api/v1/namespaces/default/services/web:{'1' * 5000}/proxy/")
    assert answer.status == 503


LOCAL = [
    "127.0.0.1",
    "127.1",
    "0",
    "0.0.0.0",
    "0x7f000001",
    "2130706433",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::ffff:169.254.169.254",
    "::127.0.0.1",
    "64:ff9b::127.0.0.1",
    "2002:7f00:1::",
    "169.254.169.254",
    "fe80::1",
    "224.0.0.1",
    "localhost",
    "LOCALHOST",
]


@pytest.mark.parametrize("host", LOCAL)
async def test_no_notation_of_a_local_address_is_proxied_to(host: str) -> None:
    with pytest.raises(errors.StatusError) as refused:
        await resolve_proxied(host)
    assert refused.value.status.code in {400, 503}


async def test_a_name_that_leads_here_is_refused_and_one_that_does_not_is_resolved_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {"inside.example": ["192.0.2.1", "127.0.0.1"], "outside.example": ["192.0.2.1", "192.0.2.2"]}
    lookups = []

    async def getaddrinfo(host: str, *_: Any, **__: Any) -> list[Any]:
        lookups.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in known[host]]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo, raising=False)
    with pytest.raises(errors.BadRequest, match="address not allowed"):
        await resolve_proxied("inside.example")
    assert await resolve_proxied("outside.example") == ["192.0.2.1", "192.0.2.2"]
    assert lookups == ["inside.example", "outside.example"]
