"""Updates of pods that differ in what is a pod's own are judged a few times, and come out as if each had been."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_caller import PODS, STRATEGIC, ApiCaller, api_caller
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.messages.routes import ResourceRoute, resolve
from mooring.apiserver.registry.pods import like_updates
from mooring.apiserver.registry.pods.like_updates import Known, LikeUpdates, Update

pytestmark = pytest.mark.req("S.4")
Tree = dict[str, Any]
_TRACKING = "batch.kubernetes.io/job-tracking"
_UPDATES = "mooring.apiserver.registry.writing.finish_update"


class Foretold(LikeUpdates):
    """Lets every update be judged, and compares what would have been said of it."""

    said = right = 0
    _said: Known | None = None

    async def find(self, update: Update) -> Known | None:
        self._said = await super().find(update)
        self.said += self._said is not None
        return None

    async def learn(self, update: Update, value: bytes, **outcome: Any) -> None:
        if self._said is not None:
            assert self._said.value.decode() == value.decode()
            assert self._said.is_gone == outcome.get("is_gone", False)
            self.right += 1
        await super().learn(update, value, **outcome)


def _foretold(api: ApiCaller) -> Foretold:
    made = api.resources._together._like_updates = Foretold(api.resources.context)
    return made


def _requests(api: ApiCaller, writes: Sequence[Tree]) -> tuple[list[Request], list[ResourceRoute]]:
    requests = [
        Request(
            method=write["method"],
            path=write["path"],
            headers={"content-type": write.get("type", "application/json"), "user-agent": "kubelets/1"},
            body=json.dumps(write["body"], separators=(",", ":")).encode(),
            user=api.user,
            is_unread=True,
        )
        for write in writes
    ]
    routes = [resolve(api.scheme, request.path) for request in requests]
    return requests, [route for route in routes if route is not None]


async def _together(api: ApiCaller, writes: Sequence[Tree]) -> list[int]:
    """The codes of the answers to writes of a group; 0 for what was refused."""
    outcomes = await api.resources.write_together(*_requests(api, writes))
    assert outcomes is not None
    return [outcome.status if isinstance(outcome, Response) else 0 for outcome in outcomes]


async def _ended(api: ApiCaller, writes: Sequence[Tree]) -> list[int]:
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
    deletions = [
        {
            "method": "DELETE",
            "path": write["path"].removesuffix("/status"),
            "body": {**options, "preconditions": {"uid": write["body"]["metadata"]["uid"]}},
        }
        for write in writes
    ]
    outcomes = await api.resources.end_together(_requests(api, writes), _requests(api, deletions))
    assert outcomes is not None
    return [last.status if isinstance(last, Response) else 0 for _, last in outcomes]


async def _created(api: ApiCaller, names: Sequence[str], node: str = "node-{}", **more: Any) -> None:
    for number, name in enumerate(names):
        metadata = {"name": name, "labels": {"app": "web"}, **more.get("metadata", {})}
        spec = {
            "containers": [{"name": "c", "image": "app:1"}],
            "nodeName": node.format(number),
            **more.get("spec", {}),
        }
        answer = await api.post(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        assert answer.code == 201, answer.body


async def _found(api: ApiCaller, name: str) -> Tree:
    found = (await api.get(f"{PODS}/{name}")).body
    found["metadata"].pop("managedFields")
    return found


def _container(name: str, state: Tree) -> Tree:
    number = hashlib.sha256(name.encode()).hexdigest()
    return {"name": "c", "image": "app:1", "imageID": "i", "containerID": f"containerd://{number}", "state": state}


async def _status(api: ApiCaller, name: str, phase: str, number: int, **more: Any) -> Tree:
    """A write of a pod's status as a kubelet makes it."""
    found, moment = await _found(api, name), api.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    ended = {"terminated": {"exitCode": 0, "startedAt": moment, "finishedAt": moment}}
    found["status"] |= {
        "phase": phase,
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": moment}],
        "hostIP": f"172.16.0.{number}",
        "podIP": f"10.0.0.{number}",
        "podIPs": [{"ip": f"10.0.0.{number}"}],
        "containerStatuses": [_container(name, {"running": {"startedAt": moment}} if phase == "Running" else ended)],
        **more,
    }
    return {"method": "PUT", "path": f"{PODS}/{name}/status", "body": found}


async def _released(api: ApiCaller, name: str) -> Tree:
    uid = (await _found(api, name))["metadata"]["uid"]
    body = {"metadata": {"uid": uid, "$deleteFromPrimitiveList/finalizers": [_TRACKING]}}
    return {"method": "PATCH", "path": f"{PODS}/{name}", "body": body, "type": STRATEGIC}


def _names(count: int) -> list[str]:
    return [f"web-{number}" for number in range(count)]


