"""Requests about FlowSchemas and PriorityLevelConfigurations, for ``tools/record_requests.py``.

    PYTHONPATH=tests python -m conformance.recording.flow_control > requests.jsonl
    python tools/record_requests.py requests.jsonl --server https://127.0.0.1:6443 --token T > …/flow-control.jsonl

The server is a fresh kube-apiserver (shared/real/control-plane.sh starts one). Recorded from v1.37.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

from conformance.recording.namespace_rules import Tree, post

ROOT = "/apis/flowcontrol.apiserver.k8s.io/v1"
SCHEMAS, LEVELS = f"{ROOT}/flowschemas", f"{ROOT}/prioritylevelconfigurations"
DEFAULT_SCHEMAS = ["catch-all", "exempt", "global-default", "kube-controller-manager", "kube-scheduler"]
DEFAULT_SCHEMAS += ["kube-system-service-accounts", "probes", "service-accounts", "system-leader-election"]
DEFAULT_SCHEMAS += ["system-node-high", "system-nodes"]
DEFAULT_LEVELS = ["catch-all", "exempt", "global-default", "leader-election", "node-high", "system"]
DEFAULT_LEVELS += ["workload-high", "workload-low"]


def get(path: str, *, settles: float = 0) -> Tree:
    return {"id": f"get{path.removeprefix(ROOT)}", "method": "GET", "path": path, "body": None, "settles": settles}


def schema(name: str, **spec: Any) -> Tree:
    metadata = {"name": name}
    body = {"apiVersion": ROOT.removeprefix("/apis/"), "kind": "FlowSchema", "metadata": metadata, "spec": spec}
    return post(f"schema-{name}", SCHEMAS, body)


def level(name: str, **spec: Any) -> Tree:
    body = {"apiVersion": ROOT.removeprefix("/apis/"), "kind": "PriorityLevelConfiguration"}
    return post(f"level-{name}", LEVELS, {**body, "metadata": {"name": name}, "spec": spec})


def named(name: str) -> Tree:
    return {"priorityLevelConfiguration": {"name": name}}


def rule(subjects: list[Tree], resources: list[Tree] | None = None, paths: list[Tree] | None = None) -> Tree:
    return {"subjects": subjects, "resourceRules": resources or [], "nonResourceRules": paths or []}


def schemas() -> Iterator[Tree]:
    yield schema("smallest", **named("global-default"))
    yield get(f"{SCHEMAS}/smallest", settles=2)
    yield schema("dangling", **named("nowhere"), distinguisherMethod={"type": "ByUser"})
    yield get(f"{SCHEMAS}/dangling", settles=2)
    yield schema("without-level")
    yield schema("bad-level", **named("Not A Name"))
    yield schema("too-low", **named("x"), matchingPrecedence=-1)
    yield schema("too-high", **named("x"), matchingPrecedence=10001)
    yield schema("first", **named("x"), matchingPrecedence=1)
    yield schema("method", **named("x"), distinguisherMethod={"type": "ByHat"})
    users = [{"kind": "User", "user": {"name": "u"}}]
    every = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
    path = {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/metrics/*"]}
    yield schema("rules", **named("x"), rules=[rule(users, [every], [path])])
    yield schema("empty-rule", **named("x"), rules=[rule([])])
    subjects: list[Tree] = [
        {"kind": "User"},
        {"kind": "User", "user": {"name": ""}, "group": {"name": "g"}},
        {"kind": "Group", "group": {"name": ""}, "serviceAccount": {"name": "a", "namespace": "n"}},
        {"kind": "ServiceAccount", "serviceAccount": {"name": "", "namespace": ""}},
        {"kind": "ServiceAccount", "serviceAccount": {"name": "A B", "namespace": "a.b"}, "user": {"name": "u"}},
        {"kind": "Dog"},
    ]
    yield schema("subjects", **named("x"), rules=[rule(subjects, [every])])
    resources: list[Tree] = [
        {"verbs": [], "apiGroups": [], "resources": [], "namespaces": []},
        {"verbs": ["*", "get"], "apiGroups": ["*", ""], "resources": ["*", "pods"], "namespaces": ["*", "a"]},
        {"verbs": ["eat"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["a.b"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "clusterScope": True},
    ]
    yield schema("resources", **named("x"), rules=[rule(users, resources)])
    urls: list[list[str]] = [[], ["*", "/a"], ["", "a", "/a b", "/a//b", "/*/b", "/a*", "/", "/a/*"]]
    paths = [{"verbs": ["get"], "nonResourceURLs": each} for each in urls]
    yield schema("paths", **named("x"), rules=[rule(users, None, paths)])
    body = {"spec": {"matchingPrecedence": 2}}
    yield {**get(f"{SCHEMAS}/exempt"), "id": "change-exempt", "method": "PATCH", "body": body, "content_type": MERGE}


def levels() -> Iterator[Tree]:
    reject = {"type": "Reject"}
    queue: dict[str, Any] = {"type": "Queue"}
    yield level("smallest", type="Limited", limited={"limitResponse": reject})
    yield level("queued", type="Limited", limited={"limitResponse": {**queue, "queuing": {}}})
    yield level("zero", type="Limited", limited={"nominalConcurrencyShares": 0, "limitResponse": reject})
    yield level("without-type")
    yield level("other-type", type="Free")
    yield level("exempt-too", type="Exempt")
    yield level("without-limits", type="Limited")
    yield level("both", type="Limited", limited={"limitResponse": reject}, exempt={})
    yield level("without-response", type="Limited", limited={})
    yield level("other-response", type="Limited", limited={"limitResponse": {"type": "Wait"}})
    yield level("without-queues", type="Limited", limited={"limitResponse": queue})
    yield level("queues-to-reject", type="Limited", limited={"limitResponse": {**reject, "queuing": {}}})
    numbers = {"nominalConcurrencyShares": -1, "lendablePercent": 101, "borrowingLimitPercent": -1}
    yield level("numbers", type="Limited", limited={**numbers, "limitResponse": reject})
    for name, queuing in (
        ("negative", {"queues": -1, "handSize": -1, "queueLengthLimit": -1}),
        ("many", {"queues": 10_000_001, "handSize": 1, "queueLengthLimit": 1}),
        ("hand", {"queues": 4, "handSize": 5, "queueLengthLimit": 1}),
        ("bits", {"queues": 512, "handSize": 8, "queueLengthLimit": 1}),
    ):
        yield level(name, type="Limited", limited={"limitResponse": {**queue, "queuing": queuing}})
    for name, body in (("exempt", {"spec": {"exempt": {"lendablePercent": 50}}}), ("catch-all", {"spec": LESS})):
        yield {
            **get(f"{LEVELS}/{name}"),
            "id": f"change-{name}-level",
            "method": "PATCH",
            "body": body,
            "content_type": MERGE,
        }


MERGE = "application/merge-patch+json"
LESS: Tree = {"limited": {"nominalConcurrencyShares": 1}}


def main() -> None:
    cases = [get(f"{SCHEMAS}/{name}", settles=2 if name == "catch-all" else 0) for name in DEFAULT_SCHEMAS]
    cases += [get(f"{LEVELS}/{name}") for name in DEFAULT_LEVELS]
    for case in (*cases, *schemas(), *levels()):
        sys.stdout.write(json.dumps(case) + "\n")


if __name__ == "__main__":
    main()
