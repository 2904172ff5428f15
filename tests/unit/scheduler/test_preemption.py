"""Preemption: who may displace whom, which victims are spared, and which node is chosen."""

import random
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core_v1 import Pod
from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.scheduler.deciding import preemption
from mooring.scheduler.deciding.engine import NOTHING_DONE, Engine, Outcome, fit_message
from mooring.scheduler.deciding.pod_evaluation import only_resources_decide
from mooring.scheduler.deciding.preemption import Candidate, cost_of
from mooring.scheduler.framework import PostFilterResult, Status
from mooring.scheduler.framework.profiles import ProfileSpec
from mooring.testing.builders import made, node, pod

pytestmark = pytest.mark.req("S.3")

NEW = pod("new", cpu="2", priority=100)


def engine_with(*things: Any) -> Engine:
    engine = Engine()
    for thing in things:
        engine.put(thing)
    return engine


def preempted(engine: Engine, wanted: Pod) -> PostFilterResult:
    outcome = engine.schedule(wanted)
    assert outcome.node is None
    return engine.post_filter(outcome)


def started(name: str, cpu: str, on: str, priority: int, hour: int = 1, **labels: str) -> Pod:
    status = {"startTime": f"2026-01-01T{hour:02}:00:00Z"}
    return pod(name, cpu=cpu, on=on, priority=priority, status=status, labels=labels)


def budget(app: str, allowed: int) -> PodDisruptionBudget:
    return made(
        PodDisruptionBudget,
        {
            "metadata": {"name": app, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed},
        },
    )


@dataclass(frozen=True)
class Case:
    name: str
    things: list[Any]
    node: str | None
    victims: list[str]
    wanted: Pod = NEW


