"""Sorted keys in blocks agree with a sorted list, wherever the blocks happen to end."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.store import sorted_keys
from mooring.store.sorted_keys import SortedKeys

names = st.text(alphabet="abc/", min_size=1, max_size=3)


@pytest.fixture(scope="module", autouse=True)
def _short_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_keys, "_BLOCK", 2)
        yield


@settings(max_examples=100, deadline=None)
@given(
    changes=st.lists(names, max_size=60),
    low=st.just("") | names,
    high=st.none() | names,
    limit=st.integers(0, 10),
)
def test_ranges_are_those_of_a_sorted_list(changes: list[str], low: str, high: str | None, limit: int) -> None:
    keys, expected = SortedKeys(), set[str]()
    for key in changes:  # a name that comes again is taken out
        if key in expected:
            keys.remove(key)
        else:
            keys.add(key)
        expected ^= {key}
    inside = sorted(key for key in expected if key > low and (high is None or key < high))
    assert keys.between(low, high, limit) == (inside[: limit or None], len(inside))
