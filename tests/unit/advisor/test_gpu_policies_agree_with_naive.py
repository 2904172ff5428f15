"""The vectorised policies of examples/fgd place random tasks as a naive evaluation does, node by node."""

import random
from dataclasses import dataclass, field

import pytest

from gpu_tasks import gpu_node, settings_of, task
from mooring.advisor.simulate.traces.events import PodArrival
from mooring.advisor.simulate.traces.replaying import Replay, ReplayOptions
from mooring.advisor.snapshot import Snapshot

pytestmark = pytest.mark.req("T.4")


@dataclass
class Naive:
    """A node."""

    name: str
    cpu: int
    cards: list[int] = field(default_factory=list)

    def fits(self, cpu: int, gpu: int) -> bool:
        part, count = min(gpu, 1000), -(-gpu // 1000)
        return self.cpu >= cpu and sum(left >= part for left in self.cards) >= count

    def points(self, policy: str, cpu: int, gpu: int) -> int:
        left = sum(self.cards)
        if policy == "BestFit":
            return int((1.0 - ((self.cpu - cpu) / 128_000 * 0.5 + (left - gpu) / 8000 * 0.5)) * 100)
        if policy == "DotProd":
            return int((1.0 - (self.cpu / 128_000 * (cpu / 128_000) + left / 8000 * (gpu / 8000)) / 2) * 100)
        if not gpu:
            return 0
        idle = self.cards.count(1000)
        if idle == len(self.cards):
            return max(33 - idle, idle)
        shared = [left for left in self.cards if min(gpu, 1000) <= left < 1000]
        return max(100 - min(shared) * 100 // 1000 // 10, 50) if shared else max(50 - -(-gpu // 1000), 33)

    def place(self, cpu: int, gpu: int) -> None:
        self.cpu -= cpu
        if 0 < gpu < 1000:
            best = min((left, card) for card, left in enumerate(self.cards) if left >= gpu)[1]
            self.cards[best] -= gpu
        for _ in range(gpu // 1000):
            self.cards[self.cards.index(1000)] = 0


@pytest.mark.parametrize("policy", ["BestFit", "DotProd", "GpuPacking"])
def test_random_tasks_are_placed_on_the_same_nodes(policy: str) -> None:
    lot = random.Random(policy)
    sizes = [(f"n{number}", lot.choice((16, 32, 64, 96)), lot.choice((1, 2, 4, 8))) for number in range(12)]
    asked = [(lot.choice((1, 2, 4, 8)), lot.choice((0, 200, 300, 500, 700, 1000, 1000, 2000, 4000))) for _ in range(90)]
    replay = Replay(
        Snapshot("nodes", [gpu_node(*size) for size in sizes]),
        settings_of(policy),
        ReplayOptions(gives_up=True, keeps_placements=True),
    )
    replay.run(PodArrival(float(number), task(f"p{number}", *each)) for number, each in enumerate(asked))
    nodes = [Naive(name, cpu * 1000, [1000] * cards) for name, cpu, cards in sizes]
    expected = {}
    for number, (cores, gpu) in enumerate(asked):
        cpu = cores * 1000
        fitting = [node for node in nodes if node.fits(cpu, gpu)]
        if fitting:
            best = max(fitting, key=lambda node: node.points(policy, cpu, gpu))  # the first of them
            best.place(cpu, gpu)
            expected[f"default/p{number}"] = best.name
    assert replay.placements == expected
    assert 40 < len(expected) < len(asked)
