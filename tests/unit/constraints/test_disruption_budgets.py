"""Disruption budgets: how many pods must stay, which pods are meant, and that a broken budget means none."""

from dataclasses import dataclass

import pytest

from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import LabelSelector, LabelSelectorRequirement, ObjectMeta
from mooring.api.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetSpec
from mooring.constraints.disruption_budgets import disruptions_allowed, expected_and_desired, selector_of, selects

pytestmark = pytest.mark.req("S.4")
PODS, SCALE = 5, 8


@dataclass(frozen=True)
class Case:
    id: str
    spec: PodDisruptionBudgetSpec
    expected: int
    desired: int
    allowed: int
    """When all pods are healthy."""


CASES = [
    Case("a number must stay of the pods there are", PodDisruptionBudgetSpec(min_available=4), PODS, 4, 1),
    Case("more must stay than there are", PodDisruptionBudgetSpec(min_available=9), PODS, 9, 0),
    Case(
        "a share must stay of what owners want, rounded up", PodDisruptionBudgetSpec(min_available="30%"), SCALE, 3, 2
    ),
    Case("a number may go of what owners want", PodDisruptionBudgetSpec(max_unavailable=5), SCALE, 3, 2),
    Case("a share may go, rounded up", PodDisruptionBudgetSpec(max_unavailable="30%"), SCALE, 5, 0),
    Case("more may go than owners want", PodDisruptionBudgetSpec(max_unavailable=9), SCALE, 0, 5),
    Case("nothing is said", PodDisruptionBudgetSpec(), PODS, 0, 5),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_how_many_must_stay_and_may_go(case: Case) -> None:
    expected, desired = expected_and_desired(case.spec, PODS, lambda: SCALE)
    assert (expected, desired) == (case.expected, case.desired)
    assert disruptions_allowed(PODS, expected, desired) == case.allowed


def test_no_pod_may_be_evicted_where_no_pods_are_expected() -> None:
    assert disruptions_allowed(PODS, 0, 0) == 0


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        pytest.param(None, False, id="no selector chooses nobody"),
        pytest.param(LabelSelector(), True, id="an empty one chooses everybody"),
        pytest.param(LabelSelector(match_labels={"app": "web"}), True, id="by a label"),
        pytest.param(LabelSelector(match_labels={"app": "db"}), False, id="by another label"),
        pytest.param(
            LabelSelector(match_expressions=[LabelSelectorRequirement(key="app", operator="NotIn", values=["db"])]),
            True,
            id="by an expression",
        ),
        pytest.param(
            LabelSelector(match_expressions=[LabelSelectorRequirement(key="app", operator="Near")]),
            False,
            id="one that cannot be understood chooses nobody",
        ),
    ],
)
def test_which_pods_are_meant(selector: LabelSelector | None, chosen: bool) -> None:
    budget = PodDisruptionBudget(spec=PodDisruptionBudgetSpec(selector=selector))
    pod = Pod(metadata=ObjectMeta(labels={"app": "web"}))
    assert selects(budget, pod) is chosen
    assert selector_of(budget).matches(pod.metadata.labels) is chosen
