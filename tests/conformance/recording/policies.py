"""Requests about ValidatingAdmissionPolicy and MutatingAdmissionPolicy, for ``tools/record_requests.py``.

    python tests/conformance/recording/policies.py objects > o.jsonl      what may be written in policies and bindings
    python tests/conformance/recording/policies.py setup > s.jsonl        policies, each for a namespace of its own
    python tests/conformance/recording/policies.py questions > q.jsonl    what they make of requests
    python tools/record_requests.py o.jsonl --server https://127.0.0.1:6443 --token T > …/data/api/policy-objects.jsonl
    python tools/record_requests.py s.jsonl --server … --token T > …/data/api/policy-setup.jsonl; sleep 5
    python tools/record_requests.py q.jsonl --server … --token T > …/data/api/policies.jsonl

The server is a fresh kube-apiserver (shared/real/control-plane.sh starts one) without the ServiceAccount plugin.
Policies count a moment after they were written, hence the pause. Recorded from v1.37.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

Tree = dict[str, Any]
GROUP = "/apis/admissionregistration.k8s.io/v1"
API = "admissionregistration.k8s.io/v1"
VALIDATING, MUTATING = "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"


def rule(resource: str = "configmaps", **more: Any) -> Tree:
    return {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [resource],
        **more,
    }


def post(name: str, path: str, body: Tree, query: str = "") -> Tree:
    return {"id": name, "method": "POST", "path": path, "query": query, "body": body}


def policy(kind: str, name: str, spec: Tree) -> tuple[str, Tree]:
    plural = kind.lower()[:-1] + "ies"
    return f"{GROUP}/{plural}", {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


def binding(kind: str, name: str, spec: Tree) -> tuple[str, Tree]:
    body = {"apiVersion": API, "kind": f"{kind}Binding", "metadata": {"name": name}, "spec": spec}
    return f"{GROUP}/{kind.lower()}bindings", body


def config_map(name: str, data: Tree | None = None, **metadata: Any) -> Tree:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data or {}}


# -- what may be written in policies

OK: Tree = {"matchConstraints": {"resourceRules": [rule()]}, "validations": [{"expression": "true"}]}
OK_CHANGE: Tree = {
    "matchConstraints": {"resourceRules": [rule()]},
    "reinvocationPolicy": "Never",
    "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}],
}
OK_BINDING: Tree = {"policyName": "x", "validationActions": ["Deny"]}


def with_rule(**more: Any) -> Tree:
    return {"matchConstraints": {"resourceRules": [rule(**more)]}}


def validations(*each: Tree) -> Tree:
    return {"validations": [*each]}


def conditions(*each: Tree) -> Tree:
    return {"matchConditions": [*each]}


def variables(*each: Tree) -> Tree:
    return {"variables": [*each]}


VALIDATING_SPECS: dict[str, Tree] = {
    "fine": {},
    "nothing at all": {"matchConstraints": None, "validations": None},
    "no rules": {"matchConstraints": {}},
    "an empty rule": {"matchConstraints": {"resourceRules": [{}]}},
    "an unknown operation": with_rule(operations=["CREATE", "READ"]),
    "all operations and one": with_rule(operations=["*", "CREATE"]),
    "all groups and one": with_rule(apiGroups=["*", "apps"]),
    "all versions and one": with_rule(apiVersions=["*", "v1"]),
    "an empty version": with_rule(apiVersions=[""]),
    "an empty resource": with_rule(resources=[""]),
    "all resources and one": with_rule(resources=["*", "pods"]),
    "everything and one": with_rule(resources=["*/*", "pods"]),
    "all subresources and one": with_rule(resources=["pods/*", "pods/status"]),
    "a subresource of all and one": with_rule(resources=["*/status", "pods/status"]),
    "an unknown scope": with_rule(scope="Galaxy"),
    "a name twice": with_rule(resourceNames=["a", "a"]),
    "a name with a slash": with_rule(resourceNames=["a/b"]),
    "an unknown match policy": {"matchConstraints": {"resourceRules": [rule()], "matchPolicy": "Roughly"}},
    "a bad selector": {
        "matchConstraints": {
            "resourceRules": [rule()],
            "objectSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]},
            "namespaceSelector": {"matchLabels": {"a b": "c"}},
        }
    },
    "an unknown failure policy": {"failurePolicy": "Shrug"},
    "an empty expression": validations({"expression": " "}),
    "no boolean": validations({"expression": "'a'"}),
    "a list": validations({"expression": "[timestamp('2020-01-01T00:00:00Z')]"}),
    "a duration": validations({"expression": "duration('1h')"}),
    "anything is no boolean": validations({"expression": "object.spec.x"}),
    "a syntax error": validations({"expression": "object.spec ="}),
    "an unknown variable": validations({"expression": "foo == 1"}),
    "an unknown field of the request": validations({"expression": "request.color == 'red'"}),
    "an unknown field of the namespace": validations({"expression": "namespaceObject.metadata.managedFields == null"}),
    "params without a kind": validations({"expression": "params.x == 1"}),
    "variables without any": validations({"expression": "variables.x == 1"}),
    "a message with a line break": validations({"expression": "true", "message": "a\nb"}),
    "a blank message": validations({"expression": "true", "message": "  "}),
    "a message expression that is no text": validations({"expression": "true", "messageExpression": "1"}),
    "a blank message expression": validations({"expression": "true", "messageExpression": " "}),
    "a message expression that asks for rights": validations(
        {"expression": "true", "messageExpression": "authorizer.path('/x').check('get').reason()"}
    ),
    "an unknown reason": validations({"expression": "true", "reason": "Because"}),
    "unauthorized is no reason": validations({"expression": "true", "reason": "Unauthorized"}),
    "a constant that fails": validations({"expression": "int('x') == 1"}),
    "a condition without a name": conditions({"expression": "true"}),
    "a condition with a bad name": conditions({"name": "a b", "expression": "true"}),
    "two conditions of a name": conditions({"name": "a", "expression": "true"}, {"name": "a", "expression": "true"}),
    "a condition without an expression": conditions({"name": "a", "expression": ""}),
    "a condition that is no boolean": conditions({"name": "a", "expression": "1"}),
    "a condition with variables": {
        **conditions({"name": "a", "expression": "variables.x"}),
        **variables({"name": "x", "expression": "true"}),
    },
    "too many conditions": conditions(*({"name": f"c{index}", "expression": "true"} for index in range(65))),
    "a variable without a name": variables({"expression": "1"}),
    "a variable with a word for a name": variables({"name": "for", "expression": "1"}),
    "a variable with a bad name": variables({"name": "a-b", "expression": "1"}),
    "a variable without an expression": variables({"name": "a"}),
    "a variable that is not declared yet": variables(
        {"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}
    ),
    "a variable of another type": {
        **variables({"name": "a", "expression": "['x']"}),
        **validations({"expression": "variables.a == 1"}),
    },
    "a variable that is a list": {
        **variables({"name": "a", "expression": "['x']"}),
        **validations({"expression": "variables.a.all(each, each.startsWith('x'))"}),
    },
    "neither validations nor annotations": {"validations": []},
    "an annotation": {"validations": [], "auditAnnotations": [{"key": "k", "valueExpression": "'v'"}]},
    "an annotation that may be null": {"auditAnnotations": [{"key": "k", "valueExpression": "null"}]},
    "an annotation that is a number": {"auditAnnotations": [{"key": "k", "valueExpression": "1"}]},
    "an annotation with a bad key": {"auditAnnotations": [{"key": "a b", "valueExpression": "'v'"}]},
    "an annotation without a value": {"auditAnnotations": [{"key": "k", "valueExpression": ""}]},
    "an annotation twice": {
        "auditAnnotations": [{"key": "k", "valueExpression": "'v'"}, {"key": "k", "valueExpression": "'w'"}]
    },
    "params without a version": {"paramKind": {"kind": "ConfigMap"}},
    "params without a kind's name": {"paramKind": {"apiVersion": "v1"}},
    "params of too many parts": {"paramKind": {"apiVersion": "a/b/c", "kind": "X"}},
    "params of a bad group": {"paramKind": {"apiVersion": "A!/v1", "kind": "X"}},
    "params of a bad kind": {"paramKind": {"apiVersion": "v1", "kind": "X!"}},
    "all libraries": validations(
        {"expression": "quantity('1Gi').isGreaterThan(quantity('1Mi')) && semver('1.2.3').major() == 1"},
        {"expression": "url('https://a/b').getHost() == 'a' && ip('10.0.0.1').family() == 4"},
        {"expression": "[1, 2].sum() == 3 && 'abc'.find('b') == 'b' && optional.none().orValue(true)"},
        {"expression": "authorizer.group('').resource('pods').namespace('x').name('y').check('get').allowed()"},
        {"expression": "authorizer.serviceAccount('a', 'b').path('/x').check('get').reason() == ''"},
    ),
}
MUTATING_SPECS: dict[str, Tree] = {
    "fine": {},
    "nothing at all": {"matchConstraints": None, "mutations": None, "reinvocationPolicy": ""},
    "deletions": with_rule(operations=["DELETE"]),
    "no mutations": {"mutations": []},
    "no patch type": {"mutations": [{}]},
    "an unknown patch type": {"mutations": [{"patchType": "Glue"}]},
    "a patch type without its part": {"mutations": [{"patchType": "JSONPatch"}]},
    "a patch type with the other part": {
        "mutations": [{"patchType": "JSONPatch", "applyConfiguration": {"expression": "Object{}"}}]
    },
    "both parts": {
        "mutations": [
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": "Object{}"},
                "jsonPatch": {"expression": "[]"},
            }
        ]
    },
    "an empty expression": {"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": ""}}]},
    "an apply configuration that is a map": {
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "{'a': 'b'}"}}]
    },
    "an apply configuration of a part": {
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object.spec{}"}}]
    },
    "a patch that is no list": {
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "JSONPatch{op: 'add', path: '/a'}"}}]
    },
    "a patch with a number for a path": {
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: 1}]"}}]
    },
    "an unknown reinvocation policy": {"reinvocationPolicy": "Always"},
}
BINDING_SPECS: dict[str, Tree] = {
    "fine": {},
    "no policy": {"policyName": ""},
    "a bad name": {"policyName": "A b"},
    "no actions": {"validationActions": []},
    "an unknown action": {"validationActions": ["Shout"]},
    "an action twice": {"validationActions": ["Deny", "Deny"]},
    "deny and warn": {"validationActions": ["Deny", "Warn"]},
    "params by nothing": {"paramRef": {"parameterNotFoundAction": "Deny"}},
    "params by name and selector": {"paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}},
    "params by a bad name": {"paramRef": {"name": "a/b", "parameterNotFoundAction": "Deny"}},
    "no word about missing params": {"paramRef": {"name": "a"}},
    "an unknown word about missing params": {"paramRef": {"name": "a", "parameterNotFoundAction": "Shrug"}},
    "a rule that matches nothing": {"matchResources": {"resourceRules": [{}]}},
}


def objects() -> Iterator[Tree]:
    for kind, default, specs in ((VALIDATING, OK, VALIDATING_SPECS), (MUTATING, OK_CHANGE, MUTATING_SPECS)):
        for name, change in specs.items():
            spec = {key: value for key, value in {**default, **change}.items() if value is not None}
            yield post(f"{kind}: {name}", *policy(kind, "x", spec), query="dryRun=All")
    for name, change in BINDING_SPECS.items():
        yield post(f"binding: {name}", *binding(VALIDATING, "x", {**OK_BINDING, **change}), query="dryRun=All")
    deletes = {"policyName": "x", "matchResources": {"resourceRules": [rule(operations=["DELETE"])]}}
    yield post("binding of changes: deletions", *binding(MUTATING, "x", deletes), query="dryRun=All")


# -- what policies do


def make(name: str, color: str, **metadata: Any) -> Tree:
    return config_map(name, {"color": color}, **metadata)


RED = {"expression": "object.data.color != 'red'"}
BIG = "[0,1,2,3,4,5,6,7,8,9]"
EXPENSIVE = "".join(f"{BIG}.all({each}, " for each in "abcdef") + "true))))))"
PARAMS = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
Case = tuple[Tree, Tree, list[Tree]]
"""What a policy says, what its binding says beside the name and the actions, and objects to create."""
BLUE_RED = [make("blue", "blue"), make("red", "red")]


def limit(name: str, **ref: Any) -> Tree:
    return {"paramRef": {"parameterNotFoundAction": "Deny", "name": name, **ref}}


CASES: dict[str, Case] = {
    "plain": (validations(RED), {}, BLUE_RED),
    "message": (validations({**RED, "message": " no red "}), {}, BLUE_RED),
    "message-expression": (
        validations({**RED, "message": "no", "messageExpression": "'not ' + object.data.color + '!'"}),
        {},
        BLUE_RED,
    ),
    "message-expression-fails": (
        validations({**RED, "message": "no", "messageExpression": "string(object.data.nothing)"}),
        {},
        BLUE_RED,
    ),
    "message-expression-blank": (validations({**RED, "messageExpression": "'  '"}), {}, BLUE_RED),
    "message-expression-two-lines": (
        validations({**RED, "message": "no", "messageExpression": "'a\\nb'"}),
        {},
        BLUE_RED,
    ),
    "forbidden": (validations({**RED, "reason": "Forbidden"}), {}, BLUE_RED),
    "too-large": (validations({**RED, "reason": "RequestEntityTooLarge"}), {}, BLUE_RED),
    "two": (validations(RED, {"expression": "size(object.metadata.name) > 5", "message": "short"}), {}, BLUE_RED),
    "warn": (validations({**RED, "message": "no red"}), {"validationActions": ["Warn"]}, BLUE_RED),
    "audit": (validations(RED), {"validationActions": ["Audit"]}, BLUE_RED),
    "error": (validations({"expression": "object.data.size == '1'"}), {}, BLUE_RED),
    "error-ignored": (
        {**validations({"expression": "object.data.size == '1'"}, RED), "failurePolicy": "Ignore"},
        {},
        BLUE_RED,
    ),
    "error-warned": (
        validations({"expression": "object.data.size == '1'"}),
        {"validationActions": ["Warn"]},
        BLUE_RED,
    ),
    "index-error": (validations({"expression": "[1][5] == 1"}), {}, BLUE_RED),
    "expensive": (validations({"expression": EXPENSIVE}), {}, BLUE_RED),
    "variables": (
        {
            **variables(
                {"name": "color", "expression": "object.data.color"},
                {"name": "loud", "expression": "variables.color.upperAscii()"},
            ),
            **validations({"expression": "variables.loud != 'RED'", "messageExpression": "variables.loud"}),
        },
        {},
        BLUE_RED,
    ),
    "variable-fails": (
        {
            **variables({"name": "size", "expression": "object.data.size"}),
            **validations({"expression": "variables.size == '1'"}),
        },
        {},
        BLUE_RED,
    ),
    "conditions": (
        {**conditions({"name": "only-blue", "expression": "object.data.color == 'blue'"}), **validations(RED)},
        {},
        BLUE_RED,
    ),
    "condition-fails": (
        {**conditions({"name": "size", "expression": "object.data.size == '1'"}), **validations(RED)},
        {},
        BLUE_RED,
    ),
    "conditions-fail": (
        {
            **conditions(
                {"name": "size", "expression": "object.data.size == '1'"},
                {"name": "place", "expression": "object.data.place == '1'"},
            ),
            **validations(RED),
        },
        {},
        BLUE_RED,
    ),
    "request": (
        validations(
            {
                "expression": "request.operation == 'READ'",
                "messageExpression": "request.operation + ' ' + request.kind.kind + ' ' + request.resource.resource"
                " + ' ' + request.name + ' ' + request.namespace + ' ' + request.userInfo.username + ' '"
                " + string(request.dryRun) + ' ' + string(has(request.subResource))",
            }
        ),
        {},
        [make("blue", "blue")],
    ),
    "namespace": (
        validations(
            {
                "expression": "namespaceObject.metadata.labels['policy'] == 'x'",
                "messageExpression": "namespaceObject.metadata.name + ' ' + namespaceObject.status.phase",
            }
        ),
        {},
        [make("blue", "blue")],
    ),
    "rights": (
        validations(
            {"expression": "authorizer.requestResource.check('custom').allowed()", "message": "admins may"},
            {
                "expression": "authorizer.serviceAccount('default', 'nobody').group('').resource('pods')"
                ".namespace('default').check('delete').allowed()",
                "message": "nobody may not",
            },
        ),
        {},
        [make("blue", "blue")],
    ),
    "params": (
        {**PARAMS, **validations({"expression": "object.data.color != params.data.color", "message": "as params"})},
        limit("red", namespace="default"),
        BLUE_RED,
    ),
    "params-here": (
        {**PARAMS, **validations({"expression": "object.data.color != params.data.color", "message": "as params"})},
        limit("limit"),
        [make("limit", "red"), *BLUE_RED],
    ),
    "params-missing": ({**PARAMS, **validations(RED)}, limit("nowhere", namespace="default"), BLUE_RED),
    "params-missing-allowed": (
        {**PARAMS, **validations(RED)},
        limit("nowhere", namespace="default", parameterNotFoundAction="Allow"),
        BLUE_RED,
    ),
    "params-missing-ignored": (
        {**PARAMS, **validations(RED), "failurePolicy": "Ignore"},
        limit("nowhere", namespace="default"),
        BLUE_RED,
    ),
    "params-selected": (
        {
            **PARAMS,
            **validations(
                {
                    "expression": "object.data.color != params.data.color",
                    "messageExpression": "'as ' + params.metadata.name",
                }
            ),
        },
        {
            "paramRef": {
                "parameterNotFoundAction": "Deny",
                "namespace": "default",
                "selector": {"matchLabels": {"limit": "yes"}},
            }
        },
        BLUE_RED,
    ),
    "params-null": (
        {**PARAMS, **validations({"expression": "params == null", "message": "no params"})},
        {},
        [make("blue", "blue")],
    ),
    "params-of-unknown-kind": (
        {"paramKind": {"apiVersion": "example.com/v1", "kind": "Limit"}, **validations(RED)},
        limit("x"),
        [make("blue", "blue")],
    ),
    "params-of-cluster-in-namespace": (
        {"paramKind": {"apiVersion": "v1", "kind": "Node"}, **validations(RED)},
        limit("x", namespace="default"),
        [make("blue", "blue")],
    ),
    "annotations": (
        {"validations": [], "auditAnnotations": [{"key": "color", "valueExpression": "string(object.data.color)"}]},
        {},
        BLUE_RED,
    ),
    "annotation-fails": (
        {"validations": [], "auditAnnotations": [{"key": "size", "valueExpression": "string(object.data.size)"}]},
        {},
        BLUE_RED,
    ),
    "names": (
        {"matchConstraints": {"resourceRules": [rule(resourceNames=["red"])]}, **validations(RED)},
        {},
        [*BLUE_RED, make("other", "red")],
    ),
    "excluded": (
        {
            "matchConstraints": {
                "resourceRules": [rule()],
                "excludeResourceRules": [rule(resourceNames=["red"])],
            },
            **validations(RED),
        },
        {},
        [*BLUE_RED, make("other", "red")],
    ),
    "labelled": (
        {
            "matchConstraints": {
                "resourceRules": [rule()],
                "objectSelector": {"matchLabels": {"judge": "me"}},
            },
            **validations(RED),
        },
        {},
        [make("red", "red"), make("other", "red", labels={"judge": "me"})],
    ),
    "bound-labelled": (
        validations(RED),
        {"matchResources": {"objectSelector": {"matchLabels": {"judge": "me"}}}},
        [make("red", "red"), make("other", "red", labels={"judge": "me"})],
    ),
    "numbers": (
        validations(
            {"expression": "object.metadata.annotations.all(k, int(object.metadata.annotations[k]) < 5)"},
            {"expression": "has(object.metadata.labels) && 'a' in object.metadata.labels", "message": "a label a"},
            {"expression": "!has(object.metadata.creationTimestamp) || object.metadata.creationTimestamp != ''"},
        ),
        {},
        [make("blue", "blue", annotations={"x": "3"}), make("red", "red", annotations={"x": "7"}, labels={"a": ""})],
    ),
    "generated": (
        validations({"expression": "false", "messageExpression": "string(object.metadata.?name.orValue('none'))"}),
        {},
        [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fixed", "generateName": "made-"}}],
    ),
}


def label(key: str, value: str) -> str:
    return f"Object{{metadata: Object.metadata{{labels: {{'{key}': {value}}}}}}}"


def applied(*expressions: str, **more: Any) -> Tree:
    mutations = [
        {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": each}} for each in expressions
    ]
    return {"mutations": mutations, **more}


def patched(*expressions: str, **more: Any) -> Tree:
    return {
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": each}} for each in expressions],
        **more,
    }


CONTAINERS = {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": CONTAINERS}
PODS = {"matchConstraints": {"resourceRules": [rule("pods")]}}
CHANGES: dict[str, Case] = {
    "set-label": (applied(label("a", "object.data.color")), {}, BLUE_RED),
    "set-two": (applied(label("a", "'1'"), label("b", "object.metadata.labels.a + '2'")), {}, [make("blue", "blue")]),
    "set-data": (applied("Object{data: {'extra': 'yes'}}"), {}, [make("blue", "blue")]),
    "set-env": (
        {
            **PODS,
            **applied(
                "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'd', env:"
                " [Object.spec.containers.env{name: 'A', value: 'b'}]}]}}"
            ),
        },
        {},
        [POD],
    ),
    "set-sidecar": (
        {
            **PODS,
            **applied(
                "Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: 'side', image: 's',"
                " restartPolicy: 'Always'}]}}"
            ),
        },
        {},
        [POD],
    ),
    "set-unknown": (applied("Object{spec: Object.spec{x: 1}}"), {}, [make("blue", "blue")]),
    "set-wrong-type-name": (
        applied("Object{metadata: Object.spec{labels: {'a': 'b'}}}"),
        {},
        [make("blue", "blue")],
    ),
    "set-atomic": (
        {**PODS, **applied("Object{spec: Object.spec{nodeSelector: {'a': 'b'}}}")},
        {},
        [POD],
    ),
    "set-fails": (applied(label("a", "object.data.size")), {}, [make("blue", "blue")]),
    "set-fails-ignored": (
        applied(label("a", "object.data.size"), failurePolicy="Ignore"),
        {},
        [make("blue", "blue")],
    ),
    "patch-add": (
        patched("[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('a~b/c'), value: object.data.color}]"),
        {},
        [make("blue", "blue")],
    ),
    "patch-test": (
        patched(
            "[JSONPatch{op: 'test', path: '/data/color', value: 'red'},"
            " JSONPatch{op: 'replace', path: '/data/color', value: 'pink'}]"
        ),
        {},
        BLUE_RED,
    ),
    "patch-missing": (patched("[JSONPatch{op: 'remove', path: '/data/size'}]"), {}, [make("blue", "blue")]),
    "patch-object": (
        patched("[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}}]"),
        {},
        [make("blue", "blue")],
    ),
    "patch-unknown-field": (
        patched("[JSONPatch{op: 'add', path: '/nonsense', value: 'x'}]"),
        {},
        [make("blue", "blue")],
    ),
    "change-conditions": (
        {**conditions({"name": "red", "expression": "object.data.color == 'red'"}), **applied(label("a", "'b'"))},
        {},
        BLUE_RED,
    ),
    "change-condition-fails": (
        {**conditions({"name": "red", "expression": "object.data.size == '1'"}), **applied(label("a", "'b'"))},
        {},
        [make("blue", "blue")],
    ),
    "change-variables": (
        {**variables({"name": "c", "expression": "object.data.color"}), **applied(label("a", "variables.c"))},
        {},
        [make("blue", "blue")],
    ),
    "change-params": (
        {**PARAMS, **applied(label("a", "params.data.color"))},
        limit("red", namespace="default"),
        [make("blue", "blue")],
    ),
    "change-params-missing": (
        {**PARAMS, **applied(label("a", "'b'"))},
        limit("nowhere", namespace="default"),
        [make("blue", "blue")],
    ),
    "change-params-unknown": (
        {"paramKind": {"apiVersion": "example.com/v1", "kind": "Limit"}, **applied(label("a", "'b'"))},
        limit("x"),
        [make("blue", "blue")],
    ),
    "change-expensive": (
        applied(f"{EXPENSIVE} ? {label('a', repr('b'))} : Object{{}}"),
        {},
        [make("blue", "blue")],
    ),
}


def setup() -> Iterator[Tree]:
    params = [make("red", "red", labels={"limit": "yes"}), make("blue", "blue", labels={"limit": "yes"})]
    for each in params:
        yield post(f"param-{each['metadata']['name']}", "/api/v1/namespaces/default/configmaps", each)
    for kind, cases in ((VALIDATING, CASES), (MUTATING, CHANGES)):
        for name, (said, bound, _) in cases.items():
            labels = {"policy": name}
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            yield post(f"namespace-{name}", "/api/v1/namespaces", space)
            spec = {"matchConstraints": {"resourceRules": [rule()]}, **said}
            spec["matchConstraints"] = {**spec["matchConstraints"], "namespaceSelector": {"matchLabels": labels}}
            if kind == MUTATING:
                spec.setdefault("reinvocationPolicy", "Never")
            yield post(f"policy-{name}", *policy(kind, name, spec))
            actions = {"validationActions": ["Deny"]} if kind == VALIDATING else {}
            yield post(f"binding-{name}", *binding(kind, f"{name}-b", {"policyName": name, **actions, **bound}))


def questions() -> Iterator[Tree]:
    for cases in (CASES, CHANGES):
        for name, (_, _, made) in cases.items():
            for each in made:
                plural = f"{each['kind'].lower()}s"
                yield post(f"{name}: {each['metadata']['name']}", f"/api/v1/namespaces/{name}/{plural}", each)


if __name__ == "__main__":
    for request in {"objects": objects, "setup": setup, "questions": questions}[sys.argv[1]]():
        print(json.dumps(request))
