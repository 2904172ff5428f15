"""A plugin that picks a card within a node: its columns follow every try, and are undone with it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core_v1 import Pod
from mooring.scheduler.columns.cluster import Cluster, NodeInfo, PlacedPod
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework import (
    SKIP,
    Declaration,
    Factory,
    FilterPlugin,
    Input,
    Part,
    PreFilterResult,
    Status,
    Verdicts,
)
from mooring.scheduler.framework.profiles import DEFAULT_PLUGINS, PluginUse, ProfileSpec
from mooring.scheduler.plugins import IN_TREE
from mooring.testing.builders import node, pod

pytestmark = pytest.mark.req("S.3")

CARDS, WHOLE = 2, 1000


def wanted(found: Pod) -> int:
    return int(found.metadata.annotations.get("card-milli", 0))


class Cards(FilterPlugin[int]):
    """Every node has two cards; a pod takes a part of one, of the fullest that has room for it."""

    name = "Cards"
    filters = Declaration(Part(0), Input.PODS)

    def __init__(self, _arguments: object, handle: Any) -> None:
        self.free = np.full((handle.cluster.capacity, CARDS), WHOLE, np.int64)
        handle.cluster.observers.append(self)

    def sign(self, pod: Pod) -> int:
        return wanted(pod)

    def pre_filter(self, info: Any, cluster: Cluster) -> PreFilterResult[int] | Status:
        if len(self.free) < cluster.capacity:
            added = np.full((cluster.capacity - len(self.free), CARDS), WHOLE, np.int64)
            self.free = np.concatenate((self.free, added))
        return PreFilterResult(info.signature.own) if info.signature.own else SKIP

    def filter(self, state: int, rows: Any) -> Verdicts:
        return Verdicts((self.free[rows].max(axis=1) < state).astype(np.int32), _reasons)

    def pod_placed(self, placed: PlacedPod, node: NodeInfo) -> None:
        if milli := wanted(placed.pod):
            if self.name not in placed.held:
                room = [(int(free), card) for card, free in enumerate(self.free[node.row]) if free >= milli]
                placed.hold(self.name, min(room, default=(0, 0))[1])
            self.free[node.row, placed.held[self.name]] -= milli

    def pod_left(self, placed: PlacedPod, node: NodeInfo) -> None:
        if milli := wanted(placed.pod):
            self.free[node.row, placed.held[self.name]] += milli


def _reasons(_code: int) -> tuple[str, ...]:
    return ("no card has room",)


def sharing(name: str, milli: int, priority: int = 0) -> Pod:
    return pod(name, priority=priority, metadata={"annotations": {"card-milli": str(milli)}})


def engine_with_cards(*nodes: str) -> tuple[Engine, Cards]:
    registry: dict[str, Factory] = {**IN_TREE, "Cards": Cards}
    engine = Engine((ProfileSpec(plugins=(*DEFAULT_PLUGINS, PluginUse("Cards"))),), registry=registry)
    for name in nodes:
        engine.put(node(name))
    plugin = engine.profiles["default-scheduler"].plugins[-1]
    assert isinstance(plugin, Cards)
    return engine, plugin


def placed(engine: Engine, wanted: Pod) -> str | None:
    node_name = engine.schedule(wanted).node
    if node_name is not None:
        engine.assume(wanted, node_name)
    return node_name


def test_pods_share_cards_until_none_has_room() -> None:
    engine, cards = engine_with_cards("a")
    for number, milli in enumerate((600, 600, 400, 300)):
        assert placed(engine, sharing(f"p{number}", milli)) == "a"
    assert sorted(cards.free[engine.cluster.row_of["a"]].tolist()) == [0, 100]
    outcome = engine.schedule(sharing("late", 200))
    assert outcome.node is None
    assert "1 no card has room" in outcome.message


def test_preemption_finds_the_pods_on_the_cards_and_leaves_the_cards_as_they_were() -> None:
    engine, cards = engine_with_cards("a")
    for number, milli in enumerate((900, 500, 400)):
        assert placed(engine, sharing(f"p{number}", milli, priority=number))
    before = cards.free.copy()
    found = engine.post_filter(engine.schedule(sharing("high", 800, priority=100)))
    assert found.nominated == "a"
    assert [victim.metadata.name for victim in found.victims] == ["p0"]
    assert np.array_equal(cards.free, before)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 900), st.integers(0, 3), st.booleans()), max_size=25))
def test_cards_are_never_given_twice_whatever_comes_and_goes(pods: list[tuple[int, int, bool]]) -> None:
    engine, cards = engine_with_cards("a", "b")
    there: dict[str, Pod] = {}
    for number, (milli, priority, goes) in enumerate(pods):
        new = sharing(f"p{number}", milli, priority)
        if placed(engine, new) is not None:
            there[new.metadata.name] = new
        else:
            for victim in engine.post_filter(engine.schedule(new)).victims:
                engine.remove(there.pop(victim.metadata.name))
        if goes and there:
            engine.remove(there.pop(next(iter(there))))
        rows = list(engine.cluster.row_of.values())
        assert cards.free[rows].min() >= 0
        assert cards.free[rows].sum() == 4 * WHOLE - sum(map(wanted, there.values()))
