"""The recorded behaviour of CEL in Kubernetes, and the CEL project's own tests, replayed."""

import os
from pathlib import Path

import pytest

from mooring.testing.replay import cel, cel_spec

DATA = Path(__file__).parent / "data" / "cel"
SHARED = Path(os.environ.get("MOORING_CONFORMANCE") or Path(__file__).parents[3] / "shared" / "conformance")
SPEC_FILES = sorted((SHARED / "cel-spec").glob("*.json"))


@pytest.mark.req("5500.2", "5500.4")
def test_kubernetes_expressions() -> None:
    result = cel.replay(DATA / "k8s-cel.json")
    assert result.failed == []
    assert result.passed > 900


def test_the_cel_projects_tests_are_there() -> None:
    if not SPEC_FILES and not os.environ.get("CI"):
        pytest.skip(f"no tests of the CEL project in {SHARED}; set MOORING_CONFORMANCE")
    assert SPEC_FILES


@pytest.mark.parametrize("file", SPEC_FILES, ids=lambda file: file.stem)
def test_cel_project(file: Path) -> None:
    result = cel_spec.replay(file)
    assert result.failed == []
    assert len(result.left_out) <= 2
