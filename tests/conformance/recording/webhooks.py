"""Records what Kubernetes answers about webhook configurations, and to requests that webhooks have a say in.

    PYTHONPATH=tests python tests/conformance/recording/webhooks.py KUBECONFIG > …/data/api/webhooks.jsonl

KUBECONFIG is that of a fresh kube-apiserver that takes a token (shared/real/control-plane.sh starts one). Recorded from
v1.37. A line has the form of api/requests.jsonl, with `reviews` where webhooks were asked about all that happens;
requests are made in order. The webhook is ``scripted_webhook.py``, whose address and authority are recorded as
placeholders. Most webhooks are asked about the objects alone that have a label with their name, so that all of them can
be there at once. `requests()` returns all of them.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conformance.recording.custom_resources import Server, Tree, steady
from scripted_webhook import ANSWERS, AUTHORITY, PLACE, ScriptedWebhook

GROUP = "/apis/admissionregistration.k8s.io/v1"
VALIDATING = f"{GROUP}/validatingwebhookconfigurations"
MUTATING = f"{GROUP}/mutatingwebhookconfigurations"
MAPS = "/api/v1/namespaces/default/configmaps"
DRY = "dryRun=All"
RULE: Tree = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


def place(path: str) -> Tree:
    return {"url": f"https://{PLACE}{path}", "caBundle": AUTHORITY}


def hook(name: str, /, **changes: Any) -> Tree:
    """Return a webhook that is asked about config maps with the label of its name; None takes a field away."""
    made = {
        "name": f"{name}.recorded.example.com",
        "clientConfig": place(f"/{name}"),
        "rules": [RULE],
        "objectSelector": {"matchLabels": {"webhook": name}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **changes,
    }
    return {key: value for key, value in made.items() if value is not None}


def configuration(kind: str, name: str, *webhooks: Tree) -> Tree:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }


def post(name: str, path: str, body: Tree, query: str = "") -> Tree:
    return {"id": name, "method": "POST", "path": path, "query": query, "body": body}


def config_map(label: str, name: str = "", **other: Any) -> Tree:
    metadata = {"name": name or f"of-{label}", "labels": {"webhook": label}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}, **other}


# -- what configurations may say


def odd_webhooks() -> Iterator[tuple[str, list[Tree]]]:
    """Webhooks by what is odd about them; some are right."""
    service = {"name": "s", "namespace": "n"}
    yield "plain", [hook("a")]
    yield "none", []
    yield "no-name", [hook("a", name="")]
    yield "short-name", [hook("a", name="a.b")]
    yield "bad-name", [hook("a", name="A_b.example.com")]
    yield "same-names", [hook("a"), hook("a")]
    yield "no-side-effects", [hook("a", sideEffects=None)]
    yield "some-side-effects", [hook("a", sideEffects="Some")]
    yield "on-dry-run", [hook("a", sideEffects="NoneOnDryRun")]
    yield "no-reviews", [hook("a", admissionReviewVersions=None)]
    yield "empty-reviews", [hook("a", admissionReviewVersions=[])]
    yield "unknown-reviews", [hook("a", admissionReviewVersions=["v2", "v2", "V3"])]
    yield "both-reviews", [hook("a", admissionReviewVersions=["v1beta1", "v1"])]
    yield "failure-policy", [hook("a", failurePolicy="Maybe")]
    yield "empty-failure-policy", [hook("a", failurePolicy="")]
    yield "match-policy", [hook("a", matchPolicy="Roughly")]
    yield "timeout-0", [hook("a", timeoutSeconds=0)]
    yield "timeout-31", [hook("a", timeoutSeconds=31)]
    yield "timeout-30", [hook("a", timeoutSeconds=30)]
    yield "namespace-selector", [hook("a", namespaceSelector={"matchLabels": {"a b": "c d"}})]
    yield "object-selector", [hook("a", objectSelector={"matchExpressions": [{"key": "a", "operator": "Near"}]})]
    yield "no-client", [hook("a", clientConfig={})]
    yield "two-clients", [hook("a", clientConfig={**place("/a"), "service": service})]
    yield "http", [hook("a", clientConfig={"url": "http://u:p@x/y?z=1#f"})]
    yield "no-host", [hook("a", clientConfig={"url": "https:///x"})]
    yield "no-url", [hook("a", clientConfig={"url": ""})]
    yield "service", [hook("a", clientConfig={"service": service})]
    yield "service-without-name", [hook("a", clientConfig={"service": {"namespace": "n"}})]
    yield "service-without-namespace", [hook("a", clientConfig={"service": {"name": "n"}})]
    yield "service-port", [hook("a", clientConfig={"service": {**service, "port": 70000}})]
    yield "service-port-0", [hook("a", clientConfig={"service": {**service, "port": 0}})]
    for index, path in enumerate(("a", "//", "/a//b", "/A", "/a/", "/")):
        yield f"service-path-{index}", [hook("a", clientConfig={"service": {**service, "path": path}})]
    yield "bad-authority", [hook("a", clientConfig={"url": "https://x", "caBundle": "bm8="})]
    yield "no-rules", [hook("a", rules=[])]
    for name, change in odd_rules():
        yield f"rule-{name}", [hook("a", rules=[{**RULE, **change}])]
    for name, conditions in odd_conditions():
        yield f"condition-{name}", [hook("a", matchConditions=conditions)]


def odd_rules() -> Iterator[tuple[str, Tree]]:
    yield "no-operations", {"operations": []}
    yield "unknown-operation", {"operations": ["CREATE", "create"]}
    yield "star-operations", {"operations": ["*", "CREATE"]}
    yield "no-groups", {"apiGroups": []}
    yield "star-groups", {"apiGroups": ["*", "apps"]}
    yield "no-versions", {"apiVersions": []}
    yield "empty-version", {"apiVersions": ["v1", ""]}
    yield "star-versions", {"apiVersions": ["*", "v1"]}
    yield "no-resources", {"resources": []}
    yield "empty-resource", {"resources": ["pods", ""]}
    yield "star-resources", {"resources": ["*", "pods"]}
    yield "star-and-parts", {"resources": ["*", "pods/log"]}
    yield "star-before", {"resources": ["pods", "*"]}
    yield "all-parts", {"resources": ["pods/*", "pods/log"]}
    yield "part-of-all", {"resources": ["*/scale", "deployments/scale"]}
    yield "everything", {"resources": ["*/*", "pods"]}
    yield "scope", {"scope": "Galaxy"}
    yield "scope-cluster", {"scope": "Cluster"}
    yield "reviews", {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"]}


def odd_conditions() -> Iterator[tuple[str, list[Tree]]]:
    def one(expression: str, name: str = "c") -> list[Tree]:
        return [{"name": name, "expression": expression}]

    yield "good", one("request.userInfo.username != 'admin'")
    yield "has", one("has(object.metadata.labels) && object.metadata.labels['a'] == 'b'")
    yield "old", one("oldObject == null || oldObject.metadata.name == 'x'")
    yield "authorizer", one("authorizer.group('').resource('pods').namespace('x').check('get').allowed()")
    yield "own-resource", one("authorizer.requestResource.check('get').allowed()")
    yield "syntax", one("object.")
    yield "number", one("1 + 1")
    yield "dynamic", one("object.a")
    yield "unknown-variable", one("params.a == 1")
    yield "namespace-object", one("namespaceObject.metadata.name == 'a'")
    yield "variables", one("variables.a")
    yield "unknown-field", one("request.color == 'green'")
    yield "empty", one("")
    yield "blank", one("  ")
    yield "no-name", one("true", "")
    yield "bad-name", one("true", "a b")
    yield "same-names", [*one("true"), *one("false")]
    yield "many", [{"name": f"c{index}", "expression": "true"} for index in range(65)]
    yield "costly", one("object.a.all(x, object.a.all(y, object.a.all(z, x == y && y == z)))")


def validation() -> Iterator[Tree]:
    for name, webhooks in odd_webhooks():
        for kind, path in (("Validating", VALIDATING), ("Mutating", MUTATING)):
            yield post(f"{kind.lower()}-{name}", path, configuration(kind, "odd", *webhooks), DRY)
    for policy in ("Never", "IfNeeded", "Sometimes", ""):
        odd = configuration("Mutating", "odd", hook("a", reinvocationPolicy=policy))
        yield post(f"reinvocation-{policy or 'empty'}", MUTATING, odd, DRY)
    yield post("static-name", VALIDATING, configuration("Validating", "a.static.k8s.io", hook("a")), DRY)
    yield post("bad-metadata", VALIDATING, configuration("Validating", "Odd Name", hook("a")), DRY)


def updates() -> Iterator[Tree]:
    """Yield updates of configurations, which need the version that they change."""
    whole = configuration("Validating", "changed", hook("a", objectSelector={"matchLabels": {"webhook": "nobody"}}))
    yield post("update-create", VALIDATING, whole)
    yield change("update-without-version", "PUT", f"{VALIDATING}/changed", whole)
    json_patch = "application/json-patch+json"
    for name, operations in (
        ("generation", [{"op": "add", "path": "/webhooks/0/timeoutSeconds", "value": 7}]),
        ("labels-only", [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]),
        ("bad-condition", [{"op": "add", "path": "/webhooks/0/matchConditions", "value": [
            {"name": "c", "expression": "object."}]}]),
        ("bad-side-effects", [{"op": "replace", "path": "/webhooks/0/sideEffects", "value": "Some"}]),
    ):  # fmt: skip
        yield change(f"update-{name}", "PATCH", f"{VALIDATING}/changed", operations, json_patch)
    merged = {"webhooks": [{"name": "a.recorded.example.com", "failurePolicy": "Ignore"}]}
    strategic = "application/strategic-merge-patch+json"
    yield change("update-merged-by-name", "PATCH", f"{VALIDATING}/changed", merged, strategic)
    yield change("update-delete", "DELETE", f"{VALIDATING}/changed", None)


def change(name: str, method: str, path: str, body: Any, content_type: str = "") -> Tree:
    made = {"id": name, "method": method, "path": path, "query": "", "body": body}
    return {**made, "contentType": content_type} if content_type else made


# -- what is done with their answers

ONLY_MUTATING = {name for name in ANSWERS if "patch" in name} | {"/count", "/first", "/second"}
SLOW = "slow"


def validating_hooks() -> Iterator[Tree]:
    for path in ANSWERS:
        if path not in ONLY_MUTATING:
            yield hook(path[1:], **({"timeoutSeconds": 1} if path[1:] == SLOW else {}))
    yield hook("patching", clientConfig=place("/patch-label"))
    yield hook("typing", clientConfig=place("/type-without-patch"))
    yield hook("older-reviews", clientConfig=place("/deny-message"), admissionReviewVersions=["v1beta1"])
    yield hook("older-wrong-uid", clientConfig=place("/wrong-uid"), admissionReviewVersions=["v1beta1"])
    yield hook("ignored-slow", clientConfig=place("/slow"), timeoutSeconds=1, failurePolicy="Ignore")
    yield hook("ignored-500", clientConfig=place("/status-500"), failurePolicy="Ignore")
    yield hook("ignored-garbage", clientConfig=place("/not-json"), failurePolicy="Ignore")
    yield hook("ignored-denial", clientConfig=place("/deny-message"), failurePolicy="Ignore")
    yield hook("untrusted", clientConfig={"url": place("/allow")["url"]})
    yield hook("refused", clientConfig={"url": "https://127.0.0.1:1/allow"})
    yield hook("ignored-refused", clientConfig={"url": "https://127.0.0.1:1/allow"}, failurePolicy="Ignore")
    yield hook("no-service", clientConfig={"service": {"name": "absent", "namespace": "default"}})
    yield hook("no-port", clientConfig={"service": {"name": "there", "namespace": "default", "port": 99}})
    yield hook("creates", clientConfig=place("/deny-message"), rules=[{**RULE, "operations": ["CREATE"]}])
    yield hook("deletes", clientConfig=place("/deny-message"), rules=[{**RULE, "operations": ["DELETE"]}])
    yield hook("updates", clientConfig=place("/deny-message"), rules=[{**RULE, "operations": ["UPDATE"]}])
    yield hook("other-version", clientConfig=place("/deny-message"), rules=[{**RULE, "apiVersions": ["v2"]}])
    yield hook("cluster-scope", clientConfig=place("/deny-message"), rules=[{**RULE, "scope": "Cluster"}])
    yield hook("namespaced", clientConfig=place("/deny-message"), rules=[{**RULE, "scope": "Namespaced"}])
    labels = {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}
    yield hook("elsewhere", clientConfig=place("/deny-message"), namespaceSelector=labels)
    labels = {"matchLabels": {"kubernetes.io/metadata.name": "default"}}
    yield hook("in-default", clientConfig=place("/deny-message"), namespaceSelector=labels)
    for name, expression in (
        ("condition-rights", "authorizer.group('').resource('pods').namespace('default').check('get').allowed()"),
        ("condition-true", "object.metadata.name.startsWith('of-')"),
        ("condition-false", "object.metadata.name == 'x'"),
        ("condition-error", "object.data.absent == 'x'"),
        ("condition-user", "'system:masters' in request.userInfo.groups && request.operation == 'CREATE'"),
    ):
        condition = [{"name": "c", "expression": expression}]
        yield hook(name, clientConfig=place("/deny-message"), matchConditions=condition)
        if name == "condition-error":
            ignored = {"clientConfig": place("/deny-message"), "failurePolicy": "Ignore"}
            yield hook("condition-error-ignored", **ignored, matchConditions=condition)
            mixed = [*condition, {"name": "d", "expression": "false"}]
            yield hook("condition-error-and-false", clientConfig=place("/deny-message"), matchConditions=mixed)


def mutating_hooks() -> Iterator[Tree]:
    for path in ANSWERS:
        if path in ONLY_MUTATING - {"/count", "/first", "/second"}:
            yield hook(path[1:])
    yield hook("mutating-deny", clientConfig=place("/deny-message"))
    yield hook("mutating-refused", clientConfig={"url": "https://127.0.0.1:1/allow"})
    yield hook("mutating-ignored-refused", clientConfig={"url": "https://127.0.0.1:1/allow"}, failurePolicy="Ignore")
    yield hook("older-patch", clientConfig=place("/patch-without-type"), admissionReviewVersions=["v1beta1"])
    yield hook("patch-ignored-garbage", clientConfig=place("/patch-garbage"), failurePolicy="Ignore")
    yield hook("patch-ignored-missing", clientConfig=place("/patch-missing-path"), failurePolicy="Ignore")
    again = {"objectSelector": {"matchLabels": {"webhook": "again"}}}
    yield hook("again-first", clientConfig=place("/first"), reinvocationPolicy="IfNeeded", **again)
    yield hook("again-count", clientConfig=place("/count"), reinvocationPolicy="Never", **again)
    yield hook("again-second", clientConfig=place("/second"), **again)
    never = {"objectSelector": {"matchLabels": {"webhook": "never"}}}
    yield hook("never-first", clientConfig=place("/first"), **never)
    yield hook("never-second", clientConfig=place("/second"), **never)


def service(name: str, **spec: Any) -> Tree:
    ports = [{"port": 443, "targetPort": 8443}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": ports, **spec}}


def calls() -> Iterator[Tree]:
    yield post("call-service", "/api/v1/namespaces/default/services", service("there"))
    validating, mutating = [*validating_hooks()], [*mutating_hooks()]
    yield post("call-validating", VALIDATING, configuration("Validating", "recorded", *validating))
    yield post("call-mutating", MUTATING, configuration("Mutating", "recorded", *mutating))
    seen = set()
    for each in (*validating, *mutating):
        label = each["objectSelector"]["matchLabels"]["webhook"]
        if label not in seen:
            yield post(f"call-{label}", MAPS, config_map(label))
        seen.add(label)
    yield post("call-unlabelled", MAPS, config_map("nobody"))
    yield post("call-generated-name", MAPS, {**config_map("deny-message"), "metadata": {
        "generateName": "made-", "labels": {"webhook": "deny-message"}}})  # fmt: skip
    yield change("call-delete-denied", "DELETE", f"{MAPS}/of-deletes", None)
    yield change("call-delete-allowed", "DELETE", f"{MAPS}/of-updates", None)
    renamed = {"metadata": {"labels": {"webhook": "updates"}}}
    merge = "application/merge-patch+json"
    yield change("call-patch-into-selector", "PATCH", f"{MAPS}/of-allow", renamed, merge)
    unlabelled = {"metadata": {"labels": {"webhook": "updates2"}}, "data": {"c": "d"}}
    yield change("call-patch-allowed", "PATCH", f"{MAPS}/of-nobody", unlabelled, merge)
    yield post("call-dry-run", MAPS, config_map("deny-message", "dry"), DRY)
    yield post("call-invalid-before-validating", MAPS, config_map("deny-message", "Not Valid"))
    yield change("call-collection", "DELETE", f"{MAPS}?labelSelector=webhook%3Ddeletes", None)


# -- what webhooks are sent

SEEN = "/api/v1/namespaces/seen"
PODS = f"{SEEN}/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/seen/deployments"


def seeing() -> Iterator[Tree]:
    """Webhooks that are asked about all that happens in a namespace, and to it."""
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    seen = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["seen"]}]}
    whole = {"rules": [everything], "namespaceSelector": seen, "objectSelector": {}}
    yield post("see-mutating", MUTATING, configuration("Mutating", "seeing", hook("see", **whole)))
    yield post("see-validating", VALIDATING, configuration("Validating", "seeing", hook("see", **whole)))
    scales = [{**everything, "apiGroups": ["apps"], "resources": ["deployments/scale"]}]
    older = [{**everything, "apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "resources": ["events"]}]
    equivalent = hook("see", **{**whole, "rules": older})
    yield post("see-equivalent", VALIDATING, configuration("Validating", "equivalent", equivalent))
    exact = hook("see", **{**whole, "rules": [*older, *scales]}, matchPolicy="Exact")
    yield post("see-exact", VALIDATING, configuration("Validating", "exact", exact))


def pod(name: str, **spec: Any) -> Tree:
    container = {"name": "c", "image": "i"}
    made = {"containers": [container], "automountServiceAccountToken": False, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"a": "b"}}, "spec": made}


def deployment() -> Tree:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def event() -> Tree:
    about = {"kind": "Pod", "name": "p", "namespace": "seen"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": about, "type": "Normal"}


def happenings() -> Iterator[Tree]:
    merge, strategic = "application/merge-patch+json", "application/strategic-merge-patch+json"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "seen"}}
    yield post("seen-namespace", "/api/v1/namespaces", namespace)
    yield change(
        "seen-namespace-label", "PATCH", "/api/v1/namespaces/seen", {"metadata": {"labels": {"x": "y"}}}, merge
    )
    yield post("seen-account", f"{SEEN}/serviceaccounts", account)
    yield post("seen-create", PODS, pod("p"), "fieldManager=me&fieldValidation=Strict")
    generated = {**pod(""), "metadata": {"generateName": "made-", "labels": {"a": "b"}}}
    yield post("seen-generated", PODS, generated, DRY)
    yield change("seen-patch", "PATCH", f"{PODS}/p", {"metadata": {"labels": {"c": "d"}}}, strategic)
    yield change("seen-status", "PATCH", f"{PODS}/p/status", {"status": {"message": "m"}}, merge)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"},
    }
    yield post("seen-binding", f"{PODS}/p/binding", binding)
    yield change("seen-exec", "POST", f"{PODS}/p/exec?command=ls&command=-l&container=c&stdout=true", None)
    yield change("seen-attach", "GET", f"{PODS}/p/attach?container=c&stdin=true", None)
    yield change("seen-log", "GET", f"{PODS}/p/log", None)
    yield change("seen-proxy", "GET", f"{PODS}/p:80/proxy/x", None)
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a"]}}
    yield post("seen-token", f"{SEEN}/serviceaccounts/default/token", token)
    yield post("seen-deployment", DEPLOYMENTS, deployment())
    yield change("seen-scale", "PATCH", f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 3}}, merge)
    applied = {**deployment(), "spec": {**deployment()["spec"], "replicas": 4}}
    yield {**change("seen-apply", "PATCH", f"{DEPLOYMENTS}/web", applied, "application/apply-patch+yaml"),
           "query": "fieldManager=me&force=true"}  # fmt: skip
    yield post("seen-event", f"{SEEN}/events", event())
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    yield post("seen-dry-eviction", f"{PODS}/p/eviction", eviction, DRY)
    yield post("seen-eviction", f"{PODS}/p/eviction", eviction)
    gone = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground", "gracePeriodSeconds": 0}
    yield change("seen-delete", "DELETE", f"{DEPLOYMENTS}/web", gone)
    yield change("seen-collection", "DELETE", PODS, None)
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview",
              "metadata": {"namespace": "seen"},
              "spec": {"user": "u", "resourceAttributes": {"verb": "get", "namespace": "seen"}}}  # fmt: skip
    yield post("seen-review", "/apis/authorization.k8s.io/v1/namespaces/seen/localsubjectaccessreviews", review)
    yield change("seen-read", "GET", f"{SEEN}/configmaps", None)


def requests() -> Iterator[Tree]:
    yield from validation()
    yield from updates()
    yield from calls()
    yield from seeing()
    yield from happenings()


def reported(reviews: list[Tree]) -> list[Tree]:
    """Return what webhooks were sent, without what differs each time."""
    found = []
    for each in reviews:
        request = each["request"]
        del request["uid"]
        request["userInfo"].pop("uid", None)
        for name in ("object", "oldObject"):
            steady(request.get(name))
        found.append(each)
    return found


def main() -> None:
    server = Server(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder, ScriptedWebhook(Path(folder)) as webhook:
        for request in requests():
            sent = json.loads(webhook.named(json.dumps(request)))
            webhook.reviews.clear()
            code, warnings, body = server.ask(sent)
            if request["path"] in {VALIDATING, MUTATING} and not request["query"]:
                time.sleep(5)  # a server takes a while to notice
            recorded = {**request, "response": {"code": code, "warnings": warnings, "body": steady(body)}}
            if request["id"].startswith("seen-"):
                recorded["reviews"] = reported(webhook.reviews)
            print(webhook.unnamed(json.dumps(recorded)))


if __name__ == "__main__":
    main()
