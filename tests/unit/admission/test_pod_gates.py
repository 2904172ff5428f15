"""The three new gates: on and off, for a create, for an update of what uses the feature already, and for a new use.

Pods here, where only tolerations can be added and gated pods narrowed; templates in test_pod_template_gates.py.
"""

from dataclasses import dataclass

import msgspec
import pytest

from admission_pods import (
    FEATURES,
    OFF,
    Feature,
    Tree,
    create_problems,
    created,
    only,
    pod_of,
    relabelled,
    toleration,
    update_problems,
    without,
)
from mooring.admission.options import for_component
from mooring.api import codec
from mooring.api.base import copy_of
from mooring.api.core_v1 import Pod, PodSpec
from mooring.base import component

# -- pods


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
@pytest.mark.req("5471.3a", "5721.6", "5500.1", "5500.9")
def test_a_new_pod_may_use_it_only_with_its_gate_on(feature: Feature) -> None:
    assert create_problems(pod_of(feature.spec), only(feature.gate)) == []
    [problem] = create_problems(pod_of(feature.spec), without(feature.gate))
    assert "Unsupported value" in problem or "not a valid selector operator" in problem or "feature gate" in problem


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
@pytest.mark.req("5471.3b", "5721.6", "5500.9")
def test_a_pod_that_uses_it_can_be_updated_with_its_gate_off(feature: Feature) -> None:
    old = created(pod_of(feature.spec))
    assert update_problems(relabelled(old), old, without(feature.gate)) == []


@pytest.mark.parametrize("feature", [f for f in FEATURES if f.place == "tolerations"], ids=lambda feature: feature.name)
@pytest.mark.req("5471.3a", "5721.6", "5500.9")
def test_a_pod_that_does_not_use_it_cannot_get_it_with_its_gate_off(feature: Feature) -> None:
    old = created(pod_of())
    new = copy_of(old)
    new.spec.tolerations += pod_of(feature.spec).spec.tolerations
    assert update_problems(new, old, only(feature.gate)) == []
    assert update_problems(new, old, without(feature.gate)) != []


@pytest.mark.parametrize("feature", [f for f in FEATURES if f.place != "tolerations"], ids=lambda feature: feature.name)
@pytest.mark.req("5721.6", "5500.9")
def test_a_gated_pod_that_does_not_use_it_cannot_be_narrowed_by_it_with_its_gate_off(feature: Feature) -> None:
    old = created(pod_of({"schedulingGates": [{"name": "wait"}]}))
    new = copy_of(old)
    new.spec.affinity = pod_of(feature.spec).spec.affinity
    assert update_problems(new, old, only(feature.gate)) == []
    assert update_problems(new, old, without(feature.gate)) != []


@pytest.mark.req("5471.3b", "5721.6", "5500.9")
def test_a_use_of_one_gate_does_not_open_another() -> None:
    old = created(pod_of(toleration(key="k", operator="Gt", value="1")))
    new = copy_of(old)
    new.spec.tolerations += pod_of(toleration(key="k", operator="SemverGt", value="1.2.3")).spec.tolerations
    assert update_problems(new, old, OFF) == [
        'spec.tolerations[3].operator: Unsupported value: "SemverGt": supported values: "Equal", "Exists", "Lt", "Gt"'
    ]


# -- what the gates are read from


@dataclass(frozen=True)
class Versions:
    emulation: str
    min_compatibility: str | None
    gates: str
    allowed: tuple[str, ...]


GATES = ("comparison_operators", "semver_operators", "cel")


@pytest.mark.parametrize(
    "case",
    [
        Versions("1.37", None, "", GATES),
        Versions("1.37", "1.35", "", ("comparison_operators", "cel")),
        Versions("1.37", "1.34", "", ()),
        Versions("1.36", None, "", ()),
        Versions("1.37", None, "TaintTolerationNodeAffinityCEL=false", GATES[:2]),
        Versions("1.37", "1.34", "TaintTolerationComparisonOperators=true", ("comparison_operators",)),
    ],
    ids=str,
)
@pytest.mark.req("4330.7")
def test_the_options_follow_the_gates_and_the_minimum_compatibility_version(case: Versions) -> None:
    resolved = component.resolve(emulation=case.emulation, min_compatibility=case.min_compatibility, gates=case.gates)
    options = for_component(resolved)
    assert tuple(gate for gate in GATES if getattr(options, gate)) == case.allowed


