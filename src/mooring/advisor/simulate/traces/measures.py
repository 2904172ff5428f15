"""Measures over time: allocation, fragmentation, waiting times with reasons, and cost.

``replaying.py`` reports all events to `Meter`, which takes samples. There are at most `_MAX_SAMPLES`; beyond, every
second one is dropped and the interval doubles.
"""

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from mooring.advisor.simulate.pods import SimulatedPod, SimulationRecord
from mooring.advisor.simulate.traces.prices import Prices
from mooring.advisor.simulate.world import World
from mooring.api.core_v1 import Pod
from mooring.constraints.requests import PODS
from mooring.scheduler.facade import PodSignature

_MAX_SAMPLES = 400
_TYPICAL = 32
"""The number of most frequent pod signatures for which fragmentation is computed."""
_FINENESS = 50
"""The resolution of waiting-time buckets: 1/50."""
_HOUR = 3600.0
Sample = dict[str, float]


@dataclass(slots=True)
class WaitHistogram:
    """A histogram of pods' waiting times: its memory does not grow with the number of pods."""

    buckets: dict[int, int] = field(default_factory=dict)
    number: int = 0
    total: float = 0.0

    def add(self, seconds: float) -> None:
        bucket = round(math.log1p(max(seconds, 0.0)) * _FINENESS)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.number += 1
        self.total += seconds

    def percentile(self, part: float) -> float:
        """Return the waiting time that a fraction of the pods does not exceed, within 2 %; 0 without pods."""
        due, seen = part * self.number, 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= due:
                return round(math.expm1(bucket / _FINENESS), 3)
        return 0.0


@dataclass(slots=True)
class AllocationCurve:
    """The allocated percentage of a resource at each percentage that pods requested, as means."""

    sums: dict[int, float] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)

    def add_point(self, asked: float, allocated: float) -> None:
        """Add a point to the curve; `asked` and `allocated` are fractions of the capacity."""
        step = round(100 * asked)
        self.sums[step] = self.sums.get(step, 0.0) + 100 * allocated
        self.numbers[step] = self.numbers.get(step, 0) + 1

    def points(self) -> dict[int, float]:
        return {step: round(self.sums[step] / self.numbers[step], 3) for step in sorted(self.sums)}


@dataclass(slots=True)
class InvalidEvents:
    """Events that were ignored for the same reason: a description of the first, and their number."""

    first: str
    number: int = 0


@dataclass(slots=True)
class Tally:
    """The samples and counters of a replay so far, which a checkpoint stores."""

    samples: list[Sample] = field(default_factory=list)
    waits: WaitHistogram = field(default_factory=WaitHistogram)
    curves: dict[str, AllocationCurve] = field(default_factory=dict)
    arrived: int = 0
    placed: int = 0
    given_up: int = 0
    preempted: int = 0
    evicted: int = 0
    cost: float = 0.0
    cost_at: float = 0.0
    asked: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    stride: int = 1
    moments: int = 0
    odd: dict[str, InvalidEvents] = field(default_factory=dict)
    """The number of unusual events, by description."""