async def test_what_is_foretold_is_what_is_judged(api: ApiCaller) -> None:
    foretold, names = _foretold(api), _names(8)
    await _created(api, names, metadata={"finalizers": [_TRACKING]})
    api.clock.advance(2)
    assert await _together(api, [await _status(api, name, "Running", at) for at, name in enumerate(names)]) == [200] * 8
    assert foretold.right == 5, "all but the first three"
    assert await _together(api, [await _released(api, name) for name in names]) == [200] * 8
    assert foretold.right == 10
    api.clock.advance(3)
    marks = [{"method": "DELETE", "path": f"{PODS}/{name}", "body": {}} for name in names]
    assert await _together(api, marks) == [200] * 8
    assert await _ended(api, [await _status(api, name, "Succeeded", at) for at, name in enumerate(names)]) == [200] * 8
    assert foretold.right == 15
    assert not (await api.get(PODS)).names


async def test_victims_are_marked_alike(api: ApiCaller) -> None:
    """As the scheduler says in the status of pods that it displaces why they go."""
    foretold, names = _foretold(api), _names(6)
    await _created(api, names)
    moment = api.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "room"}
    change = {"conditions": [{**target, "lastTransitionTime": moment}]}
    marks = [
        {
            "method": "PATCH",
            "path": f"{PODS}/{name}/status",
            "body": {"metadata": {"uid": (await _found(api, name))["metadata"]["uid"]}, "status": change},
            "type": STRATEGIC,
        }
        for name in names
    ]
    assert await _together(api, marks) == [200] * 6
    assert foretold.right == 3
    told = [(await _found(api, name))["status"]["conditions"][0]["reason"] for name in names]
    assert told == ["PreemptionByScheduler"] * 6


async def test_a_pod_whose_last_finalizer_goes_is_gone(api: ApiCaller) -> None:
    foretold, names = _foretold(api), _names(6)
    await _created(api, names, metadata={"finalizers": [_TRACKING]})
    for name in names:
        await api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    assert await _together(api, [await _released(api, name) for name in names]) == [200] * 6
    assert (await api.get(PODS)).names == []
    assert foretold.right == 3


