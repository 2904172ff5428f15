"""The recorded behaviour of CEL in Kubernetes, and the CEL project's own tests, replayed.

The latter are not ours and do not stand in this repository; where they are not beside it, the summary of the run says
so (tests/conftest.py), and our own tests in `tests/unit/cel/` cover the language.
"""

from pathlib import Path

import pytest

from mooring.testing.replay import cel, cel_spec
from outside_data import CEL_SPEC

DATA = Path(__file__).parent / "data" / "cel"
SPEC_FILES = sorted(CEL_SPEC.glob("*.json"))


@pytest.mark.req("5500.2", "5500.4")
@pytest.mark.parametrize(("file", "fewest"), [("k8s-cel.json", 900), ("k8s-cel-edges.json", 500)])
def test_kubernetes_expressions(file: str, fewest: int) -> None:
    result = cel.replay(DATA / file)
    assert result.failed == []
    assert result.passed > fewest


@pytest.mark.skipif(not SPEC_FILES, reason=f"there are no tests of the CEL project in {CEL_SPEC}")
@pytest.mark.parametrize("file", SPEC_FILES or [CEL_SPEC], ids=lambda file: file.stem)
def test_cel_project(file: Path) -> None:
    result = cel_spec.replay(file)
    assert result.failed == []
    assert len(result.left_out) <= 2
