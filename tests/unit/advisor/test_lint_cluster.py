"""Advice that needs the nodes of a cluster."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mooring.advisor.lint import Linter, NodesError, Settings, read_nodes
from mooring.api import codec
from mooring.base import component
from mooring.cli.main import mooring

pytestmark = pytest.mark.req("S.5")

NODES = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: n1, labels: {zone: a, kernel: "5.10", cores: "8", disk: ssd}}
  spec: {taints: [{key: sla, value: "990", effect: NoSchedule}, {key: cni, value: v1.2.3, effect: NoExecute}]}
- apiVersion: v1
  kind: Node
  metadata: {name: n2, labels: {zone: b, kernel: custom, cores: many}}
  spec: {extra: 1, taints: [{key: sla, value: high, effect: NoSchedule}, {key: cni, value: x, effect: NoExecute}]}
"""
FREE = """\
apiVersion: v1
kind: Node
metadata: {name: free, labels: {zone: c, kernel: "6.1"}}
spec: {taints: [{key: node.kubernetes.io/not-ready, effect: NoExecute}]}
"""
TOLERANT = [{"operator": "Exists"}]


@dataclass(frozen=True)
class Case:
    name: str
    spec: dict[str, Any]
    findings: tuple[str, ...]
    nodes: str = NODES


def required(*terms: dict[str, Any], **others: Any) -> dict[str, Any]:
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": affinity}, "tolerations": TOLERANT, **others}


def requirement(text: str) -> dict[str, Any]:
    key, operator, *values = text.split()
    return {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}


def cel(expression: str) -> dict[str, Any]:
    return {"matchCELExpressions": [expression]}


def tolerating(**toleration: str) -> dict[str, Any]:
    return {"tolerations": [*TOLERANT, toleration]}


SIZED = """\
apiVersion: v1
kind: Node
metadata: {name: small}
status: {allocatable: {cpu: "4", memory: 8Gi}}
---
apiVersion: v1
kind: Node
metadata: {name: big}
status: {allocatable: {cpu: "8", memory: 4Gi}}
"""


def requesting(**amounts: str) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}]}