CASES = [
    Case("the one pod in the way", [node("a", cpu="2"), started("x", "2", "a", 1)], "a", ["x"]),
    Case("pods of the same priority stay", [node("a", cpu="2"), started("x", "2", "a", 100)], None, []),
    Case(
        "no more pods than needed, and the less important ones",
        [node("a", cpu="4"), *(started(f"p{n}", "1", "a", n) for n in range(4))],
        "a",
        ["p1", "p0"],
    ),
    Case(
        "among equals the one that has run longer is spared",
        [node("a", cpu="4"), started("old", "2", "a", 1, hour=1), started("young", "2", "a", 1, hour=2)],
        "a",
        ["young"],
    ),
    Case(
        "the node whose budget allows it",
        [
            node("a", cpu="2"),
            node("b", cpu="2"),
            started("x", "2", "a", 1, app="guarded"),
            started("y", "2", "b", 50),
            budget("guarded", 0),
        ],
        "b",
        ["y"],
    ),
    Case(
        "a budget that is exhausted does not protect for ever",
        [node("a", cpu="2"), started("x", "2", "a", 1, app="guarded"), budget("guarded", 0)],
        "a",
        ["x"],
    ),
    Case(
        "guarded pods are given back first",
        [
            node("a", cpu="4"),
            started("guarded", "2", "a", 1, app="guarded"),
            started("free", "2", "a", 50),
            budget("guarded", 0),
        ],
        "a",
        ["free"],
    ),
    Case(
        "the lower of the highest priorities",
        [node("a", cpu="2"), node("b", cpu="2"), started("x", "2", "a", 9), started("y", "2", "b", 8)],
        "b",
        ["y"],
    ),
    Case(
        "fewer victims",
        [
            node("a", cpu="2"),
            node("b", cpu="2"),
            started("x", "1", "a", 5),
            started("y", "1", "a", 5),
            started("z", "2", "b", 5),
        ],
        "b",
        ["z"],
    ),
    Case(
        "the victim that was started last",
        [node("a", cpu="2"), node("b", cpu="2"), started("x", "2", "a", 5, hour=3), started("y", "2", "b", 5, hour=4)],
        "b",
        ["y"],
    ),
    Case(
        "the victim that was started last, wherever the search begins",
        [node("a", cpu="2"), node("b", cpu="2"), started("x", "2", "a", 5, hour=4), started("y", "2", "b", 5, hour=3)],
        "a",
        ["x"],
    ),
    Case(
        "nodes that refuse for good are not tried",
        [node("a", cpu="2", taints=["x:NoSchedule"]), started("x", "2", "a", 1)],
        None,
        [],
    ),
    Case(
        "pods that keep it away are displaced as well",
        [
            node("a", cpu="8", zone="z"),
            pod(
                "lonely",
                cpu="1",
                on="a",
                priority=1,
                spec={
                    "affinity": {
                        "podAntiAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": [
                                {
                                    "labelSelector": {"matchLabels": {"app": "new"}},
                                    "topologyKey": "kubernetes.io/hostname",
                                }
                            ]
                        }
                    }
                },
            ),
            started("bystander", "1", "a", 1),
        ],
        "a",
        ["lonely"],
        pod("new", cpu="2", priority=100, labels={"app": "new"}),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_victims(case: Case) -> None:
    engine = engine_with(*case.things)
    before = engine.explain(case.wanted)
    found = preempted(engine, case.wanted)
    assert (found.nominated, [pod.metadata.name for pod in found.victims]) == (case.node, case.victims)
    assert engine.explain(case.wanted) == before  # it was only tried


@dataclass(frozen=True)
class MessageCase:
    name: str
    things: list[Any]
    message: str
    wanted: Pod = NEW
    keeps: bool = False


MESSAGES = [
    MessageCase(
        "nothing to displace",
        [node("a", cpu="2"), started("x", "2", "a", 200)],
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod.",
    ),
    MessageCase(
        "not even that would help",
        [node("a", cpu="1"), node("b", unschedulable=True)],
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. "
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
    ),
    MessageCase(
        "too little can be displaced",
        [node("a", cpu="2"), started("x", "1", "a", 200), started("y", "1", "a", 1), node("b", cpu="1")],
        "0/2 nodes are available: 2 Insufficient cpu. "
        "preemption: 0/2 nodes are available: 1 Insufficient cpu, 1 Preemption is not helpful for scheduling.",
    ),
    MessageCase(
        "the pod may not displace others",
        [node("a", cpu="2"), started("x", "2", "a", 1)],
        "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.",
        pod("new", cpu="2", priority=100, spec={"preemptionPolicy": "Never"}),
        keeps=True,
    ),
    MessageCase(
        "it waits for a victim that is leaving",
        [
            node("a", cpu="2"),
            pod(
                "x",
                cpu="2",
                on="a",
                priority=1,
                metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"},
                status={
                    "conditions": [
                        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
                    ]
                },
            ),
        ],
        "0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: not eligible due to a terminating pod on the nominated node.",
        pod("new", cpu="2", priority=100, status={"nominatedNodeName": "a"}),
        keeps=True,
    ),
]


@pytest.mark.parametrize("case", MESSAGES, ids=lambda case: case.name)
def test_what_is_said_when_it_does_not_help(case: MessageCase) -> None:
    engine = engine_with(*case.things)
    outcome = engine.schedule(case.wanted)
    found = engine.post_filter(outcome)
    assert found.nominated is None
    assert fit_message(outcome, found) == case.message
    assert found.keeps_nomination == case.keeps


def test_room_that_is_promised_to_others_is_not_counted_on() -> None:
    engine = engine_with(node("a", cpu="4"), started("x", "4", "a", 1))
    engine.nominations.put(pod("promised", cpu="3", priority=100), "a")
    assert preempted(engine, pod("new", cpu="2", priority=100)).nominated is None
    assert preempted(engine, pod("small", cpu="1", priority=100)).nominated == "a"


def test_without_the_plugin_nothing_is_tried() -> None:
    engine = Engine((ProfileSpec(disabled={"postFilter": frozenset({"DefaultPreemption", "DynamicResources"})}),))
    engine.put(node("a", cpu="2"))
    engine.put(started("x", "2", "a", 1))
    assert preempted(engine, pod("new", cpu="2", priority=100)) == NOTHING_DONE


def test_a_sum_of_priorities_counts_every_victim_as_harm() -> None:
    one = Candidate("a", (started("x", "1", "a", 5),), 0)
    two = Candidate("b", (started("y", "1", "b", 5), started("z", "1", "b", -1000)), 0)
    assert cost_of(one) < cost_of(two)


def random_things(lot: random.Random) -> list[Any]:
    """Nodes that are full of pods, some of them guarded, some of them started at the same time."""
    things: list[Any] = [
        node(f"n{number}", cpu=lot.choice(["3", "4"]), pods=lot.choice(["3", "9"])) for number in range(6)
    ]
    for number in range(lot.randint(4, 20)):
        on, cpu, app = f"n{lot.randint(0, 5)}", lot.choice(["1", "2", "500m"]), lot.choice("ab")
        things.append(started(f"p{number}", cpu, on, lot.randint(0, 3), hour=lot.randint(1, 3), app=app))
        if lot.random() < 0.1:
            things[-1].status.start_time = ""
    things += [budget(app, lot.randint(0, 1)) for app in "ab" if lot.random() < 0.5]
    for thing in things:
        if isinstance(thing, PodDisruptionBudget) and lot.random() < 0.3:
            thing.status.disrupted_pods = {f"p{lot.randint(0, 9)}": "2026-01-01T00:00:00Z"}
    return things


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32))
def test_it_is_the_same_whether_nodes_are_tried_together_or_one_by_one(seed: int) -> None:
    lot = random.Random(seed)
    things = random_things(lot)
    promised = pod("promised", cpu=lot.choice(["1", "2"]), priority=3) if lot.random() < 0.3 else None
    wanted = pod("new", cpu=lot.choice(["2", "3", "4"]), priority=lot.randint(1, 4))
    outcomes = []
    for kept, together in ((True, True), (False, True), (False, False)):
        engine = engine_with(*things)
        if promised is not None:
            engine.nominations.put(promised, f"n{seed % 6}")
        outcome = engine.schedule(wanted)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(preemption, "_AT_ONCE", 1 + seed % 7)
            if not kept:
                patch.setattr(preemption, "_can_cache_costs", lambda *_: False)
            if not together:
                patch.setattr(preemption, "only_resources_decide", lambda *_: False)
            outcomes.append(engine.post_filter(outcome))
    assert outcomes == [outcomes[0]] * 3


