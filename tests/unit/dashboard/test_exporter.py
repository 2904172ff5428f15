"""What the exporter measures of a cluster, and how many series it can have."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mooring.advisor.simulate import Settings
from mooring.advisor.snapshot import Snapshot
from mooring.api import times
from mooring.api.meta_v1 import Resource
from mooring.dashboard import exporter
from mooring.dashboard.access import Access
from mooring.dashboard.exporter import Exporter, Labels, Measurement
from mooring.dashboard.live_snapshot import LiveSnapshot
from mooring.dashboard.watching import Watching
from mooring.testing.builders import node, pod
from mooring.testing.clock import MockClock

pytestmark = pytest.mark.req("I.5")
NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
PENDING = {"phase": "Pending"}


def measured(*objects: Resource, into: Exporter | None = None) -> Measurement:
    settings = Settings()
    live = LiveSnapshot(Snapshot("the test", objects), settings, NOW)
    found = into or Exporter(Watching(Access(origin="the test", settings=settings)), 15.0)
    found.last = found.measure(live, NOW)  # which has no remedies yet
    found.search(live)
    found.last = found.measure(live, NOW)
    return found.last


def nodes() -> Iterable[Resource]:
    return (node("a", cpu="4", labels={"disk": "ssd"}), node("b", cpu="4"))


def waiting(name: str, **more: Any) -> Resource:
    return pod(name, status=PENDING, **more)


@pytest.mark.parametrize(
    ("objects", "expected", "can_never_fit"),
    [
        ([waiting("p", cpu="100")], Labels("default", "Pod/p", "NodeResourcesFit", "patch Pod"), True),
        (
            [waiting("p", cpu="3"), *(pod(f"r{each}", cpu="2", on=each) for each in "ab")],
            Labels("default", "Pod/p", "NodeResourcesFit", "patch Pod"),
            False,
        ),
        (
            [waiting("p", spec={"nodeSelector": {"disk": "nvme"}})],
            Labels("default", "Pod/p", "NodeAffinity", "patch Node"),
            True,
        ),
        (
            [waiting("p", spec={"schedulerName": "volcano"})],
            Labels("default", "Pod/p", exporter.ANOTHER_SCHEDULER, "patch Pod"),
            False,
        ),
        ([waiting("p", cpu="1")], Labels("default", "Pod/p", exporter.NOT_TRIED, exporter.NO_REMEDY), False),
    ],
    ids=[
        "a pod larger than any node can never fit",
        "a pod that a node has no room for now",
        "a label that no node has",
        "a pod of another scheduler",
        "a pod that the scheduler has not tried yet",
    ],
)
def test_pods_are_counted_by_plugin_and_remedy(objects: list[Resource], expected: Labels, can_never_fit: bool) -> None:
    found = measured(*nodes(), *objects)
    assert dict(found.pending) == {expected: 1}
    assert dict(found.unsatisfiable) == ({expected: 1} if can_never_fit else {})


def test_pods_that_wait_for_different_gates_are_not_one_group() -> None:
    gates = ({"schedulingGates": [{"name": name}]} for name in ("example.com/a", "example.com/b"))
    found = measured(*nodes(), *(waiting(f"p{number}", spec=spec) for number, spec in enumerate(gates)))
    assert sorted(labels.owner for labels in found.pending) == ["Pod/p0", "Pod/p1"]
    assert {labels.plugin for labels in found.pending} == {"SchedulingGates"}


def test_the_oldest_pod_and_the_share_of_resources_are_measured() -> None:
    created = times.to_seconds(NOW - timedelta(hours=2))
    found = measured(
        *nodes(), pod("r", cpu="3900m", on="a"), waiting("p", cpu="100", metadata={"creationTimestamp": created})
    )
    assert found.oldest_seconds == 7200
    assert found.nodes["cpu"] == {"over 95%": 1, "up to 50%": 1}


def test_series_are_limited_however_many_owners_wait() -> None:
    count = exporter.MAX_GROUPS + 50
    found = measured(*nodes(), *(waiting(f"p{number}", cpu="100") for number in range(count)))
    assert len(found.pending) == exporter.MAX_GROUPS + 1
    assert found.pending[Labels(*[exporter.OTHERS] * 4)] == 50
    assert found.pending.total() == count


def test_remedies_are_searched_again_only_for_new_owners_or_when_they_are_old() -> None:
    clock = MockClock()
    cluster = Exporter(Watching(Access(origin="the test", settings=Settings())), 15.0, clock)
    measured(*nodes(), waiting("p", cpu="100"), into=cluster)
    first = cluster._remedies
    assert list(first.values()) == ["patch Pod"]
    clock.advance(60)
    measured(*nodes(), waiting("p", cpu="100"), into=cluster)
    assert cluster._remedies is first
    clock.advance(60)
    measured(*nodes(), waiting("p", cpu="100"), waiting("q", cpu="100"), into=cluster)
    assert len(cluster._remedies) == 2
    clock.advance(601)
    measured(*nodes(), into=cluster)
    assert cluster._remedies == {}


def test_a_page_has_every_family_with_its_help() -> None:
    cluster = Exporter(Watching(Access(origin="the test", settings=Settings())), 15.0)
    assert list(cluster.collect()) == []
    measured(*nodes(), waiting("p", cpu="100"), into=cluster)
    families = {family.name: family.documentation for family in cluster.collect()}
    assert set(families) == {
        "mooring_pending_pods",
        "mooring_unsatisfiable_pods",
        "mooring_oldest_pending_pod_seconds",
        "mooring_nodes",
        "mooring_exporter_last_measurement_timestamp_seconds",
        "mooring_exporter_connected",
    }
    assert all(families.values())
