"""PersistentVolumes: sources, capacity, node affinity by the gates, and what cannot be changed."""

from typing import Any

import pytest
from msgspec.structs import replace

from admission_kinds import ABSENT, Create, Update, example, stored
from admission_pods import OFF, ON, Tree, only, relabelled, request, update_problems, without
from mooring.admission.pipeline import admit_create, admit_update
from mooring.api.base import copy_of

TERMS = "spec.nodeAffinity.required.nodeSelectorTerms[0]"


def affinity(**term: Any) -> Tree:
    return {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}}


def requirement(operator: str, *values: str, key: str = "k") -> Tree:
    return affinity(matchExpressions=[{"key": key, "operator": operator, "values": list(values)}])


def spec(**fields: Any) -> Tree:
    return {"spec": fields}


CSI: Tree = {"hostPath": ABSENT, "csi": {"driver": "csi.example.com", "volumeHandle": "v"}}
CREATES = [
    Create("no access mode", "PersistentVolume", spec(accessModes=[]), ["spec.accessModes: Required value"]),
    Create(
        "an unknown access mode",
        "PersistentVolume",
        spec(accessModes=["Many"]),
        [
            (
                'spec.accessModes: Unsupported value: "Many": supported values: "ReadOnlyMany", "ReadWriteMany", '
                '"ReadWriteOnce", "ReadWriteOncePod"'
            )
        ],
    ),
    Create(
        "one pod and others",
        "PersistentVolume",
        spec(accessModes=["ReadWriteOncePod", "ReadWriteOnce"]),
        ["spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"],
    ),
    Create(
        "no capacity",
        "PersistentVolume",
        spec(capacity=ABSENT),
        [
            "spec.capacity: Required value",
            'spec.capacity: Unsupported value: null: supported values: "storage"',
        ],
    ),
    Create(
        "another capacity",
        "PersistentVolume",
        spec(capacity={"cpu": "1"}),
        ['spec.capacity: Unsupported value: {"cpu":"1","storage":"1Gi"}: supported values: "storage"'],
    ),
    Create(
        "no room",
        "PersistentVolume",
        spec(capacity={"storage": "0"}),
        ['spec.capacity[storage]: Invalid value: "0": must be greater than zero'],
    ),
    Create(
        "no source", "PersistentVolume", spec(hostPath=ABSENT), ["spec: Required value: must specify a volume type"]
    ),
    Create(
        "two sources",
        "PersistentVolume",
        spec(nfs={"server": "s", "path": "/p"}),
        ["spec.nfs: Forbidden: may not specify more than 1 volume type"],
    ),
    Create(
        "a path that climbs",
        "PersistentVolume",
        spec(hostPath={"path": "/a/../b"}),
        ["spec.hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"],
    ),
    Create(
        "a local volume anywhere",
        "PersistentVolume",
        spec(hostPath=ABSENT, local={"path": "/p"}),
        ["spec.nodeAffinity: Required value: Local volume requires node affinity"],
    ),
    Create(
        "a CSI volume without a name",
        "PersistentVolume",
        spec(hostPath=ABSENT, csi={"driver": "csi.example.com"}),
        ["spec.csi.volumeHandle: Required value"],
    ),
    Create(
        "a secret without a namespace",
        "PersistentVolume",
        spec(**{**CSI, "csi": {**CSI["csi"], "nodePublishSecretRef": {"name": "s"}}}),
        ["spec.csi.nodePublishSecretRef.namespace: Required value"],
    ),
    Create(
        "an unknown policy",
        "PersistentVolume",
        spec(persistentVolumeReclaimPolicy="Keep"),
        [
            (
                'spec.persistentVolumeReclaimPolicy: Unsupported value: "Keep": supported values: "Delete", '
                '"Recycle", "Retain"'
            )
        ],
    ),
    Create(
        "the root recycled",
        "PersistentVolume",
        spec(persistentVolumeReclaimPolicy="Recycle", hostPath={"path": "/"}),
        ["spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"],
    ),
    Create(
        "an unknown mode",
        "PersistentVolume",
        spec(volumeMode="Tape"),
        ['spec.volumeMode: Unsupported value: "Tape": supported values: "Block", "Filesystem"'],
    ),
    Create(
        "attributes without CSI",
        "PersistentVolume",
        spec(volumeAttributesClassName="gold"),
        ["spec.csi: Required value: has to be specified when using volumeAttributesClassName"],
    ),
    Create(
        "an affinity without terms",
        "PersistentVolume",
        spec(nodeAffinity={}),
        ["spec.nodeAffinity.required: Required value: must specify required node constraints"],
    ),
    Create("everything right", "PersistentVolume", spec(**CSI, storageClassName="s")),
]


