"""What `mooring audit` says to type is typed: afterwards nothing breaks, and nothing has moved."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gate_uses import USES
from kubectl_caller import KUBECTL, Kubectl
from mooring.base.known_gates import CEL, COMPARISON_OPERATORS, SEMVER_OPERATORS
from mooring.cli.main import mooring
from mooring.testing.control_plane import RunningControlPlane

pytestmark = [
    pytest.mark.req("S.5"),
    pytest.mark.req("5471.12"),
    pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on this machine"),
]
GATES = (COMPARISON_OPERATORS, SEMVER_OPERATORS, CEL)
Tree = dict[str, Any]


@pytest.fixture
def plane() -> Iterator[RunningControlPlane]:
    with RunningControlPlane() as running:
        yield running


def audit(plane: RunningControlPlane, *words: str) -> Result:
    return CliRunner().invoke(mooring, ["audit", "--kubeconfig", str(plane.kubeconfig), *words])


def workloads() -> list[Tree]:
    """Return a Deployment for each way to use a feature, a CronJob and a DaemonSet."""
    found = [use.deployment(f"use-{index}") for index, use in enumerate(USES)]
    template = found[0]["spec"]["template"]
    daemon: Tree = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "daemon"},
        "spec": {"selector": found[0]["spec"]["selector"], "template": template},
    }
    spec = {**template["spec"], "restartPolicy": "Never"}
    nightly: Tree = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": {"spec": spec}}}},
    }
    return [*found, daemon, nightly]


def nodes() -> list[Tree]:
    """Return a node for each use, with its taint or label."""
    made = []
    for index, use in enumerate(USES):
        tree = use.node("now")
        tree["metadata"]["name"] = f"node-{index}"
        tree["metadata"].setdefault("labels", {})["kubernetes.io/hostname"] = f"node-{index}"
        made.append(tree)
    return made


def placement(kubectl: Kubectl) -> dict[str, list[str]]:
    """On which nodes the pods of each Deployment run."""
    found: dict[str, list[str]] = {}
    for pod in kubectl.get("pods")["items"]:
        if not pod["metadata"].get("deletionTimestamp"):
            found.setdefault(pod["metadata"]["labels"]["app"], []).append(pod["spec"].get("nodeName", ""))
    return {name: sorted(where) for name, where in found.items()}


def test_the_commands_make_a_rollback_harmless(plane: RunningControlPlane) -> None:
    kubectl = Kubectl(plane.kubeconfig)
    kubectl.apply(*nodes())
    kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=30s")
    kubectl.apply(*workloads())
    for index in range(len(USES)):
        kubectl("rollout", "status", f"deploy/use-{index}", "--timeout=30s")
    stuck = USES[2].pod("stuck", USES[2].now)  # only one node will do
    stuck["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000"}}
    kubectl.apply(stuck)
    disable = [word for gate in GATES for word in ("--disable-gate", gate)]

    before = audit(plane, *disable, "-o", "json")
    assert before.exit_code == 1, before.output
    found = json.loads(before.stdout)
    breaking = {(f["object"]["kind"], f["object"]["name"]) for f in found["findings"] if f.get("breaks")}
    assert {(tree["kind"], tree["metadata"]["name"]) for tree in workloads()} <= breaking
    assert ("Pod", "stuck") in breaking
    commands = [c for step in found["steps"] for c in step["commands"] if c["run"].startswith("kubectl")]
    assert all(command.get("ready", True) for command in commands)
    for command in commands:
        assert "Error" not in kubectl.shell(command["run"]), command["run"]

    for index in range(len(USES)):
        kubectl("rollout", "status", f"deploy/use-{index}", "--timeout=30s")
    after = json.loads(audit(plane, *disable, "-o", "json").stdout)
    left = {(f["object"]["kind"], f["object"]["name"], f["effect"]) for f in after["findings"] if f.get("breaks")}
    assert left == set()
    restarts = [step["title"] for step in after["steps"]]
    assert restarts == ["Restart the scheduler first", "Restart the controllers", "Restart the API server"]
    rehearsed = audit(plane, *disable, "--rehearse", "-o", "json")
    assert rehearsed.exit_code == 0
    rehearsal = json.loads(rehearsed.stdout)["rehearsal"]
    assert (rehearsal.get("broken", []), rehearsal.get("differences", [])) == ([], [])
    placed = placement(kubectl)
    for index, use in enumerate(USES):
        allowed = [f"node-{index}"] if "affinity" in use.now else [f"node-{n}" for n in range(len(USES))]
        assert set(placed[f"use-{index}"]) <= set(allowed), use.id


def test_a_patch_that_comes_too_late_does_nothing(plane: RunningControlPlane) -> None:
    kubectl = Kubectl(plane.kubeconfig)
    kubectl.apply(USES[0].deployment("web"))
    found = json.loads(audit(plane, "--disable-gate", COMPARISON_OPERATORS, "-o", "json").stdout)
    command = found["steps"][0]["commands"][0]["run"]
    changed = '[{"op": "replace", "path": "/spec/template/spec/tolerations/0/value", "value": "51"}]'
    kubectl("patch", "deploy", "web", "--type=json", "-p", changed)
    assert "the server rejected our request due to an error in our request" in kubectl.shell(command)
    spec = kubectl.get("deploy", "web")["spec"]["template"]["spec"]
    assert spec["tolerations"][0]["value"] == "51"


def test_a_live_server_reports_how_it_runs(tmp_path: Path) -> None:
    with RunningControlPlane(
        emulation_version="1.36",
        min_compatibility_version="1.34",
        feature_gates="MatchLabelKeysInPodTopologySpreadSelectorMerge=false",
        without=("scheduler", "controllers", "nodes"),
    ) as plane:
        found = json.loads(audit(plane, "-o", "json").stdout)
    assert found["current"] == {
        "emulationVersion": "1.36",
        "minCompatibilityVersion": "1.34",
        "featureGates": {"MatchLabelKeysInPodTopologySpreadSelectorMerge": False},
    }
    assert "target" not in found
