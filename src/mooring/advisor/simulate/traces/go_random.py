"""The random numbers that Go's math/rand gives for a seed, so that what a simulator in Go has drawn can be drawn again.

    lot = GoRandom(42)
    lot.shuffle(tasks)        # as rand.Shuffle
    lot.below(10)             # as rand.Intn
    lot.permutation(8)        # as rand.Perm

Each number is the sum of those 607 and 273 places before it, modulo 2**64 (Mitchell and Reeds). Go seeds the first 607
with a small generator, and mixes into them the state that it has after 7.8e12 numbers. Others keep that state as a
table; since every number is a sum of the first 607, it can be found by squaring, as powers are.

``drawing.py`` uses it. The tests have numbers that Go gave.
"""

from collections.abc import Iterator, MutableSequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LONG, _SHORT = 607, 273
_MIXED_AFTER = 7_800_000_000_000
_MASK = 2**64 - 1


class GoRandom:
    def __init__(self, seed: int) -> None:
        first = [own ^ mixed for own, mixed in zip(_seeded(seed, 20), _mixed(), strict=True)]
        self._numbers = _sums(_by_age(first))

    def bits(self) -> int:
        """63 of them."""
        return next(self._numbers) & (_MASK >> 1)

    def below(self, limit: int) -> int:
        """A number from 0 up to, and without, a limit of at most 31 bits."""
        largest = 2**31 - 1 - 2**31 % limit  # up to there every remainder comes equally often
        while (number := self.bits() >> 32) > largest:
            pass
        return number % limit

    def shuffle(self, things: MutableSequence[Any]) -> None:
        for place in range(len(things) - 1, 0, -1):
            other = self._scaled(place + 1)
            things[place], things[other] = things[other], things[place]

    def permutation(self, size: int) -> list[int]:
        found: list[int] = []
        for number in range(size):
            place = self.below(number + 1)
            found.append(number)
            found[number], found[place] = found[place], number
        return found

    def _scaled(self, limit: int) -> int:
        """As `below`, in the other way that Go has: the upper half of a product (Lemire)."""
        while True:
            product = (self.bits() >> 31) * limit
            if product % 2**32 >= 2**32 % limit:
                return product >> 32


def _seeded(seed: int, shift: int) -> list[int]:
    """The first numbers for a seed, each of three of a small generator."""
    small = seed % (2**31 - 1) or 89_482_311
    found = []
    for number in range(-20, 3 * _LONG):
        small = small * 48_271 % (2**31 - 1)
        if number >= 0:
            found.append(small)
    return [(a << 2 * shift ^ b << shift ^ c) & _MASK for a, b, c in zip(*[iter(found)] * 3, strict=True)]


def _by_age(places: list[int]) -> list[int]:
    """Go keeps the last 607 numbers in a ring that is filled backwards; here they are from the oldest on."""
    return [places[(_LONG - _SHORT - 1 - age) % _LONG] for age in range(_LONG)]


def _sums(first: list[int]) -> Iterator[int]:
    ring = list(first)
    while True:
        for place in range(_LONG):
            ring[place] = (ring[place] + ring[place - _SHORT]) & _MASK
            yield ring[place]


@cache
def _mixed() -> list[int]:
    """What is mixed into every seed: the state for the seed 1 after 7.8e12 numbers."""
    numbers = _by_age(_seeded(1, 10))
    following = _sums(numbers)
    known = np.array(numbers + [next(following) for _ in range(_LONG - 1)], np.uint64)
    factors = _power(_MIXED_AFTER)
    by_age = [int((factors * known[begin : begin + _LONG]).sum()) for begin in range(_LONG)]
    oldest = _MIXED_AFTER % _LONG  # the ring has turned
    return [by_age[(_LONG - _SHORT - 1 - place - oldest) % _LONG] for place in range(_LONG)]


def _power(exponent: int) -> NDArray[np.uint64]:
    """The factors with which the first 607 numbers add up to one that comes so many places after the first of them.

    They are those of x**exponent, where x**607 = x**334 + 1: multiplying by x goes to the next number.
    """
    found = np.zeros(_LONG, np.uint64)
    found[0] = 1
    for digit in f"{exponent:b}":
        product = np.convolve(found, found)
        if digit == "1":
            product = np.append(np.zeros(1, np.uint64), product)
        found = _reduced(product)
    return found


def _reduced(factors: NDArray[np.uint64]) -> NDArray[np.uint64]:
    while len(factors) > _LONG:
        begin = max(len(factors) - _SHORT, _LONG)  # what these become does not meet them
        upper, factors = factors[begin:], factors[:begin]
        factors[begin - _SHORT : begin - _SHORT + len(upper)] += upper
        factors[begin - _LONG : begin - _LONG + len(upper)] += upper
    return factors
