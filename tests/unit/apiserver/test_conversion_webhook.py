"""Custom objects in versions that a webhook converts, honest or not."""

import copy
from pathlib import Path
from typing import Any

import pytest

from api_caller import no_addresses
from conversion_webhook import Answer, conversion_webhook, converting
from custom_api import CRON_TABS, DEFINITIONS, CustomApi, cron_tab, custom_api, definition
from mooring.apiserver.extension.webhooks.caller import WebhookCaller
from mooring.apiserver.extension.webhooks.failures import WebhookError

Tree = dict[str, Any]
NEWER = CRON_TABS.replace("/v1/", "/v2/")
TEXTS = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"cronSpec": {"type": "string"}}}}}
PARTS = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "minute": {"type": "string"},
                "rest": {"type": "string"},
                "zone": {"type": "string", "default": "UTC"},
            },
        }
    },
}


def convert(obj: Tree, version: str) -> Tree:
    """`cronSpec` of v1 is `minute` and `rest` in v2."""
    made = copy.deepcopy(obj)
    made["apiVersion"] = version
    spec = made["spec"]
    if version.endswith("/v2"):
        minute, _, rest = spec.pop("cronSpec").partition(" ")
        made["spec"] = {"minute": minute, "rest": rest}
    else:
        made["spec"] = {"cronSpec": f"{spec['minute']} {spec['rest']}"}
    return made


