"""For each Filter plugin of the default profile: who refuses, why in detail, and that the first suggestion helps.

The suggestion is applied to the cluster as a user would, by its patches, and then the scheduler is asked again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from applied_advice import applied
from mooring.advisor.explain import explain, find_subject
from mooring.advisor.snapshot import Snapshot, engine
from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from mooring.api.storage_v1 import CSINode, StorageClass
from mooring.scheduler.framework.profiles import DEFAULT_PLUGINS
from mooring.testing.builders import made, node, pod

pytestmark = pytest.mark.req("S.5")

ZONE = "topology.kubernetes.io/zone"
CLAIM = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


def claim(name: str = "data", **spec: Any) -> PersistentVolumeClaim:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if "volumeName" in spec else {}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return made(PersistentVolumeClaim, {"metadata": metadata, "spec": wanted})


def volume(name: str, labels: dict[str, str] | None = None, **spec: Any) -> PersistentVolume:
    wanted = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, **spec}
    return made(PersistentVolume, {"metadata": {"name": name, "labels": labels or {}}, "spec": wanted})


def csi_volume(name: str) -> PersistentVolume:
    return volume(name, hostPath=None, csi={"driver": "csi.example.com", "volumeHandle": name})


def storage_class(name: str, provisioner: str) -> StorageClass:
    tree = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    return made(StorageClass, tree)


def device_claim(count: int, selector: str = "", name: str = "gpu") -> ResourceClaim:
    selectors = [{"cel": {"expression": selector}}] if selector else []
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, "selectors": selectors}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    return made(ResourceClaim, {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec})


def devices(on: str, *names: str, taint: str = "") -> ResourceSlice:
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    spec = {
        "driver": "gpu.example.com",
        "nodeName": on,
        "pool": {"name": on, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": name, "taints": taints, "attributes": {"model": {"string": "a"}}} for name in names],
    }
    return made(ResourceSlice, {"metadata": {"name": f"{on}-gpus"}, "spec": spec})


GPU = made(DeviceClass, {"metadata": {"name": "gpu"}, "spec": {}})
WANTS_GPU = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}


def affinity(*requirements: dict[str, Any], cel: Sequence[str] = ()) -> dict[str, Any]:
    term = {"matchExpressions": list(requirements), "matchCELExpressions": list(cel)}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"affinity": {"nodeAffinity": required}}


def pod_affinity(kind: str, app: str, key: str = ZONE) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(**more: Any) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **more}
    constraint["labelSelector"] = {"matchLabels": {"app": "web"}}
    return {"topologySpreadConstraints": [constraint]}


@dataclass(frozen=True)
class Case:
    name: str
    plugin: str
    cluster: list[Resource]
    pod: Pod
    detail: str
    suggestion: str
    command: str = "kubectl "
    others: list[str] = field(default_factory=list)
    """Words of which each is in one of the further suggestions."""


CASES = [
    Case(
        "a cordoned node is uncordoned",
        "NodeUnschedulable",
        [node("a", unschedulable=True)],
        pod("web"),
        "cordoned: spec.unschedulable is true",
        "uncordon node a",
        "kubectl uncordon a",
    ),
    Case(
        "a pod that names a node which is not there lets the scheduler choose",
        "NodeName",
        [node("a")],
        pod("web", on="gone", status={"phase": "Pending"}),
        "",
        "let the scheduler choose: drop spec.nodeName gone",
        "| kubectl replace --force -f -",
    ),
    Case(
        "a taint that is just below a bound lowers the bound",
        "TaintToleration",
        [node("a", taints=["sla=940:NoSchedule"]), node("b", taints=["sla=900:NoSchedule"])],
        pod("web", spec={"tolerations": [{"key": "sla", "operator": "Gt", "value": "950"}]}),
        "taint sla=940:NoSchedule is not tolerated: `Gt 950` needs more than 950",
        "lower the bound of the toleration `sla Gt 950` to 939",
        "| kubectl replace --force -f -",
        ["tolerate the taint sla=940:NoSchedule", "remove sla=940:NoSchedule from node a"],
    ),
    Case(
        "a version that is too low lowers the bound",
        "TaintToleration",
        [node("a", taints=["driver=1.4.2:NoExecute"])],
        pod("web", spec={"tolerations": [{"key": "driver", "operator": "SemverGt", "value": "1.5.0"}]}),
        "taint driver=1.4.2:NoExecute is not tolerated: `SemverGt 1.5.0` needs a version above 1.5.0",
        "lower the bound of the toleration `driver SemverGt 1.5.0` to 1.4.1",
    ),
    Case(
        "a taint that nothing is about is tolerated",
        "TaintToleration",
        [node("a", taints=["team=blue:NoSchedule", "gpu:NoSchedule"])],
        pod("web"),
        "taint team=blue:NoSchedule is not tolerated; taint gpu:NoSchedule is not tolerated",
        "tolerate the taints team=blue:NoSchedule and gpu:NoSchedule",
        "kubectl patch -n default pod web --type=json",
    ),
    Case(
        "an expression over a taint says which part is false",
        "TaintToleration",
        [node("a", taints=["sla=940:NoSchedule"])],
        pod("web", spec={"tolerations": [{"expression": "taint.key == 'sla' && int(taint.value) > 950"}]}),
        "in `taint.key == 'sla' && int(taint.value) > 950` `int(taint.value) > 950` is false: taint.value is '940'",
        "tolerate the taint sla=940:NoSchedule",
    ),
    Case(
        "a node selector is met by a label",
        "NodeAffinity",
        [node("a", labels={"disk": "hdd"}), node("b")],
        pod("web", spec={"nodeSelector": {"disk": "ssd"}}),
        "`disk=ssd` does not hold: there is no such label",
        "label node b with disk=ssd",
        "kubectl label node b disk=ssd",
        ["drop the nodeSelector disk"],
    ),
    Case(
        "a numeric requirement lowers its bound",
        "NodeAffinity",
        [node("a", labels={"gen": "4"})],
        pod("web", spec=affinity({"key": "gen", "operator": "Gt", "values": ["5"]})),
        "`gen Gt 5` does not hold: the label is '4'",
        "lower the bound of `gen Gt 5` to 3",
        others=["label node a with gen=6"],
    ),
    Case(
        "an expression over labels is dropped, or met by a label",
        "NodeAffinity",
        [node("a", labels={"tier": "silver"})],
        pod("web", spec=affinity(cel=["'tier' in node.labels && node.labels['tier'] == 'gold'"])),
        "in `'tier' in node.labels && node.labels['tier'] == 'gold'` `node.labels['tier'] == 'gold'` is false:"
        " node.labels['tier'] is 'silver'",
        "drop the condition `'tier' in node.labels && node.labels['tier'] == 'gold'`",
        "| kubectl replace --force -f -",
        ["label node a with tier=gold"],
    ),
    Case(
        "a taken port is changed",
        "NodePorts",
        [
            node("a"),
            pod("holder", on="a", spec={"containers": [{"name": "c", "image": "i", "ports": [{"hostPort": 80}]}]}),
        ],
        pod(
            "web", spec={"containers": [{"name": "c", "image": "i", "ports": [{"hostPort": 80, "containerPort": 80}]}]}
        ),
        "host port 80/TCP taken by default/holder",
        "change the host port 80 to 81",
        others=["delete pod default/holder"],
    ),
    Case(
        "a request that is a little too large is lowered",
        "NodeResourcesFit",
        [node("a"), pod("big", on="a", cpu="2500m"), node("b"), pod("bigger", on="b", cpu="3500m")],
        pod("web", cpu="2"),
        "asks for cpu 2, at most 1500m is free (a)",
        "lower container c's request for cpu from 2 to 1500m",
        others=["delete pod default/big, which frees 500m cpu on node a"],
    ),
    Case(
        "a kubelet that lacks a feature is upgraded",
        "NodeDeclaredFeatures",
        [node("a")],
        pod("web", spec={"hostNetwork": True, "hostUsers": False}),
        "node(s) didn't match Pod's required features",
        "upgrade the kubelet of node a, so that it declares UserNamespacesHostNetworkSupport",
        "",
    ),
    Case(
        "a node with too many pods gets company or loses one",
        "NodeResourcesFit",
        [node("a", pods="1"), pod("only", on="a")],
        pod("web"),
        "has 1 pods, and cannot have more than 1",
        "add a node like a",
        "",
        ["delete pod default/only, which frees room for a pod on node a"],
    ),
    Case(
        "a disk that is mounted elsewhere on the node is freed",
        "VolumeRestrictions",
        [
            node("a"),
            pod("holder", on="a", spec={"volumes": [{"name": "d", "awsElasticBlockStore": {"volumeID": "v"}}]}),
        ],
        pod("web", spec={"volumes": [{"name": "d", "awsElasticBlockStore": {"volumeID": "v"}}]}),
        "default/holder has a disk that cannot be mounted twice",
        "delete pod default/holder",
    ),
    Case(
        "a claim for one pod is freed",
        "VolumeRestrictions",
        [
            node("a"),
            claim(volumeName="v", accessModes=["ReadWriteOncePod"]),
            volume("v", accessModes=["ReadWriteOncePod"]),
            pod("holder", on="a", spec=CLAIM),
        ],
        pod("web", spec=CLAIM),
        "default/holder uses a claim that only one pod may use (ReadWriteOncePod)",
        "delete pod default/holder, which uses the claim",
    ),
    Case(
        "a claim that is not there is created",
        "VolumeRestrictions",
        [node("a"), storage_class("fast", "csi.example.com")],
        pod("web", spec=CLAIM),
        'persistentvolumeclaim "data" not found',
        "create the claim default/data of 1Gi",
        "| kubectl create -f -",
    ),
    Case(
        "a claim that is bound to nothing gets a volume",
        "VolumeBinding",
        [node("a"), claim(storageClassName="")],
        pod("web", spec=CLAIM),
        "claim default/data (1Gi, ReadWriteOnce, no class) is bound to no volume",
        "create a PersistentVolume of 1Gi for claim default/data",
    ),
    Case(
        "a claim that waits for a pod gets a volume",
        "VolumeBinding",
        [node("a"), storage_class("local", "kubernetes.io/no-provisioner"), claim(storageClassName="local")],
        pod("web", spec=CLAIM),
        "claim default/data (1Gi, ReadWriteOnce, class local) is bound to no volume, and there is none for it here",
        "create a PersistentVolume of 1Gi for claim default/data",
    ),
    Case(
        "a volume in another zone needs a node there",
        "VolumeZone",
        [node("a", zone="z1"), claim(volumeName="v"), volume("v", {ZONE: "z2"})],
        pod("web", spec=CLAIM),
        f"volume v is in {ZONE}=z2, the node in {ZONE}=z1",
        f"label node a with {ZONE}=z2",
        others=[f"label volume v with {ZONE}=z1"],
    ),
    Case(
        "a node with as many volumes as it can have loses one",
        "NodeVolumeLimits",
        [
            node("a"),
            made(
                CSINode,
                {
                    "metadata": {"name": "a"},
                    "spec": {"drivers": [{"name": "csi.example.com", "nodeID": "a", "allocatable": {"count": 1}}]},
                },
            ),
            claim(volumeName="v"),
            csi_volume("v"),
            claim("other", volumeName="w"),
            csi_volume("w"),
            pod(
                "holder",
                on="a",
                spec={"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "other"}}]},
            ),
        ],
        pod("web", spec=CLAIM),
        "the node can have at most 1 volumes of csi.example.com, and has as many",
        "delete pod default/holder, which has such a volume on node a",
    ),
    Case(
        "a skew that is too large is allowed",
        "PodTopologySpread",
        [
            node("a", zone="z1"),
            node("b", zone="z2", taints=["node.kubernetes.io/not-ready:NoSchedule"]),
            pod("web-1", on="a", labels={"app": "web"}),
        ],
        pod("web-2", labels={"app": "web"}, spec=spread()),
        f"{ZONE}=z1 has 1 matching pods, the least is 0 (z2): one more would be a skew of 2, maxSkew is 1",
        f"raise maxSkew of {ZONE} to 2",
        others=["as far as possible only"],
    ),
    Case(
        "a node without the topology's label gets it",
        "PodTopologySpread",
        [node("a")],
        pod("web", labels={"app": "web"}, spec=spread()),
        f"the node has no label {ZONE}, which a spread constraint asks for",
        f"label node a with {ZONE}=a",
    ),
    Case(
        "affinity to a pod that is nowhere becomes a preference",
        "InterPodAffinity",
        [node("a", zone="z1")],
        pod("web", spec=pod_affinity("podAffinity", "cache")),
        f"no pod with app=cache is in {ZONE}=z1",
        "make the affinity to pods with app=cache a preference",
        others=["drop the affinity"],
    ),
    Case(
        "anti-affinity names who is in the way",
        "InterPodAffinity",
        [node("a", zone="z1"), pod("rival", on="a", labels={"app": "rival"})],
        pod("web", spec=pod_affinity("podAntiAffinity", "rival")),
        f"in {ZONE}=z1 there is default/rival, from which anti-affinity (app=rival) keeps away",
        "make the anti-affinity to pods with app=rival a preference",
        others=["delete pod default/rival"],
    ),
    Case(
        "the anti-affinity of others names its owner",
        "InterPodAffinity",
        [node("a", zone="z1"), pod("rival", on="a", spec=pod_affinity("podAntiAffinity", "web"))],
        pod("web", labels={"app": "web"}),
        f"in {ZONE}=z1 there is default/rival, whose anti-affinity (app=web) keeps this pod away",
        "delete pod default/rival",
    ),
    Case(
        "too few devices are asked for fewer",
        "DynamicResources",
        [node("a"), GPU, devices("a", "g0"), device_claim(2)],
        pod("web", spec=WANTS_GPU),
        "request gpu of claim default/gpu asks for 2 of gpu; of 1 that fit 1 are free",
        "let request gpu of claim default/gpu ask for 1 instead of 2",
    ),
    Case(
        "a selector that chooses no device is dropped",
        "DynamicResources",
        [node("a"), GPU, devices("a", "g0"), device_claim(1, "device.attributes['gpu.example.com'].model == 'b'")],
        pod("web", spec=WANTS_GPU),
        "none of 1 devices is selected by `device.attributes['gpu.example.com'].model == 'b'`",
        "drop the selector",
    ),
    Case(
        "a selector that fails is dropped",
        "DynamicResources",
        [node("a"), GPU, devices("a", "g0"), device_claim(1, "device.attributes['gpu.example.com'].size > 2")],
        pod("web", spec=WANTS_GPU),
        "selector #0 on device gpu.example.com/a/g0: CEL runtime error: no such key: size",
        "drop the selector",
    ),
    Case(
        "a node that is too small and full is asked for less, and emptied",
        "NodeResourcesFit",
        [node("a", cpu="1", pods="9"), pod("big", on="a", cpu="1")],
        pod("web", cpu="3"),
        "asks for cpu 3, and the node has 1",
        "lower container c's request for cpu from 3 to 1, and delete pod default/big, which frees 1 cpu on node a",
    ),
    Case(
        "a device with a taint is tolerated",
        "DynamicResources",
        [node("a"), GPU, devices("a", "g0", taint="worn"), device_claim(1)],
        pod("web", spec=WANTS_GPU),
        "1 of 1 that fit have the taint worn=:NoSchedule, which it does not tolerate",
        "let request gpu of claim default/gpu tolerate the device taint worn",
    ),
    Case(
        "a class that is not there is created",
        "DynamicResources",
        [node("a"), devices("a", "g0"), device_claim(1)],
        pod("web", spec=WANTS_GPU),
        "request gpu: device class gpu does not exist",
        "create the DeviceClass gpu",
    ),
    Case(
        "a gate is opened",
        "SchedulingGates",
        [node("a")],
        pod("web", spec={"schedulingGates": [{"name": "example.com/quota"}]}),
        "",
        "remove the scheduling gate example.com/quota",
        "kubectl patch -n default pod web --type=json",
    ),
]


def cluster_of(case: Case) -> Snapshot:
    return Snapshot("the test", [*case.cluster, case.pod])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_refusal_is_reported_in_detail(case: Case) -> None:
    found = explain(cluster_of(case), case.pod)
    assert found.state in ("Unschedulable", "NotAttempted")
    if case.detail:
        assert case.detail in "\n".join(f"{each.plugin}: {each.detail}" for each in found.refusals)
        assert case.plugin in {each.plugin for each in found.refusals}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_first_suggestion_helps_when_it_is_applied(case: Case) -> None:
    snapshot = cluster_of(case)
    found = explain(snapshot, case.pod)
    assert found.suggestions, found
    first = found.suggestions[0]
    assert first.summary.startswith(case.suggestion) or case.suggestion in first.summary
    assert case.plugin in first.plugins
    assert any(case.command in change.command for change in first.changes), first.changes
    after = applied(snapshot, first)
    again = explain(after, find_subject(after, "pod", "default", case.pod.metadata.name))
    assert again.state == "Schedulable", again
    assert (again.node, again.feasible_nodes) == (first.node, first.feasible_nodes)
    shown = [suggestion.summary for suggestion in found.suggestions[1:]]
    for words in case.others:
        assert any(words in text for text in shown), shown


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_suggestion_helps(case: Case) -> None:
    snapshot = cluster_of(case)
    for suggestion in explain(snapshot, case.pod, suggestions=8).suggestions:
        after = applied(snapshot, suggestion)
        waiting = after.find(Pod, "default", case.pod.metadata.name)
        assert waiting is not None
        assert engine(after).schedule(waiting).node == suggestion.node, suggestion.summary


def test_there_is_a_case_for_every_filter_plugin_of_the_default_profile() -> None:
    scoring_only = {
        "PrioritySort",
        "DefaultPreemption",
        "NodeResourcesBalancedAllocation",
        "ImageLocality",
        "DefaultBinder",
    }
    assert {use.name for use in DEFAULT_PLUGINS} - scoring_only == {case.plugin for case in CASES}
