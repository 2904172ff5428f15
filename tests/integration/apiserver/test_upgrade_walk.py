"""Data written for an oldest release lies in the store as that release reads it, and every release reads it."""

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from admission_kinds import EXAMPLES, name_for
from mooring.api.kinds import ALPHA, Kind
from mooring.api.scheme import Scheme
from mooring.base.version import BINARY, Version
from started_server import Start, Started, started

pytestmark = pytest.mark.req("4330.5", "4330.8")
POD = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
Body = dict[str, Any]
WITH_A_STUB = Version(1, 36)
"""Requests for pods' certificates cannot be made before without fields that Mooring does not have."""


@dataclass(frozen=True)
class Walk:
    """What the newest release writes for an oldest one; every release from the one before that on may read it."""

    min_compatibility: str
    claims: str
    """The version in which claims of devices are stored: three releases in a row know one each."""

    @property
    def window(self) -> tuple[Version, ...]:
        """The releases that must all understand what is stored."""
        oldest = Version.parse(self.min_compatibility)
        return oldest.minus(1), oldest, oldest.plus(1)

    @property
    def examples(self) -> dict[str, tuple[str, Body]]:
        """An object of every kind that can be written."""
        without = {"PodCertificateRequest"} if self.window[1] < WITH_A_STUB else set()
        examples = {"Pod": ("v1", POD), **EXAMPLES}
        return {kind: example for kind, example in examples.items() if kind not in without}

    @property
    def readers(self) -> list[Version]:
        return [Version(1, minor) for minor in range(self.window[0].minor, BINARY.minor + 1)]


WALKS = [Walk("1.33", "v1beta1"), Walk("1.35", "v1"), Walk("1.37", "v1")]


@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: f"written for {walk.min_compatibility}")
async def test_every_kind_is_read_by_every_release_that_may(tmp_path: Path, walk: Walk) -> None:
    async with started(
        tmp_path, Start(min_compatibility=walk.min_compatibility, runtime_config="api/beta=true")
    ) as server:
        for kind, (api_version, tree) in walk.examples.items():
            newest = server.plane.server.scheme.kind(api_version, kind)
            assert newest is not None
            await server.create(collection(newest), {"metadata": {"name": name_for(kind)}, **tree})
        await server.until(lambda: is_established(server))
        written = await read_all(server, walk)
    check_stored(stored(tmp_path), walk)
    for emulation in walk.readers:
        async with started(tmp_path, Start(emulation=str(emulation), runtime_config="api/beta=true")) as server:
            found = await read_all(server, walk)
            assert len(found) > len(EXAMPLES) // 2
            for key, body in found.items():
                assert body == written.get(key, body), f"{key} at {emulation}"


async def is_established(server: Started) -> bool:
    """Whether the server has said of the definition of a kind what it says on its own, a moment after the write."""
    kind = "CustomResourceDefinition"
    found = await server.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name_for(kind)}")
    conditions = found.get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


async def read_all(server: Started, walk: Walk) -> dict[tuple[str, str], Body]:
    """Return the object of every kind in every version that is served."""
    kinds = [kind for kind in server.plane.server.scheme.served if kind.kind in walk.examples and kind.stored]
    return {
        (kind.api_version, kind.kind): await server.get(f"{collection(kind)}/{name_for(kind.kind)}") for kind in kinds
    }


def collection(kind: Kind) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    return f"{root}/namespaces/default/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"


def stored(folder: Path) -> list[Body]:
    """Return the stored objects, read from the file."""
    with closing(sqlite3.connect(folder / "state.db")) as file:
        return [
            json.loads(value)
            for key, value in file.execute("SELECT key, value FROM kv")
            if key.endswith(("/x", *(f"/{name_for(kind)}" for kind in EXAMPLES)))
        ]


def check_stored(bodies: list[Body], walk: Walk) -> None:
    """All releases of the window understand each object, unless they have no version of its kind in common."""
    versions = {body["kind"]: body["apiVersion"] for body in bodies}
    assert versions["ResourceClaim"] == f"resource.k8s.io/{walk.claims}"
    scheme = Scheme()
    for kind, api_version in versions.items():
        used = scheme.kind(api_version, kind)
        assert used is not None
        common = [each for each in scheme.family(used) if each.stability != ALPHA and understood(each, walk)]
        assert understood(used, walk) or not common, f"{kind} is stored as {api_version}"


def understood(kind: Kind, walk: Walk) -> bool:
    return all(kind.lifecycle.known_at(version) for version in walk.window)
