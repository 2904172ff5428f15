"""What admission webhooks may do to requests, and what they may not. What they are sent is in the recordings."""

import asyncio
import json
from typing import Any

import pytest

from api_caller import CONFIG_MAPS, DEPLOYMENTS, PODS, config_map, pod
from asked_webhooks import EVERYTHING, GROUP, WebhookApi, hook, webhook_api
from custom_api import CRON_TABS, cron_tab, cron_tabs
from mooring.api import codec
from mooring.api.admissionregistration_v1 import ValidatingWebhookConfiguration
from mooring.store.kv import Put
from scripted_webhook import Tree, add, patches, review, says

pytestmark = pytest.mark.req("X.9")


def deployment() -> Tree:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
RESULT = "/status/allocation/devices/results/0"


def only(*resources: str, group: str = "", operations: tuple[str, ...] = ("*",)) -> dict[str, Any]:
    rule = {**EVERYTHING, "apiGroups": [group], "resources": [*resources], "operations": [*operations]}
    return {"rules": [rule]}


async def test_what_a_patch_leaves_out_gets_its_default() -> None:
    async with webhook_api() as api:
        api.answers["/sidecar"] = patches(add("/spec/containers/-", {"name": "sidecar", "image": "s"}))
        await api.configure("Mutating", hook("sidecar.example.com", **only("pods")))
        made = (await api.post(PODS, pod())).body
        sidecar = made["spec"]["containers"][1]
        assert (sidecar["imagePullPolicy"], sidecar["terminationMessagePath"]) == ("Always", "/dev/termination-log")


async def test_what_is_built_in_looks_again_at_a_patched_object() -> None:
    async with webhook_api() as api:
        high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
        await api.post("/apis/scheduling.k8s.io/v1/priorityclasses", high)
        seconds = {"op": "add", "path": "/spec/tolerations", "value": []}
        api.answers["/clear"] = patches(seconds)
        await api.configure("Mutating", hook("clear.example.com", **only("pods")))
        made = (await api.post(PODS, pod(priorityClassName="high"))).body
        assert made["spec"]["priority"] == 9
        assert [each["key"] for each in made["spec"]["tolerations"]] == [
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
        ]


async def test_a_patched_custom_object_is_pruned_and_defaulted_by_its_schema() -> None:
    async with webhook_api() as api:
        await api.define(cron_tabs())
        api.answers["/fill"] = patches(add("/spec/image", "patched"), add("/spec/unknown", 1))
        await api.configure("Mutating", hook("fill.example.com", **only("crontabs", group="stable.example.com")))
        made = (await api.post(CRON_TABS, cron_tab("a"))).body
        assert made["spec"]["image"] == "patched"
        assert "unknown" not in made["spec"]
        assert made["spec"]["replicas"] == 1


async def test_a_custom_object_can_be_refused_when_it_is_made_changed_and_deleted() -> None:
    async with webhook_api() as api:
        await api.define(cron_tabs())
        await api.post(CRON_TABS, cron_tab("a"))
        await api.configure("Validating", hook("deny-message.example.com", **only("crontabs", group="*")))
        answers = [
            await api.post(CRON_TABS, cron_tab("b")),
            await api.patch(f"{CRON_TABS}/a", {"spec": {"replicas": 2}}),
            await api.delete(f"{CRON_TABS}/a"),
        ]
        assert [answer.code for answer in answers] == [400, 400, 400]
        assert [asked["operation"] for asked in api.asked] == ["CREATE", "UPDATE", "DELETE"]


async def test_a_scale_can_be_changed_through_what_a_webhook_sees_of_it() -> None:
    async with webhook_api() as api:
        await api.post(DEPLOYMENTS, deployment())
        api.answers["/cap"] = patches({"op": "replace", "path": "/spec/replicas", "value": 5})
        await api.configure("Mutating", hook("cap.example.com", **only("deployments/scale", group="apps")))
        scaled = (await api.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 50}})).body
        assert scaled["spec"]["replicas"] == 5
        assert (await api.get(f"{DEPLOYMENTS}/web")).body["spec"]["replicas"] == 5
        assert api.asked[0]["object"]["kind"] == "Scale"


