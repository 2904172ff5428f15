"""Label keys in pod affinity and topology spread: merged on create, in the order given, and never again (KEP-3633)."""

from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from admission_pods import (
    ON,
    PREFERRED,
    REQUIRED,
    Tree,
    create_problems,
    created,
    pod_of,
    relabelled,
    request,
    update_problems,
)
from mooring.admission.options import AdmissionOptions, for_component
from mooring.admission.pipeline import admit_create, admit_update
from mooring.api import codec
from mooring.api.base import copy_of
from mooring.api.core_v1 import Pod
from mooring.base import component

LABELS = {"app": "web", "tenant": "a", "pod-template-hash": "1f"}
AFFINITY_OFF = replace(ON, label_keys_in_pod_affinity=False)
TERM: Tree = {
    "topologyKey": "zone",
    "labelSelector": {"matchLabels": {"tier": "front"}},
    "matchLabelKeys": ["pod-template-hash", "absent", "app"],
    "mismatchLabelKeys": ["tenant", "missing"],
}
MERGED = [
    {"key": "pod-template-hash", "operator": "In", "values": ["1f"]},
    {"key": "app", "operator": "In", "values": ["web"]},
    {"key": "tenant", "operator": "NotIn", "values": ["a"]},
]


def affinity(place: str, strength: str, term: Tree) -> Tree:
    item = term if strength == REQUIRED else {"weight": 1, "podAffinityTerm": term}
    return {"affinity": {place: {strength: [item]}}}


def term_of(pod: Pod, place: str, strength: str) -> Tree:
    item = codec.to_tree(pod)["spec"]["affinity"][place][strength][0]
    found: Tree = item if strength == REQUIRED else item["podAffinityTerm"]
    return found


@pytest.mark.parametrize("place", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("strength", [REQUIRED, PREFERRED])
@pytest.mark.req("3633.1")
def test_keys_are_merged_as_in_then_not_in_and_absent_labels_skipped(place: str, strength: str) -> None:
    pod = created(pod_of(affinity(place, strength, TERM), {"labels": LABELS}))
    term = term_of(pod, place, strength)
    assert term["labelSelector"] == {"matchLabels": {"tier": "front"}, "matchExpressions": MERGED}
    assert (term["matchLabelKeys"], term["mismatchLabelKeys"]) == (TERM["matchLabelKeys"], TERM["mismatchLabelKeys"])


@dataclass(frozen=True)
class Wrong:
    name: str
    term: Tree
    problem: str


@pytest.mark.parametrize(
    "case",
    [
        Wrong(
            "keys without a selector",
            {"topologyKey": "z", "mismatchLabelKeys": ["tenant"]},
            ".mismatchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
        ),
        Wrong(
            "a key in both lists",
            {"topologyKey": "z", "labelSelector": {}, "matchLabelKeys": ["no"], "mismatchLabelKeys": ["no"]},
            '.matchLabelKeys[0]: Invalid value: "no": exists in both matchLabelKeys and mismatchLabelKeys',
        ),
        Wrong(
            "a key that the selector has",
            {"topologyKey": "z", "labelSelector": {"matchLabels": {"app": "x"}}, "matchLabelKeys": ["no", "app"]},
            '[1]: Invalid value: "app": exists in both matchLabelKeys and labelSelector',
        ),
        Wrong(
            "a key that is none",
            {"topologyKey": "z", "labelSelector": {}, "mismatchLabelKeys": ["/x"]},
            '.mismatchLabelKeys[0]: Invalid value: "/x": prefix part must be non-empty',
        ),
    ],
    ids=lambda case: case.name,
)
@pytest.mark.req("3633.2")
def test_wrong_keys_are_refused(case: Wrong) -> None:
    pod = pod_of(affinity("podAffinity", REQUIRED, case.term), {"labels": LABELS})
    assert create_problems(pod) == [f"spec.affinity.podAffinity.{REQUIRED}[0]{case.problem}"]


@pytest.mark.req("3633.3")
def test_an_update_does_not_merge_again() -> None:
    old = created(pod_of(affinity("podAffinity", REQUIRED, TERM), {"labels": LABELS}))
    new = relabelled(old)
    new.metadata.labels["app"] = "other"
    new.metadata.labels["absent"] = "here"
    stored = admit_update(copy_of(new), old, request()).object
    assert term_of(stored, "podAffinity", REQUIRED)["labelSelector"]["matchExpressions"] == MERGED


@pytest.mark.req("3633.1", "3633.4")
def test_with_the_gate_off_the_keys_are_dropped_with_a_warning_and_stored_ones_stay() -> None:
    spec = affinity("podAntiAffinity", PREFERRED, TERM)
    admitted = admit_create(pod_of(spec, {"labels": LABELS}), request(AFFINITY_OFF))
    assert term_of(admitted.object, "podAntiAffinity", PREFERRED) == {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"tier": "front"}},
    }
    assert [warning for warning in admitted.warnings if "MatchLabelKeysInPodAffinity" in warning]
    old = created(pod_of(spec, {"labels": LABELS}))
    stored = admit_update(relabelled(old), old, request(AFFINITY_OFF)).object
    assert stored.spec == old.spec
    assert update_problems(relabelled(old), old, AFFINITY_OFF) == []


