"""Reproduce the random numbers of Go's math/rand for a seed.

    lot = GoRandom(42)
    lot.shuffle(tasks)        # as rand.Shuffle
    lot.below(10)             # as rand.Intn
    lot.permutation(8)        # as rand.Perm

Each number is the sum of those 607 and 273 positions before it, modulo 2**64 (Mitchell and Reeds). Go seeds the first
607 with a small generator and mixes in the state after 7.8e12 numbers. Go has that state as a table; since every number
is a linear combination of the first 607, it is computed here by repeated squaring.

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
        first = [own ^ mixed for own, mixed in zip(_seed_state(seed, 20), _mixed_state(), strict=True)]
        self._numbers = _sums(_by_age(first))

    def bits(self) -> int:
        """Return 63 random bits."""
        return next(self._numbers) & (_MASK >> 1)

    def below(self, limit: int) -> int:
        """Return a number from 0 to below a limit of at most 31 bits."""
        largest = 2**31 - 1 - 2**31 % limit  # up to there all remainders are equally frequent
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
        while True:
            product = (self.bits() >> 31) * limit
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


def _by_age(places: list[int]) -> list[int]:
    return [places[(_LONG - _SHORT - 1 - age) % _LONG] for age in range(_LONG)]


def _sums(first: list[int]) -> Iterator[int]:
    ring = list(first)
    while True:
        for place in range(_LONG):
            ring[place] = (ring[place] + ring[place - _SHORT]) & _MASK
            yield ring[place]


@cache
def _mixed_state() -> list[int]:
    numbers = _by_age(_seed_state(1, 10))
    following = _sums(numbers)
    known = np.array(numbers + [next(following) for _ in range(_LONG - 1)], np.uint64)
    factors = _power(_MIXED_AFTER)
    by_age = [int((factors * known[begin : begin + _LONG]).sum()) for begin in range(_LONG)]
    oldest = _MIXED_AFTER % _LONG  # the ring buffer has rotated
    return [by_age[(_LONG - _SHORT - 1 - place - oldest) % _LONG] for place in range(_LONG)]


def _power(exponent: int) -> NDArray[np.uint64]:
    """Return the coefficients of the first 607 numbers for the number `exponent` positions later.

    They are those of x**exponent, where x**607 = x**334 + 1: multiplying by x gives the next number.
    """
    found = np.zeros(_LONG, np.uint64)
    found[0] = 1
    for digit in f"{exponent:b}":
        product = np.convolve(found, found)
        if digit == "1":
            product = np.append(np.zeros(1, np.uint64), product)
        found = _reduce(product)
    return found


def _reduce(factors: NDArray[np.uint64]) -> NDArray[np.uint64]:
    while len(factors) > _LONG:
        begin = max(len(factors) - _SHORT, _LONG)  # the reduced terms do not overlap
        upper, factors = factors[begin:], factors[:begin]
        factors[begin - _SHORT : begin - _SHORT + len(upper)] += upper
        factors[begin - _LONG : begin - _LONG + len(upper)] += upper
    return factors