async def with_versions(api: CustomApi, config: Tree) -> None:
    """CronTab in two versions, stored as v1."""
    made = definition(schema=TEXTS)
    second = {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": PARTS}}
    made["spec"]["versions"][0]["selectableFields"] = [{"jsonPath": ".spec.cronSpec"}]
    second["selectableFields"] = [{"jsonPath": ".spec.minute"}, {"jsonPath": ".spec.rest"}]
    made["spec"]["versions"].append({**second, "subresources": {}})
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": config}
    made["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    await api.define(made)


@pytest.mark.req("X.4")
async def test_objects_are_read_and_written_in_every_version(tmp_path: Path) -> None:
    async with conversion_webhook(tmp_path, converting(convert)) as config, custom_api() as api:
        await with_versions(api, config)
        first = await api.post(CRON_TABS, cron_tab("a"))
        assert first.code == 201, first.message
        newer = await api.get(f"{NEWER}/a")
        assert newer.body["spec"] == {"minute": "*", "rest": "* * * *", "zone": "UTC"}
        assert newer.body["metadata"]["uid"] == first.body["metadata"]["uid"]
        body = {"apiVersion": "stable.example.com/v2", "kind": "CronTab", "metadata": {"name": "b"}}
        made = await api.post(NEWER, {**body, "spec": {"minute": "5", "rest": "0 * * *"}})
        assert made.code == 201, made.message
        assert made.body["spec"]["minute"] == "5"
        assert (await api.get(f"{CRON_TABS}/b")).body["spec"] == {"cronSpec": "5 0 * * *"}
        assert [each["spec"]["minute"] for each in (await api.get(NEWER)).body["items"]] == ["*", "5"]
        changed = await api.patch(f"{NEWER}/a", {"spec": {"minute": "7"}})
        assert changed.body["spec"]["minute"] == "7"
        events = await api.watch(f"{NEWER}?resourceVersion={int(first.version) - 1}", 3)
        assert [event["object"]["spec"]["minute"] for event in events] == ["*", "5", "7"]
        assert (await api.delete(f"{NEWER}/a")).code == 200


@pytest.mark.req("X.4", "X.5")
async def test_fields_are_selected_in_the_version_that_is_asked_for(tmp_path: Path) -> None:
    async with conversion_webhook(tmp_path, converting(convert)) as config, custom_api() as api:
        await with_versions(api, config)
        first = await api.post(CRON_TABS, cron_tab("a", cronSpec="5 0 * * *"))
        await api.post(CRON_TABS, cron_tab("b", cronSpec="7 0 * * *"))
        await api.post(CRON_TABS, cron_tab("c", cronSpec="5 1 * * *"))
        assert (await api.get(f"{CRON_TABS}?fieldSelector=spec.cronSpec=5 0 * * *")).names == ["a"]
        assert (await api.get(f"{NEWER}?fieldSelector=spec.minute=5")).names == ["a", "c"]
        assert (await api.get(f"{NEWER}?fieldSelector=spec.minute=5&limit=1")).names == ["a"]
        assert (await api.get(f"{NEWER}?fieldSelector=metadata.name=c,spec.minute=5")).names == ["c"]
        assert (await api.get(f"{NEWER}?fieldSelector=metadata.name=b,spec.minute=5")).names == []
        events = await api.watch(f"{NEWER}?fieldSelector=spec.minute=5&resourceVersion={int(first.version) - 1}", 2)
        assert [event["object"]["metadata"]["name"] for event in events] == ["a", "c"]
        await api.delete(f"{NEWER}?fieldSelector=spec.minute=5")
        assert (await api.get(CRON_TABS)).names == ["b"]


def lying(change: Any) -> Answer:
    """Return an answer that was changed."""

    def answer(review: Tree) -> Any:
        given = converting(convert)(review)
        return change(given) or given

    return answer


def other(**metadata: Any) -> Any:
    return lambda given: given["response"]["convertedObjects"][0]["metadata"].update(metadata)


LIES: dict[str, tuple[Any, str]] = {
    "no objects": (lambda given: given["response"].update(convertedObjects=[]), "returned 0 objects, expected 1"),
    "another uid": (lambda given: given["response"].update(uid="x"), 'got "x"'),
    "a failure": (
        lambda given: given["response"].update(result={"status": "Failed", "message": "I cannot"}),
        "Kind=CronTab failed: I cannot",
    ),
    "another version": (
        lambda given: given["response"]["convertedObjects"][0].update(apiVersion="stable.example.com/v1"),
        "invalid groupVersion (expected stable.example.com/v2, received stable.example.com/v1)",
    ),
    "another name": (other(name="x"), "must have the same name: a != x"),
    "labels that are none": (other(labels={"a": 1}), "metadata.labels must be texts"),
    "no JSON": (lambda _: b"{", "invalid JSON"),
    "something else": (lambda _: b"[]", "no response provided"),
}


@pytest.mark.req("X.4", "X.11")
@pytest.mark.parametrize("lie", LIES)
async def test_a_webhook_that_lies_is_not_believed(tmp_path: Path, lie: str) -> None:
    change, says = LIES[lie]
    async with conversion_webhook(tmp_path, lying(change)) as config, custom_api() as api:
        await with_versions(api, config)
        await api.post(CRON_TABS, cron_tab("a"))
        for url in (f"{NEWER}/a", NEWER):
            answer = await api.get(url)
            assert (answer.code, answer.reason) == (500, "InternalError")
            assert says in answer.message
        assert (await api.get(f"{CRON_TABS}/a")).code == 200, "what is stored is not touched"


@pytest.mark.req("X.4")
async def test_metadata_that_the_webhook_changed_is_restored(tmp_path: Path) -> None:
    change = other(generation=99, finalizers=["x/y"], labels={"a": "b"})
    async with conversion_webhook(tmp_path, lying(change)) as config, custom_api() as api:
        await with_versions(api, config)
        await api.post(CRON_TABS, cron_tab("a"))
        metadata = (await api.get(f"{NEWER}/a")).body["metadata"]
        assert (metadata["generation"], metadata["labels"]) == (1, {"a": "b"})
        assert "finalizers" not in metadata


@pytest.mark.req("X.4", "X.11")
async def test_a_webhook_that_is_not_there_is_reported() -> None:
    async with custom_api() as api:
        await with_versions(api, {"service": {"name": "x", "namespace": "y"}})
        await api.post(CRON_TABS, cron_tab("a"))
        answer = await api.get(f"{NEWER}/a")
        assert 'no endpoints available for service "x"' in answer.message
        assert (await api.get(f"{DEFINITIONS}/crontabs.stable.example.com")).code == 200


@pytest.mark.req("X.11")
async def test_who_is_not_trusted_is_not_asked(tmp_path: Path) -> None:
    async with conversion_webhook(tmp_path, converting(convert)) as config:
        from mooring.api.apiextensions_v1 import WebhookClientConfig

        caller = WebhookCaller(no_addresses)
        with pytest.raises(WebhookError, match="certificate signed by unknown authority"):
            await caller.call(WebhookClientConfig(url=config["url"]), b"{}", seconds=5)
        await caller.close()
