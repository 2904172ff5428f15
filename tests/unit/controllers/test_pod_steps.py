"""Pods on simulated nodes that are left alone are those with which there is nothing to do."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from mooring.api.core_v1 import Pod
from mooring.controllers.simulated_nodes.commands import CommandEvaluator, PodRuns, read_rules
from mooring.controllers.simulated_nodes.pod_steps import NOTHING, is_unchanged_until_update, next_step
from mooring.testing.builders import made

pytestmark = pytest.mark.req("S.4")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
PROBE = {"initialDelaySeconds": 60}


def started(tree: dict[str, Any]) -> Pod:
    """Return a pod as its kubelet has started it."""
    pod = made(Pod, {"metadata": {"name": "web", "uid": "1", "generation": 1}, **tree})
    step = next_step(pod, read_rules(pod), PodRuns(CommandEvaluator(lambda: 0.0), pod, read_rules(pod)), NOW)
    return structs.replace(pod, status=structs.replace(pod.status, **step.status or {}))


def container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": "app:1", **fields}]}}


def metadata(**fields: Any) -> dict[str, Any]:
    return {**container(), "metadata": {"name": "web", "uid": "1", "generation": 1, **fields}}


@pytest.mark.parametrize(
    ("tree", "rests"),
    [
        pytest.param(container(), True, id="a pod that runs for ever"),
        pytest.param(container(readinessProbe=PROBE), False, id="one that becomes ready later"),
        pytest.param(container(command=["sleep", "5"]), False, id="one whose command ends"),
        pytest.param(container(args=["sleep", "5"]), False, id="one whose arguments may be a command"),
        pytest.param(metadata(ownerReferences=[JOB]), False, id="one of a Job"),
        pytest.param(
            metadata(annotations={"simulation.mooring.dev/run-seconds": "9"}), False, id="one that is told when to end"
        ),
        pytest.param(metadata(annotations={"note": "x"}), True, id="one with a note of somebody else"),
        pytest.param(
            metadata(deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=0),
            False,
            id="one to be stopped",
        ),
        pytest.param({"spec": {**container()["spec"], "activeDeadlineSeconds": 9}}, False, id="one with a deadline"),
        pytest.param(
            {"spec": {**container()["spec"], "readinessGates": [{"conditionType": "x"}]}}, False, id="one with a gate"
        ),
        pytest.param(container(image="web:404"), False, id="one without an image"),
        pytest.param({**container(), "status": {"phase": "Running"}}, True, id="one that was started anew"),
        pytest.param({**container(), "status": {"phase": "Succeeded"}}, False, id="one that has ended"),
    ],
)
def test_a_pod_at_rest_needs_no_step(tree: dict[str, Any], rests: bool) -> None:
    pod = started(tree)
    assert is_unchanged_until_update(pod, read_rules(pod)) is rests
    if rests:
        for seconds in (0, 1, 100_000):
            runs = PodRuns(CommandEvaluator(lambda: 0.0), pod, read_rules(pod))
            assert next_step(pod, read_rules(pod), runs, NOW + timedelta(seconds=seconds)) == NOTHING


def test_a_pod_whose_specification_has_changed_is_looked_at() -> None:
    pod = started(container())
    changed = structs.replace(pod, metadata=structs.replace(pod.metadata, generation=2))
    assert not is_unchanged_until_update(changed, read_rules(changed))
