"""The columns on their own: change logs, domains, growth and forgetting."""

import random

import numpy as np
import pytest
from msgspec import structs

from mooring.api import label_selector
from mooring.api.base import copy_of
from mooring.api.core_v1 import Pod, PodSpec, PodStatus
from mooring.api.meta_v1 import OwnerReference
from mooring.constraints.columns.revisions import NO_ROWS, Derived, Reader, RowLog
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.pod_sets import PodChoice
from mooring.scheduler.columns.ranked_pods import NO_PODS
from mooring.scheduler.columns.signatures import SignatureTable
from mooring.scheduler.columns.topology import CountedDomains, Domains, RowCounts, Topology
from mooring.scheduler.deciding.engine import Engine
from mooring.testing.builders import ZONE, node, pod


def test_a_log_lists_what_changed_since() -> None:
    log = RowLog()
    start = log.changed_at
    for row in (3, 5, 3):
        log.note(row)
    assert sorted(_rows(log, start)) == [3, 5]
    assert log.since(log.changed_at) is NO_ROWS


def _rows(log: RowLog, verified_at: int) -> list[int]:
    rows = log.since(verified_at)
    assert rows is not None
    return list(map(int, rows))


def test_a_reader_that_comes_late_looks_at_everything() -> None:
    log = RowLog()
    start = log.changed_at
    for row in range(5000):
        log.note(row)
    assert log.since(start) is None
    assert len(log._entries) < 2000


def test_a_new_reader_looks_at_everything_and_then_at_changes() -> None:
    log = RowLog()
    log.note(1)
    reader = Reader(log)
    assert reader.changes() is None
    log.note(2)
    log.note(7)
    found = reader.changes()
    assert found is not None
    assert sorted(found.tolist()) == [2, 7]


def _topology(key: str, *values: str | None) -> Topology:
    topology = Topology(key, len(values))
    for row, value in enumerate(values):
        topology.put(row, value)
    return topology


def test_rows_are_grouped_by_their_domains_in_several_topologies() -> None:
    zone, rack = _topology("zone", "a", "a", "b", "a", None), _topology("rack", "1", "2", "3", "1", "1")
    domains = Domains((zone, rack), 5)
    assert len(domains) == 4
    for row in range(5):
        group = domains.codes[row]
        assert domains.parts[0][group] == zone.codes[row]
        assert domains.parts[1][group] == rack.codes[row]
    assert domains.codes[0] == domains.codes[3]


def test_counts_by_domain_follow_pods_and_nodes() -> None:
    cluster = Cluster()
    for name, zone in (("a", "x"), ("b", "y"), ("c", "x")):
        cluster.put(node(name, zone=zone))
    web = PodChoice(label_selector.parse("app=web"), frozenset({"default"}))
    pods = cluster.pod_sets.pod_set(web)
    counts = pods.by_domain(cluster.topologies.of(ZONE))

    def by_zone() -> dict[str, int]:
        topology = cluster.topologies.of(ZONE)
        return {value: int(counts.table()[code]) for code, value in enumerate(topology.values) if value}

    for number, name in enumerate("aabc"):
        cluster.put(pod(f"p{number}", labels={"app": "web"}, on=name))
    cluster.put(pod("other", labels={"app": "db"}, on="a"))
    assert by_zone() == {"x": 3, "y": 1}
    cluster.put(node("c", zone="y"))
    assert by_zone() == {"x": 2, "y": 2}
    cluster.remove(pod("p0", on="a"))
    cluster.remove(node("b"))
    assert by_zone() == {"x": 1, "y": 1}
    cluster.put(node("b", zone="z"))
    assert by_zone() == {"x": 1, "y": 1, "z": 1}


def test_sets_that_no_row_holds_are_forgotten() -> None:
    engine = Engine()
    engine.put(node("a", zone="z"))
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    near = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    engine.schedule(pod("p", spec=near))
    assert len(engine.cluster.pod_sets) == 1
    for evaluator in engine._evaluators.values():
        evaluator.clear()
    assert len(engine.cluster.pod_sets) == 0


def test_terms_that_no_pod_owns_any_more_are_forgotten() -> None:
    cluster = Cluster()
    cluster.put(node("a", zone="z"))
    for number in range(200):
        term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": f"web{number}"}}}
        far = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
        cluster.put(pod(f"p{number}", on="a", spec=far))
        cluster.remove(pod(f"p{number}", on="a"))
    assert not cluster.term_owners.terms()
    assert len(cluster.topologies) == 0


def test_rows_of_removed_nodes_are_used_again() -> None:
    cluster = Cluster()
    for number in range(500):
        cluster.put(node(f"n{number}"))
        cluster.remove(node(f"n{number}"))
    assert cluster.capacity == 64


