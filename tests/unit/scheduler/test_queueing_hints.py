"""Which events wake a pod that a plugin refused: those that can change the plugin's mind, and no others."""

from dataclasses import dataclass
from typing import Any

import pytest

from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework import Action, ClusterEvent, EnqueueExtensions, EventWithHint, Kind, QueueingHint
from mooring.testing.builders import HOSTNAME, ZONE, node, pod

pytestmark = pytest.mark.req("5721.8")


def wakes(plugin: str, wanted: Any, event: ClusterEvent, old: Any, new: Any, *placed: Any) -> bool:
    """As the queue asks: some registered event covers what happened, and its hint says so."""
    engine = Engine()
    for thing in placed:
        engine.put(thing)
    registered: list[EventWithHint] = []
    for entry in engine.profiles["default-scheduler"].plugins:
        if entry.name == plugin and isinstance(entry, EnqueueExtensions):
            registered += entry.events_to_register()
    assert registered
    covering = [entry for entry in registered if entry.event.covers(event)]
    return any(entry.hint is None or entry.hint(wanted, old, new) is QueueingHint.QUEUE for entry in covering)


@dataclass(frozen=True)
class NodeCase:
    plugin: str
    name: str
    wanted: Any
    old: Any
    new: Any
    wakes: bool
    action: Action | None = None


def affine(**expression: Any) -> dict[str, Any]:
    terms = [{"matchExpressions": [expression]}]
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


def near(kind: str = "podAffinity", key: str = ZONE, app: str = "web") -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(**more: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [{**rule, **more}]}


GT = pod("p", spec={"tolerations": [{"key": "sla", "operator": "Gt", "value": "900"}]})
SEMVER = pod("p", spec=affine(key="kernel", operator="SemverGt", values=["5.10"]))
LABEL, TAINT = Action.UPDATE_NODE_LABEL, Action.UPDATE_NODE_TAINT


def sla(value: str) -> Any:
    return node("a", taints=[f"sla={value}:NoSchedule"])


def kernel(value: str) -> Any:
    return node("a", labels={"kernel": value})