async def test_each_of_many_bindings_is_reviewed_by_itself() -> None:
    async with webhook_api() as api:
        for name in ("a", "b"):
            await api.post(PODS, pod(name))

        def not_a(asked: Tree) -> Tree:
            return review(asked, {"allowed": asked["request"]["name"] != "a"})

        api.answers["/bind"] = not_a
        await api.configure("Validating", hook("bind.example.com", **only("pods/binding")))
        target = {"kind": "Node", "name": "n"}
        rows = [{"name": name} for name in ("a", "b")]
        write = {"method": "POST", "path": PODS, "subresource": "binding", "body": {"target": target}, "rows": rows}
        many = await api.post("/writes", {"items": [write]})
        assert [each["body"]["status"] for each in many.body["items"]] == ["Failure", "Success"]
        assert "nodeName" not in (await api.get(f"{PODS}/a")).body["spec"]


async def test_no_webhook_is_called_about_configurations_and_policies() -> None:
    async with webhook_api() as api:
        await api.configure("Validating", hook("deny-message.example.com", rules=[EVERYTHING]))
        await api.configure("Mutating", hook("deny-message.example.com", rules=[EVERYTHING]))
        assert (await api.delete(f"{GROUP}/mutatingwebhookconfigurations/hooks")).code == 200
        assert (await api.delete(f"{GROUP}/validatingwebhookconfigurations/hooks")).code == 200
        assert api.asked == []
        assert (await api.post(CONFIG_MAPS, config_map())).code == 201


async def test_a_webhook_with_side_effects_is_not_asked_on_dry_run() -> None:
    async with webhook_api() as api:
        made = await api.configure("Validating", hook("allow.example.com"))
        stored = codec.decode(made.text, ValidatingWebhookConfiguration).object
        stored.webhooks[0].side_effects = "Some"  # as older releases allowed
        stored.metadata.resource_version = ""
        await api.store.write(Put("/registry/validatingwebhookconfigurations/hooks", codec.encode(stored)))
        await api.step.catch_up()
        answer = await api.post(f"{CONFIG_MAPS}?dryRun=All", config_map())
        assert (answer.code, answer.message) == (
            400,
            'admission webhook "allow.example.com" does not support dry run',
        )
        assert (await api.post(CONFIG_MAPS, config_map())).code == 201


async def test_a_request_that_waits_for_a_slow_webhook_delays_no_other() -> None:
    async with webhook_api() as api:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slow(asked: Tree) -> Tree:
            begun.set()
            await go_on.wait()
            return review(asked, {"allowed": True})

        api.answers["/slow-one"] = slow
        await api.configure("Validating", hook("slow-one.example.com", objectSelector={"matchLabels": {"slow": "yes"}}))
        waiting = asyncio.create_task(api.post(CONFIG_MAPS, config_map("slow", {"slow": "yes"})))
        await begun.wait()
        assert (await api.post(CONFIG_MAPS, config_map("quick"))).code == 201
        assert (await api.get(CONFIG_MAPS)).names == ["quick"]
        go_on.set()
        assert (await waiting).code == 201


async def test_an_object_that_changes_while_a_webhook_thinks_is_looked_at_again() -> None:
    async with webhook_api() as api:
        await api.post(CONFIG_MAPS, config_map("x"))

        async def meddle(asked: Tree) -> Tree:
            if len(api.asked) == 1:
                await api.patch(f"{CONFIG_MAPS}/x", {"data": {"other": "writer"}})
            return review(asked, {"allowed": True})

        api.answers["/meddle"] = meddle
        condition = [{"name": "mine", "expression": "'mine' in object.data"}]
        await api.configure("Validating", hook("meddle.example.com", matchConditions=condition))
        changed = await api.patch(f"{CONFIG_MAPS}/x", {"data": {"mine": "1"}})
        assert changed.body["data"] == {"mine": "1", "other": "writer"}
        assert [sorted(asked["object"]["data"]) for asked in api.asked] == [["mine"], ["mine", "other"]]


