"""Roles and bindings decide what users may do."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app_calls import ADMIN, Answer, Caller, running
from mooring.api.authentication_v1 import UserInfo
from mooring.api.meta_v1 import LabelSelector, ObjectMeta, Resource
from mooring.api.rbac_v1 import (
    AggregationRule,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from mooring.apiserver.access import bootstrap_roles
from mooring.apiserver.access.authz import Attributes
from mooring.apiserver.access.bootstrap import add_missing, bootstrap_rbac
from mooring.apiserver.access.rbac import RoleBook
from mooring.apiserver.registry.cluster.loopback_client import LoopbackClient
from mooring.apiserver.server import ApiServer

pytestmark = pytest.mark.req("S.6")
RBAC = "/apis/rbac.authorization.k8s.io/v1"
KUBERNETES = Path(bootstrap_roles.__file__).parent / "kubernetes_roles.json"


def _rule(verbs: str, resources: str = "", *, groups: str = "core", names: str = "", urls: str = "") -> PolicyRule:
    return PolicyRule(
        verbs=verbs.split(),
        resources=resources.split(),
        api_groups=["" if group == "core" else group for group in groups.split()] if resources else [],
        resource_names=names.split(),
        non_resource_urls=urls.split(),
    )


def _book(rule: PolicyRule, *, namespace: str = "") -> RoleBook:
    """Jane has one rule: everywhere, or in a namespace."""
    jane = [Subject(kind="User", name="jane")]
    if namespace:
        role = Role(metadata=ObjectMeta(name="r", namespace=namespace), rules=[rule])
        binding = RoleBinding(
            metadata=ObjectMeta(name="b", namespace=namespace), role_ref=RoleRef(kind="Role", name="r"), subjects=jane
        )
        return RoleBook(roles=[role], role_bindings=[binding])
    cluster_role = ClusterRole(metadata=ObjectMeta(name="r"), rules=[rule])
    cluster_binding = ClusterRoleBinding(
        metadata=ObjectMeta(name="b"), role_ref=RoleRef(kind="ClusterRole", name="r"), subjects=jane
    )
    return RoleBook([cluster_role], [cluster_binding])


@dataclass(frozen=True)
class Case:
    about: str
    rule: PolicyRule
    asked: Attributes
    allowed: bool
    namespace: str = ""
    user: UserInfo = field(default_factory=lambda: UserInfo(username="jane"))


CASES = [
    Case("a rule allows its verb", _rule("get", "pods"), Attributes("get", resource="pods"), True),
    Case("and no other", _rule("get", "pods"), Attributes("list", resource="pods"), False),
    Case("a rule allows its resource only", _rule("get", "pods"), Attributes("get", resource="nodes"), False),
    Case("a rule is for its group only", _rule("get", "pods"), Attributes("get", "apps", "pods"), False),
    Case("a star is every verb", _rule("*", "pods"), Attributes("patch", resource="pods"), True),
    Case("a star is every resource", _rule("get", "*"), Attributes("get", "", "pods", "status"), True),
    Case("a star is every group", _rule("get", "pods", groups="*"), Attributes("get", "x", "pods"), True),
    Case("a resource does not include its parts", _rule("get", "pods"), Attributes("get", "", "pods", "status"), False),
    Case("a part is named", _rule("get", "pods/status"), Attributes("get", "", "pods", "status"), True),
    Case("a part is not the whole", _rule("get", "pods/status"), Attributes("get", "", "pods"), False),
    Case("a part of everything", _rule("get", "*/scale"), Attributes("get", "", "deployments", "scale"), True),
    Case("but no other part", _rule("get", "*/scale"), Attributes("get", "", "deployments", "status"), False),
    Case("a name", _rule("get", "pods", names="a"), Attributes("get", resource="pods", name="a"), True),
    Case("another name", _rule("get", "pods", names="a"), Attributes("get", resource="pods", name="b"), False),
    Case("no name", _rule("list", "pods", names="a"), Attributes("list", resource="pods"), False),
    Case(
        "a role in a namespace holds there",
        _rule("get", "pods"),
        Attributes("get", resource="pods", namespace="x"),
        True,
        namespace="x",
    ),
    Case(
        "a role in a namespace holds nowhere else",
        _rule("get", "pods"),
        Attributes("get", resource="pods", namespace="y"),
        False,
        namespace="x",
    ),
    Case(
        "a role in a namespace is not one of the cluster",
        _rule("get", "pods"),
        Attributes("get", resource="pods"),
        False,
        namespace="x",
    ),
    Case(
        "a role of the cluster holds in every namespace",
        _rule("get", "pods"),
        Attributes("get", resource="pods", namespace="x"),
        True,
    ),
    Case("a path", _rule("get", urls="/metrics"), Attributes("get", path="/metrics"), True),
    Case("another path", _rule("get", urls="/metrics"), Attributes("get", path="/metrics/x"), False),
    Case("all paths below", _rule("get", urls="/apis/*"), Attributes("get", path="/apis/apps/v1"), True),
    Case("a resource is no path", _rule("get", "*", groups="*"), Attributes("get", path="/metrics"), False),
    Case(
        "another user",
        _rule("get", "pods"),
        Attributes("get", resource="pods"),
        False,
        user=UserInfo(username="john", groups=["jane"]),
    ),
    Case(
        "masters may do everything",
        _rule("get", "pods"),
        Attributes("delete", "x", "y"),
        True,
        user=UserInfo(username="root", groups=["system:masters"]),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.about)
def test_a_rule(case: Case) -> None:
    book = _book(case.rule, namespace=case.namespace)
    assert book.authorize(case.user, case.asked).allowed is case.allowed
    assert book.authorize(case.user, case.asked).allowed is case.allowed  # also when it is remembered


@pytest.mark.parametrize(
    ("subject", "user"),
    [
        (Subject(kind="User", name="jane"), UserInfo(username="jane")),
        (Subject(kind="Group", name="dev"), UserInfo(username="x", groups=["dev"])),
        (
            Subject(kind="ServiceAccount", name="bob", namespace="ns"),
            UserInfo(username="system:serviceaccount:ns:bob"),
        ),
    ],
    ids=["user", "group", "service account"],
)
def test_a_binding_reaches_a(subject: Subject, user: UserInfo) -> None:
    role = ClusterRole(metadata=ObjectMeta(name="r"), rules=[_rule("get", "pods")])
    reference = RoleRef(kind="ClusterRole", name="r")
    binding = ClusterRoleBinding(metadata=ObjectMeta(name="b"), role_ref=reference, subjects=[subject])
    book = RoleBook([role], [binding])
    decision = book.authorize(user, Attributes("get", resource="pods"))
    assert decision.allowed
    assert decision.reason.startswith('RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to ')
    assert not book.authorize(UserInfo(username="other"), Attributes("get", resource="pods")).allowed


def test_a_role_gathers_the_rules_of_others() -> None:
    selector = LabelSelector(match_labels={"to": "all"})
    gathering = ClusterRole(
        metadata=ObjectMeta(name="all"), aggregation_rule=AggregationRule(cluster_role_selectors=[selector])
    )
    part = ClusterRole(metadata=ObjectMeta(name="part", labels={"to": "all"}), rules=[_rule("get", "pods")])
    reference = RoleRef(kind="ClusterRole", name="all")
    binding = ClusterRoleBinding(
        metadata=ObjectMeta(name="b"), role_ref=reference, subjects=[Subject(kind="User", name="jane")]
    )
    book = RoleBook([gathering, part], [binding])
    assert book.authorize(UserInfo(username="jane"), Attributes("get", resource="pods")).allowed


def test_a_binding_without_its_role_gives_nothing() -> None:
    reference = RoleRef(kind="ClusterRole", name="none")
    binding = ClusterRoleBinding(
        metadata=ObjectMeta(name="b"), role_ref=reference, subjects=[Subject(kind="User", name="jane")]
    )
    book = RoleBook([], [binding])
    assert not book.authorize(UserInfo(username="jane"), Attributes("get", resource="pods")).allowed


# -- on a server


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with running(tmp_path) as found:
        yield found


@pytest.fixture
def call(server: ApiServer) -> Caller:
    return Caller(server.app, ADMIN)


async def _bind(call: Caller, user: str, role: str, namespace: str = "") -> None:
    kind = "rolebindings" if namespace else "clusterrolebindings"
    where = f"{RBAC}/namespaces/{namespace}/{kind}" if namespace else f"{RBAC}/{kind}"
    body = {
        "metadata": {"name": f"{user}-{role}"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
    }
    answer = await call("POST", where, body)
    assert answer.status == 201, answer.body


async def _can(call: Caller, verb: str, resource: str, group: str = "", namespace: str = "default") -> bool:
    attributes = {"verb": verb, "resource": resource, "group": group, "namespace": namespace}
    review = {"spec": {"resourceAttributes": attributes}}
    answer = await call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    assert answer.status == 201, answer.body
    return bool(answer.json["status"]["allowed"])


async def test_an_answer_has_no_rows_for_a_table(call: Caller) -> None:
    review = {"spec": {"nonResourceAttributes": {"verb": "get", "path": "/"}}}
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    answer = await call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, accept=accept)
    assert answer.status == 406


@pytest.mark.parametrize(
    ("role", "may", "may_not"),
    [
        ("view", ["get pods", "list configmaps"], ["get secrets", "create pods", "get nodes", "get roles"]),
        ("edit", ["get secrets", "create pods", "delete services"], ["create roles", "update nodes"]),
        ("admin", ["get secrets", "create roles", "create rolebindings"], ["update nodes", "create namespaces"]),
        ("cluster-admin", ["update nodes", "create roles"], []),
    ],
)
async def test_the_roles_for_people(call: Caller, role: str, may: list[str], may_not: list[str]) -> None:
    await _bind(call, "jane", role, "default")
    jane = call.as_user("jane")
    group = {"roles": "rbac.authorization.k8s.io", "rolebindings": "rbac.authorization.k8s.io"}
    for action in [*may, *may_not]:
        verb, resource = action.split()
        assert await _can(jane, verb, resource, group.get(resource, "")) is (action in may), action
        if role != "cluster-admin":
            assert not await _can(jane, verb, resource, group.get(resource, ""), namespace="kube-system")


@pytest.mark.parametrize(
    ("user", "may", "may_not"),
    [
        ("system:kube-scheduler", ["list pods", "create pods/binding", "update pods/status"], ["create pods"]),
        ("system:kube-controller-manager", ["create pods", "delete pods", "update nodes"], ["create namespaces"]),
    ],
)
async def test_the_roles_of_components(call: Caller, user: str, may: list[str], may_not: list[str]) -> None:
    component = call.as_user(user)
    for action in [*may, *may_not]:
        verb, resource = action.split()
        name, _, subresource = resource.partition("/")
        attributes = {"verb": verb, "resource": name, "subresource": subresource, "namespace": "default"}
        body = {"spec": {"resourceAttributes": attributes}}
        answer = await component("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
        assert answer.json["status"]["allowed"] is (action in may), action


async def test_a_new_role_holds_at_once(call: Caller) -> None:
    jane = call.as_user("jane")
    assert (await jane("GET", "/api/v1/namespaces/default/pods")).status == 403
    await _bind(call, "jane", "view", "default")
    assert (await jane("GET", "/api/v1/namespaces/default/pods")).status == 200
    assert (await jane("GET", "/api/v1/pods")).status == 403
    await call("DELETE", f"{RBAC}/namespaces/default/rolebindings/jane-view")
    assert (await jane("GET", "/api/v1/namespaces/default/pods")).status == 403


async def test_one_object_can_be_watched_by_those_who_may_see_no_other(call: Caller) -> None:
    rules = [{"apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"], "verbs": ["list"]}]
    await call("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "one"}, "rules": rules})
    await _bind(call, "jane", "one")
    jane = call.as_user("jane")
    assert (await jane("GET", "/api/v1/pods?fieldSelector=metadata.name=a")).status == 200
    assert (await jane("GET", "/api/v1/pods?fieldSelector=metadata.name=b")).status == 403
    assert (await jane("GET", "/api/v1/pods")).status == 403


def _role(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "r"}, "rules": list(rules)}


READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
READ_SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
READ_NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}


async def _write_role(call: Caller, *rules: dict[str, Any]) -> Answer:
    return await call("POST", f"{RBAC}/namespaces/default/roles", _role(*rules))


async def test_no_user_grants_rights_that_they_do_not_have(call: Caller) -> None:
    await _bind(call, "jane", "admin", "default")
    jane = call.as_user("jane", "dev")
    assert (await _write_role(jane, READ_PODS, READ_SECRETS)).status == 201
    answer = await _write_role(jane, READ_PODS, READ_NODES)
    assert answer.status == 403
    assert answer.message == (
        'roles.rbac.authorization.k8s.io "r" is forbidden: user "jane" (groups=["dev" "system:authenticated"]) '
        "is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["nodes"], Verbs:["get"]}'
    )


async def test_an_object_named_like_the_wildcard_gives_no_right_on_others(call: Caller) -> None:
    await _bind(call, "jane", "admin", "default")
    rules = [{**READ_NODES, "resourceNames": ["*"]}]
    await call("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "star"}, "rules": rules})
    await _bind(call, "jane", "star")
    assert (await _write_role(call.as_user("jane"), {**READ_NODES, "resourceNames": ["n1"]})).status == 403


@pytest.mark.parametrize(
    ("content_type", "patch"),
    [
        ("application/merge-patch+json", {"rules": [READ_NODES]}),
        ("application/json-patch+json", [{"op": "add", "path": "/rules/-", "value": READ_NODES}]),
        (
            "application/apply-patch+yaml",
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", **_role(READ_NODES)},
        ),
    ],
    ids=["merge patch", "JSON patch", "apply"],
)
async def test_no_way_of_writing_gets_around_it(call: Caller, content_type: str, patch: Any) -> None:
    await _bind(call, "jane", "admin", "default")
    jane = call.as_user("jane")
    assert (await _write_role(jane, READ_PODS)).status == 201
    path = f"{RBAC}/namespaces/default/roles/r"
    query = "?fieldManager=t&force=true" if "apply" in content_type else ""
    answer = await jane("PATCH", path + query, patch, content_type=content_type)
    assert answer.status == 403
    assert (await jane("PUT", path, _role(READ_NODES))).status == 403
    labelled = {"metadata": {"labels": {"a": "b"}}}
    assert (await jane("PATCH", path, labelled, content_type="application/merge-patch+json")).status == 200


async def test_a_binding_gives_away_its_roles_rights(call: Caller) -> None:
    await _bind(call, "jane", "admin", "default")
    jane = call.as_user("jane")

    def binding(role: str) -> dict[str, Any]:
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        subjects = [{"kind": "User", "name": "john", "apiGroup": "rbac.authorization.k8s.io"}]
        return {"metadata": {"name": role}, "roleRef": reference, "subjects": subjects}

    path = f"{RBAC}/namespaces/default/rolebindings"
    assert (await jane("POST", path, binding("view"))).status == 201
    assert (await jane("POST", path, binding("cluster-admin"))).status == 403
    assert (await jane("POST", path, binding("none"))).status == 404
    rules = [
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["bind"]},
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles", "roles"], "verbs": ["escalate"]},
    ]
    await call("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "binder"}, "rules": rules})
    await _bind(call, "jane", "binder")
    assert (await jane("POST", path, binding("cluster-admin"))).status == 201
    assert (await _write_role(jane, READ_NODES)).status == 201


# -- the first roles


def test_what_a_role_lacks_is_added_and_the_rest_stays() -> None:
    wanted = next(
        role for role in bootstrap_roles.load_roles().cluster_roles if role.metadata.name == "system:basic-user"
    )
    own = _rule("get", "pods")
    current = ClusterRole(metadata=ObjectMeta(name="system:basic-user"), rules=[wanted.rules[0], own])
    assert add_missing(current, wanted)
    assert current.rules == [wanted.rules[0], own, wanted.rules[1]]
    assert not add_missing(current, wanted)


def test_who_wants_no_help_gets_none() -> None:
    wanted = next(
        role for role in bootstrap_roles.load_roles().cluster_roles if role.metadata.name == "system:basic-user"
    )
    metadata = ObjectMeta(name="system:basic-user", annotations={bootstrap_roles.AUTO_UPDATE: "false"})
    assert not add_missing(ClusterRole(metadata=metadata), wanted)


async def test_a_new_server_has_all_roles_and_bindings_of_a_new_kube_apiserver(call: Caller) -> None:
    for kind, recorded in json.loads(KUBERNETES.read_text()).items():
        for each in recorded:
            wanted = each["metadata"]
            place = f"{RBAC}/namespaces/{wanted['namespace']}" if "namespace" in wanted else RBAC
            found = (await call("GET", f"{place}/{kind.lower()}s/{wanted['name']}")).json
            assert (found["kind"], found["metadata"].get("labels")) == (kind, wanted["labels"])
            assert [rule for rule in each.get("rules", []) if rule not in found["rules"]] == []
            if kind.endswith("Binding"):
                assert (found.get("subjects"), found["roleRef"]) == (each.get("subjects"), each["roleRef"])


async def test_roles_and_bindings_that_lack_nothing_are_only_read(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Resource] = []

    async def write(_: LoopbackClient, obj: Resource) -> None:
        written.append(obj)

    for verb in ("create", "update"):
        monkeypatch.setattr(LoopbackClient, verb, write)
    await bootstrap_rbac(server.app.resources)
    roles = (ClusterRole, ClusterRoleBinding, Role, RoleBinding)
    assert [obj for obj in written if isinstance(obj, roles)] == []  # others are written at the same time


async def test_a_server_repairs_its_roles_when_it_starts(server: ApiServer, call: Caller) -> None:
    path = f"{RBAC}/clusterroles/system:discovery"
    before = (await call("GET", path)).json
    await call("PUT", path, {**before, "rules": []})
    again = await ApiServer.open(server._config, store=server.store)
    for task in again._tasks:
        task.cancel()
    assert (await call("GET", path)).json["rules"] == before["rules"]


# -- speaking for others


async def test_who_may_speak_for_others_is_treated_as_them(call: Caller) -> None:
    await _bind(call, "jane", "view", "default")
    as_jane = await call("GET", "/api/v1/namespaces/default/pods", impersonate_user="jane")
    assert as_jane.status == 200
    assert (await call("GET", "/api/v1/pods", impersonate_user="jane")).status == 403
    who = await call(
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        {},
        impersonate_user="system:serviceaccount:ns:bob",
        impersonate_extra_scopes="a",
    )
    user = who.json["status"]["userInfo"]
    assert user["groups"] == ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]
    assert user["extra"] == {"scopes": ["a"]}


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"impersonate_user": "john"}, 403),
        ({"impersonate_user": "jane", "impersonate_group": "system:masters"}, 403),
        ({"impersonate_group": "dev"}, 400),
    ],
    ids=["a user", "a group that is too powerful", "a group without a user"],
)
async def test_no_user_impersonates_others_without_a_role(call: Caller, headers: dict[str, str], code: int) -> None:
    rules = [{"apiGroups": [""], "resources": ["users"], "resourceNames": ["jane"], "verbs": ["impersonate"]}]
    await call("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "speaker"}, "rules": rules})
    await _bind(call, "helper", "speaker")
    helper = call.as_user("helper")
    assert (await helper("GET", "/version", impersonate_user="jane")).status == 200
    assert (await helper("GET", "/version", **headers)).status == code


# -- questions about rights


async def test_a_subject_access_review_answers_what_a_user_may_do(call: Caller) -> None:
    await _bind(call, "jane", "view", "default")
    attributes = {"verb": "get", "resource": "pods", "namespace": "default"}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    answer = await call("POST", path, {"spec": {"user": "jane", "resourceAttributes": attributes}})
    assert answer.json["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "default/jane-view" of ClusterRole "view" to User "jane"',
    }
    answer = await call("POST", path, {"spec": {"user": "john", "resourceAttributes": attributes}})
    assert answer.json["status"] == {"allowed": False}
    answer = await call(
        "POST", path, {"spec": {"user": "john", "nonResourceAttributes": {"verb": "get", "path": "/metrics"}}}
    )
    assert answer.json["status"] == {"allowed": False}
    local = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews"
    answer = await call("POST", local, {"spec": {"user": "jane", "resourceAttributes": attributes}})
    assert answer.json["status"]["allowed"]


@pytest.mark.parametrize(
    ("kind", "spec", "message"),
    [
        (
            "selfsubjectaccessreviews",
            {},
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        (
            "subjectaccessreviews",
            {"resourceAttributes": {"verb": "get"}},
            "at least one of user or group must be specified",
        ),
        (
            "namespaces/default/localsubjectaccessreviews",
            {"user": "jane", "resourceAttributes": {"verb": "get", "namespace": "x"}},
            "must match metadata.namespace",
        ),
    ],
)
async def test_a_question_that_makes_no_sense(call: Caller, kind: str, spec: dict[str, Any], message: str) -> None:
    answer = await call("POST", f"/apis/authorization.k8s.io/v1/{kind}", {"spec": spec})
    assert answer.status == 422
    assert message in answer.message


async def test_all_rights_in_a_namespace_are_listed(call: Caller) -> None:
    await _bind(call, "jane", "view", "default")
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    status = (await call.as_user("jane")("POST", path, {"spec": {"namespace": "default"}})).json["status"]
    assert not status["incomplete"]
    assert any("pods" in rule["resources"] for rule in status["resourceRules"])
    assert any("/version" in rule["nonResourceURLs"] for rule in status["nonResourceRules"])
    assert (await call("POST", path, {"spec": {}})).status == 400


async def test_who_am_i(call: Caller) -> None:
    answer = await call.as_user("jane", "dev")("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert answer.json["status"]["userInfo"] == {"username": "jane", "groups": ["dev", "system:authenticated"]}
