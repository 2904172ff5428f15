"""Constraints in annotations, for the bridge, as the commands that give advice understand them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from mooring.advisor.lint.linter import Linter
from mooring.advisor.lint.options import Settings
from mooring.api import codec
from mooring.api.core_v1 import Node
from mooring.base.component import resolve
from mooring.cli.main import mooring
from mooring.constraints.annotations import GATE, NODE_AFFINITY, RELEASED, TOLERATIONS
from scheduler_objects import node

TOLERATES = json.dumps([{"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}])
NEW_KERNEL = json.dumps(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["6.0"]}]}]
        }
    }
)
NUMBERS, VERSIONS = "TaintTolerationComparisonOperators", "TolerationAffinitySemverOperators"
BOTH = {TOLERATIONS: TOLERATES, NODE_AFFINITY: NEW_KERNEL}


def template(annotations: dict[str, str], *gates: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "web"}, "annotations": annotations},
        "spec": {
            "schedulingGates": [{"name": gate} for gate in gates],
            "containers": [{"name": "web", "image": "web"}],
        },
    }


def pod(annotations: dict[str, str], *gates: str) -> dict[str, Any]:
    made = template(annotations, *gates)
    made["metadata"]["name"] = "web"
    return {"apiVersion": "v1", "kind": "Pod", **made}


def deployment(annotations: dict[str, str], *gates: str) -> dict[str, Any]:
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template(annotations, *gates)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def cron_job(annotations: dict[str, str], *gates: str) -> dict[str, Any]:
    made = template(annotations, *gates)
    made["spec"]["restartPolicy"] = "Never"
    spec = {"schedule": "@daily", "jobTemplate": {"spec": {"template": made}}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "web"}, "spec": spec}


@dataclass(frozen=True)
class Case:
    name: str
    manifest: dict[str, Any]
    expected: list[str]
    """The rule and the beginning of the field of each finding."""


WRONG = {TOLERATIONS: '[{"key": "sla", "operator": "Gt", "value": "0950"}]'}
CASES = [
    Case("a pod without annotations", pod({}), []),
    Case("other annotations", pod({"a": "b"}), []),
    Case("valid, with the gate", pod(BOTH, GATE), []),
    Case("valid, without the gate", pod(BOTH), ["M027 spec.schedulingGates"]),
    Case("valid, with another gate", pod(BOTH, "other.dev/gate"), ["M027 spec.schedulingGates"]),
    Case("a wrong value", pod(WRONG, GATE), [f"M026 metadata.annotations[{TOLERATIONS}][0].value"]),
    Case("no YAML", pod({NODE_AFFINITY: "{"}, GATE), [f"M026 metadata.annotations[{NODE_AFFINITY}]"]),
    Case("no list", pod({TOLERATIONS: "x"}, GATE), [f"M026 metadata.annotations[{TOLERATIONS}]"]),
    Case("an unknown field", pod({TOLERATIONS: "[{x: y}]"}, GATE), [f"M026 metadata.annotations[{TOLERATIONS}]"]),
    Case(
        "a template",
        deployment(WRONG),
        [f"M026 spec.template.metadata.annotations[{TOLERATIONS}][0].value", "M027 spec.template.spec.schedulingGates"],
    ),
    Case(
        "a template in a template",
        cron_job(WRONG, GATE),
        [f"M026 spec.jobTemplate.spec.template.metadata.annotations[{TOLERATIONS}][0].value"],
    ),
]


@pytest.mark.req("B.1", "B.10")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lint_validates_annotations_by_the_rules_of_the_spec(case: Case) -> None:
    report = Linter(Settings(resolve())).lint("f.yaml", yaml.safe_dump(case.manifest))
    assert [f"{found.rule.id} {found.field}" for found in report.findings] == case.expected


@pytest.mark.req("B.10")
def test_lint_validates_annotations_equally_for_servers_without_the_operators() -> None:
    linter = Linter(Settings(resolve(emulation="1.31")))
    assert linter.lint("f.yaml", yaml.safe_dump(pod(BOTH, GATE))).findings == []


CLUSTER = [
    node("old", kernel="5.9.0", taints=[("sla", "960", "NoSchedule")]),
    node("low", kernel="6.1.0", taints=[("sla", "940", "NoSchedule")]),
]
GOOD = node("good", kernel="6.2.0", taints=[("sla", "960", "NoSchedule")])


def asked(tmp_path: Path, nodes: list[Node], *arguments: str, subject: dict[str, Any]) -> Any:
    """Return what a command says about a manifest and a cluster; `FILE` stands for the manifest."""
    cluster, manifest = tmp_path / "cluster.yaml", tmp_path / "web.yaml"
    trees = [{"apiVersion": "v1", "kind": "Node", **codec.to_tree(each)} for each in nodes]
    cluster.write_text(yaml.safe_dump_all(trees))
    manifest.write_text(yaml.safe_dump(subject))
    words = [str(manifest) if word == "FILE" else word for word in arguments]
    done = CliRunner().invoke(mooring, [*words, "--from", str(cluster), "-o", "json"])
    assert done.exception is None, done.output
    return json.loads(done.stdout)


SUBJECTS = [
    pytest.param(pod(BOTH, GATE), id="a pod with the gate"),
    pytest.param(pod(BOTH), id="a pod without the gate"),
    pytest.param(deployment(BOTH, GATE), id="a template"),
]


@pytest.mark.req("B.10")
@pytest.mark.parametrize("subject", SUBJECTS)
def test_explain_reads_annotations_as_if_they_stood_in_the_spec(subject: dict[str, Any], tmp_path: Path) -> None:
    found = asked(tmp_path, CLUSTER, "explain", "-f", "FILE", subject=subject)
    assert {refusal["plugin"] for refusal in found["refusals"]} == {"NodeAffinity", "TaintToleration"}
    found = asked(tmp_path, [*CLUSTER, GOOD], "explain", "-f", "FILE", subject=subject)
    assert found["summary"].endswith("1 of 3 nodes fit, good is the best")


@pytest.mark.req("B.10")
def test_explain_knows_the_words_of_the_bridge_where_the_server_does_not(tmp_path: Path) -> None:
    words = ("explain", "-f", "FILE", "--emulation-version", "1.31")
    found = asked(tmp_path, [*CLUSTER, GOOD], *words, subject=pod(BOTH, GATE))
    assert found["summary"].endswith("1 of 3 nodes fit, good is the best")


@pytest.mark.req("B.10")
@pytest.mark.parametrize("subject", SUBJECTS)
def test_simulate_reads_annotations_as_if_they_stood_in_the_spec(subject: dict[str, Any], tmp_path: Path) -> None:
    counts = asked(tmp_path, CLUSTER, "simulate", "--add", "FILE", subject=subject)["counts"]
    assert (counts["placed"], counts["pending"]) == (0, 1)
    counts = asked(tmp_path, [*CLUSTER, GOOD], "simulate", "--add", "FILE", subject=subject)["counts"]
    assert (counts["placed"], counts["pending"]) == (1, 0)


@pytest.mark.req("B.10")
@pytest.mark.parametrize(
    ("gates", "expected"),
    [((), NODE_AFFINITY), ((GATE,), GATE), ((GATE, "other.dev/gate"), "other.dev/gate")],
    ids=["no gate", "the bridge's gate", "another gate, too"],
)
def test_explain_says_what_keeps_a_pod_whose_annotations_cannot_be_read(
    gates: tuple[str, ...], expected: str, tmp_path: Path
) -> None:
    found = asked(tmp_path, [GOOD], "explain", "-f", "FILE", subject=pod({NODE_AFFINITY: "{"}, *gates))
    assert expected in found["summary"]


def _term(**conditions: Any) -> dict[str, Any]:
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [conditions]}}


@pytest.mark.req("B.1")
@pytest.mark.parametrize(
    ("key", "place", "value"),
    [
        (TOLERATIONS, "spec.tolerations", [{"key": "sla", "operator": "Gt", "value": "0950"}]),
        (TOLERATIONS, "spec.tolerations", [{"key": "cni", "operator": "SemverLt", "value": "newest"}]),
        (TOLERATIONS, "spec.tolerations", [{"expression": "taint.key + 1"}, {"key": "a b", "operator": "Exists"}]),
        (NODE_AFFINITY, "spec.affinity.nodeAffinity", _term(matchCELExpressions=["node.labels['rack'] > 5"])),
        (
            NODE_AFFINITY,
            "spec.affinity.nodeAffinity",
            _term(matchExpressions=[{"key": "kernel", "operator": "SemverGt", "values": ["6.0", "x"]}]),
        ),
    ],
    ids=["a number", "a version", "an expression and a key", "an expression on nodes", "two versions"],
)
def test_annotations_are_refused_in_the_words_of_the_spec(key: str, place: str, value: Any) -> None:
    linter = Linter(Settings(resolve()))
    in_spec, in_annotation = pod({}), pod({key: json.dumps(value)}, GATE)
    if key == TOLERATIONS:
        in_spec["spec"]["tolerations"] = value
    else:
        in_spec["spec"]["affinity"] = {"nodeAffinity": value}
    reported, said = (
        [(found.field, found.message) for found in linter.lint("f.yaml", json.dumps(manifest)).findings]
        for manifest in (in_spec, in_annotation)
    )
    assert reported
    assert said == [(field.replace(place, f"metadata.annotations[{key}]"), message) for field, message in reported]


@pytest.mark.req("B.10")
def test_audit_knows_that_no_gate_breaks_what_the_bridge_has_written(tmp_path: Path) -> None:
    lowered = {"key": "sla", "operator": "Equal", "value": "960", "effect": "NoExecute"}
    running = pod({TOLERATIONS: TOLERATES.replace("NoSchedule", "NoExecute"), RELEASED: "0"})
    running["metadata"] |= {"namespace": "default", "uid": "1"}
    running["spec"] |= {"nodeName": "n1", "tolerations": [lowered]}
    tree = {"apiVersion": "v1", "kind": "Node", **codec.to_tree(node("n1", taints=[("sla", "960", "NoExecute")]))}
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [tree, running]}))
    words = ["audit", "--from", str(cluster), "--disable-gate", "TaintTolerationComparisonOperators"]
    done = CliRunner().invoke(mooring, words)
    assert (done.exit_code, "nothing breaks" in done.output) == (0, True), done.output


def audited(tmp_path: Path, subject: dict[str, Any], *words: str) -> list[tuple[str, str, str, bool]]:
    """Field, value, gate, and whether it breaks."""
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [subject]}))
    done = CliRunner().invoke(mooring, ["audit", "--from", str(cluster), "-o", "json", *words])
    assert done.exit_code == 0, done.output
    return [
        (found["field"], found["value"], found["feature"], found.get("breaks", False))
        for found in json.loads(done.output).get("findings", [])
    ]


@pytest.mark.req("B.10")
@pytest.mark.parametrize("flags", [[], ["--disable-gate", NUMBERS, "--disable-gate", VERSIONS]])
@pytest.mark.parametrize(
    ("subject", "place"),
    [
        (pod(BOTH, GATE), "metadata"),
        (deployment(BOTH, GATE), "spec.template.metadata"),
        (deployment(BOTH), "spec.template.metadata"),
    ],
    ids=["a pod that waits", "a template", "a template that gets its gate from the webhook"],
)
def test_audit_lists_what_annotations_use_and_knows_that_the_bridge_keeps_it_from_breaking(
    subject: dict[str, Any], place: str, flags: list[str], tmp_path: Path
) -> None:
    subject["metadata"] |= {"namespace": "default", "uid": "1"}
    term = "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator"
    assert audited(tmp_path, subject, *flags) == [
        (f"{place}.annotations[{TOLERATIONS}][0].operator", "sla Gt 950", NUMBERS, False),
        (f"{place}.annotations[{NODE_AFFINITY}].{term}", "kernel SemverGt 6.0", VERSIONS, False),
    ]


@pytest.mark.req("B.10")
@pytest.mark.parametrize(
    "subject",
    [pod({**BOTH, RELEASED: "0"}), pod(BOTH), pod({NODE_AFFINITY: "{"}, GATE)],
    ids=["released", "nobody will lower it", "cannot be read"],
)
def test_audit_lists_no_annotation_that_the_bridge_has_not_yet_to_lower(
    subject: dict[str, Any], tmp_path: Path
) -> None:
    subject["metadata"] |= {"namespace": "default", "uid": "1"}
    assert audited(tmp_path, subject) == []
