"""What `mooring simulate` predicts of a running cluster is what then happens in it."""

import json
from collections import Counter
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from deployment_manifest import deployment
from mooring.advisor.simulate import Add, Drain, Scenario, Simulation, Step, Taint, simulate
from mooring.advisor.simulate.changes import Change
from mooring.advisor.simulate.manifests import read_objects
from mooring.advisor.snapshot import live
from mooring.api.core_v1 import Node, Pod
from mooring.api.core_v1 import Taint as NodeTaint
from mooring.cli.main import mooring
from mooring.testing.control_plane import RunningControlPlane
from mooring.testing.fluent import node

pytestmark = pytest.mark.req("S.5")

WEB = deployment("web", 6)
ON_GOLD = deployment("gold", 5, "{cpu: 1500m}", more="nodeSelector: {tier: gold}")


@pytest.fixture
def plane() -> Iterator[RunningControlPlane]:
    with RunningControlPlane() as running:
        for name in ("a", "b", "c"):
            running.create(node(name).label("tier", "gold" if name == "a" else "plain"))
        running.create(WEB)
        running.wait_until(lambda: Counter(map(phase, running.list(Pod))) == Counter(Running=6))
        yield running


def phase(pod: Pod) -> str:
    return pod.status.phase


def predicted(plane: RunningControlPlane, *changes: Change) -> Simulation:
    snapshot = plane.run(live(plane.client))
    return simulate(snapshot, Scenario(tuple(Step((change,)) for change in changes)))


def refusals(plane: RunningControlPlane) -> set[str]:
    conditions = [condition for pod in plane.list(Pod) for condition in pod.status.conditions]
    return {each.message for each in conditions if each.type == "PodScheduled" and each.status == "False"}


def test_the_predicted_number_of_pods_fits_and_the_others_say_what_was_predicted(plane: RunningControlPlane) -> None:
    result = predicted(plane, Add(read_objects(ON_GOLD, "gold.yaml")))
    assert result.counts.pending > 0
    plane.create(ON_GOLD)
    expected = Counter(Running=result.counts.running, Pending=result.counts.pending)
    plane.wait_until(lambda: Counter(map(phase, plane.list(Pod))) == expected)
    plane.wait_until(lambda: refusals(plane) == {group.message for group in result.pending})


def test_the_pods_of_a_tainted_node_come_back_as_predicted(plane: RunningControlPlane) -> None:
    """Two nodes of four cores are left for six pods of one: all of them fit."""
    taint = {"key": "broken", "effect": "NoExecute"}
    result = predicted(plane, Taint(("c",), NodeTaint(**taint)))
    plane.patch(Node, "c", {"spec": {"taints": [taint]}}, "")
    there = Counter(each.node for each in result.placements)
    assert there
    plane.wait_until(
        lambda: (
            Counter(map(phase, plane.list(Pod))) == Counter(Running=result.counts.running)
            and all(pod.spec.node_name != "c" for pod in plane.list(Pod))
        )
    )
    assert (result.counts.running, result.counts.pending) == (6, 0)


def test_asking_changes_nothing(plane: RunningControlPlane) -> None:
    before = sorted(pod.metadata.resource_version for pod in plane.list(Pod))
    predicted(plane, Drain(("*",)), Add(read_objects(ON_GOLD, "gold.yaml")))
    assert sorted(pod.metadata.resource_version for pod in plane.list(Pod)) == before


def test_the_command_asks_a_live_cluster(plane: RunningControlPlane) -> None:
    call = ["simulate", "--kubeconfig", str(plane.kubeconfig), "--drain", "b", "-o", "json"]
    result = CliRunner().invoke(mooring, call)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["cluster"] == f"the cluster at {plane.url}"
    assert found["counts"]["running"] == 6
    assert all(each["node"] == "b" for each in found["evicted"])
