"""Who has to leave a tainted node, and when."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from control_plane import ControlPlane, control_plane
from mooring.api import times
from mooring.api.core_v1 import Node, Pod
from mooring.client import PatchType
from mooring.constraints.options import ConstraintOptions
from mooring.controllers.options import ControllerOptions
from mooring.testing.builders import node

pytestmark = [pytest.mark.req("5471.7"), pytest.mark.req("S.4")]

SLA = {"key": "sla", "effect": "NoExecute"}


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    async with control_plane("taint-eviction") as running:
        yield running


def tolerating(*tolerations: dict[str, Any]) -> dict[str, Any]:
    return {"tolerations": list(tolerations)}


def gt(value: str, seconds: int | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"key": "sla", "operator": "Gt", "value": value, "effect": "NoExecute"}
    return found if seconds is None else found | {"tolerationSeconds": seconds}


@dataclass
class Case:
    sentence: str
    tolerations: list[dict[str, Any]]
    taints: list[dict[str, str]]
    goes_after: int | None
    """Seconds; None: stays."""
    options: ConstraintOptions = field(default_factory=ConstraintOptions)


CASES = [
    Case("a pod without tolerations goes at once", [], [{**SLA, "value": "950"}], 0),
    Case("a pod that tolerates the value stays", [gt("900")], [{**SLA, "value": "950"}], None),
    Case("a pod that does not tolerate the value goes at once", [gt("950")], [{**SLA, "value": "950"}], 0),
    Case("tolerationSeconds limits a matched taint", [gt("900", 30)], [{**SLA, "value": "950"}], 30),
    Case(
        "the first matching toleration counts",
        [gt("900", 30), gt("800")],
        [{**SLA, "value": "950"}],
        30,
    ),
    Case(
        "the smallest period over the taints wins",
        [gt("900", 30), {"key": "b", "operator": "Exists", "tolerationSeconds": 10, "effect": "NoExecute"}],
        [{**SLA, "value": "950"}, {"key": "b", "effect": "NoExecute"}],
        10,
    ),
    Case("a value that is no number is not tolerated", [gt("900")], [{**SLA, "value": "0950"}], 0),
    Case("zero and negative seconds mean at once", [gt("900", -5)], [{**SLA, "value": "950"}], 0),
    Case(
        "a semantic version is compared",
        [{"key": "kernel", "operator": "SemverGt", "value": "5.10", "effect": "NoExecute", "tolerationSeconds": 20}],
        [{"key": "kernel", "value": "6.1.0", "effect": "NoExecute"}],
        20,
    ),
    Case(
        "an expression with tolerationSeconds is honoured",
        [{"expression": "taint.key == 'sla' && int(taint.value) > 900", "tolerationSeconds": 15}],
        [{**SLA, "value": "950"}],
        15,
    ),
    Case(
        "an expression that does not hold lets the pod go",
        [{"expression": "taint.key == 'sla' && int(taint.value) > 960"}],
        [{**SLA, "value": "950"}],
        0,
    ),
    Case(
        "with the gate off a numeric toleration never matches",
        [gt("900")],
        [{**SLA, "value": "950"}],
        0,
        ConstraintOptions(numeric_tolerations=False),
    ),
    Case(
        "with the gate off an expression never matches",
        [{"expression": "true"}],
        [{**SLA, "value": "950"}],
        0,
        ConstraintOptions(cel=False),
    ),
    Case("NoSchedule evicts nobody", [], [{"key": "sla", "value": "1", "effect": "NoSchedule"}], None),
]


@pytest.mark.req("5500.8")
@pytest.mark.req("5471.3c")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
async def test_when_a_pod_goes(case: Case) -> None:
    async with control_plane("taint-eviction", options=ControllerOptions(constraints=case.options)) as plane:
        await plane.node("n")
        await plane.pod("web", on="n", spec=tolerating(*case.tolerations))
        await plane.taint("n", *case.taints)
        await plane.run(0)
        if case.goes_after is None:
            await plane.run(1000)
            assert await plane.alive("web")
            return
        if case.goes_after:
            await plane.run(case.goes_after - 1)
            assert await plane.alive("web")
            await plane.run(2)  # times have whole seconds, and a pod never leaves early
        assert not await plane.alive("web")


async def test_the_pod_is_marked_before_it_is_deleted_and_an_event_is_recorded(plane: ControlPlane) -> None:
    await plane.node("n")
    await plane.pod("web", on="n", metadata={"finalizers": ["example.com/wait"]})
    await plane.taint("n", SLA)
    await plane.run(0)
    found = await plane.find(Pod, "web")
    assert found is not None
    assert found.metadata.deletion_timestamp is not None
    marks = [condition for condition in found.status.conditions if condition.type == "DisruptionTarget"]
    assert [(mark.status, mark.reason, mark.message) for mark in marks] == [
        ("True", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
    ]
    notes = [event.note for event in await plane.events("TaintManagerEviction")]
    assert notes == ["Marking for deletion Pod default/web"]
    assert plane.registry.get_sample_value("taint_eviction_controller_pod_deletions_total") == 1
    assert plane.registry.get_sample_value("taint_eviction_controller_pod_deletion_duration_seconds_count") == 1


async def test_story_2_the_value_drops_while_the_pod_counts_down(plane: ControlPlane) -> None:
    """KEP-5471: at 960 the pod goes after 30 s; when the value drops to 940, at once."""
    await plane.node("n")
    for name in ("patient", "witness"):
        await plane.pod(name, on="n", spec=tolerating(gt("950", 30)))
    await plane.taint("n", {**SLA, "value": "960"})
    await plane.run(29)
    assert await plane.alive("patient")
    await plane.taint("n", {**SLA, "value": "940"})
    await plane.run(0)
    assert not await plane.alive("patient")
    assert not await plane.alive("witness")


async def test_an_untolerated_taint_evicts_at_once_also_with_a_time_in_the_future(plane: ControlPlane) -> None:
    await plane.node("n")
    await plane.pod("web", on="n")
    await plane.taint("n", {**SLA, "timeAdded": times.to_seconds(plane.clock.now() + timedelta(seconds=20))})
    await plane.run(0)
    assert not await plane.alive("web")


async def test_toleration_seconds_are_never_less_than_asked(plane: ControlPlane) -> None:
    """Times have whole seconds: what is written at 0.9 s says 0 s."""
    await plane.node("n")
    await plane.pod("web", on="n", spec=tolerating(gt("900", 1)))
    await plane.run(0.9)
    await plane.taint("n", {**SLA, "value": "950"})
    await plane.run(0.99)
    assert await plane.alive("web")
    await plane.run(1.01)
    assert not await plane.alive("web")


async def test_a_pod_that_is_tolerated_again_stays(plane: ControlPlane) -> None:
    await plane.node("n")
    await plane.pod("web", on="n", spec=tolerating(gt("900", 30), {"key": "sla", "value": "800", "operator": "Equal"}))
    await plane.taint("n", {**SLA, "value": "960"})
    await plane.run(20)
    await plane.taint("n", {**SLA, "value": "800"})
    await plane.run(100)
    assert await plane.alive("web")
    notes = [event.note for event in await plane.events("TaintManagerEviction")]
    assert notes == ["Cancelling deletion of Pod default/web"]


async def test_a_toleration_that_is_added_in_time_counts(plane: ControlPlane) -> None:
    await plane.node("n")
    created = await plane.pod("web", on="n", spec=tolerating(gt("900", 30)))
    await plane.taint("n", {**SLA, "value": "960"})
    await plane.run(20)
    tolerations = [{"key": "sla", "operator": "Exists"}, *created.spec.tolerations]
    await plane.client.patch(Pod, "web", {"spec": {"tolerations": tolerations}}, "default", type=PatchType.MERGE)
    await plane.run(100)
    assert await plane.alive("web")


async def test_a_pod_that_arrives_later_counts_from_its_binding(plane: ControlPlane) -> None:
    await plane.node("n")
    await plane.taint("n", {**SLA, "value": "960"})
    await plane.run(100)
    await plane.pod("web", spec=tolerating(gt("900", 30)))
    await plane.run(50)
    await plane.client.bind("web", "default", "n")
    await plane.run(29)
    assert await plane.alive("web")
    await plane.run(2)
    assert not await plane.alive("web")


async def test_a_restart_in_the_middle_changes_nothing(plane: ControlPlane) -> None:
    await plane.node("n")
    await plane.pod("web", on="n", spec=tolerating(gt("900", 30)))
    await plane.taint("n", {**SLA, "value": "960"})
    await plane.run(20)
    await plane.stop()
    plane.clock.advance(5)
    await plane.start()
    await plane.run(4)
    assert await plane.alive("web")
    await plane.run(2)
    assert not await plane.alive("web")


async def test_a_restart_after_the_time_evicts_at_once(plane: ControlPlane) -> None:
    await plane.node("n")
    await plane.pod("web", on="n", spec=tolerating(gt("900", 30)))
    await plane.taint("n", {**SLA, "value": "960"})
    await plane.stop()
    plane.clock.advance(500)
    await plane.start()
    await plane.run(0)
    assert not await plane.alive("web")


async def test_a_value_that_is_rewritten_by_get_edit_replace_gives_the_whole_grace_period(plane: ControlPlane) -> None:
    await plane.node("n")
    await plane.pod("web", on="n", spec=tolerating(gt("900"), gt("800", 30)))
    await plane.taint("n", {**SLA, "value": "950"})
    await plane.run(100)
    node = await plane.client.get(Node, "n")
    (taint,) = node.spec.taints
    assert taint.time_added is not None
    taint.value = "850"
    await plane.client.update(node)
    await plane.run(29)
    assert await plane.alive("web")
    await plane.run(2)
    assert not await plane.alive("web")


async def test_a_taint_without_a_time_counts_from_when_it_was_seen(plane: ControlPlane) -> None:
    await plane.node("n")
    await plane.pod("web", on="n", spec=tolerating(gt("900", 30)))
    await plane.run(100)
    await plane.client.delete(Node, "n")
    await plane.run(0)
    tainted = await plane.client.create(node("n", taints=["sla=950:NoExecute"]))
    assert [taint.time_added for taint in tainted.spec.taints if taint.key == "sla"] == [None]
    await plane.run(20)
    await plane.client.patch(Node, "n", {"metadata": {"labels": {"a": "b"}}})
    await plane.run(9)
    assert await plane.alive("web")
    await plane.run(1)
    assert not await plane.alive("web")


async def test_hundreds_of_pods_leave_a_node(plane: ControlPlane) -> None:
    await plane.node("n")
    for number in range(300):
        await plane.pod(f"web-{number}", on="n", spec={"terminationGracePeriodSeconds": 0})

    async def gone() -> bool:
        return not await plane.names(Pod)

    await plane.taint("n", SLA)
    await plane.until(gone)


async def test_controllers_that_were_stopped_leave_no_timer_behind(plane: ControlPlane) -> None:
    async def timers() -> list[str]:
        return [repr(task) for task in asyncio.all_tasks() if "WorkQueue._add_due_items_after_wait" in repr(task)]

    await plane.node("n", taints=["sla=960:NoExecute"])
    await plane.pod("web", on="n", spec=tolerating(gt("950", 300)))
    await plane.until(timers)
    await plane.stop()
    await asyncio.sleep(0)
    assert await timers() == []
