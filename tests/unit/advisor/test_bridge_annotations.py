"""Constraints in annotations, for the bridge, as the commands that give advice understand them."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from mooring.advisor.lint.linter import Linter
from mooring.advisor.lint.options import Settings
from mooring.base.component import resolve
from mooring.constraints.annotations import GATE, NODE_AFFINITY, TOLERATIONS

TOLERATES = json.dumps([{"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}])
NEW_KERNEL = json.dumps(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["6.0"]}]}]
        }
    }
)
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
def test_lint_judges_annotations_by_the_rules_of_the_spec(case: Case) -> None:
    report = Linter(Settings(resolve())).lint("f.yaml", yaml.safe_dump(case.manifest))
    assert [f"{found.rule.id} {found.field}" for found in report.findings] == case.expected


@pytest.mark.req("B.10")
def test_lint_judges_annotations_alike_for_servers_that_know_none_of_the_words() -> None:
    linter = Linter(Settings(resolve(emulation="1.31")))
    assert linter.lint("f.yaml", yaml.safe_dump(pod(BOTH, GATE))).findings == []
