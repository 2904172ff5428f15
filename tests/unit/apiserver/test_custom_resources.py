"""Custom kinds, from their definition to their end, through the server's handlers."""

import asyncio
import threading
from typing import Any

import pytest

from api_caller import JSON_PATCH, STRATEGIC
from custom_api import CRON_TABS, DEFINITIONS, CustomApi, cron_tab, cron_tabs, custom_api, definition
from mooring.admission.definitions.schemas import SchemaValidator
from mooring.api.json_tree import MAX_BYTES
from mooring.store.memory import MemoryStore

ONE = f"{CRON_TABS}/a"
CRD = f"{DEFINITIONS}/crontabs.stable.example.com"


@pytest.fixture
async def api() -> Any:
    async with custom_api() as api:
        await api.define(cron_tabs())
        yield api


# -- definitions


@pytest.mark.req("X.6")
async def test_a_definition_is_established_when_it_has_its_names(api: CustomApi) -> None:
    status = (await api.get(CRD)).body["status"]
    assert {each["type"]: each["status"] for each in status["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert status["acceptedNames"] == {
        "plural": "crontabs",
        "singular": "crontab",
        "shortNames": ["ct"],
        "kind": "CronTab",
        "listKind": "CronTabList",
        "categories": ["all"],
    }
    assert status["storedVersions"] == ["v1"]


@pytest.mark.req("X.6")
async def test_names_that_another_kind_of_the_group_has_are_not_given(api: CustomApi) -> None:
    other = definition("tabs", "CronTab")
    other["spec"]["names"] |= {"shortNames": ["ct"], "listKind": "TabList"}
    await api.define(other)
    conditions = (await api.get(f"{DEFINITIONS}/tabs.stable.example.com")).body["status"]["conditions"]
    assert [(each["type"], each["status"], each["reason"]) for each in conditions] == [
        ("NamesAccepted", "False", "KindConflict"),
        ("Established", "False", "NotAccepted"),
    ]
    assert api.scheme.resource("stable.example.com", "v1", "tabs") is None
    await api.delete(CRD)
    await settled(api, lambda: api.scheme.resource("stable.example.com", "v1", "tabs") is not None)


@pytest.mark.req("X.6")
async def test_the_end_of_a_definition_takes_its_objects_along(api: CustomApi) -> None:
    held = cron_tab("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await api.post(CRON_TABS, held)
    await api.post(CRON_TABS, cron_tab("free"))
    deleted = await api.delete(CRD)
    assert deleted.body["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    await settled(api, lambda: api.store.peek("/registry/stable.example.com/crontabs/default/free") is None)
    refused = await api.post(CRON_TABS, cron_tab("late"))
    assert (refused.code, refused.message) == (
        405,
        "create not allowed while custom resource definition is terminating",
    )
    assert (await api.get(f"{CRON_TABS}/held")).body["metadata"]["deletionTimestamp"]
    await api.patch(f"{CRON_TABS}/held", {"metadata": {"finalizers": None}})
    await settled(api, lambda: api.scheme.resource("stable.example.com", "v1", "crontabs") is None)
    assert (await api.get(CRD)).code == 404


async def settled(api: CustomApi, condition: Any) -> None:
    for _ in range(4000):
        if condition():
            return
        api.clock.advance(1)
        await asyncio.sleep(0.005)
    raise AssertionError("it did not come about")


@pytest.mark.req("X.6")
async def test_watches_end_when_what_they_watch_is_another(api: CustomApi) -> None:
    body = (await api.get(CRD)).body
    watching = asyncio.create_task(api.watch(CRON_TABS, 100))
    await settled(api, lambda: api.resources.open_watches == 1)
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["more"] = {"type": "string"}
    assert (await api.put(CRD, body)).code == 200
    with pytest.raises(StopAsyncIteration):
        await asyncio.wait_for(watching, 20)


# -- objects


@pytest.mark.req("X.1")
async def test_objects_are_pruned_defaulted_and_warned_about(api: CustomApi) -> None:
    made = await api.post(CRON_TABS, {**cron_tab("a", strange=1), "more": {}})
    assert made.code == 201, made.message
    assert made.body["spec"] == {"cronSpec": "* * * * *", "image": "busybox", "replicas": 1}
    assert "more" not in made.body
    assert made.warnings == ['unknown field "more"', 'unknown field "spec.strange"']
    assert (await api.get(ONE)).body == made.body


@pytest.mark.req("X.1")
@pytest.mark.parametrize(
    ("validation", "code"), [("Strict", 400), ("Warn", 201), ("Ignore", 201)], ids=["strict", "warn", "ignore"]
)
async def test_unknown_and_repeated_fields_are_refused_reported_or_dropped(
    api: CustomApi, validation: str, code: int
) -> None:
    body = b'{"metadata":{"name":"a","strange":1},"spec":{"cronSpec":"x","cronSpec":"y","odd":1}}'
    answer = await api.post(f"{CRON_TABS}?fieldValidation={validation}", body)
    assert answer.code == code
    problems = ('unknown field "metadata.strange"', 'duplicate field "spec.cronSpec"', 'unknown field "spec.odd"')
    if validation == "Strict":
        assert f"strict decoding error: {', '.join(problems)}" in answer.message
    else:
        assert answer.warnings == (list(problems) if validation == "Warn" else [])
        assert answer.body["spec"]["cronSpec"] == "y"


@pytest.mark.req("X.1")
async def test_only_events_of_kubernetes_end_by_themselves() -> None:
    async with custom_api() as api:
        await api.define(definition("events", "Event", {"type": "object"}))
        urls = ["/apis/stable.example.com/v1/namespaces/default/events/a", "/api/v1/namespaces/default/events/a"]
        about = {"kind": "Pod", "name": "a", "namespace": "default"}
        for url in urls:
            body = {"metadata": {"name": "a"}} | ({"involvedObject": about} if url.startswith("/api/") else {})
            assert (await api.post(url.removesuffix("/a"), body)).code == 201
        api.clock.advance(3601)
        assert isinstance(api.store, MemoryStore)
        await api.store.maintain()
        assert [(await api.get(url)).code for url in urls] == [200, 404]


async def test_everything_that_is_wrong_is_reported_at_once(api: CustomApi) -> None:
    ports = [{"name": "a"}, {"name": "a"}, {"port": 2**40}]
    answer = await api.post(CRON_TABS, cron_tab("A", replicas=11, ports=ports, image=5))
    assert answer.code == 422
    assert {(each["field"], each["reason"]) for each in answer.body["details"]["causes"]} == {
        ("metadata.name", "FieldValueInvalid"),
        ("spec.image", "FieldValueTypeInvalid"),
        ("spec.replicas", "FieldValueInvalid"),
        ("spec.ports[1]", "FieldValueDuplicate"),
        ("spec.ports[2].name", "FieldValueRequired"),
        ("<nil>", "FieldValueInvalid"),
    }


@pytest.mark.req("X.1")
async def test_the_generation_counts_changes_of_everything_but_metadata_and_status(api: CustomApi) -> None:
    await api.post(CRON_TABS, cron_tab("a"))
    for body, generation in (
        ({"metadata": {"labels": {"a": "b"}}}, 1),
        ({"spec": {"image": "x"}}, 2),
        ({"status": {"replicas": 3}}, 2),
    ):
        answer = await api.patch(ONE, body)
        assert answer.body["metadata"]["generation"] == generation
        assert "status" not in answer.body, "which has a resource of its own"


@pytest.mark.req("X.1")
async def test_an_update_needs_a_version(api: CustomApi) -> None:
    await api.post(CRON_TABS, cron_tab("a"))
    answer = await api.put(ONE, cron_tab("a"))
    assert (answer.code, answer.body["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")


@pytest.mark.req("X.1")
async def test_objects_from_before_a_schema_are_read_by_it(api: CustomApi) -> None:
    await api.post(CRON_TABS, cron_tab("a", image="x"))
    body = (await api.get(CRD)).body
    properties = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    properties["color"] = {"type": "string", "default": "red"}
    del properties["image"]
    body["spec"]["versions"][0].pop("selectableFields")
    assert (await api.put(CRD, body)).code == 200
    spec = {"cronSpec": "* * * * *", "color": "red", "replicas": 1}
    assert (await api.get(ONE)).body["spec"] == spec
    assert (await api.get(CRON_TABS)).body["items"][0]["spec"] == spec
    assert (await api.patch(ONE, {"metadata": {"labels": {"a": "b"}}})).body["spec"] == spec


# -- subresources


@pytest.mark.req("X.3")
async def test_the_status_is_written_by_itself(api: CustomApi) -> None:
    await api.post(CRON_TABS, {**cron_tab("a"), "status": {"replicas": 1}})
    assert "status" not in (await api.get(ONE)).body
    changed = await api.patch(f"{ONE}/status", {"status": {"replicas": 2}, "spec": {"image": "no"}})
    assert changed.body["status"] == {"replicas": 2}
    assert changed.body["spec"]["image"] == "busybox"
    wrong = await api.patch(f"{ONE}/status", {"status": {"replicas": "x"}})
    assert wrong.body["details"]["causes"] == [
        {
            "reason": "FieldValueTypeInvalid",
            "message": 'Invalid value: "string": replicas in body must be of type integer: "string"',
            "field": "status.replicas",
        },
        {
            "reason": "FieldValueInvalid",
            "message": "Invalid value: 0: .status.replicas accessor error: x is of the type string, expected int64",
            "field": ".status.replicas",
        },
    ]


@pytest.mark.req("X.3")
async def test_a_scale_shows_and_changes_what_its_paths_say(api: CustomApi) -> None:
    await api.post(CRON_TABS, cron_tab("a", replicas=2))
    await api.patch(f"{ONE}/status", {"status": {"replicas": 1, "labelSelector": "app=a"}})
    scale = (await api.get(f"{ONE}/scale")).body
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "app=a"})
    scale["spec"]["replicas"] = 5
    assert (await api.put(f"{ONE}/scale", scale)).code == 200
    assert (await api.patch(f"{ONE}/scale", {"spec": {"replicas": 6}})).body["spec"] == {"replicas": 6}
    assert (await api.get(ONE)).body["spec"]["replicas"] == 6
    assert (await api.patch(f"{ONE}/scale", {"spec": {"replicas": 11}})).code == 422


# -- as for built-in kinds


@pytest.mark.req("X.5")
async def test_objects_are_selected_by_labels_and_selectable_fields(api: CustomApi) -> None:
    await api.post(CRON_TABS, cron_tab("a", image="x"))
    await api.post(CRON_TABS, cron_tab("b"))
    assert (await api.get(f"{CRON_TABS}?fieldSelector=spec.image=x")).names == ["a"]
    assert (await api.get(f"{CRON_TABS}?fieldSelector=spec.image!=x,metadata.name=b")).names == ["b"]
    wrong = await api.get(f"{CRON_TABS}?fieldSelector=spec.cronSpec=x")
    assert (wrong.code, wrong.message) == (400, "field label not supported: spec.cronSpec")


@pytest.mark.req("X.5")
async def test_tables_have_the_columns_of_the_definition(api: CustomApi) -> None:
    await api.post(CRON_TABS, cron_tab("a", ports=[{"name": "http", "port": 80}]))
    table = (await api.get(CRON_TABS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")).body
    assert [(each["name"], each["priority"]) for each in table["columnDefinitions"]] == [
        ("Name", 0),
        ("Spec", 0),
        ("Replicas", 0),
        ("Ports", 1),
        ("Age", 0),
    ]
    assert table["rows"][0]["cells"] == ["a", "* * * * *", 1, "http", "0s"]


@pytest.mark.req("X.5")
async def test_objects_that_stay_as_they_are_have_the_columns_of_the_changed_definition(api: CustomApi) -> None:
    await api.post(CRON_TABS, cron_tab("a"))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    assert (await api.get(CRON_TABS, accept=accept)).body["rows"][0]["cells"][:2] == ["a", "* * * * *"]
    changed = cron_tabs()
    changed["spec"]["versions"][0]["additionalPrinterColumns"] = [
        {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"}
    ]
    await api.patch(CRD, {"spec": changed["spec"]})
    assert (await api.get(CRON_TABS, accept=accept)).body["rows"][0]["cells"] == ["a", 1]


@pytest.mark.req("X.5")
async def test_lists_and_watches_name_kind_and_version_of_each_object(api: CustomApi) -> None:
    made = await api.post(CRON_TABS, cron_tab("a"))
    listed = (await api.get(CRON_TABS)).body
    assert (listed["kind"], listed["items"][0]) == ("CronTabList", made.body)
    [event] = await api.watch(f"{CRON_TABS}?resourceVersion={int(made.version) - 1}", 1)
    assert event == {"type": "ADDED", "object": made.body}


@pytest.mark.req("X.5")
async def test_apply_merges_lists_as_the_schema_says(api: CustomApi) -> None:
    def config(*ports: Any) -> Any:
        made = cron_tab("a", ports=list(ports))
        del made["spec"]["cronSpec"]
        return made

    await api.post(CRON_TABS, cron_tab("a", ports=[{"name": "a", "port": 1}]))
    applied = await api.apply(ONE, config({"name": "b", "port": 2}), manager="x")
    assert applied.body["spec"]["ports"] == [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    refused = await api.apply(ONE, config({"name": "a", "port": 3}), manager="x")
    assert (refused.code, refused.body["details"]["causes"][0]["field"]) == (409, '.spec.ports[name="a"].port')
    removed = await api.apply(ONE, config(), manager="x")
    assert removed.body["spec"]["ports"] == [{"name": "a", "port": 1}]


@pytest.mark.req("X.5")
async def test_there_is_no_strategic_merge(api: CustomApi) -> None:
    await api.post(CRON_TABS, cron_tab("a"))
    assert (await api.patch(ONE, {"spec": {"image": "x"}}, STRATEGIC)).code == 415
    patched = await api.patch(ONE, [{"op": "replace", "path": "/spec/image", "value": "x"}], JSON_PATCH)
    assert patched.body["spec"]["image"] == "x"


# -- versions


@pytest.mark.req("X.4")
async def test_versions_show_the_same_object_each_by_its_schema(api: CustomApi) -> None:
    body = (await api.get(CRD)).body
    first = body["spec"]["versions"][0]
    second = {**first, "name": "v2", "storage": False, "schema": {"openAPIV3Schema": {"type": "object"}}}
    second["schema"]["openAPIV3Schema"] |= {
        "properties": {"spec": {"type": "object", "properties": {"cronSpec": {"type": "string"}}}}
    }
    second.pop("selectableFields")
    body["spec"]["versions"].append(second)
    assert (await api.put(CRD, body)).code == 200
    await api.post(CRON_TABS, cron_tab("a"))
    newer = await api.get(ONE.replace("/v1/", "/v2/"))
    assert (newer.body["apiVersion"], newer.body["spec"]) == ("stable.example.com/v2", {"cronSpec": "* * * * *"})
    other = {**cron_tab("b"), "apiVersion": "stable.example.com/v2"}
    await api.post(CRON_TABS.replace("/v1/", "/v2/"), other)
    assert (await api.get(f"{CRON_TABS}/b")).body["spec"]["image"] == "busybox"
    assert api.scheme.versions("stable.example.com") == ("v2", "v1")


@pytest.mark.req("X.4")
async def test_versions_in_which_objects_may_be_stored_stay(api: CustomApi) -> None:
    body = (await api.get(CRD)).body
    body["spec"]["versions"][0]["name"] = "v2"
    refused = await api.put(CRD, body)
    assert "v1 was previously a storage version" in refused.message


# -- hostile


@pytest.mark.req("X.11")
@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "object", "properties": {"a": {"type": "string", "pattern": "(a+"}}}, "must be a valid regular"),
        ({"type": "object", "$ref": "#/definitions/x"}, "$ref is not supported"),
        ({"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}, "uniqueItems cannot be set"),
    ],
    ids=["a broken expression", "a reference", "a quadratic check"],
)
async def test_schemas_that_cannot_be_kept_are_refused(schema: Any, says: str) -> None:
    async with custom_api() as api:
        answer = await api.post(DEFINITIONS, definition(schema=schema))
        assert answer.code == 422
        assert says in answer.message


@pytest.mark.req("X.11")
async def test_an_expression_that_would_backtrack_takes_linear_time() -> None:
    pattern = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    async with custom_api() as api:
        await api.define(definition(schema=pattern))
        body = {**cron_tab("a"), "a": "a" * 100_000 + "b"}
        del body["spec"]
        assert (await api.post(CRON_TABS, body)).code == 422


@pytest.mark.req("X.11")
async def test_a_schema_as_deep_as_json_may_be_is_kept() -> None:
    schema: Any = {"type": "string"}
    value: Any = "x"
    for _ in range(60):
        schema = {"type": "object", "properties": {"a": schema}}
        value = {"a": value}
    async with custom_api() as api:
        await api.define(definition(schema=schema))
        made = await api.post(CRON_TABS, {**cron_tab("a"), **value})
        assert made.code == 201, made.message
        assert made.body["a"] == value["a"]


@pytest.mark.req("X.11")
async def test_a_huge_enumeration_is_looked_up_not_searched() -> None:
    values = [f"value-{number}" for number in range(50_000)]
    async with custom_api() as api:
        schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string", "enum": values}}}}
        assert len(str(schema)) < MAX_BYTES
        await api.define(definition(schema=schema))
        body = {**cron_tab("a"), "a": values}
        del body["spec"]
        assert (await api.post(CRON_TABS, body)).code == 201


@pytest.mark.req("X.2", "X.11")
async def test_more_rules_than_a_request_may_have_compiled_are_refused_soon() -> None:
    rules = [{"rule": f"self.a != 'text number {number}'"} for number in range(20_000)]
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 9}},
        "x-kubernetes-validations": rules,
    }
    async with custom_api() as api:
        answer = await api.post(DEFINITIONS, definition(schema=schema))
        assert answer.code == 422
        assert "takes too long to validate" in answer.message


@pytest.mark.req("X.11")
async def test_large_definitions_are_validated_beside_the_work_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    validated_in: list[threading.Thread] = []
    errors = SchemaValidator.validate_schema

    def noted(*words: Any, **more: Any) -> Any:
        validated_in.append(threading.current_thread())
        return errors(*words, **more)

    monkeypatch.setattr(SchemaValidator, "validate_schema", noted)
    fields = {f"field{number}": {"type": "string", "description": "x" * 50} for number in range(1000)}
    async with custom_api() as api:
        await api.define(definition(schema={"type": "object", "properties": fields}))
        await api.patch(CRD, {"metadata": {"labels": {"a": "b"}}})
        wrong = definition("others", "Other", schema={"type": "objekt", "properties": fields})
        refused = await api.post(DEFINITIONS, wrong)
        assert (refused.code, "Unsupported value" in refused.message) == (422, True)
        assert threading.main_thread() not in validated_in
        assert len(validated_in) == 3
        await api.define(definition("small", "Small"))
        assert validated_in[3:] == [threading.main_thread()]


@pytest.mark.req("X.5")
async def test_clients_of_a_deprecated_version_are_warned_which_to_use() -> None:
    made = definition(deprecated=True)
    second = {**made["spec"]["versions"][0], "name": "v2", "storage": False, "deprecated": False}
    made["spec"]["versions"].append(second)
    async with custom_api() as api:
        await api.define(made)
        answer = await api.post(CRON_TABS, cron_tab("a"))
        assert answer.warnings == ["stable.example.com/v1 CronTab is deprecated; use stable.example.com/v2 CronTab"]


@pytest.mark.req("X.2")
async def test_rules_that_cost_more_than_an_object_may_stop() -> None:
    rule = {"rule": "self.all(x, self.all(y, x == y || x != y))"}
    items = {"type": "array", "maxItems": 500, "items": {"type": "string", "maxLength": 5}}
    schema = {
        "type": "object",
        "properties": {name: {**items, "x-kubernetes-validations": [rule]} for name in "abcdefgh"},
    }
    async with custom_api() as api:
        await api.define(definition(schema=schema))
        few = {**cron_tab("few"), **{name: ["x"] * 5 for name in "abcdefgh"}}
        assert (await api.post(CRON_TABS, few)).code == 201
        many = {**cron_tab("many"), **{name: ["x"] * 500 for name in "abcdefgh"}}
        answer = await api.post(CRON_TABS, many)
        assert answer.code == 422
        assert "cost" in answer.message
