"""Every test that KEP-5500's test plan names exists under its name (5500.15): a class, and an id for each subtest.

Go writes a space in the name of a subtest as an underscore; here both count as the same.
"""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent

PLAN: dict[str, list[str]] = {
    "TestTolerationCELExpressionValidation": [
        "valid CEL expression with feature gate enabled",
        "valid CEL expression with complex logic",
        "CEL expression with feature gate disabled",
        "CEL expression with key field set",
        "CEL expression with value field set",
        "CEL expression with operator field set",
        "CEL expression with effect field set",
        "invalid CEL expression syntax",
        "CEL expression with wrong return type",
    ],
    "TestNodeAffinityCELExpressionValidation": [
        "valid CEL expression with feature gate enabled",
        "valid CEL expression with label value check",
        "CEL expression with feature gate disabled",
        "invalid CEL expression syntax",
        "CEL expression with wrong return type",
    ],
    "TestNodeSelectorTermWithCELExpressions": [
        "valid term with matchCELExpressions",
        "valid term with multiple matchCELExpressions",
        "term with matchCELExpressions and matchExpressions",
        "term with matchCELExpressions feature gate disabled",
        "term with invalid CEL expression",
    ],
    "TestTolerationCompiler": [
        "type-error",
        "taint-value-equals",
        "taint-effect-equals",
        "taint-key-startswith",
        "taint-value-empty",
        "false",
        "taint-key-equals",
        "taint-key-not-equals",
        "taint-effect-not-equals",
        "taint-key-and-value",
        "taint-key-or-value",
        "taint-key-contains",
        "true",
        "syntax-error",
    ],
    "TestNodeAffinityCompiler": [
        "label-exists-and-value-equals",
        "label-exists-or-other",
        "syntax-error",
        "label-not-exists",
        "label-value-startswith",
        "label-value-contains",
        "multiple-labels",
        "empty-labels",
        "true",
        "false",
        "type-error",
        "label-exists",
        "label-value-equals",
        "label-value-not-equals",
    ],
    "TestTolerationCacheGetOrCompile": [],
    "TestAffinityCacheGetOrCompile": [],
    "TestCacheDoesNotCacheErrors": [],
    "TestCacheLRUEviction": [],
    "TestNodeAffinityCELMatching": [
        "CEL expression matches label exists",
        "CEL expression label does not exist",
        "CEL expression matches label value",
        "CEL expression label value mismatch",
        "CEL expression with startsWith",
        "CEL expression with contains",
        "multiple CEL expressions (AND semantics)",
        "multiple CEL expressions one fails (AND semantics)",
        "multiple terms (OR semantics) first matches",
        "multiple terms (OR semantics) second matches",
        "mix of CEL and matchExpressions",
        "mix of CEL and matchExpressions - CEL fails",
        "CEL expression always true",
    ],
    "TestTolerationCELMatching": [
        "CEL expression matches taint key",
        "CEL expression does not match taint key",
        "CEL expression matches taint key and value",
        "CEL expression matches taint key but not value",
        "CEL expression matches taint effect",
        "CEL expression with startsWith",
        "CEL expression with contains",
        "CEL expression tolerates all taints with true",
        "multiple taints with one CEL toleration matching all",
        "multiple taints with CEL toleration matching only some",
        "mix of CEL and standard tolerations",
    ],
    "TestTaintTolerationFilter": [],
    "TestTaintTolerationScoring": [],
    "TestTaintNodeByCondition": [],
    "TestNodeSelectorRequirementsAsSelector": [],
    "TestPreferredSchedulingTermsScore": [],
    "TestPodMatchesNodeSelectorAndAffinityTerms": [],
    "TestNodeSelectorMatch": [],
}


def _classes() -> dict[str, set[str]]:
    """Return the classes of tests, each with every text in it, subtests' names among them."""
    found: dict[str, set[str]] = {}
    named = re.compile(rf"^class ({'|'.join(PLAN)})\b", re.MULTILINE)
    sources = (path.read_text() for path in TESTS.rglob("test_*.py"))
    for source in filter(named.search, sources):
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and node.name in PLAN:
                assert node.name not in found, f"{node.name} exists twice"
                found[node.name] = {
                    text.value.replace("_", " ")
                    for text in ast.walk(node)
                    if isinstance(text, ast.Constant) and isinstance(text.value, str)
                }
    return found


CLASSES = _classes()


@pytest.mark.req("5500.15")
@pytest.mark.parametrize("name", PLAN)
def test_a_test_of_the_plan_exists_with_its_subtests(name: str) -> None:
    assert [subtest for subtest in PLAN[name] if subtest not in CLASSES[name]] == []
