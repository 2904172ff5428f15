"""FlowSchemas and priority levels: mandatory objects stay, and the last beta has its own rules.

The objects themselves are recorded in ``tests/conformance/test_flow_control.py``.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app_calls import ADMIN, Caller, running
from mooring.testing.clock import MockClock

pytestmark = pytest.mark.req("N.10")
ROOT = "/apis/flowcontrol.apiserver.k8s.io/v1"


@pytest.fixture
async def call(tmp_path: Path) -> AsyncIterator[Caller]:
    async with running(tmp_path) as server:
        caller = Caller(server.app, ADMIN)
        await named(caller, "flowschemas", "global-default")
        yield caller


async def named(
    call: Caller, resource: str, name: str, but: str = "", meanwhile: Callable[[], object] = lambda: None
) -> dict[str, Any]:
    """Return an object that the server makes by itself, once it is there, and is not the one that was."""
    for _ in range(1000):
        meanwhile()
        answer = await call("GET", f"{ROOT}/{resource}/{name}")
        if answer.status == 200 and answer.json["metadata"]["uid"] != but:
            found: dict[str, Any] = answer.json
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(f"no {resource} {name}")


async def test_mandatory_objects_come_back_at_once_and_suggested_ones_within_a_minute(tmp_path: Path) -> None:
    clock = MockClock()
    async with running(tmp_path, clock=clock) as server:
        call = Caller(server.app, ADMIN)
        before = (await named(call, "flowschemas", "catch-all"))["metadata"]["uid"]
        suggested = (await named(call, "flowschemas", "probes"))["metadata"]["uid"]
        assert (await call("DELETE", f"{ROOT}/flowschemas/probes")).status == 200
        assert (await call("DELETE", f"{ROOT}/flowschemas/catch-all")).status == 200
        await named(call, "flowschemas", "catch-all", but=before)
        assert (await call("GET", f"{ROOT}/flowschemas/probes")).status == 404
        await named(call, "flowschemas", "probes", but=suggested, meanwhile=lambda: clock.advance(61))


BETA = "/apis/flowcontrol.apiserver.k8s.io/v1beta3"
ZERO_IS_MEANT = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"


@pytest.mark.req("4330.4")
@pytest.mark.parametrize(("emulation", "status"), [("1.31", 200), ("1.32", 404), ("1.37", 404)])
async def test_the_last_beta_is_served_on_its_own_by_the_releases_that_had_it(
    tmp_path: Path, emulation: str, status: int
) -> None:
    async with running(tmp_path, emulation=emulation) as server:
        answer = await Caller(server.app, ADMIN)("GET", f"{BETA}/flowschemas")
        assert answer.status == status
        warned = "flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema is deprecated in v1.29+, unavailable in v1.32+"
        assert [warned in each for each in answer.warnings] == ([True] if status == 200 else [])


@dataclass(frozen=True)
class Shares:
    id: str
    written: int | None
    annotated: bool
    stored: int


SHARES = [
    Shares("no shares are the usual ones", None, False, 30),
    Shares("zero shares are the usual ones too", 0, False, 30),
    Shares("zero that is meant stays zero", 0, True, 0),
    Shares("others are what they are", 7, False, 7),
]


@pytest.mark.parametrize("case", SHARES, ids=lambda case: case.id)
async def test_shares_in_the_last_beta(tmp_path: Path, case: Shares) -> None:
    limited: dict[str, Any] = {"limitResponse": {"type": "Reject"}}
    if case.written is not None:
        limited["nominalConcurrencyShares"] = case.written
    annotations = {ZERO_IS_MEANT: ""} if case.annotated else {}
    body = {"metadata": {"name": "x", "annotations": annotations}, "spec": {"type": "Limited", "limited": limited}}
    async with running(tmp_path, emulation="1.31") as server:
        call, levels = Caller(server.app, ADMIN), "prioritylevelconfigurations"
        made = await call("POST", f"{BETA}/{levels}", body)
        assert made.status == 201, made.message
        stable = (await call("GET", f"{ROOT}/{levels}/x")).json
        assert stable["spec"]["limited"]["nominalConcurrencyShares"] == case.stored
        assert ZERO_IS_MEANT not in stable["metadata"].get("annotations", {})
        beta = (await call("GET", f"{BETA}/{levels}/x")).json
        assert beta["spec"]["limited"]["nominalConcurrencyShares"] == case.stored
        assert (ZERO_IS_MEANT in beta["metadata"].get("annotations", {})) is (case.stored == 0)
