"""How workloads, policies, storage and devices look in JSON and how they merge."""

import json
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from mooring.api import (
    apps_v1,
    batch_v1,
    policy_v1,
    resource_v1,
    scheduling_v1,
    storage_v1,
)
from mooring.api.base import Merge, Object, merge_of
from mooring.api.kinds import KINDS, Kind
from mooring.api.meta_v1 import Resource, ResourceList
from mooring.api.quantity import Quantity


def encoded(value: Object) -> Any:
    return json.loads(msgspec.json.encode(value, enc_hook=str))


@dataclass(frozen=True)
class Written:
    id: str
    value: Object
    json: dict[str, Any]


WRITTEN = [
    Written(
        "a Deployment writes its structs even when they are empty",
        apps_v1.Deployment(),
        {
            "metadata": {},
            "spec": {"selector": None, "template": {"metadata": {}, "spec": {"containers": []}}, "strategy": {}},
            "status": {},
        },
    ),
    Written("no replicas are told from no word about them", apps_v1.DeploymentSpec(replicas=0), {
        "replicas": 0, "selector": None, "template": {"metadata": {}, "spec": {"containers": []}}, "strategy": {},
    }),
    Written("a ReplicaSet writes its replicas always", apps_v1.ReplicaSetStatus(), {"replicas": 0}),
    Written("a DaemonSet writes the numbers that kubectl shows", apps_v1.DaemonSetStatus(), {
        "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
    }),
    Written("a percentage stays a text", apps_v1.RollingUpdateDeployment(max_surge="25%", max_unavailable=1), {
        "maxUnavailable": 1, "maxSurge": "25%",
    }),
    Written("a budget writes its numbers always", policy_v1.PodDisruptionBudgetStatus(), {
        "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
    }),
    Written("a priority of 0 is written", scheduling_v1.PriorityClass(), {"metadata": {}, "value": 0}),
    Written("a driver's node id keeps its spelling", storage_v1.CSINodeDriver(name="d", node_id="n"), {
        "name": "d", "nodeID": "n", "topologyKeys": [],
    }),
    Written("a job that never was looked at writes null", batch_v1.JobCondition(type="Complete", status="True"), {
        "type": "Complete", "status": "True", "lastProbeTime": None, "lastTransitionTime": None,
    }),
    Written("attributes have the names of their types",
            resource_v1.DeviceAttribute(int_value=0, version_values=["1.0.0"]), {"int": 0, "versions": ["1.0.0"]}),
    Written("a share's id keeps its spelling",
            resource_v1.AllocatedDeviceStatus(driver="d", pool="p", device="x", share_id="s"),
            {"driver": "d", "pool": "p", "device": "x", "shareID": "s"}),
    Written("a capacity without a value is 0", resource_v1.DeviceCapacity(), {"value": "0"}),
]  # fmt: skip


@pytest.mark.parametrize("case", WRITTEN, ids=lambda case: case.id)
def test_what_is_written(case: Written) -> None:
    assert encoded(case.value) == case.json


def test_fields_are_written_in_kubernetes_order() -> None:
    claim = resource_v1.ResourceClaim(api_version="resource.k8s.io/v1", kind="ResourceClaim")
    assert list(encoded(claim)) == ["kind", "apiVersion", "metadata", "spec", "status"]


@dataclass(frozen=True)
class Merged:
    id: str
    owner: type[Object]
    field: str
    merge: Merge | None


MERGED = [
    Merged("conditions of a Deployment go by type", apps_v1.DeploymentStatus, "conditions",
           Merge("map", ("type",), "type", ("merge",))),
    Merged("a patch of the strategy keeps only the keys it names", apps_v1.DeploymentSpec, "strategy",
           Merge("granular", patch_strategies=("retainKeys",))),
    Merged("apply replaces the conditions of a Job, a patch merges them", batch_v1.JobStatus, "conditions",
           Merge("atomic", patch_key="type", patch_strategies=("merge",))),
    Merged("a patch replaces the selector of a budget", policy_v1.PodDisruptionBudgetSpec, "selector",
           Merge("atomic", patch_strategies=("replace",))),
    Merged("drivers of a node go by name", storage_v1.CSINodeSpec, "drivers",
           Merge("map", ("name",), "name", ("merge",))),
    Merged("consumers of a claim go by uid", resource_v1.ResourceClaimStatus, "reserved_for",
           Merge("map", ("uid",), "uid", ("merge",))),
    Merged("reported devices go by four keys, for apply only", resource_v1.ResourceClaimStatus, "devices",
           Merge("map", ("driver", "device", "pool", "shareID"))),
    Merged("devices of a slice are replaced whole", resource_v1.ResourceSliceSpec, "devices", None),
]  # fmt: skip


@pytest.mark.parametrize("case", MERGED, ids=lambda case: case.id)
def test_how_fields_merge(case: Merged) -> None:
    fields = {field.name: field for field in msgspec.structs.fields(case.owner)}
    assert merge_of(fields[case.field]) == case.merge


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version} {kind.kind}")
def test_every_kind_has_the_types_of_a_resource_and_its_list(kind: Kind) -> None:
    assert issubclass(kind.type, Resource)
    assert kind.type.__name__ == kind.kind
    if kind.stored:
        assert kind.list_type is not None
        assert issubclass(kind.list_type, ResourceList)
        assert kind.list_type.__name__ == kind.list_kind


def test_quantities_of_devices_are_read() -> None:
    capacity = msgspec.json.decode(
        b'{"value": "40Gi"}', type=resource_v1.DeviceCapacity, dec_hook=lambda _, text: Quantity.parse(text)
    )
    assert capacity.value == Quantity.parse("40Gi")
