"""Pods whose texts differ in nothing but the name are judged once, and come out as if each had been."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_caller import PODS, Answer, ApiCaller, api_caller
from mooring.apiserver.registry.pods.like_pods import LikePods

pytestmark = pytest.mark.req("S.4")

Tree = dict[str, Any]
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def _spec(**more: Any) -> Tree:
    return {"containers": [{"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}], **more}


def _body(name: str, **metadata: Any) -> Tree:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": _spec()}


def _common(answer: Answer) -> Tree:
    """A created pod without what is its own."""
    body = answer.body
    for own in ("name", "uid", "resourceVersion"):
        assert body["metadata"].pop(own)
    return body


async def _learned(api: ApiCaller, **metadata: Any) -> list[Answer]:
    """The first two pods of a text, of which the second is remembered, and a third."""
    return [await api.post(PODS, _body(name, **metadata)) for name in ("one", "two", "three")]


async def test_all_pods_of_a_text_are_alike(api: ApiCaller, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = await _learned(api, labels={"app": "web"})
    assert [each.body["metadata"]["name"] for each in (first, second, third)] == ["one", "two", "three"]
    assert len({each.body["metadata"]["uid"] for each in (first, second, third)}) == 3
    assert _common(first) == _common(second) == _common(third)
    monkeypatch.setattr("mooring.apiserver.registry.writing.finish_create", None)
    assert (await api.post(PODS, _body("four", labels={"app": "web"}))).code == 201, "and not judged again"
    assert (await api.get(f"{PODS}/four")).body["metadata"]["name"] == "four"


async def test_the_time_is_that_of_the_request(api: ApiCaller) -> None:
    await _learned(api)
    api.clock.advance(100)
    metadata = (await api.post(PODS, _body("late"))).body["metadata"]
    assert {metadata["creationTimestamp"], metadata["managedFields"][0]["time"]} == {"2026-01-01T00:01:40Z"}


async def test_made_up_names_are_made_up_for_each(api: ApiCaller) -> None:
    body = {**_body(""), "metadata": {"generateName": "web-"}}
    names = {(await api.post(PODS, body)).body["metadata"]["name"] for _ in range(6)}
    assert len(names) == 6


@pytest.mark.parametrize("name", ["Two", "-a", "a.", "x" * 300, "two"])
async def test_a_name_is_judged_as_ever(name: str, api: ApiCaller) -> None:
    await _learned(api)
    answer = await api.post(PODS, _body(name))
    async with api_caller() as other:
        await other.post(PODS, _body("two"))
        expected = await other.post(PODS, _body(name))
    assert (answer.code, answer.body) == (expected.code, expected.body)
    assert answer.code >= 400


async def test_what_is_looked_up_counts_at_once(api: ApiCaller) -> None:
    await _learned(api)
    urgent = {"metadata": {"name": "urgent"}, "value": 7, "globalDefault": True}
    await api.post(_CLASSES, {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **urgent})
    assert (await api.post(PODS, _body("urgent"))).body["spec"]["priority"] == 7
    limits = {"limits": [{"type": "Container", "max": {"cpu": "500m"}}]}
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": limits}
    await api.post("/api/v1/namespaces/default/limitranges", body)
    assert (await api.post(PODS, _body("large"))).code == 422


@pytest.mark.parametrize("ends", [False, True], ids=["its security", "its end"])
async def test_a_namespace_that_has_changed_counts_at_once(ends: bool, api: ApiCaller) -> None:
    await api.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    await api.post("/api/v1/namespaces/shop/serviceaccounts", account)
    pods = "/api/v1/namespaces/shop/pods"
    before = [(await api.post(pods, _body(name))).code for name in ("one", "two", "three")]
    if ends:
        await api.delete("/api/v1/namespaces/shop")
    else:
        strict = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
        await api.patch("/api/v1/namespaces/shop", strict)
    assert [*before, (await api.post(pods, _body("four"))).code] == [201, 201, 201, 403]


async def test_another_sender_is_another_matter(api: ApiCaller) -> None:
    await _learned(api)
    answer = await api.post(PODS, _body("theirs"), agent="other/1")
    assert answer.body["metadata"]["managedFields"][0]["manager"] == "other"
    assert (await api.as_node("n").post(PODS, _body("of-a-node"))).body["metadata"]["name"] == "of-a-node"


_words = st.sampled_from(["one", "c", "web", "x-1"])
_metadata = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.fixed_dictionaries({"name": _words}),
        "annotations": st.dictionaries(_words, _words, min_size=1),
    },
)


@settings(max_examples=25, deadline=None)
@given(_metadata, _words, st.booleans(), st.booleans(), st.sampled_from([None, 2]))
def test_whatever_else_has_the_same_text_as_the_name(
    metadata: Tree, label: str, is_first: bool, spec_first: bool, indent: int | None
) -> None:
    """The name may stand anywhere, and other fields may be called `name`, too, or say what it says."""

    def text(name: str) -> bytes:
        named = {"name": name, **metadata} if is_first else {**metadata, "name": name}
        spec = _spec(nodeSelector={"name": label})
        parts = {"spec": spec, "metadata": named} if spec_first else {"metadata": named, "spec": spec}
        return json.dumps({"apiVersion": "v1", "kind": "Pod", **parts}, indent=indent).encode()

    asyncio.run(_create_all(text, metadata, label))


async def _create_all(text: Callable[[str], bytes], metadata: Tree, label: str) -> None:
    async with api_caller() as api:
        for name in ("one", "c", "web", "x-1", "last"):
            body = (await api.post(PODS, text(name))).body
            assert body["metadata"]["name"] == name
            assert body["metadata"].get("labels", {}) == metadata.get("labels", {})
            assert body["metadata"].get("annotations", {}) == metadata.get("annotations", {})
            assert body["spec"]["nodeSelector"] == {"name": label}
            assert body["spec"]["containers"][0]["name"] == "c"


def _numbered(number: int) -> Tree:
    """A pod as the controller of a StatefulSet makes it."""
    name = f"web-{number}"
    own = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(number)}
    return {"metadata": {"name": name, "labels": {"app": "web", **own}}, "spec": _spec(hostname=name, subdomain="web")}


def _daemon(number: int) -> Tree:
    """A pod as the controller of a DaemonSet makes it."""
    by_name = {"key": "metadata.name", "operator": "In", "values": [f"node-{number}"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [by_name]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return {"metadata": {"generateName": "agent-"}, "spec": _spec(affinity=affinity)}


def _elsewhere(number: int) -> Tree:
    """What looks like parts of its own stands where it means something else."""
    words = {"apps.kubernetes.io/pod-index": str(number), "hostname": f"h{number}"}
    return {"metadata": {"name": f"p{number}", "annotations": words}, "spec": _spec(nodeSelector=words)}


def _merged(number: int) -> Tree:
    """Its number is put into a selector."""
    tree = _numbered(number)
    term = {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["apps.kubernetes.io/pod-index"]}
    tree["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return tree


def _spoilt(number: int) -> Tree:
    """The fourth has a host name that is none, and the fifth a number that is no label."""
    tree = _numbered(number)
    if number == 3:
        tree["spec"]["hostname"] = "a.b"
    if number == 4:
        tree["metadata"]["labels"]["apps.kubernetes.io/pod-index"] = "-"
    return tree


def _text(tree: Tree) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "Pod", **tree}, separators=(",", ":")).encode()


async def _one_by_one(api: ApiCaller, texts: list[bytes]) -> list[tuple[int, Tree]]:
    answers = [await api.post(PODS, text) for text in texts]
    return [(each.code, each.body) for each in answers]


@pytest.mark.parametrize("made", [_numbered, _daemon, _elsewhere, _merged, _spoilt])
async def test_pods_with_parts_of_their_own_come_out_as_if_each_had_been_judged(
    made: Callable[[int], Tree], api: ApiCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [_text(made(number)) for number in range(6)]
    found = await _one_by_one(api, texts)

    async def nothing(*_: object) -> None:
        return None

    monkeypatch.setattr(LikePods, "find", nothing)
    async with api_caller() as other:
        expected = await _one_by_one(other, texts)
    assert list(map(_without_uid, found)) == list(map(_without_uid, expected))


def _without_uid(answer: tuple[int, Tree]) -> tuple[int, Tree]:
    """An answer without what is made up."""
    code, body = answer
    made_up = {"uid", "resourceVersion", *(["name"] if "generateName" in body["metadata"] else [])}
    metadata = {field: value for field, value in body["metadata"].items() if field not in made_up}
    return code, {**body, "metadata": metadata}


@pytest.mark.parametrize("made", [_numbered, _daemon])
async def test_pods_with_parts_of_their_own_are_not_judged_again(
    made: Callable[[int], Tree], api: ApiCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [_text(made(number)) for number in range(4)]
    await _one_by_one(api, texts[:2])
    monkeypatch.setattr("mooring.apiserver.registry.writing.finish_create", None)
    assert [code for code, _ in await _one_by_one(api, texts[2:])] == [201, 201]
