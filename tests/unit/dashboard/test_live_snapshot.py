"""A snapshot changed object by object equals one that is read again; recent changes are listed."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from dashboard_calls import dashboard, shop
from mooring.advisor.simulate import Settings
from mooring.advisor.snapshot import Snapshot
from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import Resource
from mooring.client import Change
from mooring.dashboard.live_snapshot import LiveSnapshot
from mooring.dashboard.views.nodes import list_nodes
from mooring.dashboard.views.overview import overview
from mooring.dashboard.views.pending import pending
from mooring.testing.builders import node, pod

NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


def live(objects: Iterable[Resource]) -> LiveSnapshot:
    return LiveSnapshot(Snapshot("the test", objects), Settings(), NOW)


def seen(found: LiveSnapshot) -> Any:
    """All that pages show of a cluster but its past."""
    shown = msgspec.to_builtins(overview(found))
    for past in ("lately", "moments", "waits", "bound", "evicted", "evictedBy", "readAt"):
        shown.pop(past)
    waiting = msgspec.to_builtins(pending(found))
    for group in waiting["overview"]["groups"]:
        group["summary"] = group["summary"].partition(" is the best")[0].rpartition(", ")[0] or group["summary"]
    explained = [
        msgspec.to_builtins(found.explain("pod", *key))
        for key in sorted(found.waiting)
        if key[1] in ("huge", "p0", "p1")
    ]
    for suggestion in (each for one in explained for each in one["suggestions"]):
        suggestion.pop("node")  # any of those that are equally good
    return shown, waiting, msgspec.to_builtins(list_nodes(found)), explained


_NAMES = [f"p{number}" for number in range(4)]
_NODES = ["east-0", "west-0", "new-0"]


@st.composite
def _objects(draw: st.DrawFn) -> Resource:
    if draw(st.booleans()):
        taints = draw(st.lists(st.sampled_from(["sla=940:NoExecute", "gpu=true:NoSchedule"]), unique=True, max_size=2))
        return node(draw(st.sampled_from(_NODES)), cpu=draw(st.sampled_from(["4", "8"])), zone="east", taints=taints)
    name = draw(st.sampled_from(_NAMES))
    phase = draw(st.sampled_from(["Running", "Running", "Succeeded"]))
    on = draw(st.sampled_from(["", *_NODES]))
    uid = draw(st.sampled_from(["a", "b"]))
    metadata = {"uid": f"{name}-{uid}"}
    return pod(name, cpu=draw(st.sampled_from(["1", "6"])), on=on, status={"phase": phase if on else "Pending"},
               metadata=metadata)  # fmt: skip


_TIE = [
    (node("east-0", cpu="8", zone="east"), True),
    (node("west-0", cpu="4", zone="east"), False),
    (pod("p0", cpu="6", status={"phase": "Pending"}), True),
]
"""Two nodes are equally near to having room for the pod, and have come in another order."""


@pytest.mark.req("D.8")
@settings(max_examples=25, deadline=None)
@example(_TIE)
@given(st.lists(st.tuples(_objects(), st.booleans()), max_size=12))
def test_changes_lead_to_the_same_state_as_reading_again(steps: list[tuple[Resource, bool]]) -> None:
    current: dict[tuple[type, str], Resource] = {(type(each), each.metadata.name): each for each in shop()}
    changed = live(current.values())
    for obj, stays in steps:
        key = (type(obj), obj.metadata.name)
        old = current.pop(key, None)
        if isinstance(old, Pod) and isinstance(obj, Pod) and old.metadata.uid == obj.metadata.uid:
            on = old.spec.node_name or obj.spec.node_name  # which a pod keeps
            obj = replace(obj, spec=replace(obj.spec, node_name=on))  # noqa: PLW2901
        if stays:
            current[key] = obj
        if stays or old is not None:
            changed.apply([Change(old, obj if stays else None)], NOW)
    assert seen(changed) == seen(live(current.values()))


@pytest.mark.req("D.2")
def test_what_changed_lately_is_shown_once_for_a_crowd() -> None:
    before = shop()
    found = live(before)
    owner = {"ownerReferences": [{"apiVersion": "a/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}]}
    crowd = [pod(f"job-{number}", metadata=owner) for number in range(3)]
    found.apply([Change(None, each) for each in crowd], NOW + timedelta(seconds=5))
    placed = [pod(f"job-{number}", on="east-2", metadata=owner) for number in range(3)]
    tainted = node("east-0", cpu="8", zone="east", labels={"kernel": "6.1.0"}, taints=["a=b:NoSchedule"])
    old = found.snapshot.find(Node, "", "east-0")
    changes: list[Change[Any]] = [Change(*pair) for pair in zip(crowd, placed, strict=True)]
    found.apply([*changes, Change(old, tainted)], NOW + timedelta(seconds=9))
    reported = [line.text for line in overview(found).lately][:3]
    assert reported == [
        "3 pods of Job default/j: got a node",
        "east-0: taint a=b:NoSchedule",
        "3 pods of Job default/j: created",
    ]
    assert found.history.bound == 3


@pytest.mark.req("D.2")
def test_pods_that_have_to_leave_are_counted() -> None:
    found = live(shop())
    old = found.snapshot.find(Pod, "default", "web-0")
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    leaving = pod("web-0", cpu="2", on="east-0", status={"phase": "Running", "conditions": [condition]})
    found.apply([Change(old, leaving)], NOW)
    shown = overview(found)
    assert shown.evicted == 1
    assert [number for _, number in shown.evicted_by] == [0, 1]


@pytest.mark.req("D.2")
def test_how_long_pods_waited_is_what_their_timestamps_say() -> None:
    def placed(name: str, seconds: int) -> Pod:
        at = (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
        created = {"creationTimestamp": NOW.strftime("%Y-%m-%dT%H:%M:%SZ")}
        return pod(name, on="east-0", metadata=created, status={"phase": "Running", "conditions": [condition]})

    shown = overview(live([*shop(), *(placed(f"w{number}", number) for number in range(11))])).waits
    assert shown is not None
    assert (shown.pods, shown.median, shown.p90, shown.longest) == (11, 5, 9, 10)
    assert shown.histogram == [2, 4, 5, 0, 0]


@pytest.mark.req("D.1")
async def test_every_waiting_client_hears_of_a_change() -> None:
    async with dashboard(Snapshot("the test", shop())) as caller:
        before = caller.cluster.revision
        await caller.cluster.apply_changes([Change(None, pod("late", cpu="100"))])
        assert await caller.cluster.wait_for_change(before) == before + 1
        assert (await caller.data())["pending"] == 4
