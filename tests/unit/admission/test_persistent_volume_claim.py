"""PersistentVolumeClaims: what they ask for, the default class, and growing."""

from typing import Any

import pytest

from admission_kinds import ABSENT, Create, Update, example, stored
from admission_pods import Tree, request
from mooring.admission.pipeline import admit_create
from mooring.admission.strategy import NoCluster

FIXED = (
    "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for "
    "bound claims"
)
BOUND: Tree = {"phase": "Bound", "capacity": {"storage": "1Gi"}}


def spec(**fields: Any) -> Tree:
    return {"spec": fields}


def storage(size: str) -> Tree:
    return spec(resources={"requests": {"storage": size}})


SNAPSHOT: Tree = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
CREATES = [
    Create(
        "no access mode",
        "PersistentVolumeClaim",
        spec(accessModes=[]),
        ["spec.accessModes: Required value: at least 1 access mode is required"],
    ),
    Create("no size", "PersistentVolumeClaim", spec(resources=ABSENT), ["spec.resources[storage]: Required value"]),
    Create(
        "nothing at all",
        "PersistentVolumeClaim",
        storage("0"),
        ['spec.resources[storage]: Invalid value: "0": must be greater than zero'],
    ),
    Create(
        "a class with a capital",
        "PersistentVolumeClaim",
        spec(storageClassName="X"),
        [
            (
                'spec.storageClassName: Invalid value: "X": a lowercase RFC 1123 subdomain must consist of lower case '
                "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character "
                "(e.g. 'example.com', "
                "regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            )
        ],
    ),
    Create("a snapshot", "PersistentVolumeClaim", spec(dataSource=SNAPSHOT)),
    Create(
        "two different sources",
        "PersistentVolumeClaim",
        spec(dataSource=SNAPSHOT, dataSourceRef={**SNAPSHOT, "name": "t"}),
        ['spec: Invalid value: "spec.dataSource": must match dataSourceRef'],
    ),
    Create(
        "a source of no group",
        "PersistentVolumeClaim",
        spec(dataSourceRef={"kind": "Pod", "name": "p"}),
        [
            (
                "spec.dataSource: Invalid value: \"Pod\": must be 'PersistentVolumeClaim' when referencing the "
                "default apiGroup"
            ),
            (
                "spec.dataSourceRef: Invalid value: \"Pod\": must be 'PersistentVolumeClaim' when referencing "
                "the default "
                "apiGroup"
            ),
        ],
    ),
]


@pytest.mark.parametrize("case", CREATES, ids=lambda case: case.id)
def test_a_create_is_validated(case: Create) -> None:
    assert case.validate() == case.problems


NOT_EXPANDABLE = (
    'persistentvolumeclaims "x" is forbidden: only dynamically provisioned pvc can be resized and '
    "the storageclass that provisions the pvc must support resize"
)
UPDATES = [
    Update("another access mode", "PersistentVolumeClaim", {}, spec(accessModes=["ReadOnlyMany"]), [FIXED]),
    Update("a volume", "PersistentVolumeClaim", {}, spec(volumeName="pv")),
    Update("another volume", "PersistentVolumeClaim", spec(volumeName="pv"), spec(volumeName="other"), [FIXED]),
    Update("larger while pending", "PersistentVolumeClaim", {}, storage("2Gi"), [FIXED]),
    Update(
        "larger when bound",
        "PersistentVolumeClaim",
        spec(storageClassName="s"),
        storage("2Gi"),
        status=BOUND,
    ),
    Update("larger without a class", "PersistentVolumeClaim", {}, storage("2Gi"), [NOT_EXPANDABLE], status=BOUND),
    Update(
        "smaller than it is",
        "PersistentVolumeClaim",
        {},
        storage("512Mi"),
        ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"],
        status=BOUND,
    ),
    Update(
        "less than was asked for, but more than it is",
        "PersistentVolumeClaim",
        storage("4Gi"),
        storage("2Gi"),
        status=BOUND,
    ),
    Update("the default class at last", "PersistentVolumeClaim", {}, spec(storageClassName="s")),
    Update("another class", "PersistentVolumeClaim", spec(storageClassName="s"), spec(storageClassName="t"), [FIXED]),
    Update("attributes too early", "PersistentVolumeClaim", {}, spec(volumeAttributesClassName="gold"), [FIXED]),
    Update("other attributes", "PersistentVolumeClaim", {}, spec(volumeAttributesClassName="gold"), status=BOUND),
    Update(
        "no attributes any more",
        "PersistentVolumeClaim",
        spec(volumeAttributesClassName="gold"),
        spec(volumeAttributesClassName=ABSENT),
        [
            (
                "spec.volumeAttributesClassName: Forbidden: update to nil is forbidden when "
                "status.currentVolumeAttributesClassName is not nil"
            )
        ],
        status={**BOUND, "currentVolumeAttributesClassName": "gold"},
    ),
]


@pytest.mark.parametrize("case", UPDATES, ids=lambda case: case.id)
def test_an_update_is_validated(case: Update) -> None:
    assert case.validate() == case.problems


class WithDefaultClass(NoCluster):
    def default_storage_class(self) -> str | None:
        return "standard"


@pytest.mark.parametrize(
    ("change", "expected"),
    [({}, "standard"), (spec(storageClassName=""), ""), (spec(storageClassName="mine"), "mine")],
    ids=["the default", "none on purpose", "one's own"],
)
def test_the_class_of_a_new_claim(change: Tree, expected: str) -> None:
    made = admit_create(example("PersistentVolumeClaim", change), request(lookups=WithDefaultClass())).object
    assert made.spec.storage_class_name == expected


def test_what_a_claim_gets() -> None:
    made = stored("PersistentVolumeClaim", spec(dataSource=SNAPSHOT))
    assert made.spec.volume_mode == "Filesystem"
    assert made.spec.data_source_ref.name == "s"
    assert made.status.phase == "Pending"
    assert made.metadata.finalizers == ["kubernetes.io/pvc-protection"]
