"""Storage versions over live data: objects written at one release are read, changed and rewritten at the others."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from started_server import Start, Started, started

pytestmark = pytest.mark.req("4330.5")
RESOURCE = "/apis/resource.k8s.io/v1"
CLAIMS = f"{RESOURCE}/namespaces/default/resourceclaims"
SLICES = f"{RESOURCE}/resourceslices"


@dataclass(frozen=True)
class Step:
    """A release, and the version in which it stores."""

    emulation: str
    stored: str


UP = [Step("1.34", "v1beta1"), Step("1.35", "v1beta2"), Step("1.36", "v1"), Step("1.37", "v1")]
UP_AND_DOWN = [*UP, *reversed(UP[:-1])]


def claim(name: str) -> dict[str, Any]:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    return _object("ResourceClaim", name, {"devices": {"requests": [request]}})


def slice_(name: str) -> dict[str, Any]:
    device = {"name": "d", "capacity": {"memory": {"value": "32Gi"}}, "attributes": {"model": {"string": "a100"}}}
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return _object("ResourceSlice", name, {"driver": "x.example", "nodeName": "n", "pool": pool, "devices": [device]})


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def shape(kept: dict[str, Any]) -> str:
    """Return the version in which an object is stored; v1 and v1beta2 are identical."""
    [part] = kept["spec"].get("devices", {}) if kept["kind"] == "ResourceSlice" else kept["spec"]["devices"]["requests"]
    newer = "exactly" in part or (kept["kind"] == "ResourceSlice" and "basic" not in part)
    return "v1" if newer else "v1beta1"


async def test_data_lives_through_every_release_and_back(tmp_path: Path) -> None:
    for number, step in enumerate(UP_AND_DOWN):
        async with started(tmp_path, Start(emulation=step.emulation)) as server:
            await server.create(CLAIMS, claim(f"made-{number}"))
            await server.create(SLICES, slice_(f"made-{number}"))
            await check_all_are_read(server, number)
            for plural, collection in (("resourceclaims/default", CLAIMS), ("resourceslices", SLICES)):
                await server.merge(f"{collection}/made-0", {"metadata": {"labels": {"step": str(number)}}})
                for name in ("made-0", f"made-{number}"):  # what was changed, and what is new
                    kept = await server.stored(f"/registry/{plural}/{name}")
                    assert kept["apiVersion"] == f"resource.k8s.io/{step.stored}"
                    assert shape(kept) == ("v1beta1" if step.stored == "v1beta1" else "v1")


async def check_all_are_read(server: Started, newest: int) -> None:
    """Whatever it is stored as, everything shows in the version that is asked for."""
    claims = (await server.get(CLAIMS))["items"]
    assert [each["metadata"]["name"] for each in claims] == [f"made-{number}" for number in range(newest + 1)]
    assert {each["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] for each in claims} == {"gpu"}
    slices = (await server.get(SLICES))["items"]
    assert {each["spec"]["devices"][0]["capacity"]["memory"]["value"] for each in slices} == {"32Gi"}


async def test_a_minimum_compatibility_version_holds_the_storage_version_back(tmp_path: Path) -> None:
    """Who may have to go back to 1.33 stores as 1.32 to 1.34 can all read, whatever is emulated."""
    async with started(tmp_path, Start(emulation="1.37", min_compatibility="1.33")) as server:
        await server.create(CLAIMS, claim("gpu"))
        assert (await server.stored("/registry/resourceclaims/default/gpu"))["apiVersion"] == "resource.k8s.io/v1beta1"
    async with started(tmp_path, Start(emulation="1.33", runtime_config="resource.k8s.io/v1beta1=true")) as server:
        old = CLAIMS.replace("/v1/", "/v1beta1/")
        found = await server.get(f"{old}/gpu")
        assert found["spec"]["devices"]["requests"][0]["deviceClassName"] == "gpu"