async def test_a_webhook_may_call_back() -> None:
    async with webhook_api() as api:

        async def calling_back(asked: Tree) -> Tree:
            if asked["request"]["name"] == "outer":
                assert (await api.post(CONFIG_MAPS, config_map("inner"))).code == 201
            return review(asked, {"allowed": True})

        api.answers["/call-back"] = calling_back
        await api.configure("Mutating", hook("call-back.example.com"))
        assert (await api.post(CONFIG_MAPS, config_map("outer"))).code == 201
        assert [asked["name"] for asked in api.asked] == ["outer", "inner"]


async def test_a_patch_of_a_deletion_is_a_mistake() -> None:
    async with webhook_api() as api:
        await api.post(CONFIG_MAPS, config_map("x"))
        await api.configure("Mutating", hook("patch-label.example.com"))
        answer = await api.delete(f"{CONFIG_MAPS}/x")
        assert answer.message == (
            'Internal error occurred: admission webhook "patch-label.example.com" attempted to modify the object, '
            "which is not supported for this operation"
        )


async def test_a_change_of_a_mutating_webhook_is_seen_by_validating_webhooks() -> None:
    async with webhook_api() as api:

        def needs_owner(asked: Tree) -> Tree:
            return review(asked, {"allowed": "owner" in asked["request"]["object"]["metadata"].get("labels", {})})

        api.answers["/owned"] = needs_owner
        api.answers["/own"] = patches(add("/metadata/labels", {"owner": "me"}))
        await api.configure("Validating", hook("owned.example.com"))
        assert (await api.post(CONFIG_MAPS, config_map("a"))).code == 400
        await api.configure("Mutating", hook("own.example.com"))
        assert (await api.post(CONFIG_MAPS, config_map("a"))).code == 201


async def test_all_validating_webhooks_are_called_at_once_and_the_first_refusal_is_reported() -> None:
    async with webhook_api() as api:
        both = asyncio.Barrier(2)

        def meeting(text: str) -> Any:
            async def answer(asked: Tree) -> Tree:
                async with asyncio.timeout(20):
                    await both.wait()
                return review(asked, {"allowed": False, "status": {"message": text}})

            return answer

        api.answers.update({"/one": meeting("first"), "/two": meeting("second")})
        await api.configure("Validating", hook("one.example.com"), hook("two.example.com"))
        answer = await api.post(CONFIG_MAPS, config_map())
        assert answer.message == 'admission webhook "one.example.com" denied the request: first'


async def test_what_goes_into_the_audit_log() -> None:
    async with webhook_api() as api:
        api.answers["/note"] = says(allowed=True, auditAnnotations={"seen": "yes"})
        api.answers["/broken"] = lambda _: {"kind": "AdmissionReview"}
        patching = hook("patch-label.example.com")
        await api.configure("Mutating", patching, hook("broken.example.com", failurePolicy="Ignore"))
        await api.configure("Validating", hook("note.example.com"), hook("broken.example.com", failurePolicy="Ignore"))
        noted = await _annotations(api, config_map("x", {"a": "b"}))
        mutated = {"configuration": "hooks", "webhook": "patch-label.example.com", "mutated": True}
        assert json.loads(noted.pop("mutation.webhook.admission.k8s.io/round_0_index_0")) == mutated
        assert noted == {
            "failed-open.mutation.webhook.admission.k8s.io/round_0_index_1": "broken.example.com",
            "mutation.webhook.admission.k8s.io/round_0_index_1": (
                '{"configuration":"hooks","webhook":"broken.example.com","mutated":false}'
            ),
            "failed-open.validating.webhook.admission.k8s.io/round_0_index_1": "broken.example.com",
            "note.example.com/seen": "yes",
        }


async def _annotations(api: WebhookApi, body: Tree) -> dict[str, str]:
    from mooring.apiserver.messages.http import Request
    from mooring.apiserver.messages.routes import resolve

    request = Request(method="POST", path=CONFIG_MAPS, body=json.dumps(body).encode(), user=api.user)
    route = resolve(api.scheme, CONFIG_MAPS)
    assert route is not None
    await api.resources.handle(request, route)
    return request.audit_annotations
