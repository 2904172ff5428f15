"""What operators rely on when it gets tight: traces, metrics of caches, fairness, and room that is given out once."""

import logging
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from mooring.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from mooring.constraints.expressions import NodeExpression
from mooring.scheduler.queue import Backoffs
from mooring.scheduler.running import cycle
from mooring.scheduler.running.options import SchedulerConfig
from mooring.scheduler.running.runtime import Scheduler
from mooring.testing.builders import made
from scheduler_rig import Rig, rig

pytestmark = pytest.mark.req("S.3")
QUICK = SchedulerConfig(backoffs=Backoffs(initial=0.05, maximum=0.2))


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rig(tmp_path) as found:
        yield found


def sample(scheduler: Scheduler, name: str, **labels: str) -> float:
    registry = CollectorRegistry()
    registry.register(scheduler.metrics)
    return registry.get_sample_value(name, labels) or 0.0


async def test_the_choice_of_a_node_that_takes_long_is_logged_with_where_the_time_went(
    cluster: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cycle, "_SLOW_SECONDS", 0.0)
    await cluster.add_node("n1")
    cluster.start(QUICK)
    with caplog.at_level(logging.WARNING, "mooring.scheduler.running.cycle"):
        await cluster.add_pod("web")
        await cluster.until(lambda: cluster.node_of("web"))
    [record] = [entry for entry in caplog.records if entry.message == "choosing a node took long"]
    fields: dict[str, Any] = record.fields  # type: ignore[attr-defined] # what `extra` has put there
    assert {"pod", "seconds", "nodes", "feasible", "result", "attempt", "PreFilter", "Filter"} <= fields.keys()
    assert (fields["nodes"], fields["result"], fields["attempt"]) == (1, "scheduled", 1)


