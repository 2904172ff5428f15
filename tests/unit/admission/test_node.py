"""Nodes: taints, the time they were added, and what cannot be changed."""

from datetime import timedelta

import pytest
from msgspec import structs

from admission_kinds import Create, Update, decoded, example, merged, stored
from admission_pods import NOW, Tree, request
from mooring.admission.pipeline import admit_update
from mooring.api import codec
from mooring.api.core_v1 import Taint

LABEL_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def taints(*given: Tree) -> Tree:
    return {"spec": {"taints": list(given)}}


CREATES = [
    Create("a taint without a value", "Node", taints({"key": "a", "effect": "NoSchedule"})),
    Create(
        "no key",
        "Node",
        taints({"effect": "NoSchedule"}),
        [
            'metadata.taints[0].key: Invalid value: "": name part must be non-empty',
            f'metadata.taints[0].key: Invalid value: "": {LABEL_NAME}',
        ],
    ),
    Create("no effect", "Node", taints({"key": "a"}), ["metadata.taints[0].effect: Required value"]),
    Create(
        "an effect of devices",
        "Node",
        taints({"key": "a", "effect": "None"}),
        [
            (
                'metadata.taints[0].effect: Unsupported value: "None": supported values: "NoSchedule", '
                '"PreferNoSchedule", '
                '"NoExecute"'
            )
        ],
    ),
    Create(
        "the same key and effect twice",
        "Node",
        taints({"key": "a", "value": "1", "effect": "NoExecute"}, {"key": "a", "effect": "NoExecute"}),
        [
            (
                'metadata.taints[1]: Duplicate value: {"Key":"a","Value":"","Effect":"NoExecute","TimeAdded":null}: '
                "taints must be unique by key and effect pair"
            )
        ],
    ),
    Create(
        "the same key with another effect",
        "Node",
        taints({"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoSchedule"}),
    ),
    Create(
        "less than nothing",
        "Node",
        {"status": {"capacity": {"cpu": "-1"}}},
        [
            'status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0',
            'status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0',
        ],
    ),
    Create(
        "half a device",
        "Node",
        {"status": {"capacity": {"example.com/gpu": "500m"}}},
        [
            'status.capacity.example.com/gpu: Invalid value: "500m": must be an integer',
            'status.allocatable.example.com/gpu: Invalid value: "500m": must be an integer',
        ],
    ),
    Create(
        "two ranges of one family",
        "Node",
        {"spec": {"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}},
        [
            (
                'spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one CIDR for '
                "each IP family"
            )
        ],
    ),
    Create(
        "no range at all",
        "Node",
        {"spec": {"podCIDR": "x"}},
        ['spec.podCIDRs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)'],
    ),
]


@pytest.mark.parametrize("case", CREATES, ids=lambda case: case.id)
def test_a_create_is_refused_for(case: Create) -> None:
    assert case.validate() == case.problems


@pytest.mark.req("5471.5")
@pytest.mark.parametrize("value", ["950", "0950", "95.5", "not-a-number", "99999999999999999999999", "v1.2.3-rc.1", ""])
def test_a_taint_may_have_any_value_that_a_label_may_have(value: str) -> None:
    assert Create("", "Node", taints({"key": "a", "value": value, "effect": "NoSchedule"})).validate() == []


def test_a_new_node_is_not_ready() -> None:
    node = stored("Node")
    assert [(taint.key, taint.effect) for taint in node.spec.taints] == [
        ("a", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoSchedule"),
    ]
    again = stored("Node", taints({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}))
    assert len(again.spec.taints) == 1


def test_a_node_brings_its_status_and_its_capacity_is_what_can_be_used() -> None:
    node = stored("Node", {"status": {"capacity": {"cpu": "4"}}, "spec": {"podCIDR": "10.0.0.0/24"}})
    assert str(node.status.allocatable["cpu"]) == "4"
    assert node.spec.pod_cidrs == ["10.0.0.0/24"]


SET = {"podCIDR": "10.0.0.0/24", "providerID": "cloud://1"}
UPDATES = [
    Update(
        "another range",
        "Node",
        {"spec": SET},
        {"spec": {"podCIDR": "10.0.1.0/24"}},
        ['spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid'],
    ),
    Update("a first range", "Node", {}, {"spec": SET}),
    Update(
        "another provider",
        "Node",
        {"spec": SET},
        {"spec": {"providerID": "cloud://2"}},
        ["spec.providerID: Invalid value: null: field cannot be modified once set"],
    ),
    Update("cordoned", "Node", {"spec": SET}, {"spec": {"unschedulable": True}}),
    Update(
        "a wrong taint",
        "Node",
        {},
        taints({"key": "a", "effect": "X"}),
        [
            (
                'metadata.taints[0].effect: Unsupported value: "X": supported values: "NoSchedule", '
                '"PreferNoSchedule", '
                '"NoExecute"'
            )
        ],
    ),
    Update(
        "an address twice",
        "Node",
        {},
        {"status": {"addresses": [{"type": "InternalIP", "address": "1.1.1.1"}] * 2}},
        ['status.addresses[1]: Duplicate value: {"Type":"InternalIP","Address":"1.1.1.1"}'],
        subresource="status",
    ),
]


@pytest.mark.parametrize("case", UPDATES, ids=lambda case: case.id)
def test_an_update_is_refused_for(case: Update) -> None:
    assert case.validate() == case.problems


# -- settled questions 9 and 22: since when a taint is there

EARLY = "2026-01-01T00:00:00Z"
GIVEN = "2026-01-01T12:00:00Z"
CHANGED = (NOW + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


def after_update(old: Tree, new: Tree) -> Taint:
    """Return the first taint of a node after an update an hour later."""
    node = stored("Node", taints(old)) if old else stored("Node", taints())
    changed = decoded(merged(codec.to_tree(node), taints(new)))
    admitted = admit_update(changed, node, structs.replace(request(), now=NOW + timedelta(hours=1))).object
    first: Taint = admitted.spec.taints[0]
    return first


@pytest.mark.req("5500.2")
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({}, {"key": "a", "effect": "NoExecute"}, CHANGED),
        ({}, {"key": "a", "effect": "NoSchedule"}, None),
        ({}, {"key": "a", "effect": "NoExecute", "timeAdded": EARLY}, EARLY),
        (
            {"key": "a", "value": "1", "effect": "NoExecute", "timeAdded": EARLY},
            {"key": "a", "value": "2", "effect": "NoExecute"},
            CHANGED,
        ),
        (
            {"key": "a", "value": "1", "effect": "NoExecute", "timeAdded": EARLY},
            {"key": "a", "value": "1", "effect": "NoExecute"},
            EARLY,
        ),
        (
            {"key": "a", "value": "1", "effect": "NoExecute", "timeAdded": EARLY},
            {"key": "a", "value": "2", "effect": "NoExecute", "timeAdded": EARLY},
            CHANGED,
        ),
        (
            {"key": "a", "value": "1", "effect": "NoExecute", "timeAdded": EARLY},
            {"key": "a", "value": "2", "effect": "NoExecute", "timeAdded": "2026-01-01T01:00:00+01:00"},
            CHANGED,
        ),
        (
            {"key": "a", "value": "1", "effect": "NoExecute", "timeAdded": EARLY},
            {"key": "a", "value": "2", "effect": "NoExecute", "timeAdded": GIVEN},
            GIVEN,
        ),
        (
            {"key": "a", "value": "1", "effect": "NoExecute", "timeAdded": EARLY},
            {"key": "a", "value": "1", "effect": "NoExecute", "timeAdded": EARLY},
            EARLY,
        ),
        (
            {"key": "a", "value": "1", "effect": "NoSchedule", "timeAdded": EARLY},
            {"key": "a", "value": "1", "effect": "NoExecute", "timeAdded": EARLY},
            CHANGED,
        ),
        (
            {"key": "a", "value": "1", "effect": "NoExecute", "timeAdded": EARLY},
            {"key": "a", "value": "1", "effect": "NoSchedule", "timeAdded": EARLY},
            None,
        ),
        (
            {"key": "a", "value": "1", "effect": "NoExecute", "timeAdded": EARLY},
            {"key": "b", "value": "1", "effect": "NoExecute", "timeAdded": EARLY},
            EARLY,
        ),
    ],
    ids=[
        "a NoExecute taint that is added gets the time",
        "a NoSchedule taint does not",
        "a time that the client gave stays",
        "another value starts anew",
        "an unchanged taint keeps its time",
        "the old time sent back with another value is none",
        "the old time in other words is none",
        "a new time that the client gave stays with another value too",
        "an unchanged taint that is sent back keeps its time",
        "the old time sent back with another effect is none",
        "the old time sent back does not date a NoSchedule taint",
        "the time of another taint is a time",
    ],
)
def test_the_time_of_a_taint(old: Tree, new: Tree, expected: str | None) -> None:
    assert after_update(old, new).time_added == expected


def test_old_fields_are_warned_of() -> None:
    asked = request()
    admit_update(
        example("Node", {"metadata": {"resourceVersion": "1"}, "spec": {"externalID": "e"}}),
        stored("Node", {"spec": {"externalID": "e"}}),
        asked,
    )
    assert asked.warnings == ["spec.externalID: this field is deprecated, and is unused by Kubernetes"]
