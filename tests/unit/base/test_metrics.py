"""Counts and histograms that are kept as plain numbers: the page has exactly what was observed."""

from enum import IntEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.base.metrics import Counts, Histograms

pytestmark = pytest.mark.req("5471.10")
BUCKETS = (0.5, 1.0, 2.0)


class Colour(IntEnum):
    RED = 0

    def __str__(self) -> str:
        return "Red"


def shown(durations: Histograms) -> dict[str, float]:
    """Return the numbers of a histogram that has one series, by the ends of their names or by bound."""
    samples = durations.family().samples
    return {each.labels.get("le") or each.name.rpartition("_")[2]: each.value for each in samples}


@given(st.lists(st.sampled_from((0.0, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)), max_size=1000), st.integers(0, 1000))
def test_a_histogram_has_every_value_in_its_bucket_however_often_it_is_read(values: list[float], read_at: int) -> None:
    durations = Histograms("h", "", (), BUCKETS)
    durations.series(())
    for number, value in enumerate(values):
        if number == read_at:
            durations.family()
        durations.observe((), value)
    bounds = {str(bound): sum(value <= bound for value in values) for bound in BUCKETS}
    expected = {**bounds, "+Inf": len(values), "count": len(values), "sum": sum(values)}
    assert shown(durations) == shown(durations) == expected


def test_who_adds_to_a_series_and_who_observes_are_added_up() -> None:
    durations = Histograms("h", "", (), BUCKETS)
    durations.observe((), 0.7)
    series = durations.series(())
    series[0] += 2
    series[-1] += 0.8
    assert shown(durations) == {"0.5": 2, "1.0": 3, "2.0": 3, "+Inf": 3, "count": 3, "sum": 1.5}


def test_a_label_that_is_no_text_has_its_word_on_the_page() -> None:
    counts, durations = Counts("c", "", ("colour",)), Histograms("h", "", ("colour",), BUCKETS)
    counts.add((Colour.RED,))
    durations.observe((Colour.RED,), 1.0)
    labels = [each.labels["colour"] for family in (counts.family(), durations.family()) for each in family.samples]
    assert set(labels) == {"Red"}
