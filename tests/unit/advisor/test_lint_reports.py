"""Findings as text, JSON, SARIF and JUnit."""

import json
from xml.etree import ElementTree as ET

import pytest

from mooring.advisor.lint import reports, rules
from mooring.advisor.lint.rules import RULES, Finding, Report, Severity

pytestmark = pytest.mark.req("S.5")

HOSTILE = 'a<b>&"c"\x1b[31m\x00\u202e\ud800\nsecond line'
REPORT = Report(
    [
        Finding(rules.INVALID, Severity.ERROR, "a b.yaml", 3, 5, "Pod x/web", "spec.a", "Required value"),
        Finding(rules.SERVER_WARNING, Severity.WARNING, "a b.yaml", 4, 1, "Pod x/web", "spec.b", "spec.b: is odd"),
        Finding(rules.SYNTAX, Severity.ERROR, "h\x1b.yaml", 1, 1, "", "", HOSTILE),
        Finding(rules.UNKNOWN_KIND, Severity.INFO, "h\x1b.yaml", 2, 1, "Widget w", "", "skipped"),
    ],
    ["a b.yaml", "h\x1b.yaml", "clean.yaml"],
    5,
)


def test_text_is_a_line_a_finding_and_further_lines_are_indented() -> None:
    assert list(reports.format_lines(REPORT, lambda text, _: f"<{text}>")) == [
        "a b.yaml:3:5: <error M011> Pod x/web: spec.a: Required value",
        "a b.yaml:4:1: <warning M013> Pod x/web: spec.b: is odd",
        'h\\x1b.yaml:1:1: <error M002> a<b>&"c"\\x1b[31m\\x00\\u202e\\ud800',
        "    second line",
        "h\\x1b.yaml:2:1: <info M004> Widget w: skipped",
    ]
    assert reports.format_summary(REPORT) == "5 documents in 3 files: 2 errors, 1 warning, 1 skipped"


def test_json_has_everything_and_is_text() -> None:
    text = reports.as_json(REPORT)
    assert text.encode()
    data = json.loads(text)
    assert (data["files"], data["documents"], data["errors"], data["warnings"]) == (3, 5, 2, 1)
    assert data["findings"][0] == {
        "rule": "M011",
        "name": "invalid",
        "severity": "error",
        "file": "a b.yaml",
        "line": 3,
        "column": 5,
        "object": "Pod x/web",
        "field": "spec.a",
        "message": "Required value",
    }
    assert data["findings"][2]["message"] == HOSTILE


def test_sarif_describes_its_rules_and_points_at_lines() -> None:
    text = reports.as_sarif(REPORT)
    assert text.encode()
    log = json.loads(text)
    (run,) = log["runs"]
    assert log["version"] == "2.1.0"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [rule.id for rule in RULES]
    first, second, third, fourth = run["results"]
    assert [each["level"] for each in run["results"]] == ["error", "warning", "error", "note"]
    assert run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == first["ruleId"] == "M011"
    assert first["message"] == {"text": "spec.a: Required value"}
    assert second["message"] == {"text": "spec.b: is odd"}
    assert first["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "a%20b.yaml"},
                "region": {"startLine": 3, "startColumn": 5},
            },
            "logicalLocations": [{"fullyQualifiedName": "Pod x/web", "kind": "object"}],
        }
    ]
    assert "logicalLocations" not in third["locations"][0]
    assert fourth["ruleId"] == "M004"


@pytest.mark.parametrize(("fail_on", "failures"), [(Severity.ERROR, 2), (Severity.WARNING, 3), (Severity.INFO, 4)])
def test_junit_has_a_suite_a_file_and_fails_by_severity(fail_on: Severity, failures: int) -> None:
    root = ET.fromstring(reports.as_junit(REPORT, fail_on))
    assert (root.get("tests"), root.get("failures")) == ("5", str(failures))
    assert [suite.get("name") for suite in root] == ["a b.yaml", "h\\x1b.yaml", "clean.yaml"]
    assert len(root.findall(".//failure")) == failures
    assert [case.get("name") for case in root[2]] == ["no findings"]


def test_numbers_and_names_of_rules_are_unique() -> None:
    assert len(rules.BY_NAME) == 2 * len(RULES)
    assert [rule.id for rule in RULES] == sorted(rule.id for rule in RULES)