NODES = [
    NodeCase("TaintToleration", "a taint becomes tolerated", GT, sla("900"), sla("950"), True, TAINT),
    NodeCase("TaintToleration", "a taint goes", GT, sla("900"), node("a"), True, TAINT),
    NodeCase("TaintToleration", "a taint stays untolerated", GT, sla("800"), sla("850"), False, TAINT),
    NodeCase("TaintToleration", "it was tolerated before", GT, sla("950"), sla("960"), False, TAINT),
    NodeCase("TaintToleration", "a node that will do comes", GT, None, sla("950"), True),
    NodeCase("TaintToleration", "a node that will not do comes", GT, None, sla("900"), False),
    NodeCase("TaintToleration", "a label changes", GT, kernel("5.4"), kernel("6.1"), False, LABEL),
    NodeCase("NodeAffinity", "a version becomes new enough", SEMVER, kernel("5.4"), kernel("6.1"), True, LABEL),
    NodeCase("NodeAffinity", "another label changes", SEMVER, kernel("5.4"), node("a", zone="z"), False, LABEL),
    NodeCase("NodeAffinity", "it matched before", SEMVER, kernel("5.11"), kernel("6.1"), False, LABEL),
    NodeCase("NodeAffinity", "a node that matches comes", SEMVER, None, kernel("6.1"), True),
    NodeCase("NodeAffinity", "a taint changes", SEMVER, sla("1"), sla("2"), False, TAINT),
    NodeCase("NodeUnschedulable", "it is uncordoned", pod("p"), node("a", unschedulable=True), node("a"), True, TAINT),
    NodeCase("NodeUnschedulable", "it is cordoned", pod("p"), node("a"), node("a", unschedulable=True), False, TAINT),
    NodeCase("NodeName", "the node comes", pod("p", spec={"nodeName": "a"}), None, node("a"), True),
    NodeCase("NodeName", "another comes", pod("p", spec={"nodeName": "a"}), None, node("b"), False),
    NodeCase(
        "NodeResourcesFit",
        "it has grown",
        pod("p", cpu="4"),
        node("a", cpu="2"),
        node("a", cpu="4"),
        True,
        Action.UPDATE_NODE_ALLOCATABLE,
    ),
    NodeCase(
        "NodeResourcesFit",
        "it has not grown enough",
        pod("p", cpu="4"),
        node("a", cpu="2"),
        node("a", cpu="3"),
        False,
        Action.UPDATE_NODE_ALLOCATABLE,
    ),
    NodeCase(
        "NodeResourcesFit",
        "it has grown in something else",
        pod("p", cpu="4"),
        node("a", cpu="4", memory="1Gi"),
        node("a", cpu="4", memory="2Gi"),
        False,
        Action.UPDATE_NODE_ALLOCATABLE,
    ),
    NodeCase("NodeResourcesFit", "a large one comes", pod("p", cpu="4"), None, node("a", cpu="4"), True),
    NodeCase("NodeResourcesFit", "a small one comes", pod("p", cpu="4"), None, node("a", cpu="3"), False),
    NodeCase("NodePorts", "a node comes", pod("p"), None, node("a"), True),
    NodeCase("PodTopologySpread", "a domain comes", pod("p", spec=spread()), None, node("a", zone="z"), True),
    NodeCase("PodTopologySpread", "a node without the label", pod("p", spec=spread()), None, node("a"), False),
    NodeCase(
        "PodTopologySpread", "a domain goes", pod("p", spec=spread()), node("a", zone="z"), None, True, Action.DELETE
    ),
    NodeCase(
        "PodTopologySpread",
        "taints that count change",
        pod("p", spec=spread(nodeTaintsPolicy="Honor")),
        node("a", zone="z", taints=["x:NoSchedule"]),
        node("a", zone="z"),
        True,
        TAINT,
    ),
    NodeCase(
        "PodTopologySpread",
        "taints that do not count change",
        pod("p", spec=spread()),
        node("a", zone="z", taints=["x:NoSchedule"]),
        node("a", zone="z"),
        False,
        TAINT,
    ),
    NodeCase("InterPodAffinity", "a domain comes", pod("p", spec=near()), None, node("a", zone="z"), True),
    NodeCase("InterPodAffinity", "a node without the label", pod("p", spec=near()), None, node("a"), False),
    NodeCase(
        "InterPodAffinity",
        "a node changes its domain",
        pod("p", spec=near("podAntiAffinity")),
        node("a", zone="y"),
        node("a", zone="z"),
        True,
        LABEL,
    ),
    NodeCase(
        "InterPodAffinity",
        "another label changes",
        pod("p", spec=near("podAntiAffinity")),
        node("a", zone="z"),
        node("a", zone="z", labels={"x": "y"}),
        False,
        LABEL,
    ),
]


@pytest.mark.parametrize("case", NODES, ids=lambda case: f"{case.plugin}: {case.name}")
def test_changes_of_nodes(case: NodeCase) -> None:
    event = ClusterEvent(Kind.NODE, case.action or Action.ADD)
    assert wakes(case.plugin, case.wanted, event, case.old, case.new) is case.wakes


WEB, DB = {"app": "web"}, {"app": "db"}
PORT = {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}
GONE, RELABELLED = Action.DELETE, Action.UPDATE_POD_LABEL
ANTI = near("podAntiAffinity", HOSTNAME)


@dataclass(frozen=True)
class PodCase:
    plugin: str
    name: str
    wanted: Any
    action: Action
    old: Any
    new: Any
    wakes: bool


