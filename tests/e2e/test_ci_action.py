"""The action for GitHub: its script is run as a runner would run it, and its inputs reach the script."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.req("U.5", "I.6")

ROOT = Path(__file__).parents[2]
LOSES_A_FIELD = """\
apiVersion: v1
kind: Pod
metadata: {name: resized}
spec:
  containers:
  - name: c
    image: i
    resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]
"""
WRONG = """\
apiVersion: v1
kind: Pod
metadata: {name: wrong}
spec: {containers: [{name: c, image: i, foo: 1}]}
"""
LARGE = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]}
"""
DUMP = """\
apiVersion: v1
kind: Node
metadata: {name: a}
status:
  allocatable: {cpu: "8", memory: 8Gi, pods: "10"}
  conditions: [{type: Ready, status: "True"}]
"""


def act(folder: Path, manifest: str, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the script with the inputs of the action, as `INPUT_NAME`."""
    (folder / "manifests").mkdir()
    (folder / "manifests" / "pod.yaml").write_text(manifest)
    (folder / "dump.yaml").write_text(DUMP)
    names = ("COMMAND", "MANIFESTS", "KUBERNETES", "FROM", "TO", "BASELINE", "DUMP", "FAIL_IF")
    given = {**dict.fromkeys(names, ""), "MANIFESTS": "manifests", **inputs}
    places = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": "summary.md"}
    command = ["bash", str(ROOT / "tools" / "action.sh")]
    environment = {**os.environ, **given, **places}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=100
    )


@pytest.mark.parametrize(("fail_if", "code"), [("", 1), ("never", 0)], ids=["fails on errors", "only reports"])
def test_an_audit_annotates_reports_and_fails_as_asked(tmp_path: Path, fail_if: str, code: int) -> None:
    done = act(tmp_path, LOSES_A_FIELD, COMMAND="audit", FROM="1.33", TO="1.32", FAIL_IF=fail_if)
    assert done.returncode == code, done.stderr
    assert "::error file=manifests/pod.yaml,line=1" in done.stdout
    (run,) = json.loads((tmp_path / "mooring.sarif").read_text())["runs"]
    assert [found["ruleId"] for found in run["results"]] == ["R005"]
    assert "resizePolicy" in (tmp_path / "summary.md").read_text()


def test_lint_annotates_the_line(tmp_path: Path) -> None:
    done = act(tmp_path, WRONG, COMMAND="lint")
    assert done.returncode == 1, done.stderr
    assert "::error file=manifests/pod.yaml,line=4" in done.stdout
    assert "unknown field" in (tmp_path / "mooring.md").read_text()


@pytest.mark.parametrize(("fail_if", "code"), [("", 3), ("never", 0), ("evicted", 0)])
def test_simulate_says_with_tables_whether_a_change_fits_a_dump(tmp_path: Path, fail_if: str, code: int) -> None:
    done = act(tmp_path, LARGE, COMMAND="simulate", DUMP="dump.yaml", FAIL_IF=fail_if)
    assert done.returncode == code, done.stderr
    tables = (tmp_path / "mooring.md").read_text()
    assert "### 1 pod pending: 2 placed, 0 evicted, 0 preempted" in tables
    assert "| 1 | Deployment default/web | 0/1 nodes are available: 1 Insufficient cpu." in tables
    assert "| cpu | 8 | 6 (75.0%) |" in tables
    assert (tmp_path / "summary.md").read_text() == tables


@pytest.mark.req("E.2")
@pytest.mark.parametrize(("fail_if", "code"), [("", 2), ("never", 0)], ids=["fails", "only reports"])
def test_plan_says_what_a_change_would_do_to_a_dump(tmp_path: Path, fail_if: str, code: int) -> None:
    done = act(tmp_path, LARGE, COMMAND="plan", DUMP="dump.yaml", FAIL_IF=fail_if)
    assert done.returncode == code, done.stderr
    written = (tmp_path / "mooring.md").read_text()
    assert "+ Deployment default/web" in written
    assert "1 of Deployment default/web: 0/1 nodes are available: 1 Insufficient cpu." in written
    assert (tmp_path / "summary.md").read_text() == written


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({"COMMAND": "deploy"}, "command: there is no 'deploy'"),
        ({"COMMAND": "simulate"}, "dump: name a file"),
    ],
)
def test_a_wrong_input_is_named(tmp_path: Path, inputs: dict[str, str], expected: str) -> None:
    done = act(tmp_path, WRONG, **inputs)
    assert done.returncode == 2
    assert expected in done.stdout


def test_every_input_reaches_the_script_and_nothing_is_put_into_a_shell() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    install, script, comment = action["runs"]["steps"]
    passed = " ".join(str(value) for step in (script, comment) for value in [*step["env"].values(), step.get("if")])
    assert {name for name in action["inputs"] if f"inputs.{name}" not in passed} == set()
    assert all("${{" not in step["run"] for step in (install, script, comment))
    read = set(re.findall(r"\$\{?([A-Z_]+)", (ROOT / "tools" / "action.sh").read_text()))
    assert read - {"GITHUB_STEP_SUMMARY"} == set(script["env"])
