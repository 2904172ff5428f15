"""The action of `examples/ci`: its script is run as a runner would, on a manifest that loses a field."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.req("U.5")

ROOT = Path(__file__).parents[2]
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: resized}
spec:
  containers:
  - name: c
    image: i
    resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]
"""


@pytest.mark.parametrize(("fail_if", "code"), [("error", 1), ("never", 0)], ids=["fails on errors", "only tells"])
def test_the_action_annotates_reports_and_fails_as_told(tmp_path: Path, fail_if: str, code: int) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    *_, script = yaml.safe_load((ROOT / "examples" / "ci" / "action.yml").read_text())["runs"]["steps"]
    given = {"MANIFESTS": "pod.yaml", "FROM": "1.33", "TO": "1.32", "FAIL_IF": fail_if, "BASELINE": ""}
    places = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": "summary.md"}
    done = subprocess.run(
        ["bash", "-e", "-c", script["run"]],
        cwd=tmp_path,
        env={**os.environ, **given, **places},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == code, done.stderr
    assert "::error file=pod.yaml,line=1" in done.stdout
    (run,) = json.loads((tmp_path / "mooring.sarif").read_text())["runs"]
    assert [found["ruleId"] for found in run["results"]] == ["R005"]
    assert "resizePolicy" in (tmp_path / "summary.md").read_text()
