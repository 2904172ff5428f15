"""Integers at the ends of their range, in every field of workloads and of what they own: no controller minds.

Each manifest below is created once for each of its integers and each extreme that the API server admits, in its spec
and in its status, which users with rights to `…/status` write. Then the controllers run. None may fail, and none may
do work or take memory by the size of a number. A quota keeps the pods few.
"""

import copy
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from control_plane import ControlPlane, control_plane
from mooring.api import errors
from mooring.api.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from mooring.api.autoscaling_v2 import HorizontalPodAutoscaler
from mooring.api.batch_v1 import CronJob, Job
from mooring.api.core_v1 import Node, Pod, ReplicationController, ResourceQuota
from mooring.api.from_tree import WrongFieldsError
from mooring.api.meta_v1 import Resource
from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.client import PatchType
from mooring.controllers.run import CONTROLLERS

pytestmark = pytest.mark.req("S.4", "S.6")
Json = dict[str, Any]
EXTREMES = (2**31 - 1, 2**62, -(2**31))
TIMES = ("9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z")
STAMP = "2026-01-01T00:00:00Z"
MEMORY_BYTES = 96 * 1024 * 1024
LABELS = {"app": "a"}
TEMPLATE = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 5},
}
JOB_TEMPLATE = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never", "activeDeadlineSeconds": 60}}  # type: ignore[dict-item]
SELECTED = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
INDEXED = {
    "completions": 3,
    "parallelism": 2,
    "completionMode": "Indexed",
    "backoffLimit": 2,
    "backoffLimitPerIndex": 1,
    "maxFailedIndexes": 1,
    "activeDeadlineSeconds": 60,
    "ttlSecondsAfterFinished": 60,
    "template": JOB_TEMPLATE,
}
MANIFESTS: dict[type[Resource], list[Json]] = {
    Deployment: [
        {
            "spec": {
                **SELECTED,
                "replicas": 1,
                "minReadySeconds": 1,
                "revisionHistoryLimit": 2,
                "progressDeadlineSeconds": 60,
                "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
            },
            "status": {"collisionCount": 1, "observedGeneration": 1, "replicas": 1, "terminatingReplicas": 1},
        }
    ],
    ReplicaSet: [{"spec": {**SELECTED, "replicas": 1, "minReadySeconds": 1}, "status": {"replicas": 1}}],
    ReplicationController: [
        {"spec": {"replicas": 1, "minReadySeconds": 1, "selector": LABELS, "template": TEMPLATE}, "status": {}}
    ],
    StatefulSet: [
        {
            "spec": {
                **SELECTED,
                "serviceName": "s",
                "replicas": 1,
                "minReadySeconds": 1,
                "revisionHistoryLimit": 2,
                "podManagementPolicy": policy,
                "ordinals": {"start": 1},
                "updateStrategy": {"rollingUpdate": {"partition": 1, "maxUnavailable": 1}},
            },
            "status": {"replicas": 1, "collisionCount": 1},
        }
        for policy in ("Parallel", "OrderedReady")
    ],
    DaemonSet: [
        {
            "spec": {
                **SELECTED,
                "minReadySeconds": 1,
                "revisionHistoryLimit": 2,
                "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}},
            },
            "status": {"collisionCount": 1, "currentNumberScheduled": 1, "numberMisscheduled": 1,
                       "desiredNumberScheduled": 1, "numberReady": 1},
        }
    ],
    Job: [
        {
            "spec": INDEXED,
            "status": {"succeeded": 1, "failed": 1, "ready": 0, "active": 1, "startTime": STAMP},
        },
        {
            "spec": {**INDEXED, "successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]}},
            "status": {"completedIndexes": "0-2147483645", "failedIndexes": "1-2147483645"},
        },
        {"spec": {"completions": 3, "parallelism": 2, "template": JOB_TEMPLATE}, "status": {"succeeded": 1}},
    ],
    CronJob: [
        {
            "spec": {
                "schedule": schedule,
                "startingDeadlineSeconds": 60,
                "successfulJobsHistoryLimit": 1,
                "failedJobsHistoryLimit": 1,
                "jobTemplate": {"spec": {"template": JOB_TEMPLATE, "backoffLimit": 1}},
            },
            "status": {"lastScheduleTime": STAMP},
        }
        for schedule in ("* * * * *", "@every 2562047h", f"@every {'9' * 400}h")
    ],
    HorizontalPodAutoscaler: [
        {
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
                "minReplicas": 1,
                "maxReplicas": 2,
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 5}},
                    }
                ],
            },
            "status": {"currentReplicas": 1, "desiredReplicas": 1},
        }
    ],
    PodDisruptionBudget: [
        {
            "spec": {"selector": {"matchLabels": LABELS}, "minAvailable": 1},
            "status": {"currentHealthy": 1, "desiredHealthy": 1, "disruptionsAllowed": 0, "expectedPods": 1,
                       "disruptedPods": {"web": STAMP}},
        }
    ],
    Pod: [
        {
            "metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "5"}},
            "spec": {
                "nodeName": "n",
                "activeDeadlineSeconds": 60,
                "terminationGracePeriodSeconds": 5,
                "containers": [{"name": "c", "image": "i", "command": ["sleep", "5"]}],
                "tolerations": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
            },
            "status": {
                "startTime": STAMP,
                "containerStatuses": [
                    {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 3,
                     "state": {"waiting": {}},
                     "lastState": {"terminated": {"exitCode": 1, "finishedAt": STAMP}}}
                ],
            },
        }
    ],
}  # fmt: skip


