"""Tables about the scheduler's plugins: Filter and Score, queueing hints, and upstream's integration tests.

A case names one plugin and runs in a profile that has only that one. Integration cases run in the default profile, or
in one that scores with a single plugin, after their pods passed admission at the case's versions and gates.
"""

import copy
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import count
from typing import Any

from mooring.admission.options import for_component as admission_options
from mooring.admission.pipeline import admit_create
from mooring.admission.strategy import Request
from mooring.api.apps_v1 import ReplicaSet
from mooring.api.core_v1 import Namespace, Node, Pod, Service
from mooring.api.errors import StatusError
from mooring.base import component
from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.facade import DEFAULT_SCHEDULER, Engine, ProfileSpec
from mooring.scheduler.framework import EnqueueExtensions, Kind, SchedulerFeatures
from mooring.scheduler.framework.events import QueueingHint
from mooring.scheduler.framework.profiles import PluginUse
from mooring.scheduler.running.options import for_component as scheduler_options
from upstream_tables.case import Play, Tree, decode, difference

TAINT = re.compile(r"node\(s\) had untolerated taint \{.*\}")
_AMPLE = {"pods": "110", "cpu": "100", "memory": "100Gi"}
_numbers = count(1)
_HINT_KINDS = {"node": Kind.NODE, "pod": Kind.ASSIGNED_POD, "self": Kind.TARGET_POD}


def pod(tree: Tree, *, keep_node: bool) -> Pod:
    """Decode a pod; fill in the name, uid and namespace that upstream's tests leave empty."""
    tree = copy.deepcopy(tree)
    metadata, number = tree.setdefault("metadata", {}), next(_numbers)
    for field, value in (("name", f"pod-{number}"), ("namespace", "default"), ("uid", f"uid-{number}")):
        metadata[field] = metadata.get(field) or value
    spec = tree.setdefault("spec", {})
    spec.setdefault("containers", [{"name": "c", "image": "i"}])
    if not keep_node:
        spec.pop("nodeName", None)
    _name_namespaces(spec.get("affinity"))
    return decode(tree, Pod)


def _name_namespaces(tree: Any) -> None:
    """Replace the empty namespace of upstream's tests by `default` in affinity terms."""
    if isinstance(tree, dict):
        if isinstance(tree.get("namespaces"), list):
            tree["namespaces"] = [name or "default" for name in tree["namespaces"]]
        for value in tree.values():
            _name_namespaces(value)
    elif isinstance(tree, list):
        for value in tree:
            _name_namespaces(value)


def node(tree: Tree, *, unschedulable: bool = False) -> Node:
    """Decode a node; give it ample resources where the case names none."""
    tree = copy.deepcopy(tree)
    tree.setdefault("metadata", {}).setdefault("name", "n")
    if not (tree.get("status") or {}).get("allocatable"):
        tree["status"] = {**(tree.get("status") or {}), "capacity": _AMPLE, "allocatable": _AMPLE}
    if unschedulable:
        tree.setdefault("spec", {})["unschedulable"] = True
    return decode(tree, Node)


def engine(
    plugin: str,
    arguments: Mapping[str, Any] | None = None,
    features: SchedulerFeatures | None = None,
    *,
    scores: bool = False,
) -> Engine:
    """Return an engine whose profile has one plugin, for Filter, or for Score alone."""
    uses = [PluginUse("PrioritySort"), PluginUse(plugin, 1), PluginUse("DefaultBinder")]
    if scores and plugin != "NodeUnschedulable":
        uses.append(PluginUse("NodeUnschedulable"))
    profile = ProfileSpec(
        plugins=tuple(uses),
        disabled={"filter": frozenset({plugin})} if scores else {},
        arguments={plugin: arguments} if arguments else {},
    )
    made = Engine((profile,), features=features or SchedulerFeatures())
    made.put(decode({"metadata": {"name": "default"}}, Namespace))
    return made


def _features(given: Mapping[str, bool]) -> SchedulerFeatures:
    return SchedulerFeatures(
        constraints=ConstraintOptions(numeric_tolerations=given.get("numeric", True)),
        spread_label_keys=given.get("labelKeys", True),
        spread_label_keys_merged=given.get("merged", True),
        node_inclusion_policy=given.get("inclusion", True),
    )


def _owner(tree: Tree) -> Service | ReplicaSet:
    tree = {**tree, "metadata": {"name": "owner", **tree.get("metadata", {})}}
    tree["metadata"]["namespace"] = tree["metadata"].get("namespace") or "default"
    selector = tree.get("spec", {}).get("selector")
    is_service = selector is not None and "template" not in tree["spec"] and "matchLabels" not in selector
    return decode(tree, Service) if is_service else decode(tree, ReplicaSet)


