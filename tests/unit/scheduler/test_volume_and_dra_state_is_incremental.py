"""What plugins cache about volumes and devices from pod to pod equals what they would recompute."""

import random
from typing import Any

import pytest

from mooring.api.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.resource_v1 import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from mooring.api.storage_v1 import CSINode, StorageClass, VolumeAttachment
from mooring.scheduler.deciding.engine import Engine
from mooring.testing.builders import HOSTNAME, made, node, pod

pytestmark = pytest.mark.req("S.3")
NODES = tuple(f"n{number}" for number in range(6))
DRIVER = "csi.example.com"


class World:
    """Objects by kind and name, put into an engine as they come and go."""

    def __init__(self, lot: random.Random, changes: tuple[Any, ...]) -> None:
        self._lot = lot
        self._changes = changes
        self.engine = Engine()
        self.things: dict[tuple[type[Resource], str], Resource] = {}

    def put(self, thing: Resource) -> None:
        self.things[type(thing), thing.metadata.name] = thing
        self.engine.put(thing)

    def remove(self, kind: type[Resource], name: str) -> None:
        thing = self.things.pop((kind, name), None)
        if thing is not None:
            self.engine.remove(thing)

    def fresh(self) -> Engine:
        engine = Engine()
        for thing in self.things.values():
            engine.put(thing)
        return engine

    def change(self) -> None:
        """Something happens to a volume, a claim, a node, a pod or a device that the API allows."""
        number = self._lot.randrange(6)
        kind, build = self._lot.choice(self._changes)
        name = NODES[number] if kind in (CSINode, Node) else f"{kind.__name__[0].lower()}{number}"
        before = self.things.get((kind, name))
        if isinstance(before, PersistentVolumeClaim) and before.spec.volume_name:
            return  # it stays bound, and stays while a pod may use it
        if isinstance(before, Pod) or (self._lot.random() < 0.2 and kind is not PersistentVolume):
            self.remove(kind, name)
        else:
            self.put(build(self._lot, number))


def volume(lot: random.Random, number: int) -> PersistentVolume:
    here = {"key": HOSTNAME, "operator": "In", "values": [lot.choice(NODES)]}
    spec: dict[str, Any] = {
        "capacity": {"storage": lot.choice(("1Gi", "2Gi"))},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "csi": {"driver": DRIVER, "volumeHandle": f"h{number}"},
    }
    if lot.random() < 0.7:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
    if lot.random() < 0.3:
        spec["claimRef"] = {"namespace": "default", "name": f"p{lot.randrange(6)}"}
    tree = {"metadata": {"name": f"p{number}"}, "spec": spec, "status": {"phase": lot.choice(("Available", "Bound"))}}
    return made(PersistentVolume, tree)


