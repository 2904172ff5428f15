"""Pods share verdicts only where no plugin can distinguish them: every field of a pod is changed, and each plugin
that reads it must notice. Plugins see of a pod what they declare to read, and nothing else.
"""

from collections.abc import Iterator
from typing import Any, get_args, get_origin

import msgspec
import numpy as np
import pytest
from msgspec import structs

from every_field import bare
from mooring.api import codec
from mooring.api.core_v1 import Pod, Service
from mooring.api.from_tree import FieldValidation, from_tree
from mooring.api.quantity import Quantity
from mooring.constraints import requests
from mooring.controllers.workloads.daemon_nodes import pin_spec_to_node
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.signatures import DeclaredParts, SignatureTable, host_ports, images, pod_terms
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework import (
    Declaration,
    Factory,
    FilterPlugin,
    Input,
    Part,
    PreFilterResult,
    Verdicts,
)
from mooring.scheduler.framework.profiles import DEFAULT_PLUGINS, PluginUse, ProfileSpec
from mooring.scheduler.plugins import IN_TREE
from mooring.testing.builders import made, node, pod

pytestmark = pytest.mark.req("S.3")

SELECTOR = {"matchLabels": {"app": "web"}}
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
TERM = {"topologyKey": HOST, "labelSelector": SELECTOR, "namespaces": ["default"]}
KERNEL = [{"key": "kernel", "operator": "In", "values": ["6.1"]}]
RICH: dict[str, Any] = {
    "metadata": {
        "name": "rich",
        "namespace": "default",
        "uid": "rich",
        "labels": {"app": "web"},
        "annotations": {"note": "x"},
        "ownerReferences": [
            {"kind": "ReplicaSet", "name": "rs", "controller": True, "uid": "u", "apiVersion": "apps/v1"}
        ],
    },
    "spec": {
        "schedulerName": "default-scheduler",
        "nodeSelector": {"disk": "fast"},
        "overhead": {"cpu": "10m"},
        "tolerations": [{"key": "sla", "operator": "Equal", "value": "1", "effect": "NoSchedule"}],
        "containers": [
            {
                "name": "c",
                "image": "app:1",
                "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP", "hostIP": "10.0.0.1"}],
                "resources": {"requests": {"cpu": "100m", "memory": "1Mi"}, "limits": {"cpu": "1"}},
            }
        ],
        "initContainers": [
            {"name": "i", "image": "init:1", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}}
        ],
        "volumes": [{"name": "v", "image": {"reference": "data:1"}}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": KERNEL}]},
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "preference": {"matchExpressions": KERNEL}}
                ],
            },
            "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "podAffinityTerm": TERM}],
            },
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
        },
        "topologySpreadConstraints": [
            {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTOR},
            {"topologyKey": HOST, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": SELECTOR},
        ],
    },
    "status": {
        "phase": "Pending",
        "containerStatuses": [
            {"name": "c", "resources": {"requests": {"cpu": "200m"}}, "allocatedResources": {"cpu": "150m"}}
        ],
        "initContainerStatuses": [{"name": "i", "resources": {"requests": {"cpu": "60m"}}}],
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
    },
}
PLAIN: dict[str, Any] = {
    "metadata": RICH["metadata"],
    "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "c", "image": "app:1"}]},
}
FIXED = ("spec.schedulerName", "spec.nodeName", "status.phase", "kind", "apiVersion")
"""These say whether a pod is scheduled at all, and by whom."""


