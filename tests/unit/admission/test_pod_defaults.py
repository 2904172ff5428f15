"""What a pod gets when its author says nothing, and what the server adds: priority, tolerations, status."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from admission_kinds import stored
from admission_pods import Tree, created, pod_of, request
from mooring.admission.pipeline import admit_create
from mooring.admission.pod.defaults import default_pod_spec, default_pull_policy
from mooring.admission.strategy import NoCluster, Priority
from mooring.api import codec, errors
from mooring.api.core_v1 import PodTemplateSpec

DEFAULT_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for name in ("not-ready", "unreachable")
]


def container(**fields: Any) -> Tree:
    return {"containers": [{"name": "c", "image": "i", **fields}]}


def volume(**source: Any) -> Tree:
    return {"volumes": [{"name": "v", **source}]}


def at(tree: Any, path: str) -> Any:
    """Return the value at a path such as `containers.0.ports`."""
    for step in path.split("."):
        tree = tree[int(step)] if step.isdigit() else tree[step]
    return tree


@dataclass(frozen=True)
class Case:
    name: str
    spec: Tree
    path: str
    value: Any


HTTP: Tree = {"httpGet": {"port": 80}}
CASES = [
    Case("a plain spec", {}, "restartPolicy", "Always"),
    Case("a plain spec: DNS", {}, "dnsPolicy", "ClusterFirst"),
    Case("a plain spec: grace period", {}, "terminationGracePeriodSeconds", 30),
    Case("a plain spec: scheduler", {}, "schedulerName", "default-scheduler"),
    Case("a plain spec: security context", {}, "securityContext", {}),
    Case("a plain spec: service links", {}, "enableServiceLinks", True),
    Case("a plain spec: tolerations", {}, "tolerations", DEFAULT_TOLERATIONS),
    Case("the old name of the service account", {"serviceAccount": "sa"}, "serviceAccountName", "sa"),
    Case("the new name of the service account", {"serviceAccountName": "sa"}, "serviceAccount", "sa"),
    Case("a protocol", container(ports=[{"containerPort": 80}]), "containers.0.ports.0.protocol", "TCP"),
    Case(
        "host ports in the host's network",
        {**container(ports=[{"containerPort": 80}]), "hostNetwork": True},
        "containers.0.ports.0.hostPort",
        80,
    ),
    Case("a termination message path", {}, "containers.0.terminationMessagePath", "/dev/termination-log"),
    Case("a termination message policy", {}, "containers.0.terminationMessagePolicy", "File"),
    Case(
        "a field reference",
        container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        "containers.0.env.0.valueFrom.fieldRef.apiVersion",
        "v1",
    ),
    Case(
        "requests are limits",
        container(resources={"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}),
        "containers.0.resources.requests",
        {"cpu": "500m", "memory": "1Gi"},
    ),
    Case(
        "nothing below a thousandth",
        container(resources={"requests": {"cpu": "100u"}}),
        "containers.0.resources.requests",
        {"cpu": "1m"},
    ),
    Case(
        "a probe",
        container(livenessProbe=HTTP),
        "containers.0.livenessProbe",
        {
            "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
            "timeoutSeconds": 1,
            "periodSeconds": 10,
            "successThreshold": 1,
            "failureThreshold": 3,
        },
    ),
    Case("a gRPC probe", container(livenessProbe={"grpc": {"port": 1}}), "containers.0.livenessProbe.grpc.service", ""),
    Case(
        "a hook",
        container(lifecycle={"preStop": HTTP}),
        "containers.0.lifecycle.preStop.httpGet",
        {"path": "/", "port": 80, "scheme": "HTTP"},
    ),
    Case("a volume of nothing", volume(), "volumes.0.emptyDir", {}),
    Case("a secret", volume(secret={"secretName": "s"}), "volumes.0.secret.defaultMode", 420),
    Case("a config map", volume(configMap={"name": "s"}), "volumes.0.configMap.defaultMode", 420),
    Case("a path of the host", volume(hostPath={"path": "/x"}), "volumes.0.hostPath.type", ""),
    Case("an image", volume(image={"reference": "i:1"}), "volumes.0.image.pullPolicy", "IfNotPresent"),
    Case(
        "a downward API file",
        volume(downwardAPI={"items": [{"path": "f", "fieldRef": {"fieldPath": "metadata.labels"}}]}),
        "volumes.0.downwardAPI",
        {
            "items": [{"path": "f", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}}],
            "defaultMode": 420,
        },
    ),
    Case(
        "a projected token",
        {**volume(projected={"sources": [{"serviceAccountToken": {"path": "t"}}]}), "serviceAccountName": "sa"},
        "volumes.0.projected",
        {"sources": [{"serviceAccountToken": {"expirationSeconds": 3600, "path": "t"}}], "defaultMode": 420},
    ),
    Case(
        "an ephemeral claim",
        volume(
            ephemeral={
                "volumeClaimTemplate": {
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
                }
            }
        ),
        "volumes.0.ephemeral.volumeClaimTemplate.spec.volumeMode",
        "Filesystem",
    ),
    Case(
        "iSCSI",
        volume(iscsi={"targetPortal": "p", "iqn": "iqn.2001-04.com.example:s", "lun": 0}),
        "volumes.0.iscsi.iscsiInterface",
        "default",
    ),
    Case("RBD", volume(rbd={"monitors": ["m"], "image": "i"}), "volumes.0.rbd.keyring", "/etc/ceph/keyring"),
    Case(
        "pod-level requests from limits and containers",
        {
            **container(resources={"requests": {"cpu": "1"}}),
            "resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
        },
        "resources.requests",
        {"cpu": "1", "memory": "1Gi"},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_pod_is_filled_in(case: Case) -> None:
    assert at(codec.to_tree(created(pod_of(case.spec)))["spec"], case.path) == case.value


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("web", "Always"),
        ("web:latest", "Always"),
        ("registry.example:5000/team/web", "Always"),
        ("registry.example:5000/team/web:1.2", "IfNotPresent"),
        ("web@sha256:" + "0" * 64, "IfNotPresent"),
        ("web:latest@sha256:" + "0" * 64, "Always"),
        ("Not An Image", "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    assert default_pull_policy(image) == policy


def test_a_template_gets_less_than_a_pod() -> None:
    tree = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]}}
    template = codec.decode(msgspec.json.encode(tree), PodTemplateSpec).object
    default_pod_spec(template.spec)
    assert codec.to_tree(template)["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "i",
                "resources": {"limits": {"cpu": "1"}},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "Always",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    }


# -- default tolerations


@dataclass(frozen=True)
class Tolerated:
    name: str
    tolerations: list[Tree]
    added: list[Tree]


@pytest.mark.parametrize(
    "case",
    [
        Tolerated("nothing", [], DEFAULT_TOLERATIONS),
        Tolerated(
            "one of them", [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}], DEFAULT_TOLERATIONS[1:]
        ),
        Tolerated("everything", [{"operator": "Exists"}], []),
        Tolerated("another effect", [{"operator": "Exists", "effect": "NoSchedule"}], DEFAULT_TOLERATIONS),
        Tolerated("an expression, which has no key but is no wildcard", [{"expression": "true"}], DEFAULT_TOLERATIONS),
    ],
    ids=lambda case: case.name,
)
@pytest.mark.req("5500.1")
def test_the_two_default_tolerations_are_added_unless_tolerated(case: Tolerated) -> None:
    pod = created(pod_of({"tolerations": case.tolerations}))
    assert codec.to_tree(pod)["spec"].get("tolerations", []) == case.tolerations + case.added


# -- priority


class Classes(NoCluster):
    """Two PriorityClasses, of which one is the default."""

    def priority_class(self, name: str) -> Priority | None:
        return Priority("high", 1000, "Never") if name == "high" else super().priority_class(name)

    def default_priority_class(self) -> Priority | None:
        return Priority("usual", 10)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ("usual", 10, "PreemptLowerPriority")),
        ({"priorityClassName": "high"}, ("high", 1000, "Never")),
        ({"priorityClassName": "high", "priority": 1000}, ("high", 1000, "Never")),
        (
            {"priorityClassName": "system-node-critical"},
            ("system-node-critical", 2_000_001_000, "PreemptLowerPriority"),
        ),
    ],
    ids=["none", "a class", "a class and its number", "a class of the system"],
)
def test_priority_comes_from_the_class(spec: Tree, expected: tuple[str, int, str]) -> None:
    pod = admit_create(pod_of(spec), request(lookups=Classes())).object
    assert (pod.spec.priority_class_name, pod.spec.priority, pod.spec.preemption_policy) == expected


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        (
            {"priority": 5},
            (
                "the integer value of priority (5) must not be provided in pod spec; "
                "priority admission controller computed 10 from the given PriorityClass name"
            ),
        ),
        (
            {"preemptionPolicy": "Never"},
            (
                "the string value of PreemptionPolicy (Never) must not be provided in pod spec; "
                "priority admission controller computed PreemptLowerPriority from the given PriorityClass name"
            ),
        ),
    ],
    ids=["an unknown class", "another number", "another policy"],
)
def test_a_pod_may_not_contradict_its_class(spec: Tree, problem: str) -> None:
    with pytest.raises(errors.Forbidden) as refusal:
        admit_create(pod_of(spec), request(lookups=Classes()))
    assert refusal.value.status.message == f'pods "p" is forbidden: {problem}'


# -- status


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "0"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
    ],
    ids=str,
)
def test_the_quality_of_service_follows_from_the_resources(resources: Tree, expected: str) -> None:
    assert created(pod_of(container(resources=resources))).status.qos_class == expected


def test_pod_level_resources_decide_the_quality_of_service() -> None:
    spec = {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    assert created(pod_of(spec)).status.qos_class == "Guaranteed"


def test_a_new_pod_is_pending_and_nothing_of_the_clients_status_is_kept() -> None:
    pod = pod_of({"schedulingGates": [{"name": "wait"}]})
    pod.status.phase, pod.status.message = "Running", "made up"
    tree = codec.to_tree(created(pod))
    assert tree["status"] == {
        "phase": "Pending",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": "2026-01-02T03:04:05Z",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ],
        "qosClass": "BestEffort",
    }
    assert tree["metadata"]["generation"] == 1


def test_a_negative_grace_period_is_one_second_for_a_pod_and_stays_in_a_template() -> None:
    assert created(pod_of({"terminationGracePeriodSeconds": -5})).spec.termination_grace_period_seconds == 1
    template = stored(
        "Deployment", {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": -5}}}}
    ).spec.template
    assert template.spec.termination_grace_period_seconds == -5
