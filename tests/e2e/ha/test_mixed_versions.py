"""Two API servers on one etcd that emulate different releases, as in the middle of an upgrade (KEP-4330).

The rule: the newer one's minimum compatibility version is at most what the older one emulates. Then each reads what the
other writes, in every version that it serves, and neither loses what only the other knows.
"""

import json
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from admission_kinds import EXAMPLES
from etcd_servers import EtcdServers, etcd_cluster
from mooring.api.kinds import ALPHA, Kind
from mooring.api.scheme import Scheme
from mooring.base.version import Version
from started_server import Start, Started, started

pytestmark = pytest.mark.req("S.7", "4330.5", "4330.8", "4330.13")
BETA = "api/beta=true"
POD = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
OBJECTS = {"Pod": ("v1", POD), **EXAMPLES}
DEFINITION = "CustomResourceDefinition"
STATUS_BY_SERVERS = {DEFINITION, "APIService", "FlowSchema", "PriorityLevelConfiguration", "ResourceQuota"}
TOO_NEW = "PodCertificateRequest"
"""Its `stubPKCS10Request` came with 1.36: a server before that would lose it."""
PODS = "/api/v1/namespaces/default/pods"
CLAIM = "/registry/resourceclaims/default/x"


@dataclass(frozen=True)
class Pair:
    """An upgrade that is half done."""

    old: str
    new: str
    min_compatibility: str | None = None
    """Of the new one."""
    claims: tuple[str, str] = ("v1", "v1")
    """The version in which each stores claims of devices, whose storage version changed most often."""

    @property
    def id(self) -> str:
        kept = f", compatible with {self.min_compatibility}" if self.min_compatibility else ""
        return f"{self.old} and {self.new}{kept}"


PAIRS = [
    Pair("1.36", "1.37"),
    Pair("1.35", "1.36", claims=("v1beta2", "v1")),
    Pair("1.34", "1.35", claims=("v1beta1", "v1beta2")),
    Pair("1.34", "1.37", "1.34", claims=("v1beta1", "v1beta2")),
    Pair("1.36", "1.36"),
]
pairs = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.id)


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServers]:
    with etcd_cluster(tmp_path_factory.mktemp("etcd")) as servers:
        yield servers


@asynccontextmanager
async def mixed(etcd: EtcdServers, folder: Path, pair: Pair) -> AsyncIterator[tuple[Started, Started]]:
    """Yield the older and the newer server, on the same data."""
    config = etcd.config(f"/registry-{folder.name}")
    old = Start(emulation=pair.old, runtime_config=BETA)
    new = Start(emulation=pair.new, min_compatibility=pair.min_compatibility, runtime_config=BETA)
    async with started(folder / "old", old, etcd=config) as older:
        shutil.copytree(folder / "old" / "pki", folder / "new" / "pki")
        async with started(folder / "new", new, etcd=config) as newer:
            yield older, newer


@pairs
async def test_each_reads_what_the_other_writes(etcd: EtcdServers, tmp_path: Path, pair: Pair) -> None:
    async with mixed(etcd, tmp_path, pair) as both:
        for writer, reader in (both, both[::-1]):
            name = "by-old" if writer is both[0] else "by-new"
            for kind in _writable(writer):
                if kind.kind == TOO_NEW and pair.min_compatibility:
                    code, refusal = await writer.ask("POST", _collection(kind), _object(kind, name))
                    assert (code, "minimum compatibility version" in refusal["message"]) == (422, True)
                    continue
                made = await writer.create(_collection(kind), _object(kind, name))
                await _check_is_read(made, kind, reader)
            stored, scheme = await _stored(writer, name), writer.plane.server.scheme
            assert len(stored) > len(OBJECTS) // 2
            for body in stored:
                found = scheme.kind(body["apiVersion"], body["kind"])
                assert found is not None
                assert _is_known(scheme, found, pair), f"{body['kind']} is stored as {body['apiVersion']}"


@pairs
async def test_writes_in_turn_lose_nothing(etcd: EtcdServers, tmp_path: Path, pair: Pair) -> None:
    """Each stores in its own version what the other has stored in another."""
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    tree = OBJECTS["ResourceClaim"][1]
    async with mixed(etcd, tmp_path, pair) as (old, new):
        made = await new.create(claims, {"metadata": {"name": "x"}, **tree})
        for turn, (server, version) in enumerate([(old, pair.claims[0]), (new, pair.claims[1])] * 2):
            await server.merge(f"{claims}/x", {"metadata": {"labels": {f"turn-{turn}": "done"}}})
            assert (await server.stored(CLAIM))["apiVersion"] == f"resource.k8s.io/{version}"
        for server in (old, new):
            found = await server.get(f"{claims}/x")
            assert found["spec"] == made["spec"]
            assert found["metadata"]["uid"] == made["metadata"]["uid"]
            assert set(found["metadata"]["labels"]) == {"turn-0", "turn-1", "turn-2", "turn-3"}


@dataclass(frozen=True)
class Ask:
    """A question that 1.36 and 1.37 answer differently."""

    id: str
    method: str
    path: str
    old: int
    new: int
    body: dict[str, Any] | None = None


