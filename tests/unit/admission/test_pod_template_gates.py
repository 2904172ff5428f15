"""The three new gates in the pod templates of every workload kind: create, update of an old use, and a new use."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from admission_pods import FEATURES, Feature, Tree, create_problems, created, only, relabelled, update_problems, without
from mooring.api import apps_v1, batch_v1, codec, core_v1
from mooring.api.meta_v1 import Resource

TEMPLATE: Tree = {"metadata": {"labels": {"app": "x"}}}
SELECTOR: Tree = {"selector": {"matchLabels": {"app": "x"}}}


def workload(kind: str, cls: type[Resource], api_version: str, wrap: Callable[[Tree], Tree]) -> Any:
    def make(spec: Tree) -> Resource:
        pod_spec = {"containers": [{"name": "c", "image": "i"}], **spec}
        tree = {
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {"name": "w"},
            **wrap({**TEMPLATE, "spec": pod_spec}),
        }
        return codec.decode(msgspec.json.encode(tree), cls).object

    return pytest.param(make, cls, id=kind)


def once(template: Tree) -> Tree:
    return {**template, "spec": {"restartPolicy": "Never", **template["spec"]}}


WORKLOADS = [
    workload("Deployment", apps_v1.Deployment, "apps/v1", lambda t: {"spec": {**SELECTOR, "template": t}}),
    workload("ReplicaSet", apps_v1.ReplicaSet, "apps/v1", lambda t: {"spec": {**SELECTOR, "template": t}}),
    workload(
        "StatefulSet",
        apps_v1.StatefulSet,
        "apps/v1",
        lambda t: {"spec": {**SELECTOR, "serviceName": "s", "template": t}},
    ),
    workload("DaemonSet", apps_v1.DaemonSet, "apps/v1", lambda t: {"spec": {**SELECTOR, "template": t}}),
    workload("Job", batch_v1.Job, "batch/v1", lambda t: {"spec": {"template": once(t), "suspend": True}}),
    workload(
        "CronJob",
        batch_v1.CronJob,
        "batch/v1",
        lambda t: {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": once(t)}}}},
    ),
    workload(
        "ReplicationController",
        core_v1.ReplicationController,
        "v1",
        lambda t: {"spec": {"selector": {"app": "x"}, "template": t}},
    ),
    workload("PodTemplate", core_v1.PodTemplate, "v1", lambda t: {"template": t}),
]


@pytest.mark.parametrize(("make", "cls"), WORKLOADS)
@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.name)
@pytest.mark.req("5471.2", "5471.3a", "5471.3b", "5721.6", "5500.1", "5500.9")
def test_templates_obey_the_gates_as_pods_do(
    feature: Feature, make: Callable[[Tree], Any], cls: type[Resource]
) -> None:
    off = without(feature.gate)
    assert create_problems(make(feature.spec), only(feature.gate)) == []
    assert len(create_problems(make(feature.spec), off)) == 1
    using, plain = created(make(feature.spec)), created(make({}))
    assert update_problems(relabelled(using), using, off) == []
    if cls is not batch_v1.Job:  # a Job's template is immutable, or nearly so
        added = make(feature.spec)
        added.metadata.resource_version = "1"
        assert update_problems(added, plain, off) != []
        assert update_problems(added, plain, only(feature.gate)) == []
