"""Defects of little weight, each with its kind: what is written down, what limits mean, what a part may change."""

import asyncio
import json
import socket
import ssl
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from app_calls import ADMIN, Caller, running
from attack_users import MERGE
from mooring.apiserver.edge.limits import Limits

pytestmark = pytest.mark.req("S.6")
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


async def _audited(tmp_path: Path, user: str | None, path: str) -> dict[str, Any]:
    async with running(tmp_path, audit_log=tmp_path / "audit") as server:
        call = Caller(server.app, ADMIN)
        await (call.as_user(user) if user else call.as_anonymous())("GET", path)
    line: dict[str, Any] = json.loads((tmp_path / "audit").read_text().splitlines()[-1])
    return line


AUDITED = [
    ("who is not known was not allowed anything", None, "/api/v1/secrets", None),
    ("who may not was forbidden", "mallory", "/api/v1/secrets", "forbid"),
    ("who may was allowed", "mallory", "/version", "allow"),
]


@pytest.mark.parametrize(("user", "path", "said"), [case[1:] for case in AUDITED], ids=[case[0] for case in AUDITED])
async def test_the_audit_log_says_who_was_allowed(
    tmp_path: Path, user: str | None, path: str, said: str | None
) -> None:
    line = await _audited(tmp_path, user, path)
    assert line.get("annotations", {}).get("authorization.k8s.io/decision") == said


FORMATS = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
]


@pytest.mark.parametrize("accept", FORMATS)
async def test_the_audit_log_names_what_was_created(tmp_path: Path, accept: str) -> None:
    async with running(tmp_path, audit_log=tmp_path / "audit") as server:
        call = Caller(server.app, ADMIN)
        path = "/api/v1/namespaces/default/configmaps"
        assert (await call("POST", path, {"metadata": {"generateName": "made-"}}, accept=accept)).status == 201
        [made] = [each for each in (await call("GET", path)).json["items"] if "made-" in each["metadata"]["name"]]
    lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
    [reference] = [line["objectRef"] for line in lines if line["verb"] == "create"]
    metadata = made["metadata"]
    assert (reference["name"], reference["uid"]) == (metadata["name"], metadata["uid"])


@pytest.mark.parametrize("limit", ["9223372036854775807", "9223372036854775808", "9" * 4000, "1" + "0" * 5000])
async def test_a_limit_beyond_all_numbers_is_no_mistake_of_the_server(call: Caller, limit: str) -> None:
    assert (await call("GET", f"/api/v1/namespaces?limit={limit}")).status in {200, 400}


async def test_the_status_of_a_deployment_does_not_change_its_labels(call: Caller) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    made = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    assert (await call("POST", DEPLOYMENTS, made)).status == 201
    patch = {"metadata": {"labels": {"x": "y"}}, "status": {"observedGeneration": 1}}
    answer = await call("PATCH", f"{DEPLOYMENTS}/d/status", patch, content_type=MERGE)
    assert answer.status == 200
    assert "labels" not in answer.json["metadata"]
    assert answer.json["status"]["observedGeneration"] == 1


async def test_slow_headers_are_cut_off_at_once(tmp_path: Path) -> None:
    """A slow client does not answer the end of TLS either, for which a server would wait half a minute."""
    async with running(tmp_path, limits=Limits(header_seconds=0.3)) as server:
        await server.listen()
        host, port = server.url.removeprefix("https://").rsplit(":", 1)
        assert await asyncio.to_thread(_is_hung_up_on, host, int(port), b"GET /version HT")


def _is_hung_up_on(host: str, port: int, sent: bytes) -> bool:
    """Whether TCP ends soon for a client that sends something and then only listens, deaf to what TLS says."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    tls = context.wrap_bio(incoming, outgoing)
    with socket.create_connection((host, port), timeout=5) as raw:
        for step in (tls.do_handshake, partial(tls.write, sent)):
            while True:
                try:
                    step()
                    break
                except ssl.SSLWantReadError:
                    raw.sendall(outgoing.read())
                    incoming.write(raw.recv(65536))
            raw.sendall(outgoing.read())
        try:
            while raw.recv(65536):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
    return True


async def test_a_folder_in_place_of_a_kubeconfig_is_reported(tmp_path: Path) -> None:
    (tmp_path / "admin.kubeconfig").mkdir()
    command = [sys.executable, "-m", "mooring", "apiserver", "--data-dir", str(tmp_path), "--port", "0"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "admin.kubeconfig" in done.stderr
    assert "Traceback" not in done.stderr


IPS = [
    ("no address", {"podIP": "vm"}, "status.podIPs[0]"),
    ("no address in the list", {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "x"}]}, "status.podIPs[1]"),
    ("two of a family", {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]}, "no more than one IP for each IP family"),
    ("a machine that is no address", {"hostIP": "vm", "hostIPs": [{"ip": "vm"}]}, "status.hostIPs[0]"),
    ("another machine", {"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.2"}]}, "must be equal to `hostIP`"),
]


@pytest.mark.parametrize(("status", "said"), [case[1:] for case in IPS], ids=[case[0] for case in IPS])
async def test_the_status_of_a_pod_has_addresses(call: Caller, status: dict[str, Any], said: str) -> None:
    path = "/api/v1/namespaces/default/pods"
    spec = {"containers": [{"name": "c", "image": "i"}]}
    assert (await call("POST", path, {"metadata": {"name": "p"}, "spec": spec})).status == 201
    answer = await call("PATCH", f"{path}/p/status", {"status": status}, content_type=MERGE)
    assert (answer.status, said in answer.message) == (422, True)
    both = {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}
    assert (await call("PATCH", f"{path}/p/status", {"status": both}, content_type=MERGE)).status == 200


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.1.1", "::1", "::"])
async def test_endpoints_do_not_lead_to_this_machine(call: Caller, address: str) -> None:
    family = "IPv6" if ":" in address else "IPv4"
    slice_ = {"metadata": {"name": "s"}, "addressType": family, "endpoints": [{"addresses": [address]}], "ports": []}
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    assert (await call("POST", path, slice_)).status == 422
