"""Pod-affinity terms: which pods of which namespaces."""

from dataclasses import dataclass

import pytest

from mooring.api.core_v1 import PodAffinityTerm, WeightedPodAffinityTerm
from mooring.api.meta_v1 import LabelSelector, LabelSelectorRequirement
from mooring.constraints.pod_affinity import compile_affinity_term, compile_weighted_term

WEB = LabelSelector(match_labels={"app": "web"})
ALL = LabelSelector()
TEAM = LabelSelector(match_labels={"team": "x"})
NAMESPACES = {"own": {"team": "y"}, "other": {"team": "x"}, "third": {}}


@dataclass(frozen=True)
class Case:
    id: str
    term: PodAffinityTerm
    namespaces: set[str]
    """Where a pod with the label app=web is chosen."""


def term(
    selector: LabelSelector | None, namespaces: tuple[str, ...] = (), by: LabelSelector | None = None
) -> PodAffinityTerm:
    return PodAffinityTerm(
        label_selector=selector, namespaces=list(namespaces), namespace_selector=by, topology_key="zone"
    )


CASES = [
    Case("no namespaces and a null selector mean the pod's own", term(WEB), {"own"}),
    Case("named namespaces", term(WEB, ("other", "third")), {"other", "third"}),
    Case("an empty namespace selector means all", term(WEB, by=ALL), {"own", "other", "third"}),
    Case("a namespace selector chooses by labels, and the own is not added", term(WEB, by=TEAM), {"other"}),
    Case("names and selector are joined", term(WEB, ("third",), TEAM), {"other", "third"}),
    Case("a null label selector chooses no pod", term(None), set()),
    Case("an empty label selector chooses every pod", term(ALL), {"own"}),
    Case("another label", term(LabelSelector(match_labels={"app": "db"})), set()),
    Case(
        "an operator that is none chooses no pod",
        term(LabelSelector(match_expressions=[LabelSelectorRequirement(key="app", operator="Like", values=["w"])])),
        set(),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_namespaces(case: Case) -> None:
    compiled = compile_affinity_term(case.term, "own")
    found = {name for name, labels in NAMESPACES.items() if compiled.matches(name, {"app": "web"}, labels)}
    assert found == case.namespaces


@pytest.mark.req("3633.3")
def test_label_keys_are_not_merged_again() -> None:
    source = term(WEB)
    source.match_label_keys = ["version"]
    source.mismatch_label_keys = ["tenant"]
    assert compile_affinity_term(source, "own") == compile_affinity_term(term(WEB), "own")


def test_terms_that_ask_for_the_same_are_equal() -> None:
    assert compile_affinity_term(term(WEB, ("b", "a")), "x") == compile_affinity_term(term(WEB, ("a", "b", "a")), "y")
    assert len({compile_affinity_term(term(WEB), "x"), compile_affinity_term(term(WEB), "y")}) == 2


def test_a_weight_goes_with_its_term() -> None:
    weighted = compile_weighted_term(WeightedPodAffinityTerm(weight=7, pod_affinity_term=term(WEB)), "own")
    assert (weighted.weight, weighted.term.topology_key) == (7, "zone")