async def test_caches_show_their_sizes_and_hits(cluster: Rig) -> None:
    await cluster.add_node("n1", labels={"kernel": "6.1.0"})
    scheduler = cluster.start(QUICK)
    expression = "semver.compare(node.labels['kernel'], '>=5.10')"
    before = sample(scheduler, "mooring_cel_cache_hits_total", cache="node")
    for name in "abc":  # three node affinities with one expression
        here = {"key": "kernel", "operator": "NotIn", "values": [name]}
        term = {"matchCELExpressions": [expression], "matchExpressions": [here]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        await cluster.add_pod(name, cpu="100m", affinity={"nodeAffinity": required})
    await cluster.until(lambda: all(cluster.node_of(name) for name in "abc"))
    assert sample(scheduler, "scheduler_cache_size", type="nodes") == 1
    assert sample(scheduler, "scheduler_cache_size", type="pods") == 3
    assert sample(scheduler, "mooring_cel_cache_size", cache="node") >= 1
    assert sample(scheduler, "mooring_cel_cache_misses_total", cache="node") >= 1
    assert sample(scheduler, "mooring_cel_cache_hits_total", cache="node") > before


@pytest.mark.req("S.6", "5500.6")
async def test_expensive_expressions_of_one_pod_do_not_delay_other_pods(
    cluster: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time is counted in evaluations of expressions, of which a turn of the cycle may make 30."""
    evaluations, matches, turn = 0, NodeExpression.matches, cycle.Cycle._run_round
    turns: list[int] = []

    def count(expression: NodeExpression, labels: Mapping[str, str]) -> bool:
        nonlocal evaluations
        evaluations += 1
        return matches(expression, labels)

    async def measure(running: cycle.Cycle) -> None:
        before = evaluations
        await turn(running)
        turns.append(evaluations - before)

    monkeypatch.setattr(NodeExpression, "matches", count)
    monkeypatch.setattr(cycle.Cycle, "_run_round", measure)
    monkeypatch.setattr(cycle, "_ROUND_SECONDS", 15)
    monkeypatch.setattr(cycle, "perf_counter", lambda: evaluations)
    for number in range(20):
        await cluster.add_node(f"n{number}", cpu="8", labels={"host": str(number)})
    expensive = [f"node.labels.all(k, k != '{number}')" for number in range(16)]
    required = {"nodeSelectorTerms": [{"matchCELExpressions": expensive}]}
    first = await cluster.add_pod(
        "expensive", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    )
    for number in range(10):
        await cluster.add_pod(f"web-{number}", cpu="100m")
    scheduler = cluster.start(QUICK)
    scheduler.engine.cluster.deadline.clock = lambda: evaluations
    await cluster.until(lambda: len(cluster.bindings) == 11)
    assert list(cluster.bindings)[-1] == first.metadata.uid, "the others are bound while it is evaluated"
    assert evaluations == 20 * 16, "no expression is evaluated twice on a node"
    assert max(turns) < 60


async def test_a_flood_of_pods_that_fit_nowhere_keeps_no_other_from_being_bound(cluster: Rig) -> None:
    await cluster.add_node("n1", cpu="4")
    for number in range(300):
        await cluster.add_pod(f"flood-{number}", cpu="64")
    scheduler = cluster.start(QUICK)
    for number in range(10):
        await cluster.add_pod(f"web-{number}", cpu="100m")
        await cluster.until(lambda number=number: cluster.node_of(f"web-{number}"))  # type: ignore[misc] # a default
        await cluster.add_node(f"more-{number}", cpu="1")  # that wakes no pod of the flood: it is too small
    assert sample(scheduler, "scheduler_schedule_attempts_total", result="scheduled", profile="default-scheduler") == 10
    assert len([pod for pod in cluster.pods.values() if not pod.spec.node_name]) == 300


async def test_room_that_the_cache_does_not_know_to_be_taken_is_not_given_out_twice_by_this_scheduler(
    cluster: Rig,
) -> None:
    await cluster.add_node("n1", cpu="1")
    cluster.start(QUICK)
    for number in range(20):
        await cluster.add_pod(f"p{number}", cpu="300m")

    def reported() -> bool:
        waiting = [pod for pod in cluster.pods.values() if not pod.spec.node_name]
        return len(waiting) == 17 and all(pod.status.conditions for pod in waiting)

    await cluster.until(reported)
    assert sum(1 for pod in cluster.pods.values() if pod.spec.node_name) == 3


async def test_pods_that_were_there_first_find_their_claims_when_the_scheduler_starts(cluster: Rig) -> None:
    """All other kinds are read before pods, so that no pod is rejected for a claim that is not read yet."""
    await cluster.add_node("n1")
    await cluster.admin.create(made(DeviceClass, {"metadata": {"name": "gpu"}, "spec": {}}))
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"g{number}"} for number in range(30)]
    spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": "n1", "devices": devices}
    await cluster.admin.create(made(ResourceSlice, {"metadata": {"name": "s"}, "spec": spec}))
    for number in range(30):
        requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
        metadata = {"name": f"c{number}", "namespace": "default"}
        claim = {"metadata": metadata, "spec": {"devices": {"requests": requests}}}
        await cluster.admin.create(made(ResourceClaim, claim))
        entries = [{"name": "c", "resourceClaimName": f"c{number}"}]
        await cluster.add_pod(f"p{number}", cpu="10m", resourceClaims=entries)
    scheduler = cluster.start(QUICK)
    await cluster.until(lambda: sum(bool(pod.spec.node_name) for pod in cluster.pods.values()) == 30)
    assert sample(scheduler, "scheduler_queue_incoming_pods_total", queue="active", event="PodAdd") == 30
    assert sample(scheduler, "scheduler_queue_incoming_pods_total", queue="gated", event="PodAdd") == 0
    claims = (await cluster.admin.list(ResourceClaim, "default")).items
    allocations = [claim.status.allocation for claim in claims if claim.status.allocation is not None]
    used = {result.device for allocation in allocations for result in allocation.devices.results}
    assert len(used) == 30, "no device is given to two pods"
