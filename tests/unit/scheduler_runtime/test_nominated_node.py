"""A pod that was promised room on a node goes there if it fits, and looks elsewhere if not."""

import pytest

from mooring.scheduler.deciding.engine import Engine
from scheduler_objects import node, pod

pytestmark = pytest.mark.req("S.3")


def _engine() -> Engine:
    """Return a node with little room left, and a better one."""
    engine = Engine()
    engine.put(node("full", cpu="4"))
    engine.put(pod("there", cpu="2", on="full"))
    engine.put(node("empty", cpu="4"))
    return engine


def test_a_pod_goes_to_its_nominated_node_although_another_is_better() -> None:
    engine, web = _engine(), pod("web", cpu="1")
    assert engine.schedule(web).node == "empty"
    engine.nominations.put(web, "full")
    outcome = engine.schedule(web)
    assert (outcome.node, outcome.feasible, outcome.considered) == ("full", 1, 1)


@pytest.mark.parametrize("where", ["full", "gone"])
def test_a_pod_that_does_not_fit_there_goes_elsewhere(where: str) -> None:
    engine, web = _engine(), pod("web", cpu="3")
    engine.nominations.put(web, where)
    assert engine.schedule(web).node == "empty"


def test_a_pod_leaves_the_room_to_a_more_important_one_that_was_promised_it_too() -> None:
    engine, web, other = _engine(), pod("web", cpu="1", priority=1), pod("other", cpu="2", priority=2)
    engine.nominations.put(web, "full")
    engine.nominations.put(other, "full")
    assert engine.schedule(web).node == "empty"
    assert engine.schedule(other).node == "full"
    assert engine.cluster.placed(other) is None, "trying leaves nothing behind"


def test_later_pods_of_the_signature_are_evaluated_on_all_nodes() -> None:
    engine, web = _engine(), pod("web", cpu="1")
    engine.nominations.put(web, "full")
    engine.schedule(web)
    engine.assume(web, "full")
    assert engine.schedule(pod("next", cpu="1")).node == "empty"
