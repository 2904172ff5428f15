"""The scheduler's metrics: exact numbers, kube-scheduler's names, labels and buckets."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from mooring.api.core_v1 import Pod
from mooring.base.metrics import Histograms, exponential_buckets
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework import SUCCESS, Status, error, unschedulable
from mooring.scheduler.framework.profiles import DEFAULT_PLUGINS, PluginUse, ProfileSpec
from mooring.scheduler.plugins import IN_TREE
from mooring.scheduler.running.metrics import SchedulerMetrics
from mooring.scheduler.running.plugin_times import PluginTimes
from scheduler_objects import node, pod

pytestmark = pytest.mark.req("5471.10")


class Lab:
    """An engine with three nodes: one with a taint, one that is nearly full, and a good one."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.metrics = SchedulerMetrics()
        self.registry = CollectorRegistry()
        self.registry.register(self.metrics)
        self.engine.put(node("tainted", taints=[("sla", "900", "NoSchedule")]))
        self.engine.put(node("full"))
        self.engine.put(pod("old", cpu="3", on="full"))
        self.engine.put(node("good"))

    def evaluate(self, **spec: Any) -> None:
        self.metrics.record_evaluation(self.engine.schedule(pod("web", **spec)), 0.001)

    def number(self, plugin: str, status: str, point: str = "Filter") -> float:
        labels = {"plugin": plugin, "extension_point": point, "profile": "default-scheduler", "status": status}
        return self.registry.get_sample_value("scheduler_plugin_evaluation_total", labels) or 0.0

    def filtered(self, plugin: str) -> tuple[float, float, float]:
        words = ("Success", "Unschedulable", "UnschedulableAndUnresolvable")
        return tuple(self.number(plugin, word) for word in words)  # type: ignore[return-value] # there are three


def test_a_plugin_counts_for_every_node_that_those_before_it_accepted() -> None:
    lab = Lab()
    lab.evaluate(cpu="2")
    assert lab.filtered("NodeUnschedulable") == (3, 0, 0)
    assert lab.filtered("TaintToleration") == (2, 0, 1)
    assert lab.filtered("NodeResourcesFit") == (1, 1, 0)


def test_verdicts_that_like_pods_share_count_for_each_of_them() -> None:
    lab = Lab()
    for _ in range(5):
        lab.evaluate(cpu="2")
    assert lab.filtered("TaintToleration") == (10, 0, 5)
    assert lab.filtered("NodeResourcesFit") == (5, 5, 0)


