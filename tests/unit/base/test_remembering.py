"""What short texts came to is remembered; long ones leave nothing behind."""

import gc
import sys
from collections.abc import Callable

import pytest

from mooring.api import names
from mooring.base.short_string_cache import MAX_CACHED_LENGTH, cache_short
from mooring.cel.errors import EvaluationError
from mooring.cel.ext import network_values
from mooring.constraints.celenv import semver, url

pytestmark = pytest.mark.req("S.4")


def test_a_short_text_is_worked_out_once_and_a_long_one_every_time() -> None:
    asked: list[str] = []

    @cache_short(8)
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    short, long = "x" * MAX_CACHED_LENGTH, "x" * (MAX_CACHED_LENGTH + 1)
    assert [length(text) for text in (short, short, long, long)] == [
        MAX_CACHED_LENGTH,
        MAX_CACHED_LENGTH,
        MAX_CACHED_LENGTH + 1,
        MAX_CACHED_LENGTH + 1,
    ]
    assert asked == [short, long, long]


def _wrong_version(text: str) -> None:
    with pytest.raises(EvaluationError):
        semver.semver(text)
    with pytest.raises(EvaluationError):
        semver.compare(text, ">=1.0.0")


def _wrong_address(text: str) -> None:
    with pytest.raises(EvaluationError):
        network_values.parse_ip(text)


@pytest.mark.parametrize(
    "check",
    [
        names.label_key,
        names.label_value,
        names.dns1123_label,
        _wrong_version,
        _wrong_address,
        url.parse,
    ],
    ids=["label key", "label value", "name", "version", "address", "URL"],
)
def test_a_long_text_of_a_stranger_is_not_kept(check: Callable[[str], object]) -> None:
    text = "".join(["http://x"] * 100)
    before = sys.getrefcount(text)
    check(text)
    gc.collect()
    assert sys.getrefcount(text) == before
