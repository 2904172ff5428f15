"""Apply the changes of a scenario to the simulated cluster."""

from collections.abc import Callable
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial

from msgspec import structs

from mooring.advisor.simulate import changes, manifests, pod_creation
from mooring.advisor.simulate.changes import Change, Patterns, ScenarioError
from mooring.advisor.simulate.evictions import format_taint
from mooring.advisor.simulate.pods import SimulatedPod, display_name_of, uid_of, with_uid
from mooring.advisor.simulate.world import World
from mooring.advisor.snapshot.objects import full_scheme
from mooring.api.base import copy_of
from mooring.api.core_v1 import Node, PersistentVolumeClaim, Pod
from mooring.api.core_v1 import Taint as NodeTaint
from mooring.api.meta_v1 import Resource

_KEEP_STATUS = frozenset({"Node", "PersistentVolume", "ResourceClaim"})
"""Kinds whose manifests may set the status, which holds capacity or allocation."""


class ChangeApplier:
    """Applies the changes of a scenario to a simulated cluster."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.last: tuple[Resource, ...] = ()
        """The workloads and pods of the last `Add`."""

    def apply(self, change: Change) -> str:
        """Apply a change to the cluster; return its description for the timeline. Raise ScenarioError."""
        match change:
            case changes.Add():
                return self._add_objects(change)
            case changes.Remove():
                return self._remove_object(change)
            case changes.Scale():
                return self._scale_workload(change)
            case changes.AddNodes():
                return self._add_nodes(change)
            case changes.RemoveNodes():
                names = self._match_nodes(change.nodes)
                for name in names:
                    self._world.remove_node(name)
                return f"remove {join_names(names)}"
            case changes.Drain():
                names = self._update_nodes(change.nodes, partial(with_unschedulable, unschedulable=True))
                for name in names:
                    self._world.drains.begin(name)
                return f"drain {join_names(names)}"
            case _:
                return self._change_nodes(change)

    def _add_objects(self, change: changes.Add) -> str:
        self.last = tuple(obj for obj in change.objects if isinstance(obj, Pod | pod_creation.WORKLOADS))
        text = []
        for obj in change.objects:
            if isinstance(obj, Pod):
                number = 1 if change.replicas is None else change.replicas
                for index in range(number):
                    self.add_pod(obj, index, number)
            else:
                wanted = obj if change.replicas is None else pod_creation.with_replicas(obj, change.replicas)
                self._add_object(copy_of(wanted))
            text.append(f"{obj.kind.lower()}/{obj.metadata.name or obj.metadata.generate_name}")
        self._world.workloads.retry_refused()
        return f"add {join_names(text)}" + (f", {change.replicas} replicas" if change.replicas is not None else "")

    def _add_object(self, obj: Resource) -> None:
        status = getattr(obj, "status", None)
        refusal = self._world.admission.admit(obj)
        if refusal:
            self._world.record.record_refused(display_name_of(obj), refusal)
            return
        if obj.kind in _KEEP_STATUS:
            obj.status = status  # type: ignore[attr-defined] # these kinds have one
        if isinstance(obj, Node):
            self._world.put_node(with_uid(obj))
        elif isinstance(obj, PersistentVolumeClaim):
            self._world.claims.create_volume_claim(obj)
        elif isinstance(obj, pod_creation.WORKLOADS):
            self._world.workloads.put(obj)
        else:
            self._world.put_object(with_uid(obj))

    def add_pod(self, pod: Pod, index: int, number: int) -> SimulatedPod | None:
        """Create one of `number` copies of a pod, with a free name; return None if admission rejects it."""
        made = copy_of(pod)
        meta = made.metadata
        base = meta.name or meta.generate_name.rstrip("-")
        meta.name = base if number == 1 and (meta.namespace, base) not in self._world.taken else f"{base}-{index}"
        while (meta.namespace, meta.name) in self._world.taken:
            index += 1
            meta.name = f"{base}-{index}"
        refusal = self._world.admission.admit(made)
        if refusal:
            self._world.record.record_refused(display_name_of(made), refusal)
            return None
        meta.uid = uid_of("Pod", meta.namespace, meta.name)
        self._world.create(made, None)
        return self._world.pods[meta.uid]

    def _remove_object(self, change: changes.Remove) -> str:
        world = self._world
        what = f"{change.kind}/{change.name}"
        if change.kind == "Node":
            return self.apply(changes.RemoveNodes((change.name,)))
        if change.kind == "Pod":
            pods = [pod for pod in world.pods.values() if pod.name == f"{change.namespace}/{change.name}"]
            for pod in pods:
                world.delete(pod, recreate=True)
            found = bool(pods)
        elif world.workloads.remove(change.kind, change.namespace, change.name):
            found = True
        else:
            obj = self._find_object(change)
            if obj is not None:
                world.remove_object(obj)
            found = obj is not None
        if not found:
            raise ScenarioError(f"remove: there is no {what} in the namespace {change.namespace}")
        return f"remove {what.lower()}"

    def _find_object(self, change: changes.Remove) -> Resource | None:
        for kind in full_scheme().known:
            if kind.kind == change.kind and full_scheme().hub(kind) is kind:
                objects = self._world.engine.cluster.objects(kind.type)
                key = f"{change.namespace}/{change.name}" if kind.namespaced else change.name
                return objects.get(key)
        return None

    def _scale_workload(self, change: changes.Scale) -> str:
        found = self._world.workloads.find(change.kind, change.namespace, change.name)
        if found is None:
            raise ScenarioError(f"scale: there is no {change.kind}/{change.name} in the namespace {change.namespace}")
        self._world.workloads.put(pod_creation.with_replicas(found, change.replicas))
        return f"scale {change.kind.lower()}/{change.name} to {change.replicas}"

    def _match_nodes(self, patterns: Patterns) -> list[str]:
        known = [info.name for info in self._world.engine.cluster.node_infos()]
        found: dict[str, None] = {}
        for pattern in patterns:
            if pattern in self._world.engine.cluster.row_of:
                found[pattern] = None
                continue
            matching = [name for name in known if fnmatchcase(name, pattern)]
            if not matching:
                near = get_close_matches(pattern, known, n=3)
                hint = f"; did you mean {' or '.join(near)}?" if near else ""
                raise ScenarioError(f"there is no node {pattern}{hint}")
            found |= dict.fromkeys(matching)
        return list(found)

    def _update_nodes(self, patterns: Patterns, change: Callable[[Node], Node]) -> list[str]:
        names = self._match_nodes(patterns)
        for name in names:
            info = self._world.engine.cluster.node(name)
            if info is not None:
                self._world.put_node(change(info.node))
        return names

    def _change_nodes(self, change: changes.Taint | changes.Untaint | changes.Label | changes.Cordon) -> str:
        match change:
            case changes.Taint():
                taint = change.taint
                if taint.effect == "NoExecute" and not taint.time_added:
                    taint = structs.replace(taint, time_added=self._world.clock.timestamp())
                names = self._update_nodes(change.nodes, lambda node: _with_taint(node, taint))
                return f"taint {join_names(names)} {format_taint(taint)}:{taint.effect}"
            case changes.Untaint():
                names = self._update_nodes(change.nodes, lambda node: _without_taint(node, change.key, change.effect))
                return f"untaint {join_names(names)} {change.key}"
            case changes.Label():
                names = self._update_nodes(change.nodes, lambda node: _with_label(node, change.key, change.value))
                return f"label {join_names(names)} {change.key}" + ("-" if change.value is None else f"={change.value}")
            case changes.Cordon():
                names = self._update_nodes(
                    change.nodes, partial(with_unschedulable, unschedulable=change.unschedulable)
                )
                for name in () if change.unschedulable else names:
                    self._world.drains.end(name)
                return f"{'' if change.unschedulable else 'un'}cordon {join_names(names)}"

    def _add_nodes(self, change: changes.AddNodes) -> str:
        cluster = self._world.engine.cluster
        number, index = 0, 0
        templates = change.templates
        if change.like:
            names = self._match_nodes((change.like,))
            templates = tuple(manifests.node_template_of(info.node) for name in names if (info := cluster.node(name)))
        while number < change.number:
            node = next(manifests.copy_templates(templates, 1, index))
            index += 1
            if node.metadata.name not in cluster.row_of:
                self._world.put_node(node)
                number += 1
        if change.like:
            return f"add {change.number} nodes like {change.like}"
        first = (templates or manifests.DEFAULT_TEMPLATES)[0]
        amounts = first.status.allocatable or first.status.capacity
        shown = " and ".join(f"{amounts[name]} {name}" for name in ("cpu", "memory") if name in amounts)
        default = "" if templates else ", as nothing else is said (--like, --template)"
        return f"add {change.number} nodes with {shown}{default}"


def _with_taint(node: Node, taint: NodeTaint) -> Node:
    kept = [each for each in node.spec.taints if (each.key, each.effect) != (taint.key, taint.effect)]
    return structs.replace(node, spec=structs.replace(node.spec, taints=[*kept, taint]))


def _without_taint(node: Node, key: str, effect: str) -> Node:
    kept = [each for each in node.spec.taints if each.key != key or (effect and each.effect != effect)]
    return structs.replace(node, spec=structs.replace(node.spec, taints=kept))


def _with_label(node: Node, key: str, value: str | None) -> Node:
    labels = {name: old for name, old in node.metadata.labels.items() if name != key}
    if value is not None:
        labels[key] = value
    return structs.replace(node, metadata=structs.replace(node.metadata, labels=labels))


def with_unschedulable(node: Node, *, unschedulable: bool) -> Node:
    """Return the node with `spec.unschedulable` set or cleared."""
    return structs.replace(node, spec=structs.replace(node.spec, unschedulable=unschedulable))


def join_names(names: list[str]) -> str:
    """Return names joined for a sentence; of many names, the first two and the number of the others."""
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"
