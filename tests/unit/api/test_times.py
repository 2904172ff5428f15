"""Times and numbers that may be percentages."""

import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api import int_or_string, times
from mooring.api.int_or_string import PercentError, scaled_value
from mooring.api.times import TimeError


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2024-02-29T23:59:59Z", datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC)),
        ("2024-01-01T00:00:00.1234567Z", datetime(2024, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)),
        ("2024-01-01T02:00:00+02:00", datetime(2024, 1, 1, tzinfo=UTC)),
        ("2024-01-01T2:00:00Z", datetime(2024, 1, 1, 2, tzinfo=UTC)),
        ("2023-12-31T19:30:00-04:30", datetime(2024, 1, 1, tzinfo=UTC)),
    ],
)
def test_rfc_3339(text: str, time: datetime) -> None:
    assert times.parse(text) == time


def test_a_time_with_very_many_digits_is_read_but_not_remembered() -> None:
    text = f"2024-01-01T00:00:00.{'1' * 1_000_000}Z"
    known = sys.getrefcount(text)
    assert times.parse(text).microsecond == 111111
    assert sys.getrefcount(text) == known


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2024-01-01",
        "2024-01-01 00:00:00Z",
        "2024-01-01T00:00:00",
        "2023-02-29T00:00:00Z",
        "20240101T000000Z",
        "2024-01-01T24:00:00Z",
        "2024-01-01T00:00:00+99:00",
        "0001-01-01T00:00:00+01:00",
        "\uff12024-01-01T00:00:00Z",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(TimeError):
        times.parse(text)


@pytest.mark.parametrize(
    "text", ["", "2024-01-01T00:00:00Z", "2024-01-01T00:00:00.5Z", "2024-01-01T00:00:00.1234567Z", "x.123456Z"]
)
def test_microseconds_have_six_digits(text: str) -> None:
    with pytest.raises(TimeError):
        times.parse_microseconds(text)


def test_a_long_text_that_looks_like_many_times_is_refused_at_once() -> None:
    with pytest.raises(TimeError):  # in time that grew with its square, this would take hours
        times.parse_microseconds(".123456+" * 1_000_000 + "\n")


def test_times_are_written_in_utc() -> None:
    time = datetime(2024, 5, 6, 7, 8, 9, 1234, tzinfo=timezone(timedelta(hours=2)))
    assert times.to_seconds(time) == "2024-05-06T05:08:09Z"
    assert times.to_microseconds(time) == "2024-05-06T05:08:09.001234Z"


@given(st.datetimes(timezones=st.just(UTC)))
@settings(max_examples=50)
def test_what_is_written_is_read_back(time: datetime) -> None:
    assert times.parse(times.to_microseconds(time)) == time


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [(3, 10, 3, 3), ("25%", 10, 3, 2), ("0%", 10, 0, 0), ("100%", 7, 7, 7), ("150%", 2, 3, 3), ("1%", 1, 1, 0)],
)
def test_percentages_of_a_total(value: int | str, total: int, up: int, down: int) -> None:
    assert scaled_value(value, total, round_up=True) == up
    assert scaled_value(value, total, round_up=False) == down


@pytest.mark.parametrize("value", ["", "5", "%", "a%", "1.5%", "٣%", "5% "], ids=repr)
def test_other_texts_are_no_percentages(value: str) -> None:
    with pytest.raises(PercentError):
        scaled_value(value, 10, round_up=True)


def test_only_a_text_is_a_percentage() -> None:
    assert int_or_string.parse_percent("25%") == 25
    assert int_or_string.parse_percent(25) is None
