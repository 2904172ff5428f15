"""`mooring.advisor.plan`: what an apply would change, where pods would go, and what would be refused."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mooring.advisor.plan import Plan, ServerAnswer, plan, reports
from mooring.advisor.plan.planning import LAST_APPLIED, diff_manifest, diff_stored
from mooring.advisor.simulate import Settings
from mooring.advisor.snapshot import Snapshot, dump
from mooring.api import codec
from mooring.api.apps_v1 import Deployment
from mooring.api.core_v1 import Namespace, ResourceQuota
from mooring.api.meta_v1 import Resource
from mooring.api.scheduling_v1 import PriorityClass
from mooring.testing import builders

pytestmark = pytest.mark.req("E.2")


def web(replicas: int, cpu: str = "1", priority: str = "", name: str = "web") -> Deployment:
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    pod = {"containers": [container], **({"priorityClassName": priority} if priority else {})}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    tree = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"}}
    return builders.made(Deployment, {**tree, "spec": spec})


def quota(pods: int) -> ResourceQuota:
    tree = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": str(pods)}}}
    return builders.made(ResourceQuota, tree)


def planned(cluster: list[Resource], *objects: Resource, **more: Any) -> Plan:
    return plan(Snapshot("a test", cluster), objects, Settings(), **more)


@dataclass(frozen=True)
class Case:
    cluster: list[Resource]
    applied: Resource
    action: str
    exit_code: int
    placed: int = 0
    pending: int = 0
    rejected: int = 0


NODE = builders.node("n", cpu="4")
CASES = {
    "a new workload that fits": Case([NODE], web(3), "create", 1, placed=3),
    "a new workload that does not fit": Case([NODE], web(6), "create", 2, placed=4, pending=2),
    "the same manifest again": Case([NODE, web(2)], web(2), "unchanged", 0),
    "a quota that refuses some pods": Case([NODE, quota(2)], web(3), "create", 2, placed=2, rejected=1),
    "pods that were pending before are not counted": Case([NODE, web(9, name="old")], web(0), "create", 1),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_plan_says_what_an_apply_would_do(case: Case) -> None:
    found = planned(case.cluster, case.applied)
    assert [each.action for each in found.changes] == [case.action]
    assert sum(each.pods for each in found.placements) == case.placed
    assert sum(each.count for each in found.pending) == case.pending
    assert sum(each.count for each in found.rejected) == case.rejected
    assert found.exit_code == case.exit_code


def test_more_replicas_of_a_stored_workload_are_placed_beside_the_others(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(codec.to_yaml([{"apiVersion": "v1", "kind": "Node", **codec.to_tree(NODE)}, web(1)]))
    found = plan(dump([path]), [web(3)], Settings())
    assert [(each.path, each.old, each.new) for each in found.changes[0].fields] == [("spec.replicas", 1, 3)]
    assert [each.pods for each in found.placements] == [2]
    assert [(each.resource, each.before, each.after) for each in found.cost] == [("cpu", 1.0, 3.0), ("pods", 1.0, 3.0)]


def test_preempted_pods_are_named() -> None:
    high = builders.made(PriorityClass, {"metadata": {"name": "high"}, "value": 1000})
    victim = builders.pod("low", cpu="3", spec={"nodeName": "n"})
    found = planned([NODE, high, victim], web(1, "2", "high"))
    assert [each.pod for each in found.preempted] == ["default/low"]


def test_the_servers_refusal_is_the_answer() -> None:
    found = planned([NODE], web(1), dry_run=lambda _obj: ServerAnswer(None, None, "denied by policy x"))
    assert (found.changes[0].action, found.changes[0].message) == ("refused", "denied by policy x")
    assert (found.placements, found.exit_code, found.has_server) == ((), 2, True)


def test_the_servers_dry_run_is_compared_with_what_it_has() -> None:
    before = {"metadata": {"name": "x", "resourceVersion": "1"}, "spec": {"a": 1}}
    after = {"metadata": {"name": "x", "resourceVersion": "2"}, "spec": {"a": 2}}
    found = planned(
        [], builders.made(Namespace, {"metadata": {"name": "x"}}), dry_run=lambda _o: ServerAnswer(before, after)
    )
    assert [(each.path, each.old, each.new) for each in found.changes[0].fields] == [("spec.a", 1, 2)]


DIFFERENCES: dict[str, tuple[Any, Any, list[str]]] = {
    "a field that the manifest leaves out stays": ({"spec": {"a": 1, "b": 2}}, {"spec": {"a": 1}}, []),
    "a changed value": ({"spec": {"a": 1}}, {"spec": {"a": 2}}, ["spec.a"]),
    "a new field": ({"spec": {}}, {"spec": {"a": 1}}, ["spec.a"]),
    "items of a list are found by name": (
        {"c": [{"name": "x", "i": 1}, {"name": "y", "i": 1}]},
        {"c": [{"name": "y", "i": 2}, {"name": "x", "i": 1}]},
        ["c[y].i"],
    ),
    "an item that is gone": ({"c": [{"name": "x"}, {"name": "y"}]}, {"c": [{"name": "x"}]}, ["c[y]"]),
    "a list of values is compared as a whole": ({"c": [1, 2]}, {"c": [2, 1]}, ["c"]),
    "what the server keeps for itself does not count": (
        {"status": {"x": 1}, "metadata": {"uid": "1"}},
        {"status": {}, "metadata": {"uid": "2"}},
        [],
    ),
    "a field of the last apply is removed": (
        {"metadata": {"annotations": {LAST_APPLIED: '{"spec":{"a":1}}'}}, "spec": {"a": 1}},
        {"spec": {}},
        ["spec.a"],
    ),
    "an unreadable last apply is ignored": (
        {"metadata": {"annotations": {LAST_APPLIED: "{"}}, "spec": {"a": 1}},
        {"spec": {}},
        [],
    ),
}


@pytest.mark.parametrize(("stored", "manifest", "paths"), DIFFERENCES.values(), ids=DIFFERENCES.keys())
def test_differences_are_those_that_an_apply_makes(stored: Any, manifest: Any, paths: list[str]) -> None:
    assert [each.path for each in diff_manifest(stored, manifest)] == paths


def test_whole_objects_differ_in_absent_fields_too() -> None:
    assert [(each.path, each.new) for each in diff_stored({"a": 1}, {})] == [("a", None)]


def test_differences_are_limited() -> None:
    assert len(diff_stored({}, {str(number): number for number in range(10_000)})) == 200


def test_reports_show_changes_and_placements() -> None:
    found = planned([NODE, web(1)], web(6))
    text = "\n".join(reports.format_lines(found, lambda line, _tone: line))
    for written in (text, reports.format_markdown(found)):
        assert "~ Deployment default/web" in written
        assert "spec.replicas: 1 -> 6" in written
        assert "Insufficient cpu" in written
        assert "it does not fit or is refused" in written
