"""Replays at scale: what has been takes no room, and the largest replay that was measured is within its limit."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.traces.events import Event, NodeArrival, NodeDeparture, PodArrival, PodDeparture
from mooring.advisor.simulate.traces.replaying import Replay, ReplayOptions
from mooring.advisor.snapshot import Snapshot
from mooring.testing.builders import node, pod

pytestmark = pytest.mark.req("T.6")
MEASURED = Path(__file__).parents[3] / "benchmarks" / "results" / "traces.json"


def come_and_go(number: int) -> Iterator[Event]:
    """Pods that run for a second, or until they are removed; and every tenth time another node in place of one."""
    for place in range(number):
        at = 2.0 * place
        if not place % 10:
            yield NodeArrival(at, node(f"n{place}"))
            if place:
                yield NodeDeparture(at, f"n{place - 10}")
        yield PodArrival(at, pod(f"p{place}", cpu="1"), None if place % 2 else 1.0)
        if place % 2:
            yield PodDeparture(at + 1, f"default/p{place}")


def sizes(replay: Replay) -> dict[str, int]:
    """How much is kept, wherever something is kept by name, of the replay, its world and the scheduler."""
    world = replay.world
    holders = {"replay": replay, "world": world, "cluster": world.engine.cluster, "queue": world.queue}
    return {
        f"{name}.{field}": len(kept)
        for name, holder in holders.items()
        for field, kept in vars(holder).items()
        if isinstance(kept, dict | list | set)
    }


def test_pods_and_nodes_that_are_gone_take_no_room() -> None:
    kept = []
    for number in (100, 400):
        replay = Replay(Snapshot("nothing", []), Settings(), ReplayOptions())
        replay.run(come_and_go(number))
        assert replay.tally.placed == number
        kept.append(sizes(replay))
    assert kept[0] == kept[1]
    assert kept[0]["cluster.row_of"] == 1


def test_a_hundred_thousand_nodes_and_a_million_pods_were_replayed_in_less_than_8_gb() -> None:
    rows = sorted(json.loads(MEASURED.read_text()), key=lambda row: row["nodes"])
    assert (rows[-1]["nodes"], rows[-1]["pods"]) == (100_000, 1_000_000)
    assert rows[-1]["scheduler_megabytes"] < 8000
    growth = [(after["nodes"] / before["nodes"], before["rate"] / after["rate"]) for before, after in pairwise(rows)]
    assert len(growth) >= 2
    assert all(dearer <= larger for larger, dearer in growth)  # no worse than linear
