"""VolumeBinding: where a pod's volumes are, can be had or can be made, and how they are bound with it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec import structs

from mooring.api.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.errors import conflict
from mooring.api.meta_v1 import Resource
from mooring.api.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework import QueueingHint, SchedulerFeatures
from mooring.scheduler.framework.profiles import ProfileSpec
from mooring.scheduler.framework.registry import PluginError
from mooring.scheduler.plugins.volume_binding import VolumeBinding
from mooring.scheduler.volumes.claims import SELECTED_NODE
from mooring.testing.builders import HOSTNAME, ZONE, made, node, pod
from mooring.testing.clock import MockClock

pytestmark = pytest.mark.req("S.3")

ELSEWHERE = "node(s) didn't match PersistentVolume's node affinity"
NONE_TO_BIND = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


def storage_class(name: str = "local", provisioner: str = "kubernetes.io/no-provisioner", **more: Any) -> StorageClass:
    tree = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    return made(StorageClass, tree | more)


def claim(
    name: str = "c", size: str = "1Gi", cls: str = "local", *, bound: str = "", **spec: Any
) -> PersistentVolumeClaim:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "5"}
    if bound:
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    body = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": cls,
        "volumeName": bound,
    }
    return made(PersistentVolumeClaim, {"metadata": metadata, "spec": body | spec})


def volume(name: str, size: str = "1Gi", cls: str = "local", *, on: Any = None, **spec: Any) -> PersistentVolume:
    """Return a volume; `on` are host names, or whole terms of node affinity."""
    body: dict[str, Any] = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": cls,
        "local": {"path": "/disk"},
    }
    if on is not None:
        here = [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": on}]}]
        terms = here if isinstance(on[0], str) else on
        body["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    metadata = {"name": name, "resourceVersion": "7"}
    return made(PersistentVolume, {"metadata": metadata, "spec": body | spec, "status": {"phase": "Available"}})


def using(*claims: str, name: str = "p", **more: Any) -> Pod:
    volumes = [{"name": entry, "persistentVolumeClaim": {"claimName": entry}} for entry in claims]
    return pod(name, spec={"volumes": volumes, **more})


def engine_with(*things: Resource, **options: Any) -> Engine:
    engine = Engine(**options)
    for thing in things:
        engine.put(thing)
    return engine


def reasons(engine: Engine, wanted: Pod) -> dict[str, tuple[str, ...]]:
    return {name: entry.status.reasons for name, entry in engine.explain(wanted).items()}


NODES = (node("a", zone="z1"), node("b", zone="z2"))


@dataclass(frozen=True)
class Refused:
    """Why the pod, which uses claim `c`, can go to no node at all."""

    name: str
    objects: tuple[Resource, ...]
    reason: str
    spec: dict[str, Any] = field(default_factory=dict)


def lost() -> PersistentVolumeClaim:
    found = claim(bound="pv")
    found.status.phase = "Lost"
    return found


def deleted() -> PersistentVolumeClaim:
    found = claim()
    found.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    return found


IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
EPHEMERAL: dict[str, Any] = {"volumes": [{"name": "c", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}
REFUSED = (
    Refused("a claim that does not exist", (), 'persistentvolumeclaim "c" not found'),
    Refused(
        "a claim that lost its volume",
        (lost(),),
        'persistentvolumeclaim "c" bound to non-existent persistentvolume "pv"',
    ),
    Refused("a claim that is being deleted", (deleted(),), 'persistentvolumeclaim "c" is being deleted'),
    Refused("a claim without a class that is not bound", (claim(cls=""),), IMMEDIATE),
    Refused("a claim whose class does not exist", (claim(cls="nope"),), IMMEDIATE),
    Refused(
        "a claim that a class binds at once and that is not bound yet",
        (claim(), storage_class(volumeBindingMode="Immediate")),
        IMMEDIATE,
    ),
    Refused("a claim that names its volume and is not bound yet", (claim(volumeName="pv"), storage_class()), IMMEDIATE),
    Refused(
        "an ephemeral volume whose claim has not been made yet",
        (),
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-c"',
        EPHEMERAL,
    ),
    Refused(
        "an ephemeral volume whose claim is somebody else's",
        (claim("p-c"),),
        "PVC default/p-c was not created for pod default/p (pod is not owner)",
        EPHEMERAL,
    ),
)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_claims_that_must_change_first_rule_out_all_nodes(case: Refused) -> None:
    engine = engine_with(*NODES, *case.objects)
    wanted = pod("p", spec=case.spec) if case.spec else using("c")
    assert reasons(engine, wanted) == dict.fromkeys("ab", (case.reason,))
    assert {str(entry.status.code) for entry in engine.explain(wanted).values()} == {"UnschedulableAndUnresolvable"}


def expressions(*cel: str, **operators: tuple[str, str]) -> list[dict[str, Any]]:
    matches = [{"key": key, "operator": how, "values": [value]} for key, (how, value) in operators.items()]
    return [{"matchExpressions": matches, "matchCELExpressions": list(cel)}]


@dataclass(frozen=True)
class Bound:
    """The nodes that a pod with a bound volume may go to, out of `old` (kernel 5.4) and `new` (kernel 6.8)."""

    name: str
    on: Any
    fits: set[str]
    options: ConstraintOptions = field(default_factory=ConstraintOptions)


BOUND = (
    Bound("a volume without affinity can be used everywhere", None, {"old", "new"}),
    Bound("a volume of one host is used there", ["new"], {"new"}),
    pytest.param(
        Bound("a version is compared", expressions(kernel=("SemverGt", "5.10")), {"new"}),
        marks=pytest.mark.req("5721.3"),
    ),
    pytest.param(
        Bound(
            "versions never match when their gate is off",
            expressions(kernel=("SemverGt", "5.10")),
            set(),
            ConstraintOptions(semver_operators=False),
        ),
        marks=pytest.mark.req("5721.3"),
    ),
    pytest.param(
        Bound("an expression is evaluated", expressions("node.labels['kernel'].startsWith('5')"), {"old"}),
        marks=pytest.mark.req("5500.1"),
    ),
    pytest.param(
        Bound(
            "expressions never match when their gate is off",
            expressions("true"),
            set(),
            ConstraintOptions(cel=False),
        ),
        marks=pytest.mark.req("5500.1"),
    ),
    Bound(
        "a volume does not see the names of nodes",
        [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["new"]}]}],
        set(),
    ),
)


@pytest.mark.parametrize("case", BOUND, ids=lambda case: case.name)
def test_a_bound_volume_keeps_the_pod_where_it_can_be_used(case: Bound) -> None:
    engine = engine_with(
        node("old", labels={"kernel": "5.4.0"}),
        node("new", labels={"kernel": "6.8.0"}),
        claim(bound="pv"),
        volume("pv", on=case.on),
        features=SchedulerFeatures(constraints=case.options),
    )
    found = reasons(engine, using("c"))
    assert {name for name, why in found.items() if not why} == case.fits
    assert {why for why in found.values() if why} <= {(ELSEWHERE,)}


BUILT_IN = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
IN_Z1 = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1"]}]}]
EBS_ZONE, VMWARE = "topology.ebs.csi.aws.com/zone", "topology.csi.vmware.com"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
REPLACED = ("aws-ebs", "azure-disk", "vsphere-volume")


def csi_node(name: str, *replaced: str) -> CSINode:
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(replaced)}
    return made(CSINode, {"metadata": {"name": name, "annotations": annotations}, "spec": {"drivers": []}})


@dataclass(frozen=True)
class Migrated:
    """A bound volume of a built-in driver, and which of the nodes below it can be used on."""

    name: str
    source: dict[str, Any]
    on: Any
    fits: str
    labels: dict[str, str] = field(default_factory=dict)


MIGRATED = (
    Migrated("a zone is looked up in the label of the CSI driver where there is one", BUILT_IN, IN_Z1, "ab"),
    Migrated(
        "a zone that is only in a label of the volume counts with the CSI driver", BUILT_IN, None, "ab", {ZONE: "z1"}
    ),
    Migrated("one of several zones in a label", BUILT_IN, None, "abd", {ZONE: "z1__z2"}),
    Migrated(
        "a label of old is understood",
        BUILT_IN,
        [{"matchExpressions": [{"key": OLD_ZONE, "operator": "In", "values": ["z1"]}]}],
        "b",
    ),
    Migrated("other conditions stay", BUILT_IN, expressions(disk=("In", "ssd")), "", {ZONE: "z1"}),
    Migrated(
        "a driver that knows regions",
        {"vsphereVolume": {"volumePath": "p"}},
        IN_Z1,
        "ab",
        {"topology.kubernetes.io/region": "r1"},
    ),
    Migrated("a driver that nobody has replaced", {"cinder": {"volumeID": "vol-1"}}, IN_Z1, "acd"),
    Migrated("a driver whose topology stays", {"azureDisk": {"diskName": "d", "diskURI": "u"}}, IN_Z1, "acd"),
)


@pytest.mark.parametrize("case", MIGRATED, ids=lambda case: case.name)
def test_a_volume_of_a_former_built_in_driver_is_used(case: Migrated) -> None:
    found = volume("pv", on=case.on, local=None, **case.source)
    found.metadata.labels = case.labels
    engine = engine_with(
        node("a", zone="z1"),  # without a CSI driver
        node("b", zone="z2", labels={EBS_ZONE: "z1", f"{VMWARE}/zone": "z1", f"{VMWARE}/region": "r1"}),
        node("c", zone="z1"),  # its driver has not named the zone
        node("d", zone="z1", labels={EBS_ZONE: "z2", f"{VMWARE}/zone": "z1", f"{VMWARE}/region": "r2"}),
        *(csi_node(name, *(f"kubernetes.io/{driver}" for driver in REPLACED)) for name in "bcd"),
        claim(bound="pv"),
        found,
        profiles=(ProfileSpec(disabled={"filter": frozenset({"VolumeZone"})}),),  # which looks at labels on its own
    )
    assert {name for name, why in reasons(engine, using("c")).items() if not why} == set(case.fits)


def test_a_bound_volume_that_is_gone_is_reported() -> None:
    # VolumeZone, which comes later, refuses such a pod as a whole; without it the nodes are evaluated.
    disabled = ProfileSpec(disabled={"filter": frozenset({"VolumeZone"})})
    engine = engine_with(*NODES, claim(bound="pv"), profiles=(disabled,))
    assert reasons(engine, using("c")) == dict.fromkeys("ab", (GONE,))


def test_changed_labels_of_a_node_change_where_a_volume_can_be_used() -> None:
    zone = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["z1"]}]}]
    engine = engine_with(*NODES, claim(bound="pv"), volume("pv", on=zone))
    assert engine.schedule(using("c")).node == "a"
    engine.put(node("a", zone="z2"))
    engine.put(node("b", zone="z1"))
    assert engine.schedule(using("c")).node == "b"


@dataclass(frozen=True)
class Unbound:
    """What pods with claims that wait for their first consumer get, by node: None where they cannot go."""

    name: str
    objects: tuple[Resource, ...]
    gets: dict[str, tuple[str, ...] | None]
    claims: tuple[str, ...] = ("c",)


UNBOUND = (
    Unbound(
        "the smallest volume that is large enough",
        (claim(size="2Gi"), volume("v1"), volume("v3", "3Gi"), volume("v9", "9Gi")),
        {"a": ("v3",), "b": ("v3",)},
    ),
    Unbound("only volumes that the node can use", (claim(), volume("v1", on=["b"])), {"a": None, "b": ("v1",)}),
    Unbound(
        "each volume once, and the smaller claim chooses first",
        (claim("large", "2Gi"), claim("small", "1Gi"), volume("v2", "2Gi"), volume("v3", "3Gi")),
        {"a": ("v2", "v3"), "b": ("v2", "v3")},
        ("large", "small"),
    ),
    Unbound(
        "nothing when there is only one volume for two claims",
        (claim("one"), claim("two"), volume("v1"), volume("w1", on=["b"])),
        {"a": None, "b": ("v1", "w1")},
        ("one", "two"),
    ),
    Unbound("no volume of another class", (claim(), volume("v", cls="other")), {"a": None, "b": None}),
    Unbound(
        "no volume that is reserved for another claim",
        (claim(), volume("v", claimRef={"namespace": "default", "name": "other"})),
        {"a": None, "b": None},
    ),
    Unbound(
        "the volume that is reserved for the claim, though a smaller one is there",
        (claim(), volume("v0"), volume("v", "5Gi", on=["a"], claimRef={"namespace": "default", "name": "c"})),
        {"a": ("v",), "b": None},
    ),
    Unbound("no volume of another mode", (claim(), volume("v", volumeMode="Block")), {"a": None, "b": None}),
    Unbound(
        "no volume without the access mode", (claim(accessModes=["ReadWriteMany"]), volume("v")), {"a": None, "b": None}
    ),
    Unbound(
        "no volume of another attributes class",
        (claim(volumeAttributesClassName="gold"), volume("v")),
        {"a": None, "b": None},
    ),
    Unbound(
        "only volumes that the selector selects",
        (claim(selector={"matchLabels": {"tier": "fast"}}), volume("v")),
        {"a": None, "b": None},
    ),
)


@pytest.mark.parametrize("case", UNBOUND, ids=lambda case: case.name)
def test_a_claim_that_waits_for_its_pod_gets(case: Unbound) -> None:
    engine = engine_with(*NODES, storage_class(), *case.objects)
    wanted = using(*case.claims)
    assert {name: not why for name, why in reasons(engine, wanted).items()} == {
        name: volumes is not None for name, volumes in case.gets.items()
    }
    assert {why for why in reasons(engine, wanted).values() if why} <= {(NONE_TO_BIND,)}
    state = engine.schedule(wanted).cycle.pre_filter.get("VolumeBinding")
    for name, volumes in case.gets.items():
        if volumes is not None:
            assert state is not None
            assert tuple(volume.metadata.name for volume, _ in state.volumes_on(name).static) == volumes


DYNAMIC = storage_class("dyn", "csi.example.com")
ZONE_1 = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z1"]}]}]
DRIVER = made(CSIDriver, {"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}})


def capacity(name: str, amount: str, zone: str | None, largest: str | None = None) -> CSIStorageCapacity:
    tree = {
        "metadata": {"name": name, "namespace": "kube-system"},
        "storageClassName": "dyn",
        "capacity": amount,
        "maximumVolumeSize": largest,
        "nodeTopology": {"matchLabels": {ZONE: zone} if zone else {}},
    }
    return made(CSIStorageCapacity, {key: value for key, value in tree.items() if value is not None})


def selected(where: str) -> PersistentVolumeClaim:
    found: PersistentVolumeClaim = claim(cls="dyn")
    found.metadata.annotations[SELECTED_NODE] = where
    return found


@dataclass(frozen=True)
class Made:
    """Why a volume of 1Gi cannot be made on the nodes; an empty text where it can."""

    name: str
    objects: tuple[Resource, ...]
    why: dict[str, str]


MADE = (
    Made("anywhere when the class does not say otherwise", (DYNAMIC, claim(cls="dyn")), {"a": "", "b": ""}),
    Made(
        "only in the topologies of the class",
        (storage_class("dyn", "csi.example.com", allowedTopologies=ZONE_1), claim(cls="dyn")),
        {"a": "", "b": NONE_TO_BIND},
    ),
    Made("only on the node that was selected before", (DYNAMIC, selected("b")), {"a": NONE_TO_BIND, "b": ""}),
    Made(
        "only where the driver has room",
        (DYNAMIC, DRIVER, claim(cls="dyn"), capacity("c1", "500Mi", "z1"), capacity("c2", "2Gi", "z2")),
        {"a": NO_SPACE, "b": ""},
    ),
    Made(
        "nowhere when the driver reports nothing", (DYNAMIC, DRIVER, claim(cls="dyn")), {"a": NO_SPACE, "b": NO_SPACE}
    ),
    Made(
        "nowhere when the largest volume is too small",
        (DYNAMIC, DRIVER, claim(cls="dyn"), capacity("c1", "9Gi", None, "500Mi")),
        {"a": NO_SPACE, "b": NO_SPACE},
    ),
    Made(
        "without looking at capacity when the driver does not ask for it",
        (DYNAMIC, claim(cls="dyn"), capacity("c1", "1Mi", None)),
        {"a": "", "b": ""},
    ),
)


@pytest.mark.parametrize("case", MADE, ids=lambda case: case.name)
def test_a_volume_is_made(case: Made) -> None:
    engine = engine_with(*NODES, *case.objects)
    assert {name: "".join(why) for name, why in reasons(engine, using("c")).items()} == case.why


def test_an_existing_volume_is_taken_before_one_is_made() -> None:
    engine = engine_with(*NODES, DYNAMIC, claim(cls="dyn"), volume("v", cls="dyn", on=["a"]))
    state = engine.schedule(using("c")).cycle.pre_filter["VolumeBinding"]
    assert [volume.metadata.name for volume, _ in state.volumes_on("a").static] == ["v"]
    assert [entry.metadata.name for entry in state.volumes_on("b").provisions] == ["c"]


def test_bound_and_unbound_claims_are_both_reported() -> None:
    engine = engine_with(
        *NODES, storage_class(), claim("x", bound="pv"), volume("pv", cls="other", on=["b"]), claim("y")
    )
    assert reasons(engine, using("x", "y")) == {"a": (ELSEWHERE, NONE_TO_BIND), "b": (NONE_TO_BIND,)}


def scores(engine: Engine, wanted: Pod) -> dict[str, int | None]:
    return {name: entry.scores.get("VolumeBinding") for name, entry in engine.explain(wanted).items()}


def test_nodes_with_more_room_get_more_points_for_volumes_that_are_made() -> None:
    objects = (DYNAMIC, DRIVER, claim(cls="dyn"), capacity("c1", "2Gi", "z1"), capacity("c2", "10Gi", "z2"))
    assert scores(engine_with(*NODES, *objects), using("c")) == {"a": 50, "b": 90}


def test_volumes_that_fit_tightly_get_fewer_points_by_default_and_more_by_another_shape() -> None:
    objects = (storage_class(), claim(), volume("v1", "1Gi", on=["a"]), volume("v4", "4Gi", on=["b"]))
    assert scores(engine_with(*NODES, *objects), using("c")) == {"a": 0, "b": 75}
    shape = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    profile = ProfileSpec(arguments={"VolumeBinding": {"shape": shape}})
    assert scores(engine_with(*NODES, *objects, profiles=(profile,)), using("c")) == {"a": 100, "b": 25}


def test_capacity_is_not_scored_when_the_gate_is_off() -> None:
    engine = engine_with(*NODES, features=SchedulerFeatures(storage_capacity_scoring=False))
    assert scores(engine, pod("p")) == {"a": None, "b": None}


@pytest.mark.parametrize("arguments", [{"bindTimeoutSeconds": -1}, {"shape": [{"utilization": 200, "score": 1}]}])
def test_wrong_arguments_are_reported(arguments: dict[str, Any]) -> None:
    with pytest.raises(PluginError, match="arguments of the scheduler plugin VolumeBinding"):
        Engine((ProfileSpec(arguments={"VolumeBinding": arguments}),))


# -- reserving and binding


class Server:
    """A client that takes writes and, as volume controllers would, answers them."""

    def __init__(self) -> None:
        self.clock = MockClock()
        self.written: list[Resource] = []
        self.fails = False
        self.answer: Callable[[Resource], None] = lambda _: None

    async def update(self, thing: Resource) -> Resource:
        if self.fails:
            raise conflict("persistentvolumes", thing.metadata.name)
        written = structs.replace(thing, metadata=structs.replace(thing.metadata, resource_version="99"))
        self.written.append(written)
        self.answer(written)
        return written


def binding_of(engine: Engine) -> VolumeBinding:
    plugins = engine.profiles["default-scheduler"].plugins
    return next(plugin for plugin in plugins if isinstance(plugin, VolumeBinding))


def test_a_reserved_volume_is_not_given_to_the_next_pod_until_it_is_given_back() -> None:
    engine = engine_with(node("a"), storage_class(), claim("c"), claim("d"), volume("v"))
    first = engine.schedule(using("c"))
    plugin = binding_of(engine)
    assert plugin.reserve(first.cycle, first.pod, "a").is_success
    assert engine.schedule(using("d", name="q")).node is None
    plugin.unreserve(first.cycle, first.pod, "a")
    assert engine.schedule(using("d", name="q")).node == "a"


def bound(claim_to_bind: PersistentVolumeClaim, volume_name: str) -> PersistentVolumeClaim:
    metadata = structs.replace(
        claim_to_bind.metadata,
        annotations={**claim_to_bind.metadata.annotations, "pv.kubernetes.io/bind-completed": "yes"},
    )
    return structs.replace(
        claim_to_bind, metadata=metadata, spec=structs.replace(claim_to_bind.spec, volume_name=volume_name)
    )


def bind(engine: Engine, server: Server, wanted: Pod) -> Any:
    """Schedule, assume, reserve and bind the volumes of a pod; the status."""
    outcome = engine.schedule(wanted)
    assert outcome.node is not None
    plugin = binding_of(engine)
    engine.assume(wanted, outcome.node)
    assert plugin.reserve(outcome.cycle, wanted, outcome.node).is_success
    return _finished(plugin.pre_bind(outcome.cycle, wanted, outcome.node), server)


def _finished(work: Awaitable[Any], server: Server) -> Any:
    """Run to the end while time passes."""

    async def run() -> Any:
        task = asyncio.ensure_future(work)
        while not task.done():
            await asyncio.sleep(0)
            server.clock.advance(1)
        return task.result()

    return asyncio.run(run())


def test_an_existing_volume_is_reserved_for_the_claim_and_waited_for() -> None:
    server = Server()
    engine = engine_with(node("a"), storage_class(), claim(), volume("v"), client=server)

    def controllers(written: Resource) -> None:
        engine.put(written)
        engine.put(bound(claim(), "v"))

    server.answer = controllers
    assert bind(engine, server, using("c")).is_success
    [written] = server.written
    assert isinstance(written, PersistentVolume)
    reference = written.spec.claim_ref
    assert reference is not None
    assert (reference.kind, reference.namespace, reference.name, reference.uid) == (
        "PersistentVolumeClaim",
        "default",
        "c",
        "uid-c",
    )
    assert written.metadata.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}


def test_a_claim_without_volume_gets_the_node_and_is_waited_for() -> None:
    server = Server()
    engine = engine_with(node("a"), DYNAMIC, claim(cls="dyn"), client=server)

    def controllers(written: Resource) -> None:
        assert isinstance(written, PersistentVolumeClaim)
        engine.put(volume("made", cls="dyn", on=["a"]))
        engine.put(bound(written, "made"))

    server.answer = controllers
    assert bind(engine, server, using("c")).is_success
    assert server.written[0].metadata.annotations == {SELECTED_NODE: "a"}


def test_a_provisioner_that_gives_the_node_back_makes_the_pod_try_again() -> None:
    server = Server()
    engine = engine_with(node("a"), DYNAMIC, claim(cls="dyn"), client=server)

    def controllers(_written: Resource) -> None:
        refused: PersistentVolumeClaim = claim(cls="dyn")
        refused.metadata.resource_version = "100"
        engine.put(refused)

    server.answer = controllers
    assert bind(engine, server, using("c")).message == 'binding volumes: provisioning failed for PVC "c"'


def test_a_write_that_is_refused_is_reported() -> None:
    server = Server()
    server.fails = True
    engine = engine_with(node("a"), storage_class(), claim(), volume("v"), client=server)
    assert "the object has been modified" in bind(engine, server, using("c")).message


def test_binding_ends_when_nothing_happens() -> None:
    server = Server()
    engine = engine_with(node("a"), storage_class(), claim(), volume("v"), client=server)
    assert bind(engine, server, using("c")).message == "binding volumes: context deadline exceeded"


def test_a_pod_with_bound_volumes_has_nothing_to_write() -> None:
    server = Server()
    engine = engine_with(node("a"), claim(bound="pv"), volume("pv"), client=server)
    assert bind(engine, server, using("c")).is_success
    assert server.written == []


# -- what wakes a pod


@dataclass(frozen=True)
class Woken:
    name: str
    old: Resource | None
    new: Resource
    queued: bool


WOKEN = (
    Woken("its claim", None, claim("c"), True),
    Woken("not another claim", None, claim("other"), False),
    Woken("a new class", None, storage_class(), True),
    Woken("not a class that stayed the same", storage_class(), storage_class(), False),
    Woken("a class with other topologies", storage_class(), storage_class(allowedTopologies=ZONE_1), True),
    Woken("more capacity", capacity("x", "1Gi", None), capacity("x", "2Gi", None), True),
    Woken("not less capacity", capacity("x", "2Gi", None), capacity("x", "1Gi", None), False),
)
KINDS = {
    PersistentVolumeClaim: "PersistentVolumeClaim",
    StorageClass: "StorageClass",
    CSIStorageCapacity: "CSIStorageCapacity",
}


@pytest.mark.parametrize("case", WOKEN, ids=lambda case: case.name)
def test_a_refused_pod_is_woken_by(case: Woken) -> None:
    plugin = binding_of(Engine())
    kind = KINDS[type(case.new)]
    [entry] = [entry for entry in plugin.events_to_register() if entry.event.kind.value == kind]
    assert entry.hint is not None
    assert entry.hint(using("c"), case.old, case.new) is QueueingHint.of(case.queued)


def test_many_local_volumes_are_matched_to_their_nodes() -> None:
    nodes: list[Node] = [node(f"n{number}") for number in range(30)]
    volumes = [volume(f"v{number}", on=[f"n{number}"]) for number in range(0, 30, 3)]
    engine = engine_with(*nodes, *volumes, storage_class(), claim())
    fits = {name for name, why in reasons(engine, using("c")).items() if not why}
    assert fits == {f"n{number}" for number in range(0, 30, 3)}
