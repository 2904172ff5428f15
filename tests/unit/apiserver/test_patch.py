"""Patches: JSON patch, merge patch and strategic merge patch, as functions on trees and over the API."""

import copy
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_caller import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JSON_PATCH,
    MERGE_PATCH,
    PODS,
    STRATEGIC,
    ApiCaller,
    config_map,
    deployment,
    pod,
)
from mooring.api.apps_v1 import Deployment
from mooring.api.core_v1 import Pod, Service
from mooring.api.scheme import Scheme
from mooring.apiserver.registry.patch import patcher_for
from mooring.apiserver.registry.patch.json_patch import PatchError, apply, check_operations
from mooring.apiserver.registry.patch.schema import schema_of
from mooring.apiserver.registry.patch.strategic import merge_object, merge_values

pytestmark = pytest.mark.req("S.1")


@dataclass(frozen=True)
class Case:
    id: str
    before: Any
    patch: Any
    after: Any


JSON = [
    Case("adds a field", {"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
    Case("adds the whole document", {"a": 1}, [{"op": "add", "path": "", "value": {"b": 2}}], {"b": 2}),
    Case("adds in front of an item", {"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
    Case("adds behind the last item", {"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
    Case("removes a field", {"a": 1, "b": 2}, [{"op": "remove", "path": "/b"}], {"a": 1}),
    Case("removes an item", {"a": [1, 2]}, [{"op": "remove", "path": "/a/0"}], {"a": [2]}),
    Case("replaces a field", {"a": 1}, [{"op": "replace", "path": "/a", "value": [2]}], {"a": [2]}),
    Case("moves a field", {"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
    Case("copies a field", {"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}),
    Case("tests what is there", {"a": 1}, [{"op": "test", "path": "/a", "value": 1}], {"a": 1}),
    Case("tests for null what is absent", {}, [{"op": "test", "path": "/a", "value": None}], {}),
    Case(
        "reads escaped names",
        {"a/b": 1, "c~d": 2},
        [{"op": "remove", "path": "/a~1b"}, {"op": "remove", "path": "/c~0d"}],
        {},
    ),
]


@pytest.mark.parametrize("case", JSON, ids=lambda case: case.id)
def test_a_json_patch(case: Case) -> None:
    assert _patched(case) == case.after


def _patched(case: Case) -> Any:
    check_operations(case.patch)
    return apply(copy.deepcopy(case.patch), copy.deepcopy(case.before))


WRONG = [
    Case("is no list", {}, {"op": "add"}, "a JSON patch is an array of operations"),
    Case("has an operation that is no object", {}, ["add"], "an operation of a JSON patch is an object"),
    Case("has an unknown operation", {}, [{"op": "bend", "path": "/a"}], "Unexpected kind: bend"),
    Case("lacks a path", {}, [{"op": "remove"}], "remove operation needs a path that begins with a slash"),
    Case("lacks a value", {}, [{"op": "add", "path": "/a"}], "add operation needs a value"),
    Case(
        "has too many operations",
        {},
        [{"op": "remove", "path": "/a"}] * 10_001,
        "The allowed maximum operations in a JSON patch is 10000, got 10001",
    ),
    Case(
        "removes what is not there",
        {},
        [{"op": "remove", "path": "/a"}],
        "error in remove for path: '/a': Unable to remove nonexistent key: a: missing value",
    ),
    Case(
        "replaces what is not there",
        {},
        [{"op": "replace", "path": "/a", "value": 1}],
        "replace operation does not apply: doc is missing key: /a: missing value",
    ),
    Case(
        "adds below what is not there",
        {},
        [{"op": "add", "path": "/a/b", "value": 1}],
        'add operation does not apply: doc is missing path: "/a/b": missing value',
    ),
    Case(
        "tests something else",
        {"a": 1},
        [{"op": "test", "path": "/a", "value": 2}],
        "testing value /a failed: test failed",
    ),
    Case(
        "takes true for one",
        {"a": 1},
        [{"op": "test", "path": "/a", "value": True}],
        "testing value /a failed: test failed",
    ),
    Case(
        "goes beyond a list", {"a": [1]}, [{"op": "remove", "path": "/a/1"}], "Unable to access invalid index: 1: /a/1"
    ),
    Case(
        "has an index that is none",
        {"a": [1]},
        [{"op": "remove", "path": "/a/01"}],
        "/a/01: '01' is not the index of an array",
    ),
    Case(
        "moves something into itself",
        {"a": {}},
        [{"op": "move", "from": "/a", "path": "/a/b"}],
        "cannot move /a into itself",
    ),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.id)
def test_refused_is_a_json_patch_that(case: Case) -> None:
    with pytest.raises(PatchError) as caught:
        _patched(case)
    assert str(caught.value) == case.after


def test_copies_cannot_make_an_object_huge() -> None:
    bomb = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 40
    with pytest.raises(PatchError, match="make the object too large"):
        apply(bomb, {"a": ["x" * 100]})


COMPUTED_AGAIN = [
    (
        JSON_PATCH,
        b'[{"op":"add","path":"/metadata","value":{}},{"op":"add","path":"/metadata/finalizers","value":["x"]}]',
    ),
    (MERGE_PATCH, b'{"metadata":{"finalizers":["x"]}}'),
    (STRATEGIC, b'{"metadata":{"finalizers":["x"]}}'),
]


@pytest.mark.parametrize(("media_type", "body"), COMPUTED_AGAIN)
def test_a_patch_that_is_computed_again_is_the_same_patch(media_type: str, body: bytes) -> None:
    kind = Scheme().kind("v1", "Pod")
    assert kind is not None
    patcher = patcher_for(media_type, body, kind)
    for _ in range(3):
        patched = patcher.apply({})
        assert patched == {"metadata": {"finalizers": ["x"]}}
        patched["metadata"]["finalizers"].append("y")  # the result belongs to the caller


MERGE = [
    Case("sets and removes", {"a": 1, "b": 2}, {"a": None, "c": 3}, {"b": 2, "c": 3}),
    Case("goes into objects", {"a": {"x": 1, "y": 2}}, {"a": {"x": None, "z": 3}}, {"a": {"y": 2, "z": 3}}),
    Case("replaces lists", {"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    Case("puts an object in place of a value", {"a": 1}, {"a": {"x": {"y": None, "z": 1}}}, {"a": {"x": {"z": 1}}}),
]


@pytest.mark.parametrize("case", MERGE, ids=lambda case: case.id)
def test_a_merge_patch(case: Case) -> None:
    assert merge_values(copy.deepcopy(case.before), case.patch) == case.after


TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), TREES, max_size=3)


@given(OBJECTS, OBJECTS)
@settings(max_examples=100)
def test_a_strategic_merge_without_a_schema_is_a_merge_patch(before: Any, patch: Any) -> None:
    assert merge_object(copy.deepcopy(before), copy.deepcopy(patch), None) == merge_values(copy.deepcopy(before), patch)


@dataclass(frozen=True)
class Strategic:
    id: str
    before: Any
    patch: Any
    after: Any
    type: Any = Pod


def spec(*containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), **fields}}


A, B, C = ({"name": name, "image": name} for name in "abc")

STRATEGIC_CASES = [
    Strategic(
        "merges items of the same key",
        spec(A, B),
        spec({"name": "b", "image": "x"}),
        spec(A, {"name": "b", "image": "x"}),
    ),
    Strategic("puts new items first", spec(A), spec(B), spec(B, A)),
    Strategic("takes the order of the patch where it names both", spec(A, B, C), spec(C, A), spec(B, C, A)),
    Strategic(
        "puts new values of sets first",
        {"metadata": {"finalizers": ["a"]}},
        {"metadata": {"finalizers": ["b"]}},
        {"metadata": {"finalizers": ["b", "a"]}},
    ),
    Strategic("removes a field of an item", spec({**A, "tty": True}), spec({"name": "a", "tty": None}), spec(A)),
    Strategic("deletes an item", spec(A, B), spec({"name": "a", "$patch": "delete"}), spec(B)),
    Strategic("replaces a list", spec(A, B), spec({"$patch": "replace"}, C), spec(C)),
    Strategic(
        "replaces an item",
        spec({**A, "tty": True}),
        spec({"name": "a", "image": "n", "$patch": "replace"}),
        spec({"name": "a", "image": "n"}),
    ),
    Strategic(
        "orders items",
        spec(A, B, C),
        {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}], "containers": [C, A]}},
        spec(B, C, A),
    ),
    Strategic(
        "orders items without changing any",
        spec(A, B),
        {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
        spec(B, A),
    ),
    Strategic(
        "merges sets of values",
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"finalizers": ["b", "c"]}},
        {"metadata": {"finalizers": ["a", "b", "c"]}},
    ),
    Strategic(
        "takes values out of sets",
        {"metadata": {"finalizers": ["a", "b", "c"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["b", "x"]}},
        {"metadata": {"finalizers": ["a", "c"]}},
    ),
    Strategic(
        "replaces lists that have no key",
        spec(A, tolerations=[{"key": "a"}]),
        {"spec": {"tolerations": [{"key": "b"}]}},
        spec(A, tolerations=[{"key": "b"}]),
    ),
    Strategic(
        "replaces a map when it says so",
        {"metadata": {"labels": {"a": "1", "b": "2"}}},
        {"metadata": {"labels": {"$patch": "replace", "c": "3"}}},
        {"metadata": {"labels": {"c": "3"}}},
    ),
    Strategic(
        "empties a map when it says so",
        {"metadata": {"labels": {"a": "1"}}},
        {"metadata": {"labels": {"$patch": "delete"}}},
        {"metadata": {"labels": {}}},
    ),
    Strategic(
        "keeps only some fields",
        {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}},
        {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
        {"spec": {"strategy": {"type": "Recreate"}}},
        Deployment,
    ),
    Strategic(
        "keeps one of a kind of volume source",
        spec(A, volumes=[{"name": "v", "emptyDir": {}}]),
        {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}},
        spec(A, volumes=[{"name": "v", "hostPath": {"path": "/x"}}]),
    ),
    Strategic(
        "merges ports by their number",
        {"spec": {"ports": [{"port": 80, "name": "http"}, {"port": 443}]}},
        {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}},
        {"spec": {"ports": [{"port": 80, "name": "http", "targetPort": 8080}, {"port": 443}]}},
        Service,
    ),
    Strategic(
        "merges into the first of several items with the same key",
        {"spec": {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}},
        {"spec": {"ports": [{"port": 53, "name": "dns"}]}},
        {"spec": {"ports": [{"port": 53, "protocol": "UDP", "name": "dns"}, {"port": 53, "protocol": "TCP"}]}},
        Service,
    ),
    Strategic(
        "leaves out null in what is new", {}, {"spec": {"nodeName": None, "hostname": "h"}}, {"spec": {"hostname": "h"}}
    ),
]


@pytest.mark.parametrize("case", STRATEGIC_CASES, ids=lambda case: case.id)
def test_a_strategic_merge(case: Strategic) -> None:
    assert merge_object(copy.deepcopy(case.before), copy.deepcopy(case.patch), schema_of(case.type)) == case.after


STRATEGIC_WRONG = [
    Case(
        "an item without its key",
        spec(A),
        spec({"image": "x"}),
        "map: {'image': 'x'} does not contain declared merge key: name",
    ),
    Case("an unknown directive", spec(A), {"spec": {"$patch": "bend"}}, "unknown patch type found: bend"),
    Case(
        "a plain value among objects",
        spec(A),
        {"spec": {"containers": ["x"]}},
        "expected an object with the key name in a list of objects",
    ),
    Case("an object among plain values", {}, {"metadata": {"finalizers": [{}]}}, "expected a list of plain values"),
    Case(
        "fields beside those to be kept",
        spec(A),
        {"spec": {"$retainKeys": ["containers"], "hostname": "h"}},
        "$retainKeys list must contain all the fields of the patch: hostname missing",
    ),
]


@pytest.mark.parametrize("case", STRATEGIC_WRONG, ids=lambda case: case.id)
def test_refused_in_a_strategic_merge_is(case: Case) -> None:
    with pytest.raises(PatchError) as caught:
        merge_object(copy.deepcopy(case.before), copy.deepcopy(case.patch), schema_of(Pod))
    assert str(caught.value) == case.after


@dataclass(frozen=True)
class Sent:
    id: str
    media_type: str
    patch: Any
    data: dict[str, str] = field(default_factory=lambda: {"a": "2"})


@pytest.mark.parametrize(
    "case",
    [
        Sent("a JSON patch", JSON_PATCH, [{"op": "replace", "path": "/data/a", "value": "2"}]),
        Sent("a merge patch", MERGE_PATCH, {"data": {"a": "2"}}),
        Sent("a strategic merge patch", STRATEGIC, {"data": {"a": "2"}}),
        Sent("a media type with parameters", MERGE_PATCH + "; charset=utf-8", {"data": {"a": "2"}}),
    ],
    ids=lambda case: case.id,
)
async def test_an_object_is_changed_by(api: ApiCaller, case: Sent) -> None:
    await api.post(CONFIG_MAPS, config_map(a="1"))
    answer = await api.patch(f"{CONFIG_MAPS}/settings", case.patch, case.media_type)
    assert (answer.code, answer.body["data"]) == (200, case.data)
    assert (await api.get(f"{CONFIG_MAPS}/settings")).body == answer.body


@dataclass(frozen=True)
class Refused:
    id: str
    patch: Any
    code: int
    message: str
    media_type: str = MERGE_PATCH
    query: str = ""


REFUSED = [
    Refused(
        "a media type that is no patch",
        {},
        415,
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, "
        "application/apply-patch+yaml",
        "application/json",
    ),
    Refused("a patch that is no object", [1], 400, "error decoding patch: a merge patch is an object"),
    Refused(
        "a value of a wrong type",
        {"data": {"a": 1}},
        422,
        ' "" is invalid: patch: Invalid value: data.a: expected a string, got the number 1',
    ),
    Refused(
        "a patch that does not apply",
        [{"op": "test", "path": "/data/a", "value": "9"}],
        422,
        "the server rejected our request due to an error in our request",
        JSON_PATCH,
    ),
    Refused(
        "an unknown field under strict validation",
        {"dota": {}},
        400,
        'error decoding patch: strict decoding error: unknown field "dota"',
        query="?fieldValidation=Strict",
    ),
    Refused(
        "force without apply",
        {},
        422,
        'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch',
        query="?force=true",
    ),
    Refused(
        "another version of the object",
        {"metadata": {"resourceVersion": "1"}},
        409,
        'Operation cannot be fulfilled on configmaps "settings": the object has been modified; please apply your '
        "changes to the latest version and try again",
    ),
    Refused(
        "another name",
        {"metadata": {"name": "other"}},
        400,
        "the name of the object (other) does not match the name on the URL (settings)",
    ),
    Refused(
        "another kind",
        {"kind": "Secret"},
        400,
        'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): '
        "unknown conversion",
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
async def test_refused_is(api: ApiCaller, case: Refused) -> None:
    before = (await api.post(CONFIG_MAPS, config_map(a="1"))).body
    answer = await api.patch(f"{CONFIG_MAPS}/settings{case.query}", case.patch, case.media_type)
    assert (answer.code, answer.message) == (case.code, case.message)
    assert (await api.get(f"{CONFIG_MAPS}/settings")).body == before


async def test_a_patch_that_nests_without_end_is_refused(api: ApiCaller) -> None:
    await api.post(PODS, pod())
    deep: list[dict[str, Any]] = [{"op": "add", "path": "/metadata/managedFields", "value": [{"fieldsV1": {}}]}]
    nested: dict[str, Any] = {}
    for _ in range(100):
        nested = {"a": nested}
    path = "/metadata/managedFields/0/fieldsV1"
    deep += [{"op": "add", "path": path + "/a" * (100 * step + 1), "value": nested} for step in range(30)]
    answer = await api.patch(f"{PODS}/web", deep, JSON_PATCH)
    assert (answer.code, answer.message) == (400, "error decoding patch: nested too deeply")


@pytest.mark.parametrize("name", ["fieldsV1", "fields\\u00561"])
async def test_a_patch_reads_field_sets_also_by_an_escaped_name(api: ApiCaller, name: str) -> None:
    await api.post(CONFIG_MAPS, config_map(a="1"))
    steps = f'{{"op":"test","path":"/metadata/managedFields/0/{name}/f:data/f:a","value":{{}}}}'
    copy = f'{{"op":"copy","from":"/metadata/managedFields/0/{name}/f:data","path":"/data"}}'
    assert (await api.patch(f"{CONFIG_MAPS}/settings", f"[{steps}]".encode(), JSON_PATCH)).code == 200
    refused = await api.patch(f"{CONFIG_MAPS}/settings", f"[{copy}]".encode(), JSON_PATCH)
    assert (refused.code, "Raw" in refused.message) == (422, False)


async def test_status_is_patched_by_itself(api: ApiCaller) -> None:
    await api.post(DEPLOYMENTS, deployment())
    answer = await api.patch(f"{DEPLOYMENTS}/web/status", {"spec": {"replicas": 9}, "status": {"replicas": 4}})
    assert (answer.body["spec"]["replicas"], answer.body["status"]["replicas"]) == (1, 4)


async def test_what_did_not_change_is_not_written(api: ApiCaller) -> None:
    await api.post(CONFIG_MAPS, config_map(a="1"))
    before = await api.store.revision()
    await api.patch(f"{CONFIG_MAPS}/settings", {"data": {"a": "1"}})
    assert await api.store.revision() == before


DEEPER = [
    pytest.param({"op": "add", "path": "/spec/a", "value": 1}, True, id="adding in a place is shallow"),
    pytest.param({"op": "remove", "path": "/spec/a"}, True, id="so is removing"),
    pytest.param({"op": "add", "path": "/a" * 21, "value": 1}, False, id="a place far down is not"),
    pytest.param({"op": "move", "from": "/a", "path": "/b/c"}, False, id="moving may put depth upon depth"),
    pytest.param({"op": "copy", "from": "/a", "path": "/b/c"}, False, id="copying may, too"),
]


@pytest.mark.parametrize(("operation", "shallow"), DEEPER)
def test_only_shallow_json_patches_spare_a_look_at_the_result(operation: dict[str, Any], shallow: bool) -> None:
    kind = Scheme().kind("v1", "Pod")
    assert kind is not None
    patcher = patcher_for(JSON_PATCH, json.dumps([{"op": "test", "path": "/a"}, operation]).encode(), kind)
    assert patcher.is_plain == shallow
