"""A hundred situations: the cause is in the first line, the first remedy as printed helps the whole workload, and the
dashboard agrees."""

import functools
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from advice_situations import (
    CONTROL,
    FULL,
    LONG_AGO,
    SMALL,
    WORKERS,
    Situation,
    apart,
    app,
    asking,
    claim,
    claiming,
    clock,
    container,
    container_status,
    near,
    port,
    required,
    selecting,
    spread,
    storage_class,
    unready,
    volume,
    waiting,
    workload,
)
from applied_advice import bind_claims
from missing_providers import MISSING_PROVIDERS
from mooring.advisor.explain import explain, find_subject, overview, text
from mooring.advisor.explain.results import SchedulingExplanation, Suggestion
from mooring.advisor.simulate import Add, Remove, Scenario, Step, simulate
from mooring.advisor.simulate.options import for_component
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.snapshot.objects import full_scheme
from mooring.api import codec
from mooring.api.admissionregistration_v1 import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
)
from mooring.api.apps_v1 import DaemonSet, StatefulSet
from mooring.api.autoscaling_v2 import HorizontalPodAutoscaler
from mooring.api.base import copy_of
from mooring.api.batch_v1 import CronJob, Job
from mooring.api.core_v1 import (
    Event,
    LimitRange,
    Namespace,
    PersistentVolumeClaim,
    Pod,
    ResourceQuota,
    Service,
    ServiceAccount,
)
from mooring.api.meta_v1 import OwnerReference, Resource
from mooring.api.node_v1 import RuntimeClass
from mooring.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from mooring.api.scheduling_v1 import PriorityClass
from mooring.api.storage_v1 import VolumeAttachment
from mooring.apiserver.registry.patch.json_patch import apply
from mooring.base import component
from mooring.constraints.annotations import GATE, TOLERATIONS
from mooring.dashboard.live_snapshot import LiveSnapshot
from mooring.dashboard.views.pending import pending
from mooring.testing.builders import made, node, pod

pytestmark = pytest.mark.req("S.5")
GT = {"tolerations": [{"key": "sla", "operator": "Gt", "value": "900", "effect": "NoSchedule"}]}
FORBIDDEN = {"nodes": "not allowed: nodes is forbidden", "pods": "not allowed outside of the namespace default: no"}


def quota(name: str, hard: dict[str, str], used: dict[str, str]) -> Resource:
    return made(
        ResourceQuota,
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"hard": hard},
            "status": {"hard": hard, "used": used},
        },
    )


def limits(**item: Any) -> Resource:
    return made(
        LimitRange,
        {"metadata": {"name": "limits", "namespace": "default"}, "spec": {"limits": [{"type": "Container"} | item]}},
    )


def namespace(**labels: str) -> Resource:
    return made(
        Namespace,
        {
            "metadata": {
                "name": "default",
                "labels": {key.replace("__", "/").replace("_", "-"): value for key, value in labels.items()},
            }
        },
    )


def priority_class(name: str, value: int, **more: Any) -> Resource:
    return made(PriorityClass, {"metadata": {"name": name}, "value": value, **more})


POLICY = [
    made(
        ValidatingAdmissionPolicy,
        {
            "metadata": {"name": "images"},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                    ]
                },
                "validations": [
                    {
                        "expression": "object.spec.containers.all(c, !c.image.endsWith(':1'))",
                        "message": "images need a real tag",
                    }
                ],
            },
        },
    ),
    made(
        ValidatingAdmissionPolicyBinding,
        {"metadata": {"name": "images"}, "spec": {"policyName": "images", "validationActions": ["Deny"]}},
    ),
]
WEBHOOK = [
    made(
        ValidatingWebhookConfiguration,
        {
            "metadata": {"name": "guard"},
            "webhooks": [
                {
                    "name": "guard.example.com",
                    "failurePolicy": "Fail",
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "clientConfig": {"service": {"namespace": "tools", "name": "guard"}},
                    "rules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                    ],
                }
            ],
        },
    ),
    made(Service, {"metadata": {"name": "guard", "namespace": "tools"}, "spec": {"selector": {"app": "guard"}}}),
]
FAILED_CREATE: dict[str, Any] = {
    "status": {
        "conditions": [
            {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": "FailedCreate",
                "message": 'Internal error occurred: failed calling webhook "gone.example.com": connection refused',
            }
        ]
    }
}
GPU_CLASS = made(
    DeviceClass,
    {
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]},
    },
)
GPU_TEMPLATE = made(
    ResourceClaimTemplate,
    {
        "metadata": {"name": "gpu", "namespace": "default"},
        "spec": {
            "spec": {
                "devices": {
                    "requests": [
                        {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
                    ]
                }
            }
        },
    },
)
DEVICES = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}
RULES_133 = for_component(component.resolve(emulation="1.33"))


def scoped_quota(name: str, hard: dict[str, str], used: dict[str, str]) -> Resource:
    made_quota = quota(name, hard, used)
    assert isinstance(made_quota, ResourceQuota)
    made_quota.spec.scopes = ["BestEffort"]
    return made_quota


def cron(schedule: str) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [container()]}}
    spec = {"schedule": schedule, "jobTemplate": {"spec": {"template": template}}}
    return {"metadata": {"name": "nightly", "namespace": "default", "uid": "j"}, "spec": spec}


def tolerating(key: str, value: str) -> dict[str, Any]:
    return {"tolerations": [{"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"}]}


def unlimited(name: str) -> list[Resource]:
    """Return the Deployment as it was written: its requests come from a LimitRange."""
    owner, *_ = app(name, 2, exists=0)
    return [owner, limits(default={"cpu": "9"}, defaultRequest={"cpu": "9"})]


def template_for(device_class: str) -> Resource:
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1}
    spec = {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
    return made(ResourceClaimTemplate, {"metadata": {"name": "gpu", "namespace": "default"}, "spec": spec})


def device_claim(pod_name: str, device_class: str) -> Resource:
    """Return the claim that a controller has created for a pod."""
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod_name, "uid": f"p-{pod_name}", "controller": True}
    meta = {
        "name": f"{pod_name}-gpu", "namespace": "default", "uid": "c", "ownerReferences": [owner],
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
    }  # fmt: skip
    return made(
        ResourceClaim, {"metadata": meta, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
    )


def evicted(name: str) -> Resource:
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{name}-h2",
        "uid": f"r-{name}-h2",
        "controller": True,
    }
    return pod(
        f"{name}-old",
        on="n1",
        metadata={"ownerReferences": [owner]},
        status={"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."},
    )


TWO_CPU = container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "2"}})
WIDE = container(resources={"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}})
GPUU = {
    "containers": [container(resources={"requests": {"example.com/gpuu": "1"}, "limits": {"example.com/gpuu": "1"}})]
}
GVISOR = made(RuntimeClass, {"metadata": {"name": "gvisor"}, "handler": "runsc"})
TERMINATING = made(Namespace, {"metadata": {"name": "default", "deletionTimestamp": LONG_AGO}})
HELD = {"deletionTimestamp": LONG_AGO, "finalizers": ["example.com/backup"]}
UNREADY = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": LONG_AGO}],
    "containerStatuses": [container_status(state={"running": {"startedAt": LONG_AGO}})],
}
OF_STANDARD: dict[str, Any] = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "standard",
    },
}
GPUS = made(
    ResourceSlice,
    {
        "metadata": {"name": "n0-gpus"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "n0",
            "pool": {"name": "n0", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "g0"}, {"name": "g1"}],
        },
    },
)
OWN_CLAIM = {"name": "gpu", "resourceClaimName": "web-h2-0-gpu"}
MISSPELLED_DEVICES = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gup"}]}

