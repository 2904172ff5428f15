"""Draw workloads from a trace: its pods in random order, up to a fraction of the cluster's capacity.

The experiment of the FGD paper: the listed pods in random order; then more, drawn at random from the list, until the
requests reach a multiple of the capacity; or fewer, if the list requests more. Nodes are shuffled too, because plugins
may prefer the first among equals.

The paper's simulator is written in Go and draws by a seed. The same seed gives the same numbers here, so that results
can be compared run by run.
"""

from collections.abc import Iterable, Iterator, MutableSequence, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.advisor.simulate.traces.events import PodArrival, TraceError, with_pod_name
from mooring.api.core_v1 import Node, Pod
from mooring.constraints.requests import in_units, requests_of, to_units

GAP = 1.0
"""The seconds between two pods."""
_MAX_TIMES = 100
_TAKEN = 10
"""The random numbers that the paper's scheduler draws between shuffling pods and nodes, by watched kind."""


class FillTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The amount of a resource that the drawn pods should request in total."""

    resource: str
    times: float
    """The target as a multiple of the capacity of all nodes."""

    def __post_init__(self) -> None:
        if not 0 < self.times <= _MAX_TIMES:  # also rejects NaN
            wrong = f"{self.times:g} times {self.resource}"
            raise TraceError(f"a cluster cannot be filled with {wrong}: more than 0 and at most {_MAX_TIMES}")


class DrawnWorkload(NamedTuple):
    pods: Iterator[PodArrival]
    """The pods, created one a second and never deleted."""
    nodes: list[Node]


def draw_workload(pods: Sequence[Pod], nodes: Sequence[Node], fill: FillTarget | None, seed: int) -> DrawnWorkload:
    """Draw pods up to the fill target, and put pods and nodes in random order. Raise TraceError."""
    lot = GoRandom(seed)
    lot.next_bits()  # the simulator logs the first number
    listed = sorted(pods, key=lambda pod: pod.metadata.name)
    chosen = list(listed)
    lot.shuffle(chosen)
    if fill is not None:
        chosen = _fill_to_target(chosen, listed, fill, sum_capacity(nodes, fill.resource), lot)
    for _ in range(_TAKEN):
        lot.next_bits()
    named = sorted(nodes, key=lambda node: node.metadata.name)
    places = lot.permutation(len(named))
    ordered = [node for _, node in sorted(zip(places, named, strict=True), key=lambda placed: placed[0])]
    return DrawnWorkload((PodArrival(number * GAP, pod) for number, pod in enumerate(chosen)), ordered)


def sum_capacity(nodes: Iterable[Node], resource: str) -> int:
    """Return the allocatable amount of a resource over all nodes, in the scheduler's units."""
    amounts = (node.status.allocatable.get(resource) for node in nodes)
    return sum(to_units(resource, amount) for amount in amounts if amount is not None)


def requested_amount(pod: Pod, resource: str) -> int:
    return in_units(requests_of(pod, pod_level=True)).get(resource, 0)


def _fill_to_target(chosen: list[Pod], pods: Sequence[Pod], fill: FillTarget, has: int, lot: "GoRandom") -> list[Pod]:
    wanted = fill.times * has
    amounts = {id(pod): requested_amount(pod, fill.resource) for pod in pods}
    total = sum(amounts.values())
    if not total or not has:
        who = "no pod of the trace asks for it" if has else "no node has any"
        raise TraceError(f"the cluster cannot be filled with {fill.resource}: {who}")
    if total >= wanted:
        while total > wanted:
            total -= amounts[id(chosen.pop(lot.next_below(len(chosen))))]
        return chosen
    # Stop as the paper's simulator does: before a pod that would exceed the target.
    while total + min(amounts[id(pod := pods[lot.next_below(len(pods))])], 1000) <= wanted:
        total += amounts[id(pod)]
        chosen.append(with_pod_name(pod, f"{pod.metadata.name}-again-{len(chosen) - len(pods)}"))
    return chosen


