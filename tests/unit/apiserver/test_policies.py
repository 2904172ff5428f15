"""Policies at work in a server: updates, deletions, the audit log, custom kinds, rights, and what is hostile.

What policies make of plain requests is in the recordings (``tests/conformance/test_policies.py``).
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from app_calls import ADMIN, Caller, running
from custom_api import CRON_TABS, DEFINITIONS, definition
from policy_objects import CONFIG_MAPS, GROUP, config_map, create, mutating, rules, validating

pytestmark = pytest.mark.req("X.7", "X.8", "X.11")
Story = Callable[[Caller], Awaitable[None]]


def played(tmp_path: Path, story: Story, **config: Any) -> None:
    async def play() -> None:
        async with running(tmp_path, **config) as server:
            await story(Caller(server.app, ADMIN))

    asyncio.run(play())


def test_an_update_is_evaluated_with_the_old_object(tmp_path: Path) -> None:
    async def story(call: Caller) -> None:
        policy = validating("frozen", "oldObject == null || object.data.color == oldObject.data.color")
        await create(call, *policy, config_map(color="red"))
        changed = await call("PUT", f"{CONFIG_MAPS}/x", config_map(color="blue"))
        assert (changed.status, "frozen" in changed.message) == (422, True)
        assert (await call("PUT", f"{CONFIG_MAPS}/x", config_map(color="red", size="1"))).status == 200

    played(tmp_path, story)


def test_many_new_policies_keep_no_client_waiting_while_they_are_compiled(tmp_path: Path) -> None:
    async def story(call: Caller) -> None:
        for number in range(60):
            await create(call, *validating(f"p{number}", "object.metadata.name != 'y'"))
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        working = asyncio.create_task(others())
        await create(call, config_map("x"))
        first, turns = turns, 0
        await create(call, config_map("z"))
        working.cancel()
        assert first >= turns + 3, "one turn for every twenty policies"

    played(tmp_path, story)


def test_a_deletion_is_evaluated_with_the_old_object(tmp_path: Path) -> None:
    async def story(call: Caller) -> None:
        policy = validating(
            "keep", "object == null && oldObject.data.keep != 'yes'", matchConstraints=rules("configmaps", "DELETE")
        )
        await create(call, *policy, config_map("a", keep="yes"), config_map("b", keep="no"))
        assert (await call("DELETE", f"{CONFIG_MAPS}/a")).status == 422
        assert (await call("DELETE", f"{CONFIG_MAPS}/b")).status == 200

    played(tmp_path, story)


def test_a_policy_counts_until_it_or_its_binding_is_gone(tmp_path: Path) -> None:
    async def story(call: Caller) -> None:
        await create(call, *validating("no", "false"))
        assert (await create(call, config_map("a"))).status == 422
        await call("DELETE", f"{GROUP}/validatingadmissionpolicybindings/no")
        assert (await create(call, config_map("a"))).status == 201

    played(tmp_path, story)


def test_parameters_that_vanish_deny_and_come_back(tmp_path: Path) -> None:
    async def story(call: Caller) -> None:
        policy = validating(
            "limit",
            "object.data.color != params.data.color",
            paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
            paramRef={"name": "limit", "namespace": "default", "parameterNotFoundAction": "Deny"},
        )
        await create(call, config_map("limit", color="red"), *policy)
        assert (await create(call, config_map("a", color="blue"))).status == 201
        assert (await create(call, config_map("b", color="red"))).status == 422
        await call("DELETE", f"{CONFIG_MAPS}/limit")
        assert "no params found" in (await create(call, config_map("b", color="red"))).message

    played(tmp_path, story)


def test_the_audit_log_has_failures_and_annotations(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"

    async def story(call: Caller) -> None:
        annotations = [{"key": "color", "valueExpression": "string(object.data.color)"}]
        policy = validating("seen", "object.data.color != 'red'", actions=("Audit",), auditAnnotations=annotations)
        assert (await create(call, *policy, config_map(color="red"))).status == 201

    played(tmp_path / "data", story, audit_log=log)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    [event] = [each for each in events if each["objectRef"]["resource"] == "configmaps" and each["verb"] == "create"]
    assert event["annotations"]["seen/color"] == "red"
    [failure] = json.loads(event["annotations"]["validation.policy.admission.k8s.io/validation_failure"])
    assert failure == {
        "message": "failed expression: object.data.color != 'red'",
        "policy": "seen",
        "binding": "seen",
        "expressionIndex": 0,
        "validationActions": ["Audit"],
    }


def test_custom_kinds_are_evaluated_and_changed(tmp_path: Path) -> None:
    async def story(call: Caller) -> None:
        assert (await call("POST", DEFINITIONS, definition())).status == 201
        where = rules("crontabs", group="stable.example.com")
        await create(call, *validating("few", "object.spec.replicas < 5", matchConstraints=where))
        change = "Object{metadata: Object.metadata{labels: {'size': string(object.spec.replicas)}}}"
        await create(call, *mutating("label", change, matchConstraints=where))
        tab = {"apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": "w"}}
        assert "few" in (await call("POST", CRON_TABS, {**tab, "spec": {"cronSpec": "x", "replicas": 7}})).message
        made = await call("POST", CRON_TABS, {**tab, "spec": {"cronSpec": "x", "replicas": 3}})
        assert made.json["metadata"]["labels"] == {"size": "3"}

    played(tmp_path, story)


def test_policies_that_wish_it_see_what_others_have_changed(tmp_path: Path) -> None:
    async def story(call: Caller) -> None:
        count = "string(int(object.?data.?count.orValue('0')) + 1)"
        again = f"Object{{data: {{'count': {count}}}}}"
        later = "Object{data: {'later': 'yes'}}"
        await create(call, *mutating("a", again, reinvocationPolicy="IfNeeded"), *mutating("b", later))
        made = await create(call, config_map("x"))
        assert made.json["data"] == {"count": "2", "later": "yes"}

    played(tmp_path, story)


def test_no_policy_can_lock_its_author_out_of_policies(tmp_path: Path) -> None:
    async def story(call: Caller) -> None:
        everything = {
            "resourceRules": [
                {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]},
            ]
        }
        await create(call, *validating("no", "false", matchConstraints=everything))
        assert (await create(call, config_map("a"))).status == 422
        assert (await create(call, *validating("other", "true"))).status == 201
        assert (await call("DELETE", f"{GROUP}/validatingadmissionpolicies/no")).status == 200
        assert (await create(call, config_map("a"))).status == 201

    played(tmp_path, story)


def test_a_policy_that_costs_more_than_all_its_expressions_may_is_bounded(tmp_path: Path) -> None:
    async def story(call: Caller) -> None:
        costly = "authorizer.path('/a').check('get').allowed() && authorizer.path('/b').check('get').allowed()"
        policy, binding = validating("costly", *[costly] * 20)
        refused = await create(call, policy, binding, config_map("a"))
        assert "running out of cost budget, no further validation rules will be run" in refused.message
        await call("DELETE", f"{GROUP}/validatingadmissionpolicies/costly")
        loop = "".join(f"object.data.all({each}, " for each in "abcdef") + "true))))))"
        await create(call, *validating("loop", loop))
        many = config_map("big", **{f"k{number}": "v" for number in range(400)})
        answer = await call("POST", CONFIG_MAPS, many)
        assert (answer.status, "actual cost limit exceeded" in answer.message) == (422, True)

    played(tmp_path, story)


def test_policies_for_other_kinds_are_not_asked(tmp_path: Path) -> None:
    async def story(call: Caller) -> None:
        for number in range(100):
            await create(call, *validating(f"p{number}", "false", matchConstraints=rules("secrets")))
        assert (await create(call, config_map("a"))).status == 201

    played(tmp_path, story)
