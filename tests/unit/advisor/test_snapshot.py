"""Snapshots: the same objects whether they come from a server, from files or from a store."""

import asyncio
import gzip
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mooring.advisor.snapshot import Snapshot, SnapshotError, data_directory, dump, engine, live, to_file
from mooring.advisor.snapshot.following import follow_snapshots
from mooring.api import errors, resource_v1
from mooring.api.core_v1 import Namespace, Node, Pod, Toleration
from mooring.api.meta_v1 import ObjectMeta
from mooring.client import Client
from mooring.client.transport import Request, Response
from mooring.store.kv import Delete, Put
from mooring.store.sqlite import SqliteStore
from mooring.testing import builders
from mooring.testing.control_plane import RunningControlPlane

pytestmark = pytest.mark.req("S.5")

MANIFEST = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
# a comment
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  priorityClassName: high
  containers: [{name: main, image: web}]
---
apiVersion: example.com/v1
kind: Gadget
metadata: {name: g}
"""
LIST = """\
{"apiVersion": "v1", "kind": "List", "items": [
  {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": {"capacity": {"cpu": "4"}}},
  {"apiVersion": "resource.k8s.io/v1beta1", "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
]}
"""


def test_a_dump_has_defaults_and_what_admission_fills_in(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(MANIFEST)
    (tmp_path / "b.json").write_text(LIST)
    found = dump([tmp_path])
    web = found.find(Pod, "default", "web")
    assert web is not None
    assert (web.spec.priority, web.spec.scheduler_name, web.status.phase) == (1000, "default-scheduler", "Pending")
    assert [each.key for each in web.spec.tolerations] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert [str(node.status.allocatable["cpu"]) for node in found.all(Node)] == ["4"]
    assert [each.metadata.name for each in found.all(resource_v1.DeviceClass)] == ["gpu"]
    assert [each.metadata.name for each in found.all(resource_v1.DeviceClass)] == ["gpu"]


def test_a_dump_keeps_what_it_does_not_know_with_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(MANIFEST)
    found = dump([file])
    assert [(each.kind, each.name, each.line) for each in found.raw()] == [
        ("PriorityClass", "high", 1),
        ("Pod", "web", 7),
        ("Gadget", "g", 14),
    ]
    assert [str(note) for note in found.notes] == [f"{file}:14: Mooring does not know example.com/v1 Gadget"]


def test_a_snapshot_that_was_written_is_read_again_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(MANIFEST)
    (tmp_path / "b.json").write_text(LIST)
    before = dump([tmp_path])
    written = Snapshot("here", (), before.raw(), missing={"pods": "not allowed: no"}, server={"gates": {"A": True}})
    file = tmp_path / "dump" / "cluster.json"
    file.parent.mkdir()
    with file.open("wb") as stream:
        assert to_file.write_snapshot(written, stream) == 5
    after = dump([file])
    assert [each.tree for each in after.raw()] == [each.tree for each in before.raw()]
    assert (after.forbidden, after.server) == ({"pods": "not allowed: no"}, {"gates": {"A": True}})


ODD_ITEMS: list[Any] = [
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "plain"}},
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "has-null", "labels": None}},
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "unknown-field"}, "spec": {"colour": "red"}},
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": 5}},
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "made-"}, "spec": {"containers": []}},
    {"apiVersion": "v1", "kind": "NodeList", "items": [{"metadata": {"name": "in-a-list"}}]},
    {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}},
    {"metadata": {"name": "without-kind"}},
    {"apiVersion": 1, "kind": "Node"},
    None,
    "text",
]


def test_items_of_a_json_list_are_read_as_in_yaml(tmp_path: Path) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": ODD_ITEMS, "missing": {"pods": "not allowed: no"}})
    json_file, yaml_file = tmp_path / "a" / "list.yaml", tmp_path / "b" / "list.yaml"
    for file, body in ((json_file, text), (yaml_file, f"---\n{text}")):
        file.parent.mkdir()
        file.write_text(body)
    typed, parsed = dump([json_file]), dump([yaml_file])
    notes = [str(note).replace(str(yaml_file), str(json_file)) for note in parsed.notes]
    assert [str(note).replace(":2 ", ":1 ") for note in typed.notes] == [note.replace(":2 ", ":1 ") for note in notes]
    assert [each.tree for each in typed.raw()] == [each.tree for each in parsed.raw()]
    assert [each.identity for each in typed.raw()] == [each.identity for each in parsed.raw()]
    assert {kind: typed.all(kind) for kind in typed.kinds()} == {kind: parsed.all(kind) for kind in parsed.kinds()}
    assert typed.missing == parsed.missing == {"pods": "not allowed: no"}


def test_a_dump_in_gzip_is_read_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(MANIFEST)
    (tmp_path / "a.yaml.gz").write_bytes(gzip.compress(MANIFEST.encode()))
    plain, packed = dump([tmp_path / "a.yaml"]), dump([tmp_path / "a.yaml.gz"])
    assert [each.tree for each in packed.raw()] == [each.tree for each in plain.raw()]
    (tmp_path / "cut.gz").write_bytes(gzip.compress(MANIFEST.encode())[:40])
    with pytest.raises(SnapshotError, match=r"cannot read .*cut\.gz"):
        dump([tmp_path / "cut.gz"])


@dataclass(frozen=True)
class Wrong:
    name: str
    text: bytes
    message: str


@pytest.mark.parametrize(
    "case",
    [
        Wrong("an empty file has no objects", b"", "there are no objects in"),
        Wrong("bytes that are no text", b"\xff\xfe", "it is not UTF-8 at byte 0"),
        Wrong("a mistake in YAML names the line", b"a: 1\nb: [\n", "f.yaml:2: not read"),
        Wrong("a tree without a kind", b"a: 1\n", "an object says its apiVersion and kind"),
    ],
    ids=lambda case: case.name,
)
def test_a_dump_without_objects_says_why(case: Wrong, tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_bytes(case.text)
    with pytest.raises(SnapshotError, match=case.message):
        dump([file])


def test_one_bad_document_hides_no_other() -> None:
    text = b"kind: Pod\napiVersion: v1\nmetadata: {name: x}\nspec: {containers: 5}\n---\n" + MANIFEST.encode()
    found = dump([Path("-")], stdin=io.BytesIO(text))
    assert [pod.metadata.name for pod in found.all(Pod)] == ["web"]
    assert str(found.notes[0]).startswith("<stdin>:1: not read: spec.containers")


def test_replacing_leaves_the_original_as_it_was() -> None:
    before = Snapshot("a test", [builders.node("a"), builders.node("b")])
    after = before.replace(put=[builders.node("a", cpu="8"), builders.node("c")], remove=[builders.node("b")])
    assert [node.metadata.name for node in before.all(Node)] == ["a", "b"]
    assert [node.metadata.name for node in after.all(Node)] == ["a", "c"]
    assert [each.name for each in after.raw()] == ["a", "c"]
    assert after.raw()[0].tree["status"]["capacity"]["cpu"] == "8"


def test_the_engine_knows_pods_nodes_and_promises() -> None:
    nominated = builders.pod("promised", cpu="3")
    nominated.spec.priority = 5
    nominated.status.nominated_node_name = "a"
    running = builders.pod("runs", cpu="1", on="a")
    made = engine(Snapshot("a test", [builders.node("a"), running, nominated]))
    assert made.schedule(builders.pod("new", cpu="1")).node is None
    assert made.schedule(nominated).node == "a"


def test_a_data_directory_is_read_while_a_server_has_it(tmp_path: Path) -> None:
    async def write_and_read() -> Snapshot:
        store = await SqliteStore.open(tmp_path)
        for name in ("a", "b", "gone"):
            text = f'{{"kind":"Node","apiVersion":"v1","metadata":{{"name":"{name}"}}}}'
            await store.write(Put(f"/registry/nodes/{name}", text.encode()))
        await store.write(Put("/registry/secrets/default/s", b'{"kind":"Secret","apiVersion":"v1","metadata":{}}'))
        await store.write(Delete("/registry/nodes/gone"))
        try:
            return await asyncio.to_thread(data_directory, tmp_path)
        finally:
            await store.close()

    found = asyncio.run(write_and_read())
    assert [(node.metadata.name, node.metadata.resource_version) for node in found.all(Node)] == [
        ("a", "1"),
        ("b", "2"),
    ]
    assert [each.kind for each in found.raw()] == ["Node", "Node"]


def test_a_directory_without_a_store_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"is no data directory of Mooring: there is no state\.db in it"):
        data_directory(tmp_path)


def test_a_live_cluster_is_read_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.advisor.snapshot.from_server.PAGE_SIZE", 2)
    with RunningControlPlane(nodes=3, emulation_version="1.33", without=["scheduler"]) as plane:
        wanted = Pod(metadata=ObjectMeta(name="web", namespace="default"), spec=builders.pod("web").spec)
        wanted.spec.tolerations.append(Toleration(key="a", operator="Exists"))
        plane.create(wanted)
        found = plane.run(live(plane.client, "the test"))
    assert len(found.all(Node)) == 3
    web = found.find(Pod, "default", "web")
    assert web is not None
    assert web.spec.tolerations[0].key == "a"
    raw = next(each for each in found.raw() if each.name == "web")
    assert (raw.tree["kind"], raw.tree["apiVersion"]) == ("Pod", "v1")
    assert "resourceslices" in found.missing


def test_a_cluster_is_followed_as_far_as_one_may(monkeypatch: pytest.MonkeyPatch) -> None:
    with RunningControlPlane(nodes=1, without=["scheduler", "controllers"]) as plane:
        page = plane.client.page

        async def guarded(cls: type[Any], *words: Any, **more: Any) -> Any:
            if cls is Namespace:
                raise errors.forbidden("namespaces", "", "it is not allowed")
            return await page(cls, *words, **more)

        async def two_snapshots() -> list[Snapshot]:
            monkeypatch.setattr(plane.client, "page", guarded)
            found = []
            async for snapshot in follow_snapshots(plane.client, "the test", [Node, Pod, Namespace], 0.01):
                found.append(snapshot)
                if snapshot.find(Pod, "default", "web") is not None:
                    return found
                if len(found) == 1:
                    await plane.client.create(Pod(metadata=ObjectMeta(name="web", namespace="default"), spec=spec))
            return found

        spec = builders.pod("web").spec
        snapshots = plane.run(two_snapshots())
    assert len(snapshots[0].all(Node)) == 1
    assert len(snapshots) >= 2
    assert "it is not allowed" in snapshots[0].missing["namespaces"]


class OtherCluster:
    """The answers of a Kubernetes that has other versions and does not let everybody see everything."""

    def __init__(self) -> None:
        self.forgot = False

    async def send(self, request: Request, _seconds: float) -> Response:
        query = dict(request.query)
        if request.path == "/api/v1":
            resources = [{"name": name, "verbs": ["list"]} for name in ("nodes", "pods", "namespaces")]
            return Response(200, {}, json.dumps({"kind": "APIResourceList", "resources": resources}).encode())
        if request.path == "/api/v1/nodes":
            if "continue" in query and not self.forgot:
                self.forgot = True
                return self._status(410, "Expired")
            first = {"metadata": {"name": "a"}, "spec": {"fieldOfTheFuture": {"a": 1}}}
            items = [first] if "limit" in query else [first, {"metadata": {"name": "b"}}]
            token = "next" if "limit" in query else ""
            return Response(200, {}, json.dumps({"metadata": {"continue": token}, "items": items}).encode())
        if request.path == "/api/v1/namespaces":
            return Response(200, {}, b'{"metadata": {}, "items": null}')
        if request.path == "/api/v1/pods":
            return self._status(403, "Forbidden")
        return Response(404, {}, b"404 page not found\n")

    def _status(self, code: int, reason: str) -> Response:
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
        return Response(code, {}, json.dumps({**body, "message": f"{reason}, it says"}).encode())

    async def stream(self, request: Request, _seconds: float) -> Any:
        raise NotImplementedError(request.path)

    async def close(self) -> None:
        pass


def test_another_kubernetes_is_read_as_far_as_it_lets_us() -> None:
    found = asyncio.run(live(Client(OtherCluster(), user_agent="test"), "another cluster"))
    assert [node.metadata.name for node in found.all(Node)] == ["a", "b"]
    assert found.missing["pods"] == "not allowed: Forbidden, it says"
    assert found.missing["deployments"] == "the server does not serve them"
    assert found.raw()[0].tree["spec"] == {"fieldOfTheFuture": {"a": 1}}
    assert set(found.forbidden) == {"pods"}
    assert "namespaces" not in found.missing
