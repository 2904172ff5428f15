"""No user gains rights that were not granted: by labels, by spellings, or by cached decisions."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from app_calls import Caller
from attack_users import APPLY, BINDINGS, MERGE, RBAC, ROLES, binding, rule, user_with

pytestmark = pytest.mark.req("S.6")
WRITE_ROLES = rule("get create update patch", "clusterroles clusterrolebindings", RBAC)
READ_PODS = rule("get", "pods")
READ_SECRETS = rule("get", "secrets")


@dataclass(frozen=True)
class Escalation:
    """A change of a ClusterRole that would give its author what they do not have."""

    about: str
    role: str
    patch: dict[str, Any]
    made: list[dict[str, Any]] = field(default_factory=list)


GATHER = {"clusterRoleSelectors": [{"matchLabels": {"gather": "yes"}}]}
ESCALATIONS = [
    Escalation(
        "a label that the role `view` gathers",
        "cluster-admin",
        {"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}},
    ),
    Escalation(
        "a label that a role of the attacker gathers",
        "cluster-admin",
        {"metadata": {"labels": {"gather": "yes"}}},
        [{"metadata": {"name": "mine"}, "rules": [READ_PODS], "aggregationRule": GATHER}],
    ),
    Escalation(
        "a rule that gathers by labels",
        "mine",
        {"aggregationRule": GATHER},
        [{"metadata": {"name": "mine"}, "rules": [READ_PODS]}],
    ),
    Escalation(
        "a rule that gathers everything",
        "mine",
        {"aggregationRule": {"clusterRoleSelectors": [{}]}},
        [{"metadata": {"name": "mine"}, "rules": [READ_PODS]}],
    ),
    Escalation(
        "a rule that the author lacks",
        "mine",
        {"rules": [READ_PODS, READ_SECRETS]},
        [{"metadata": {"name": "mine"}, "rules": [READ_PODS]}],
    ),
    Escalation(
        "an annotation on a role that has more than the author",
        "cluster-admin",
        {"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}},
    ),
]


@pytest.mark.parametrize("case", ESCALATIONS, ids=lambda case: case.about)
async def test_a_change_of_a_role_grants_nothing_that_its_author_lacks(call: Caller, case: Escalation) -> None:
    for role in case.made:
        assert (await call("POST", ROLES, role)).status == 201
    mallory = await user_with(call, WRITE_ROLES, READ_PODS)
    answer = await mallory("PATCH", f"{ROLES}/{case.role}", case.patch, content_type=MERGE)
    assert answer.status == 403, answer.message
    old = (await call("GET", f"{ROLES}/{case.role}")).json
    replaced = old | {name: value for name, value in case.patch.items() if name != "metadata"}
    replaced["metadata"] = old["metadata"] | case.patch.get("metadata", {})
    assert (await mallory("PUT", f"{ROLES}/{case.role}", replaced)).status == 403
    whole = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": case.role}}
    applied = {**whole, **case.patch, "metadata": whole["metadata"] | case.patch.get("metadata", {})}
    path = f"{ROLES}/{case.role}?fieldManager=m&force=true"
    assert (await mallory("PATCH", path, applied, content_type=APPLY)).status == 403


async def test_what_grants_nothing_may_be_changed(call: Caller) -> None:
    """Garbage collection writes owners and finalizers of roles that have more than it has."""
    mallory = await user_with(call, WRITE_ROLES, READ_PODS)
    assert (await call("POST", ROLES, {"metadata": {"name": "mine"}, "rules": [READ_PODS]})).status == 201
    labelled = {"metadata": {"labels": {"gather": "yes"}}}
    assert (await mallory("PATCH", f"{ROLES}/mine", labelled, content_type=MERGE)).status == 200
    finalizers = {"metadata": {"finalizers": ["example.com/later"]}}
    assert (await mallory("PATCH", f"{ROLES}/cluster-admin", finalizers, content_type=MERGE)).status == 200


async def test_a_binding_of_more_than_one_has_stays_as_it_is(call: Caller) -> None:
    mallory = await user_with(call, WRITE_ROLES, READ_PODS)
    assert (await call("POST", BINDINGS, binding("boss", "cluster-admin", "ann"))).status == 201
    subjects = {"subjects": binding("", "", "mallory")["subjects"]}
    assert (await mallory("PATCH", f"{BINDINGS}/boss", subjects, content_type=MERGE)).status == 403
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert (await mallory("PATCH", f"{BINDINGS}/boss", labels, content_type=MERGE)).status == 403


LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
SECRETS = "/api/v1/namespaces/default/secrets"


@dataclass(frozen=True)
class Creation:
    """A way to make an object with a verb that is not `create`."""

    about: str
    right: dict[str, Any]
    method: str
    path: str
    body: dict[str, Any]
    content_type: str = "application/json"


CREATIONS = [
    Creation(
        "server-side apply",
        rule("patch", "secrets"),
        "PATCH",
        f"{SECRETS}/s?fieldManager=m",
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}},
        APPLY,
    ),
    Creation(
        "a dry run of server-side apply",
        rule("patch", "secrets"),
        "PATCH",
        f"{SECRETS}/s?fieldManager=m&dryRun=All",
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}},
        APPLY,
    ),
    Creation(
        "PUT of a Lease",
        rule("update", "leases", "coordination.k8s.io"),
        "PUT",
        f"{LEASES}/kube-scheduler",
        {"metadata": {"name": "kube-scheduler"}},
    ),
    Creation(
        "PUT of a ClusterRole",
        rule("update", "clusterroles", RBAC),
        "PUT",
        f"{ROLES}/new",
        {"metadata": {"name": "new"}},
    ),
    Creation(
        "PUT of an Event",
        rule("update", "events"),
        "PUT",
        "/api/v1/namespaces/default/events/e",
        {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}},
    ),
]


@pytest.mark.parametrize("case", CREATIONS, ids=lambda case: case.about)
async def test_nothing_is_created_without_the_right_to_create(call: Caller, case: Creation) -> None:
    mallory = await user_with(call, case.right)
    answer = await mallory(case.method, case.path, case.body, content_type=case.content_type)
    assert answer.status == 403, answer.body
    assert 'User "mallory" cannot create resource' in answer.message
    assert (await call("GET", case.path.partition("?")[0])).status == 404
    creator = await user_with(call, case.right, {**case.right, "verbs": ["create"]}, name="ann")
    assert (await creator(case.method, case.path, case.body, content_type=case.content_type)).status == 201


async def test_the_right_to_create_may_be_limited_to_a_name(call: Caller) -> None:
    ann = await user_with(call, rule("patch", "secrets"), rule("create", "secrets", names="mine"), name="ann")

    async def apply(name: str) -> int:
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        return (await ann("PATCH", f"{SECRETS}/{name}?fieldManager=m", body, content_type=APPLY)).status

    assert [await apply("mine"), await apply("other")] == [201, 403]


async def test_a_question_about_an_odd_name_does_not_change_later_answers(call: Caller) -> None:
    """`pods/status` asked for as a resource is none, and must not be remembered as the part of a pod."""
    mallory = await user_with(
        call, rule("create", "subjectaccessreviews", "authorization.k8s.io"), rule("get", "*/status")
    )

    async def may_get(resource: str, subresource: str = "") -> bool:
        asked = {"verb": "get", "resource": resource, "subresource": subresource, "namespace": "default"}
        review = {"spec": {"user": "mallory", "resourceAttributes": asked}}
        answer = await mallory("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer.json["status"]["allowed"])

    assert [await may_get("pods/status"), await may_get("pods", "status")] == [False, True]
    assert [await may_get("nodes", "status"), await may_get("nodes/status")] == [True, False]


async def test_a_role_of_very_many_rights_is_refused_before_they_are_compared(call: Caller) -> None:
    """A thousand verbs of a thousand groups and resources, each a word, would be a billion rights."""
    mallory = await user_with(call, rule("create", "clusterroles", RBAC), rule("get", "pods secrets"))
    words = [f"w{number}" for number in range(1000)]
    role = {"metadata": {"name": "r"}, "rules": [{"verbs": words, "apiGroups": words, "resources": words}]}
    answer = await mallory("POST", ROLES, role)
    assert answer.status == 403
    assert "too many rights to compare" in answer.message