def volume_claim(lot: random.Random, number: int) -> PersistentVolumeClaim:
    bound = lot.random() < 0.4
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if bound else {}
    spec = {
        "accessModes": [lot.choice(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"))],
        "storageClassName": lot.choice(("local", "local", "dynamic")),
        "resources": {"requests": {"storage": lot.choice(("1Gi", "2Gi"))}},
        "volumeName": f"p{lot.randrange(6)}" if bound else "",
    }
    metadata = {"name": f"p{number}", "namespace": "default", "annotations": annotations}
    return made(PersistentVolumeClaim, {"metadata": metadata, "spec": spec})


def csi_node(lot: random.Random, number: int) -> CSINode:
    driver = {"name": DRIVER, "nodeID": "x", "allocatable": {"count": lot.randrange(3)}}
    return made(CSINode, {"metadata": {"name": NODES[number]}, "spec": {"drivers": [driver]}})


def attachment(lot: random.Random, number: int) -> VolumeAttachment:
    source = {"persistentVolumeName": f"p{lot.randrange(6)}"}
    spec = {"attacher": DRIVER, "nodeName": lot.choice(NODES), "source": source}
    return made(VolumeAttachment, {"metadata": {"name": f"v{number}"}, "spec": spec})


def placed(lot: random.Random, number: int) -> Pod:
    uses = {"name": "v", "persistentVolumeClaim": {"claimName": f"p{lot.randrange(6)}"}}
    disk = {"name": "d", "gcePersistentDisk": {"pdName": lot.choice("xy")}}
    return pod(f"p{number}", on=lot.choice(NODES), spec={"volumes": lot.sample((uses, disk), lot.randrange(3))})


def devices(lot: random.Random, number: int) -> ResourceSlice:
    pool = {"name": f"pool{number}", "generation": lot.randrange(2), "resourceSliceCount": 1}
    listed = [
        {"name": f"g{index}", "attributes": {"model": {"string": lot.choice("ab")}}}
        for index in range(lot.randrange(4))
    ]
    place = {"nodeName": lot.choice(NODES)} if lot.random() < 0.8 else {"allNodes": True}
    spec = {"driver": "gpu", "pool": pool, "devices": listed, **place}
    return made(ResourceSlice, {"metadata": {"name": f"r{number}"}, "spec": spec})


def device_claim(lot: random.Random, number: int) -> ResourceClaim:
    exactly = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": lot.randint(1, 2)}
    results = [
        {"request": "r", "driver": "gpu", "pool": f"pool{lot.randrange(6)}", "device": f"g{lot.randrange(4)}"}
        for _ in range(lot.randint(1, 2))
    ]
    status = {"allocation": {"devices": {"results": results}}} if lot.random() < 0.6 else {}
    metadata = {"name": f"r{number}", "namespace": "default", "uid": f"u{number}"}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    return made(ResourceClaim, {"metadata": metadata, "spec": spec, "status": status})


def taint_rule(lot: random.Random, number: int) -> DeviceTaintRule:
    spec = {"deviceSelector": {"pool": f"pool{lot.randrange(6)}"}, "taint": {"key": "x", "effect": "NoSchedule"}}
    return made(DeviceTaintRule, {"metadata": {"name": f"d{number}"}, "spec": spec})


CHANGES: tuple[Any, ...] = (
    (PersistentVolume, volume),
    (PersistentVolumeClaim, volume_claim),
    (CSINode, csi_node),
    (VolumeAttachment, attachment),
    (Pod, placed),
    (ResourceSlice, devices),
    (ResourceClaim, device_claim),
    (DeviceTaintRule, taint_rule),
)


def labelled_node(lot: random.Random, number: int) -> Node:
    return node(NODES[number], labels={"zone": lot.choice("ab")})


def part_of_a_pool(lot: random.Random, number: int) -> ResourceSlice:
    """Devices anywhere, in a pool that may have other slices too."""
    pool = {"name": f"pool{lot.randrange(3)}", "generation": lot.randrange(2), "resourceSliceCount": lot.randint(1, 2)}
    zone = {"key": "zone", "operator": "In", "values": [lot.choice("ab")]}
    chosen = {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}
    places: tuple[dict[str, Any], ...] = ({"nodeName": lot.choice(NODES)}, chosen, {"allNodes": True})
    listed: list[dict[str, Any]] = [{"name": f"g{number}-{index}"} for index in range(lot.randrange(3))]
    place = lot.choices(places, (6, 3, 1))[0]
    if lot.random() < 0.3:
        listed = [{**device, **lot.choices(places, (6, 3, 1))[0]} for device in listed]
        place = {"perDeviceNodeSelection": True}
    spec = {"driver": "gpu", "pool": pool, "devices": listed, **place}
    return made(ResourceSlice, {"metadata": {"name": f"r{number}"}, "spec": spec})


DEVICE_CHANGES: tuple[Any, ...] = (
    (Node, labelled_node),
    (ResourceSlice, part_of_a_pool),
    (ResourceSlice, part_of_a_pool),
    (ResourceClaim, device_claim),
    (DeviceTaintRule, taint_rule),
)


def wanted(lot: random.Random) -> Pod:
    volumes = [
        {"name": f"v{index}", "persistentVolumeClaim": {"claimName": f"p{lot.randrange(6)}"}}
        for index in range(lot.randrange(3))
    ]
    claims = [{"name": "c", "resourceClaimName": f"r{lot.randrange(6)}"}] if lot.random() < 0.6 else []
    disk = {"name": "d", "gcePersistentDisk": {"pdName": lot.choice("xy")}}
    return pod("new", spec={"volumes": [*volumes, *lot.sample((disk,), lot.randrange(2))], "resourceClaims": claims})


def explained(engine: Engine, asked: Pod) -> dict[str, Any]:
    return {name: (entry.status, entry.scores) for name, entry in engine.explain(asked).items()}


@pytest.mark.parametrize("seed", range(4))
def test_an_engine_that_saw_all_changes_says_what_a_new_one_says(seed: int) -> None:
    lot = random.Random(seed)
    world = World(lot, CHANGES)
    for name in NODES:
        world.put(node(name))
    world.put(made(DeviceClass, {"metadata": {"name": "any"}, "spec": {}}))
    for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("dynamic", DRIVER)):
        fields = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        world.put(made(StorageClass, {"metadata": {"name": name}, **fields}))
    feasible = 0
    for _ in range(60):
        for _ in range(lot.randrange(8)):
            world.change()
        asked = wanted(lot)
        found = explained(world.engine, asked)
        assert found == explained(world.fresh(), asked)
        feasible += sum(status.is_success for status, _ in found.values())
    assert feasible, "some pods fit somewhere, or nothing was tested"


@pytest.mark.parametrize("seed", range(4))
def test_devices_are_known_as_to_a_new_engine_also_when_nodes_and_pools_change(seed: int) -> None:
    lot = random.Random(seed)
    world = World(lot, DEVICE_CHANGES)
    world.put(made(DeviceClass, {"metadata": {"name": "any"}, "spec": {}}))
    found_some = 0
    for _ in range(80):
        for _ in range(lot.randrange(6)):
            world.change()
        asked = pod("new", spec={"resourceClaims": [{"name": "c", "resourceClaimName": f"r{lot.randrange(6)}"}]})
        found = explained(world.engine, asked)
        assert found == explained(world.fresh(), asked)
        found_some += sum(status.is_success for status, _ in found.values())
    assert found_some, "some pods fit somewhere, or nothing was tested"
