"""Definitions of custom kinds that would take over built-in APIs or multiply what is written."""

from typing import Any

import msgspec
import pytest

from app_calls import Caller
from attack_users import MERGE
from custom_api import definition
from mooring.admission.definitions.spec import MAX_VERSIONS
from mooring.api.json_tree import MAX_ELEMENTS_OF_CUSTOM_OBJECT
from mooring.api.scheme import Scheme
from mooring.api.structural import MAX_DEFAULTS_COST
from mooring.store.kv import MAX_VALUE_BYTES

pytestmark = pytest.mark.req("X.11")
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TABS = "/apis/stable.example.com/v1/namespaces/default/crontabs"


def _in_group(group: str, plural: str, kind: str) -> dict[str, Any]:
    made = definition(plural, kind)
    made["metadata"] = {
        "name": f"{plural}.{group}",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"},
    }
    made["spec"]["group"] = group
    return made


@pytest.mark.parametrize(
    ("group", "plural", "kind"),
    [
        ("advisor.mooring.dev", "explanations", "Explanation"),
        ("advisor.mooring.dev", "others", "Other"),
        ("networking.k8s.io", "ingresses", "Ingress"),
        ("networking.k8s.io", "others", "Ingress"),
    ],
)
async def test_a_group_of_the_server_itself_cannot_be_defined(call: Caller, group: str, plural: str, kind: str) -> None:
    answer = await call("POST", DEFINITIONS, _in_group(group, plural, kind))
    assert answer.status == 422
    assert "is served by this server itself" in answer.message


def test_a_definition_that_is_stored_already_does_not_replace_a_built_in_kind() -> None:
    from mooring.api.apiextensions_v1 import CustomResourceDefinition
    from mooring.api.custom_kinds import kinds_of

    scheme = Scheme()
    built_in = scheme.resource("networking.k8s.io", "v1", "ingresses")
    hostile = msgspec.convert(_in_group("networking.k8s.io", "ingresses", "Ingress"), CustomResourceDefinition)
    learned = kinds_of(hostile, revision=1)
    scheme.register(learned.versions, learned.storage)
    assert scheme.kind("networking.k8s.io/v1", "Ingress") is built_in
    scheme.unregister(learned.storage.family)
    assert scheme.resource("networking.k8s.io", "v1", "ingresses") is built_in
    assert scheme.kind("networking.k8s.io/v1", "Ingress") is built_in


async def test_a_definition_has_a_limited_number_of_versions(call: Caller) -> None:
    made = definition()
    first = made["spec"]["versions"][0]
    made["spec"]["versions"] += [
        {**first, "name": f"v{number}", "storage": False} for number in range(2, MAX_VERSIONS + 2)
    ]
    answer = await call("POST", DEFINITIONS, made)
    assert answer.status == 422
    assert f"Too many: {MAX_VERSIONS + 1}: must have at most {MAX_VERSIONS} items" in answer.message
    del made["spec"]["versions"][-1]
    assert (await call("POST", f"{DEFINITIONS}?dryRun=All", made)).status == 201


async def _with_default(call: Caller, default: Any) -> None:
    item = {
        "type": "object",
        "properties": {"a": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "default": default}},
    }
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"l": {"type": "array", "items": item}}}},
    }
    made = await call("POST", DEFINITIONS, definition(schema=schema))
    assert made.status == 201, made.message


def _tab(count: int) -> dict[str, Any]:
    return {
        "apiVersion": "stable.example.com/v1",
        "kind": "CronTab",
        "metadata": {"name": "t"},
        "spec": {"l": [{}] * count},
    }


@pytest.mark.parametrize(
    "default", [{"x": "y" * 20_000}, {f"k{number}": {} for number in range(1000)}], ids=["long", "of many objects"]
)
async def test_defaults_add_a_limited_amount(call: Caller, default: Any) -> None:
    await _with_default(call, default)
    answer = await call("POST", TABS, _tab(2000))
    assert (answer.status, answer.json["reason"]) == (413, "RequestEntityTooLarge")
    assert f"the defaults of its schema add more than {MAX_DEFAULTS_COST} bytes" in answer.message
    assert (await call("POST", TABS, _tab(10))).status == 201


async def test_an_object_does_not_grow_without_limit_by_many_patches(call: Caller) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert (await call("POST", DEFINITIONS, definition(schema=schema))).status == 201
    assert (await call("POST", TABS, _tab(0))).status == 201
    statuses = []
    for number in range(3):
        patch: dict[str, Any] = {f"a{number}": {"b": [{}] * (MAX_ELEMENTS_OF_CUSTOM_OBJECT.objects - 100)}}
        statuses.append((await call("PATCH", f"{TABS}/t", patch, content_type=MERGE)).status)
    assert statuses == [200, 200, 413]


async def test_managed_fields_do_not_count(call: Caller) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert (await call("POST", DEFINITIONS, definition(schema=schema))).status == 201
    tab = _tab(0) | {"a": {f"k{number}": {"x": 1} for number in range(MAX_ELEMENTS_OF_CUSTOM_OBJECT.objects - 100)}}
    assert (await call("POST", TABS, tab)).status == 201


async def test_a_value_that_is_too_large_for_the_store_is_refused(call: Caller) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    long = "x" * (MAX_VALUE_BYTES * 2 // 3)
    assert (await call("POST", path, {"metadata": {"name": "c"}, "data": {"a": long}})).status in {201, 422}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert (await call("POST", DEFINITIONS, definition(schema=schema))).status == 201
    assert (await call("POST", TABS, _tab(0) | {"a": long})).status == 201
    answer = await call("PATCH", f"{TABS}/t", {"b": long}, content_type=MERGE)
    assert (answer.status, answer.json["reason"]) == (413, "RequestEntityTooLarge")
