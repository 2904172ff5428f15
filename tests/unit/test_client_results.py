"""What is kept of client libraries' own tests: a line for each test, and a page with the reason of every failure."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from real import clients

pytestmark = pytest.mark.req("X.13")
ROOT = Path(__file__).parents[2]
WANTED = {"lightkube": 22, "kr8s": 243, "kubernetes": 56, "kubernetes_asyncio": 12, "kopf": 12}
"""How many tests of each library pass at least."""
REPORT = """<testsuites><testsuite>
<testcase classname="a.B" name="passes"/>
<testcase classname="a.B" name="fails"><failure message="at /tmp/x/y.py\n 0xff:  no"/></testcase>
<testcase classname="a.B" name="cannot_begin"><error message="a fixture"/></testcase>
<testcase classname="a.B" name="skips"><skipped message="not here"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(clients, "RESULTS", tmp_path / "clients.tsv")
    (tmp_path / "report.xml").write_text(REPORT)
    return tmp_path / "report.xml"


def test_results_say_how_each_test_ended_and_nothing_of_the_machine(results: Path) -> None:
    assert [each[1:] for each in clients.results_of("kr8s", results)] == [
        ("a.B.passes", "passed", ""),
        ("a.B.fails", "failed", "at y.py : no"),
        ("a.B.cannot_begin", "failed", "a fixture"),
        ("a.B.skips", "skipped", "not here"),
    ]


def test_a_suite_that_is_run_replaces_its_own_results_alone(results: Path) -> None:
    for suite in ("kr8s", "kopf"):
        clients.keep(clients.results_of(suite, results))
    clients.keep([clients.Result("kr8s", "a.B.passes", "passed", "")])
    suites = [each.suite for each in clients.read()]
    assert (suites.count("kr8s"), suites.count("kopf")) == (1, 4)


def page() -> ModuleType:
    found = importlib.util.spec_from_file_location("clients_page", ROOT / "docs" / "clients_page.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


def test_as_many_tests_of_each_library_pass_as_are_wanted() -> None:
    tests = page().tests()
    passed = {suite: sum(test[0::2] == (suite, "passed") for test in tests) for suite in WANTED}
    assert {suite: number for suite, number in passed.items() if number < WANTED[suite]} == {}
    assert {test.suite for test in tests} == set(WANTED) == set(clients.SUITES)


def test_the_page_gives_the_reason_of_every_failure() -> None:
    made = page()
    text = made.page()
    for test in made.tests():
        if test.ended == "failed":
            assert f"| {made.reason(test)} |" in text
            assert not made.reason(test).startswith("`"), f"{test.name} has no reason"
