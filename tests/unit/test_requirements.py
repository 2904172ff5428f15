"""Every requirement has a test: the numbers of docs/requirements.md against the marks in the source of the tests."""

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
NUMBERS = re.findall(r"^\| (\w+\.\w+) \|", (TESTS.parent / "docs" / "requirements.md").read_text(), re.MULTILINE)
OPEN = (TESTS / "requirements-open.txt").read_text().split()


def _marks(source: str) -> set[str]:
    """Return the arguments of every `pytest.mark.req(...)` in a source; not parsed, as every worker reads all."""
    return {
        text for call in re.findall(r"pytest\.mark\.req\(([^()]*)\)", source) for text in re.findall(r'"(.*?)"', call)
    }


MARKED = set().union(*(_marks(path.read_text()) for path in TESTS.rglob("test_*.py")))


def test_a_mark_is_found_wherever_it_stands() -> None:
    assert _marks('@pytest.mark.req("5471.1", "S.1")\ndef test_x(): ...\npytestmark = pytest.mark.req("S.2")') == {
        "5471.1",
        "S.1",
        "S.2",
    }


def test_every_requirement_has_a_test_or_is_listed_as_open() -> None:
    assert [number for number in NUMBERS if number not in MARKED and number not in OPEN] == []


def test_every_mark_names_a_requirement() -> None:
    assert sorted(mark for mark in MARKED if mark not in NUMBERS) == []


def test_the_open_list_names_each_requirement_once() -> None:
    assert sorted(set(OPEN)) == sorted(OPEN)
    assert [number for number in OPEN if number not in NUMBERS] == []
