"""How much is done for a pod on its way from a workload to running, in calls of functions: the same on every machine.

A rise of more than a fifth fails. Where it is worth it, say the new number here, in the commit that makes it; where a
number has become smaller, too.
"""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from counted_work import count, count_calls
from mooring.admission import rows
from mooring.api import codec
from mooring.api.authentication_v1 import UserInfo
from mooring.api.batch_writes import Row
from mooring.api.core_v1 import Pod, PodTemplateSpec
from mooring.api.scheme import Scheme
from mooring.apiserver.messages import users
from mooring.apiserver.messages.http import Request
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.client import wire
from mooring.client.cache import Cache
from mooring.client.watch import WatchEvent
from mooring.controllers.simulated_nodes import pod_status
from mooring.controllers.workloads.replicas import count_pods
from mooring.scheduler.deciding.engine import Engine
from mooring.testing.builders import node, pod
from mooring.testing.clock import MockClock

pytestmark = pytest.mark.req("S.4")
_PODS = 20
_MOST = 1.2
_AGENT = {"user-agent": "mooring-controllers/v1.37.0"}
_CONTROLLERS = users.authenticated_user(users.CONTROLLERS)
_ADMIN = users.authenticated_user("admin", groups=[users.MASTERS])
_PATH = "/api/v1/namespaces/default/pods"
_THINGS = "/apis/example.com/v1/namespaces/default/things"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
Json = dict[str, Any]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    opened = await ApiServer.open(ServerConfig(data_dir=tmp_path, port=0, ephemeral=True), clock=MockClock())
    try:
        await opened.listen()
        yield opened
    finally:
        await opened.close()