def test_room_that_was_promised_is_left_only_while_the_promise_holds() -> None:
    hours = {"a": 1, "b": 3, "c": 2}
    low = [started(f"{name}{place}", "1", name, 1, hour=hour) for name, hour in hours.items() for place in range(4)]
    engine = engine_with(*(node(name, cpu="4") for name in hours), *low)
    for name in "cb":
        engine.nominations.put(pod(f"promised-{name}", cpu="1", priority=100), name)
    found = preempted(engine, NEW)
    assert (found.nominated, len(found.victims)) == ("a", 2)  # three would have to go elsewhere
    for name in "cb":
        engine.nominations.remove(pod(f"promised-{name}"))
    found = preempted(engine, NEW)
    assert (found.nominated, len(found.victims)) == ("b", 2)  # those that were started last


AGAINST_NEW = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "new"}}}
            ]
        }
    }
}


def change(engine: Engine, lot: random.Random, number: int) -> None:
    """Something that may make a difference to who has to go."""
    on, cpu, rank = f"n{lot.randint(0, 5)}", lot.choice(["1", "2", "500m"]), lot.randint(0, 4)
    placed = list(engine.cluster.placed_pods())
    promised = pod(f"q{lot.randrange(4)}", cpu="1", priority=4, spec=lot.choice([{}, {}, {}, AGAINST_NEW]))
    match lot.choice(("pod", "gone", "ranked", "ranked", "node", "promised", "promised", "promised", "kept")):
        case "pod":
            engine.put(started(f"p{number}", cpu, on, rank, hour=lot.randint(1, 3)))
        case "gone" if placed:
            engine.remove(lot.choice(placed).pod)
        case "ranked" if placed:
            old = lot.choice(placed).pod
            status = msgspec.structs.replace(old.status, start_time=f"2026-01-02T0{lot.randint(0, 9)}:00:00Z")
            engine.put(
                msgspec.structs.replace(old, status=status, spec=msgspec.structs.replace(old.spec, priority=rank))
            )
        case "node":
            engine.put(node(on, cpu=lot.choice(["3", "4"]), taints=lot.choice([[], [], ["a=b:NoSchedule"]])))
        case "promised":
            engine.nominations.put(promised, on)
        case "kept":
            engine.nominations.remove(promised)


