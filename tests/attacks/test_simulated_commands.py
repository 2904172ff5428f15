"""Commands of simulated pods: whatever a pod says in them, the controllers do little work for it at a time."""

from datetime import UTC, datetime
from typing import Any

import pytest

from control_plane import control_plane
from mooring.api.core_v1 import Node, Pod
from mooring.api.events_v1 import Event
from mooring.client import PatchType
from mooring.controllers.simulated_nodes.commands import (
    STEPS_A_POD,
    STEPS_A_SECOND,
    CommandEvaluator,
    StepsUsedUpError,
    read_rules,
)
from mooring.shell import machine
from mooring.testing.builders import made

pytestmark = pytest.mark.req("S.6")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LOOP = "while true; do x=$((1+1)); done"


def pod(name: str, *scripts: str, namespace: str = "default", **spec: Any) -> Pod:
    containers = [
        {"name": f"c{number}", "image": "i", "command": ["sh", "-c", script]} for number, script in enumerate(scripts)
    ]
    return made(
        Pod,
        {"metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": {"containers": containers, **spec}},
    )


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return steps that were taken."""
    taken: list[int] = []
    take = machine.Budget.take

    def counted(budget: machine.Budget, number: int) -> None:
        take(budget, number)
        taken.append(number)

    monkeypatch.setattr(machine.Budget, "take", counted)
    return taken


@pytest.mark.parametrize(
    "scripts",
    [
        pytest.param([LOOP] * 1200, id="many loops"),
        pytest.param(["echo " + ("$(echo " * 30 + "a" * 2000 + ")" * 30) * 25] * 20, id="long scripts, deeply nested"),
        pytest.param(
            ["echo " + "a" * 16000 + " > /tmp/f; while true; do grep -q b /tmp/f; done"] * 50, id="long files"
        ),
        pytest.param(["while true; do rm -f /tmp/none; ls /tmp; done"] * 50, id="directories"),
    ],
)
def test_the_containers_of_a_pod_share_a_budget(scripts: list[str], steps: list[int]) -> None:
    attacker = pod("a", *scripts)
    run = CommandEvaluator(lambda: 0.0).find_run(attacker, read_rules(attacker), 0, NOW)
    assert run.seconds is None
    assert sum(steps) <= STEPS_A_POD


def test_the_pods_of_a_namespace_wait_for_each_other_and_no_others_do() -> None:
    time = 0.0
    commands = CommandEvaluator(lambda: time)
    attackers = [pod(f"p{number}", *[LOOP] * 4) for number in range(100)]
    most = int(STEPS_A_SECOND / STEPS_A_POD) + 1
    for each in attackers[:most]:
        commands.find_run(each, read_rules(each), 0, NOW)
    with pytest.raises(StepsUsedUpError) as waits:
        commands.find_run(attackers[most], read_rules(attackers[most]), 0, NOW)
    other = pod("other", "sleep 3; exit 4", namespace="elsewhere")
    assert commands.find_run(other, read_rules(other), 0, NOW).exit_codes == {"c0": 4}
    time = waits.value.seconds + 1
    last = attackers[-1]
    assert commands.find_run(last, read_rules(last), 0, NOW).seconds is None


async def test_a_pod_with_many_containers_does_not_use_up_the_events_of_others() -> None:
    async with control_plane("simulated-nodes", "simulated-pods") as plane:
        await plane.node("n")
        simulated = {"metadata": {"annotations": {"simulation.mooring.dev/node": "true"}}}
        await plane.client.patch(Node, "n", simulated, type=PatchType.MERGE)
        await plane.run(1)
        await plane.client.create(pod("many", *["sleep 3600"] * 500, nodeName="n"))
        await plane.run(2)
        await plane.client.create(pod("one", "sleep 3600", nodeName="n"))
        await plane.run(5)
        reasons = [each.reason for each in (await plane.client.list(Event)).items if each.regarding.name == "one"]
    assert "Started" in reasons
