"""What an audit foretells is what happens on a copy: rehearsals over the corpus, as manifests and as a cluster."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from audit_corpus import corpus
from mooring.advisor.audit import Audit, Effect, ask, audit
from mooring.advisor.snapshot import dump
from mooring.base import component
from mooring.base.known_gates import CEL, COMPARISON_OPERATORS, SEMVER_OPERATORS
from mooring.cli.support.rehearsal import add_rehearsal
from mooring.scheduler.framework.profiles import ProfileSpec

pytestmark = [pytest.mark.req("S.5"), pytest.mark.req("5471.12"), pytest.mark.req("4330.13")]
Tree = dict[str, Any]
ROOM = {"cpu": "64", "memory": "64Gi", "pods": "110"}


def node(name: str, *taints: str, **labels: str) -> Tree:
    parts = [text.replace(":", "=").split("=") for text in taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name, "zone": name, **labels}},
        "spec": {"taints": [{"key": key, "value": value, "effect": effect} for key, value, effect in parts]},
        "status": {"capacity": ROOM, "allocatable": ROOM, "conditions": [{"type": "Ready", "status": "True"}]},
    }


NODES = (
    node("gold", "sla=950:NoExecute"),
    node("old-cni", "cni=v1.2.3:NoSchedule", kernel="5.10.0", os="l"),
    node("gpu", kernel="6.1.0", os="l", gpu="", a="b"),
)


def stored(tree: Tree, number: int) -> Tree:
    """Return a manifest as a server has it: pods run, wait or have ended, by turns."""
    tree["metadata"] |= {"uid": f"uid-{number}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    if tree["kind"] not in ("Node", "PersistentVolume"):
        tree["metadata"]["namespace"] = "default"
    if tree["kind"] == "Job":  # by which it finds its pods
        labels = {"batch.kubernetes.io/controller-uid": f"uid-{number}"}
        tree["spec"]["selector"] = {"matchLabels": labels}
        tree["spec"]["template"]["metadata"]["labels"] |= labels
    if tree["kind"] == "Pod":
        tree["status"] = {"phase": ("Running", "Pending", "Succeeded")[number // 12 % 3]}
        if tree["status"]["phase"] == "Running":
            tree["spec"]["nodeName"] = "gold"
    return tree


def rehearsal_of(trees: list[Tree], folder: Path, seconds: float = 120.0, **question: Any) -> Audit:
    (folder / "cluster.yaml").write_text("---\n".join(map(yaml.safe_dump, trees)))
    snapshot = dump([folder / "cluster.yaml"])
    asked = ask(component.resolve(), **question)
    return add_rehearsal(snapshot, asked, audit(snapshot, asked), (ProfileSpec(),), seconds)


QUESTIONS: dict[str, dict[str, Any]] = {
    "numeric tolerations off": {"disable": [COMPARISON_OPERATORS]},
    "version operators off": {"disable": [SEMVER_OPERATORS]},
    "expressions off": {"disable": [CEL]},
    "emulating 1.36": {"to_emulation": "1.36"},
    "emulating 1.32": {"to_emulation": "1.32"},
    "compatible with 1.33": {"to_min_compatibility": "1.33"},
}


@pytest.mark.parametrize("as_cluster", [True, False], ids=["a cluster", "manifests"])
@pytest.mark.parametrize(
    "question",
    [
        pytest.param(question, id=name, marks=[] if name == "emulating 1.36" else [pytest.mark.slow])
        for name, question in QUESTIONS.items()
    ],
)
def test_the_rehearsal_agrees_with_the_prediction(question: dict[str, Any], as_cluster: bool, tmp_path: Path) -> None:
    trees = [stored(case.tree, n) if as_cluster else case.tree for n, case in enumerate(corpus())]
    found = rehearsal_of([*trees, *NODES], tmp_path, **question)
    assert found.rehearsal is not None
    assert found.rehearsal.differences == []
    assert found.rehearsal.broken
    assert found.breaks


def pod(name: str, *, on: str = "", **spec: Any) -> Tree:
    tree: Tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"containers": [{"name": "c", "image": "c"}], "nodeName": on, **spec},
        "status": {"phase": "Running" if on else "Pending"},
    }
    return tree


GT = {"key": "sla", "operator": "Gt", "value": "900"}
TAINTED = (node("gold", "sla=950:NoExecute"), node("silver", "sla=940:NoSchedule"))
POD_CASES = {
    "a running pod beside a NoSchedule taint stays": (pod("p", on="silver", tolerations=[GT]), Effect.KEEPS_RUNNING),
    "a running pod beside a NoExecute taint is evicted": (pod("p", on="gold", tolerations=[GT]), Effect.EVICTED),
    "a pending pod is stuck": (pod("p", tolerations=[GT]), Effect.STUCK_PENDING),
    "a pending pod with another way out is scheduled": (
        pod("p", tolerations=[GT, {"key": "sla", "operator": "Equal", "value": "940"}]),
        Effect.STILL_SCHEDULABLE,
    ),
    "a pending pod that fits nowhere now stays pending": (
        pod("p", tolerations=[GT], nodeSelector={"disk": "none"}),
        Effect.ALREADY_PENDING,
    ),
    "a pod that waits for room is stuck too": (
        pod(
            "p",
            tolerations=[GT],
            containers=[{"name": "c", "image": "c", "resources": {"requests": {"cpu": "99"}}}],
        ),
        Effect.STUCK_PENDING,
    ),
}


def test_each_fate_of_a_pod_is_foretold_and_happens(tmp_path: Path) -> None:
    trees = []
    for index, (tree, _) in enumerate(POD_CASES.values()):
        name = f"p{index}"
        trees.append(tree | {"metadata": tree["metadata"] | {"name": name, "uid": name}})
    found = rehearsal_of([*trees, *TAINTED], tmp_path, disable=[COMPARISON_OPERATORS])
    fates = {f.object.name: f.effect for f in found.findings}
    assert {name: fates[f"p{index}"] for index, name in enumerate(POD_CASES)} == {
        name: effect for name, (_, effect) in POD_CASES.items()
    }
    assert found.rehearsal is not None
    assert found.rehearsal.differences == []
    assert {(each.object.name, each.observed) for each in found.rehearsal.broken} >= {
        ("p1", "evicted"),
        ("p2", "pending"),
    }


def test_pods_whose_volume_goes_out_of_reach_are_named_too(tmp_path: Path) -> None:
    claim = {"persistentVolumeClaim": {"claimName": "data"}}
    volume: Tree = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pv", "uid": "pv"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/d"},
            "claimRef": {"namespace": "shop", "name": "data", "uid": "data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchCELExpressions": ["'gpu' in node.labels"]}]}},
        },
        "status": {"phase": "Bound"},
    }
    data: Tree = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data",
            "namespace": "shop",
            "uid": "data",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {
            "volumeName": "pv",
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Bound"},
    }
    trees = [pod("user", volumes=[{"name": "data", **claim}]), volume, data, node("gpu", gpu="")]
    found = rehearsal_of(trees, tmp_path, disable=[CEL])
    effects = {(f.object.kind, f.effect) for f in found.findings}
    assert effects == {("PersistentVolume", Effect.NEVER_MATCHES), ("Pod", Effect.STUCK_PENDING)}
    assert found.rehearsal is not None
    assert found.rehearsal.differences == []


def test_a_controller_that_is_refused_is_seen(tmp_path: Path) -> None:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "c"}], "tolerations": [GT]},
    }
    deployment: Tree = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "shop", "uid": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
    found = rehearsal_of([deployment, *TAINTED], tmp_path, disable=[COMPARISON_OPERATORS])
    assert [(f.effect, f.breaks) for f in found.findings] == [(Effect.CREATE_REJECTED, True)]
    assert found.rehearsal is not None
    assert {(each.subject, each.observed) for each in found.rehearsal.broken} == {
        ("create", "rejected"),
        ("controller", "fails"),
    }
    assert found.rehearsal.differences == []


def test_a_rehearsal_that_has_no_time_to_settle_says_so(tmp_path: Path) -> None:
    found = rehearsal_of([pod("p"), *TAINTED], tmp_path, seconds=0.0, disable=[COMPARISON_OPERATORS])
    assert found.rehearsal is not None
    assert [
        note
        for note in found.rehearsal.notes
        if "still changing after 0 s; repeat with more --rehearsal-seconds" in note
    ]
