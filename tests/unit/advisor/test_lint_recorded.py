"""Lint finds in recorded manifests what Kubernetes' API server answered to them."""

import json
from pathlib import Path

import pytest

from mooring.advisor.lint import Linter, Settings, Severity
from mooring.base import component
from mooring.testing.replay.api import RECORDED_GATES, Case

pytestmark = pytest.mark.req("S.5", "5471.2", "3633.2")
RECORDED = Path(__file__).parents[2] / "conformance" / "data" / "api" / "requests.jsonl"
NOT_IN_THE_MANIFEST = {"pod-missingns", "pod-wrongns"}
"""What the server says of these depends on the namespace in the path of the request."""


def test_lint_refuses_the_fields_that_the_server_refused() -> None:
    linter = Linter(Settings(component.resolve(gates=RECORDED_GATES)))
    cases = [Case.parse(line) for line in RECORDED.read_text().splitlines()]
    creates = [case for case in cases if case.method == "POST" and case.name not in NOT_IN_THE_MANIFEST]
    assert len(creates) > 200
    for case in creates:
        findings = linter.lint(case.name, json.dumps(case.body)).findings
        errors = [finding for finding in findings if finding.severity is Severity.ERROR]
        assert bool(errors) is (case.answer.code >= 400), case.name
        if case.answer.code == 422:
            wanted = {cause["field"] for cause in case.answer.body["details"]["causes"]}
            assert {finding.field for finding in errors} == wanted, case.name
