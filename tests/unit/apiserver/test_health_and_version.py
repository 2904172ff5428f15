"""Health, and which version a server says it is."""

from pathlib import Path

import pytest

from asgi_calls import ADMIN, Caller, running
from mooring.api import errors
from mooring.apiserver.health import Health
from mooring.apiserver.http import Request, Response


def _ask(health: Health, path: str, **query: str) -> Response:
    response = health.handle(Request(method="GET", path=path, query={name: [value] for name, value in query.items()}))
    assert response is not None
    return response


def _health(problem: str | None = None) -> Health:
    return Health(live={"store": lambda: problem}, ready={"roles": lambda: None})


@pytest.mark.req("S.1")
@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/roles", "/livez/store"])
def test_all_is_well(path: str) -> None:
    response = _ask(_health(), path)
    assert (response.status, response.body) == (200, b"ok")


@pytest.mark.req("S.1")
def test_checks_are_listed_for_those_who_ask() -> None:
    body = _ask(_health(), "/readyz", verbose="").body
    assert body == b"[+]ping ok\n[+]store ok\n[+]roles ok\nreadyz check passed\n"
    assert _ask(_health(), "/livez", verbose="").body == b"[+]ping ok\n[+]store ok\nlivez check passed\n"


@pytest.mark.req("S.6")
def test_what_fails_is_named_and_not_why() -> None:
    response = _ask(_health("the disk /dev/sda is broken"), "/livez")
    assert response.status == 500
    assert response.body == b"[+]ping ok\n[-]store failed: reason withheld\nlivez check failed\n"


@pytest.mark.req("S.1")
def test_a_check_can_be_left_out() -> None:
    assert _ask(_health("broken"), "/livez", exclude="store").status == 200
    assert _ask(_health("broken"), "/livez", exclude="other").status == 500


@pytest.mark.req("S.1")
def test_a_check_that_is_not_there() -> None:
    with pytest.raises(errors.NotFound):
        _ask(_health(), "/livez/roles")
    assert _health().handle(Request(method="GET", path="/healthzz")) is None


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
        shown = (await Caller(server.app).as_nobody()("GET", "/version")).json
    assert (shown["major"], shown["minor"], shown["gitVersion"]) == ("1", "35", "v1.35.0")
    assert (shown["binaryMinor"], shown["emulationMinor"], shown["minCompatibilityMinor"]) == ("37", "35", "33")


@pytest.mark.req("4330.9")
async def test_without_the_gate_only_the_binary_version_is_shown(tmp_path: Path) -> None:
    async with running(tmp_path, gates="CompatibilityVersions=false") as server:
        shown = (await Caller(server.app, ADMIN)("GET", "/version")).json
    assert shown["gitVersion"] == "v1.37.0"
    assert not EXTRA & set(shown)
