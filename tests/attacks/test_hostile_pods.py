"""Pods that ask for many or unknown resources get right answers, and no state grows with them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core_v1 import Pod
from mooring.scheduler.columns import resources
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.plugins import node_resources_fit
from mooring.testing.builders import node, pod

pytestmark = pytest.mark.req("S.3")

NEVER, NOT_NOW = "UnschedulableAndUnresolvable", "Unschedulable"


def asking(name: str, amounts: dict[str, int], on: str = "") -> Pod:
    return pod(name, requests={resource: str(amount) for resource, amount in amounts.items()}, on=on)


def names(number: int) -> list[str]:
    return [f"example.com/r{place:03}" for place in range(number)]


@pytest.mark.parametrize("number", [30, 31, 32, 63, 64, 65, 500])
def test_a_pod_with_many_resources_goes_where_they_are(number: int) -> None:
    engine = Engine()
    for name, each in (("poor", "1"), ("rich", "4")):
        engine.put(node(name, resources=dict.fromkeys(names(number), each)))
    wanted = asking("wanted", dict.fromkeys(names(number), 3))
    outcome = engine.schedule(wanted)
    assert outcome.node == "rich"
    engine.assume(wanted, "rich")
    statuses = engine.explain(asking("next", dict.fromkeys(names(number), 2)))
    assert {name: (str(each.status.code), each.status.reasons) for name, each in statuses.items()} == {
        "poor": (NEVER, tuple(f"Insufficient {name}" for name in names(number))),
        "rich": (NOT_NOW, tuple(f"Insufficient {name}" for name in names(number))),
    }


def test_what_no_node_offers_is_missing_everywhere_and_reported_in_order() -> None:
    engine = Engine()
    engine.put(node("a", cpu="1", pods="0", resources={"example.com/b": "1"}))
    wanted = asking("wanted", {"cpu": 2, "example.com/a": 1, "example.com/b": 2, "example.com/c": 1})
    status = engine.explain(wanted)["a"].status
    missing = [f"Insufficient {name}" for name in ("cpu", "example.com/a", "example.com/b", "example.com/c")]
    assert (str(status.code), status.reasons) == (NEVER, ("Too many pods", *missing))


def test_names_that_pods_make_up_do_not_make_the_tables_grow() -> None:
    engine = Engine()
    engine.put(node("a"))
    before = engine.cluster.resources.used.shape
    for number in range(50):
        engine.put(asking(f"runs-{number}", {f"example.com/{number}": 1}, on="a"))
        assert engine.schedule(asking(f"waits-{number}", {f"example.com/w{number}": 1})).node is None
    assert engine.cluster.resources.used.shape == before
    for number in range(50):
        engine.remove(asking(f"runs-{number}", {f"example.com/{number}": 1}, on="a"))
    assert engine.cluster.resources.amounts("example.com/7", 0) == (0, 0)


def test_what_was_used_before_a_node_offered_it_counts_from_then_on() -> None:
    engine = Engine()
    engine.put(node("a"))
    wanted = asking("wanted", {"example.com/gpu": 2})
    engine.put(asking("runs", {"example.com/gpu": 1}, on="a"))
    assert "Insufficient example.com/gpu" in engine.schedule(wanted).message
    engine.put(node("a", resources={"example.com/gpu": "2"}))
    assert engine.schedule(wanted).node is None
    engine.put(node("a", resources={"example.com/gpu": "3"}))
    assert engine.schedule(wanted).node == "a"


def test_lines_that_no_node_offers_any_more_are_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "_SPARE_LINES", 8)
    engine = Engine()
    for number in range(30):
        engine.put(node("a", resources={f"example.com/{number}": "2", f"example.com/{number}-too": "1"}))
        engine.put(asking(f"runs-{number}", {f"example.com/{number}": 1, "example.com/0": 1}, on="a"))
        assert engine.schedule(asking("one", {f"example.com/{number}": 1, f"example.com/{number}-too": 1})).node
        assert engine.schedule(asking("two", {f"example.com/{number}": 2})).node is None
    assert len(engine.cluster.resources.used) <= 10
    engine.put(node("a", resources={"example.com/0": "40"}))
    assert engine.schedule(asking("ten", {"example.com/0": 10})).node == "a"
    assert engine.schedule(asking("eleven", {"example.com/0": 11})).node is None


def test_there_is_an_end_to_the_resources_that_nodes_can_offer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "_MOST_LINES", 10)
    engine = Engine()
    engine.put(node("a", resources=dict.fromkeys(names(20), "1")))
    assert len(engine.cluster.resources.used) == 10
    assert engine.schedule(asking("counted", {names(20)[0]: 1})).node == "a"
    assert engine.schedule(asking("beyond", {names(20)[19]: 1})).node is None


def expected(free: dict[str, int], size: dict[str, int], wanted: dict[str, int]) -> tuple[str, tuple[str, ...]]:
    lacking = [name for name in sorted(wanted) if free.get(name, 0) < wanted[name]]
    code = NEVER if any(size.get(name, 0) < wanted[name] for name in lacking) else NOT_NOW if lacking else "Success"
    return code, tuple(f"Insufficient {name}" for name in lacking)


AMOUNTS = st.dictionaries(st.sampled_from(names(40)), st.integers(1, 3), max_size=40)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=6), AMOUNTS, st.booleans())
def test_verdicts_are_those_of_plain_arithmetic(
    cluster: list[tuple[dict[str, int], dict[str, int]]], wanted: dict[str, int], few_sets: bool
) -> None:
    """Also for pods one after the other, when the codes are assigned again and again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_resources_fit, "_MANY_SETS", 1 if few_sets else 1 << 14)
        engine = Engine()
        for number, (size, _) in enumerate(cluster):
            engine.put(node(str(number), resources={name: str(amount) for name, amount in size.items()}))
        asked, free = asking("wanted", wanted), [dict(size) for size, _ in cluster]
        for number, (size, used) in enumerate(cluster):
            engine.put(asking(f"runs-{number}", used, on=str(number)))
            for name, amount in used.items():
                free[number][name] = size.get(name, 0) - amount
            found = {name: (str(each.status.code), each.status.reasons) for name, each in engine.explain(asked).items()}
            assert found == {str(place): expected(free[place], each, wanted) for place, (each, _) in enumerate(cluster)}
            assert engine.schedule(asked).feasible == sum(code == "Success" for code, _ in found.values())


def test_a_diagnosis_is_as_large_as_there_are_different_refusals() -> None:
    engine = Engine()
    for place in range(200):
        amounts = {name: "1" if place >> (number % 8) & 1 else "2" for number, name in enumerate(names(60))}
        engine.put(node(str(place), resources=amounts))
    outcome = engine.schedule(asking("wanted", dict.fromkeys(names(60), 2)))
    assert outcome.node == "0"
    engine.remove(node("0"))
    outcome = engine.schedule(asking("wanted", dict.fromkeys(names(60), 2)))
    assert outcome.diagnosis is not None
    assert len(outcome.diagnosis.table) == 199
    assert outcome.message.count("Insufficient") == 60
