"""Health, and which version a server says it is."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from app_calls import ADMIN, Caller, running
from mooring.api import errors
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.requests.health import Health
from mooring.apiserver.server import ApiServer
from mooring.store.errors import Unreachable
from mooring.store.memory import MemoryStore
from mooring.testing.clock import MockClock


async def _ask(health: Health, path: str, **query: str) -> Response:
    asked = {name: [value] for name, value in query.items()}
    response = await health.handle(Request(method="GET", path=path, query=asked))
    assert response is not None
    return response


def _health(problem: str | None = None) -> Health:
    return Health(live={"store": lambda: problem}, ready={"roles": lambda: None})


@pytest.mark.req("S.1")
@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/roles", "/livez/store"])
async def test_all_is_well(path: str) -> None:
    response = await _ask(_health(), path)
    assert (response.status, response.body) == (200, b"ok")


@pytest.mark.req("S.1")
async def test_checks_are_listed_for_those_who_ask() -> None:
    body = (await _ask(_health(), "/readyz", verbose="")).body
    assert body == b"[+]ping ok\n[+]store ok\n[+]roles ok\nreadyz check passed\n"
    assert (await _ask(_health(), "/livez", verbose="")).body == b"[+]ping ok\n[+]store ok\nlivez check passed\n"


@pytest.mark.req("S.6")
async def test_what_fails_is_named_and_not_why() -> None:
    response = await _ask(_health("the disk /dev/sda is broken"), "/livez")
    assert response.status == 500
    assert response.body == b"[+]ping ok\n[-]store failed: reason withheld\nlivez check failed\n"


@pytest.mark.req("S.1")
async def test_a_check_can_be_left_out() -> None:
    assert (await _ask(_health("broken"), "/livez", exclude="store")).status == 200
    assert (await _ask(_health("broken"), "/livez", exclude="other")).status == 500


@pytest.mark.req("N.11")
async def test_probes_may_ask_by_the_names_that_kube_apiserver_has() -> None:
    assert (await _ask(_health(), "/readyz/etcd")).status == 200
    assert (await _ask(_health("broken"), "/livez/etcd")).status == 500
    assert (await _ask(_health("broken"), "/livez", exclude="etcd")).status == 200
    assert (await _ask(_health(), "/readyz/poststarthook/rbac/bootstrap-roles")).status == 200


@pytest.mark.req("S.1")
async def test_a_check_that_is_not_there() -> None:
    with pytest.raises(errors.NotFound):
        await _ask(_health(), "/livez/roles")
    assert await _health().handle(Request(method="GET", path="/healthzz")) is None


class _Frozen(MemoryStore):
    """A store that takes requests and never answers, as an etcd that was stopped by SIGSTOP."""

    async def revision(self) -> int:
        await asyncio.Event().wait()
        return 0


class _Broken(MemoryStore):
    async def revision(self) -> int:
        raise Unreachable("etcd did not answer in time")


@pytest.mark.req("S.7")
@pytest.mark.parametrize("store", [_Frozen, _Broken])
async def test_a_server_whose_store_does_not_answer_lives_but_is_not_ready(
    store: type[MemoryStore], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("mooring.apiserver.requests.health.PROBE_SECONDS", 0.01)
    clock = MockClock()
    config = ServerConfig(data_dir=tmp_path, ephemeral=True)
    memory = await MemoryStore.open(clock=clock)
    async with await ApiServer.open(config, clock=clock, store=memory) as server:
        health = server.app.health
        assert (await _ask(health, "/readyz")).status == 200
        monkeypatch.setattr(memory, "revision", partial(store.revision, memory))
        assert (await _ask(health, "/livez")).status == 200
        response = await _ask(health, "/readyz")
        assert response.status == 500
        assert isinstance(response.body, bytes)
        assert b"[-]store failed: reason withheld" in response.body


EXTRA = {
    "binaryMajor",
    "binaryMinor",
    "emulationMajor",
    "emulationMinor",
    "minCompatibilityMajor",
    "minCompatibilityMinor",
}


@pytest.mark.req("4330.9")
async def test_the_version_is_the_emulated_one_and_all_three_are_shown(tmp_path: Path) -> None:
    async with running(tmp_path, emulation="1.35", min_compatibility="1.33") as server:
        shown = (await Caller(server.app).as_anonymous()("GET", "/version")).json
    assert (shown["major"], shown["minor"], shown["gitVersion"]) == ("1", "35", "v1.35.0")
    assert (shown["binaryMinor"], shown["emulationMinor"], shown["minCompatibilityMinor"]) == ("37", "35", "33")


@pytest.mark.req("4330.9")
async def test_without_the_gate_only_the_binary_version_is_shown(tmp_path: Path) -> None:
    async with running(tmp_path, gates="CompatibilityVersions=false") as server:
        shown = (await Caller(server.app, ADMIN)("GET", "/version")).json
    assert shown["gitVersion"] == "v1.37.0"
    assert not EXTRA & set(shown)