@pytest.mark.parametrize("case", CREATES, ids=lambda case: case.id)
def test_a_create_is_validated(case: Create) -> None:
    assert case.validate() == case.problems


def test_what_a_volume_gets() -> None:
    made = stored("PersistentVolume")
    assert (made.spec.persistent_volume_reclaim_policy, made.spec.volume_mode) == ("Retain", "Filesystem")
    assert made.spec.host_path.type == ""
    assert made.metadata.finalizers == ["kubernetes.io/pv-protection"]
    assert (made.status.phase, made.status.last_phase_transition_time) == ("Pending", "2026-01-02T03:04:05Z")


# -- node affinity with versions and CEL

VERSION_TERM = requirement("SemverGt", "5.10")
CEL_TERM = affinity(matchCELExpressions=["'k' in node.labels"])
AFFINITIES = [
    Create("a version", "PersistentVolume", VERSION_TERM),
    Create(
        "no version",
        "PersistentVolume",
        requirement("SemverGt", "x"),
        [f'{TERMS}.matchExpressions[0].values[0]: Invalid value: "x": Invalid character(s) found in major number "x"'],
    ),
    Create(
        "two versions",
        "PersistentVolume",
        requirement("SemverEq", "1", "2"),
        [
            (
                f"{TERMS}.matchExpressions[0].values: Required value: must be specified single value when "
                "`operator` is "
                "'SemverLt', 'SemverGt' or 'SemverEq'"
            )
        ],
    ),
    Create("CEL", "PersistentVolume", CEL_TERM),
    Create(
        "CEL that is no question",
        "PersistentVolume",
        affinity(matchCELExpressions=["node.labels['a']"]),
        [
            (
                f"{TERMS}.matchCELExpressions[0]: Invalid value: \"node.labels['a']\": must evaluate to bool or "
                "the unknown "
                "type, not string"
            )
        ],
    ),
    Create(
        "a version in matchFields",
        "PersistentVolume",
        affinity(matchFields=[{"key": "metadata.name", "operator": "SemverGt", "values": ["1"]}]),
        [f'{TERMS}.matchFields[0].operator: Invalid value: "SemverGt": not a valid selector operator'],
    ),
]


@pytest.mark.req("5721.3", "5721.5", "5500.1", "5500.3")
@pytest.mark.parametrize("case", AFFINITIES, ids=lambda case: case.id)
def test_node_affinity_is_validated_as_that_of_pods(case: Create) -> None:
    assert case.validate() == case.problems


GATED = [
    pytest.param(
        VERSION_TERM, "semver_operators", 'Invalid value: "SemverGt": not a valid selector operator', id="semver"
    ),
    pytest.param(
        CEL_TERM,
        "cel",
        "Forbidden: Node Affinity CEL expressions require feature gate TaintTolerationNodeAffinityCEL",
        id="CEL",
    ),
]