def variants(tree: Any) -> Iterator[Any]:
    """Yield the tree with one integer, or one time, at an extreme."""
    if isinstance(tree, bool) or tree is None:
        return
    if isinstance(tree, int):
        yield from EXTREMES
    elif tree == STAMP:
        yield from TIMES
    elif isinstance(tree, dict | list):
        for key, value in list(tree.items() if isinstance(tree, dict) else enumerate(tree)):
            for each in variants(value):
                changed = copy.copy(tree)
                changed[key] = each
                yield changed


async def attack(plane: ControlPlane, kind: type[Resource], manifest: Json) -> int:
    """Create all variants; the number that the server admitted."""
    admitted = 0
    wanted = [{**manifest, "spec": spec} for spec in variants(manifest["spec"])]
    wanted += [{**manifest, "status": status} for status in variants(manifest.get("status", {}))]
    for number, tree in enumerate([manifest, *wanted]):
        meta = {**tree.get("metadata", {}), "name": f"o{number}", "labels": LABELS}
        meta["namespace"] = "default"
        try:
            created = await plane.create(kind, **{**tree, "metadata": meta})
            if tree.get("status"):
                body = {"status": tree["status"]}
                await plane.client.patch(
                    kind, created.metadata.name, body, "default", type=PatchType.MERGE, subresource="status"
                )
        except (errors.Invalid, errors.BadRequest, WrongFieldsError):
            continue
        admitted += 1
    return admitted


@pytest.mark.parametrize("kind", MANIFESTS, ids=lambda kind: kind.__name__)
async def test_no_controller_fails_or_grows_by_the_size_of_a_number(
    kind: type[Resource], caplog: pytest.LogCaptureFixture
) -> None:
    async with control_plane(*(name for name in CONTROLLERS if name != "node-lifecycle")) as plane:
        await plane.node("n")
        body = {"metadata": {"annotations": {"simulation.mooring.dev/node": "true"}}}
        await plane.client.patch(Node, "n", body, type=PatchType.MERGE)
        await plane.create(
            ResourceQuota, metadata={"name": "q", "namespace": "default"}, spec={"hard": {"pods": "150"}}
        )
        await plane.run(1)
        for manifest in MANIFESTS[kind]:
            tracemalloc.start()
            try:
                assert await attack(plane, kind, manifest) > 1
                await plane.run(30)
                assert tracemalloc.get_traced_memory()[1] < MEMORY_BYTES
            finally:
                tracemalloc.stop()
            for each in (await plane.client.list(kind)).items:
                await plane.client.delete(kind, each.metadata.name, "default")
            await plane.run(1)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
