"""Format a report: as text, JSON, SARIF 2.1.0, JUnit XML, annotations of GitHub Actions, or Markdown.

Manifests are untrusted: control characters in them are escaped for the terminal. Called by the command line.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any
from urllib.parse import quote

import mooring
from mooring.advisor.lint.rules import RULES, SKIPPED, Finding, Report, Rule, Severity

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SARIF_LEVELS = {Severity.INFO: "note", Severity.WARNING: "warning", Severity.ERROR: "error"}
_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

Paint = Callable[[str, Severity], str]
"""A function that colours a text by the severity of a finding."""


def format_lines(report: Report, paint: Paint) -> Iterator[str]:
    """Yield a line for each finding, as compilers do; further lines of its message are indented."""
    for finding in report.findings:
        place = one_line(f"{finding.file}:{finding.line}:{finding.column}")
        subject = f"{one_line(finding.object)}: " if finding.object else ""
        first, *more = escape_control_characters(_message_of(finding)).split("\n")
        yield f"{place}: {paint(f'{finding.severity} {finding.rule.id}', finding.severity)} {subject}{first}"
        for line in more:
            yield f"    {line}"


def format_summary(report: Report) -> str:
    """Return a sentence with the number of linted objects and of findings."""
    skipped = sum(finding.rule.id in SKIPPED for finding in report.findings)
    counts = [
        format_count(report.count(Severity.ERROR), "error"),
        format_count(report.count(Severity.WARNING), "warning"),
        f"{skipped} skipped",
    ]
    return (
        f"{format_count(report.documents, 'document')} in {format_count(len(report.files), 'file')}:"
        f" {', '.join(counts)}"
    )


def as_json(report: Report) -> str:
    """Return the report as JSON."""
    data = {
        "files": len(report.files),
        "documents": report.documents,
        "errors": report.count(Severity.ERROR),
        "warnings": report.count(Severity.WARNING),
        "findings": [
            {**finding._asdict(), "rule": finding.rule.id, "name": finding.rule.name, "severity": str(finding.severity)}
            for finding in report.findings
        ],
    }
    return _encode_json(data)


def as_sarif(report: Report, tool: str = "mooring lint", rules: Sequence[Rule] = RULES) -> str:
    """Return the report as SARIF, for code scanning; `mooring audit` passes its own `tool` and `rules`."""
    driver = {
        "name": tool,
        "version": mooring.__version__,
        "semanticVersion": mooring.__version__,
        "rules": [_sarif_rule(rule) for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(finding, rules) for finding in report.findings],
    }
    return _encode_json({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": f"{rule.about}."},
        "defaultConfiguration": {"level": _SARIF_LEVELS[rule.severity]},
    }


def _sarif_result(finding: Finding, rules: Sequence[Rule]) -> dict[str, Any]:
    location: dict[str, Any] = {}
    if finding.file:  # objects of a live cluster have none
        location["physicalLocation"] = {
            "artifactLocation": {"uri": quote(finding.file.removeprefix("./"), errors="replace")},
            "region": {"startLine": finding.line, "startColumn": finding.column},
        }
    if finding.object:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.object, "kind": "object"}]
    return {
        "ruleId": finding.rule.id,
        "ruleIndex": rules.index(finding.rule),
        "level": _SARIF_LEVELS[finding.severity],
        "message": {"text": _message_of(finding)},
        "locations": [location],
    }


def as_junit(report: Report, fail_on: Severity, tool: str = "mooring lint") -> str:
    """Return JUnit XML: a suite per file, a case per finding; findings below `fail_on` pass with a message."""
    by_file: dict[str, list[Finding]] = {file: [] for file in report.files}
    for finding in report.findings:
        by_file.setdefault(finding.file, []).append(finding)
    suites = [_junit_suite(file, findings, fail_on) for file, findings in by_file.items()]
    failures = _count_failures(report.findings, fail_on)
    tests = sum(max(len(findings), 1) for findings in by_file.values())
    head = f'<testsuites name="{tool}" tests="{tests}" failures="{failures}">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *suites, "</testsuites>"])


def as_github(report: Report) -> str:
    """Return a workflow command of GitHub Actions for each finding, which annotates its line in a pull request."""
    words = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
    found = []
    for each in report.findings:
        place = f"file={_escape_github(each.file)},line={each.line},col={each.column}," if each.file else ""
        title = _escape_github(f"{each.rule.id} {each.rule.name}")
        text = _escape_github(f"{each.object}: {_message_of(each)}" if each.object else _message_of(each), of_text=True)
        found.append(f"::{words[each.severity]} {place}title={title}::{text}")
    return "\n".join(found)


def _escape_github(text: str, *, of_text: bool = False) -> str:
    text = escape_control_characters(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text if of_text else text.replace(":", "%3A").replace(",", "%2C")


def as_markdown(report: Report, title: str) -> str:
    """Return a Markdown table for a summary or a comment."""
    worst = sorted(report.findings, key=lambda each: -each.severity)
    head = [f"### {title}", "", "| | Rule | Object | What happens |", "|---|---|---|---|"]
    cells = (
        (str(each.severity), f"{each.rule.id} {each.rule.name}", each.object or each.file, _message_of(each))
        for each in worst
    )
    rows = [f"| {' | '.join(map(markdown_cell, row))} |" for row in cells]
    return "\n".join([*head, *rows] if rows else [head[0], "", "Nothing was found."])


def markdown_cell(text: str) -> str:
    """Escape a text for a cell of a Markdown table."""
    plain = escape(escape_control_characters(text)).replace("|", "&#124;").replace("\n", " ")
    return re.sub(r"([\\`*_\[\]])", r"\\\1", plain)


def _junit_suite(file: str, findings: list[Finding], fail_on: Severity) -> str:
    name = _escape_xml(file)
    cases = [_junit_case(finding, fail_on) for finding in findings]
    cases = cases or [f'    <testcase classname="{name}" name="no findings"/>']
    failures = _count_failures(findings, fail_on)
    head = f'  <testsuite name="{name}" tests="{len(cases)}" failures="{failures}">'
    return "\n".join([head, *cases, "  </testsuite>"])


def _junit_case(finding: Finding, fail_on: Severity) -> str:
    place = f"{finding.file}:{finding.line}:{finding.column}"
    name = _escape_xml(f"{finding.rule.id} {finding.rule.name} {finding.object or finding.file} line {finding.line}")
    text = _escape_xml(f"{place}: {finding.severity}: {_message_of(finding)}")
    if finding.severity >= fail_on:
        body = f'<failure type="{finding.rule.id}" message="{_escape_xml(_message_of(finding))}">{text}</failure>'
    else:
        body = f"<system-out>{text}</system-out>"
    return f'    <testcase classname="{_escape_xml(finding.file)}" name="{name}">{body}</testcase>'


def _count_failures(findings: list[Finding], fail_on: Severity) -> int:
    return sum(finding.severity >= fail_on for finding in findings)


def _message_of(finding: Finding) -> str:
    if not finding.field or finding.message.startswith(finding.field):
        return finding.message
    return f"{finding.field}: {finding.message}"


def format_count(number: int, what: str) -> str:
    """Format a number with its noun: `1 pod`, `2 pods`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def escape_control_characters(text: str) -> str:
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def one_line(text: str) -> str:
    """Return a text in one line, so that text from an object cannot begin a line, which CI might run as a command."""
    return escape_control_characters(text).replace("\n", "\\n")


def _encode_json(data: Any) -> str:
    # Halves of surrogate pairs, which file names may have, can be written only as escapes.
    text = json.dumps(data, indent=2, ensure_ascii=False)
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape_xml(text: str) -> str:
    return escape(escape_control_characters(text)).replace("\n", "&#10;")