def test_groups_by_count_follow_pods_one_by_one() -> None:
    lot = random.Random(7)
    zones = _topology("zone", *(lot.choice([None, "a", "b"]) for _ in range(50)))
    domains, pods, log = Domains([zones], 50), RowCounts(), RowLog()
    counting = np.array([lot.random() < 0.9 for _ in range(50)])
    masks = [np.array([lot.random() < 0.8 for _ in range(50)]) for _ in range(2)]
    groups = CountedDomains(domains, pods, counting, Reader(log))
    groups.refresh()
    for step in range(300):
        for _ in range(lot.choice([0, 1, 1, 1, 3, 60])):
            row = lot.randrange(50)
            pods.add(row, -1 if row in pods.by_row and lot.random() < 0.4 else 1)
            log.note(row)
        before = groups.codes.copy()
        assert groups.refresh() == (groups.codes.tolist() != before.tolist()), step
        levels = np.where(counting, pods.array(50) + 1, 0)
        assert groups.codes.tolist() == (levels * len(domains) + zones.codes).tolist(), step
        rows = lot.choice(masks)
        present = groups.find_groups_among(rows)
        assert set(present.ravel().nonzero()[0].tolist()) == set(groups.codes[rows].tolist()), step


@pytest.mark.parametrize(
    ("change", "is_shared_by_template"),
    [
        pytest.param({}, True, id="pods that differ in their names alone are alike"),
        pytest.param({"labels": {"app": "db"}}, False, id="other labels tell them apart"),
        pytest.param({"namespace": "other"}, False, id="another namespace does"),
        pytest.param({"spec": PodSpec(node_selector={"disk": "ssd"})}, False, id="another specification does"),
        pytest.param({"status": PodStatus()}, True, id="a status that says nothing does not"),
    ],
)
def test_pods_made_of_the_same_objects_have_one_shape(change: dict[str, object], is_shared_by_template: bool) -> None:
    shapes = SignatureTable()
    one = pod("a", labels={"app": "web"})
    within = {name: value for name, value in change.items() if name in ("spec", "status")}
    meta = {name: value for name, value in change.items() if name not in within}
    other = structs.replace(one, metadata=structs.replace(one.metadata, name="b", uid="b", **meta), **within)
    first = shapes.signature_of(one)
    assert (shapes.signature_of(other) is first) == is_shared_by_template
    assert shapes.signature_of(other) is shapes.signature_of(structs.replace(other, spec=copy_of(other.spec)))


@pytest.mark.parametrize(
    "change",
    [
        {"finalizers": ["x"], "resource_version": "7"},
        {"deletion_timestamp": "2026-01-01T00:00:00Z"},
        {"labels": {"app": "db"}},
        {"annotations": {"a": "b"}},
        {"owner_references": [OwnerReference(kind="ReplicaSet", name="r", uid="1", controller=True)]},
    ],
    ids=lambda change: next(iter(change)),
)
def test_of_a_pod_whose_metadata_alone_have_changed_columns_hold_what_they_would_of_any(
    change: dict[str, object],
) -> None:
    one = pod("a", on="n", labels={"app": "web"})
    other = structs.replace(one, metadata=structs.replace(one.metadata, **change))
    found = []
    for newer in (other, copy_of(other)):
        cluster = Cluster()
        for thing in (node("n"), one, newer):
            cluster.put(thing)
        [placed] = cluster._pods.values()
        found.append((placed.pod, placed.signature.key, placed.group, list(cluster.pod_sets._groups)))
    assert found[0] == found[1]


def test_verdicts_of_signatures_that_are_not_asked_about_are_dropped() -> None:
    engine = Engine()
    engine.put(node("a"))
    [evaluator] = engine._evaluators.values()
    for number in range(50):
        engine.schedule(pod("p", spec={"nodeSelector": {"n": str(number)}}))
    assert len(evaluator) == 50
    evaluator._meter.bytes = 1 << 40
    engine.schedule(pod("p", spec={"nodeSelector": {"n": "51"}}))
    assert len(evaluator) == 8


def test_the_lowest_priority_of_a_rows_pods_follows_them() -> None:
    lot = random.Random(5)
    cluster = Cluster()
    names = [f"n{number}" for number in range(100)]  # more than there are rows at first
    for name in names:
        cluster.put(node(name))
    pods: dict[str, Pod] = {}
    for number in range(600):
        name = f"p{lot.randint(0, 150)}"
        if name in pods and lot.random() < 0.5:
            cluster.remove(pods.pop(name))
        else:
            before = pods.get(name)
            on = before.spec.node_name if before is not None and lot.random() < 0.5 else lot.choice(names)
            pods[name] = pod(name, on=on, priority=lot.randint(-1, 3))
            cluster.put(pods[name])
        if number % 50 == 0:
            gone = lot.choice(names)
            cluster.remove_node(gone)
            cluster.put(node(gone))
    for name in names:
        there = [entry.spec.priority or 0 for entry in pods.values() if entry.spec.node_name == name]
        assert cluster.priorities.lowest[cluster.row_of[name]] == min(there, default=NO_PODS), name


def test_revisions_tell_the_rows_of_the_last_changes() -> None:
    derived = Derived()
    derived.change(np.array([1]))
    seen = derived.changed_at
    derived.change(np.array([2]))
    derived.change(np.array([3]))
    found = derived.since(seen)
    assert found is not None
    assert found.tolist() == [2, 3]
    assert derived.since(derived.changed_at) is NO_ROWS
    derived.change()
    assert derived.since(seen) is None, "a change of all rows"
    for _ in range(20):
        derived.change(np.array([4]))
    assert derived.since(seen) is None, "forgotten"
