"""Writes of one kind in a batch are admitted one after the other, with the same outcome as each alone."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from group_writes import (
    PODS,
    WRITER,
    Json,
    allow,
    deletion,
    got,
    make_namespaces,
    moved,
    nameless,
    pod,
    status,
    written,
)
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer

pytestmark = pytest.mark.req("S.1")
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@pytest.fixture(params=[True], ids=["in memory"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ApiServer]:
    opened = await ApiServer.open(ServerConfig(data_dir=tmp_path, ephemeral=request.param, port=0))
    try:
        await opened.listen()
        yield opened
    finally:
        await opened.close()


def numbered(number: int) -> Json:
    """As the controller of a StatefulSet makes it."""
    name = f"web-{number}"
    write = pod(name, labels={"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(number)})
    write["body"]["spec"] |= {"hostname": name, "subdomain": "web"}
    return write


def daemon(number: int) -> Json:
    """As the controller of a DaemonSet makes it."""
    by_name = {"key": "metadata.name", "operator": "In", "values": [f"node-{number}"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [by_name]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    write = pod("", generateName="agent-")
    write["body"]["spec"] |= {"affinity": affinity}
    return write


def event(name: str, **fields: Any) -> Json:
    regarding = {"kind": "Pod", "namespace": "default", "name": name}
    reported = {"eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "k", "reportingInstance": "k"}
    body = {"metadata": {"name": name, "namespace": "default"}, "regarding": regarding, "type": "Normal"}
    said = {**body, **reported, "action": "Started", "reason": "Started", **fields}
    return {"method": "POST", "path": "/apis/events.k8s.io/v1/namespaces/default/events", "body": said}


def lease(name: str, holder: str) -> Json:
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"holderIdentity": holder}}
    return {"method": "PUT", "path": f"{_LEASES}/{name}", "body": body}


def new_lease(name: str, seconds: int) -> Json:
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"leaseDurationSeconds": seconds}}
    return {"method": "POST", "path": _LEASES, "body": body}


def refused(name: str, uid: str | None = None, **status: Any) -> Json:
    """Return the condition in which a scheduler says why a pod has no node."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    body = {"metadata": {"uid": uid} if uid else {}, "status": {"conditions": [condition], **status}}
    content_type = "application/strategic-merge-patch+json"
    return {"method": "PATCH", "path": f"{PODS}/{name}/status", "body": body, "contentType": content_type}


ROUNDS: dict[str, Callable[[], Iterator[list[Json]]]] = {
    "pods come to run": lambda: iter([[pod("a"), pod("b")], [status("a"), status("b", podIP="10.0.0.1")]]),
    "pods of a StatefulSet": lambda: iter([[numbered(number) for number in range(5)]]),
    "pods of a DaemonSet": lambda: iter([[daemon(number) for number in range(5)]]),
    "one is not there": lambda: iter([[pod("a")], [status("a"), status("b")]]),
    "one is refused": lambda: iter([[pod("a"), pod("b", labels={"x": "!"})], [status("a"), status("b")]]),
    "nothing changes": lambda: iter([[pod("a"), pod("b")], *[[status("a"), status("b")]] * 2]),
    "a stale version": lambda: iter([[pod("a"), pod("b")], [status("a", version="1"), status("b")]]),
    "an unknown field": lambda: iter([[pod("a"), pod("b")], [status("a", colour="red"), status("b")]]),
    "a wrong condition": lambda: iter(
        [[pod("a"), pod("b")], [status("a", conditions=[{"type": "!", "status": "True"}]), status("b")]]
    ),
    "pods are refused": lambda: iter(
        [[pod("a"), pod("b")], *[[refused("a"), refused("b", nominatedNodeName="node-1"), refused("c")]] * 2]
    ),
    "one is refused that is another now": lambda: iter([[pod("a"), pod("b")], [refused("a", uid="1"), refused("b")]]),
    "a patch that is none": lambda: iter([[pod("a"), pod("b")], [refused("a", conditions="!"), refused("b")]]),
    "pods go at once": lambda: iter(
        [[pod("a"), pod("b")], [deletion("a", gracePeriodSeconds=0), deletion("b", gracePeriodSeconds=0)]]
    ),
    "pods are given time": lambda: iter([[pod("a"), pod("b")], [deletion("a"), deletion("b"), deletion("c")]]),
    "another one has the name": lambda: iter(
        [[pod("a"), pod("b")], [deletion("a", preconditions={"uid": "1"}), deletion("b")]]
    ),
    "a finalizer holds one": lambda: iter(
        [[pod("a", finalizers=["x/y"]), pod("b")], *[[deletion(name, gracePeriodSeconds=0) for name in "ab"]] * 2]
    ),
    "events": lambda: iter([[event("a"), event("b"), event("c", type="")], [event("a"), event("d")]]),
    "new leases": lambda: iter(
        [[new_lease("a", 40), new_lease("b", 0), new_lease("c", 40)], [new_lease("a", 50), new_lease("d", 40)]]
    ),
    "leases": lambda: iter([[lease("a", "x"), lease("b", "x")], [lease("a", "y"), lease("b", "x"), lease("c", "")]]),
}


