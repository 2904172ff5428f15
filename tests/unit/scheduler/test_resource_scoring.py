"""Scores of all rows at once are those of integer arithmetic, however large the amounts are."""

import numpy as np
import pytest

from mooring.api.core_v1 import Node
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.framework import ALL_ROWS
from mooring.scheduler.plugins.resource_scoring import CPU_AND_MEMORY, Scoring, least_allocated
from mooring.testing.builders import made

pytestmark = pytest.mark.req("S.3")


@pytest.mark.parametrize("memory", [7, 3_000_001, (1 << 43) - 1, 1 << 43, (1 << 50) + 1])
def test_shares_are_rounded_down_as_integers_are(memory: int) -> None:
    cluster = Cluster()
    whole = [max(memory - number, 1) for number in range(40)]
    for number, amount in enumerate(whole):
        room = {"cpu": f"{1 + number}", "memory": str(amount), "pods": "110"}
        cluster.put(made(Node, {"metadata": {"name": f"n{number}"}, "status": {"allocatable": room}}))
    scoring = Scoring(cluster, CPU_AND_MEMORY, assumed=True)
    shares = [amount * percent // 100 + more for amount in whole[:5] for percent in range(101) for more in (-1, 0, 1)]
    for asked in shares:
        scored = scoring.scored_resources({"cpu": 100, "memory": max(asked, 0)})
        used, allocatable = scored.by.tables(slice(40))
        expected = least_allocated(used + scored.asked, allocatable, scored.by.weights)
        assert np.array_equal(scored.by.least_allocated(scored.asked, ALL_ROWS)[:40], expected)
        some = np.array([3, 17, 39])
        assert np.array_equal(scored.by.least_allocated(scored.asked, some), expected[some])


def test_a_node_without_any_of_the_resources_scores_nothing() -> None:
    cluster = Cluster()
    cluster.put(made(Node, {"metadata": {"name": "none"}, "status": {"allocatable": {"pods": "110"}}}))
    cluster.put(made(Node, {"metadata": {"name": "all"}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi"}}}))
    scored = Scoring(cluster, CPU_AND_MEMORY, assumed=False).scored_resources({})
    assert scored.by.least_allocated(scored.asked, ALL_ROWS)[:2].tolist() == [0, 100]