def variants(annotation: Any, value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Values of a type that differ from a value in one field each, in JSON; paths say in which."""
    kind = bare(annotation)
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        there = value if isinstance(value, dict) else {}
        for info in structs.fields(kind):
            name = info.encode_name
            for where, other in variants(info.type, there.get(name), f"{path}.{name}" if path else name):
                yield where, {**there, name: other}
        if value is not None:
            yield path, None
    elif origin is list:
        items: list[Any] = value or []
        for index, item in enumerate(items):
            for where, other in variants(arguments[0], item, f"{path}[{index}]"):
                yield where, [*items[:index], other, *items[index + 1 :]] if other is not None else items[:index]
        if not items:
            yield from ((where, [other]) for where, other in variants(arguments[0], None, f"{path}[0]") if other)
    elif origin is dict:
        there = value or {}
        yield f"{path}.added", {**there, "added": _other(arguments[1], None)}
        for key in there:
            yield f"{path}.{key}", {**there, key: _other(arguments[1], there[key])}
    elif (other := _other(kind, value)) is not None:
        yield path, other


def _other(kind: Any, value: Any) -> Any:
    kind = bare(kind)
    if kind is bool:
        return not value
    if kind in (int, float):
        return (value or 0) + 1
    if kind is Quantity:
        return "7"
    if kind is str:
        return {"Equal": "Exists", "In": "NotIn", "DoNotSchedule": "ScheduleAnyway", "TCP": "UDP"}.get(
            value, f"{value}x"
        )
    return None


def changed_pods(tree: dict[str, Any]) -> Iterator[tuple[str, Pod]]:
    for path, other in variants(Pod, tree, ""):
        if other and not path.startswith(FIXED):
            try:
                found, _ = from_tree(other, Pod, FieldValidation.IGNORE)
            except codec.DecodeError:
                continue
            yield path, found


def cluster_with(engine: Engine) -> Engine:
    """Nodes that differ in all that plugins look at, and pods that have terms about others."""
    images = {"app:1": 500 << 20, "app:1x": 900 << 20, "data:1": 800 << 20}
    for number in range(6):
        engine.put(
            node(
                f"n{number}",
                cpu="4" if number else "200m",
                zone=f"z{number % 2}",
                labels={"disk": "fast", "kernel": "6.1"} if number < 5 else {},
                taints=["sla=1:NoSchedule"] if number % 2 else ["sla=2:PreferNoSchedule"],
                resources={"added": "9", "example.com/gpu": "1"},
                images=images if number == 2 else {"init:1": 700 << 20},
            )
        )
    ports = {"containers": [{"name": "c", "image": "x", "ports": [{"hostPort": 80, "hostIP": "10.0.0.1"}]}]}
    engine.put(pod("taken", on="n1", spec=ports))
    engine.put(pod("near", on="n2", labels={"app": "web"}, cpu="1"))
    far = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}
    engine.put(pod("far", on="n3", labels={"app": "other"}, spec={"affinity": far}))
    return engine


def forget(engine: Engine) -> Engine:
    """Drop what an engine has cached about pod signatures."""
    for evaluator in engine._evaluators.values():
        evaluator.clear()
    engine.cluster.signatures = SignatureTable()
    return engine


@pytest.mark.parametrize("tree", [RICH, PLAIN], ids=["a pod with everything", "a plain pod"])
def test_every_reader_of_a_field_notices_when_it_changes(tree: dict[str, Any]) -> None:
    """What is cached for one pod is not used for another with a different verdict."""
    engine, fresh = cluster_with(Engine()), cluster_with(Engine())
    first = made(Pod, tree)
    engine.explain(first)
    shape, shared, problems = engine.cluster.info(first).signature, 0, list[str]()
    for path, other in changed_pods(tree):
        if engine.cluster.info(other).signature is not shape:
            continue  # nothing is shared
        shared += 1
        if engine.explain(other) != forget(fresh).explain(other):
            problems.append(path)
        own = {
            "requests": requests.in_units(requests.requests_of(other, pod_level=True)),
            "scored": requests.in_units(requests.scored_requests_of(other, pod_level=True)),
            "ports": host_ports(other.spec),
            "images": images(other.spec),
            "terms": pod_terms(other.spec, other.metadata.namespace),
            "labels": {key: value for key, value in other.metadata.labels.items() if key == "app"},
            "namespace": other.metadata.namespace,
        }
        problems += [f"{path}: {name}" for name, value in own.items() if getattr(shape, name) != value]
        read = ("tolerations", "node_selector", "affinity", "topology_spread_constraints")
        problems += [f"{path}: {name}" for name in read if getattr(shape.spec, name) != getattr(other.spec, name)]
    assert problems == []
    assert shared > 100


WITHOUT_STATUS = {"metadata": RICH["metadata"], "spec": RICH["spec"]}


@pytest.mark.parametrize(
    "tree", [RICH, WITHOUT_STATUS, PLAIN], ids=["a pod with everything", "a pod that waits", "a plain pod"]
)
def test_pods_that_share_objects_have_the_shapes_that_they_would_have_by_themselves(tree: dict[str, Any]) -> None:
    first, differing = made(Pod, tree), 0
    for path, other in changed_pods(tree):
        for part, same in ((other.spec, first.spec), (other.metadata, first.metadata)):
            for name in part.__struct_fields__:
                if getattr(part, name) == getattr(same, name):
                    setattr(part, name, getattr(same, name))
        shapes = SignatureTable()
        shape = shapes.signature_of(first)
        assert shapes.signature_of(other).key == SignatureTable().signature_of(other).key, path
        differing += shapes.signature_of(other) is not shape
    assert differing > 10


@pytest.mark.parametrize("name", [name for name, plugin in IN_TREE.items() if "applies_to" in vars(plugin)])
def test_what_plugins_say_of_a_specification_they_say_of_every_pod_that_has_it(name: str) -> None:
    engine = cluster_with(Engine())
    plugin: Any = next(each for each in engine.profiles["default-scheduler"].plugins if each.name == name)
    said = set[Any]()
    pods = [pod("bound", on="n1"), *(each for tree in (RICH, PLAIN) for _, each in changed_pods(tree))]
    for each in pods:
        answer = plugin.applies_to(each.spec)
        said.add(answer)
        assert answer is None or plugin.pre_filter(engine.cluster.info(each), engine.cluster) is answer
    assert len(said) == 2, "it is asked about some pods, and not about others"


def test_plugins_see_nothing_but_what_they_say() -> None:
    info = cluster_with(Engine()).cluster.info(made(Pod, RICH))
    seen = DeclaredParts(Part.TOLERATIONS, None).select(info)
    assert seen.signature.spec.tolerations == info.pod.spec.tolerations
    assert seen.signature.spec.affinity is None
    assert seen.signature.spec.containers == []
    for name in ("labels", "namespace", "requests", "ports", "images", "terms", "owner"):
        with pytest.raises(AttributeError):
            getattr(seen.signature, name)
    with pytest.raises(AttributeError):
        _ = seen.pod


class ByAnnotation(FilterPlugin[Any]):
    """Wants nodes of the class that an annotation names."""

    name = "ByAnnotation"
    filters = Declaration(Part(0), Input.NODE_LABELS)

    def __init__(self, *_: object) -> None:
        self.asked = 0

    def sign(self, pod: Pod) -> str:
        return pod.metadata.annotations.get("class", "")

    def pre_filter(self, info: Any, cluster: Cluster) -> PreFilterResult[Any]:
        return PreFilterResult((cluster, info.signature.own))

    def filter(self, state: Any, rows: Any) -> Verdicts:
        self.asked += 1
        cluster, wanted = state
        is_other = [info is not None and info.node.metadata.labels.get("class", "") != wanted for info in cluster.nodes]
        return Verdicts(np.array(is_other, np.int32)[rows], lambda _: ("another class",))


def test_a_plugin_that_signs_for_itself_shares_verdicts_among_pods_with_the_same_signature() -> None:
    registry: dict[str, Factory] = {**IN_TREE, "ByAnnotation": ByAnnotation}
    engine = Engine((ProfileSpec(plugins=(*DEFAULT_PLUGINS, PluginUse("ByAnnotation"))),), registry=registry)
    for name in ("a", "b"):
        engine.put(node(name, labels={"class": name}))
    for number, wanted in enumerate("abab"):
        annotated = pod(f"p{number}", metadata={"annotations": {"class": wanted}})
        assert engine.schedule(annotated).node == wanted
    plugin = engine.profiles["default-scheduler"].plugins[-1]
    assert isinstance(plugin, ByAnnotation)
    assert plugin.asked == 2


def _numbered(number: int) -> Pod:
    """Return a pod of a StatefulSet: one label is its own."""
    return pod(f"web-{number}", labels={"app": "web", "index": str(number)})


def _daemon(number: int) -> Pod:
    """Return a pod of a DaemonSet: made for a node."""
    found = pod(f"agent-{number}", cpu="1")
    return structs.replace(found, spec=pin_spec_to_node(found.spec, f"n{number}"))


class Nosy(ByAnnotation):
    """Reads all of a shape, as plugins do that do not say what they read."""

    name = "Nosy"
    filters = Declaration(Part.ALL, Input.NODE_LABELS)


NUMBERED_SERVICE = made(
    Service, {"metadata": {"name": "one", "namespace": "default"}, "spec": {"selector": {"index": "1"}}}
)


@pytest.mark.parametrize(
    ("made_by", "plugins", "objects", "shapes"),
    [
        pytest.param(_numbered, (), [], 1, id="pods of a StatefulSet are alike"),
        pytest.param(_numbered, (), [NUMBERED_SERVICE], 4, id="until somebody selects one of them by its own label"),
        pytest.param(_numbered, (PluginUse("Nosy"),), [], 4, id="not where a plugin reads all labels"),
        pytest.param(_daemon, (), [], 1, id="pods of a DaemonSet are alike but for their nodes"),
        pytest.param(_daemon, (PluginUse("Nosy"),), [], 4, id="not where a plugin reads all of node affinity"),
    ],
)
def test_fields_that_no_plugin_reads_do_not_distinguish_pods(
    made_by: Any, plugins: tuple[PluginUse, ...], objects: list[Service], shapes: int
) -> None:
    registry: dict[str, Factory] = {**IN_TREE, "Nosy": Nosy}
    engine = Engine((ProfileSpec(plugins=(*DEFAULT_PLUGINS, *plugins)),), registry=registry)
    for number in range(4):
        engine.put(node(f"n{number}"))
    for thing in objects:
        engine.put(thing)
    pods = [made_by(number) for number in range(4)]
    found = [engine.schedule(each).node for each in pods]
    assert len({engine.cluster.info(each).signature for each in pods}) == shapes
    assert made_by is _numbered or found == [f"n{number}" for number in range(4)]
    assert len({engine.cluster.signatures.template_key(each) for each in pods}) == 4, (
        "hints and diagnoses are of each alone"
    )


def test_pods_that_are_made_for_nodes_are_refused_by_these_alone() -> None:
    engine = Engine()
    for number in range(3):
        engine.put(node(f"n{number}", cpu="0" if number == 1 else "4"))
    found = [engine.schedule(_daemon(number)) for number in range(4)]
    elsewhere = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    assert [(outcome.node, outcome.message) for outcome in found] == [
        ("n0", ""),
        (None, f"0/3 nodes are available: 1 Insufficient cpu, 2 {elsewhere}."),
        ("n2", ""),
        (None, f"0/3 nodes are available: 3 {elsewhere}."),
    ]
