"""Five stories of `upgrade-check`, `simulate --consolidate` and `plan`, with manifests as users have them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

STORIES = Path(__file__).parent / "upgrade_stories"
DRAIN = Path(__file__).parents[2] / "examples" / "upgrade" / "drain.yaml"


def printed(*words: object, code: int) -> Any:
    """Run a command with `-o json`; return what it prints."""
    command = [sys.executable, "-m", "mooring", *map(str, words), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr + done.stdout
    return json.loads(done.stdout)


@pytest.mark.req("E.1")
def test_a_drain_that_a_budget_blocks_is_found_before_with_a_change_that_lets_it_pass(tmp_path: Path) -> None:
    found = printed("upgrade-check", "--from", DRAIN, "--to", "1.37", code=1)
    assert found["verdict"] == "does not pass"
    blocked = {each["node"] for each in found["rollout"]["blocks"] if each["isFinal"]}
    assert blocked == {each["node"] for each in found["rollout"]["nodes"] if "drained" not in each}
    remedy = next(each for each in found["remedies"] if each["isVerified"])
    assert remedy["command"] == "kubectl -n shop scale deployment/db --replicas=3"
    changed = tmp_path / "changed.yaml"
    changed.write_text(DRAIN.read_text().replace("    replicas: 2\n", "    replicas: 3\n"))
    played = printed("upgrade-check", "--from", changed, "--to", "1.37", code=3)
    assert all("drained" in each for each in played["rollout"]["nodes"])


@pytest.mark.req("E.1")
def test_a_rollback_that_would_lose_a_field_is_found_before_the_upgrade() -> None:
    found = printed("upgrade-check", STORIES / "rollback.yaml", "--to", "1.35", "--and-back", code=1)
    assert not [each for each in found["up"]["findings"] if each["severity"] == "error"]
    (lost,) = [each for each in found["back"]["findings"] if each["severity"] == "error"]
    assert (lost["effect"], lost["field"]) == ("FieldLost", "spec.template.spec.hostnameOverride")
    components = [each for each in found["steps"] if each["title"].startswith(("Control plane", "Nodes", "POINT"))]
    assert all(each["rollback"] for each in components)


@pytest.mark.req("E.1")
def test_a_singleton_with_local_data_is_down_until_its_node_returns() -> None:
    found = printed("upgrade-check", STORIES / "singleton.yaml", "--to", "1.37", "--node-time", "3m", code=3)
    (down,) = found["rollout"]["interruptions"]
    assert (down["workload"], down["longestSeconds"]) == ("StatefulSet registry/registry", 180.0 + 45.0)
    problems = " ".join(each["problem"] for each in found["localData"])
    assert "local-images is on this node only" in problems
    assert "emptyDir volume cache is deleted" in problems


@pytest.mark.req("E.3")
def test_consolidation_saves_three_of_ten_nodes() -> None:
    cluster = STORIES / "ten-nodes.yaml"
    found = printed("simulate", "--from", cluster, "--consolidate", code=0)
    gone = [each["node"] for each in found["removed"]]
    assert len(gone) == 3
    played = printed("simulate", "--from", cluster, "--drain", ",".join(gone), "--remove-node", ",".join(gone), code=0)
    assert (played["counts"]["nodes"], played["counts"]["pending"]) == (7, 0)


@pytest.mark.req("E.2", "E.4")
def test_each_pool_says_why_it_cannot_serve_a_pod() -> None:
    pools = ("--from", STORIES / "pools.yaml", "--pool", "cluster")
    found = printed("plan", "-f", STORIES / "gpu.yaml", *pools, code=2)
    assert found["pending"][0]["count"] == 1
    reasons = {each["pool"]: " ".join(each["reasons"]) for each in found["pools"]}
    assert reasons["gpu"] == "its EC2NodeClass gpu is not ready: no AMI matches the selector"
    assert "node affinity/selector" in reasons["general"]