NEW_FIELDS: dict[str, Tree] = {
    "spec.hostnameOverride": {"hostnameOverride": "h"},
    "spec.schedulingGroup": {"schedulingGroup": {"podGroupName": "g"}},
    "spec.securityContext.supplementalGroupsPolicy": {"securityContext": {"supplementalGroupsPolicy": "Merge"}},
    "spec.containers[0].restartPolicyRules": {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "restartPolicy": "Never",
                "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
            }
        ]
    },
    "spec.volumes[0].image": {"volumes": [{"name": "v", "image": {"reference": "i"}}]},
    "spec.containers[0].lifecycle.stopSignal": {
        "os": {"name": "linux"},
        "containers": [{"name": "c", "image": "i", "lifecycle": {"stopSignal": "SIGTERM"}}],
    },
    "spec.containers[0].env[0].valueFrom.fileKeyRef": {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [
            {
                "name": "c",
                "image": "i",
                "env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "f", "key": "K"}}}],
            }
        ],
    },
}


@pytest.mark.req("4330.7")
def test_a_field_of_this_release_may_be_written_once_no_older_one_is_in_question() -> None:
    spec: Tree = {"evictionResponders": [{"name": "example.com/r", "priority": 1}]}
    assert len(create_problems(pod_of(spec), for_component(component.resolve()))) == 1
    assert create_problems(pod_of(spec), for_component(component.resolve(min_compatibility="1.37"))) == []


@pytest.mark.parametrize(("emulation", "kept"), [("1.34", False), ("1.35", True), ("1.37", True)])
@pytest.mark.req("4330.2", "U.7")
def test_a_field_behind_a_gate_that_is_off_in_the_emulated_release_is_dropped_but_what_is_stored_stays(
    emulation: str, kept: bool
) -> None:
    options = for_component(component.resolve(emulation=emulation, min_compatibility=emulation))
    rules: Tree = {"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]}
    spec: Tree = {"containers": [{"name": "c", "image": "i", "restartPolicy": "Never", **rules}]}
    new, old = pod_of(spec), created(pod_of(spec))
    if options.release_fields:
        options.release_fields.reset_disabled(new, None)
        options.release_fields.reset_disabled(old, old)
    assert bool(new.spec.containers[0].restart_policy_rules) == kept
    assert old.spec.containers[0].restart_policy_rules


@pytest.mark.parametrize("path", NEW_FIELDS)
@pytest.mark.req("4330.7")
def test_a_field_newer_than_the_minimum_compatibility_version_may_stay_but_not_come(path: str) -> None:
    old_server = for_component(component.resolve(min_compatibility="1.30"))
    spec = NEW_FIELDS[path]
    problems = create_problems(pod_of(spec), old_server)
    detail = "Forbidden: may not be set while the minimum compatibility version is older than the field"
    assert f"{path}: {detail}" in problems
    old = created(pod_of(spec))
    assert not [problem for problem in update_problems(relabelled(old), old, old_server) if detail in problem]


@pytest.mark.parametrize(
    ("spec", "since"),
    [
        ({"containers": [{"name": "c", "image": "i", "env": [{"name": "a b", "value": "1"}]}]}, "1.32"),
        ({"dnsConfig": {"searches": ["_sip.example.com"]}}, "1.33"),
        ({"dnsConfig": {"searches": ["."]}}, "1.33"),
        ({"containers": [{"name": "c", "image": "i", "restartPolicy": "Always"}]}, "1.34"),
    ],
    ids=["any printable name of a variable", "underscores in a search domain", "a dot", "a policy for one container"],
)
@pytest.mark.req("4330.7")
def test_what_a_version_relaxed_may_be_written_from_that_minimum_compatibility_version_on(
    spec: Tree, since: str
) -> None:
    major, minor = map(int, since.split("."))
    before = for_component(component.resolve(min_compatibility=f"{major}.{minor - 1}"))
    assert create_problems(pod_of(spec), before) != []
    assert create_problems(pod_of(spec), for_component(component.resolve(min_compatibility=since))) == []
    old: Pod = created(pod_of(spec))
    assert update_problems(relabelled(old), old, before) == []


@pytest.mark.req("5500.10")
@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"a": "b"}, "matchCELExpressions": ["true"]},
        {
            "affinity": {
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "z", "matchCELExpressions": ["true"]}
                    ]
                }
            }
        },
    ],
    ids=["beside nodeSelector", "in a pod affinity term"],
)
def test_cel_has_no_place_outside_node_selector_terms(spec: Tree) -> None:
    with pytest.raises(codec.DecodeError, match="unknown field"):
        codec.decode(msgspec.json.encode({"containers": [], **spec}), PodSpec)
