"""CEL in tolerations and node affinity, as admission validates it. The classes are named as in KEP-5500's test plan."""

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from admission_pods import (
    OFF,
    ON,
    Tree,
    create_problems,
    created,
    pod_of,
    relabelled,
    required,
    toleration,
    update_problems,
)
from mooring.admission.options import AdmissionOptions, for_component, get_expression_checks
from mooring.api.base import copy_of
from mooring.base import component
from mooring.base.version import Version


@dataclass(frozen=True)
class Case:
    name: str
    spec: Tree
    problem: str = ""
    """Part of the only problem; empty if there is none."""
    options: AdmissionOptions = ON


def check(case: Case) -> None:
    problems = create_problems(pod_of(case.spec), case.options)
    if not case.problem:
        assert problems == []
    else:
        [problem] = problems
        assert case.problem in problem


@pytest.mark.req("5500.1", "5500.3", "5500.9", "5500.15")
class TestTolerationCELExpressionValidation:
    @pytest.mark.parametrize(
        "case",
        [
            Case("valid_CEL_expression_with_feature_gate_enabled", toleration(expression="taint.key == 'a'")),
            Case(
                "valid_CEL_expression_with_complex_logic",
                toleration(
                    expression="taint.key.contains('g') && (taint.value in ['a', 'b'] || taint.effect == 'NoExecute')"
                ),
            ),
            Case(
                "CEL_expression_with_feature_gate_disabled", toleration(expression="true"), "require feature gate", OFF
            ),
            Case("CEL_expression_with_key_field_set", toleration(expression="true", key="a"), "cannot be used with"),
            Case(
                "CEL_expression_with_value_field_set", toleration(expression="true", value="a"), "cannot be used with"
            ),
            Case(
                "CEL_expression_with_operator_field_set",
                toleration(expression="true", operator="Exists"),
                "cannot be used with",
            ),
            Case(
                "CEL_expression_with_effect_field_set",
                toleration(expression="true", effect="NoExecute"),
                "cannot be used with",
            ),
            Case("invalid_CEL_expression_syntax", toleration(expression="taint.key =="), "Syntax error"),
            Case("CEL_expression_with_wrong_return_type", toleration(expression="taint.key"), "must evaluate to bool"),
        ],
        ids=lambda case: case.name,
    )
    def test(self, case: Case) -> None:
        check(case)

    @pytest.mark.parametrize("seconds", [0, 30])
    def test_toleration_seconds_need_no_effect(self, seconds: int) -> None:
        check(Case("", toleration(expression="true", tolerationSeconds=seconds)))


@pytest.mark.req("5500.1", "5500.3", "5500.9", "5500.15")
class TestNodeAffinityCELExpressionValidation:
    @pytest.mark.parametrize(
        "case",
        [
            Case(
                "valid_CEL_expression_with_feature_gate_enabled", required(matchCELExpressions=["'gpu' in node.labels"])
            ),
            Case(
                "valid_CEL_expression_with_label_value_check",
                required(matchCELExpressions=["'zone' in node.labels && node.labels['zone'] == 'a'"]),
            ),
            Case(
                "CEL_expression_with_feature_gate_disabled",
                required(matchCELExpressions=["true"]),
                "require feature gate",
                OFF,
            ),
            Case("invalid_CEL_expression_syntax", required(matchCELExpressions=["node.labels["]), "Syntax error"),
            Case(
                "CEL_expression_with_wrong_return_type",
                required(matchCELExpressions=["node.labels['a']"]),
                "must evaluate to bool",
            ),
        ],
        ids=lambda case: case.name,
    )
    def test(self, case: Case) -> None:
        check(case)


@pytest.mark.req("5500.1", "5500.3", "5500.9", "5500.15")
class TestNodeSelectorTermWithCELExpressions:
    @pytest.mark.parametrize(
        "case",
        [
            Case("valid_term_with_matchCELExpressions", required(matchCELExpressions=["true"])),
            Case(
                "valid_term_with_multiple_matchCELExpressions",
                required(matchCELExpressions=["true", "'a' in node.labels"]),
            ),
            Case(
                "term_with_matchCELExpressions_and_matchExpressions",
                required(matchCELExpressions=["true"], matchExpressions=[{"key": "a", "operator": "Exists"}]),
            ),
            Case(
                "term_with_matchCELExpressions_feature_gate_disabled",
                required(matchCELExpressions=["true"]),
                "nodeSelectorTerms[0].matchCELExpressions[0]: Forbidden",
                OFF,
            ),
            Case(
                "term_with_invalid_CEL_expression",
                required(matchCELExpressions=["true", "nope"]),
                "nodeSelectorTerms[0].matchCELExpressions[1]: Invalid value",
            ),
        ],
        ids=lambda case: case.name,
    )
    def test(self, case: Case) -> None:
        check(case)


# -- new and stored expressions


NEWER = "taint.key.includes('a')"
"""Written with a function that came after 1.36."""


def at(min_compatibility: str) -> AdmissionOptions:
    return for_component(component.resolve(min_compatibility=min_compatibility))


def newer_than(options: AdmissionOptions) -> str:
    """Return an expression that the environment for stored expressions understands and that for new ones does not."""
    candidates = ("[1, 2].includes(1)", "semver.compare(taint.value, '>1')", "semver('1.0.0') == semver('1.0.0')")
    return next(
        text
        for text in candidates
        if options.expression_checks.new_taint(text) and not options.expression_checks.stored_taint(text)
    )


@pytest.mark.req("5500.12", "4330.7")
def test_a_function_newer_than_the_minimum_compatibility_version_may_stay_but_not_come() -> None:
    options = replace(at("1.34"), cel=True)
    expression = newer_than(options)
    assert create_problems(pod_of(toleration(expression=expression)), options) != []
    old = created(
        pod_of(toleration(expression=expression)),
        replace(options, expression_checks=get_expression_checks(Version(1, 37))),
    )
    assert update_problems(relabelled(old), old, options) == []
    added = copy_of(old)
    added.spec.tolerations += pod_of(toleration(expression=f"!({expression})")).spec.tolerations
    [problem] = update_problems(added, old, options)
    assert problem.startswith("spec.tolerations[3].expression: Invalid value")


@pytest.mark.req("5500.12", "4330.6")
def test_a_gate_that_is_forced_on_brings_its_variables_below_its_minimum_compatibility_version() -> None:
    forced = for_component(component.resolve(min_compatibility="1.34", gates="TaintTolerationNodeAffinityCEL=true"))
    assert create_problems(pod_of(toleration(expression="semver.compare(taint.value, '>1')")), forced) == []
    assert create_problems(pod_of(required(matchCELExpressions=["'a' in node.labels"])), forced) == []
    [problem] = create_problems(pod_of(toleration(expression=NEWER)), forced)
    assert "undeclared reference to 'includes'" in problem


@pytest.mark.req("5500.11")
@pytest.mark.parametrize(
    ("spec", "other", "problem"),
    [
        (toleration(expression="true"), toleration(expression="false"), "existing toleration can not be modified"),
        (
            required(matchCELExpressions=["true"]),
            required(matchCELExpressions=["false"]),
            "pod updates may not change fields other than",
        ),
    ],
    ids=["toleration", "required term"],
)
def test_expressions_cannot_be_changed_after_creation(spec: Tree, other: Tree, problem: str) -> None:
    old = created(pod_of(spec))
    new = copy_of(old)
    changed = pod_of(other).spec
    new.spec.affinity = changed.affinity
    if changed.tolerations:
        new.spec.tolerations[0] = changed.tolerations[0]
    [found] = update_problems(new, old)
    assert problem in found
