"""Autoscalers: how many pods metrics ask for, how fast that is followed, and what is said about it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from control_plane import ControlPlane, control_plane
from mooring.api.apps_v1 import Deployment
from mooring.api.autoscaling_v2 import (
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerBehavior,
    HPAScalingPolicy,
    HPAScalingRules,
)
from mooring.api.core_v1 import Pod
from mooring.controllers.autoscaling.replica_counts import (
    NoMeasureError,
    ScalingHistory,
    ScalingRequest,
    ScalingTolerance,
    apply_behavior,
    propose_by_total,
    propose_by_usage,
    propose_by_value_per_pod,
)
from mooring.controllers.simulated_nodes.templates import build_numbered_nodes, create_nodes
from mooring.testing.builders import pod

pytestmark = pytest.mark.req("N.10")
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def running(name: str, *, ready: bool = True, phase: str = "Running") -> Pod:
    condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": "2026-01-02T03:00:00Z"}
    return pod(name, status={"phase": phase, "startTime": "2026-01-02T03:00:00Z", "conditions": [condition]})


@dataclass(frozen=True)
class Case:
    name: str
    used: list[int]
    target: int
    expected: int
    requests: int | None = 1000
    missing: int = 0
    pending: int = 0
    unready: int = 0
    current: int = 0


CASES = [
    Case("more is used than aimed at", [300, 500, 700], 30, 5),
    Case("a little more changes nothing", [1010, 1030, 1020], 100, 3),
    Case("less is used", [100, 300, 500], 50, 2),
    Case("pods without a measure count as idle when it grows", [1500, 1700], 50, 7, missing=2, current=4),
    Case("and as busy when it shrinks", [100, 100], 50, 3, missing=1),
    Case("a pod that is about to start is idle when it grows", [500, 700], 30, 4, pending=1),
    Case("and is left out when it shrinks", [100, 100], 50, 1, pending=1, current=3),
    Case("nothing changes where missing pods turn the direction", [500, 700], 50, 4, missing=2, current=4),
    Case("a value for each pod", [20_000, 10_000, 10_000], 10_000, 4, requests=None),
    Case("use of CPU by pods that are not ready does not count", [600, 600], 50, 3, unready=1, current=3),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_how_many_pods_are_asked_for_by_what_each_uses(case: Case) -> None:
    names = [f"p{number}" for number in range(len(case.used))]
    pods = [running(name) for name in names]
    pods += [running(f"m{number}") for number in range(case.missing)]
    pods += [running(f"w{number}", phase="Pending", ready=False) for number in range(case.pending)]
    pods += [running(f"u{number}", ready=False) for number in range(case.unready)]
    measures = dict(zip(names, case.used, strict=True)) | {f"u{number}": 9000 for number in range(case.unready)}
    requests = {each.metadata.name: case.requests for each in pods} if case.requests is not None else None
    found = propose_by_usage(
        pods,
        measures,
        case.current or len(pods),
        case.target,
        tolerance=ScalingTolerance(),
        now=NOW,
        resource="cpu" if case.requests is not None else "",
        requests=requests,
    )
    assert found.replicas == case.expected


def test_without_any_measure_there_is_no_answer() -> None:
    with pytest.raises(NoMeasureError, match="did not receive metrics"):
        propose_by_usage([running("a")], {}, 1, 50, tolerance=ScalingTolerance(), now=NOW)
    with pytest.raises(NoMeasureError, match="no pods"):
        propose_by_usage([], {}, 1, 50, tolerance=ScalingTolerance(), now=NOW)


def test_one_value_for_all_and_one_that_pods_share() -> None:
    pods = [running("a"), running("b"), running("c", ready=False)]
    assert propose_by_total(pods, 20_000, 3, 10_000, ScalingTolerance()).replicas == 4
    assert propose_by_total(pods, 10_500, 3, 10_000, ScalingTolerance()).replicas == 3
    assert propose_by_total([], 3_000, 0, 1_000, ScalingTolerance()).replicas == 3
    assert propose_by_value_per_pod(45_000, 3, 10_000, ScalingTolerance()).replicas == 5
    assert propose_by_value_per_pod(31_000, 3, 10_000, ScalingTolerance()).replicas == 3


def rules(window: int | None, *policies: tuple[str, int, int], select: str = "Max") -> HPAScalingRules:
    return HPAScalingRules(
        stabilization_window_seconds=window,
        select_policy=select,
        policies=[HPAScalingPolicy(type=kind, value=value, period_seconds=period) for kind, value, period in policies],
    )


@dataclass(frozen=True)
class Paced:
    name: str
    current: int
    wanted: int
    expected: int
    reason: str
    up: HPAScalingRules | None = None
    down: HPAScalingRules | None = None
    recommended: list[tuple[float, int]] = field(default_factory=list)
    changed: list[tuple[float, int]] = field(default_factory=list)


PACED = [
    Paced("it may double", 10, 50, 20, "ScaleUpLimit"),
    Paced("or grow by four", 1, 50, 5, "ScaleUpLimit"),
    Paced("but not beyond the maximum", 60, 500, 100, "TooManyReplicas"),
    Paced("what was added a moment ago counts", 10, 50, 10, "ScaleUpLimit", changed=[(995.0, 5)]),
    Paced("it shrinks at once where nothing else was asked for", 10, 3, 3, "DesiredWithinRange"),
    Paced("to no less than the minimum", 10, 0, 1, "TooFewReplicas"),
    Paced(
        "the most that was asked for in five minutes stays", 10, 3, 8, "DesiredWithinRange", recommended=[(800.0, 8)]
    ),
    Paced("what is older does not count", 10, 3, 3, "DesiredWithinRange", recommended=[(600.0, 8)]),
    Paced(
        "a window for growing", 5, 9, 6, "DesiredWithinRange", up=rules(60, ("Pods", 9, 15)), recommended=[(950.0, 6)]
    ),
    Paced(
        "the smaller change",
        10,
        50,
        12,
        "ScaleUpLimit",
        up=rules(0, ("Pods", 2, 60), ("Percent", 100, 60), select="Min"),
    ),
    Paced("no growth", 10, 50, 10, "ScaleUpLimit", up=rules(0, ("Pods", 2, 60), select="Disabled")),
    Paced("slow shrinking", 10, 1, 8, "ScaleDownLimit", down=rules(0, ("Pods", 2, 60))),
]


@pytest.mark.parametrize("case", PACED, ids=lambda case: case.name)
def test_how_fast_a_workload_follows(case: Paced) -> None:
    history = ScalingHistory(list(case.recommended), list(case.changed))
    behavior = HorizontalPodAutoscalerBehavior(scale_up=case.up, scale_down=case.down)
    decision = apply_behavior(behavior, history, ScalingRequest(case.current, case.wanted, 1, 100, 1000.0))
    assert (decision.replicas, decision.limited[1]) == (case.expected, case.reason)


# -- on a server


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    names = ("horizontalpodautoscaler", "deployment", "replicaset", "simulated-nodes", "simulated-pods")
    async with control_plane(*names) as running_plane:
        await create_nodes(running_plane.client, build_numbered_nodes(1))
        yield running_plane


async def deployed(plane: ControlPlane, **annotations: str) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [container], "nodeName": "node-0", "tolerations": [{"operator": "Exists"}]},
    }
    marks = {f"metrics.mooring.dev/{name.replace('_', '-')}": text for name, text in annotations.items()}
    await plane.create(
        Deployment,
        metadata={"name": "web", "namespace": "default", "annotations": marks},
        spec={"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    )
    await plane.run(2)


async def autoscaled(plane: ControlPlane, *metrics: dict[str, Any], target: str = "web", **annotations: str) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    spec: dict[str, Any] = {"scaleTargetRef": reference, "minReplicas": 1, "maxReplicas": 6, "metrics": list(metrics)}
    marks = {f"metrics.mooring.dev/{name}": text for name, text in annotations.items()}
    meta = {"name": "web", "namespace": "default", "annotations": marks}
    await plane.create(HorizontalPodAutoscaler, metadata=meta, spec=spec)


CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}


async def replicas(plane: ControlPlane) -> int | None:
    return (await plane.client.get(Deployment, "web", "default")).spec.replicas


async def said(plane: ControlPlane) -> dict[str, tuple[str, str]]:
    status = (await plane.client.get(HorizontalPodAutoscaler, "web", "default")).status
    return {each.type: (each.status, each.reason) for each in status.conditions}


async def test_a_workload_grows_until_its_pods_share_the_load_and_shrinks_later(plane: ControlPlane) -> None:
    await deployed(plane, total_cpu="200m")
    await autoscaled(plane, CPU)
    await plane.run(60)
    assert await replicas(plane) == 4
    status = (await plane.client.get(HorizontalPodAutoscaler, "web", "default")).status
    assert status.current_metrics[0].resource is not None
    assert status.current_metrics[0].resource.current.average_utilization == 50
    assert (await said(plane))["ScalingActive"] == ("True", "ValidMetricFound")
    marks = {"metadata": {"annotations": {"metrics.mooring.dev/total-cpu": "40m"}}}
    await plane.client.patch(Deployment, "web", marks, "default")
    await plane.run(120)
    assert await replicas(plane) == 4
    assert (await said(plane))["AbleToScale"] == ("True", "ScaleDownStabilized")
    await plane.run(240)
    assert await replicas(plane) == 1
    notes = [event.note for event in await plane.events("SuccessfulRescale")]
    assert notes[0] == "New size: 4; reason: cpu resource utilization (percentage of request) above target"
    assert notes[-1] == "New size: 1; reason: All metrics below target"


async def test_an_external_value_that_the_autoscaler_itself_has(plane: ControlPlane) -> None:
    await deployed(plane)
    target = {"type": "AverageValue", "averageValue": "10"}
    await autoscaled(
        plane, {"type": "External", "external": {"metric": {"name": "queue"}, "target": target}}, queue="35"
    )
    await plane.run(30)
    assert await replicas(plane) == 4


async def test_bounds_hold_without_any_metric(plane: ControlPlane) -> None:
    await deployed(plane)
    await plane.client.scale(Deployment, "web", "default", 9)
    await plane.run(1)
    await autoscaled(plane, CPU)
    await plane.run(1)
    assert await replicas(plane) == 6


async def test_a_missing_metric_changes_nothing_and_is_reported(plane: ControlPlane) -> None:
    await deployed(plane)
    await autoscaled(plane, CPU)
    await plane.run(20)
    assert await replicas(plane) == 1
    assert (await said(plane))["ScalingActive"] == ("False", "FailedGetResourceMetric")
    assert "metrics.mooring.dev/cpu" in (await plane.events("FailedGetResourceMetric"))[0].note


async def test_a_workload_at_zero_stays_there(plane: ControlPlane) -> None:
    await deployed(plane, total_cpu="1")
    await plane.client.scale(Deployment, "web", "default", 0)
    await autoscaled(plane, CPU)
    await plane.run(20)
    assert await replicas(plane) == 0
    assert (await said(plane))["ScalingActive"] == ("False", "ScalingDisabled")


async def test_a_target_that_is_not_there_is_reported(plane: ControlPlane) -> None:
    await deployed(plane)
    await autoscaled(plane, CPU, target="none")
    await plane.run(20)
    assert (await said(plane))["AbleToScale"] == ("False", "FailedGetScale")
