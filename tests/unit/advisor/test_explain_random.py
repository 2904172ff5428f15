"""Random clusters: every refusal has a reason of its own, and every suggestion helps when it is applied."""

import random
from typing import Any

import pytest

from applied_advice import applied
from mooring.advisor.explain import explain
from mooring.advisor.snapshot import Snapshot, engine
from mooring.api.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from mooring.api.scheduling_v1 import PriorityClass
from mooring.testing.builders import ZONE, made, node, pod

pytestmark = pytest.mark.req("S.5")

HOST = "kubernetes.io/hostname"
KERNELS = ["6.1", "6.8.0", "5.15.2", "old"]
WITH_DETAILS = frozenset(
    {"NodeAffinity", "TaintToleration", "NodeResourcesFit", "NodePorts", "PodTopologySpread", "InterPodAffinity"}
)
"""Plugins whose refusals are always explained in more detail than by the event's text."""


class Dice(random.Random):
    def chance(self, part: float) -> bool:
        return self.random() < part


def random_node(dice: Dice, number: int) -> Node:
    taints = [f"sla={dice.choice([900, 940, 960])}:NoSchedule"] if dice.chance(0.4) else []
    taints += [f"kernel={dice.choice(KERNELS)}:NoExecute"] if dice.chance(0.2) else []
    labels = {"kernel": dice.choice(KERNELS)} if dice.chance(0.7) else {}
    labels |= {"gen": str(dice.randrange(6))} if dice.chance(0.7) else {}
    return node(
        f"n{number}",
        cpu=dice.choice(["1", "2", "4"]),
        pods=dice.choice(["2", "110"]),
        zone=dice.choice(["", "z1", "z2"]),
        taints=taints,
        labels=labels,
        unschedulable=dice.chance(0.15),
    )


def requirement(dice: Dice) -> dict[str, Any]:
    return dice.choice(
        [
            {"key": "kernel", "operator": "SemverGt", "values": [dice.choice(["6.0", "6.5.1", "7.0.0"])]},
            {"key": "kernel", "operator": "SemverLt", "values": ["5.0.0"]},
            {"key": "gen", "operator": "Gt", "values": [str(dice.randrange(8))]},
            {"key": "gen", "operator": "In", "values": ["7", "8"]},
            {"key": "gen", "operator": "DoesNotExist"},
            {"key": "disk", "operator": "Exists"},
        ]
    )


def expressions(dice: Dice) -> list[str]:
    return dice.choice(
        [
            [],
            ["'gen' in node.labels && int(node.labels['gen']) > 4"],
            ["node.labels['kernel'] == '6.8.0' || node.labels['gen'] == '9'"],
            ["!('kernel' in node.labels)"],
        ]
    )


def tolerations(dice: Dice) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if dice.chance(0.5):
        found.append({"key": "sla", "operator": dice.choice(["Gt", "Lt"]), "value": dice.choice(["930", "950", "970"])})
    if dice.chance(0.3):
        found.append({"key": "kernel", "operator": "SemverGt", "value": "6.5.0"})
    if dice.chance(0.2):
        found.append({"expression": "taint.key == 'sla' && int(taint.value) > 950"})
    return found


def affinity(dice: Dice) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if dice.chance(0.4):
        term = {"matchExpressions": [requirement(dice)], "matchCELExpressions": expressions(dice)}
        terms = [term] * dice.choice([1, 1, 2])
        found["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    for kind in ("podAffinity", "podAntiAffinity"):
        if dice.chance(0.2):
            selector = {"matchLabels": {"app": dice.choice("ab")}}
            wanted = [{"labelSelector": selector, "topologyKey": dice.choice([ZONE, HOST])}]
            found[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": wanted}
    return found


def random_pod(dice: Dice, name: str, on: str = "") -> Pod:
    container: dict[str, Any] = {"name": "c", "image": "app:1"}
    container["resources"] = {"requests": {"cpu": dice.choice(["100m", "900m", "1500m", "3"])}}
    if dice.chance(0.2):
        container["ports"] = [{"containerPort": 80, "hostPort": dice.choice([80, 81])}]
    spec: dict[str, Any] = {"containers": [container], "affinity": affinity(dice), "tolerations": tolerations(dice)}
    if not on and dice.chance(0.2):
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": dice.choice([ZONE, HOST]),
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "a"}},
                "minDomains": dice.choice([None, 3]),
            }
        ]
    if not on and dice.chance(0.1):
        spec["schedulingGates"] = [{"name": "example.com/gate"}]
    if not on and dice.chance(0.15):
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": dice.choice(["data", "none"])}}]
    if not on and dice.chance(0.15):
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": dice.choice(["gpu", "none"])}]
    return pod(name, on=on, spec=spec, labels={"app": dice.choice("ab")}, priority=dice.choice([0, 0, 5]))


def random_cluster(dice: Dice) -> list[Resource]:
    nodes = [random_node(dice, number) for number in range(dice.randint(1, 6))]
    pods = [random_pod(dice, f"p{index}", dice.choice(nodes).metadata.name) for index in range(dice.randint(0, 8))]
    claim = {
        "metadata": {"name": "data", "namespace": "default", "uid": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": dice.randint(1, 3)}
    requests = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    slice_ = {
        "driver": "gpu.example.com",
        "nodeName": "n0",
        "pool": {"name": "n0", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "g0"}, {"name": "g1", "taints": [{"key": "worn", "effect": "NoSchedule"}]}],
    }
    return [
        *nodes,
        *pods,
        made(PersistentVolumeClaim, claim),
        made(PersistentVolume, {"metadata": {"name": "v", "labels": {ZONE: "z1"}}, "spec": volume}),
        made(DeviceClass, {"metadata": {"name": "gpu"}}),
        made(ResourceSlice, {"metadata": {"name": "s"}, "spec": slice_}),
        made(ResourceClaim, {"metadata": {"name": "gpu", "namespace": "default", "uid": "gpu"}, "spec": requests}),
        made(PriorityClass, {"metadata": {"name": "high"}, "value": 100}),
    ]


@pytest.mark.parametrize("seed", range(8))
def test_refusals_have_reasons_and_suggestions_help(seed: int) -> None:
    dice = Dice(seed)
    helped = 0
    for number in range(12):
        wanted = random_pod(dice, "incoming")
        snapshot = Snapshot("chance", [*random_cluster(dice), wanted])
        found = explain(snapshot, wanted)
        for refusal in found.refusals:
            assert refusal.detail, refusal
            if refusal.plugin in WITH_DETAILS:
                assert refusal.detail not in refusal.reasons, (seed, number, refusal)
        for suggestion in found.suggestions:
            if suggestion.plugins != ["DefaultPreemption"]:
                after = applied(snapshot, suggestion)
                waiting = after.find(Pod, "default", "incoming")
                assert waiting is not None
                assert engine(after).schedule(waiting).node is not None, (seed, number, suggestion.summary)
                assert not waiting.spec.scheduling_gates
                helped += 1
    assert helped > 5