PODS = [
    PodCase("NodeResourcesFit", "a pod goes", pod("p", cpu="1"), GONE, pod("x", on="a"), None, True),
    PodCase("NodeResourcesFit", "a pod without a node goes", pod("p", cpu="1"), GONE, pod("x"), None, False),
    PodCase(
        "NodeResourcesFit",
        "a pod shrinks",
        pod("p", cpu="1"),
        Action.UPDATE_POD_SCALE_DOWN,
        pod("x", cpu="2", on="a"),
        pod("x", cpu="1", on="a"),
        True,
    ),
    PodCase(
        "NodeResourcesFit",
        "a pod shrinks in something else",
        pod("p", cpu="1"),
        Action.UPDATE_POD_SCALE_DOWN,
        pod("x", memory="2Gi", on="a"),
        pod("x", memory="1Gi", on="a"),
        False,
    ),
    PodCase("NodePorts", "the port is freed", pod("p", spec=PORT), GONE, pod("x", on="a", spec=PORT), None, True),
    PodCase("NodePorts", "no port is freed", pod("p", spec=PORT), GONE, pod("x", on="a"), None, False),
    PodCase(
        "PodTopologySpread",
        "a counted pod goes",
        pod("p", spec=spread()),
        GONE,
        pod("x", labels=WEB, on="a"),
        None,
        True,
    ),
    PodCase(
        "PodTopologySpread", "another pod goes", pod("p", spec=spread()), GONE, pod("x", labels=DB, on="a"), None, False
    ),
    PodCase(
        "PodTopologySpread",
        "a pod of another namespace goes",
        pod("p", spec=spread()),
        GONE,
        pod("x", namespace="o", labels=WEB, on="a"),
        None,
        False,
    ),
    PodCase(
        "PodTopologySpread",
        "a pod no longer counts",
        pod("p", spec=spread()),
        RELABELLED,
        pod("x", labels=WEB, on="a"),
        pod("x", labels=DB, on="a"),
        True,
    ),
    PodCase(
        "InterPodAffinity",
        "a pod to be near to comes",
        pod("p", spec=near()),
        Action.ADD,
        None,
        pod("x", labels=WEB, on="a"),
        True,
    ),
    PodCase(
        "InterPodAffinity",
        "another pod comes",
        pod("p", spec=near()),
        Action.ADD,
        None,
        pod("x", labels=DB, on="a"),
        False,
    ),
    PodCase(
        "InterPodAffinity",
        "a pod to be far from goes",
        pod("p", spec=ANTI),
        GONE,
        pod("x", labels=WEB, on="a"),
        None,
        True,
    ),
    PodCase(
        "InterPodAffinity",
        "a pod that wants to be far from it goes",
        pod("p", labels=WEB),
        GONE,
        pod("x", on="a", spec=ANTI),
        None,
        True,
    ),
    PodCase(
        "InterPodAffinity",
        "a pod takes the label that was in the way off",
        pod("p", spec=ANTI),
        RELABELLED,
        pod("x", labels=WEB, on="a"),
        pod("x", labels=DB, on="a"),
        True,
    ),
    PodCase("InterPodAffinity", "another pod goes", pod("p", spec=ANTI), GONE, pod("x", on="a"), None, False),
]


@pytest.mark.parametrize("case", PODS, ids=lambda case: f"{case.plugin}: {case.name}")
def test_changes_of_placed_pods(case: PodCase) -> None:
    event = ClusterEvent(Kind.ASSIGNED_POD, case.action)
    assert wakes(case.plugin, case.wanted, event, case.old, case.new) is case.wakes


