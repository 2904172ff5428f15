"""A cache that forgets its oldest entries, as cheaply when it is large."""

import time

import pytest

from mooring.base.bounded_cache import BoundedCache


@pytest.mark.parametrize("size", [1, 2, 31, 100])
def test_the_newest_are_kept_and_never_more_than_the_size(size: int) -> None:
    cache: BoundedCache[int, str] = BoundedCache(size)
    for number in range(5 * size):
        cache.put(number, str(number))
        assert cache.get(number) == str(number)
        assert len(cache) == min(number + 1, size) or len(cache) > size * 0.9
    assert 0 not in cache


def test_what_is_put_into_a_full_cache_costs_the_same_whatever_its_size() -> None:
    assert min(_seconds(65_536) for _ in range(3)) < 8 * min(_seconds(1024) for _ in range(3))


def _seconds(size: int) -> float:
    """Of the processor, for as many entries as are there already."""
    cache: BoundedCache[int, int] = BoundedCache(size)
    for number in range(size):
        cache.put(number, number)
    began = time.process_time()
    for number in range(size, size + 20_000):
        cache.put(number, number)
    return time.process_time() - began