async def test_writes_together_come_to_what_each_comes_to_alone(server: ApiServer) -> None:
    for number, (name, rounds) in enumerate(ROUNDS.items()):
        both = (f"together-{number}", f"alone-{number}")
        await make_namespaces(server, *both)
        for writes in rounds():
            answers = await written(server, *(moved(both[0], write) for write in writes))
            singly = [(await written(server, moved(both[1], write)))[0] for write in writes]
            assert nameless(answers, both) == nameless(singly, both), name
        listed = [(await got(server, f"/api/v1/namespaces/{each}/pods")).get("items") for each in both]
        together, alone = (sorted(map(json.dumps, nameless(each or [], both))) for each in listed)
        assert together == alone, name


_NAMES = st.sampled_from(["a", "b", "c"])
_WRITES = st.one_of(
    _NAMES.map(pod),
    st.builds(status, _NAMES, st.sampled_from(["Running", "Failed"])),
    st.builds(deletion, _NAMES, gracePeriodSeconds=st.sampled_from([0, 30])),
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(writes=st.lists(_WRITES, min_size=2, max_size=12))
async def test_whatever_is_written_together_every_answer_is_true(server: ApiServer, writes: list[Json]) -> None:
    """Writes of a group have no order among each other, but what was acknowledged has happened."""
    for name in "abc":
        await written(server, deletion(name, gracePeriodSeconds=0))
    answers = await written(server, *writes)
    revisions = [
        int(answer["body"]["metadata"]["resourceVersion"])
        for write, answer in zip(writes, answers, strict=True)
        if answer["code"] == 201 and write["method"] == "POST"
    ]
    assert len(set(revisions)) == len(revisions)
    for name in "abc":
        made = [w for w, a in zip(writes, answers, strict=True) if w == pod(name) and a["code"] == 201]
        done = [w for w, a in zip(writes, answers, strict=True) if a["code"] == 200]
        ended = status(name, "Failed") in done  # then it goes at once, whatever time it is given
        gone = [w for w in done if w["path"] == f"{PODS}/{name}" and (ended or w["body"]["gracePeriodSeconds"] == 0)]
        if made and not gone:
            assert (await got(server, f"{PODS}/{name}"))["kind"] == "Pod"
        if not made:
            assert (await got(server, f"{PODS}/{name}"))["kind"] == "Status"


async def test_two_writes_of_one_object_are_both_done(server: ApiServer) -> None:
    await written(server, pod("a"))
    answers = await written(server, status("a", podIP="10.0.0.1"), status("a", podIP="10.0.0.2"))
    assert [answer["code"] for answer in answers] == [200, 200]
    assert (await got(server, f"{PODS}/a"))["status"]["podIP"] == "10.0.0.2"


@pytest.mark.parametrize("server", [False], ids=["on disk"], indirect=True)
async def test_batches_that_write_the_same_pods_at_once_are_both_executed(server: ApiServer) -> None:
    await written(server, pod("a"), pod("b"))
    groups = [[status("a"), status("b")], [deletion("a"), deletion("b")]]
    answers = await asyncio.gather(*(written(server, *group) for group in groups))
    assert [[answer["code"] for answer in group] for group in answers] == [[200, 200]] * 2
    for name in "ab":
        found = await got(server, f"{PODS}/{name}")
        assert (found["status"]["phase"], found["metadata"]["deletionGracePeriodSeconds"]) == ("Running", 30)


async def test_an_answer_that_no_client_reads_has_no_object(server: ApiServer) -> None:
    unread = [{**write, "omitBody": True} for write in (pod("a"), pod("b"), pod("a"))]
    answers = await written(server, *unread)
    assert [answer["code"] for answer in answers] == [201, 201, 409]
    for name, answer in zip("ab", answers, strict=False):
        reported = answer["body"]["metadata"]
        assert answer["body"].keys() == {"metadata"}
        assert reported == {field: (await got(server, f"{PODS}/{name}"))["metadata"][field] for field in reported}
        assert reported.keys() == {"name", "namespace", "uid", "resourceVersion"}
    assert answers[2]["body"]["reason"] == "AlreadyExists"
    for writes in (
        [status("a"), status("b")],
        [deletion("a", gracePeriodSeconds=0), deletion("b", gracePeriodSeconds=0)],
    ):
        answers = await written(server, *({**write, "omitBody": True} for write in writes))
        assert answers == [{"code": 200, "body": None}] * 2
    assert (await got(server, PODS))["items"] == []


async def test_a_right_to_some_names_is_a_right_to_those(server: ApiServer) -> None:
    await allow(server, {"verbs": ["update"], "apiGroups": [""], "resources": ["pods/status"], "resourceNames": ["a"]})
    await written(server, pod("a"), pod("b"))
    answers = await written(server, status("a"), status("b"), user=WRITER)
    assert [answer["code"] for answer in answers] == [200, 403]


async def test_tokens_may_be_requested_in_a_batch(server: ApiServer) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    names = ("builder", "deployer")
    await written(
        server, *({"method": "POST", "path": accounts, "body": {"metadata": {"name": name}}} for name in names)
    )
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["api"]}}
    answers = await written(
        server, *({"method": "POST", "path": f"{accounts}/{name}/token", "body": body} for name in names)
    )
    assert [answer["code"] for answer in answers] == [201, 201]
    assert all(answer["body"]["status"]["token"] for answer in answers)