def again(engine: Engine) -> Engine:
    """Return another engine with the same cluster."""
    made = engine_with(*(info.node for info in engine.cluster.node_infos()))
    for placed in engine.cluster.placed_pods():
        made.put(placed.pod)
    for info in engine.cluster.node_infos():
        for promised in engine.nominations.pods_on(info.name):
            made.nominations.put(promised, info.name)
    return made


def refusals(outcome: Outcome) -> tuple[int, dict[str, Status], str]:
    """On how many nodes the pod fits; and where it fits nowhere, why."""
    diagnosis = outcome.diagnosis
    return outcome.feasible, {} if diagnosis is None else diagnosis.statuses(), outcome.message


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_what_is_kept_of_other_pods_makes_no_difference_whatever_changes(seed: int) -> None:
    lot = random.Random(seed)
    things = [thing for thing in random_things(lot) if not isinstance(thing, PodDisruptionBudget)]
    engine = engine_with(*things)
    for number in range(100, 115):
        change(engine, lot, number)
        new = pod("new", cpu=lot.choice(["2", "3"]), priority=4, labels={"app": "new"})
        if lot.random() < 0.3:
            engine.nominations.put(new, f"n{lot.randint(0, 5)}")
            assert refusals(engine.schedule(new)) == refusals(again(engine).schedule(new))
            engine.nominations.remove(new)
        outcome = engine.schedule(new)
        if number % 5 == 4:
            assert refusals(outcome) == refusals(again(engine).schedule(new))
        if outcome.node is not None:
            continue
        lots = engine._random.getstate()
        kept = engine.post_filter(outcome)
        engine._random.setstate(lots)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(preemption, "_can_cache_costs", lambda *_: False)
            assert engine.post_filter(outcome) == kept


def test_nodes_are_tried_together_for_a_pod_without_rules() -> None:
    outcome = engine_with(node("a", cpu="1")).schedule(NEW)
    assert outcome.node is None
    assert only_resources_decide(outcome.evaluation)


def test_nodes_are_not_tried_together_when_more_than_resources_decides() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    engine = engine_with(node("a", cpu="9"), started("x", "1", "a", 1, app="x"), started("y", "1", "a", 1))
    found = preempted(engine, pod("new", cpu="2", priority=100, spec={"affinity": affinity}))
    assert [victim.metadata.name for victim in found.victims] == ["x"]


def test_pods_that_change_are_ranked_again() -> None:
    engine = engine_with(node("a", cpu="4"), started("x", "2", "a", 1, hour=1), started("y", "2", "a", 1, hour=2))
    assert [victim.metadata.name for victim in preempted(engine, NEW).victims] == ["y"]
    engine.put(started("x", "2", "a", 1, hour=3))
    assert [victim.metadata.name for victim in preempted(engine, NEW).victims] == ["x"]
