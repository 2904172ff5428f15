"""Deployments, ReplicaSets, StatefulSets, DaemonSets and their like: defaults, selectors, and what may change."""

from typing import Any

import pytest

from admission_kinds import ABSENT, Create, Update, stored
from admission_pods import Tree
from mooring.admission.options import for_component
from mooring.base import component

LABELS = "spec.template.metadata.labels: Invalid value: "
DIFFER = ": `selector` does not match template `labels`"
WORKLOADS = ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"]
EMPTY: Tree = {"spec": {"selector": {"matchLabels": ABSENT}}}
SHOWN_EMPTY = "spec.selector: Invalid value: {}: empty selector is invalid for "


def spec(**fields: Any) -> Tree:
    return {"spec": fields}


def pod(**fields: Any) -> Tree:
    return spec(template={"spec": fields})


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_selector_must_choose_the_pods_of_the_template(kind: str) -> None:
    change = spec(template={"metadata": {"labels": {"app": "y"}}})
    assert Create("", kind, change).validate() == [f'{LABELS}{{"app":"y"}}{DIFFER}']


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_a_selector_must_be_given(kind: str) -> None:
    refused = Create("", kind, spec(selector=ABSENT)).validate()
    assert refused == ["spec.selector: Required value", f'{LABELS}{{"app":"x"}}{DIFFER}']


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_selector_cannot_be_changed(kind: str) -> None:
    change = spec(selector={"matchLabels": {"tier": "x"}}, template={"metadata": {"labels": {"tier": "x"}}})
    refused = Update("", kind, {}, change).validate()
    assert len(refused) == 1
    assert refused[0].startswith(("spec.selector: Invalid value: ", "spec: Forbidden: updates to statefulset spec"))


@pytest.mark.parametrize("kind", [*WORKLOADS, "ReplicationController"])
def test_pods_of_a_workload_run_for_ever(kind: str) -> None:
    refused = Create("", kind, pod(restartPolicy="Never", activeDeadlineSeconds=5)).validate()
    called = "ReplicaSet" if kind == "Deployment" else kind
    assert refused == [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
        f"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in {called} is not Supported",
    ]


@pytest.mark.parametrize("kind", [*WORKLOADS, "ReplicationController"])
def test_templates_get_the_defaults_of_pods_and_no_tolerations(kind: str) -> None:
    template = stored(kind).spec.template
    assert template.spec.restart_policy == "Always"
    assert template.spec.containers[0].image_pull_policy == "Always"
    assert template.spec.tolerations == []