@pytest.mark.req("3633.4")
def test_the_gate_can_be_switched_to_and_fro_at_1_32() -> None:
    """The proposal's fifteen steps, as admission sees them: every pod keeps what it was created with."""
    on = for_component(component.resolve(emulation="1.32"))
    off = for_component(component.resolve(emulation="1.32", gates="MatchLabelKeysInPodAffinity=false"))
    spec = affinity("podAffinity", REQUIRED, TERM)
    pods: list[Pod] = []
    for options, merged in ((off, []), (on, MERGED), (off, []), (on, MERGED)):
        for pod in pods:
            assert admit_update(copy_of(pod), pod, request(options)).object.spec == pod.spec
        pods.append(created(pod_of(spec, {"labels": LABELS}), options))
        selector = term_of(pods[-1], "podAffinity", REQUIRED)["labelSelector"]
        assert selector.get("matchExpressions", []) == merged


# -- topology spread constraints


def spread(**fields: Any) -> Tree:
    return {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}
        ]
    }


@pytest.mark.parametrize(
    ("emulation", "merged"), [("1.33", []), ("1.34", [{"key": "app", "operator": "In", "values": ["web"]}])]
)
@pytest.mark.req("3633.6")
def test_keys_of_spread_constraints_are_merged_from_1_34_on(emulation: str, merged: list[Tree]) -> None:
    options = for_component(component.resolve(emulation=emulation))
    pod = created(pod_of(spread(labelSelector={}, matchLabelKeys=["app", "absent"]), {"labels": LABELS}), options)
    [constraint] = codec.to_tree(pod)["spec"]["topologySpreadConstraints"]
    assert constraint["labelSelector"] == ({"matchExpressions": merged} if merged else {})
    assert constraint["matchLabelKeys"] == ["app", "absent"]


@dataclass(frozen=True)
class Keys:
    name: str
    emulation: str
    constraint: Tree
    problem: str


@pytest.mark.parametrize(
    "case",
    [
        Keys(
            "in the selector, before merging",
            "1.33",
            {"labelSelector": {"matchLabels": {"app": "x"}}, "matchLabelKeys": ["app"]},
            '.matchLabelKeys[0]: Invalid value: "app": exists in both matchLabelKeys and labelSelector',
        ),
        Keys(
            "in the selector, after merging",
            "1.34",
            {"labelSelector": {"matchLabels": {"app": "x"}}, "matchLabelKeys": ["app"]},
            '[0]: Invalid value: "app": exists in both matchLabelKeys and labelSelector',
        ),
        Keys(
            "without a selector, before merging",
            "1.33",
            {"matchLabelKeys": ["app"]},
            ".matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
        ),
        Keys(
            "without a selector, after merging",
            "1.34",
            {"matchLabelKeys": ["app"]},
            ".matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
        ),
    ],
    ids=lambda case: case.name,
)
@pytest.mark.req("3633.6")
def test_wrong_keys_of_spread_constraints_are_refused(case: Keys) -> None:
    options = for_component(component.resolve(emulation=case.emulation))
    pod = pod_of(spread(**case.constraint), {"labels": LABELS})
    assert create_problems(pod, options) == [f"spec.topologySpreadConstraints[0]{case.problem}"]


@pytest.mark.req("3633.6")
def test_a_pod_merged_at_1_34_can_be_updated_at_1_33() -> None:
    old = created(pod_of(spread(labelSelector={}, matchLabelKeys=["app"]), {"labels": LABELS}))
    assert update_problems(relabelled(old), old, for_component(component.resolve(emulation="1.33"))) == []


@pytest.mark.parametrize(
    ("options", "gate"),
    [
        (replace(ON, label_keys_in_spread=False), "MatchLabelKeysInPodTopologySpread"),
        (replace(ON, node_inclusion_policy=False), "NodeInclusionPolicyInPodTopologySpread"),
    ],
    ids=["label keys", "node inclusion policies"],
)
def test_spread_fields_behind_a_gate_that_is_off_are_dropped(options: AdmissionOptions, gate: str) -> None:
    spec = spread(labelSelector={}, matchLabelKeys=["app"], nodeAffinityPolicy="Honor", nodeTaintsPolicy="Ignore")
    admitted = admit_create(pod_of(spec, {"labels": LABELS}), request(options))
    [constraint] = codec.to_tree(admitted.object)["spec"]["topologySpreadConstraints"]
    assert ("matchLabelKeys" in constraint) == options.label_keys_in_spread
    assert ("nodeAffinityPolicy" in constraint) == options.node_inclusion_policy
    assert any(gate in warning for warning in admitted.warnings)
    old = created(pod_of(spec, {"labels": LABELS}))
    assert admit_update(relabelled(old), old, request(options)).object.spec == old.spec