CONTROL_PLANE, MASTER = "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"
OF_FAST = {**OF_STANDARD, "spec": {**OF_STANDARD["spec"], "storageClassName": "fast"}}
SMALL_SPOT = [node(f"spot{number}", labels={"pool": "spot"}) for number in range(2)]
FAILED_CREATE_EVENT = made(
    Event,
    {
        "metadata": {"name": "batch.1", "namespace": "default"},
        "involvedObject": {"kind": "Job", "namespace": "default", "name": "batch"},
        "type": "Warning",
        "reason": "FailedCreate",
        "message": 'Error creating: failed calling webhook "gone.example.com": connection refused',
    },
)
AUTOSCALER = made(
    HorizontalPodAutoscaler,
    {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3},
    },
)


def job_of_cron(spec: Mapping[str, Any]) -> list[Resource]:
    """Return a Job that a CronJob has created, and its pod."""
    job, *pods = workload(Job, "nightly-1", spec, exists=1, parallelism=1, completions=1)
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "j", "controller": True}
    job.metadata.owner_references = [codec.from_tree(owner, OwnerReference)[0]]
    return [job, *pods]


def lost(found: Resource) -> Resource:
    assert isinstance(found, PersistentVolumeClaim)
    found.status.phase = "Lost"
    return found


def in_namespace(found: Resource, namespace: str) -> Resource:
    found.metadata.namespace = namespace
    return found


def refused_job() -> Resource:
    found = copy_of(FAILED_CREATE_EVENT)
    assert isinstance(found, Event)
    found.involved_object.kind, found.involved_object.name = "CronJob", "nightly"
    used = "requested: count/jobs.batch=1, used: count/jobs.batch=0, limited: count/jobs.batch=0"
    found.message = f'Error creating job: jobs.batch "nightly-1" is forbidden: exceeded quota: jobs, {used}'
    found.last_timestamp = LONG_AGO
    return found


def newer_than(version: str) -> dict[str, Any]:
    return dict(required({"key": "kernel", "operator": "SemverGt", "values": [version]}))


def bridged(name: str) -> list[Resource]:
    return [
        pod(
            name,
            on="",
            spec={"schedulingGates": [{"name": GATE}]},
            metadata={"annotations": {TOLERATIONS: '[{"key": "sla", "operator": "Gt", "value": "9"}]'}},
        )
    ]


