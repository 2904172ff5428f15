"""VolumeRestrictions, VolumeZone and NodeVolumeLimits."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.storage_v1 import CSINode, StorageClass, VolumeAttachment
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework import QueueingHint
from mooring.scheduler.plugins import IN_TREE
from mooring.scheduler.plugins.volume_zone import VolumeZone
from mooring.testing.builders import ZONE, made, node, pod

pytestmark = pytest.mark.req("S.3")

DISK = "node(s) had no available disk"
ONE_POD = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
NO_ZONE = "node(s) had no available volume zone"
TOO_MANY = "node(s) exceed max volume count"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


def engine_with(*things: Resource) -> Engine:
    engine = Engine()
    for thing in things:
        engine.put(thing)
    return engine


def reasons(engine: Engine, wanted: Pod) -> dict[str, str]:
    return {name: ", ".join(entry.status.reasons) for name, entry in engine.explain(wanted).items()}


def with_volumes(name: str, *volumes: dict[str, Any], on: str = "") -> Pod:
    named = [{"name": f"v{number}", **entry} for number, entry in enumerate(volumes)]
    return pod(name, on=on, spec={"volumes": named})


def using(claim_name: str) -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": claim_name}}


def claim(name: str, volume_name: str = "", *modes: str) -> PersistentVolumeClaim:
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if volume_name else {}
    return made(
        PersistentVolumeClaim,
        {
            "metadata": {"name": name, "namespace": "default", "annotations": annotations},
            "spec": {
                "accessModes": list(modes) or ["ReadWriteOnce"],
                "volumeName": volume_name,
                "storageClassName": "sc",
            },
        },
    )


def volume(name: str, labels: dict[str, str] | None = None, driver: str = "csi.example.com") -> PersistentVolume:
    source = {"driver": driver, "volumeHandle": f"handle-{name}"}
    tree = {"metadata": {"name": name, "labels": labels or {}}, "spec": {"csi": source, "capacity": {"storage": "1Gi"}}}
    return made(PersistentVolume, tree)


# -- VolumeRestrictions


@dataclass(frozen=True)
class Disks:
    name: str
    there: dict[str, Any]
    wanted: dict[str, Any]
    conflict: bool


def gce(name: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(name: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(iqn: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"iscsi": {"targetPortal": "t", "iqn": iqn, "lun": 0, "readOnly": read_only}}


def rbd(*monitors: str, image: str = "i", read_only: bool = False) -> dict[str, Any]:
    return {"rbd": {"monitors": list(monitors), "image": image, "pool": "p", "readOnly": read_only}}


DISKS = (
    Disks("a GCE disk twice", gce("d"), gce("d"), True),
    Disks("a GCE disk twice, read only", gce("d", read_only=True), gce("d", read_only=True), False),
    Disks("a GCE disk once for writing", gce("d", read_only=True), gce("d"), True),
    Disks("two GCE disks", gce("d"), gce("e"), False),
    Disks("an EBS volume twice, even read only", ebs("d", read_only=True), ebs("d", read_only=True), True),
    Disks("an iSCSI disk twice", iscsi("q"), iscsi("q"), True),
    Disks("an iSCSI disk twice, read only", iscsi("q", read_only=True), iscsi("q", read_only=True), False),
    Disks("an RBD image through a common monitor", rbd("m", "n"), rbd("n", "o"), True),
    Disks("RBD images of different clusters", rbd("m"), rbd("n"), False),
    Disks("two RBD images", rbd("m"), rbd("m", image="j"), False),
    Disks("disks of two sorts", gce("d"), ebs("d"), False),
)


@pytest.mark.parametrize("case", DISKS, ids=lambda case: case.name)
def test_a_disk_is_mounted_on_a_node(case: Disks) -> None:
    engine = engine_with(node("a"), node("b"), with_volumes("there", case.there, on="a"))
    assert reasons(engine, with_volumes("new", case.wanted)) == {"a": DISK if case.conflict else "", "b": ""}


def test_a_disk_is_free_when_its_pod_is_gone() -> None:
    there = with_volumes("there", gce("d"), on="a")
    engine = engine_with(node("a"), there)
    engine.remove(there)
    assert reasons(engine, with_volumes("new", gce("d"))) == {"a": ""}


def test_a_claim_for_one_pod_is_used_by_one_pod_in_the_whole_cluster() -> None:
    there = with_volumes("there", using("c"), on="a")
    engine = engine_with(node("a"), node("b"), claim("c", "v", "ReadWriteOncePod"), volume("v"), there)
    assert reasons(engine, with_volumes("new", using("c"))) == {"a": ONE_POD, "b": ONE_POD}
    engine.remove(there)
    assert reasons(engine, with_volumes("new", using("c"))) == {"a": "", "b": ""}


def test_a_pod_of_lower_priority_is_displaced_from_a_claim_for_one_pod() -> None:
    there = with_volumes("there", using("c"), on="a")
    engine = engine_with(node("a"), node("b"), claim("c", "v", "ReadWriteOncePod"), volume("v"), there)
    wanted = with_volumes("new", using("c"))
    wanted.spec.priority = 10
    found = engine.post_filter(engine.schedule(wanted))
    assert (found.nominated, [victim.metadata.name for victim in found.victims]) == ("a", ["there"])


# -- VolumeZone


@dataclass(frozen=True)
class Zones:
    name: str
    volume_labels: dict[str, str]
    node_labels: dict[str, str]
    fits: bool


ZONES = (
    Zones("the volume's zone is the node's", {ZONE: "z1"}, {ZONE: "z1"}, True),
    Zones("the node is in another zone", {ZONE: "z1"}, {ZONE: "z2"}, False),
    Zones("the node is in one of the volume's zones", {ZONE: "z1__z2"}, {ZONE: "z2"}, True),
    Zones("the node has no zone at all", {ZONE: "z1"}, {}, True),
    Zones("the node has only a region", {ZONE: "z1"}, {"topology.kubernetes.io/region": "r"}, False),
    Zones("a label of old matches the label of today", {OLD_ZONE: "z1"}, {ZONE: "z1"}, True),
    Zones(
        "a label of old is not overruled by the label of today", {OLD_ZONE: "z1"}, {OLD_ZONE: "z2", ZONE: "z1"}, False
    ),
    Zones("a label that names nothing is ignored", {ZONE: "z1__"}, {ZONE: "z2"}, True),
    Zones("the volume has no labels", {}, {ZONE: "z2"}, True),
)


@pytest.mark.parametrize("case", ZONES, ids=lambda case: case.name)
def test_zones_of_volumes(case: Zones) -> None:
    engine = engine_with(node("a", labels=case.node_labels), claim("c", "v"), volume("v", case.volume_labels))
    assert reasons(engine, with_volumes("p", using("c"))) == {"a": "" if case.fits else NO_ZONE}


@dataclass(frozen=True)
class ZoneRefusal:
    name: str
    claim: PersistentVolumeClaim | None
    reason: str
    objects: tuple[Resource, ...] = field(default=())


def unbound(cls: str) -> PersistentVolumeClaim:
    found = claim("c")
    found.spec.storage_class_name = cls
    return found


def storage_class(mode: str | None) -> StorageClass:
    tree: dict[str, Any] = {"metadata": {"name": "sc"}, "provisioner": "p"}
    return made(StorageClass, tree | ({"volumeBindingMode": mode} if mode else {}))


ZONE_REFUSALS = (
    ZoneRefusal("a missing claim", None, 'persistentvolumeclaim "c" not found'),
    ZoneRefusal("no volume and no class", unbound(""), "PersistentVolumeClaim had no pv name and storageClass name"),
    ZoneRefusal("a missing class", unbound("sc"), 'storageclass.storage.k8s.io "sc" not found'),
    ZoneRefusal("a missing volume", claim("c", "v"), 'persistentvolume "v" not found'),
    ZoneRefusal(
        "no binding mode", unbound("sc"), 'VolumeBindingMode not set for StorageClass "sc"', (storage_class(None),)
    ),
    ZoneRefusal("not bound yet", unbound("sc"), "PersistentVolume had no name", (storage_class("Immediate"),)),
)


@pytest.mark.parametrize("case", ZONE_REFUSALS, ids=lambda case: case.name)
def test_volume_zone_refuses_a_pod_for(case: ZoneRefusal) -> None:
    engine = engine_with(node("a"), *([case.claim] if case.claim else []), *case.objects)
    plugin = next(entry for entry in engine.profiles["default-scheduler"].plugins if isinstance(entry, VolumeZone))
    found = plugin.pre_filter(engine.cluster.info(with_volumes("p", using("c"))), engine.cluster)
    assert getattr(found, "reasons", None) == (case.reason,)


# -- NodeVolumeLimits


def csi_node(name: str, limit: int | None, migrated: str = "") -> CSINode:
    driver: dict[str, Any] = {"name": "csi.example.com", "nodeID": name}
    ebs_driver = {"name": "ebs.csi.aws.com", "nodeID": name, "allocatable": {"count": 1}}
    if limit is not None:
        driver["allocatable"] = {"count": limit}
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated} if migrated else {}
    tree = {"metadata": {"name": name, "annotations": annotations}, "spec": {"drivers": [driver, ebs_driver]}}
    return made(CSINode, tree)


def attachment(volume_name: str) -> VolumeAttachment:
    spec = {"attacher": "csi.example.com", "nodeName": "a", "source": {"persistentVolumeName": volume_name}}
    return made(VolumeAttachment, {"metadata": {"name": f"at-{volume_name}"}, "spec": spec})


BOUND: tuple[Resource, ...] = (*(claim(f"c{n}", f"v{n}") for n in range(4)), *(volume(f"v{n}") for n in range(4)))


@dataclass(frozen=True)
class Limit:
    name: str
    there: tuple[dict[str, Any], ...]
    wanted: tuple[dict[str, Any], ...]
    fits: bool
    limit: int | None = 2
    objects: tuple[Resource, ...] = ()
    migrated: str = ""


LIMITS = (
    Limit("as many volumes as the node can take", (using("c0"),), (using("c1"),), True),
    Limit("one volume too many", (using("c0"), using("c1")), (using("c2"),), False),
    Limit("a volume that is there already", (using("c0"), using("c1")), (using("c1"),), True),
    Limit("any number where there is no limit", (using("c0"), using("c1")), (using("c2"),), True, None),
    Limit("a volume that is still attached", (using("c0"),), (using("c1"),), False, objects=(attachment("v3"),)),
    Limit(
        "an attached volume that a pod uses, once",
        (using("c0"),),
        (using("c1"),),
        True,
        objects=(attachment("v0"),),
    ),
    Limit(
        "volumes that are still to be made",
        (using("c0"), using("c1")),
        (using("new"),),
        False,
        objects=(
            claim("new"),
            made(
                StorageClass,
                {
                    "metadata": {"name": "sc"},
                    "provisioner": "csi.example.com",
                    "volumeBindingMode": "WaitForFirstConsumer",
                },
            ),
        ),
    ),
    Limit(
        "a built-in volume where a CSI driver has replaced it",
        (ebs("x"),),
        (ebs("y"),),
        False,
        migrated="kubernetes.io/aws-ebs",
    ),
    Limit("a built-in volume where nothing has replaced it", (ebs("x"),), (ebs("y"),), True),
)


@pytest.mark.parametrize("case", LIMITS, ids=lambda case: case.name)
def test_a_node_takes(case: Limit) -> None:
    there = with_volumes("there", *case.there, on="a")
    engine = engine_with(node("a"), node("b"), csi_node("a", case.limit, case.migrated), *BOUND, *case.objects, there)
    wanted = with_volumes("p", *case.wanted)
    assert reasons(engine, wanted) == {"a": "" if case.fits else TOO_MANY, "b": ""}
    engine.remove(there)
    if not any(isinstance(thing, VolumeAttachment) for thing in case.objects):
        assert reasons(engine, wanted) == {"a": "", "b": ""}


# -- what wakes a pod


@dataclass(frozen=True)
class Woken:
    name: str
    plugin: str
    kind: str
    old: Resource | None
    new: Resource | None
    queued: bool


POD = with_volumes("p", using("c"), gce("d"))
WOKEN = (
    Woken(
        "a pod that used its disk is gone",
        "VolumeRestrictions",
        "AssignedPod",
        with_volumes("x", gce("d"), on="a"),
        None,
        True,
    ),
    Woken(
        "a pod that used its claim is gone",
        "VolumeRestrictions",
        "AssignedPod",
        with_volumes("x", using("c"), on="a"),
        None,
        True,
    ),
    Woken(
        "not: another pod is gone",
        "VolumeRestrictions",
        "AssignedPod",
        with_volumes("x", using("o"), on="a"),
        None,
        False,
    ),
    Woken("its claim came", "VolumeRestrictions", "PersistentVolumeClaim", None, claim("c"), True),
    Woken("not: another claim came", "VolumeZone", "PersistentVolumeClaim", None, claim("o"), False),
    Woken(
        "a volume changed its zone",
        "VolumeZone",
        "PersistentVolume",
        volume("v", {ZONE: "a"}),
        volume("v", {ZONE: "b"}),
        True,
    ),
    Woken("not: a volume kept its zone", "VolumeZone", "PersistentVolume", volume("v"), volume("v"), False),
    Woken("not: a class that binds at once", "VolumeZone", "StorageClass", None, storage_class("Immediate"), False),
    Woken("a limit rose", "NodeVolumeLimits", "CSINode", csi_node("a", 1), csi_node("a", 2), True),
    Woken("not: a limit fell", "NodeVolumeLimits", "CSINode", csi_node("a", 2), csi_node("a", 1), False),
    Woken(
        "a pod with volumes is gone",
        "NodeVolumeLimits",
        "AssignedPod",
        with_volumes("x", using("o"), on="a"),
        None,
        True,
    ),
    Woken("not: a pod without volumes is gone", "NodeVolumeLimits", "AssignedPod", pod("x", on="a"), None, False),
    Woken("a volume was detached", "NodeVolumeLimits", "VolumeAttachment", attachment("v0"), None, True),
)


@pytest.mark.parametrize("case", WOKEN, ids=lambda case: case.name)
def test_a_refused_pod_is_woken_when(case: Woken) -> None:
    engine = Engine()
    assert case.plugin in IN_TREE
    [plugin] = [entry for entry in engine.profiles["default-scheduler"].plugins if entry.name == case.plugin]
    events = plugin.events_to_register()  # type: ignore[attr-defined] # all of these plugins have it
    [entry] = [entry for entry in events if entry.event.kind.value == case.kind]
    assert entry.hint is not None
    assert entry.hint(POD, case.old, case.new) is QueueingHint.of(case.queued)
