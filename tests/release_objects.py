"""Objects for audits between two releases of Kubernetes, and what is found in them."""

from functools import cache
from typing import Any

from mooring.advisor import releases
from mooring.advisor.releases import Crossing, Finding
from mooring.advisor.snapshot import RawObject, Snapshot

Tree = dict[str, Any]
POD_SPEC: Tree = {"containers": [{"name": "web", "image": "web"}]}


def snapshot(*trees: Tree) -> Snapshot:
    raw = [
        RawObject(
            tree["apiVersion"],
            tree["kind"],
            tree["metadata"].get("namespace", ""),
            tree["metadata"]["name"],
            _tree=tree,
        )
        for tree in trees
    ]
    return Snapshot("a test", raw=raw)


between = cache(Crossing.between)
"""Two releases, compared once for all tests."""


def found(start: str, end: str, *trees: Tree) -> list[Finding]:
    return releases.audit(snapshot(*trees), between(start, end), plays=False).findings


def obj(api_version: str, kind: str, stored: bool = True, **rest: Any) -> Tree:
    metadata = {"name": "x", **({"uid": "1"} if stored else {}), **rest.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def deployment(**spec: Any) -> Tree:
    return obj("apps/v1", "Deployment", spec={"template": {"spec": {**POD_SPEC, **spec}}})


def with_rule(rule: str) -> Tree:
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "string", "maxLength": 10, "x-kubernetes-validations": [{"rule": rule}]},
        },
    }
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return obj(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", spec=spec, metadata={"name": "widgets.example.com"}
    )
