"""What is kept of Kubernetes' conformance suite: a line for each test, and a page with the reason of every failure."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from real import conformance

pytestmark = pytest.mark.req("C.1")
ROOT = Path(__file__).parents[2]


def spec(name: str, state: str, *labels: str, message: str = "", kind: str = "It") -> dict[str, object]:
    return {
        "LeafNodeType": kind,
        "LeafNodeText": name,
        "LeafNodeLabels": list(labels),
        "ContainerHierarchyTexts": ["[sig-apps] Job"],
        "ContainerHierarchyLabels": [["sig-apps"], None],
        "State": state,
        "Failure": {"Message": message},
    }


REPORT = [
    {
        "SpecReports": [
            spec("should run [Conformance]", "passed", "Conformance"),
            spec("should stop [Conformance]", "timedout", "Conformance", "Serial", message="waited\n\tfor  ever"),
            spec("should be skipped [Conformance]", "skipped", "Conformance"),
            spec("is none of these", "failed"),
            spec("", "passed", "Conformance", kind="BeforeSuite"),
        ]
    }
]


def test_results_are_those_of_conformance_tests_that_were_run() -> None:
    assert list(conformance.results_of(REPORT)) == [
        ("sig-apps", "Job should run", "passed", False, ""),
        ("sig-apps", "Job should stop", "failed", True, "waited for ever"),
    ]


def test_a_run_replaces_what_is_known_of_its_tests_and_nothing_else(tmp_path: Path) -> None:
    results = tmp_path / "results.tsv"
    (tmp_path / "one.json").write_text(json.dumps(REPORT))
    REPORT[0]["SpecReports"].pop(0)
    REPORT[0]["SpecReports"][0]["State"] = "passed"
    (tmp_path / "two.json").write_text(json.dumps(REPORT))
    conformance.keep([tmp_path / "one.json"], results)
    conformance.keep([tmp_path / "two.json"], results)
    known = conformance.read(results)
    assert {name: each.ended for (_, name), each in known.items()} == {
        "Job should run": "passed",
        "Job should stop": "passed",
    }


def page() -> ModuleType:
    found = importlib.util.spec_from_file_location("conformance_page", ROOT / "docs" / "conformance_page.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


def test_the_page_has_the_numbers_of_every_area_and_a_reason_for_every_failure() -> None:
    made = page()
    tests = made.tests()
    text = made.page().partition("## With real nodes")[0]
    assert len(tests) > 100
    for test in tests:
        assert f"| {test.area}" in text
        assert (f"| {test.name} | " in text) is (test.ended == "failed")
    assert all(made.reason(test).strip("`") for test in tests if test.ended == "failed")


@pytest.mark.req("C.3")
def test_the_page_counts_what_ran_on_real_nodes_too() -> None:
    made = page()
    tests = made.tests_on_real_nodes()
    text = made.page().partition("## With real nodes")[2]
    assert {test.area for test in tests} >= {"sig-network", "sig-node", "sig-storage"}
    assert len(tests) > 200
    for test in tests:
        assert (f"| {test.name} | " in text) is (test.ended == "failed")
    assert all(made.reason(test, real=True).strip("`") for test in tests if test.ended == "failed")


@pytest.mark.req("C.2")
def test_of_the_parallel_tests_that_the_specification_counts_at_least_175_pass_on_simulated_nodes() -> None:
    made = page()
    counted = [test for test in made.tests() if test.area in made.COUNTED and not test.serial]
    assert len(counted) >= 191, "a run of a part must not take the rest away"
    assert len({test.name for test in counted}) == len(counted)
    assert sum(test.ended == "passed" for test in counted) >= 175
