"""Advice knows the policies of a cluster: lint, explain, simulate and audit tell what would be refused."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from mooring.cli.main import mooring
from policy_objects import rules, validating

pytestmark = pytest.mark.req("X.7", "S.5")
DENIED = "ValidatingAdmissionPolicy 'versions' with binding 'versions' denied request: failed expression"


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    allocatable = {"cpu": "4", "memory": "4Gi", "pods": "10"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": allocatable}}
    expression = "object.spec.containers.all(c, !c.image.endsWith(':latest'))"
    policy = validating("versions", expression, matchConstraints=rules("pods"))
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all([node, *policy]))
    return path


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    labels = {"app": "web"}
    spec = {"containers": [{"name": "web", "image": "web:latest"}]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    path = tmp_path / "web.yaml"
    path.write_text(yaml.safe_dump(deployment))
    return path


def run(*arguments: Any) -> str:
    result = CliRunner().invoke(mooring, [*map(str, arguments)])
    return " ".join(result.output.split())


def test_lint_reports_what_policies_say_about_the_pods_of_a_workload(cluster: Path, manifest: Path) -> None:
    reported = run("lint", "--from", cluster, manifest, "--jobs", "1")
    assert "M012 Deployment default/web: its pods: pods is forbidden: " + DENIED in reported


def test_explain_says_that_the_pod_would_be_refused(cluster: Path, manifest: Path) -> None:
    assert "policy versions denies the pod" in run("explain", "--from", cluster, "-f", manifest)


def test_simulate_makes_no_pods_that_policies_refuse(cluster: Path, manifest: Path) -> None:
    reported = run("simulate", "--from", cluster, "--add", manifest)
    assert DENIED in reported


def test_audit_notes_what_could_not_be_created_again(cluster: Path, tmp_path: Path) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "old", "namespace": "default", "uid": "1"},
        "spec": {"containers": [{"name": "web", "image": "web:latest"}]},
    }
    path = tmp_path / "pod.yaml"
    path.write_text(yaml.safe_dump(pod))
    reported = run("audit", "--from", cluster, "--from", path, "--disable-gate", "TolerationAffinitySemverOperators")
    assert "would be refused if it were created again" in reported
    assert DENIED in reported
