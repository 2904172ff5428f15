"""Whom policies and webhooks concern: rules, scopes, names, equivalents, selectors and match conditions."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from mooring.admission.policy.attributes import Attributes, GroupVersionKind, GroupVersionResource
from mooring.admission.policy.evaluation import ConditionError, MatchConditions, build_variables
from mooring.admission.policy.matching import Matcher, MatcherIndex, RequestView
from mooring.admission.policy.validating import ValidatingPolicies
from mooring.api import errors
from mooring.api.admissionregistration_v1 import (
    MatchCondition,
    MatchResources,
    NamedRuleWithOperations,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec,
    Validation,
)
from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import Namespace, Pod
from mooring.api.kinds import Kind
from mooring.api.label_selector import Selector
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.scheme import Scheme, parse_runtime_config
from mooring.constraints.celenv.authorizer import Action, Decision, deny_all

pytestmark = pytest.mark.req("X.7")
SCHEME = Scheme(runtime_config=parse_runtime_config("api/all=true"))
LABELS = {"prod": {"env": "prod"}, "dev": {"env": "dev"}}


def kind_of(api_version: str, kind: str) -> Kind:
    found = SCHEME.kind(api_version, kind)
    assert found is not None
    return found


def request(
    kind: Kind | None = None, operation: str = "CREATE", namespace: str = "prod", name: str = "web", **more: Any
) -> Attributes:
    kind = kind or kind_of("v1", "Pod")
    labels = more.pop("labels", {})
    obj = kind_of(kind.api_version, kind.kind).type(metadata=ObjectMeta(name=name, labels=labels))
    obj.api_version, obj.kind = kind.api_version, kind.kind
    return Attributes(
        scheme=SCHEME,
        operation=operation,
        resource_kind=kind,
        kind=GroupVersionKind.of_kind(kind),
        resource=GroupVersionResource.of_kind(kind),
        namespace=namespace,
        name=name,
        **{"obj": obj, **more},
    )


def labels_of(namespace: str) -> dict[str, str]:
    if namespace not in LABELS:
        raise errors.not_found("namespaces", namespace)
    return LABELS[namespace]


def rule(resources: str = "pods", operations: str = "*", groups: str = "", versions: str = "v1", **more: Any) -> Any:
    return {
        "operations": operations.split(),
        "apiGroups": groups.split() or [""],
        "apiVersions": versions.split(),
        "resources": resources.split(),
        **more,
    }


def matcher(*rules: Any, **more: Any) -> Matcher:
    return Matcher.from_match_resources(msgspec.convert({"resourceRules": list(rules), **more}, MatchResources))


@dataclass(frozen=True)
class Case:
    id: str
    matcher: Matcher
    matches: bool = True
    about: dict[str, Any] = field(default_factory=dict)


SLICES = kind_of("resource.k8s.io/v1beta2", "ResourceSlice")
NAMESPACES = kind_of("v1", "Namespace")
A_IS_B = {"matchLabels": {"a": "b"}}
STATUS = {"subresource": "status"}
CASES = [
    Case("a rule for the resource", matcher(rule())),
    Case("a rule for another resource", matcher(rule("services")), False),
    Case("one of several rules", matcher(rule("services"), rule())),
    Case("another operation", matcher(rule(operations="UPDATE DELETE")), False),
    Case("every operation", matcher(rule(operations="*")), True, {"operation": "DELETE"}),
    Case("another group", matcher(rule(groups="apps")), False),
    Case("every group and version", matcher(rule(groups="*", versions="*"))),
    Case("another version", matcher(rule(versions="v2"), matchPolicy="Exact"), False),
    Case("a rule for all resources leaves subresources out", matcher(rule("*")), False, STATUS),
    Case("a rule for a resource leaves its subresources out", matcher(rule("pods")), False, STATUS),
    Case("a subresource by its name", matcher(rule("pods/status")), True, STATUS),
    Case("all subresources of a resource, and itself", matcher(rule("pods/*"))),
    Case("a subresource of all resources", matcher(rule("*/status")), True, STATUS),
    Case("everything", matcher(rule("*/*")), True, STATUS),
    Case("cluster scope leaves pods out", matcher(rule(scope="Cluster")), False),
    Case("namespaced scope", matcher(rule(scope="Namespaced"))),
    Case("a namespace is cluster-scoped", matcher(rule("namespaces", scope="Cluster")), True, {"kind": NAMESPACES}),
    Case("a namespace is not in itself", matcher(rule("namespaces", scope="Namespaced")), False, {"kind": NAMESPACES}),
    Case("one of the names", matcher(rule(resourceNames=["web", "db"]))),
    Case("none of the names", matcher(rule(resourceNames=["db"])), False),
    Case("what is excluded", matcher(rule(), excludeResourceRules=[rule("*")]), False),
    Case("what is excluded by name", matcher(rule(), excludeResourceRules=[rule(resourceNames=["web"])]), False),
    Case("other names are not excluded", matcher(rule(), excludeResourceRules=[rule(resourceNames=["db"])])),
    Case("the namespace's labels", matcher(rule(), namespaceSelector={"matchLabels": {"env": "prod"}})),
    Case("another namespace's labels", matcher(rule(), namespaceSelector={"matchLabels": {"env": "dev"}}), False),
    Case(
        "a namespace by its own new labels",
        matcher(rule("namespaces"), namespaceSelector={"matchLabels": {"env": "new"}}),
        True,
        {"kind": NAMESPACES, "namespace": "web", "labels": {"env": "new"}},
    ),
    Case(
        "what is in no namespace is not spared",
        matcher(rule("resourceslices", groups="*", versions="*"), namespaceSelector={"matchLabels": {"env": "dev"}}),
        True,
        {"kind": SLICES, "namespace": ""},
    ),
    Case("the object's labels", matcher(rule(), objectSelector=A_IS_B), True, {"labels": {"a": "b"}}),
    Case("an object without them", matcher(rule(), objectSelector=A_IS_B), False),
    Case(
        "an object that had them",
        matcher(rule(), objectSelector=A_IS_B),
        True,
        {"operation": "UPDATE", "old": Pod(metadata=ObjectMeta(labels={"a": "b"}))},
    ),
    Case(
        "an object that is deleted",
        matcher(rule(), objectSelector=A_IS_B),
        True,
        {"operation": "DELETE", "obj": None, "old": Pod(metadata=ObjectMeta(labels={"a": "b"}))},
    ),
    Case("no rules at all: all that the policy sees", Matcher()),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_whom_a_matcher_concerns(case: Case) -> None:
    about = request(**case.about)
    assert (case.matcher.match(about, labels_of) is not None) == case.matches
    index = MatcherIndex([_Holder(case.matcher)])
    assert not case.matches or index.candidates(about), "the index never leaves out who is concerned"


@dataclass(frozen=True)
class _Holder:
    matcher: Matcher


def test_an_equivalent_version_is_seen_as_the_rule_says() -> None:
    about = request(SLICES, namespace="")
    rules = rule("resourceslices", groups="resource.k8s.io", versions="v1")
    assert matcher(rules, matchPolicy="Exact").match(about, labels_of) is None
    assert matcher(rules, matchPolicy="Equivalent").match(about, labels_of) == RequestView(
        GroupVersionKind("resource.k8s.io", "v1", "ResourceSlice"),
        GroupVersionResource("resource.k8s.io", "v1", "resourceslices"),
    )


def test_events_of_one_group_are_those_of_the_other() -> None:
    about = request(kind_of("v1", "Event"))
    found = matcher(rule("events", groups="events.k8s.io"), matchPolicy="Equivalent").match(about, labels_of)
    assert found is not None
    assert found.kind == GroupVersionKind("events.k8s.io", "v1", "Event")


def test_a_namespace_that_is_not_there_is_an_error() -> None:
    with pytest.raises(errors.NotFound):
        matcher(rule(), namespaceSelector={"matchLabels": {"a": "b"}}).match(request(namespace="gone"), labels_of)


def test_the_index_remembers_each_sort_of_request() -> None:
    pods, services = _Holder(matcher(rule())), _Holder(matcher(rule("services")))
    index = MatcherIndex([pods, services])
    assert index.candidates(request()) == [pods]
    assert index.candidates(request(name="other")) == [pods]
    assert index.candidates(request(kind_of("v1", "Service"))) == [services]


def test_the_index_skips_policies_that_match_no_request() -> None:
    named = _Holder(matcher({**rule("secrets"), "resourceNames": ["mine"]}))
    index = MatcherIndex([_Holder(matcher(rule())), named])
    pods, maps, secrets = request(), request(kind_of("v1", "ConfigMap")), request(kind_of("v1", "Secret"))
    assert not index.matches_nothing(maps.match_key), "nobody has asked yet"
    for about in (pods, maps, secrets):
        index.candidates(about)
    assert [index.matches_nothing(about.match_key) for about in (pods, maps, secrets)] == [False, True, False]
    assert MatcherIndex([]).matches_nothing(pods.match_key)


@pytest.mark.parametrize(
    "kind",
    ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy",
     "MutatingAdmissionPolicyBinding"],
)  # fmt: skip
def test_policies_are_not_subject_to_policies(kind: str) -> None:
    assert request(kind_of("admissionregistration.k8s.io/v1", kind), namespace="").is_exempt
    assert not request().is_exempt


# -- match conditions


@dataclass(frozen=True)
class Condition:
    id: str
    expressions: list[str]
    holds: bool = True
    failure_policy: str = "Fail"
    error: str = ""


HEALTH = "authorizer.path('/healthz')"
CONDITIONS = [
    Condition("none", []),
    Condition("the object's name", ["object.metadata.name == 'web'"]),
    Condition("one that is false", ["true", "object.metadata.name == 'db'"], False),
    Condition("who asks", ["request.userInfo.username == 'ann' && 'devs' in request.userInfo.groups"]),
    Condition("what is asked", ["request.operation == 'CREATE' && request.kind.kind == 'Pod' && !request.dryRun"]),
    Condition("what is not there", ["!has(request.subResource) && oldObject == null"]),
    Condition("what somebody may do", ["authorizer.requestResource.check('shout').allowed()"]),
    Condition("what somebody may not do", ["authorizer.group('apps').resource('x').check('get').allowed()"], False),
    Condition("a path", ["authorizer.path('/healthz').check('get').allowed()"]),
    Condition("somebody else", ["authorizer.serviceAccount('a', 'b').path('/healthz').check('get').allowed()"], False),
    Condition(
        "an error",
        ["object.spec.missing == 1"],
        error="expression 'object.spec.missing == 1' resulted in error: no such key: missing",
    ),
    Condition("an error that is ignored", ["object.spec.missing == 1"], False, "Ignore"),
    Condition("false beats an error", ["object.spec.missing == 1", "false"], False),
    Condition(
        "more than one call may cost",
        ["".join(f"[0,1,2,3,4,5,6,7,8,9].all({each}, " for each in "abcdef") + "true))))))"],
        error="operation cancelled: actual cost limit exceeded",
    ),
    Condition(
        "more than all together may cost",
        [f"{HEALTH}.check('get').allowed() && {HEALTH}.check('put').error() == ''"] * 4,
        error="validation failed due to running out of cost budget, no further validation rules will be run",
    ),
]  # fmt: skip


def may(user: UserInfo, action: Action) -> Decision:
    return Decision(user.username == "ann" and (action.verb == "shout" or action.path == "/healthz"))


@pytest.mark.parametrize("case", CONDITIONS, ids=lambda case: case.id)
def test_match_conditions(case: Condition) -> None:
    conditions = MatchConditions(
        [MatchCondition(name=f"c{index}", expression=text) for index, text in enumerate(case.expressions)],
        case.failure_policy,
    )
    about = request(user=UserInfo(username="ann", groups=["devs"]))
    values = build_variables(about, RequestView(about.kind, about.resource), decide=may)
    if case.error:
        with pytest.raises(ConditionError) as error:
            conditions.are_met(values)
        assert case.error in str(error.value)
    else:
        assert conditions.are_met(values) == case.holds


def test_objects_are_shown_in_the_version_that_is_asked_for_and_again_after_a_change() -> None:
    about = request()
    assert about.object_tree(about.kind) is about.object_tree(about.kind)
    changed: Resource = Pod(api_version="v1", kind="Pod", metadata=ObjectMeta(name="other"))
    about.replace_object(changed)
    shown = about.object_tree(about.kind)
    assert shown is not None
    assert shown["metadata"]["name"] == "other"
    assert about.old_tree(about.kind) is None
    assert isinstance(Namespace(), Resource)


def test_policies_that_are_as_they_were_keep_what_they_have_compiled() -> None:
    first, second = (ValidatingAdmissionPolicy(metadata=ObjectMeta(name=name)) for name in "ab")
    spec = (ValidatingAdmissionPolicyBindingSpec(policy_name=name) for name in "ab")
    bindings = [ValidatingAdmissionPolicyBinding(metadata=ObjectMeta(name="x"), spec=each) for each in spec]
    before = ValidatingPolicies([first, second], bindings)
    changed = ValidatingAdmissionPolicy(metadata=ObjectMeta(name="b"))
    after = ValidatingPolicies([first, changed], bindings, before)
    assert after.policies[0] is before.policies[0]
    assert after.policies[1] is not before.policies[1]
    assert ValidatingPolicies([first], bindings[1:], before).policies == []


class _NoCluster:
    """What policies may know of a cluster in which nothing is."""

    decide = staticmethod(deny_all)

    def namespace(self, name: str) -> dict[str, Any]:
        return {"metadata": {"name": name}}

    def param_kind(self, api_version: str, kind: str) -> None: ...

    def find_object(self, kind: Kind, namespace: str, name: str) -> None: ...

    def select_objects(self, kind: Kind, namespace: str, selector: Selector) -> list[dict[str, Any]]:
        return []


@pytest.mark.req("X.11")
def test_an_expression_is_stopped_although_its_estimate_is_within_the_limit() -> None:
    """cel-go's estimate, and so ours, does not know what it costs to read fields of dynamic values."""
    numbers = f"[{', '.join('1' for _ in range(250))}]"
    expression = f"{numbers}.all(x, {numbers}.all(y, !has(object.a.b.c.d.e.f.g.h.i.j.k.l)))"
    rule = NamedRuleWithOperations(operations=["*"], api_groups=["*"], api_versions=["*"], resources=["*"])
    spec = ValidatingAdmissionPolicySpec(
        match_constraints=MatchResources(resource_rules=[rule]), validations=[Validation(expression=expression)]
    )
    bound = ValidatingAdmissionPolicyBindingSpec(policy_name="dear", validation_actions=["Deny"])
    policies = ValidatingPolicies(
        [ValidatingAdmissionPolicy(metadata=ObjectMeta(name="dear"), spec=spec)],
        [ValidatingAdmissionPolicyBinding(metadata=ObjectMeta(name="dear"), spec=bound)],
    )
    tree: dict[str, Any] = {}
    for name in "kjihgfedcba":
        tree = {name: tree}
    about = request()
    about.set_undecoded_object(tree)
    [denial] = policies.validate(about, _NoCluster()).denials
    assert "actual cost limit exceeded" in denial.message