NUMERIC = {"tolerations": [{"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}]}
ASKS = [
    Ask("an API that has ended", "GET", "/apis/storage.k8s.io/v1beta1/volumeattributesclasses", 200, 404),
    Ask(
        "a feature that has come",
        "POST",
        PODS,
        422,
        201,
        {"metadata": {"name": "new"}, "spec": {**POD["spec"], **NUMERIC}},
    ),
]


@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: ask.id)
async def test_each_answers_as_its_release(etcd: EtcdServers, tmp_path: Path, ask: Ask) -> None:
    async with mixed(etcd, tmp_path, PAIRS[0]) as (old, new):
        assert (await old.ask(ask.method, ask.path, ask.body))[0] == ask.old
        assert (await new.ask(ask.method, ask.path, ask.body))[0] == ask.new


async def test_discovery_and_version_are_those_of_each(etcd: EtcdServers, tmp_path: Path) -> None:
    async with mixed(etcd, tmp_path, PAIRS[0]) as (old, new):
        assert await _versions(old, "storage.k8s.io") - await _versions(new, "storage.k8s.io") == {"v1beta1"}
        shown = [await server.get("/version") for server in (old, new)]
        assert [(each["minor"], each["minCompatibilityMinor"]) for each in shown] == [("36", "35"), ("37", "36")]


async def test_the_older_one_keeps_what_only_the_newer_one_accepts(etcd: EtcdServers, tmp_path: Path) -> None:
    async with mixed(etcd, tmp_path, PAIRS[0]) as (old, new):
        await new.create(PODS, {"metadata": {"name": "numeric"}, "spec": {**POD["spec"], **NUMERIC}})
        found = await old.merge(f"{PODS}/numeric", {"metadata": {"labels": {"seen": "by-old"}}})
        assert NUMERIC["tolerations"][0] in found["spec"]["tolerations"]
        found = await new.get(f"{PODS}/numeric")
        assert NUMERIC["tolerations"][0] in found["spec"]["tolerations"]
        assert found["metadata"]["labels"] == {"seen": "by-old"}


def _writable(server: Started) -> list[Kind]:
    """Return the kinds with an example, in the newest version that a server serves."""
    found: dict[str, Kind] = {}
    for kind in server.plane.server.scheme.served:
        if kind.kind in OBJECTS and kind.stored and kind.api_version == OBJECTS[kind.kind][0]:
            found.setdefault(kind.kind, kind)
    return list(found.values())


def _name(kind: str, writer: str) -> str:
    """Return the writer's own; some kinds have names that say what they are."""
    match kind:
        case "IPAddress":
            return {"by-old": "192.0.2.7", "by-new": "192.0.2.8"}[writer]
        case "CustomResourceDefinition":
            return f"widgets.{writer}.example.com"
        case "APIService":
            return f"v1.{writer}.test"
    return writer


def _object(kind: Kind, writer: str) -> dict[str, Any]:
    made = {**OBJECTS[kind.kind][1], "metadata": {"name": _name(kind.kind, writer)}}
    if kind.kind == DEFINITION:
        made["spec"] = {**made["spec"], "group": f"{writer}.example.com"}
    if kind.kind == "APIService":
        made["spec"] = {**made["spec"], "group": f"{writer}.test", "version": "v1"}
    return made


async def _check_is_read(made: dict[str, Any], kind: Kind, reader: Started) -> None:
    """In the version it was written in, if that is served, and in all others that are."""
    for each in reader.plane.server.scheme.served:
        if each.kind == kind.kind and each.group == kind.group:
            found = await reader.get(f"{_collection(each)}/{made['metadata']['name']}")
            assert found["metadata"]["uid"] == made["metadata"]["uid"]
            if kind.kind in STATUS_BY_SERVERS:  # from whichever is first, a moment after the write
                assert found["spec"] == made["spec"]
            elif each.version == kind.version:
                assert found == made


async def _stored(server: Started, writer: str) -> list[dict[str, Any]]:
    page = await server.plane.server.store.range("/registry/")
    ends = tuple(f"/{_name(kind, writer)}" for kind in OBJECTS)
    return [json.loads(item.value) for item in page.items if item.key.endswith(ends)]


def _is_known(scheme: Scheme, kind: Kind, pair: Pair) -> bool:
    """Whether the older release knows a version; what is too new for that has no version that all releases know."""
    least = Version.parse(pair.min_compatibility) if pair.min_compatibility else Version.parse(pair.new).minus(1)
    window = (least.minus(1), least, least.plus(1))
    common = [
        each
        for each in scheme.family(kind)
        if each.stability != ALPHA and all(each.lifecycle.known_at(version) for version in window)
    ]
    return kind.lifecycle.known_at(Version.parse(pair.old)) or not common


def _collection(kind: Kind) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    return f"{root}/namespaces/default/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"


async def _versions(server: Started, group: str) -> set[str]:
    return {each["version"] for each in (await server.get(f"/apis/{group}"))["versions"]}
