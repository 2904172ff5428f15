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

from asgi_calls import ADMIN, Caller, running
from attack_users import MERGE
from mooring.apiserver.edge.limits import Limits

pytestmark = pytest.mark.req("S.6")
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


async def _audited(tmp_path: Path, user: str | None, path: str) -> dict[str, Any]:
    async with running(tmp_path, audit_log=tmp_path / "audit") as server:
        call = Caller(server.app, ADMIN)
        await (call.as_user(user) if user else call.as_nobody())("GET", path)
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
    """Whoever is slow does not answer when TLS says goodbye either, for which a server would wait half a minute."""
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


async def test_a_folder_in_place_of_a_kubeconfig_is_told(tmp_path: Path) -> None:
    (tmp_path / "admin.kubeconfig").mkdir()
    command = [sys.executable, "-m", "mooring", "apiserver", "--data-dir", str(tmp_path), "--port", "0"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "admin.kubeconfig" in done.stderr
    assert "Traceback" not in done.stderr