CASES = (
    Case("a request that a node can meet", requesting(cpu="8"), (), SIZED),
    Case("more than the largest node has", requesting(cpu="9"), ("M036 the largest node, big, has 8",), SIZED),
    Case("a resource that no node has", requesting(**{"a.b/gpu": "1"}), ("M036 1 a.b/gpu, which no node has",), SIZED),
    Case("nodes that do not say what they have", {"tolerations": TOLERANT, **requesting(cpu="9")}, ()),
    Case("nothing to say", {"tolerations": TOLERANT}, ()),
    Case("numbers in labels", required(requirement("cores Gt 4")), ('M030 "many" on n2',)),
    Case("versions in labels", required(requirement("kernel SemverGt 5.4")), ('M031 "custom" on n2',)),
    Case("a key that no node has", required(requirement("gpus Gt 4")), ("M033 every one of the 2 nodes",)),
    Case("numbers in taints", tolerating(key="sla", operator="Gt", value="950"), ('M030 "high" on n2',)),
    Case("versions in taints", tolerating(key="cni", operator="SemverLt", value="2"), ('M031 "x" on n2',)),
    Case("taints of another key", tolerating(key="other", operator="Gt", value="950"), ()),
    Case(
        "an expression that fails on a node",
        required(cel("'cores' in node.labels && int(node.labels['cores']) > 4")),
        ("M032 fails on 1 of 2 nodes, such as n2: type conversion error",),
    ),
    Case(
        "an expression that fails on a taint",
        tolerating(expression="taint.key == 'sla' && int(taint.value) > 5"),
        ("M032 fails on 1 of 4 taints, such as n2 sla: type conversion error",),
    ),
    Case("an expression that fails nowhere", required(cel("node.labels[?'disk'].orValue('') == 'ssd'")), ()),
    Case("a term that excludes all", required(requirement("zone In x"), requirement("zone In a")), ("M033 excludes",)),
    Case("a term that chooses one", required(requirement("zone In a")), ()),
    Case(
        "a name that no node has",
        required({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n3"]}]}),
        ("M033",),
    ),
    Case("nodeSelector", {"nodeSelector": {"zone": "x"}, "tolerations": TOLERANT}, ("M033 nodeSelector excludes",)),
    Case(
        "nodeSelector and a term that choose different nodes",
        required(requirement("disk Exists"), nodeSelector={"zone": "b"}),
        ("M034 both nodeSelector and a required term",),
    ),
    Case(
        "a contradiction alone, which excludes all",
        required(requirement("cores Gt 9223372036854775807")),
        ("M023", "M030"),
    ),
    Case("an expression that never matches alone", required(cel("'a b' in node.labels")), ("M022",)),
    Case(
        "taints on all nodes",
        {},
        ("M034 all 2 nodes that could be chosen have taints that are not tolerated, such as {sla: 990} on n1",),
    ),
    Case("taints on the nodes that are left", {"nodeSelector": {"zone": "b"}}, ("M034 all 1 nodes",)),
    Case("a node without taints but of the moment", {}, (), NODES + "---\n" + FREE),
    Case("a pod that has its node already", {"nodeName": "n9"}, ()),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_advice_about_nodes(case: Case) -> None:
    linter = Linter(Settings(component.resolve(), nodes=read_nodes(case.nodes)))
    spec = {"containers": [{"name": "c", "image": "c"}], **case.spec}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    found = sorted(linter.lint("f", codec.encode(pod).decode()).findings, key=lambda each: each.rule.id)
    assert [each.rule.id for each in found] == [text.split()[0] for text in case.findings]
    for finding, text in zip(found, case.findings, strict=True):
        assert text[5:] in finding.message


def test_preferred_terms_exclude_nothing() -> None:
    preferred = [{"weight": 1, "preference": requirement("zone In x")}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    spec = {"containers": [{"name": "c", "image": "c"}], "affinity": affinity, "tolerations": TOLERANT}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    linter = Linter(Settings(component.resolve(), nodes=read_nodes(NODES)))
    assert linter.lint("f", codec.encode(pod).decode()).findings == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there are no nodes in it"),
        ("a: [", "line 1"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", "not a Node"),
        ("apiVersion: v1\nkind: Node\nmetadata: 3\n", "metadata: expected an object"),
        ("[" * 3000, "nested"),
    ],
    ids=["nothing", "no YAML", "a pod", "no metadata", "too deep"],
)
def test_what_is_no_dump_of_nodes_is_reported(text: str, message: str) -> None:
    with pytest.raises(NodesError, match=message):
        read_nodes(text)


def test_what_the_same_files_create_is_known_and_classes_of_the_cluster_are_not_missed(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(
        "apiVersion: v1\nkind: List\nitems:\n"
        "- {apiVersion: v1, kind: Namespace, metadata: {name: default}}\n"
        "- {apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 5}\n"
        "- {apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: default}, spec: {limits: []}}\n"
    )
    container = "containers: [{name: c, image: i}]"
    template = "{metadata: {labels: {a: b}}, spec: {priorityClassName: CLASS, " + container + "}}"
    body = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: NAME, namespace: SPACE}, spec:"
    body += " {selector: {matchLabels: {a: b}}, template: " + template + "}}\n"
    workloads = [
        body.replace("NAME", name).replace("SPACE", space).replace("CLASS", wanted)
        for name, space, wanted in (("a", "default", "high"), ("b", "shop", "own"), ("c", "shop", "none"))
    ]
    created = [
        "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n",
        "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: own}, value: 7}\n",
    ]
    manifest = tmp_path / "app.yaml"
    manifest.write_text("---\n".join([*created, *workloads]))
    done = CliRunner().invoke(mooring, ["lint", "--from", str(cluster), str(manifest), "--jobs", "1", "-o", "json"])
    found = [each["message"] for each in json.loads(done.stdout)["findings"]]
    assert found == ['the cluster has no PriorityClass "none"']
