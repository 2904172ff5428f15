"""Priorities, budgets, quotas, storage, leases, events, roles and reviews."""

from typing import Any

import pytest

from admission_kinds import ABSENT, Create, Update, decoded, example, shortened, stored
from admission_pods import Tree, create_problems, request, update_problems
from mooring.admission.options import for_component
from mooring.admission.pipeline import admit_create
from mooring.admission.strategy import NoCluster, Priority
from mooring.api import errors, names
from mooring.api.autoscaling_v1 import Scale, ScaleSpec
from mooring.api.meta_v1 import ObjectMeta
from mooring.base import component

RESERVED = (
    "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: "
)


def spec(**fields: Any) -> Tree:
    return {"spec": fields}


def named(name: str, **fields: Any) -> Tree:
    return {"metadata": {"name": name}, **fields}


PRIORITIES = [
    Create("the highest", "PriorityClass", {"value": 1_000_000_000}),
    Create(
        "higher than that",
        "PriorityClass",
        {"value": 1_000_000_001},
        ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
    ),
    Create(
        "a system's name",
        "PriorityClass",
        named("system-mine"),
        [f"{RESERVED}system-mine is not a known system priority class"],
    ),
    Create("a system's own", "PriorityClass", named("system-node-critical", value=2000001000)),
    Create(
        "a system's own with another value",
        "PriorityClass",
        named("system-node-critical", value=1),
        [f"{RESERVED}value of system-node-critical PriorityClass must be 2000001000"],
    ),
    Create(
        "an unknown policy",
        "PriorityClass",
        {"preemptionPolicy": "Always"},
        ['preemptionPolicy: Unsupported value: "Always": supported values: "PreemptLowerPriority", "Never"'],
    ),
]
BUDGETS = [
    Create(
        "both limits",
        "PodDisruptionBudget",
        spec(maxUnavailable=1),
        [
            (
                'spec: Invalid value: {"MinAvailable":"50%","Selector":{"matchLabels":{"app":"x"}},"MaxUnavailable":1,'
                '"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set'
            )
        ],
    ),
    Create(
        "more than all",
        "PodDisruptionBudget",
        spec(minAvailable="101%"),
        ['spec.minAvailable: Invalid value: "101%": must not be greater than 100%'],
    ),
    Create(
        "less than none",
        "PodDisruptionBudget",
        spec(minAvailable=-1),
        ["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"],
    ),
    Create(
        "an unknown policy",
        "PodDisruptionBudget",
        spec(unhealthyPodEvictionPolicy="Never"),
        [
            (
                'spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "AlwaysAllow", '
                '"IfHealthyBudget"'
            )
        ],
    ),
]
QUOTAS = [
    Create(
        "an unknown resource",
        "ResourceQuota",
        spec(hard={"apples": "1"}),
        [
            'spec.hard[apples]: Invalid value: "apples": must be a standard resource type or fully qualified',
            'spec.hard[apples]: Invalid value: "apples": must be a standard resource for quota',
        ],
    ),
    Create(
        "half a pod",
        "ResourceQuota",
        spec(hard={"pods": "500m"}),
        ['spec.hard[pods]: Invalid value: "500m": must be an integer'],
    ),
    Create(
        "scopes that exclude each other",
        "ResourceQuota",
        spec(hard={"requests.cpu": ABSENT}, scopes=["BestEffort", "NotBestEffort"]),
        ['spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes'],
    ),
    Create(
        "a scope for other things",
        "ResourceQuota",
        spec(scopes=["BestEffort"]),
        ['spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource'],
    ),
    Create(
        "the least above the most",
        "LimitRange",
        spec(
            limits=[
                {
                    "type": "Container",
                    "min": {"cpu": "2"},
                    "max": {"cpu": "1"},
                    "defaultRequest": {"cpu": "1"},
                    "default": {"cpu": "1"},
                }
            ]
        ),
        [
            (
                'spec.limits[0].defaultRequest[cpu]: Invalid value: "2": min value 2 is greater than default request '
                "value 1"
            ),
            'spec.limits[0].default[cpu]: Invalid value: "2": min value 2 is greater than default value 1',
            'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
        ],
    ),
    Create(
        "defaults for pods",
        "LimitRange",
        spec(limits=[{"type": "Pod", "default": {"cpu": "1"}}]),
        ["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
    ),
    Create(
        "the same type twice",
        "LimitRange",
        spec(limits=[{"type": "Pod"}, {"type": "Pod"}]),
        ['spec.limits[1].type: Duplicate value: "Pod"'],
    ),
]
STORAGE = [
    Create("no provisioner", "StorageClass", {"provisioner": ""}, ["provisioner: Required value"]),
    Create(
        "an unknown binding",
        "StorageClass",
        {"volumeBindingMode": "Later"},
        ['volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"'],
    ),
    Create(
        "recycling",
        "StorageClass",
        {"reclaimPolicy": "Recycle"},
        ['reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"'],
    ),
    Create(
        "a zone twice",
        "StorageClass",
        {"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "a"]}]}]},
        ['allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "a"'],
    ),
    Create(
        "no attributes",
        "VolumeAttributesClass",
        {"parameters": ABSENT},
        ["parameters: Required value: must contain at least one key/value pair"],
    ),
    Create(
        "an unknown policy",
        "CSIDriver",
        spec(fsGroupPolicy="Maybe"),
        ['spec.fsGroupPolicy: Unsupported value: "Maybe": supported values: "File", "None", "ReadWriteOnceWithFSType"'],
    ),
    Create(
        "a node without an id",
        "CSINode",
        spec(drivers=[{"name": "csi.example.com"}]),
        ["spec.drivers[0].nodeID: Required value"],
    ),
    Create(
        "less than no room",
        "CSIStorageCapacity",
        {"capacity": "-1"},
        ['capacity: Invalid value: "-1": must be greater than or equal to 0'],
    ),
    Create(
        "an attachment of nothing",
        "VolumeAttachment",
        spec(source={"persistentVolumeName": ABSENT}),
        ["spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"],
    ),
    Create(
        "an attachment of a directory",
        "VolumeAttachment",
        spec(
            source={
                "persistentVolumeName": ABSENT,
                "inlineVolumeSpec": {"accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}},
            }
        ),
        ["spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes"],
    ),
]
OTHERS = [
    Create(
        "no time at all",
        "Lease",
        spec(leaseDurationSeconds=0),
        ["spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
    ),
    Create(
        "a better holder without a way",
        "Lease",
        spec(preferredHolder="you"),
        ["spec.preferredHolder: Forbidden: can only be set if strategy is not empty"],
    ),
    Create(
        "an event of another namespace",
        "Event",
        {"involvedObject": {"namespace": "other"}},
        ['involvedObject.namespace: Invalid value: "other": does not match event.namespace'],
    ),
    Create(
        "an event that reports itself",
        "Event",
        {"eventTime": "2026-01-01T00:00:00.000000Z"},
        [
            "reportingComponent: Required value",
            'reportingComponent: Invalid value: "": name part must be non-empty',
            f'reportingComponent: Invalid value: "": {names.label_key("")[1]}',
            "reportingInstance: Required value",
            "action: Required value",
        ],
    ),
    Create(
        "no verbs",
        "Role",
        {"rules": [{"apiGroups": [""], "resources": ["pods"]}]},
        ["rules[0].verbs: Required value: verbs must contain at least one value"],
    ),
    Create(
        "paths in a namespace",
        "Role",
        {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
        ['rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs'],
    ),
    Create(
        "no resources",
        "ClusterRole",
        {"rules": [{"verbs": ["get"], "apiGroups": [""]}]},
        ["rules[0].resources: Required value: resource rules must supply at least one resource"],
    ),
    Create("a name with colons", "ClusterRole", named("system:mine")),
    Create(
        "a name with a slash",
        "ClusterRole",
        named("a/b"),
        ["metadata.name: Invalid value: \"a/b\": may not contain '/'"],
    ),
    Create(
        "a role for the cluster",
        "ClusterRoleBinding",
        {"roleRef": {"kind": "Role"}},
        ['roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"'],
    ),
    Create(
        "an account of no namespace",
        "ClusterRoleBinding",
        {"subjects": [{"kind": "ServiceAccount", "name": "a"}]},
        ["subjects[0].namespace: Required value"],
    ),
    Create(
        "a robot",
        "RoleBinding",
        {"subjects": [{"kind": "Robot", "name": "r"}]},
        ['subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"'],
    ),
]


@pytest.mark.parametrize(
    "case", [*PRIORITIES, *BUDGETS, *QUOTAS, *STORAGE, *OTHERS], ids=lambda case: f"{case.kind}: {case.id}"
)
def test_a_create_is_validated(case: Create) -> None:
    assert case.validate() == case.problems


UPDATES = [
    Update("another value", "PriorityClass", {}, {"value": 1}, ["value: Forbidden: may not be changed in an update."]),
    Update(
        "another policy",
        "PriorityClass",
        {},
        {"preemptionPolicy": "Never"},
        ['preemptionPolicy: Invalid value: "Never": field is immutable'],
    ),
    Update("another description", "PriorityClass", {}, {"description": "d"}),
    Update("another budget", "PodDisruptionBudget", {}, spec(minAvailable=1)),
    Update(
        "less than none allowed",
        "PodDisruptionBudget",
        {},
        {"status": {"disruptionsAllowed": -1}},
        ["status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0"],
        subresource="status",
    ),
    Update(
        "other scopes",
        "ResourceQuota",
        {},
        spec(hard={"requests.cpu": ABSENT}, scopes=["BestEffort"]),
        ['spec.scopes: Invalid value: ["BestEffort"]: field is immutable'],
    ),
    Update(
        "other parameters",
        "StorageClass",
        {},
        {"parameters": {"a": "b"}},
        ['parameters: Invalid value: {"a":"b"}: field is immutable'],
    ),
    Update("expansion allowed", "StorageClass", {}, {"allowVolumeExpansion": True}),
    Update(
        "other attributes",
        "VolumeAttributesClass",
        {},
        {"parameters": {"iops": "200"}},
        ["parameters: Forbidden: updates to parameters are forbidden."],
    ),
    Update(
        "another id",
        "CSINode",
        {},
        spec(drivers=[{"name": "csi.example.com", "nodeID": "m"}]),
        [
            (
                "spec.drivers[0]: Invalid value: "
                '{"Name":"csi.example.com","NodeID":"m","TopologyKeys":null,"Allocatable":null}: '
                "field is immutable"
            )
        ],
    ),
    Update(
        "room for fewer",
        "CSINode",
        {},
        spec(drivers=[{"name": "csi.example.com", "nodeID": "n", "allocatable": {"count": 3}}]),
    ),
    Update("another node", "VolumeAttachment", {}, spec(nodeName="m"), ["spec: Invalid value: …: field is immutable"]),
    Update(
        "another role",
        "RoleBinding",
        {},
        {"roleRef": {"name": "edit"}},
        ["roleRef: Invalid value: …: cannot change roleRef"],
    ),
]


@pytest.mark.parametrize("case", UPDATES, ids=lambda case: f"{case.kind}: {case.id}")
def test_an_update_is_validated(case: Update) -> None:
    assert shortened(case.validate(), case.problems) == case.problems


class WithDefaultPriority(NoCluster):
    def default_priority_class(self) -> Priority | None:
        return Priority("present", 1)


def test_one_priority_is_the_default() -> None:
    asked = request(lookups=WithDefaultPriority())
    with pytest.raises(errors.Forbidden) as refusal:
        admit_create(example("PriorityClass", {"globalDefault": True}), asked)
    assert refusal.value.status.message == (
        'priorityclasses.scheduling.k8s.io "x" is forbidden: PriorityClass present is already marked as default. '
        "Only one default can exist"
    )
    again = admit_create(example("PriorityClass", named("present", globalDefault=True)), asked)
    assert again.object.global_default


def test_what_classes_of_storage_get() -> None:
    made = stored("StorageClass")
    assert (made.reclaim_policy, made.volume_binding_mode) == ("Delete", "Immediate")
    driver = stored("CSIDriver").spec
    assert (driver.attach_required, driver.volume_lifecycle_modes) == (True, ["Persistent"])


@pytest.mark.parametrize(
    ("emulation", "compatible", "filled_in"),
    [
        ("1.34", "1.34", None),
        ("1.35", "1.35", None),
        ("1.36", "1.36", None),
        ("1.37", "1.37", False),
        ("1.37", "1.36", False),
        ("1.37", "1.35", None),  # which would lose it
    ],
)
def test_whether_pods_wait_for_a_csi_driver_is_filled_in_where_the_gate_is_on(
    emulation: str, compatible: str, filled_in: bool | None
) -> None:
    """As a kube-apiserver 1.37 with --emulated-version did; it minds no minimum compatibility version."""
    options = for_component(component.resolve(emulation=emulation, min_compatibility=compatible))
    assert stored("CSIDriver", options=options).spec.prevent_pod_scheduling_if_missing is filled_in


def test_what_a_limit_range_gets() -> None:
    item = stored("LimitRange").spec.limits[0]
    assert (str(item.default["cpu"]), str(item.default_request["cpu"])) == ("2", "2")


REVIEWS = [
    ("authorization.k8s.io/v1", "SubjectAccessReview", spec(user="ann", resourceAttributes={"verb": "get"}), []),
    (
        "authorization.k8s.io/v1",
        "SubjectAccessReview",
        spec(resourceAttributes={"verb": "get"}),
        ['spec.user: Invalid value: "": at least one of user or group must be specified'],
    ),
    (
        "authorization.k8s.io/v1",
        "SelfSubjectAccessReview",
        spec(),
        [
            (
                "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or "
                "resourceAttributes must "
                "be specified"
            )
        ],
    ),
    (
        "authorization.k8s.io/v1",
        "LocalSubjectAccessReview",
        spec(user="ann", resourceAttributes={"namespace": "other"}),
        ['spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace'],
    ),
    ("authentication.k8s.io/v1", "TokenReview", spec(), ["spec.token: Required value"]),
    (
        "authentication.k8s.io/v1",
        "TokenRequest",
        spec(expirationSeconds=60),
        ["spec.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes"],
    ),
    ("authentication.k8s.io/v1", "TokenRequest", spec(), []),
]


@pytest.mark.parametrize(("version", "kind", "fields", "problems"), REVIEWS)
def test_a_review_request_is_validated(version: str, kind: str, fields: Tree, problems: list[str]) -> None:
    assert create_problems(decoded({"apiVersion": version, "kind": kind, **fields})) == problems


def test_a_scale_is_not_negative() -> None:
    metadata = ObjectMeta(name="x", namespace="default", resource_version="1")
    old = Scale(metadata=metadata, spec=ScaleSpec(replicas=1))
    assert update_problems(Scale(metadata=metadata, spec=ScaleSpec(replicas=0)), old) == []
    assert update_problems(Scale(metadata=metadata, spec=ScaleSpec(replicas=-1)), old) == [
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0"
    ]
