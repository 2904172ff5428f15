"""The policies of examples/fgd: a small experiment of each, against placements that were computed by hand."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from gpu_tasks import EXAMPLE, REGISTRY, gpu_node, settings_of, task
from mooring.advisor.simulate.traces.events import PodArrival
from mooring.advisor.simulate.traces.replaying import Replay, ReplayOptions
from mooring.advisor.snapshot import Snapshot
from mooring.api.core_v1 import Node, Pod
from mooring.scheduler.facade import Engine
from mooring.scheduler.running import options
from mooring.testing.builders import node


@dataclass(frozen=True)
class Case:
    name: str
    policy: str
    nodes: Sequence[Node]
    placed: Sequence[Pod]
    """Pods that have their node already, in this order."""
    arriving: Sequence[Pod]
    expected: Sequence[tuple[str, tuple[int, ...]]]
    """The node and the cards of each that arrives; no node for one that fits nowhere."""
    workload: Sequence[Pod] = ()


HALVES_AND_WHOLES = (task("half", 1, 500), task("whole", 1, 1000))
SMALL_AND_LARGE = (gpu_node("small", 64, 2), gpu_node("large", 128, 8))

CASES = (
    Case(
        # small: 1 - (60/128 + 1.5/8) / 2 = 67 points; large: 1 - (124/128 + 7.5/8) / 2 = 4.
        "BestFit takes the node on which least is left, and there the fullest card that will do",
        "BestFit",
        SMALL_AND_LARGE,
        (),
        (task("a", 4, 600), task("b", 4, 500), task("c", 4, 300), task("d", 4, 2000)),
        (("small", (0,)), ("small", (1,)), ("small", (0,)), ("large", (0, 1))),
    ),
    Case(
        # x: 1 - (127/128 + 0/8) / 2 = 50; y: 1 - (7/128 + 7/8) / 2 = 53.
        "BestFit weighs processors and cards alike",
        "BestFit",
        (gpu_node("x", 128, 1), gpu_node("y", 8, 8)),
        (),
        (task("a", 1, 1000),),
        (("y", (0,)),),
    ),
    Case(
        # x: 1 - (1 * 1/128 + 1/8 * 1/8) / 2 = 98; y: 1 - (8/128 * 1/128 + 1 * 1/8) / 2 = 93.
        "DotProd takes the node whose free resources have the smaller product with what is asked for",
        "DotProd",
        (gpu_node("x", 128, 1), gpu_node("y", 8, 8)),
        (),
        (task("a", 1, 1000),),
        (("x", (0,)),),
    ),
    Case(
        # 300 on the shared card: 100 - 40/10 = 96, on the used node 49, on the empty one 31. Then 500 fits on no shared
        # card: the idle cards of used nodes come before those of the empty one, which gets the pod of two cards.
        "GpuPacking takes shared cards, then idle cards of used nodes, then empty nodes",
        "GpuPacking",
        (gpu_node("empty", 64, 2), gpu_node("shared", 64, 2)),
        (task("p", 1, 600, on="shared"),),
        (task("a", 1, 300), task("b", 1, 500), task("c", 1, 2000)),
        (("shared", (0,)), ("shared", (1,)), ("empty", (0, 1))),
    ),
    Case(
        # An empty node with 8 cards has max(33 - 8, 8) = 25 points, one with 2 cards 31.
        "GpuPacking takes the smaller of two empty nodes, however large its processor is",
        "GpuPacking",
        (gpu_node("eight", 8, 8), gpu_node("two", 128, 2)),
        (),
        (task("a", 1, 1000),),
        (("two", (0,)),),
    ),
    Case(
        # Half a card: 75 + 20 beside halves, 0 + 21 beside wholes, 25 + 18 on the empty node. Whole ones likewise: the
        # first goes beside the whole; then that node is full, and the empty one (43) is better than halves (0 + 20).
        "GpuClustering keeps pods of a kind together",
        "GpuClustering",
        (gpu_node("halves", 64, 2), gpu_node("wholes", 64, 2), gpu_node("empty", 64, 2)),
        (task("p", 1, 500, on="halves"), task("q", 1, 1000, on="wholes")),
        (task("a", 1, 400), task("b", 1, 1000), task("c", 1, 1000)),
        (("halves", (0,)), ("wholes", (1,)), ("empty", (0,))),
    ),
    Case(
        # On the half card: the expected fragmentation falls from 250 to 0, sigmoid(0.25) is 56 points; on any whole
        # card it grows by 250, 43 points.
        "FGD takes the card where the expected fragmentation falls",
        "FGD",
        (gpu_node("begun", 64, 2), gpu_node("empty", 64, 2)),
        (task("p", 1, 500, on="begun"),),
        (task("a", 1, 500),),
        (("begun", (0,)),),
        HALVES_AND_WHOLES,
    ),
    Case(
        # Without its processors the card of `idle` is lost for all tasks: sigmoid(-1) is 26 points; on `busy` nothing
        # changes: 50 points. BestFit would do the opposite (93 and 76 points).
        "FGD keeps the processors beside idle cards for tasks that need both",
        "FGD",
        (gpu_node("idle", 4, 1), gpu_node("busy", 65, 1)),
        (task("p", 1, 1000, on="busy"),),
        (task("a", 4, 0),),
        (("busy", ()),),
        HALVES_AND_WHOLES,
    ),
    Case(
        "BestFit gives the same processors away",
        "BestFit",
        (gpu_node("idle", 4, 1), gpu_node("busy", 65, 1)),
        (task("p", 1, 1000, on="busy"),),
        (task("a", 4, 0),),
        (("idle", ()),),
    ),
    Case(
        # Where nothing is typical but a model that `other` has not, its cards are fragments whatever comes: 50 points.
        # On `wanted` a whole card is lost for the typical task: sigmoid(0), for it is used as it should be; with half
        # of it gone, 500 more are fragments: sigmoid(-0.5) is 37.
        "FGD leaves cards of the model that tasks ask for to them",
        "FGD",
        (gpu_node("wanted", 64, 1, "V100"), gpu_node("other", 64, 1, "T4")),
        (),
        (task("a", 1, 500),),
        (("other", (0,)),),
        (task("typical", 1, 1000, models="V100"),),
    ),
    Case(
        "models are respected, and a pod that fits on no card is given up",
        "Random",
        (gpu_node("t4", 64, 2, "T4"), gpu_node("v100", 64, 1, "V100"), node("plain")),
        (),
        (task("a", 1, 1000, models="V100|A100"), task("b", 1, 300, models="V100"), task("c", 1, 3000)),
        (("v100", (0,)), ("", ()), ("", ())),
    ),
)


@pytest.mark.req("T.4")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_small_experiment(case: Case) -> None:
    replay = Replay(
        Snapshot("nodes", [*case.nodes, *case.placed]),
        settings_of(case.policy, case.workload),
        ReplayOptions(gives_up=True, keeps_placements=True),
    )
    replay.run(PodArrival(float(number), arriving) for number, arriving in enumerate(case.arriving))
    cluster, found = replay.world.engine.cluster, []
    for arriving in case.arriving:
        placed = cluster.placed(arriving)
        name = replay.placements.get(f"default/{arriving.metadata.name}", "")
        found.append((name, placed.held.get("GpuShare", ()) if placed is not None else ()))
    assert found == list(case.expected)


@pytest.mark.req("T.4")
def test_random_takes_any_node_and_any_card() -> None:
    seen = set()
    for seed in range(40):
        replay = Replay(
            Snapshot("nodes", [gpu_node("a", 64, 2), gpu_node("b", 64, 2)]),
            settings_of("Random"),
            ReplayOptions(seed=seed),
        )
        replay.run(iter([PodArrival(0.0, task("p", 1, 500))]))
        placed = replay.world.engine.cluster.placed(task("p", 1, 500))
        assert placed is not None
        seen.add((placed.node_name, placed.held["GpuShare"]))
    assert seen == {("a", (0,)), ("a", (1,)), ("b", (0,)), ("b", (1,))}


@pytest.mark.req("T.4")
def test_equal_nodes_are_filled_one_after_the_other_in_the_order_in_which_they_came() -> None:
    nodes = [gpu_node(f"n{number}", 64, 1) for number in (5, 2, 7, 0, 3, 1, 6, 4)]
    replay = Replay(Snapshot("nodes", nodes), settings_of("GpuPacking"), ReplayOptions(seed=3, keeps_placements=True))
    replay.run(PodArrival(float(number), task(f"p{number}", 4, 0)) for number in range(48))
    assert list(replay.placements.values()) == ["n5"] * 16 + ["n2"] * 16 + ["n7"] * 16


@pytest.mark.req("T.4")
def test_two_plugins_cannot_both_choose_among_equals() -> None:
    from mooring.scheduler.framework.registry import PluginError

    text = (
        (EXAMPLE / "schedulers" / "Random.yaml")
        .read_text()
        .replace("{name: Random}", "{name: Random}, {name: FixedOrder}")
    )
    with pytest.raises(PluginError, match="one plugin may choose among equals, not 2"):
        Engine(options.read(text).profiles, registry=REGISTRY)


@pytest.mark.req("T.4")
def test_cards_come_back_when_preemption_tries_and_when_pods_leave() -> None:
    text = (
        (EXAMPLE / "schedulers" / "BestFit.yaml")
        .read_text()
        .replace("      disabled: [{name: DefaultPreemption}]\n", "")
    )
    engine = Engine(options.read(text).profiles, registry=REGISTRY)
    engine.put(gpu_node("a", 64, 2))
    engine.put(task("one", 1, 600, on="a"))
    engine.put(task("two", 1, 1000, on="a", priority=5))
    cards = next(shared for shared in engine.cluster.shared.values() if type(shared).__name__ == "Cards")
    row = engine.cluster.row_of["a"]
    assert cards.left[row].tolist() == [400, 0]
    found = engine.post_filter(engine.schedule(task("important", 1, 1000, priority=10)))
    assert [victim.metadata.name for victim in found.victims] == ["one"]
    assert cards.left[row].tolist() == [400, 0]
    engine.remove(task("two", 1, 1000, on="a"))
    assert cards.left[row].tolist() == [400, 1000]