@pytest.mark.req("5721.6", "5500.9")
@pytest.mark.parametrize(("term", "gate", "message"), GATED)
def test_a_gate_that_is_off_refuses_new_uses_and_lets_old_ones_be(term: Tree, gate: str, message: str) -> None:
    off = without(gate)
    refused = Create("", "PersistentVolume", term).validate(off)
    assert len(refused) == 1
    assert refused[0].endswith(message)
    using = stored("PersistentVolume", term)
    assert update_problems(relabelled(using), using, off) == []
    first_use = Update("", "PersistentVolume", {}, term).validate(off)
    assert len(first_use) == 1
    assert first_use[0].endswith(message)
    assert Update("", "PersistentVolume", {}, term).validate(only(gate)) == []


@pytest.mark.req("5721.6", "5500.9")
def test_one_gate_does_not_open_another() -> None:
    using = stored("PersistentVolume", VERSION_TERM)
    new = copy_of(using)
    new.spec.node_affinity.required.node_selector_terms[0].match_cel_expressions = ["true"]
    refused = update_problems(new, using, OFF)
    assert [line.rsplit(": ", 1)[0] for line in refused][:1] == [f"{TERMS}.matchCELExpressions[0]: Forbidden"]


# -- changes

UPDATES = [
    Update(
        "another source",
        "PersistentVolume",
        {},
        spec(hostPath={"path": "/y"}),
        ["spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"],
    ),
    Update("more room", "PersistentVolume", {}, spec(capacity={"storage": "2Gi"})),
    Update(
        "another mode",
        "PersistentVolume",
        {},
        spec(volumeMode="Block"),
        ['volumeMode: Invalid value: "Block": field is immutable'],
    ),
    Update("a first affinity", "PersistentVolume", {}, requirement("In", "a")),
    Update(
        "a beta label by its final name",
        "PersistentVolume",
        requirement("In", "a", key="failure-domain.beta.kubernetes.io/zone"),
        requirement("In", "a", key="topology.kubernetes.io/zone"),
    ),
    Update(
        "a secret for growing",
        "PersistentVolume",
        spec(**CSI),
        spec(csi={"controllerExpandSecretRef": {"name": "s", "namespace": "n"}}),
    ),
    Update("another policy", "PersistentVolume", {}, spec(persistentVolumeReclaimPolicy="Delete")),
    Update("bound", "PersistentVolume", {}, spec(claimRef={"name": "c", "namespace": "default"})),
]


@pytest.mark.parametrize("case", UPDATES, ids=lambda case: case.id)
def test_an_update_is_validated(case: Update) -> None:
    assert case.validate() == case.problems


@pytest.mark.req("5500.11")
@pytest.mark.parametrize(
    "change",
    [requirement("In", "b"), requirement("SemverGt", "2"), affinity(matchCELExpressions=["true"])],
    ids=["another value", "another operator", "CEL instead"],
)
def test_an_affinity_stays_unless_a_gate_says_otherwise(change: Tree) -> None:
    case = Update("", "PersistentVolume", requirement("In", "a"), change)
    refused = case.validate()
    assert len(refused) == 1
    assert refused[0].startswith("nodeAffinity: Invalid value: ")
    assert refused[0].endswith(": field is immutable, except for updating from beta label to GA")
    assert case.validate(replace(ON, mutable_pv_node_affinity=True)) == []


def test_a_change_of_phase_is_timed() -> None:
    old = stored("PersistentVolume")
    old.status.last_phase_transition_time = "2020-01-01T00:00:00Z"
    new = copy_of(old)
    new.status.phase = "Available"
    admitted = admit_update(copy_of(new), old, request(), "status").object
    assert admitted.status.last_phase_transition_time == "2026-01-02T03:04:05Z"


def test_old_labels_are_warned_of() -> None:
    asked = request()
    term = requirement("In", "a", key="failure-domain.beta.kubernetes.io/zone")
    admit_create(example("PersistentVolume", term), asked)
    assert asked.warnings == [
        (
            f"{TERMS}.matchExpressions[0].key: failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; "
            'use "topology.kubernetes.io/zone" instead'
        )
    ]
