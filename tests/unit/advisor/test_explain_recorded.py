"""Explanations of the recorded scheduling cases name the plugin that kube-scheduler named, node by node."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from applied_advice import applied
from mooring.advisor.explain import SchedulingExplanation, explain
from mooring.advisor.simulate import Settings
from mooring.advisor.snapshot import Snapshot, engine
from mooring.api.codec import FieldValidation, from_tree
from mooring.api.core_v1 import Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.storage_v1 import StorageClass
from mooring.scheduler.framework.profiles import DEFAULT_PLUGINS, ProfileSpec

pytestmark = pytest.mark.req("S.5")

CASES = Path(__file__).parents[2] / "conformance" / "data" / "scheduling" / "cases.jsonl.gz"
NOT_RECORDED = {"NodeVolumeLimits", "DynamicResources"}
PROFILE = ProfileSpec(plugins=tuple(use for use in DEFAULT_PLUGINS if use.name not in NOT_RECORDED))
PARTS = 8
SECTIONS: dict[str, type[Resource]] = {
    "namespaces": Namespace,
    "nodes": Node,
    "existing": Pod,
    "pvs": PersistentVolume,
    "pvcs": PersistentVolumeClaim,
    "storageClasses": StorageClass,
}


def _object(tree: dict[str, Any], kind: type[Resource]) -> Resource:
    return from_tree(tree, kind, FieldValidation.IGNORE)[0]


def _snapshot(given: dict[str, Any]) -> Snapshot:
    found = [_object(tree, kind) for name, kind in SECTIONS.items() for tree in given.get(name) or ()]
    return Snapshot("a recording", found)


def _cases(part: int) -> Iterator[dict[str, Any]]:
    lines = gzip.decompress(CASES.read_bytes()).splitlines()
    return (json.loads(line) for line in lines[part::PARTS])


def _difference(case: dict[str, Any], found: SchedulingExplanation) -> str | None:
    ours = {each.node: each for each in found.nodes}
    for recorded in case["out"]["nodes"]:
        own = ours[recorded["node"]]
        if own.feasible != (recorded["code"] == "Success"):
            return f"{own.node}: feasible is {own.feasible}, recorded {recorded['code']}"
        wanted = recorded.get("plugin", "")
        if not own.feasible and wanted and own.plugin != wanted:  # nodes that were not looked at have none
            return f"{own.node}: {own.plugin}, recorded {wanted}"
        if not own.feasible and not own.detail:
            return f"{own.node}: {own.plugin} has no detail"
    return None


@pytest.mark.parametrize("part", range(PARTS))
def test_the_same_plugin_refuses_each_node_as_in_kubernetes(part: int) -> None:
    problems = []
    for case in _cases(part):
        pod = _object(case["in"]["pod"], Pod)
        assert isinstance(pod, Pod)
        pod.metadata.uid = pod.metadata.uid or "incoming"
        found = explain(_snapshot(case["in"]), pod, Settings(profiles=(PROFILE,)), suggestions=0)
        problem = _difference(case, found)
        if problem:
            problems.append(f"{case['in'].get('name')}: {problem}")
    assert problems == []


@pytest.mark.parametrize("part", range(PARTS))
def test_every_suggestion_for_a_recorded_pod_helps(part: int) -> None:
    """Applied to the cluster and asked of an engine of its own."""
    problems = []
    for case in list(_cases(part))[::4]:
        pod = _object(case["in"]["pod"], Pod)
        pod.metadata.uid = pod.metadata.uid or "incoming"
        snapshot = _snapshot(case["in"]).replace(put=[pod])
        found = explain(snapshot, pod, Settings(profiles=(PROFILE,)), suggestions=3)
        if found.state == "Unschedulable" and not found.suggestions:
            problems.append(f"{case['in'].get('name')}: no suggestion")
        for suggestion in found.suggestions:
            if suggestion.plugins != ["DefaultPreemption"]:  # that waits until others have gone
                after = applied(snapshot, suggestion)
                waiting = after.find(Pod, pod.metadata.namespace, pod.metadata.name)
                assert waiting is not None
                if engine(after, profiles=(PROFILE,)).schedule(waiting).node is None:
                    problems.append(f"{case['in'].get('name')}: {suggestion.summary}")
    assert problems == []