class Meter(SimulationRecord):
    """Collects the measures of a replay over time: samples, waiting times, allocation and cost."""

    def begin(self, world: World, prices: Prices, tally: Tally) -> None:
        self._world, self._prices = world, prices
        self.tally = tally
        self.lost: list[SimulatedPod] = []
        """Evicted and preempted pods since the last sample."""
        self.arrivals: list[SimulatedPod] = []
        """Placed pods since the last sample."""
        self._has: dict[str, int] = {}
        self._has_at = -1
        self.shapes: Counter[PodSignature] = Counter()
        """The number of pods by signature."""
        self.examples: dict[PodSignature, tuple[int, Pod]] = {}
        """By signature, a pod with the number of its event."""
        self._rate = 0.0

    def record_arrival(self, pod: SimulatedPod, event: int) -> None:
        shape = self._world.engine.cluster.info(pod.pod).signature
        self.tally.arrived += 1
        self.count_signature(pod.pod, event, 1)
        if len(self.shapes) > 8 * _TYPICAL:
            self.shapes = Counter(dict(self.shapes.most_common(4 * _TYPICAL)))
            self.examples = {each: self.examples[each] for each in self.shapes}
        for resource, amount in shape.requests.items():
            self.tally.asked[resource] = self.tally.asked.get(resource, 0) + amount

    def count_signature(self, pod: Pod, event: int, number: int) -> None:
        """Add `number` to the count of pods identical to `pod`, which arrived with trace event `event`."""
        shape = self._world.engine.cluster.info(pod).signature
        self.shapes[shape] += number
        self.examples.setdefault(shape, (event, pod))

    def record_placed(self, pod: SimulatedPod) -> None:
        self.tally.placed += 1
        self.tally.waits.add((pod.placed_at or 0.0) - (pod.created_at or 0.0))
        self._add_usage(pod, 1)
        self.arrivals.append(pod)

    def record_removed(self, pod: SimulatedPod) -> None:
        if pod.node:
            self._add_usage(pod, -1)

    def record_evicted(self, pod: SimulatedPod, cause: str) -> None:  # noqa: ARG002 - a Record's signature
        self.tally.evicted += 1
        self.lost.append(pod)

    def record_preempted(self, pod: SimulatedPod, by: str) -> None:  # noqa: ARG002 - as above
        self.tally.preempted += 1
        self.lost.append(pod)

    def _add_usage(self, pod: SimulatedPod, times: int) -> None:
        for resource, amount in self._world.engine.cluster.info(pod.pod).signature.requests.items():
            self.tally.used[resource] = self.tally.used.get(resource, 0) + times * amount

    def capacity(self, resource: str) -> int:
        """Return the capacity of all nodes for a resource, in the units of the columns."""
        cluster = self._world.engine.cluster
        if self._has_at != cluster.node_changes.changed_at:
            self._has_at = cluster.node_changes.changed_at
            table = cluster.resources
            self._has = {name: int(table.allocatable[line].sum()) for name, line in table.resources().items()}
            self.count_cost()
            self._rate = self._prices.total_price(info.node for info in cluster.node_infos())
        return self._has.get(resource, 0)

    def extend_curves(self) -> None:
        """Add a point to the allocation curve of each resource; call it after arrived pods were scheduled."""
        for resource, asked in self.tally.asked.items():
            if has := self.capacity(resource):
                curve = self.tally.curves.get(resource)
                if curve is None:
                    curve = self.tally.curves[resource] = AllocationCurve()
                curve.add_point(asked / has, self.tally.used.get(resource, 0) / has)

    def take_sample(self, *, is_last: bool = False) -> None:
        """Take a sample of all measures, unless the sampling interval skips this call and it is not the last."""
        self.tally.moments += 1
        if not is_last and self.tally.moments % self.tally.stride:
            return
        self.tally.samples.append(self._sample())
        if len(self.tally.samples) > _MAX_SAMPLES:
            self.tally.samples = self.tally.samples[1::2]
            self.tally.stride *= 2

    def _sample(self) -> Sample:
        world = self._world
        cluster, now = world.engine.cluster, world.clock.monotonic()
        self.count_cost()
        pending = len(world.pods) - world.running
        sample: Sample = {"time": round(now, 3), "running": world.running, "pending": pending, "nodes": len(cluster)}
        sample["nodes in use"] = int(np.count_nonzero(cluster.resources.used[cluster.resources.line(PODS)]))
        for resource in cluster.resources.resources():
            if resource != PODS and (has := self.capacity(resource)):
                sample[f"allocated {resource}"] = round(self.tally.used.get(resource, 0) / has, 5)
        for resource, part in self._fragmentation().items():
            sample[f"fragmented {resource}"] = round(part, 5)
        for part in (50, 90, 99):
            sample[f"waited p{part}"] = self.tally.waits.percentile(part / 100)
        sample |= {"preempted": self.tally.preempted, "evicted": self.tally.evicted, "given up": self.tally.given_up}
        if self._prices:
            sample |= {"cost per hour": round(self._rate, 4), "cost": round(self.tally.cost, 4)}
        for reason, number in sorted(world.lines.count_rejections().items()):  # several plugins may reject the same pod
            sample[f"pending {reason}"] = number
        profiles = world.engine.profiles.values()
        for plugin in {id(each): each for profile in profiles for each in profile.plugins}.values():
            if hasattr(plugin, "measures"):
                sample |= {str(name): float(value) for name, value in plugin.measures().items()}
        return sample

    def _fragmentation(self) -> dict[str, float]:
        """Return, by resource, the fraction of free amounts that typical pods cannot use (fragmentation).

        A pod that fits on a node can use everything free there; only pods that request the resource count.
        """
        if not self.shapes:
            return {}
        table = self._world.engine.cluster.resources
        lines = {name: line for name, line in table.resources().items() if name != PODS and self.capacity(name)}
        typical = self.shapes.most_common(_TYPICAL)
        needs = np.array([[shape.requests.get(name, 0) for name in lines] for shape, _ in typical], np.int64)
        often = np.array([number for _, number in typical])[:, None] * (needs > 0)
        free = (table.allocatable - table.used)[list(lines.values())]
        has_room = table.allocatable[table.line(PODS)] > table.used[table.line(PODS)]
        fits = np.array([shape.requests.keys() <= lines.keys() for shape, _ in typical])[:, None] & has_room
        for left, needed in zip(free, needs.T, strict=True):  # a loop, because a third dimension is slow
            fits &= left >= needed[:, None]
        useful, idle = fits.astype(np.float64) @ free.T, free.sum(axis=1)
        lost = (often * (1 - useful / np.maximum(idle, 1))).sum(axis=0) / np.maximum(often.sum(axis=0), 1)
        return {name: float(lost[place]) for place, name in enumerate(lines) if often[:, place].any() and idle[place]}

    def count_cost(self) -> None:
        """Add the cost of the nodes for the time since the last call."""
        now = self._world.clock.monotonic()
        self.tally.cost += self._rate * (now - self.tally.cost_at) / _HOUR
        self.tally.cost_at = now
