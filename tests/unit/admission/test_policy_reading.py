"""Policies that get only the fields they read decide as with the whole object, at the same cost."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.admission.policy.compiling import CompiledExpression, compile_expression
from mooring.admission.policy.evaluation import find_reads
from mooring.api import codec
from mooring.api.authentication_v1 import UserInfo
from mooring.api.codec import FieldValidation
from mooring.api.core_v1 import Pod
from mooring.cel.errors import CostLimitExceeded, EvaluationError
from mooring.cel.ext.bindings import BINDINGS
from mooring.constraints.celenv.admission import admission_environment
from mooring.constraints.celenv.authorizer import AuthorizerValue, deny_all

pytestmark = pytest.mark.req("X.7")
ENVIRONMENT = admission_environment(None).extend(libraries=(BINDINGS,))
COST_LIMIT = 400  # so low that some of these reach it

_NAMES = st.sampled_from(["a", "b", "web:latest"])
_BOOLS = st.sampled_from([None, False, True])
_QUANTITIES = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.sampled_from(["1", "100m", "64Mi"]))
_LABELS = st.dictionaries(st.sampled_from(["app", "a", "b"]), _NAMES)


def _given(tree: dict[str, Any]) -> dict[str, Any]:
    """Without what is not there."""
    return {key: value for key, value in tree.items() if value is not None}


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(fields).map(_given)


_CONTAINERS = _some(
    name=_NAMES,
    image=st.none() | _NAMES,
    resources=st.none() | _some(requests=st.none() | _QUANTITIES),
    env=st.none() | st.lists(_some(name=_NAMES, value=st.none() | _NAMES), max_size=2),
    securityContext=st.none() | _some(privileged=_BOOLS),
)
_SPEC = _some(
    containers=st.lists(_CONTAINERS, max_size=3),
    hostNetwork=_BOOLS,
    priority=st.none() | st.integers(-1, 1),
    volumes=st.none() | st.lists(_some(name=_NAMES, hostPath=st.none() | st.just({"path": "/"})), max_size=2),
)
PODS = _some(metadata=_some(name=_NAMES, labels=st.none() | _LABELS), spec=_SPEC).map(
    lambda tree: codec.from_tree(tree, Pod, FieldValidation.STRICT)[0]
)

_OF_A_CONTAINER = st.sampled_from(
    [
        "{c}.image.endsWith(':latest')",
        "has({c}.image)",
        "has({c}.resources.requests) && 'cpu' in {c}.resources.requests",
        "{c}.resources.requests.cpu == '1'",
        "{c}.resources.requests['memory'] != '1'",
        "!has({c}.securityContext) || !has({c}.securityContext.privileged)",
        "{c}.securityContext.privileged",
        "{c}.env.exists(e, e.name == {c}.name)",
        "{c}.env.all(e, has(e.value))",
        "object.spec.containers.exists({c}, {c}.name == 'a')",
        "object.spec.containers.exists(d, d == {c})",
        "cel.bind({c}, 'a', {c} == 'a')",
        "cel.bind(x, 'a', {c}.name == x)",
        "{c} != null",
        "{c}.all(k, k != 'image')",
        "true",
    ]
)
_LOOPS = st.builds(
    lambda where, loop, of, name: f"{where}.{loop}({name}, {of.format(c=name)})",
    st.sampled_from(["object.spec.containers", "oldObject.spec.containers", "object.spec['containers']"]),
    st.sampled_from(["all", "exists", "exists_one"]),
    _OF_A_CONTAINER,
    st.sampled_from(["c", "e", "object2"]),
)
_PLAIN = st.sampled_from(
    [
        "has(object.spec.hostNetwork)",
        "object.spec.hostNetwork",
        "object.spec.priority > 0",
        "has(object.spec.volumes) && object.spec.volumes.all(v, !has(v.hostPath))",
        "object.metadata.name.startsWith('a')",
        "size(object.metadata.labels) > 1",
        "'app' in object.metadata.labels",
        "object.metadata.labels.app == 'a'",
        "has(object.metadata.labels.app)",
        "object.metadata.labels.all(k, k != 'app')",
        "object.metadata.labels.exists(k, object.metadata.labels[k] == 'a')",
        "object.spec.containers[0].image == 'a'",
        "object.spec.containers.size() > 1",
        "object.spec.containers.all(i, c, i > 0 || c.name == 'a')",
        "object.spec.containers.filter(c, c.name == 'a').size() > 0",
        "object.spec.containers.map(c, c.name).exists(n, n == 'b')",
        "object.?spec.?hostNetwork.orValue(false)",
        "cel.bind(s, object.spec, has(s.hostNetwork))",
        "object.spec == oldObject.spec",
        "oldObject == null || object.metadata.name == oldObject.metadata.name",
        "null != object.spec.nothing",
        "object.spec.containers.image == 'a'",
        "dyn(object).spec.priority == 1",
    ]
)
EXPRESSIONS = st.recursive(
    _LOOPS | _PLAIN,
    lambda inner: st.one_of(
        st.builds("({} && {})".format, inner, inner),
        st.builds("({} || {})".format, inner, inner),
        st.builds("!({})".format, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
    ),
    max_leaves=4,
)


def outcome(evaluate: Any, values: dict[str, Any]) -> tuple[Any, ...]:
    try:
        value, cost = evaluate(values, COST_LIMIT)
    except CostLimitExceeded:
        return ("too expensive",)
    except EvaluationError as error:
        return ("failed", str(error))
    return (value, cost)


def program_of(text: str) -> CompiledExpression:
    made = compile_expression(ENVIRONMENT, text)
    assert not made.error
    return made


@settings(max_examples=150, deadline=None)
@given(st.lists(EXPRESSIONS, min_size=1, max_size=3), PODS, st.none() | PODS)
def test_an_excerpt_is_evaluated_as_the_whole(texts: list[str], pod: Pod, old: Pod | None) -> None:
    programs = [program_of(text) for text in texts]
    whole = {"object": codec.to_tree(pod), "oldObject": None if old is None else codec.to_tree(old)}
    seen = find_reads(programs)
    shown = dict(whole)
    if seen.object is not None:
        shown["object"] = seen.object.tree(pod)
    if seen.old is not None and old is not None:
        shown["oldObject"] = seen.old.tree(old)
    for each in programs:
        made = each.program._compiled
        assert made is not None
        exact = outcome(made.interpreter.evaluate, whole)
        assert outcome(each.program.counted, whole) == exact, "generated code counts as the interpreter does"
        assert outcome(each.program.counted, shown) == exact, "and nothing is missing in the excerpt"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("object.spec.hostNetwork", {"spec": {"hostNetwork": True}}),
        ("has(object.spec.volumes)", {"spec": {"volumes": []}}),
        ("object.spec.volumes.all(v, !has(v.hostPath))", {"spec": {"volumes": [{}]}}),
        ("object.spec.containers.all(c, c.image != '')", {"spec": {"containers": [{"image": "b"}]}}),
        ("object.metadata.labels.app == ''", {"metadata": {"labels": {"app": "x", "tier": "y"}}}),
        ("oldObject == null", {}),
        ("has(object.metadata.labels.app)", {"metadata": {"labels": {"app": "x", "tier": "y"}}}),
    ],
)
def test_only_what_is_read_is_shown(text: str, shown: dict[str, Any]) -> None:
    tree = {
        "metadata": {"name": "web", "labels": {"app": "x", "tier": "y"}},
        "spec": {
            "hostNetwork": True,
            "containers": [{"name": "a", "image": "b"}],
            "volumes": [{"name": "v", "emptyDir": {}}],
        },
    }
    excerpt = find_reads([program_of(text)]).object
    assert excerpt is not None
    assert excerpt.tree(codec.from_tree(tree, Pod, FieldValidation.STRICT)[0]) == shown


def test_who_names_the_object_itself_sees_all_of_it() -> None:
    assert find_reads([program_of("size(object) > 1"), program_of("object.spec.hostNetwork")]).object is None
    assert find_reads([program_of("object == oldObject")])[:2] == (None, None)


def test_the_authorizer_is_made_for_those_who_ask_it() -> None:
    asking = "authorizer.requestResource.check('delete').allowed()"
    assert [find_reads([program_of(text)]).authorizer for text in (asking, "true")] == [True, False]


@pytest.mark.parametrize(
    ("expression", "cost"),
    [
        ("authorizer.group('').resource('pods').fieldSelector('a=b')", 3 + 10 + 1 + 2 * 50),
        ("authorizer.group('').resource('pods').labelSelector('app in (a,b)')", 3 + 10 + 2 + 6 * 50),
        ("jsonpatch.escapeKey('a/b')", 1),
        ("jsonpatch.escapeKey('a.example.com/b')", 2),
    ],
)
def test_functions_of_admission_cost_what_they_read_and_build(expression: str, cost: int) -> None:
    program = admission_environment(None, patches=True).compile(expression)
    user = AuthorizerValue(UserInfo(username="u"), deny_all)
    assert (program.min_cost, program.max_cost) == (cost, cost)
    assert program.evaluate_counted({"authorizer": user})[1] == cost