CREATES = [
    Create("an empty selector", "Deployment", EMPTY, [f"{SHOWN_EMPTY}deployment"]),
    Create("an empty selector", "StatefulSet", EMPTY, [f"{SHOWN_EMPTY}statefulset"]),
    Create("an empty selector", "DaemonSet", EMPTY, [f"{SHOWN_EMPTY}daemonset"]),
    Create(
        "less than no replicas",
        "Deployment",
        spec(replicas=-1),
        ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
    ),
    Create(
        "no progress and no surge",
        "Deployment",
        spec(strategy={"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "0%"}}),
        ["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
    ),
    Create(
        "more than all",
        "Deployment",
        spec(strategy={"rollingUpdate": {"maxUnavailable": "101%"}}),
        ['spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%'],
    ),
    Create(
        "no percentage",
        "Deployment",
        spec(strategy={"rollingUpdate": {"maxSurge": "many"}}),
        [
            (
                'spec.strategy.rollingUpdate.maxSurge: Invalid value: "many": a valid percent string must be a '
                "numeric string "
                "followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            )
        ],
    ),
    Create(
        "a pace for recreation",
        "Deployment",
        spec(strategy={"type": "Recreate", "rollingUpdate": {}}),
        ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
    ),
    Create(
        "an unknown strategy",
        "Deployment",
        spec(strategy={"type": "Magic"}),
        [
            (
                'spec.strategy: Unsupported value: {"Type":"Magic","RollingUpdate":null}: supported values: '
                '"Recreate", '
                '"RollingUpdate"'
            )
        ],
    ),
    Create(
        "a deadline before a pod can be ready",
        "Deployment",
        spec(progressDeadlineSeconds=5, minReadySeconds=5),
        ["spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"],
    ),
    Create(
        "an unknown policy",
        "StatefulSet",
        spec(podManagementPolicy="Random"),
        ["spec.podManagementPolicy: Invalid value: \"Random\": must be 'OrderedReady' or 'Parallel'"],
    ),
    Create(
        "an unknown retention",
        "StatefulSet",
        spec(persistentVolumeClaimRetentionPolicy={"whenScaled": "Keep"}),
        [
            (
                'spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Keep": supported '
                'values: "Retain", '
                '"Delete"'
            )
        ],
    ),
    Create(
        "a negative ordinal",
        "StatefulSet",
        spec(ordinals={"start": -1}),
        ["spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0"],
    ),
    Create(
        "a mount of a claim template",
        "StatefulSet",
        {
            "spec": {
                "volumeClaimTemplates": [
                    {
                        "metadata": {"name": "data"},
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                    }
                ],
                "template": {
                    "spec": {
                        "containers": [
                            {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
                        ]
                    }
                },
            }
        },
    ),
    Create(
        "a mount of nothing",
        "StatefulSet",
        pod(containers=[{"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]),
        ['spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"'],
    ),
    Create(
        "both at once",
        "DaemonSet",
        spec(updateStrategy={"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}),
        [
            (
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is "
                "non-zero"
            )
        ],
    ),
    Create(
        "neither",
        "DaemonSet",
        spec(updateStrategy={"rollingUpdate": {"maxUnavailable": 0}}),
        ["spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"],
    ),
    Create("no template", "ReplicationController", spec(template=ABSENT), ["spec.template: Required value"]),
    Create("no data", "ControllerRevision", {"data": ABSENT}, ["data: Required value: data is mandatory"]),
    Create(
        "a wrong toleration",
        "PodTemplate",
        {"template": {"spec": {"tolerations": [{"key": "a", "operator": "Gt", "value": "01"}]}}},
        ['template.spec.tolerations[0].value: Invalid value: "01": must be a valid decimal integer in canonical form'],
    ),
]


@pytest.mark.parametrize("case", CREATES, ids=lambda case: f"{case.kind}: {case.id}")
def test_a_create_is_validated(case: Create) -> None:
    assert case.validate() == case.problems


UPDATES = [
    Update("another image", "Deployment", {}, pod(containers=[{"name": "c", "image": "j"}])),
    Update("scaled", "StatefulSet", {}, spec(replicas=3)),
    Update(
        "another service",
        "StatefulSet",
        {},
        spec(serviceName="t"),
        ['spec.serviceName: Invalid value: "t": field is immutable'],
    ),
    Update(
        "more ready than there are",
        "Deployment",
        {},
        {"status": {"replicas": 1, "readyReplicas": 2}},
        ["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"],
        subresource="status",
    ),
    Update(
        "fewer collisions",
        "Deployment",
        {},
        {"status": {"collisionCount": 1}},
        ["status.collisionCount: Invalid value: 1: cannot be decremented"],
        status={"collisionCount": 2},
        subresource="status",
    ),
    Update(
        "more available than ready",
        "ReplicaSet",
        {},
        {"status": {"replicas": 2, "availableReplicas": 1}},
        ["status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas"],
        subresource="status",
    ),
    Update(
        "less than none",
        "DaemonSet",
        {},
        {"status": {"numberReady": -1}},
        ["status.numberReady: Invalid value: -1: must be greater than or equal to 0"],
        subresource="status",
    ),
    Update(
        "other data",
        "ControllerRevision",
        {},
        {"data": {"spec": {"a": 1}}},
        ['data: Invalid value: {"spec":{"a":1}}: field is immutable'],
    ),
]


@pytest.mark.parametrize("case", UPDATES, ids=lambda case: f"{case.kind}: {case.id}")
def test_an_update_is_validated(case: Update) -> None:
    assert case.validate() == case.problems


def test_what_a_deployment_gets() -> None:
    made = stored("Deployment").spec
    assert (made.replicas, made.revision_history_limit, made.progress_deadline_seconds) == (1, 10, 600)
    assert made.strategy.type == "RollingUpdate"
    assert (made.strategy.rolling_update.max_unavailable, made.strategy.rolling_update.max_surge) == ("25%", "25%")


def test_what_a_stateful_set_gets() -> None:
    made = stored("StatefulSet").spec
    assert (made.replicas, made.pod_management_policy, made.update_strategy.type) == (
        1,
        "OrderedReady",
        "RollingUpdate",
    )
    pace = made.update_strategy.rolling_update
    assert (pace.partition, pace.max_unavailable) == (0, 1)
    retention = made.persistent_volume_claim_retention_policy
    assert (retention.when_deleted, retention.when_scaled) == ("Retain", "Retain")


@pytest.mark.parametrize(("emulation", "at_once"), [("1.34", None), ("1.35", None), ("1.36", None), ("1.37", 1)])
def test_how_many_pods_of_a_stateful_set_go_at_once_is_filled_in_where_the_gate_is_on(
    emulation: str, at_once: int | None
) -> None:
    """As a kube-apiserver 1.37 with --emulated-version did."""
    options = for_component(component.resolve(emulation=emulation, min_compatibility=emulation))
    made = stored("StatefulSet", options=options)
    assert made.spec.update_strategy.rolling_update.max_unavailable == at_once


def test_what_a_daemon_set_gets() -> None:
    pace = stored("DaemonSet").spec.update_strategy.rolling_update
    assert (pace.max_unavailable, pace.max_surge) == (1, 0)


def test_a_replication_controller_takes_its_labels_and_selector_from_the_template() -> None:
    made = stored("ReplicationController", spec(selector=ABSENT))
    assert (made.spec.selector, made.metadata.labels) == ({"app": "x"}, {"app": "x"})