def created() -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
    meta = {"generateName": "web-", "labels": {"app": "web"}, "ownerReferences": [owner]}
    spec = {"containers": [{"name": "c", "image": "app:1"}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    return {"method": "POST", "path": _PATH, "body": body}


def _definition() -> Json:
    """Of a kind whose objects have a number."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "integer"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.com", "scope": "Namespaced", "versions": [version], "names": names}
    return {"metadata": {"name": "things.example.com"}, "spec": spec}


def started(found: Json) -> Json:
    running = _running(codec.decode_own(json.dumps(found).encode(), Pod))
    running.metadata.managed_fields = []  # which no cache keeps
    body = json.loads(codec.encode(running))
    return {"method": "PUT", "path": f"{_PATH}/{running.metadata.name}/status", "body": body}


def deleted(found: Json) -> Json:
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    return {"method": "DELETE", "path": f"{_PATH}/{found['metadata']['name']}", "body": options}


def _running(found: Pod) -> Pod:
    found.status.phase = "Running"
    found.status.conditions = pod_status.build_conditions(
        found, "2026-01-01T00:00:00Z", sandbox=True, containers_ready=True, phase="Running"
    )
    found.status.container_statuses = pod_status.build_running_statuses(found, "2026-01-01T00:00:00Z", 0, True, [])
    return found


async def _write_status_once(server: ApiServer, writes: Sequence[Json]) -> list[Json]:
    body = json.dumps({"items": _templated(writes)}, separators=(",", ":")).encode()
    request = Request(method="POST", path="/writes", headers=_AGENT, body=body, user=_CONTROLLERS)
    answer = (await server.app.respond(request)).body
    assert isinstance(answer, bytes)
    items = json.loads(answer)["items"]
    assert all(item["code"] < 300 for item in items), items
    return [item["body"] for item in items]


def _templated(writes: Sequence[Json]) -> list[Json]:
    """Write as rows of templates, as our client sends them."""
    items: dict[str, Json] = {}
    for write in writes:
        name, _, subresource = write["path"].removeprefix(_PATH).strip("/").partition("/")
        body, row = dict(write["body"]), Row(name)
        if write["method"] in {"POST", "PUT"}:
            template, row = rows.split_template(codec.decode_own(json.dumps(body).encode(), Pod))
            template.metadata.creation_timestamp, row.creation_timestamp = None, ""
            body = json.loads(codec.encode(template))
        elif uid := body.get("metadata", {}).pop("uid", "") or body.pop("preconditions", {}).get("uid", ""):
            row.uid = uid
        item = {**write, "path": _PATH, "subresource": subresource, "body": body}
        items.setdefault(json.dumps(item), {**item, "rows": []})["rows"].append(msgspec.to_builtins(row))
    return list(items.values())


async def test_the_work_of_the_server(server: ApiServer) -> None:
    async def measured(make: Callable[[Json], Json], pods: Sequence[Json]) -> tuple[int, list[Json]]:
        answers: list[Json] = []

        async def write() -> None:
            answers.extend(await _write_status_once(server, [make(each) for each in pods]))

        return await count_calls(write()) // len(pods), answers

    async def all_steps() -> tuple[int, int, int]:
        create, pods = await measured(lambda _: created(), [{}] * _PODS)
        status, _ = await measured(started, pods)
        delete, _ = await measured(deleted, pods)
        return create, status, delete

    await all_steps()  # what is kept for pods of a template is there after the first
    create, status, delete = await all_steps()
    _check({"created": (create, 245), "status written": (status, 293), "deleted": (delete, 286)})


async def test_the_work_of_the_server_for_the_end_of_a_pod(server: ApiServer) -> None:
    """Released by its Job, given time by the garbage collector, its last status and its end with it by the kubelet."""
    tracking = ["batch.kubernetes.io/job-tracking"]

    def bound(turn: int, number: int) -> Json:
        made = created()["body"]
        meta = {**made["metadata"], "name": f"web-{turn}-{number}", "finalizers": tracking}
        spec = {**made["spec"], "nodeName": f"node-{number}", "terminationGracePeriodSeconds": 30}
        return {"method": "POST", "path": _PATH, "body": {**made, "metadata": meta, "spec": spec}}

    def released(found: Json) -> Json:
        change = {"metadata": {"uid": found["metadata"]["uid"], "$deleteFromPrimitiveList/finalizers": tracking}}
        kind = "application/strategic-merge-patch+json"
        return {**deleted(found), "method": "PATCH", "contentType": kind, "body": change, "omitBody": True}

    def marked(found: Json) -> Json:
        options = {"preconditions": {"uid": found["metadata"]["uid"]}}
        return {**deleted(found), "body": options, "omitBody": True}

    def ended(found: Json) -> Json:
        last = started(found)
        last["body"] |= {"spec": {"containers": []}}
        last["body"]["status"] |= {"phase": "Succeeded"}
        return {**last, "omitBody": True, "thenDelete": deleted(found)["body"]}

    async def steps(turn: int) -> tuple[int, int, int]:
        await _write_status_once(server, [bound(turn, number) for number in range(_PODS)])
        pods = await _listed(server)
        release = await count_calls(_write_status_once(server, [released(each) for each in pods]))
        mark = await count_calls(_write_status_once(server, [marked(each) for each in pods]))
        pods = await _listed(server)
        end = await count_calls(_write_status_once(server, [ended(each) for each in pods]))
        assert not await _listed(server)
        return release // _PODS, mark // _PODS, end // _PODS

    await steps(0)
    release, mark, end = await steps(1)
    _check({"released": (release, 180), "given time": (mark, 132), "ended": (end, 284)})


async def _listed(server: ApiServer) -> list[Json]:
    answer = (await server.app.respond(Request(method="GET", path=_PATH, headers=_AGENT, user=_CONTROLLERS))).body
    assert isinstance(answer, bytes)
    return [{"kind": "Pod", "apiVersion": "v1", **item} for item in json.loads(answer)["items"]]


async def test_the_work_of_the_server_for_what_comes_by_itself(server: ApiServer) -> None:
    async def created_one_by_one(path: str, bodies: Sequence[Json], user: UserInfo = _CONTROLLERS) -> int:
        async def write() -> None:
            for body in bodies:
                sent = json.dumps(body).encode()
                answer = await server.app.respond(Request(method="POST", path=path, body=sent, user=user))
                assert answer.status == 201, answer.body

        return await count_calls(write()) // len(bodies)

    def pods(turn: int) -> list[Json]:
        return [{**created()["body"], "metadata": {"name": f"web-{turn}-{number}"}} for number in range(_PODS)]

    def maps(turn: int) -> list[Json]:
        return [{"metadata": {"name": f"map-{turn}-{number}"}, "data": {"a": str(number)}} for number in range(_PODS)]

    def things(turn: int) -> list[Json]:
        return [{"metadata": {"name": f"thing-{turn}-{number}"}, "spec": {"a": number}} for number in range(_PODS)]

    await created_one_by_one(_DEFINITIONS, [_definition()], _ADMIN)
    await created_one_by_one(_PATH, pods(0))
    await created_one_by_one(_PATH.replace("pods", "configmaps"), maps(0))
    await created_one_by_one(_THINGS, things(0), _ADMIN)
    _check(
        {
            "a custom object": (await created_one_by_one(_THINGS, things(1), _ADMIN), 370),
            "a pod": (await created_one_by_one(_PATH, pods(1)), 510),
            "a ConfigMap": (await created_one_by_one(_PATH.replace("pods", "configmaps"), maps(1)), 351),
        }
    )


async def test_the_work_of_a_list_as_a_table(server: ApiServer) -> None:
    count = 10 * _PODS  # so many that rows are named by a pattern
    new = created()
    new["body"]["spec"]["nodeName"] = "node-1"
    writes = [started(each) for each in await _write_status_once(server, [new] * count)]
    for number, write in enumerate(writes):
        write["body"]["status"] |= {"hostIP": "10.0.0.1", "podIPs": [{"ip": f"10.1.0.{number}"}]}
    await _write_status_once(server, writes)
    headers = {**_AGENT, "accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}

    async def listed() -> None:
        answer = await server.app.respond(Request(method="GET", path=_PATH, headers=headers, user=_CONTROLLERS))
        assert isinstance(answer.body, AsyncIterator)
        body = b"".join([piece async for piece in answer.body])
        assert len(json.loads(body)["rows"]) == count

    first, again = await count_calls(listed()) // count, await count_calls(listed()) // count
    _check({"shown for the first time": (first, 41), "shown again": (again, 12)})


def test_the_work_of_scheduler_and_controllers() -> None:
    kind = Scheme().kind("v1", "Pod")
    assert kind is not None
    pods = [_running(pod(f"web-{number}")) for number in range(_PODS)]
    for each in pods:
        each.metadata.resource_version = "1"
    seen = [msgspec.Raw(codec.encode(each)) for each in pods]
    cache: Cache[Pod] = Cache()

    def take() -> None:
        pods = [wire.decode_item(raw, kind, Pod, None, wire.PARTS) for raw in seen]
        cache.replace([])
        cache.apply([WatchEvent("ADDED", each) for each in pods])

    engine = Engine()
    for number in range(50):
        engine.put(node(f"n{number}"))

    def schedule() -> None:
        for number in range(_PODS):
            waiting = pod(f"web-{number}")
            engine.assume(waiting, engine.schedule(waiting).node or "")

    take()
    schedule()
    _check(
        {
            "taken into a cache": (count(take).calls // _PODS, 71),
            "counted by its workload": (
                count(lambda: count_pods(list(cache.objects.values()), PodTemplateSpec(), 0, _NOW)).calls // _PODS,
                4,
            ),
            "given a node": (count(schedule).calls // _PODS, 369),
        }
    )


def _check(found: dict[str, tuple[int, int]]) -> None:
    """Whether nothing has become much more work; the numbers are those measured and those of before."""
    risen = {name: numbers for name, numbers in found.items() if numbers[0] > numbers[1] * _MOST}
    assert not risen, f"a pod takes more work than before (calls now, calls before): {risen}; of all: {found}"
