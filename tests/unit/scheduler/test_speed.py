"""Bounds on time that hold by a wide margin; what it really takes: ``benchmarks/scheduler_engine.py``."""

import time
from typing import Any

import pytest

from mooring.scheduler.deciding.engine import Engine
from mooring.testing.builders import HOSTNAME, ZONE, node, pod

NODES = 5_000


def spec(kind: str, key: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


@pytest.mark.req("3633.7")
@pytest.mark.parametrize(("kind", "key"), [("podAffinity", ZONE), ("podAntiAffinity", HOSTNAME)])
def test_pods_with_affinity_are_scheduled_within_100_ms_at_5000_nodes(kind: str, key: str) -> None:
    engine = Engine()
    for number in range(NODES):
        engine.put(node(f"n{number}", zone=f"z{number % 3}"))
    times = []
    for number in range(60):
        wanted = pod(f"p{number}", cpu="100m", labels={"app": "web"}, spec=spec(kind, key))
        start = time.process_time()
        outcome = engine.schedule(wanted)
        times.append(time.process_time() - start)
        assert outcome.node is not None
        engine.assume(wanted, outcome.node)
    assert sorted(times)[53] < 0.1  # the 90th percentile
