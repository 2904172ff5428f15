"""Every process of a test run begins with tests that wait: `tests/waiting_tests.py`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from waiting_tests import deal_waiting_tests_first

TESTS = Path(__file__).parents[1]
pytestmark = pytest.mark.req("I.6")


@dataclass(frozen=True)
class NamedItem:
    """What the order needs of a test."""

    path: Path
    number: int


def collect(**counts: int) -> list[Any]:
    """Return tests of modules, named as in `unit__test_a=3`."""
    paths = {name: TESTS / (name.replace("__", "/") + ".py") for name in counts}
    return [NamedItem(paths[name], number) for name, count in counts.items() for number in range(count)]


def names(items: list[Any]) -> list[str]:
    return [f"{item.path.stem.removeprefix('test_')}{item.number}" for item in items]


def test_each_part_begins_with_a_share_of_the_waiting_tests_and_is_filled_with_others() -> None:
    items = collect(unit__test_u=6, integration__test_i=2, e2e__test_b=1, e2e__test_a=3)
    assert names(deal_waiting_tests_first(items, 2)) == ["a0", "a1", "a2", "i0", "i1", "u0", "b0", *names(items[1:6])]


def test_a_share_that_is_larger_than_a_part_loses_no_test() -> None:
    items = collect(unit__test_u=1, e2e__test_a=5, e2e__test_b=1)
    assert names(deal_waiting_tests_first(items, 2)) == ["a0", "a1", "a2", "a3", "a4", "b0", "u0"]


def test_modules_of_a_folder_that_shares_a_server_stay_together() -> None:
    items = collect(e2e__stories__test_kep_5471=2, e2e__test_other=1, e2e__stories__test_kep_5500=1)
    ordered = [item.path.parent.name for item in deal_waiting_tests_first(items, 2)]
    assert ordered == ["stories", "stories", "stories", "e2e"]


@pytest.mark.parametrize("processes", [1, 2, 4, 7])
def test_every_test_is_executed_once(processes: int) -> None:
    items = collect(unit__test_u=9, e2e__test_a=4, integration__test_i=5, browser__test_v=2, attacks__test_t=3)
    assert sorted(names(deal_waiting_tests_first(items, processes))) == sorted(names(items))