def test_a_pod_wakes_when_its_last_gate_is_removed() -> None:
    event = ClusterEvent(Kind.TARGET_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    gated = pod("p", spec={"schedulingGates": [{"name": "wait"}]})
    assert wakes("SchedulingGates", gated, event, gated, pod("p"))
    assert not wakes("SchedulingGates", gated, event, gated, gated)


def test_a_pod_wakes_when_it_gets_a_toleration() -> None:
    event = ClusterEvent(Kind.TARGET_POD, Action.UPDATE_POD_TOLERATION)
    tolerant = pod("p", spec={"tolerations": [{"operator": "Exists"}]})
    assert wakes("TaintToleration", tolerant, event, pod("p"), tolerant)
    assert wakes("NodeUnschedulable", tolerant, event, pod("p"), tolerant)
    assert not wakes("NodeUnschedulable", pod("p"), event, tolerant, pod("p"))


COVERS = [
    ("the same", ClusterEvent(Kind.NODE, Action.ADD), ClusterEvent(Kind.NODE, Action.ADD), True),
    ("one of several", ClusterEvent(Kind.NODE, Action.ADD | LABEL), ClusterEvent(Kind.NODE, LABEL), True),
    ("another action", ClusterEvent(Kind.NODE, Action.ADD), ClusterEvent(Kind.NODE, LABEL), False),
    ("another kind", ClusterEvent(Kind.NODE, Action.ADD), ClusterEvent(Kind.ASSIGNED_POD, Action.ADD), False),
    ("any kind", ClusterEvent(Kind.WILDCARD, Action.ALL), ClusterEvent(Kind.CSI_NODE, Action.UPDATE_OTHER), True),
    ("every update", ClusterEvent(Kind.NODE, Action.UPDATE), ClusterEvent(Kind.NODE, TAINT), True),
]


@pytest.mark.parametrize(("name", "registered", "happened", "covered"), COVERS, ids=[case[0] for case in COVERS])
def test_what_an_event_covers(name: str, registered: ClusterEvent, happened: ClusterEvent, covered: bool) -> None:
    assert registered.covers(happened) is covered, name


UPSTREAM_EVENTS = {
    "SchedulingGates": "TargetPod/UPDATE_POD_SCHEDULING_GATES_ELIMINATED",
    "NodeUnschedulable": "Node/ADD Node/UPDATE_NODE_TAINT TargetPod/UPDATE_POD_TOLERATION",
    "NodeName": "Node/ADD",
    "TaintToleration": "Node/ADD Node/UPDATE_NODE_TAINT TargetPod/UPDATE_POD_TOLERATION",
    "NodeAffinity": "Node/ADD Node/UPDATE_NODE_LABEL",
    "NodePorts": "AssignedPod/DELETE Node/ADD",
    "NodeResourcesFit": "AssignedPod/DELETE AssignedPod/UPDATE_POD_SCALE_DOWN Node/ADD Node/UPDATE_NODE_ALLOCATABLE "
    "TargetPod/UPDATE_POD_SCALE_DOWN",
    "VolumeRestrictions": "AssignedPod/DELETE Node/ADD PersistentVolumeClaim/ADD",
    "NodeVolumeLimits": "CSINode/ADD CSINode/UPDATE_OTHER AssignedPod/DELETE PersistentVolumeClaim/ADD "
    "VolumeAttachment/DELETE",
    "VolumeBinding": "StorageClass/ADD StorageClass/UPDATE_OTHER PersistentVolumeClaim/ADD "
    "PersistentVolumeClaim/UPDATE_OTHER PersistentVolume/ADD PersistentVolume/UPDATE_OTHER Node/ADD "
    "Node/UPDATE_NODE_LABEL CSINode/ADD CSINode/UPDATE_OTHER CSIDriver/UPDATE_OTHER CSIStorageCapacity/ADD "
    "CSIStorageCapacity/UPDATE_OTHER",
    "VolumeZone": "StorageClass/ADD Node/ADD Node/UPDATE_NODE_LABEL PersistentVolumeClaim/ADD "
    "PersistentVolumeClaim/UPDATE_OTHER PersistentVolume/ADD PersistentVolume/UPDATE_OTHER",
    "PodTopologySpread": "AssignedPod/ADD AssignedPod/UPDATE_POD_LABEL AssignedPod/DELETE "
    "TargetPod/UPDATE_POD_TOLERATION TargetPod/UPDATE_POD_LABEL Node/ADD Node/DELETE Node/UPDATE_NODE_LABEL "
    "Node/UPDATE_NODE_TAINT",
    "InterPodAffinity": "AssignedPod/ADD AssignedPod/UPDATE_POD_LABEL AssignedPod/DELETE TargetPod/UPDATE_POD_LABEL "
    "Node/ADD Node/UPDATE_NODE_LABEL",
    "DynamicResources": "Node/ADD Node/UPDATE_NODE_LABEL Node/UPDATE_NODE_ALLOCATABLE ResourceClaim/ADD "
    "ResourceClaim/UPDATE_OTHER ResourceClaim/DELETE TargetPod/UPDATE_POD_GENERATED_RESOURCE_CLAIM DeviceClass/ADD "
    "DeviceClass/UPDATE_OTHER ResourceSlice/ADD ResourceSlice/UPDATE_OTHER",
}
"""The events that kube-scheduler 1.37 registers by default, by plugin."""


@pytest.mark.parametrize("plugin", UPSTREAM_EVENTS)
def test_a_plugin_registers_every_event_that_kube_scheduler_does(plugin: str) -> None:
    [entry] = [each for each in Engine().profiles["default-scheduler"].plugins if each.name == plugin]
    assert isinstance(entry, EnqueueExtensions)
    registered = [each.event for each in entry.events_to_register()]
    for text in UPSTREAM_EVENTS[plugin].split():
        kind, _, action = text.partition("/")
        event = ClusterEvent(next(each for each in Kind if each.value == kind), Action[action])
        assert any(each.covers(event) for each in registered), text