async def _judged(api: ApiCaller, names: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether pods are still judged when they come to run."""
    writes = [await _status(api, name, "Running", number) for number, name in enumerate(names)]
    with monkeypatch.context() as patch:
        patch.setattr(_UPDATES, None)
        return [code == 0 for code in await _together(api, writes)]


async def _run_three(api: ApiCaller) -> None:
    await _created(api, _names(6))
    writes = [await _status(api, name, "Running", number) for number, name in enumerate(_names(3))]
    assert await _together(api, writes) == [200] * 3


async def test_the_fourth_is_not_judged(api: ApiCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    await _run_three(api)
    assert await _judged(api, ["web-3", "web-4"], monkeypatch) == [False, False]
    first, fourth = (await api.get(f"{PODS}/web-0")).text.decode(), (await api.get(f"{PODS}/web-3")).body
    words = {name: fourth["metadata"][name] for name in ("uid", "resourceVersion")}
    before = json.loads(first)["metadata"]
    assert fourth["status"]["podIP"] == "10.0.0.0", "its own, which is that of its update"
    assert fourth["status"]["containerStatuses"] == [
        {**json.loads(first)["status"]["containerStatuses"][0], "containerID": _container("web-3", {})["containerID"]}
    ]
    expected = first.replace("node-0", "node-3").replace("web-0", "web-3")
    for name, word in words.items():
        expected = expected.replace(f'"{before[name]}"', f'"{word}"')
    expected = expected.replace(_container("web-0", {})["containerID"], _container("web-3", {})["containerID"])
    assert fourth == json.loads(expected)


@pytest.mark.parametrize(
    ("name", "labels", "is_apart_and_known"),
    [
        ("web-6", {}, (False, True)),
        ("web-x-6", {}, (True, True)),
        ("web-6", {"pod": "web-6"}, (True, False)),
        ("web-6", {"pod": "node-5"}, (True, False)),
        ("web-9", {}, (True, False)),
    ],
    ids=["its own words alone", "a name of another set", "its name for a label", "another label", "a label for a name"],
)
async def test_what_differs_in_its_own_words_alone_is_read_along_the_form_of_others(
    name: str,
    labels: dict[str, str],
    is_apart_and_known: tuple[bool, bool],
    api: ApiCaller,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    foretold = _foretold(api)
    await _created(api, [*_names(6), name], metadata={"labels": {"pod": "web-9"}})
    await _together(api, [await _status(api, each, "Running", number) for number, each in enumerate(_names(6))])
    await api.patch(f"{PODS}/{name}", {"metadata": {"labels": labels}})
    taken_apart: list[int] = []
    apart = like_updates._taken_apart

    def noted(texts: tuple[bytes, bytes, bytes], revision: int, now: bytes) -> Any:
        taken_apart.append(revision)
        return apart(texts, revision, now)

    monkeypatch.setattr(like_updates, "_taken_apart", noted)
    assert await _together(api, [await _status(api, name, "Running", 6)]) == [200]
    assert foretold.right == foretold.said
    assert (bool(taken_apart), foretold.said == 4) == is_apart_and_known


async def test_where_something_may_tell_them_apart_each_is_judged(
    api: ApiCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _run_three(api)
    assert await _judged(api.as_node("node-3"), ["web-3"], monkeypatch) == [True], "a node writes"
    spec = {"hard": {"pods": "100"}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec}
    await api.post("/api/v1/namespaces/default/resourcequotas", quota)
    assert await _judged(api, ["web-3"], monkeypatch) == [True], "a quota counts"
    await api.delete("/api/v1/namespaces/default/resourcequotas/q")
    assert await _judged(api, ["web-3"], monkeypatch) == [False]


async def test_what_is_looked_up_counts_at_once(api: ApiCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    await _created(api, _names(6), metadata={"finalizers": [_TRACKING]})
    assert await _together(api, [await _released(api, name) for name in _names(3)]) == [200] * 3
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    await api.patch("/api/v1/namespaces/default", {"metadata": {"labels": labels}})
    writes = [await _released(api, "web-3")]
    with monkeypatch.context() as patch:
        patch.setattr(_UPDATES, None)
        assert await _together(api, writes) == [0]
    await api.patch("/api/v1/namespaces/default", {"metadata": {"labels": dict.fromkeys(labels)}})
    with monkeypatch.context() as patch:
        patch.setattr(_UPDATES, None)
        assert await _together(api, writes) == [200]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"uid": "00000000-0000-0000-0000-000000000000"}, 0),
        ({"resourceVersion": "1"}, 0),
        ({"name": "web-0"}, 0),
        ({"creationTimestamp": "2026-01-01T00:00:07Z"}, 0),
        ({"creationTimestamp": "2026-99-99T00:00:00Z"}, 0),
        ({"resourceVersion": ""}, 200),
    ],
    ids=["another uid", "an old version", "another name", "another age", "no time", "any version"],
)
async def test_what_names_another_pod_is_refused_as_ever(wrong: Tree, code: int, api: ApiCaller) -> None:
    await _run_three(api)
    write = await _status(api, "web-3", "Running", 3)
    write["body"]["metadata"] |= wrong
    assert await _together(api, [write]) == [code]


_MOMENTS = st.sampled_from([f"2026-01-01T00:00:0{second}Z" for second in range(3)])
_ADDRESSES = st.sampled_from(["10.0.0.1", "10.0.0.12", "10.0.0.3", "fd00::1", ""])


@st.composite
def _drawn_status(draw: st.DrawFn) -> Tree:
    ends = st.builds(lambda at: {"terminated": {"exitCode": 1, "finishedAt": at}}, _MOMENTS)
    runs = st.builds(lambda at: {"running": {"startedAt": at}}, _MOMENTS)
    states = draw(st.lists(st.one_of(ends, runs), max_size=2))
    address = draw(_ADDRESSES)
    others = draw(st.lists(_ADDRESSES.filter(bool), max_size=1))
    return {
        "phase": draw(st.sampled_from(["Pending", "Running", "Failed"])),
        "conditions": [{"type": draw(st.sampled_from(["Ready", "web-1", "-"])), "lastTransitionTime": draw(_MOMENTS)}],
        "podIP": address,
        "podIPs": [{"ip": each} for each in dict.fromkeys(filter(None, (address, *others)))],
        "hostIP": draw(_ADDRESSES),
        "startTime": draw(_MOMENTS),
        "nominatedNodeName": draw(st.sampled_from(["", "node-0", "node-1"])),
        "containerStatuses": [_container(draw(st.sampled_from("ab")), state) for state in states],
    }


@given(
    policy=st.sampled_from(["Always", "Never"]),
    node=st.sampled_from(["node-{}", "node{}", "web-{}"]),
    labels=st.sampled_from([{}, {"pod": "web-1"}, {"apps.kubernetes.io/pod-index": "1"}]),
    turns=st.lists(st.tuples(st.integers(0, 2), _drawn_status(), st.lists(_ADDRESSES, max_size=6)), max_size=4),
)
@settings(max_examples=60)
async def test_whatever_comes_is_foretold_as_it_is_judged(
    policy: str, node: str, labels: dict[str, str], turns: list[tuple[int, Tree, list[str]]]
) -> None:
    async with api_caller() as api:
        foretold = _foretold(api)
        await _created(api, _names(9), node, metadata={"labels": labels}, spec={"restartPolicy": policy})
        for seconds, status, addresses in turns:
            api.clock.advance(seconds)
            writes = []
            for number, name in enumerate(_names(9)):
                write = await _status(api, name, "Running", number)
                write["body"]["status"] |= status
                if number < len(addresses):
                    write["body"]["status"]["podIP"] = addresses[number]
                writes.append(write)
            await _together(api, writes)
        assert foretold.right == foretold.said, "nothing is said of what is refused"