def test_a_numeric_toleration_moves_a_node_from_refused_to_accepted() -> None:
    lab = Lab()
    lab.evaluate(tolerations=[{"key": "sla", "operator": "Gt", "value": "850", "effect": "NoSchedule"}])
    assert lab.filtered("TaintToleration") == (3, 0, 0)
    lab.evaluate(tolerations=[{"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}])
    assert lab.filtered("TaintToleration") == (5, 0, 1)


def test_only_feasible_nodes_are_scored_and_a_single_one_is_not() -> None:
    lab = Lab()
    lab.evaluate(cpu="2")
    assert lab.number("TaintToleration", "Success", "Score") == 0
    lab.evaluate(cpu="100m")
    assert lab.number("NodeResourcesFit", "Success", "Score") == 2


@pytest.mark.parametrize(
    ("start", "factor", "number", "last"), [(0.001, 2, 15, 16.384), (0.0001, 2, 12, 0.2048), (0.01, 2, 20, 5242.88)]
)
def test_buckets_are_those_of_kubernetes(start: float, factor: float, number: int, last: float) -> None:
    buckets = exponential_buckets(start, factor, number)
    assert (len(buckets), buckets[0]) == (number, start)
    assert buckets[-1] == pytest.approx(last)


def test_a_histogram_counts_up_to_its_bounds() -> None:
    lab = Lab()
    for seconds in (0.0005, 0.001, 0.003, 100.0):
        lab.metrics.record_attempt("scheduled", "p", seconds)
    name = "scheduler_scheduling_attempt_duration_seconds"
    labels = {"result": "scheduled", "profile": "p"}
    bounds = {"0.001": 2.0, "0.002": 2.0, "0.004": 3.0, "16.384": 3.0, "+Inf": 4.0}
    found = {le: lab.registry.get_sample_value(f"{name}_bucket", {**labels, "le": le}) for le in bounds}
    assert found == bounds
    assert lab.registry.get_sample_value(f"{name}_count", labels) == 4
    assert lab.registry.get_sample_value(f"{name}_sum", labels) == pytest.approx(100.0045)
    assert lab.registry.get_sample_value("scheduler_schedule_attempts_total", labels) == 4


def test_the_page_has_the_names_that_the_proposals_ask_for_and_prometheus_reads_it() -> None:
    lab = Lab()
    page = generate_latest(lab.registry).decode()
    names = {family.name for family in text_string_to_metric_families(page)}
    assert names >= {
        "scheduler_plugin_evaluation",
        "scheduler_framework_extension_point_duration_seconds",
        "scheduler_plugin_execution_duration_seconds",
        "scheduler_schedule_attempts",
        "scheduler_scheduling_attempt_duration_seconds",
        "scheduler_scheduling_duration_seconds",
        "scheduler_preemption_victims",
        "scheduler_preemption_attempts",
        "scheduler_queue_incoming_pods",
    }


class Choosy:
    """Says what a pod's label says, about every node."""

    name = "Choosy"
    __slots__ = ()

    def __init__(self, *_: object) -> None:
        pass

    def pre_filter_pod(self, _cycle: object, pod: Pod, _cluster: object) -> Status:
        return unschedulable("not today") if pod.metadata.labels.get("says") == "not today" else SUCCESS

    def filter_node(self, _cycle: object, pod: Pod, _node: object) -> Status:
        says = pod.metadata.labels.get("says")
        if says == "raises":
            raise ValueError("a defect")
        return unschedulable("no") if says == "no" else error("broken") if says == "broken" else SUCCESS

    def score_node(self, *_: object) -> int:
        return 1


@dataclass(frozen=True)
class Timed:
    says: str
    points: dict[str, str]
    """The extension points that are counted for the attempt, and with which status."""
    plugin: dict[str, str]
    """The same for the plugin."""


GOOD = {"PreFilter": "Success", "Filter": "Success"}
TIMED = [
    Timed("yes", GOOD | {"PreScore": "Success", "Score": "Success"}, GOOD | {"Score": "Success"}),
    Timed("no", GOOD, {"PreFilter": "Success", "Filter": "Unschedulable"}),
    Timed("not today", {"PreFilter": "Unschedulable"}, {"PreFilter": "Unschedulable"}),
    Timed("broken", {"PreFilter": "Success", "Filter": "Error"}, {"PreFilter": "Success", "Filter": "Error"}),
    Timed("raises", {}, {"PreFilter": "Success", "Filter": "Error"}),
]


def counted(durations: Histograms, *labels: str) -> dict[tuple[str, ...], float]:
    samples = [each for each in durations.family().samples if each.name.endswith("_count")]
    return {tuple(each.labels[name] for name in labels): each.value for each in samples}


@pytest.mark.parametrize("case", TIMED, ids=lambda case: case.says)
def test_extension_points_and_plugins_are_counted_when_they_ran_and_with_what_they_said(case: Timed) -> None:
    metrics = SchedulerMetrics()
    times = PluginTimes(metrics)
    spec = ProfileSpec(plugins=(*DEFAULT_PLUGINS, PluginUse("Choosy")))
    engine = Engine((spec,), registry={**IN_TREE, "Choosy": Choosy}, timed=times.wrap)
    for name in ("a", "b"):
        engine.put(node(name))
    times.begin_attempt()
    with suppress(ValueError):
        spent = times.record_attempt(engine.schedule(pod("p", labels={"says": case.says})))
        assert spent["PreFilter"] > 0
    points = counted(metrics.point_durations, "extension_point", "status")
    assert points == dict.fromkeys(case.points.items(), 1)
    plugins = counted(metrics.plugin_durations, "plugin", "extension_point", "status")
    assert {key[1:] for key in plugins if key[0] == "Choosy"} == set(case.plugin.items())


def test_one_call_of_a_plugin_in_ten_is_counted_by_itself() -> None:
    metrics = SchedulerMetrics()
    times = PluginTimes(metrics)
    for _ in range(21):
        times.record_call("Slow", "Reserve", unschedulable("no"), 0.1)
    assert counted(metrics.plugin_durations, "plugin", "status") == {("Slow", "Unschedulable"): 3}


def test_work_that_is_done_before_filtering_counts_as_filtering() -> None:
    metrics = SchedulerMetrics()
    times = PluginTimes(metrics)
    engine = Engine(timed=times.wrap)
    engine.put(node("a"))
    engine.schedule(pod("p"))
    plugins = counted(metrics.plugin_durations, "plugin", "extension_point")
    assert plugins["InterPodAffinity", "Filter"] == 1  # it skips the pod, which it finds out by looking at all terms