def _plugin(case: Tree) -> str | None:
    want, plugin = case["want"], case["plugin"]
    running = engine(plugin, case.get("args"), _features(case.get("features", {})), scores="scores" in want)
    for tree in case.get("namespaces", ()):
        running.put(decode(tree, Namespace))
    for tree in case.get("objs", ()):
        running.put(_owner(tree))
    for tree in case["nodes"]:
        running.put(node(tree))
    for tree in case.get("failed", ()):
        running.put(node(tree, unschedulable=True))
    for tree in case["pods"]:
        running.put(pod(tree, keep_node=True))
    found = running.explain(pod(case["pod"], keep_node=False))
    if want.get("error"):
        return "no error, upstream an error"
    if "scores" in want:
        scores = {name: each.scores.get(plugin, 0) for name, each in found.items() if each.status.is_success}
        return difference(scores, want["scores"])
    if "codes" in want:
        return difference({name: str(each.status.code) for name, each in found.items()}, want["codes"])
    for name, status in want["status"].items():
        code, reasons = str(found[name].status.code), stock_reasons(found[name].status.reasons)
        compares_reasons = status["code"] != "Success" and not case.get("codesOnly")
        if code != status["code"] or (compares_reasons and reasons != status["reasons"]):
            return f"{name}: {code} {reasons}, upstream {status}"
    return None


def stock_reasons(reasons: Iterable[str]) -> list[str]:
    """Return reasons as upstream words them: without the name of the untolerated taint."""
    return [TAINT.sub("node(s) had untolerated taint(s)", reason) for reason in reasons]


def hint(running: Engine, plugin: str, kind: Kind, target: Pod, change: tuple[Any, Any]) -> str:
    """Return `Queue` or `QueueSkip`: whether an event makes a plugin's rejected pod schedulable."""
    [found] = [each for each in running.profiles[DEFAULT_SCHEDULER].plugins if each.name == plugin]
    if not isinstance(found, EnqueueExtensions):
        return "Queue"  # a plugin without hints is retried after every event
    for registered in found.events_to_register():
        if registered.event.kind in (kind, Kind.WILDCARD) and (
            registered.hint is None or registered.hint(target, *change) is QueueingHint.QUEUE
        ):
            return "Queue"
    return "QueueSkip"


def _hint(case: Tree) -> str | None:
    def read(tree: Tree | None) -> Node | Pod | None:
        if tree is None:
            return None
        if case["kind"] == "self":  # the table gives what a plugin reads of the pod before and after
            tree = {**tree, "spec": {**(case["pod"] or {}).get("spec", {}), **tree.get("spec", {})}}
        return node(tree) if case["kind"] == "node" else pod(tree, keep_node=True)

    old, new = read(case["old"]), read(case["new"])
    if case["kind"] == "pod" and not any(map(_is_assigned, (old, new))):
        return difference("QueueSkip", case["want"])  # the queue gets events of assigned pods only
    running = engine(case["plugin"], case["args"], _features(case["features"]))
    target = pod(case["pod"] or {}, keep_node=False)
    return difference(hint(running, case["plugin"], _HINT_KINDS[case["kind"]], target, (old, new)), case["want"])


def _is_assigned(thing: Node | Pod | None) -> bool:
    return isinstance(thing, Pod) and bool(thing.spec.node_name or thing.status.nominated_node_name)


def _integration(case: Tree) -> str | None:
    """Play an integration case without a control plane: admission, then the engine, pod after pod."""
    flags = dict(zip(case["flags"][::2], case["flags"][1::2], strict=True))
    running = component.resolve(gates=flags.get("--feature-gates", ""), emulation=flags.get("--emulation-version"))
    options, features = admission_options(running), scheduler_options(running).features
    name = case["scheduler"].removeprefix("only-")
    profile = ProfileSpec(scheduler_name=case["scheduler"])
    if name != case["scheduler"]:
        scoring = frozenset(use.name for use in profile.plugins if use.name != name)
        profile = ProfileSpec(scheduler_name=case["scheduler"], disabled={"pre_score": scoring, "score": scoring})
    cluster = Engine((profile,), features=features)
    namespace = next(iter(case["namespaces"]), "default")
    for label, labels in (case["namespaces"] or {"default": {}}).items():
        cluster.put(decode({"metadata": {"name": label, "labels": labels}}, Namespace))
    for tree in case["nodes"]:
        cluster.put(node(tree))

    def admit(tree: Tree) -> Pod:
        tree = copy.deepcopy(tree)
        tree["metadata"]["namespace"] = tree["metadata"].get("namespace") or namespace
        read = pod(tree, keep_node=True)
        priority, read.spec.scheduler_name = read.spec.priority, case["scheduler"]
        read.spec.priority = None
        request = Request(options=options, now=datetime.now(UTC), namespace=read.metadata.namespace)
        admitted = admit_create(read, request).object
        admitted.spec.priority = priority or 0
        return admitted

    try:
        for tree in case["pods"]:
            placed = admit(tree)
            if not placed.spec.node_name:
                placed.spec.node_name = cluster.schedule(placed).node or ""
            cluster.put(placed)
        outcome = cluster.schedule(admit(case["pod"]))
    except StatusError as error:
        return None if case["invalid"] else f"rejected: {error}"
    where = outcome.node or (cluster.post_filter(outcome).nominated if "preempt" in case["name"] else None)
    if bool(where) != case["fits"]:
        return f"{where or outcome.message}, upstream {'fits' if case['fits'] else 'does not fit'}"
    if case["fits"] and case["candidates"] and where not in case["candidates"]:
        return f"on {where}, upstream on {case['candidates']}"
    return None


TABLES: dict[str, Play] = {"scheduling": _plugin, "hints": _hint, "integration": _integration}
