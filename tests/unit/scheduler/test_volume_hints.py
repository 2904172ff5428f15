"""Which nodes wake a pod that waits for its volumes: those that its volumes can be used on, by the labels they name."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.storage_v1 import StorageClass
from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework import Action, ClusterEvent, EnqueueExtensions, Kind, QueueingHint, SchedulerFeatures
from mooring.testing.builders import made, node, pod

pytestmark = pytest.mark.req("5721.8")
SEMVER = {"matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["5.10"]}]}
CEL = {"matchCELExpressions": ["node.labels['kernel'].startsWith('6')"]}
ANY_LABEL = {"matchCELExpressions": ["node.labels.exists(key, key == 'fast')"]}
ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
WANTED = pod("p", spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]})


def volume(term: dict[str, Any]) -> PersistentVolume:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "local": {"path": "/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    return made(PersistentVolume, {"metadata": {"name": "v"}, "spec": spec, "status": {"phase": "Available"}})


def claim(*, bound: bool) -> PersistentVolumeClaim:
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if bound else {}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "local",
        "volumeName": "v" if bound else "",
    }
    metadata = {"name": "c", "namespace": "default", "uid": "u", "annotations": annotations}
    return made(PersistentVolumeClaim, {"metadata": metadata, "spec": spec})


def storage_class(**more: Any) -> StorageClass:
    tree = {
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    return made(StorageClass, tree | more)


def engine_with(*things: Resource, options: ConstraintOptions | None = None) -> Engine:
    engine = Engine(features=SchedulerFeatures(constraints=options or ConstraintOptions()))
    for thing in things:
        engine.put(thing)
    return engine


def wakes(engine: Engine, wanted: Pod, old: Node | None, new: Node) -> bool:
    """As the queue asks: some registered event covers what happened, and its hint says so."""
    event = ClusterEvent(Kind.NODE, Action.ADD if old is None else Action.UPDATE_NODE_LABEL)
    (plugin,) = [each for each in engine.profiles["default-scheduler"].plugins if each.name == "VolumeBinding"]
    assert isinstance(plugin, EnqueueExtensions)
    covering = [entry for entry in plugin.events_to_register() if entry.event.covers(event)]
    assert covering
    return any(entry.hint is None or entry.hint(wanted, old, new) is QueueingHint.QUEUE for entry in covering)


def labelled(**labels: str) -> Node:
    return node("n", labels=labels)


@dataclass(frozen=True)
class Case:
    name: str
    term: dict[str, Any]
    old: Node | None
    new: Node
    wakes: bool
    bound: bool = True
    options: ConstraintOptions | None = None


CASES = [
    Case("a version becomes new enough", SEMVER, labelled(kernel="5.4"), labelled(kernel="6.1"), True),
    Case("a version stays too old", SEMVER, labelled(kernel="5.4"), labelled(kernel="5.9"), False),
    Case("a version was new enough", SEMVER, labelled(kernel="6.0"), labelled(kernel="6.1"), False),
    Case("a label that is no version", SEMVER, labelled(kernel="5.4"), labelled(kernel="new"), False),
    Case("another label than the version", SEMVER, labelled(kernel="5.4"), labelled(kernel="5.4", zone="a"), False),
    Case("a node that is new enough comes", SEMVER, None, labelled(kernel="6.1"), True),
    Case("a node that is too old comes", SEMVER, None, labelled(kernel="5.4"), False),
    Case(
        "a version is not judged while its gate is off",
        SEMVER,
        labelled(kernel="5.4"),
        labelled(kernel="6.1"),
        False,
        options=ConstraintOptions(semver_operators=False),
    ),
    Case("an expression becomes true", CEL, labelled(kernel="5.4"), labelled(kernel="6.1"), True),
    Case("an expression stays false", CEL, labelled(kernel="5.4"), labelled(kernel="5.9"), False),
    Case("an expression fails", CEL, labelled(kernel="5.4"), labelled(zone="a"), False),
    Case("an expression over all labels becomes true", ANY_LABEL, labelled(), labelled(fast=""), True),
    Case(
        "an expression is not judged while its gate is off",
        CEL,
        labelled(kernel="5.4"),
        labelled(kernel="6.1"),
        False,
        options=ConstraintOptions(cel=False),
    ),
    Case("a free volume reads the version", SEMVER, labelled(kernel="5.4"), labelled(kernel="6.1"), True, bound=False),
    Case("a free volume does not read the zone", SEMVER, labelled(zone="a"), labelled(zone="b"), False, bound=False),
    Case("an expression reads the version", CEL, labelled(kernel="5.4"), labelled(kernel="6.1"), True, bound=False),
    Case("an expression does not read the zone", CEL, labelled(zone="a"), labelled(zone="b"), False, bound=False),
    Case("an expression reads every label", ANY_LABEL, labelled(zone="a"), labelled(zone="b"), True, bound=False),
    Case("a node comes for a free volume", CEL, None, labelled(), True, bound=False),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name}, {'bound' if case.bound else 'free'}")
def test_nodes_wake_pods_by_the_labels_that_their_volumes_name(case: Case) -> None:
    engine = engine_with(storage_class(), claim(bound=case.bound), volume(case.term), options=case.options)
    assert wakes(engine, WANTED, case.old, case.new) is case.wakes


@pytest.mark.parametrize(("key", "woken"), [("zone", True), ("rack", False)])
def test_the_topologies_of_a_class_name_labels_too(key: str, woken: bool) -> None:
    allowed = [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]
    engine = engine_with(storage_class(provisioner="example.com/d", allowedTopologies=allowed), claim(bound=False))
    assert wakes(engine, WANTED, labelled(), labelled(**{key: "a"})) is woken


def test_no_node_helps_a_pod_without_its_claim() -> None:
    assert not wakes(engine_with(storage_class()), WANTED, None, labelled())


LABELS = st.dictionaries(
    st.sampled_from(["kernel", "zone", "fast"]), st.sampled_from(["5.4", "5.11", "6.1", "a", ""]), max_size=3
)


@settings(max_examples=60, deadline=None)
@given(LABELS, LABELS, st.sampled_from([SEMVER, CEL, ANY_LABEL, ZONE]), st.booleans())
def test_a_node_that_helps_always_wakes(
    before: dict[str, str], after: dict[str, str], term: dict[str, Any], bound: bool
) -> None:
    old, new = labelled(**before), labelled(**after)
    engine = engine_with(storage_class(), claim(bound=bound), volume(term), old)
    was_possible = _fits(engine)
    engine.put(new)
    if _fits(engine) and not was_possible:
        assert wakes(engine, WANTED, old, new)


def _fits(engine: Engine) -> bool:
    return all(entry.status.is_success for entry in engine.explain(WANTED).values())