_LONG, _SHORT = 607, 273
_MIXED_AFTER = 7_800_000_000_000
_MASK = 2**64 - 1


class GoRandom:
    """Generates the same random numbers as Go's math/rand with the same seed."""

    def __init__(self, seed: int) -> None:
        first = [own ^ mixed for own, mixed in zip(_seed_state(seed, 20), _mixed_state(), strict=True)]
        self._numbers = _generate_numbers(_order_by_age(first))

    def next_bits(self) -> int:
        """Return the next random number, of 63 bits."""
        return next(self._numbers) & (_MASK >> 1)

    def next_below(self, limit: int) -> int:
        """Return a random number from 0 to below `limit`, as Go's `Int31n` does; `limit` is at most 31 bits long."""
        largest = 2**31 - 1 - 2**31 % limit  # up to there all remainders are equally frequent
        while (number := self.next_bits() >> 32) > largest:
            pass
        return number % limit

    def shuffle(self, things: MutableSequence[Any]) -> None:
        for place in range(len(things) - 1, 0, -1):
            other = self._scaled_below(place + 1)
            things[place], things[other] = things[other], things[place]

    def permutation(self, size: int) -> list[int]:
        found: list[int] = []
        for number in range(size):
            place = self.next_below(number + 1)
            found.append(number)
            found[number], found[place] = found[place], number
        return found

    def _scaled_below(self, limit: int) -> int:
        while True:
            product = (self.next_bits() >> 31) * limit
            if product % 2**32 >= 2**32 % limit:
                return product >> 32


def _seed_state(seed: int, shift: int) -> list[int]:
    small = seed % (2**31 - 1) or 89_482_311
    found = []
    for number in range(-20, 3 * _LONG):
        small = small * 48_271 % (2**31 - 1)
        if number >= 0:
            found.append(small)
    return [(a << 2 * shift ^ b << shift ^ c) & _MASK for a, b, c in zip(*[iter(found)] * 3, strict=True)]


def _order_by_age(places: list[int]) -> list[int]:
    return [places[(_LONG - _SHORT - 1 - age) % _LONG] for age in range(_LONG)]


def _generate_numbers(first: list[int]) -> Iterator[int]:
    ring = list(first)
    while True:
        for place in range(_LONG):
            ring[place] = (ring[place] + ring[place - _SHORT]) & _MASK
            yield ring[place]


@cache
def _mixed_state() -> list[int]:
    numbers = _order_by_age(_seed_state(1, 10))
    following = _generate_numbers(numbers)
    known = np.array(numbers + [next(following) for _ in range(_LONG - 1)], np.uint64)
    factors = _jump_coefficients(_MIXED_AFTER)
    by_age = [int((factors * known[begin : begin + _LONG]).sum()) for begin in range(_LONG)]
    oldest = _MIXED_AFTER % _LONG  # the ring buffer has rotated
    return [by_age[(_LONG - _SHORT - 1 - place - oldest) % _LONG] for place in range(_LONG)]


def _jump_coefficients(exponent: int) -> NDArray[np.uint64]:
    """Return the coefficients that compute the number `exponent` positions later from the first 607 numbers.

    They are those of the polynomial x**exponent, where x**607 = x**334 + 1: multiplying by x gives the next number.
    """
    found = np.zeros(_LONG, np.uint64)
    found[0] = 1
    for digit in f"{exponent:b}":
        product = np.convolve(found, found)
        if digit == "1":
            product = np.append(np.zeros(1, np.uint64), product)
        found = _reduce_polynomial(product)
    return found


def _reduce_polynomial(factors: NDArray[np.uint64]) -> NDArray[np.uint64]:
    while len(factors) > _LONG:
        begin = max(len(factors) - _SHORT, _LONG)  # the reduced terms do not overlap
        upper, factors = factors[begin:], factors[:begin]
        factors[begin - _SHORT : begin - _SHORT + len(upper)] += upper
        factors[begin - _LONG : begin - _LONG + len(upper)] += upper
    return factors
