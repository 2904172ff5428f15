"""A simulation sends the pods of the recorded scheduling cases to where kube-scheduler would have sent them."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from mooring.advisor.simulate import Scenario, Settings, simulate
from mooring.advisor.snapshot import Snapshot
from mooring.api.codec import FieldValidation, from_tree
from mooring.api.core_v1 import Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.storage_v1 import StorageClass
from mooring.scheduler.framework.profiles import DEFAULT_PLUGINS, ProfileSpec

pytestmark = pytest.mark.req("S.5")

CASES = Path(__file__).parents[2] / "conformance" / "data" / "scheduling" / "cases.jsonl.gz"
NOT_RECORDED = {"NodeVolumeLimits", "DynamicResources", "DefaultPreemption"}
SETTINGS = Settings(
    profiles=(ProfileSpec(plugins=tuple(use for use in DEFAULT_PLUGINS if use.name not in NOT_RECORDED)),)
)
SECTIONS: dict[str, type[Resource]] = {
    "namespaces": Namespace,
    "nodes": Node,
    "existing": Pod,
    "pvs": PersistentVolume,
    "pvcs": PersistentVolumeClaim,
    "storageClasses": StorageClass,
}
EVERY = 3
"""A sample is enough: the engine itself is held to all of them elsewhere."""


def _object(tree: dict[str, Any], kind: type[Resource]) -> Resource:
    return from_tree(tree, kind, FieldValidation.IGNORE)[0]


def _snapshot(given: dict[str, Any]) -> tuple[Snapshot, str]:
    found = [_object(tree, kind) for name, kind in SECTIONS.items() for tree in given.get(name) or ()]
    pod = _object(given["pod"], Pod)
    assert isinstance(pod, Pod)
    pod = structs.replace(pod, metadata=structs.replace(pod.metadata, name="incoming", uid="incoming"))
    return Snapshot("a recording", [*found, pod]), f"{pod.metadata.namespace}/incoming"


def _best(nodes: list[dict[str, Any]]) -> set[str]:
    totals = {each["node"]: each.get("total", 0) for each in nodes if each["code"] == "Success"}
    return {name for name, total in totals.items() if total == max(totals.values())}


def test_pods_go_to_one_of_the_nodes_that_kubernetes_finds_best() -> None:
    problems, evaluated = [], 0
    for line in gzip.decompress(CASES.read_bytes()).splitlines()[::EVERY]:
        case = json.loads(line)
        snapshot, name = _snapshot(case["in"])
        result = simulate(snapshot, Scenario(), SETTINGS)
        if result.evicted:  # some cases have pods where a taint lets none be; they have left when the pod is placed
            continue
        evaluated += 1
        node = next((each.node for each in result.placements if each.pod == name), "")
        best = _best(case["out"]["nodes"])
        if node not in (best or {""}):
            problems.append(f"{case['in'].get('name')}: {node or 'pending'}, recorded {sorted(best)}")
    assert problems == []
    assert evaluated > 60