SITUATIONS = [
    # -- pods that do not exist
    Situation(
        "a quota admits two of three pods",
        [*WORKERS, *app("web", 3, on=["n0", "n1"], exists=2), quota("few", {"pods": "2"}, {"pods": "2"})],
        ("deployment", "web"),
        "QuotaExceeded",
        ["quota few", "pods=2"],
    ),
    Situation(
        "a quota of cpu is used up",
        [
            *WORKERS,
            *app("web", 3, {"containers": [asking(cpu="1")]}, on=["n0"], exists=1),
            quota("cpu", {"requests.cpu": "1"}, {"requests.cpu": "1"}),
        ],
        ("deployment", "web"),
        "QuotaExceeded",
        ["quota cpu", "requests.cpu=1"],
    ),
    Situation(
        "a quota needs requests",
        [*WORKERS, *app("web", 2, exists=0), quota("cpu", {"requests.cpu": "9"}, {"requests.cpu": "0"})],
        ("deployment", "web"),
        "QuotaNeedsRequests",
        ["quota cpu", "requests.cpu"],
    ),
    Situation(
        "a LimitRange has a lower maximum",
        [
            *WORKERS,
            *app(
                "web",
                2,
                {"containers": [container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "2"}})]},
                exists=0,
            ),
            limits(max={"cpu": "1"}),
        ],
        ("deployment", "web"),
        "LimitRange",
        ["maximum cpu usage per Container is 1"],
    ),
    Situation(
        "a LimitRange gives a default below the request",
        [*WORKERS, *app("web", 2, {"containers": [asking(cpu="2")]}, exists=0), limits(default={"cpu": "1"})],
        ("deployment", "web"),
        "LimitRange",
        ["cpu limit of 1", "request of 2"],
    ),
    Situation(
        "a policy denies the pods",
        [*WORKERS, *app("web", 2, exists=0), *POLICY],
        ("deployment", "web"),
        "PolicyDenied",
        ["policy images", "images need a real tag"],
    ),
    Situation(
        "a webhook has no pod that answers",
        [*WORKERS, *app("web", 2, exists=0), *WEBHOOK],
        ("deployment", "web"),
        "WebhookDown",
        ["guard.example.com", "no pod of its Service tools/guard is ready"],
    ),
    Situation(
        "a webhook is reported down by the controller",
        [*WORKERS, *app("web", 2, exists=0, **FAILED_CREATE)],
        ("deployment", "web"),
        "WebhookDown",
        ["gone.example.com", "connection refused"],
        has_remedy=False,
    ),
    Situation(
        "Pod Security refuses the pods",
        [
            *WORKERS,
            *app("web", 2, exists=0),
            namespace(pod_security__x="", **{"pod-security.kubernetes.io/enforce": "restricted"}),
        ],
        ("deployment", "web"),
        "PodSecurity",
        ["restricted", "allowPrivilegeEscalation"],
    ),
    Situation(
        "a service account is misspelled",
        [
            *WORKERS,
            *app("web", 2, {"serviceAccountName": "bulder"}, exists=0),
            made(ServiceAccount, {"metadata": {"name": "builder", "namespace": "default"}}),
        ],
        ("deployment", "web"),
        "MissingServiceAccount",
        ["ServiceAccount bulder"],
        words_of_remedy="builder",
    ),
    Situation(
        "a service account is missing",
        [
            *WORKERS,
            *app("web", 2, {"serviceAccountName": "robot"}, exists=0),
            made(ServiceAccount, {"metadata": {"name": "default", "namespace": "default"}}),
        ],
        ("deployment", "web"),
        "MissingServiceAccount",
        ["ServiceAccount robot"],
        words_of_remedy="create ServiceAccount",
    ),
    Situation(
        "a priority class is misspelled",
        [*WORKERS, *app("web", 2, {"priorityClassName": "hihg"}, exists=0), priority_class("high", 5)],
        ("deployment", "web"),
        "MissingPriorityClass",
        ["PriorityClass hihg"],
        words_of_remedy="to high",
    ),
    Situation(
        "a deployment is paused",
        [*WORKERS, *app("web", 2, exists=0, deployment={"paused": True})],
        ("deployment", "web"),
        "Paused",
        ["is paused"],
    ),
    Situation(
        "a deployment is scaled to zero",
        [*WORKERS, *app("web", 0)],
        ("deployment", "web"),
        "NoReplicas",
        ["scaled to 0"],
    ),
    Situation(
        "a job is suspended",
        [
            *WORKERS,
            made(
                Job,
                {
                    "metadata": {"name": "batch", "namespace": "default", "uid": "j"},
                    "spec": {
                        "suspend": True,
                        "template": {
                            "metadata": {"labels": {"a": "b"}},
                            "spec": {"restartPolicy": "Never", "containers": [container()]},
                        },
                    },
                },
            ),
        ],
        ("job", "batch"),
        "Suspended",
        ["is suspended"],
    ),
    Situation(
        "a job has failed",
        [
            *WORKERS,
            made(
                Job,
                {
                    "metadata": {"name": "batch", "namespace": "default", "uid": "j"},
                    "spec": {
                        "template": {
                            "metadata": {"labels": {"a": "b"}},
                            "spec": {"restartPolicy": "Never", "containers": [container()]},
                        }
                    },
                    "status": {
                        "conditions": [
                            {
                                "type": "Failed",
                                "status": "True",
                                "reason": "BackoffLimitExceeded",
                                "message": "Job has reached the specified backoff limit",
                            }
                        ]
                    },
                },
            ),
        ],
        ("job", "batch"),
        "BackoffLimitExceeded",
        ["backoff limit"],
        has_remedy=False,
    ),
    Situation(
        "a cron job is suspended",
        [
            *WORKERS,
            made(
                CronJob,
                {
                    "metadata": {"name": "nightly", "namespace": "default", "uid": "j"},
                    "spec": {
                        "suspend": True,
                        "schedule": "0 0 * * *",
                        "jobTemplate": {
                            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container()]}}}
                        },
                    },
                },
            ),
        ],
        ("cronjob", "nightly"),
        "Suspended",
        ["is suspended"],
    ),
    Situation(
        "an operator is too new for 1.33",
        [*WORKERS, *app("web", 2, GT, exists=0)],
        ("deployment", "web"),
        "Refused",
        ['Unsupported value: "Gt"'],
        has_remedy=False,
        settings=RULES_133,
    ),
    # -- pods that no scheduler tries
    Situation(
        "a gate of a known controller",
        [*WORKERS, pod("web", spec={"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]})],
        ("pod", "web"),
        "SchedulingGated",
        ["kueue.x-k8s.io/admission", "Kueue"],
    ),
    Situation(
        "a gate of an unknown controller",
        [*WORKERS, *app("web", 2, {"schedulingGates": [{"name": "example.com/wait"}]})],
        ("deployment", "web"),
        "SchedulingGated",
        ["example.com/wait", "the controller of example.com"],
    ),
    Situation(
        "another scheduler that does not run",
        [*WORKERS, *app("web", 2, {"schedulerName": "volcano"})],
        ("deployment", "web"),
        "OtherScheduler",
        ["volcano", "no such scheduler runs"],
    ),
    Situation(
        "another scheduler that runs",
        [
            *WORKERS,
            pod("volcano-scheduler-1", on="n1", namespace="volcano"),
            pod("web", spec={"schedulerName": "volcano"}),
        ],
        ("pod", "web"),
        "OtherScheduler",
        ["volcano", "volcano/volcano-scheduler-1"],
    ),
    # -- labels
    Situation(
        "a label key is misspelled",
        [*WORKERS, *app("web", 3, selecting(disktyp="ssd"))],
        ("deployment", "web"),
        "NoSuchLabel",
        ["no node has the label `disktyp`", "did you mean `disktype`? 6 nodes have it"],
        words_of_remedy="disktype=ssd",
    ),
    Situation(
        "a label value is misspelled",
        [*WORKERS, *app("web", 3, selecting(disktype="sssd"))],
        ("deployment", "web"),
        "NoSuchLabelValue",
        ["no node has disktype=sssd", "did you mean `ssd`?"],
        words_of_remedy="disktype=ssd",
    ),
    Situation(
        "a label key in another case in an affinity",
        [*WORKERS, *app("web", 3, required({"key": "DiskType", "operator": "In", "values": ["ssd"]}))],
        ("deployment", "web"),
        "NoSuchLabel",
        ["did you mean `disktype`?"],
        words_of_remedy="disktype",
    ),
    Situation(
        "a label that no node has",
        [*WORKERS, *app("web", 2, selecting(rack="r1"))],
        ("deployment", "web"),
        "NoSuchLabel",
        ["no node has the label `rack`"],
    ),
    Situation(
        "a number that no node reaches",
        [node("a", labels={"gen": "4"}), *app("web", 2, required({"key": "gen", "operator": "Gt", "values": ["5"]}))],
        ("deployment", "web"),
        "BoundNotMet",
        ["`gen Gt 5`", "the highest is 4"],
    ),
    Situation(
        "two labels on different nodes",
        [node("a", labels={"x": "1"}), node("b", labels={"y": "1"}), *app("web", 2, selecting(x="1", y="1"))],
        ("deployment", "web"),
        "NoMatchingNode",
        ["at the same time"],
    ),
    Situation(
        "a pod is pinned to a node that is gone",
        [*WORKERS, pod("web", on="gone", status={"phase": "Pending"})],
        ("pod", "web"),
        "NodeGone",
        ["node gone does not exist (any more)"],
    ),
    # -- taints
    Situation(
        "a taint that is not tolerated",
        [node("a", taints=["team=blue:NoSchedule"]), *app("web", 2)],
        ("deployment", "web"),
        "UntoleratedTaint",
        ["team=blue:NoSchedule"],
    ),
    Situation(
        "a toleration with a misspelled key",
        [
            node("a", taints=["nvidia.com/gpu=present:NoSchedule"]),
            *app("web", 2, {"tolerations": [{"key": "nvidia.com/gpus", "operator": "Exists"}]}),
        ],
        ("deployment", "web"),
        "UntoleratedTaint",
        ["did you mean `nvidia.com/gpu`?"],
        words_of_remedy="correct the toleration",
    ),
    Situation(
        "a toleration with a misspelled value",
        [
            node("a", taints=["team=blue:NoSchedule"]),
            *app(
                "web",
                2,
                {"tolerations": [{"key": "team", "operator": "Equal", "value": "bleu", "effect": "NoSchedule"}]},
            ),
        ],
        ("deployment", "web"),
        "UntoleratedTaint",
        ["team=blue", "bleu"],
        words_of_remedy="team=blue",
    ),
    Situation(
        "a toleration for another effect",
        [
            node("a", taints=["team=blue:NoSchedule"]),
            *app(
                "web",
                2,
                {"tolerations": [{"key": "team", "operator": "Equal", "value": "blue", "effect": "NoExecute"}]},
            ),
        ],
        ("deployment", "web"),
        "UntoleratedTaint",
        ["is for the effect NoExecute"],
        words_of_remedy="NoSchedule",
    ),
    Situation(
        "a bound that is just missed",
        [node("a", taints=["sla=899:NoSchedule"]), *app("web", 2, GT)],
        ("deployment", "web"),
        "UntoleratedTaint",
        ["sla=899", "`Gt 900`"],
        words_of_remedy="898",
    ),
    Situation(
        "selected nodes have a taint",
        [
            *WORKERS,
            node("gpu", labels={"pool": "gpu"}, taints=["gpu=true:NoSchedule"]),
            *app("web", 2, selecting(pool="gpu")),
        ],
        ("deployment", "web"),
        "UntoleratedTaint",
        ["gpu=true:NoSchedule", "the only node that match"],
    ),
    Situation(
        "all nodes are cordoned",
        [node("a", unschedulable=True), *app("web", 2)],
        ("deployment", "web"),
        "NodesCordoned",
        ["node a is", "cordoned"],
        words_of_remedy="uncordon",
    ),
    Situation(
        "the only node has lost its kubelet",
        [unready("b"), CONTROL, clock(), *app("web", 2)],
        ("deployment", "web"),
        "NodeNotReady",
        ["node b is not ready: its kubelet has not reported for 5 min"],
        words_of_remedy="add a node",
    ),
    # -- room
    Situation(
        "no node is that large",
        [*SMALL, *app("web", 2, {"containers": [asking(cpu="16")]})],
        ("deployment", "web"),
        "NoNodeLargeEnough",
        ["no node is that large, even empty", "the largest has 4 cpu"],
    ),
    Situation(
        "enough in sum, on no single node",
        [*SMALL, *FULL, *app("web", 1, {"containers": [asking(cpu="2")]})],
        ("deployment", "web"),
        "Fragmented",
        ["enough cpu in sum, on no single node", "3 cpu are free in total"],
    ),
    Situation(
        "no room at all",
        [*SMALL, *FULL, *app("web", 1, {"containers": [asking(cpu="3500m")]})],
        ("deployment", "web"),
        "NotEnoughResources",
        ["not enough cpu", "at most 1 cpu"],
    ),
    Situation(
        "a resource that no node has",
        [
            node("a", resources={"nvidia.com/gpu": "2"}),
            *app(
                "web",
                1,
                {
                    "containers": [
                        container(resources={"requests": {"nvidia.com/gpus": "1"}, "limits": {"nvidia.com/gpus": "1"}})
                    ]
                },
            ),
        ],
        ("deployment", "web"),
        "NoSuchResource",
        ["no node has the resource nvidia.com/gpus", "did you mean `nvidia.com/gpu`?"],
    ),
    Situation(
        "every node has its most pods",
        [node("a", pods="1"), pod("one", on="a"), *app("web", 1)],
        ("deployment", "web"),
        "NotEnoughResources",
        ["as many pods as it may"],
        words_of_remedy="add a node",
    ),
    Situation(
        "a host port is taken",
        [
            node("a"),
            pod("holder", on="a", spec={"containers": [container(ports=[{"containerPort": 80, "hostPort": 80}])]}),
            *app("web", 1, {"containers": [container(ports=[{"containerPort": 80, "hostPort": 80}])]}),
        ],
        ("deployment", "web"),
        "HostPortTaken",
        ["host port 80/TCP", "default/holder"],
    ),
    Situation(
        "the preemption policy forbids what priorities allow",
        [
            node("a"),
            *app("low", 1, {"priority": 0, "containers": [asking(cpu="3")]}, on=["a"]),
            priority_class("patient", 9, preemptionPolicy="Never"),
            pod("web", cpu="2", priority=9, spec={"preemptionPolicy": "Never", "priorityClassName": "patient"}),
        ],
        ("pod", "web"),
        "PreemptionPolicyNever",
        ["not enough cpu", "preemptionPolicy is Never"],
    ),
    # -- volumes and devices
    Situation(
        "a claim does not exist",
        [*WORKERS, storage_class("fast"), *app("web", 1, claiming("data"))],
        ("deployment", "web"),
        "MissingClaim",
        ["claim default/data does not exist"],
    ),
    Situation(
        "a storage class does not exist",
        [*WORKERS, claim("data", "fast-ssd"), storage_class("fast-sdd"), *app("web", 1, claiming("data"))],
        ("deployment", "web"),
        "MissingStorageClass",
        ["StorageClass fast-ssd does not exist", "did you mean `fast-sdd`?"],
        has_remedy=True,
    ),
    Situation(
        "a claim without a volume",
        [*WORKERS, claim("data"), *app("web", 1, claiming("data"))],
        ("deployment", "web"),
        "NoVolume",
        ["claim default/data has no volume"],
    ),
    Situation(
        "a volume in a zone without a node",
        [node("a", zone="z1"), volume("pv", "z9"), claim("data", volumeName="pv"), *app("web", 1, claiming("data"))],
        ("deployment", "web"),
        "VolumeZone",
        ["volume pv is in zone z9", "z1"],
    ),
    Situation(
        "a device class whose driver is not there",
        [*WORKERS, GPU_CLASS, GPU_TEMPLATE, *app("web", 1, DEVICES, exists=0)],
        ("deployment", "web"),
        "NoResourceSlice",
        ["no ResourceSlice of driver gpu.example.com exists"],
        has_remedy=False,
    ),
    Situation(
        "a device class that does not exist",
        [*WORKERS, GPU_TEMPLATE, *app("web", 1, DEVICES, exists=0)],
        ("deployment", "web"),
        "MissingDeviceClass",
        ["DeviceClass gpu does not exist"],
        has_remedy=False,
    ),
    Situation(
        "a claim template that does not exist",
        [*WORKERS, *app("web", 1, DEVICES)],
        ("deployment", "web"),
        "MissingResourceClaimTemplate",
        ["ResourceClaimTemplate default/gpu does not exist"],
        has_remedy=False,
    ),
    # -- neighbours
    Situation(
        "anti-affinity with one zone too few",
        [*WORKERS, *app("web", 4, apart("topology.kubernetes.io/zone", app="web"), on=["n0", "n1", "n2"])],
        ("deployment", "web"),
        "AntiAffinity",
        ["every topology.kubernetes.io/zone already has a pod of this workload", "there are 3, one too few"],
    ),
    Situation(
        "anti-affinity of pods that run",
        [node("a"), *app("shy", 1, apart("kubernetes.io/hostname", app="web"), on=["a"]), *app("web", 1)],
        ("deployment", "web"),
        "AntiAffinityOfOthers",
        ["the anti-affinity of pods that run", "default/shy"],
    ),
    Situation(
        "affinity to a pod that is nowhere",
        [
            *WORKERS,
            *app(
                "web",
                2,
                {
                    "affinity": {
                        "podAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": [
                                {
                                    "topologyKey": "topology.kubernetes.io/zone",
                                    "labelSelector": {"matchLabels": {"app": "cache"}},
                                }
                            ]
                        }
                    }
                },
            ),
        ],
        ("deployment", "web"),
        "NoAffinityPeer",
        ["app=cache", "no such pod runs"],
    ),
    Situation(
        "a spread over a label that no node has",
        [node("a"), *app("web", 2, spread("topology.kubernetes.io/zone", "web"))],
        ("deployment", "web"),
        "NoTopologyLabel",
        ["no node has the label `topology.kubernetes.io/zone`"],
    ),
    Situation(
        "a spread whose emptiest zone has no room",
        [
            node("a", zone="z1"),
            node("b", zone="z2", cpu="500m"),
            *app("web", 3, {**spread("topology.kubernetes.io/zone", "web"), "containers": [asking(cpu="1")]}, on=["a"]),
        ],
        ("deployment", "web"),
        "SpreadSkew",
        ["maxSkew 1", "z1 has 1"],
    ),
    Situation(
        "a rollout whose old pods count in the spread",
        [
            node("a", zone="z1"),
            node("b", zone="z2", cpu="1"),
            *app(
                "web",
                5,
                {**spread("topology.kubernetes.io/zone", "web"), "containers": [asking(cpu="500m")]},
                old_on=["a", "a", "a", "b", "b"],
                exists=1,
                deployment={
                    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
                },
            ),
        ],
        ("deployment", "web"),
        "SpreadSkew",
        ["old pods of the rollout"],
    ),
    # -- pods with a node that do not run
    Situation(
        "an image cannot be pulled",
        [*WORKERS, *app("web", 2, on=["n0", "n1"], pod_status=waiting("ImagePullBackOff", "not found"))],
        ("deployment", "web"),
        "ImagePullBackOff",
        ["the image app:1 of container c cannot be pulled", "not found"],
        has_remedy=False,
    ),
    Situation(
        "a container crashes",
        [
            *WORKERS,
            pod(
                "web",
                on="n0",
                status={
                    "phase": "Running",
                    "containerStatuses": [
                        container_status(
                            state={"waiting": {"reason": "CrashLoopBackOff"}},
                            lastState={"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                        )
                    ],
                },
            ),
        ],
        ("pod", "web"),
        "CrashLoopBackOff",
        ["crashes again and again", "OOMKilled"],
        has_remedy=False,
    ),
    Situation(
        "an init container fails",
        [
            *WORKERS,
            pod(
                "web",
                on="n0",
                status={
                    "phase": "Pending",
                    "initContainerStatuses": [
                        {
                            **container_status(state={"terminated": {"exitCode": 1, "message": "no database"}}),
                            "name": "migrate",
                        }
                    ],
                },
            ),
        ],
        ("pod", "web"),
        "InitContainerFailed",
        ["init container migrate failed", "no database"],
        has_remedy=False,
    ),
    Situation(
        "a config map is missing",
        [*WORKERS, pod("web", on="n0", status=waiting("CreateContainerConfigError", 'configmap "settings" not found'))],
        ("pod", "web"),
        "CreateContainerConfigError",
        ['configmap "settings" not found'],
        has_remedy=False,
    ),
    Situation(
        "a volume does not attach",
        [
            *WORKERS,
            claim("data", volumeName="pv"),
            volume("pv"),
            pod("web", on="n0", spec=claiming("data"), status={"phase": "Pending"}),
            made(
                VolumeAttachment,
                {
                    "metadata": {"name": "va"},
                    "spec": {"attacher": "csi", "nodeName": "n0", "source": {"persistentVolumeName": "pv"}},
                    "status": {"attached": False, "attachError": {"message": "disk is used elsewhere"}},
                },
            ),
        ],
        ("pod", "web"),
        "VolumeNotAttached",
        ["volume pv cannot be attached to node n0", "disk is used elsewhere"],
        has_remedy=False,
    ),
    Situation(
        "the node of a pod is not ready",
        [unready("b", "False", "container runtime is down"), clock(), pod("web", on="b")],
        ("pod", "web"),
        "NodeNotReady",
        ["node b is not ready: container runtime is down"],
        has_remedy=False,
    ),
    Situation(
        "a pod was evicted",
        [
            *WORKERS,
            pod(
                "web",
                on="n0",
                status={"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."},
            ),
        ],
        ("pod", "web"),
        "Evicted",
        ["low on resource: memory"],
        has_remedy=False,
    ),
    # -- few rights, other workloads
    Situation(
        "only the namespace may be read",
        [
            pod(
                "web",
                cpu="99",
                status={
                    "phase": "Pending",
                    "conditions": [
                        {
                            "type": "PodScheduled",
                            "status": "False",
                            "reason": "Unschedulable",
                            "message": "0/7 nodes are available: 7 Insufficient cpu.",
                        }
                    ],
                },
            )
        ],
        ("pod", "web"),
        "Unschedulable",
        ["the scheduler reports: 0/7 nodes are available: 7 Insufficient cpu."],
        has_remedy=False,
        missing=FORBIDDEN,
    ),
    Situation(
        "a missing claim is found with few rights too",
        [pod("web", spec=claiming("data"))],
        ("pod", "web"),
        "MissingClaim",
        ["claim default/data does not exist"],
        has_remedy=False,
        missing=FORBIDDEN,
    ),
    Situation(
        "a stateful set waits for its first pod",
        [
            *SMALL,
            made(
                StatefulSet,
                {
                    "metadata": {"name": "db", "namespace": "default", "uid": "s"},
                    "spec": {
                        "replicas": 3,
                        "serviceName": "db",
                        "selector": {"matchLabels": {"app": "db"}},
                        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [asking(cpu="9")]}},
                    },
                },
            ),
            pod(
                "db-0",
                cpu="9",
                labels={"app": "db"},
                metadata={
                    "ownerReferences": [
                        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s", "controller": True}
                    ]
                },
            ),
        ],
        ("statefulset", "db"),
        "NoNodeLargeEnough",
        ["the largest has 4 cpu"],
    ),
    Situation(
        "a daemon set selects no node",
        [
            *WORKERS,
            made(
                DaemonSet,
                {
                    "metadata": {"name": "agent", "namespace": "default", "uid": "a"},
                    "spec": {
                        "selector": {"matchLabels": {"app": "agent"}},
                        "template": {
                            "metadata": {"labels": {"app": "agent"}},
                            "spec": {"nodeSelector": {"disktipe": "ssd"}, "containers": [container()]},
                        },
                    },
                },
            ),
        ],
        ("daemonset", "agent"),
        "NoSuchLabel",
        ["no node has the label `disktipe`", "did you mean `disktype`?"],
    ),
    # -- found by using it: quotas, limits and references
    Situation(
        "a quota of one scope is used up",
        [*WORKERS, *app("web", 3, on=["n0"], exists=1), scoped_quota("besteffort", {"pods": "1"}, {"pods": "1"})],
        ("deployment", "web"),
        "QuotaExceeded",
        ["quota besteffort", "pods=1"],
        words_of_remedy="pods from 1 to 3",
    ),
    Situation(
        "a quota and a misspelled label at once",
        [*WORKERS, *app("web", 5, selecting(disktype="sssd"), exists=2), quota("few", {"pods": "2"}, {"pods": "2"})],
        ("deployment", "web"),
        "QuotaExceeded",
        ["quota few", "3 of 5 pods"],
        words_of_remedy="and correct `disktype=sssd`",
    ),
    Situation(
        "a misspelled label, and a quota for the last pod",
        [*WORKERS, *app("web", 5, selecting(disktype="sssd"), exists=4), quota("few", {"pods": "4"}, {"pods": "4"})],
        ("deployment", "web"),
        "NoSuchLabelValue",
        ["did you mean `ssd`?", "4 of 5 pods"],
        words_of_remedy="and raise quota few",
    ),
    Situation(
        "a LimitRange for whole pods",
        [*WORKERS, *app("web", 2, {"containers": [TWO_CPU]}, exists=0), limits(type="Pod", max={"cpu": "1"})],
        ("deployment", "web"),
        "LimitRange",
        ["maximum cpu usage per Pod is 1"],
        words_of_remedy="from 2 to 1",
    ),
    Situation(
        "a LimitRange with a ratio of limit to request",
        [*WORKERS, *app("web", 2, {"containers": [WIDE]}, exists=0), limits(maxLimitRequestRatio={"cpu": "2"})],
        ("deployment", "web"),
        "LimitRange",
        ["max limit to request ratio per Container is 2"],
    ),
    Situation(
        "a LimitRange gives requests that no node has room for",
        [*WORKERS, *app("web", 2, {"containers": [asking(cpu="9")]}), *unlimited("web")],
        ("deployment", "web"),
        "NoNodeLargeEnough",
        ["asks for 9 cpu", "the largest has 4 cpu"],
        words_of_remedy="lower container c's request",
    ),
    Situation(
        "a runtime class is misspelled",
        [*WORKERS, *app("web", 2, {"runtimeClassName": "gvsior"}, exists=0), GVISOR],
        ("deployment", "web"),
        "MissingRuntimeClass",
        ["RuntimeClass gvsior does not exist"],
        words_of_remedy="to gvisor",
    ),
    Situation(
        "a namespace is being deleted",
        [*WORKERS, *app("web", 2, exists=0), TERMINATING],
        ("deployment", "web"),
        "NamespaceTerminating",
        ["namespace default is being deleted"],
        has_remedy=False,
    ),
    Situation(
        "the Service of a webhook does not exist",
        [*WORKERS, *app("web", 2, exists=0), WEBHOOK[0], made(Service, {"metadata": {"name": "x", "namespace": "y"}})],
        ("deployment", "web"),
        "WebhookDown",
        ["guard.example.com", "its Service tools/guard does not exist"],
    ),
    Situation(
        "a cron job whose schedule matches no date",
        [*WORKERS, made(CronJob, cron("0 0 30 2 *"))],
        ("cronjob", "nightly"),
        "NeverDue",
        ["never creates a Job", "0 0 30 2 *"],
        has_remedy=False,
    ),
    # -- found by using it: names and numbers that are nearly right
    Situation(
        "two letters of a label value are swapped",
        [*WORKERS, *app("web", 2, selecting(disktype="sdd"))],
        ("deployment", "web"),
        "NoSuchLabelValue",
        ["did you mean `ssd`?"],
        words_of_remedy="correct `disktype=sdd` to `disktype=ssd`",
    ),
    Situation(
        "a value that no node has is not forced on a node first",
        [*WORKERS, *app("web", 2, selecting(disktype="nvme"))],
        ("deployment", "web"),
        "NoSuchLabelValue",
        ["no node has disktype=nvme"],
        words_of_remedy="drop the nodeSelector",
    ),
    Situation(
        "an architecture that no node has",
        [
            node("a", labels={"kubernetes.io/arch": "amd64"}),
            *app("web", 2, selecting(**{"kubernetes.io/arch": "s390x"})),
        ],
        ("deployment", "web"),
        "NoSuchLabelValue",
        ["no node has kubernetes.io/arch=s390x"],
        words_of_remedy="drop the nodeSelector",
    ),
    Situation(
        "a toleration with another value, and nodes that could be labelled",
        [
            *WORKERS,
            node("g", labels={"gpu": "yes"}, taints=["gpu=present:NoSchedule"]),
            *app("web", 2, {**selecting(gpu="yes"), **tolerating("gpu", "true")}),
        ],
        ("deployment", "web"),
        "UntoleratedTaint",
        ["gpu=present:NoSchedule", "tolerates only the value 'true'", "the only node that matches gpu=yes"],
        words_of_remedy="tolerate the taint",
    ),
    Situation(
        "a scheduler is misspelled",
        [*WORKERS, *app("web", 2, {"schedulerName": "default-sheduler"})],
        ("deployment", "web"),
        "OtherScheduler",
        ["no such scheduler runs", "did you mean `default-scheduler`?"],
        words_of_remedy="leave the pod to default-scheduler",
    ),
    Situation(
        "the template of a deployment names a node that is gone",
        [*WORKERS, *app("web", 2, {"nodeName": "n9"}, on=["n9", "n9"])],
        ("deployment", "web"),
        "NodeGone",
        ["node n9 does not exist"],
        words_of_remedy="drop spec.nodeName",
    ),
    Situation(
        "a claim name is misspelled",
        [*WORKERS, claim("data", volumeName="pv"), volume("pv"), *app("web", 1, claiming("dta"))],
        ("deployment", "web"),
        "MissingClaim",
        ["claim default/dta does not exist", "did you mean `data`?"],
        words_of_remedy="correct claimName dta to data",
    ),
    Situation(
        "a storage class is misspelled",
        [*WORKERS, storage_class("fast"), claim("data", "fsat"), *app("web", 1, claiming("data"))],
        ("deployment", "web"),
        "MissingStorageClass",
        ["StorageClass fsat does not exist", "did you mean `fast`?"],
        words_of_remedy="to fast",
    ),
    Situation(
        "a storage class of a stateful set does not exist",
        [
            *WORKERS,
            storage_class("fast"),
            claim("data-db-0", "standard"),
            *workload(StatefulSet, "db", exists=1, replicas=3, serviceName="db", volumeClaimTemplates=[OF_STANDARD]),
        ],
        ("statefulset", "db"),
        "MissingStorageClass",
        ["StorageClass standard does not exist"],
        words_of_remedy="create StorageClass standard like fast",
    ),
    Situation(
        "a resource is misspelled, and its nodes have a taint",
        [
            *WORKERS,
            node("g", resources={"example.com/gpu": "2"}, taints=["gpu:NoSchedule"]),
            *app("web", 2, GPUU),
        ],
        ("deployment", "web"),
        "NoSuchResource",
        ["no node has the resource example.com/gpuu", "did you mean `example.com/gpu`?"],
        words_of_remedy="and tolerate the taint gpu:NoSchedule",
    ),
    Situation(
        "a device class is misspelled",
        [
            *WORKERS,
            GPU_CLASS,
            GPUS,
            template_for("gpuu"),
            device_claim("web-h2-0", "gpuu"),
            *app("web", 1, DEVICES, pod_status={"phase": "Pending", "resourceClaimStatuses": [OWN_CLAIM]}),
        ],
        ("deployment", "web"),
        "MissingDeviceClass",
        ["DeviceClass gpuu does not exist", "did you mean `gpu`?"],
        words_of_remedy="correct DeviceClass gpuu to gpu",
    ),
    Situation(
        "a claim template is misspelled",
        [*WORKERS, GPU_CLASS, GPUS, GPU_TEMPLATE, *app("web", 1, MISSPELLED_DEVICES)],
        ("deployment", "web"),
        "MissingResourceClaimTemplate",
        ["ResourceClaimTemplate default/gup does not exist", "did you mean `gpu`?"],
        words_of_remedy="correct ResourceClaimTemplate gup to gpu",
    ),
    Situation(
        "the topology key of a spread is misspelled",
        [*WORKERS, *app("web", 3, spread("topology.kubernetes.io/zones", "web"))],
        ("deployment", "web"),
        "NoTopologyLabel",
        ["no node has the label `topology.kubernetes.io/zones`", "did you mean `topology.kubernetes.io/zone`?"],
        words_of_remedy="correct topologyKey",
    ),
    Situation(
        "the topology key of an affinity is misspelled",
        [*WORKERS, *app("cache", 1, on=["n0"]), *app("web", 2, near("kubernetes.io/hostnmae", app="cache"))],
        ("deployment", "web"),
        "NoTopologyLabel",
        ["no node has the label `kubernetes.io/hostnmae`", "did you mean `kubernetes.io/hostname`?"],
        words_of_remedy="correct topologyKey",
    ),
    Situation(
        "the label of an affinity is misspelled",
        [*WORKERS, *app("cache", 1, on=["n0"]), *app("web", 2, near("topology.kubernetes.io/zone", app="cahce"))],
        ("deployment", "web"),
        "NoAffinityPeer",
        ["app=cahce", "no such pod runs", "did you mean `app=cache`?"],
        words_of_remedy="to app=cache",
    ),
    # -- found by using it: room
    Situation(
        "more pods than nodes with a host port",
        [*SMALL, *app("web", 5, port(80), on=["s0", "s1", "s2"])],
        ("deployment", "web"),
        "HostPortTaken",
        ["host port 80/TCP", "a pod of this workload", "there are 3"],
    ),
    Situation(
        "many pods for a cluster that is full",
        [node("a", cpu="2"), *app("web", 6, {"containers": [asking(cpu="1")]}, on=["a", "a"])],
        ("deployment", "web"),
        "NotEnoughResources",
        ["not enough cpu", "4 of 6 pods"],
        words_of_remedy="add 2 nodes like a",
    ),
    Situation(
        "an init container is too large",
        [*WORKERS, *app("web", 2, {"initContainers": [{**asking(cpu="30"), "name": "first"}]})],
        ("deployment", "web"),
        "NoNodeLargeEnough",
        ["asks for 30 cpu"],
        words_of_remedy="lower container first's request",
    ),
    Situation(
        "a job whose pods are too large",
        [*SMALL, *workload(Job, "batch", {"containers": [asking(cpu="9")]}, exists=2, parallelism=2, completions=2)],
        ("job", "batch"),
        "NoNodeLargeEnough",
        ["the largest has 4 cpu", "2 of 2 pods"],
    ),
    Situation(
        "a later pod of a stateful set has no node",
        [
            *SMALL,
            *workload(
                StatefulSet,
                "db",
                {"containers": [asking(cpu="3")], **apart("kubernetes.io/hostname", app="db")},
                on=["s0", "s1", "s2"],
                exists=4,
                replicas=4,
                serviceName="db",
            ),
        ],
        ("statefulset", "db"),
        "Fragmented",
        ["enough cpu in sum, on no single node", "1 of 4 pods"],
    ),
    # -- found by using it: pods with a node
    Situation(
        "an evicted pod that was replaced",
        [*WORKERS, *app("web", 1, on=["n0"]), evicted("web")],
        ("deployment", "web"),
        "",
        ["can be scheduled"],
        has_remedy=False,
    ),
    Situation(
        "a finalizer holds a pod",
        [*WORKERS, clock(), pod("web", on="n0", metadata=HELD)],
        ("pod", "web"),
        "StuckTerminating",
        ["should be gone since 5 min", "example.com/backup"],
        has_remedy=False,
    ),
    Situation(
        "a readiness probe fails",
        [*WORKERS, clock(), pod("web", on="n0", status=UNREADY)],
        ("pod", "web"),
        "NotReady",
        ["the readiness probe of container c fails"],
        has_remedy=False,
    ),
    Situation(
        "a container is still being created after minutes",
        [
            *WORKERS,
            clock(),
            pod("web", on="n0", metadata={"creationTimestamp": LONG_AGO}, status=waiting("ContainerCreating")),
        ],
        ("pod", "web"),
        "NotStarted",
        ["has node n0 since 5 min", "ContainerCreating"],
        has_remedy=False,
    ),
    # -- found by playing them on a control plane
    Situation(
        "a quota has no room for the claim of a stateful set's later pod",
        [
            *WORKERS,
            storage_class("fast", "simulation.mooring.dev/volumes"),
            claim("data-db-0", "fast"),
            *workload(StatefulSet, "db", exists=0, replicas=2, serviceName="db", volumeClaimTemplates=[OF_FAST]),
            quota("claims", {"persistentvolumeclaims": "1"}, {"persistentvolumeclaims": "1"}),
        ],
        ("statefulset", "db"),
        "QuotaExceeded",
        ["claim data-db-1 cannot be created", "quota claims"],
        words_of_remedy="raise quota claims: persistentvolumeclaims from 1 to",
    ),
    Situation(
        "a LimitRange is too small for the claims of a stateful set",
        [
            *WORKERS,
            storage_class("fast", "simulation.mooring.dev/volumes"),
            *workload(StatefulSet, "db", exists=0, replicas=1, serviceName="db", volumeClaimTemplates=[OF_FAST]),
            limits(type="PersistentVolumeClaim", max={"storage": "500Mi"}),
        ],
        ("statefulset", "db"),
        "LimitRange",
        ["claim data-db-0 cannot be created", "maximum storage usage"],
        words_of_remedy="let LimitRange limits allow it",
    ),
    Situation(
        "a webhook in the way of a stateful set",
        [*WORKERS, *workload(StatefulSet, "db", replicas=2, serviceName="db"), *WEBHOOK],
        ("statefulset", "db"),
        "WebhookDown",
        ["guard.example.com", "no pod of its Service tools/guard is ready"],
    ),
    Situation(
        "a job reports in an event that a webhook is down",
        [*WORKERS, *workload(Job, "batch", parallelism=2, completions=2), FAILED_CREATE_EVENT],
        ("job", "batch"),
        "WebhookDown",
        ["gone.example.com", "connection refused"],
        has_remedy=False,
    ),
    Situation(
        "a job with parallelism 0",
        [*WORKERS, *workload(Job, "batch", parallelism=0, completions=3)],
        ("job", "batch"),
        "NoParallelism",
        ["parallelism 0"],
    ),
    Situation(
        "a paused deployment whose pods have the old template",
        [*WORKERS, *app("web", 2, old_on=["n0", "n1"], exists=0, deployment={"paused": True})],
        ("deployment", "web"),
        "Paused",
        ["is paused", "2 of its pods have an older template"],
    ),
    Situation(
        "a deployment at zero with an autoscaler",
        [*WORKERS, *app("web", 0), AUTOSCALER],
        ("deployment", "web"),
        "NoReplicas",
        ["scaled to 0", "HorizontalPodAutoscaler does nothing"],
    ),
    Situation(
        "a job of a cron job",
        [*WORKERS, made(CronJob, cron("@daily")), *job_of_cron(selecting(disktype="sdd"))],
        ("job", "nightly-1"),
        "NoSuchLabelValue",
        ["no node has disktype=sdd", "did you mean `ssd`?"],
        words_of_remedy="correct `disktype=sdd` to `disktype=ssd`",
    ),
    Situation(
        "a claim has lost its volume",
        [*WORKERS, lost(claim("data", "fast", volumeName="pv1")), *app("web", 1, claiming("data"))],
        ("deployment", "web"),
        "MissingVolume",
        ["claim default/data is bound to the volume pv1", "the claim is lost"],
    ),
    Situation(
        "a claim waits for a provisioner on the chosen node",
        [
            *WORKERS,
            storage_class("fast"),
            claim("data", "fast", annotations={"volume.kubernetes.io/selected-node": "n1"}),
            *app("web", 1, claiming("data")),
        ],
        ("deployment", "web"),
        "NotProvisioned",
        ["has chosen node n1", "claim default/data waits", "provisioner csi.example.com"],
        has_remedy=False,
    ),
    Situation(
        "a claim without a class, and no default class",
        [*WORKERS, storage_class("fast"), claim("data", None), *app("web", 1, claiming("data"))],
        ("deployment", "web"),
        "NoDefaultClass",
        ["names no StorageClass", "fast"],
        words_of_remedy="give claim default/data the StorageClass fast",
    ),
    Situation(
        "the only node of a volume's zone is cordoned",
        [
            node("a", zone="z0"),
            node("b", zone="z1", taints=["node.kubernetes.io/unschedulable:NoSchedule"], unschedulable=True),
            claim("data", volumeName="pv1"),
            volume("pv1", "z1"),
            *app("web", 1, claiming("data")),
        ],
        ("deployment", "web"),
        "NodesCordoned",
        ["node b is cordoned", "the only node where its volume can be used"],
        words_of_remedy="uncordon node b",
    ),
    Situation(
        "the peers of an affinity are in another namespace",
        [
            *WORKERS,
            pod("cache", on="n2", labels={"app": "cache"}, metadata={"namespace": "data"}),
            *app("web", 2, near("kubernetes.io/hostname", app="cache")),
        ],
        ("deployment", "web"),
        "NoAffinityPeer",
        ["app=cache", "no such pod runs in namespace default, but in data"],
        words_of_remedy="in namespace data",
    ),
    Situation(
        "a pre-release is older than its version",
        [node("a", labels={"kernel": "6.8.0-45-generic"}), *app("web", 1, newer_than("6.8.0"))],
        ("deployment", "web"),
        "BoundNotMet",
        ["'6.8.0-45-generic' is a pre-release of 6.8.0", "older"],
    ),
    Situation(
        "a label that is no version",
        [node("a", labels={"kernel": "six"}), *app("web", 1, newer_than("6.8.0"))],
        ("deployment", "web"),
        "NotAVersion",
        ["`kernel` is a version on none", "'six'"],
    ),
    Situation(
        "the old name of the control plane in label and toleration",
        [
            *WORKERS,
            node("cp", labels={CONTROL_PLANE: ""}, taints=[f"{CONTROL_PLANE}:NoSchedule"]),
            *app("web", 1, {"nodeSelector": {MASTER: ""}, "tolerations": [{"key": MASTER, "operator": "Exists"}]}),
        ],
        ("deployment", "web"),
        "NoSuchLabel",
        ["did you mean `node-role.kubernetes.io/control-plane`?"],
        words_of_remedy="and correct `node-role.kubernetes.io/master=`",
    ),
    Situation(
        "every node has the value that a pod excludes",
        [*SMALL_SPOT, *app("web", 1, required({"key": "pool", "operator": "NotIn", "values": ["spot"]}))],
        ("deployment", "web"),
        "NoMatchingNode",
        ["no node meets `pool NotIn [spot]`;"],
    ),
    Situation(
        "a spread whose emptiest zone is cordoned",
        [
            node("a", zone="z0"),
            node("b", zone="z1", taints=["node.kubernetes.io/unschedulable:NoSchedule"], unschedulable=True),
            *app("web", 2, spread("topology.kubernetes.io/zone", "web"), on=["a"]),
        ],
        ("deployment", "web"),
        "SpreadSkew",
        ["z1 only 0", "b: cordoned"],
        words_of_remedy="uncordon node b",
    ),
    Situation(
        "all pods run, and one more would have no node",
        [node("a", cpu="2"), *app("web", 2, {"containers": [asking(cpu="1")]}, on=["a", "a"])],
        ("deployment", "web"),
        "",
        ["all 2 pods have a node", "one more would have none: not enough cpu"],
        has_remedy=False,
    ),
    Situation(
        "a quota has no room for the surge of a rollout",
        [
            *WORKERS,
            *app("web", 3, old_on=["n0", "n1", "n2"], exists=0),
            quota("few", {"pods": "3"}, {"pods": "3"}),
        ],
        ("deployment", "web"),
        "QuotaExceeded",
        ["quota few", "pods=3"],
        words_of_remedy="raise quota few",
    ),
    Situation(
        "the node that is large enough has a taint",
        [
            *SMALL,
            node("big", cpu="16", taints=["gpu=yes:NoSchedule"]),
            *app("web", 1, {"containers": [asking(cpu="8")]}),
        ],
        ("deployment", "web"),
        "NoNodeLargeEnough",
        ["the largest has 4 cpu", "node big is, and against it: taint gpu=yes:NoSchedule"],
        words_of_remedy="tolerate the taint gpu=yes:NoSchedule",
    ),
    Situation(
        "the claim is in another namespace",
        [*WORKERS, in_namespace(claim("data"), "other"), *app("web", 1, claiming("data"))],
        ("deployment", "web"),
        "MissingClaim",
        ["claim default/data does not exist", "there is one in other"],
    ),
    Situation(
        "a quota refuses the Jobs of a cron job",
        [*WORKERS, made(CronJob, cron("@daily")), refused_job()],
        ("cronjob", "nightly"),
        "QuotaExceeded",
        ["quota jobs", "one more Job needs count/jobs.batch=1"],
        has_remedy=False,
    ),
    Situation(
        "the bridge has not lowered the constraints",
        [*WORKERS, *bridged("web")],
        ("pod", "web"),
        "SchedulingGated",
        ["constraints.mooring.dev/bridge", "does the bridge run"],
        has_remedy=False,
    ),
    Situation(
        "a quota in the only namespace that may be read",
        [*app("web", 3, on=["n0", "n1"], exists=2), quota("few", {"pods": "2"}, {"pods": "2"})],
        ("deployment", "web"),
        "QuotaExceeded",
        ["quota few"],
        missing=FORBIDDEN,
        words_of_remedy="raise quota few",
    ),
    *MISSING_PROVIDERS,
]


def snapshot_of(case: Situation) -> Snapshot:
    return Snapshot("the test", case.objects, missing=case.missing)


@functools.cache
def explained(case: Situation) -> SchedulingExplanation:
    """Explain why the pods of a situation do not run; cached, because three tests of each situation read it."""
    snapshot = snapshot_of(case)
    kind, name = case.question
    return explain(snapshot, find_subject(snapshot, kind, "default", name, case.settings.admission), case.settings)


@pytest.mark.parametrize("case", SITUATIONS, ids=lambda case: case.name)
def test_the_first_line_names_the_cause(case: Situation) -> None:
    found = explained(case)
    first = next(text.format_lines(found))
    assert found.cause == case.code, first
    assert [words for words in case.words if words not in first] == [], first


@pytest.mark.parametrize("case", SITUATIONS, ids=lambda case: case.name)
def test_the_first_remedy_as_printed_helps_the_whole_workload_and_hurts_no_other(case: Situation) -> None:
    found = explained(case)
    assert bool(found.suggestions) == case.has_remedy, [each.summary for each in found.suggestions]
    assert not case.words_to_check or any(case.words_to_check in each for each in found.checks), found.checks
    if not found.suggestions:
        return
    first = found.suggestions[0]
    assert case.words_of_remedy in first.summary, [each.summary for each in found.suggestions]
    assert all(change.command or change.target.kind in ("Node", "CronJob") for change in first.changes)
    if case.question[0] == "cronjob" or "nodes" in case.missing:
        return
    before = simulate(snapshot_of(case), Scenario(), case.settings)
    after = played(snapshot_of(case), first, case)
    owner = f"{found.subject.kind} default/{case.question[1]}"
    assert not [
        group for group in after.pending if owner in group.owners or f"default/{case.question[1]}" in group.owners
    ]
    assert not [group for group in after.rejected if group.name == owner]
    others = {name for group in before.pending for name in group.owners}
    assert {name for group in after.pending for name in group.owners} <= others


def played(snapshot: Snapshot, suggestion: Suggestion, case: Situation) -> Any:
    """Do what the printed patches and objects say, and let controllers and scheduler work."""
    steps: list[Step] = []
    put: list[Any] = []
    gone: list[Any] = []
    for change in suggestion.changes:
        target = change.target
        kind = full_scheme().kind(target.api_version, target.kind)
        assert kind is not None
        old = snapshot.find(kind.type, target.namespace, target.name)
        if change.action == "delete":
            words = change.command.split()
            names = words[words.index("pod") + 1 :] if target.kind == "Pod" else [target.name]
            steps += [Step((Remove(target.kind, target.namespace, name),)) for name in names]
            continue
        tree = change.object if change.action == "create" else apply(change.patch, codec.to_tree(old))
        new: Any = codec.decode_tree(tree, kind.type).object
        if target.kind == "ResourceQuota":
            new.status.hard = dict(new.spec.hard)
        if target.kind == "Node" and not new.spec.unschedulable:
            new.spec.taints = [each for each in new.spec.taints if not each.key.endswith("/unschedulable")]
        if target.kind == "Pod":
            gone.append(old)
        if target.kind in ("Pod", "Deployment"):
            steps.append(Step((Add((new,)),)))
        else:
            put.append(new)
        if target.kind == "Job" and " --force " in change.command:
            steps += [Step((Remove("Pod", "default", each.metadata.name),)) for each in _pods_of(snapshot, target.name)]
        if target.kind in ("StatefulSet", "ReplicaSet", "DaemonSet") and " delete " in change.command:
            words = change.command.partition(" delete ")[2].split()[3:]
            names = [each for each in words if not each.startswith("--")]
            steps += [Step((Remove("Pod", target.namespace, name),)) for name in names]
    after = bind_claims(snapshot.replace(put=put, remove=gone))
    return simulate(after, Scenario(tuple(steps)), case.settings)


def _pods_of(snapshot: Snapshot, job: str) -> list[Pod]:
    return [each for each in snapshot.all(Pod) if any(owner.name == job for owner in each.metadata.owner_references)]


@pytest.mark.req("D.8")
@pytest.mark.parametrize("case", SITUATIONS, ids=lambda case: case.name)
def test_the_dashboard_and_the_survey_agree_with_the_answer(case: Situation) -> None:
    found = explained(case)
    survey = overview(snapshot_of(case), case.settings, remedies=False)
    shown = pending(LiveSnapshot(snapshot_of(case), case.settings, datetime(2026, 11, 18, 12, tzinfo=UTC))).overview
    assert shown == survey
    unwanted = ("", "NoReplicas", "NoParallelism", "Suspended", "NeverDue", "BackoffLimitExceeded")
    if case.code in unwanted or not found.pods or case.question[0] == "daemonset":
        return  # nothing of it is wanted
    answers = {
        (group.cause, group.summary)
        for group in survey.groups
        if any(each.name == case.question[1] for each in group.members)
    }
    if found.state == "Unschedulable" and not found.wanted > 1 and not answers:
        return
    assert (found.cause, found.summary) in answers, answers
