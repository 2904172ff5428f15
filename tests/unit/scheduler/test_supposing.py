"""What is tried is taken back: columns are the same before and after, whatever plugins do in between."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core_v1 import Pod
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.pod_sets import PodChoice
from mooring.scheduler.columns.signatures import ANY_ADDRESS, HostPort
from mooring.scheduler.deciding.engine import Engine, NodeExplanation
from mooring.scheduler.framework import (
    SUCCESS,
    Declaration,
    Derived,
    Factory,
    FilterPlugin,
    Input,
    Part,
    PostFilterResult,
    PreFilterResult,
    ScorePlugin,
    Status,
    Verdicts,
)
from mooring.scheduler.framework.profiles import DEFAULT_PLUGINS, PluginUse, ProfileSpec
from mooring.scheduler.plugins import IN_TREE
from mooring.testing.builders import node, pod

pytestmark = pytest.mark.req("S.3")


def columns_of(cluster: Cluster) -> dict[str, Any]:
    """All that the columns say of pods, in an order that does not depend on how they came about."""
    rows = [info.row for info in cluster.node_infos()]
    selectors = [
        PodChoice.of_term(term) for placed in cluster.placed_pods() for term in placed.signature.terms.affinity
    ]
    return {
        "used": {
            name: cluster.resources.used[line, rows].tolist() for name, line in cluster.resources.resources().items()
        },
        "beside": {row: cluster.resources.amounts("example.com/unknown", row) for row in rows},
        "priorities": cluster.priorities.lowest[rows].tolist(),
        "placed": {info.name: list(info.placed) for info in cluster.node_infos()},
        "ranked": {row: [placed.pod.metadata.name for placed in cluster.rank_pods(row).placed] for row in rows},
        "ports": cluster.ports.conflicts([HostPort("TCP", 80, ANY_ADDRESS)], slice(None), cluster.capacity).tolist(),
        "terms": {term.key: dict(sorted(term.by_row.items())) for term in cluster.term_owners.terms()},
        "sets": [dict(sorted(cluster.pod_sets.pod_set(choice).by_row.items())) for choice in selectors],
        "pods": {placed.pod.metadata.uid: placed.node_name for placed in cluster.placed_pods()},
    }


class DefectError(Exception):
    """What a treacherous plugin raises."""


class Treacherous:
    """Passes everything, until it is asked at its point for the so-manieth time."""

    name = "Treacherous"

    def __init__(self, *_: object) -> None:
        self.point, self.calls = "", 0
        self.log: Counter[str] = Counter()

    def at(self, point: str) -> None:
        self.log[point] += 1
        if point == self.point:
            self.calls -= 1
            if self.calls == 0:
                raise DefectError(point)


class ByShape(Treacherous, FilterPlugin[Any], ScorePlugin[Any]):
    filters = Declaration(Part.ALL, Input.NODE | Input.PODS, cluster=Input.PODS)
    scores = Declaration(Part.ALL, Input.NODE | Input.PODS, cluster=Input.PODS, is_normalized=True)

    def pre_filter(self, _pod: Any, cluster: Cluster) -> PreFilterResult[Cluster]:
        self.at("pre_filter")
        return PreFilterResult(cluster)

    def filter(self, state: Cluster, rows: Any) -> Verdicts:
        self.at("filter")
        return Verdicts(np.zeros(state.capacity, np.int32)[rows], lambda _: ())

    def refresh(self, _state: Cluster) -> Derived:
        self.at("refresh")
        return Derived()

    def pre_score(self, _pod: Any, cluster: Cluster) -> Cluster:
        self.at("pre_score")
        return cluster

    def score(self, state: Cluster, rows: Any) -> Any:
        self.at("score")
        return np.ones(state.capacity, np.int64)[rows]

    def refresh_score(self, _state: Cluster, _feasible: Any) -> Derived:
        self.at("refresh_score")
        return Derived()

    def span(self, _scores: Any, _feasible: Any) -> tuple[int, ...]:
        self.at("span")
        return ()

    def normalized(self, scores: Any, _span: Any) -> Any:
        self.at("normalized")
        return scores


class ByPod(ByShape):
    filters = Declaration(Part.POD)
    scores = Declaration(Part.POD, is_normalized=True)


class ByNode(Treacherous):
    def pre_filter_pod(self, *_: object) -> Status:
        self.at("pre_filter_pod")
        return SUCCESS

    def filter_node(self, *_: object) -> Status:
        self.at("filter_node")
        return SUCCESS

    def score_node(self, *_: object) -> int:
        self.at("score_node")
        return 1

    def normalize_scores(self, _pod: Pod, scores: dict[str, int]) -> dict[str, int]:
        self.at("normalize_scores")
        return scores


class Observing(Treacherous):
    def __init__(self, _arguments: object, handle: Any) -> None:
        super().__init__()
        handle.cluster.observers.append(self)

    def pod_placed(self, *_: object) -> None:
        self.at("pod_placed")

    def pod_left(self, *_: object) -> None:
        self.at("pod_left")


NEAR_WEB = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}
PORT = {"containers": [{"name": "c", "image": "x", "ports": [{"containerPort": 80, "hostPort": 80}]}]}


def filled(engine: Engine) -> Engine:
    """Nodes full of pods with ports, terms and resources that no node offers, and a nominated pod."""
    for name in ("a", "b", "c"):
        engine.put(node(name, cpu="4"))
        engine.put(pod(f"web-{name}", cpu="1", on=name, priority=5, labels={"app": "web"}))
        engine.put(pod(f"near-{name}", cpu="1", on=name, priority=1, spec={"affinity": NEAR_WEB}))
        engine.put(pod(f"port-{name}", on=name, priority=2, spec=PORT))
        engine.put(pod(f"odd-{name}", on=name, priority=3, requests={"cpu": "1", "example.com/unknown": "2"}))
    engine.nominations.put(pod("promised", cpu="1", priority=200), "b")
    return engine


HIGH = pod("high", cpu="3", priority=100, spec={"affinity": NEAR_WEB})
SMALL = pod("small", cpu="500m", priority=100)
BIG = pod("big", cpu="8", priority=100)
KINDS: list[tuple[type[Treacherous], list[str]]] = [
    (ByShape, ["pre_filter", "filter", "refresh", "pre_score", "score", "refresh_score", "span", "normalized"]),
    (ByPod, ["pre_filter", "filter", "pre_score", "score", "span", "normalized"]),
    (ByNode, ["pre_filter_pod", "filter_node", "score_node", "normalize_scores"]),
    (Observing, ["pod_placed", "pod_left"]),
]


def engine_of(kind: type[Treacherous]) -> tuple[Engine, Treacherous]:
    registry: dict[str, Factory] = {**IN_TREE, "Treacherous": kind}
    engine = Engine((ProfileSpec(plugins=(*DEFAULT_PLUGINS, PluginUse("Treacherous"))),), registry=registry)
    filled(engine)
    plugin = engine.profiles["default-scheduler"].plugins[-1]
    assert isinstance(plugin, Treacherous)
    return engine, plugin


def preempted(engine: Engine) -> PostFilterResult:
    outcome = engine.schedule(HIGH)
    assert outcome.node is None
    return engine.post_filter(outcome)


def answers(engine: Engine) -> Iterator[dict[str, NodeExplanation] | PostFilterResult]:
    yield engine.explain(SMALL)
    yield engine.explain(HIGH)
    yield preempted(engine)


@pytest.mark.parametrize(("kind", "point"), [(kind, point) for kind, points in KINDS for point in points])
def test_a_plugin_that_raises_anywhere_leaves_the_columns_as_they_were(kind: type[Treacherous], point: str) -> None:
    engine, plugin = engine_of(kind)
    before, raised = columns_of(engine.cluster), 0
    question: Callable[[Engine], object]
    for question in (lambda engine: engine.explain(SMALL), preempted):
        for call in range(1, 60):
            plugin.point, plugin.calls = point, call
            moving = engine.cluster.build_placed_pod(pod("moving"), "a")
            with engine.cluster.trial() as trial:  # what is kept for the shape has something to catch up with
                trial.place(moving)
            try:
                question(engine)
            except DefectError:
                raised += 1
            was_reached, plugin.point = plugin.calls <= 0, ""
            assert columns_of(engine.cluster) == before
            assert list(answers(engine)) == list(answers(engine_of(kind)[0]))
            if not was_reached:
                break
    assert plugin.log[point]
    assert raised or kind is Observing  # what counts pods may not keep anybody from moving them


def test_what_is_put_or_removed_for_a_try_is_taken_back_with_the_pods_on_it() -> None:
    engine = filled(Engine())
    before = columns_of(engine.cluster)
    with suppress(DefectError), engine.cluster.trial([node("d", cpu="9"), node("a", cpu="9")], [node("b")]):
        assert engine.schedule(BIG).node == "d"
        raise DefectError
    assert columns_of(engine.cluster) == before
    assert list(answers(engine)) == list(answers(filled(Engine())))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 4)), max_size=8), max_size=3))
def test_any_moves_are_taken_back(tries: list[list[tuple[str, int]]]) -> None:
    """Each in a try within the one before: the pod at a place goes, or a new one comes where there is none."""
    cluster = filled(Engine()).cluster
    new = {name: cluster.build_placed_pod(pod(f"new-{name}", cpu="1", labels={"app": "web"}), name) for name in "abc"}
    with ExitStack() as ends:
        for moves in tries:
            trial = ends.enter_context(cluster.trial())
            for name, number in moves:
                info = cluster.node(name)
                there = list(info.placed.values()) if info is not None else []
                if number < len(there):
                    trial.displace(there[number])
                elif new[name] not in there:
                    trial.place(new[name])
    assert columns_of(cluster) == columns_of(filled(Engine()).cluster)
