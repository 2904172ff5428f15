"""Manifests rewritten for the bridge say the same as before."""

from dataclasses import dataclass
from typing import Any

import pytest

from mooring.api import codec
from mooring.api.core_v1 import Pod
from mooring.bridge.convert import convert
from mooring.bridge.pods import find_problems
from mooring.constraints import annotations
from mooring.testing.builders import made

pytestmark = pytest.mark.req("B.10")

NUMBER = {"key": "sla", "operator": "Gt", "value": "950"}
STOCK = {"key": "x", "operator": "Exists"}
VERSION = {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["6.0"]}]}
ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["y"]}]}


def affinity(required: list[Any], preferred: list[Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if required:
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": required}
    if preferred:
        entries = [{"weight": 5, "preference": entry} for entry in preferred]
        found["preferredDuringSchedulingIgnoredDuringExecution"] = entries
    return {"nodeAffinity": found}


@dataclass(frozen=True)
class Case:
    name: str
    spec: dict[str, Any]
    left: dict[str, Any]
    """What stays in the spec."""


@pytest.mark.parametrize(
    "case",
    [
        Case(
            "tolerations behind the first new one go with it",
            {"tolerations": [STOCK, NUMBER, STOCK]},
            {"tolerations": [STOCK]},
        ),
        Case("the only toleration", {"tolerations": [NUMBER]}, {}),
        Case("alternatives stay together", {"affinity": affinity([ZONE, VERSION])}, {}),
        Case(
            "preferences go alone",
            {"affinity": affinity([ZONE], [ZONE, VERSION])},
            {"affinity": affinity([ZONE], [ZONE])},
        ),
        Case(
            "pod affinity is left alone",
            {"affinity": {**affinity([VERSION]), "podAffinity": {}}},
            {"affinity": {"podAffinity": {}}},
        ),
    ],
    ids=lambda case: case.name,
)
def test_what_a_pod_says_is_the_same_afterwards(case: Case) -> None:
    containers = [{"name": "c", "image": "i"}]
    tree = {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": containers, **codec.parse_json(codec.encode(case.spec))},
    }
    assert convert(tree)
    gates = [{"name": annotations.GATE}]
    assert tree["spec"] == {"containers": containers, **case.left, "schedulingGates": gates}
    rewritten = made(Pod, tree)
    assert find_problems(rewritten) == []
    said = annotations.as_in_spec(rewritten).spec
    original = made(Pod, {"metadata": {"name": "p"}, "spec": {"containers": containers, **case.spec}}).spec
    assert said.tolerations == original.tolerations
    wanted, found = (each.affinity and each.affinity.node_affinity for each in (original, said))
    assert codec.to_tree(wanted) == codec.to_tree(found)


@pytest.mark.parametrize(
    ("tree", "way"),
    [
        ({"kind": "Deployment", "spec": {"template": {"spec": {"tolerations": [NUMBER]}}}}, ("spec", "template")),
        (
            {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": {"tolerations": [NUMBER]}}}}}},
            ("spec", "jobTemplate", "spec", "template"),
        ),
        ({"kind": "List", "items": [{"kind": "Pod", "spec": {"tolerations": [NUMBER]}}]}, ("items", 0)),
    ],
    ids=["a template", "a template in a template", "a list"],
)
def test_templates_and_lists_are_rewritten(tree: Any, way: tuple[Any, ...]) -> None:
    assert convert(tree)
    for step in way:
        tree = tree[step]
    assert annotations.TOLERATIONS in tree["metadata"]["annotations"]


@pytest.mark.parametrize(
    "tree",
    [
        None,
        5,
        {"kind": "ConfigMap"},
        {"kind": "Pod"},
        {"kind": "Pod", "spec": {"tolerations": [STOCK]}},
        {"kind": "Job", "spec": None},
    ],
)
def test_what_has_no_new_constraints_is_left_alone(tree: Any) -> None:
    assert not convert(tree)
