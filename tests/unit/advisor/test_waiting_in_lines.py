"""Pods that wait in lines get the same nodes at the same moments as pods that are all in the queue."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.traces.events import Event, NodeArrival, NodeDeparture, PodArrival, PodDeparture
from mooring.advisor.simulate.traces.replaying import Replay, ReplayOptions
from mooring.advisor.simulate.traces.results import build_replay_result
from mooring.advisor.snapshot import Snapshot
from mooring.api.core_v1 import Pod
from mooring.scheduler.framework import SUCCESS, Status
from mooring.scheduler.framework.profiles import DEFAULT_PLUGINS, PluginUse, ProfileSpec
from mooring.scheduler.plugins import IN_TREE
from mooring.scheduler.queue import QueuedPod, SchedulingQueue
from mooring.testing.builders import HOSTNAME, node, pod

pytestmark = pytest.mark.req("T.7")

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "apart"}}}
        ]
    }
}
BESIDE = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "small"}}}
        ]
    }
}
SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
]
SHAPES: dict[str, dict[str, Any]] = {
    "small": {"cpu": "1"},
    "large": {"cpu": "3"},
    "never": {"cpu": "9"},
    "important": {"cpu": "2", "priority": 10},
    "meek": {"cpu": "2", "priority": 10, "spec": {"preemptionPolicy": "Never"}},
    "apart": {"cpu": "100m", "spec": {"affinity": APART}},
    "beside": {"cpu": "1", "spec": {"affinity": BESIDE}},
    "spread": {"cpu": "1", "spec": {"topologySpreadConstraints": SPREAD}},
}  # fmt: skip


class LetsAllPass:
    """A third-party plugin that may keep pods out: so no pod can represent others."""

    name = "LetsAllPass"

    def __init__(self, *_: object) -> None:
        pass

    def pre_enqueue(self, _pod: Pod) -> Status:
        return SUCCESS


def one_by_one() -> Settings:
    registry = IN_TREE.copy()
    registry["LetsAllPass"] = LetsAllPass
    return Settings(profiles=(ProfileSpec(plugins=(*DEFAULT_PLUGINS, PluginUse("LetsAllPass"))),), registry=registry)


def trace(seed: int) -> Iterator[Event]:
    """Many more pods than there is room for; some leave while they wait, and nodes come and go."""
    lot = random.Random(seed)
    kinds = lot.sample(list(SHAPES), lot.randint(2, 5))
    for number in range(4):
        yield NodeArrival(0.0, node(f"n{number}"))
    at, gone = 0.0, False
    there: list[str] = []
    for number in range(150):
        at += lot.choice([0.0, 0.0, 0.3, 1.0, 4.0])
        match lot.randrange(12):
            case 0 if there:
                yield PodDeparture(at, f"default/{there.pop(lot.randrange(len(there)))}")
            case 1:
                yield NodeDeparture(at, "n3", fails=True) if not gone else NodeArrival(at, node("n3", cpu="6"))
                gone = not gone
            case _:
                kind = lot.choice(kinds)
                there.append(f"{kind}-{number}")
                lasts = lot.choice([None, 5.0, 20.0, 60.0])
                yield PodArrival(at, pod(there[-1], labels={"app": kind}, **SHAPES[kind]), lasts)


def replayed(events: Iterator[Event], settings: Settings, seed: int = 0) -> Replay:
    replay = Replay(Snapshot("a test", []), settings, ReplayOptions(seed, until=400.0, keeps_placements=True))
    replay.run(events)
    return replay


@pytest.mark.parametrize("seed", range(24))
def test_who_gets_which_node_and_when_is_the_same(seed: int) -> None:
    alone, replay = (replayed(trace(seed), settings, seed) for settings in (one_by_one(), Settings()))
    assert build_replay_result(replay, "", "", "") == build_replay_result(alone, "", "", "")
    assert replay.world.record.attempts == alone.world.record.attempts
    waiting = {pod.name: replay.world.message_of(pod) for pod in replay.world.pods.values()}
    assert waiting == {pod.name: alone.world.message_of(pod) for pod in alone.world.pods.values()}


def test_attempts_in_vain_cost_the_same_however_many_pods_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    popped: list[QueuedPod | None] = []
    pop = SchedulingQueue.pop

    def counted(queue: SchedulingQueue) -> QueuedPod | None:
        popped.append(pop(queue))
        return popped[-1]

    monkeypatch.setattr(SchedulingQueue, "pop", counted)

    def events(waiting: int) -> Iterator[Event]:
        yield NodeArrival(0.0, node("n"))
        for number in range(waiting):
            yield PodArrival(1.0, pod(f"never-{number}", **SHAPES["never"]))
        for number in range(30):
            yield PodArrival(10.0 + 12 * number, pod(f"small-{number}", **SHAPES["small"]), 5.0)

    few, many = replayed(events(1), Settings()), len(popped)
    replay = replayed(events(101), Settings())
    assert replay.world.record.attempts > few.world.record.attempts + 2000
    assert len(popped) - many - 100 <= many  # each of a hundred more is tried once by itself
