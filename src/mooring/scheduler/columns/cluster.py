"""The cluster that plugins read: nodes and placed pods in columns, everything else in dicts by key.

Informers, simulations and replays write to it, with objects that are never changed afterwards. Pods on a node that does
not exist yet are placed when it is added.

    nodes, row_of        by row, and the row of a name      labels, taints    `mooring.constraints.columns`
    resources, ports, images, topologies, pod_sets, term_owners               the other columns
    objects(Kind)        PersistentVolumes, claims, storage classes, … by "name" or "namespace/name"
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.apps_v1 import ReplicaSet, StatefulSet
from mooring.api.core_v1 import Namespace, Node, Pod, ReplicationController, Service
from mooring.api.meta_v1 import Resource
from mooring.api.states import has_ended, priority
from mooring.base import logs
from mooring.constraints.columns import Deadline, LabelColumns, TaintColumns
from mooring.constraints.columns.column import larger_capacity
from mooring.constraints.columns.revisions import NEVER, ChangeLog, RowLog, next_revision
from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.columns.inputs import Input, Inputs
from mooring.scheduler.columns.pod_sets import GroupKey, PodSets, TermOwners
from mooring.scheduler.columns.ranked_pods import PriorityColumn, RankedPods
from mooring.scheduler.columns.resources import ImageColumns, PortColumns, ResourceColumns
from mooring.scheduler.columns.signatures import (
    PodInfo,
    PodSignature,
    SignatureTable,
    group_of,
    label_keys,
    shares_signed_fields,
)
from mooring.scheduler.columns.topology import Topologies
from mooring.scheduler.columns.trial import Trial

log = logs.get(__name__)

T = TypeVar("T", bound=Resource)
_CAPACITY = 64
_NOTHING_HELD: Mapping[str, Any] = MappingProxyType({})


@dataclass(slots=True)
class NodeInfo:
    """A node, the index of its row in the node table, and the pods on it."""

    row: int
    node: Node
    placed: dict[str, "PlacedPod"] = field(default_factory=dict)
    """The pods on the node, by pod key."""
    ranked: RankedPods | None = None
    """The pods on the node, most important first; None if the order is stale."""

    @property
    def name(self) -> str:
        return self.node.metadata.name

    @property
    def pods(self) -> list[Pod]:
        return [placed.pod for placed in self.placed.values()]


class PlacedPod(msgspec.Struct):
    """A pod that the columns count on a node: bound to it, or assumed there."""

    pod: Pod
    signature: PodSignature
    node_name: str
    group: GroupKey
    held: Mapping[str, Any] = _NOTHING_HELD
    """By plugin name, what the plugin reserved for the pod on this node, such as a GPU. A trial restores it."""

    def hold(self, plugin: str, value: object) -> None:
        self.held = {**self.held, plugin: value}


class PodObserver:
    """The base class of columns that a plugin keeps itself: called for every placed pod, also in a trial.

    State that must survive removing and placing the pod again, such as the GPU chosen for it, belongs in `placed.held`.
    """

    def pod_placed(self, placed: PlacedPod, node: NodeInfo) -> None:
        """Count a pod that was placed on a node."""

    def pod_left(self, placed: PlacedPod, node: NodeInfo) -> None:
        """Undo `pod_placed`, because the pod was removed from the node."""


def pod_key(pod: Pod) -> str:
    """Return the key of a pod: its uid, or namespace and name if it has no uid."""
    return pod.metadata.uid or f"{pod.metadata.namespace}/{pod.metadata.name}"


def object_key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


class Cluster:
    def __init__(self, constraints: ConstraintOptions | None = None, *, pod_level_resources: bool = True) -> None:
        constraints = constraints or ConstraintOptions()
        self.capacity = _CAPACITY
        """The number of node rows of every column, used and free."""
        self.nodes: list[NodeInfo | None] = [None] * _CAPACITY
        self.row_of: dict[str, int] = {}
        self.nodes_changed_at = 0
        """The revision at which a node was last added or removed."""
        self.unschedulable: NDArray[np.bool_] = np.zeros(_CAPACITY, np.bool_)
        self.namespaces: dict[str, Mapping[str, str]] = {}
        """The labels of each namespace, by its name."""
        self.signatures = SignatureTable(pod_level_resources=pod_level_resources)
        self.deadline = Deadline()
        """When evaluating the conditions of one pod on all nodes is interrupted; see `Engine.schedule`."""
        self.labels = LabelColumns(_CAPACITY, deadline=self.deadline)
        self.taints = TaintColumns(constraints, _CAPACITY, deadline=self.deadline)
        self.resources = ResourceColumns(_CAPACITY)
        self.priorities = PriorityColumn(_CAPACITY)
        self.ports = PortColumns()
        self.images = ImageColumns()
        self.topologies = Topologies(_CAPACITY)
        self.pod_sets = PodSets(self.namespaces)
        self.inputs = Inputs(_CAPACITY)
        self.term_owners = TermOwners(self.namespaces, self.inputs)
        self.node_changes = self.inputs.log(Input.NODE)
        """Log of the node rows whose node was added, removed or changed in a field that scheduling reads."""
        self.row_changes = self.inputs.log(Input.NODE | Input.PODS)
        """Log of these node rows, and of the rows on which pods were placed, removed or changed."""
        self.rank_changes = RowLog()
        """Log of the node rows on which only the importance (priority or start time) of a pod changed."""
        self.observers: list[PodObserver] = []
        self.shared: dict[Hashable, Any] = {}
        """State that plugins of several profiles share, such as volume reservations, by a key that plugins choose."""
        self._nodes_copy: tuple[NodeInfo | None, ...] = ()
        self._nodes_copied_at = NEVER
        self._free_rows: list[int] = list(range(_CAPACITY - 1, -1, -1))
        self._pods: dict[str, PlacedPod] = {}
        self._objects: dict[type[Resource], dict[str, Resource]] = {}
        self._objects_changed_at: dict[type[Resource], int] = {}
        self._object_changes: dict[type[Resource], ChangeLog[str]] = {}
        self._waiting: dict[str, dict[str, PlacedPod]] = {}
        """The pods on nodes that do not exist yet, by node name and pod key."""

    # -- reading

    def __len__(self) -> int:
        return len(self.row_of)

    @property
    def layout(self) -> int:
        """Return a number that rises when node rows or resources are added, so that cached arrays are stale."""
        return self.resources.layout

    def node(self, name: str) -> NodeInfo | None:
        row = self.row_of.get(name)
        return None if row is None else self.nodes[row]

    def node_at(self, row: int) -> NodeInfo:
        """Return the node of a row; raise AssertionError if the row has none."""
        info = self.nodes[row]
        if info is None:
            raise AssertionError(f"row {row} has no node")
        return info

    def snapshot_nodes(self) -> Sequence[NodeInfo | None]:
        """Return a snapshot of the nodes, by row of the node table."""
        if self._nodes_copied_at != self.nodes_changed_at:
            self._nodes_copy, self._nodes_copied_at = tuple(self.nodes), self.nodes_changed_at
        return self._nodes_copy

    def node_infos(self) -> Iterator[NodeInfo]:
        """Iterate over all nodes in the order of their rows in the node table."""
        return (info for info in self.nodes if info is not None)

    def info(self, pod: Pod) -> PodInfo:
        """Return a pod together with its pod signature."""
        return PodInfo(pod, self.signatures.signature_of(pod))

    def placed(self, pod: Pod) -> PlacedPod | None:
        """Return the `PlacedPod` of a pod; None if the pod is on no node."""
        return self._pods.get(pod_key(pod))

    def rank_pods(self, row: int) -> RankedPods:
        """Return the pods on a node row, most important first, as arrays."""
        info = self.nodes[row]
        found = None if info is None else info.ranked
        if found is None or found.layout != self.layout:
            found = RankedPods(() if info is None else info.placed.values(), self.layout)
            if info is not None:
                info.ranked = found
        return found

    def find(self, thing: Resource) -> Resource | None:
        """Return the stored object of the same kind and name as the given one; None if there is none."""
        if isinstance(thing, Node):
            info = self.node(thing.metadata.name)
            return None if info is None else info.node
        return self._objects.get(type(thing), {}).get(_key_of(thing))

    @property
    def pods_placed(self) -> int:
        """Return the number of pods placed on nodes."""
        return len(self._pods)

    def placed_pods(self) -> Iterator[PlacedPod]:
        return iter(self._pods.values())

    def objects(self, kind: type[T]) -> dict[str, T]:
        """Return all objects of a kind, by "name" or "namespace/name". The dict is shared: do not modify it."""
        return self._objects.setdefault(kind, {})  # type: ignore[return-value] # each kind's dict has only that kind

    def changed_at(self, *kinds: type[Resource]) -> int:
        """Return the cluster revision at which an object of one of the given kinds last changed."""
        return max([self._objects_changed_at.get(kind, 0) for kind in kinds])

    def changes(self, kind: type[Resource]) -> ChangeLog[str]:
        """Return a log of the keys of objects of a kind that change from now on."""
        return self._object_changes.setdefault(kind, ChangeLog())

    # -- trying

    @contextmanager
    def trial(self, put: Iterable[Resource] = (), remove: Iterable[Resource] = ()) -> Iterator[Trial]:
        """Add and remove objects, and move pods, until the end of the block; then undo everything."""
        trial = Trial(self)
        try:
            trial.change_objects(put, remove)
            yield trial
        finally:
            trial.undo()

    # -- writing

    def put(self, thing: Resource) -> None:
        """Add an object, or replace the one of the same name."""
        if isinstance(thing, Node):
            self.put_node(thing)
        elif isinstance(thing, Pod):
            self.put_pod(thing)
        else:
            key, kind = _key_of(thing), type(thing)
            self._objects.setdefault(kind, {})[key] = thing
            self.signatures.distinguish_by(_selector_label_keys(thing))
            self._record_object_change(kind, key)
            if isinstance(thing, Namespace):
                self._put_namespace(thing.metadata.name, thing.metadata.labels)

    def remove(self, thing: Resource) -> None:
        if isinstance(thing, Node):
            self.remove_node(thing.metadata.name)
        elif isinstance(thing, Pod):
            self.remove_pod(thing)
        elif self._objects.get(type(thing), {}).pop(key := _key_of(thing), None) is not None:
            self._record_object_change(type(thing), key)
            if isinstance(thing, Namespace):
                self._put_namespace(thing.metadata.name, None)

    def _record_object_change(self, kind: type[Resource], key: str) -> None:
        self._objects_changed_at[kind] = next_revision()
        self.inputs.touch(Input.OBJECTS)
        if kind in self._object_changes:
            self._object_changes[kind].note(key)

    def put_node(self, node: Node) -> None:
        name = node.metadata.name
        row = self.row_of.get(name)
        if row is None:
            self._add_node(node)
            return
        self.node_at(row).node = node
        for changed in self._update_columns(row, node):
            self.inputs.note(changed, row)

    def remove_node(self, name: str) -> None:
        """Remove a node; its pods are kept aside until it is added again or they are removed."""
        row = self.row_of.get(name)
        if row is None:
            return
        for placed in list(self.node_at(row).placed.values()):
            self.displace(placed)
            self._waiting.setdefault(name, {})[pod_key(placed.pod)] = placed
        del self.row_of[name]
        self.nodes[row] = None
        self.labels.remove(row)
        self.taints.remove(row)
        self.resources.remove(row)
        self.images.remove(row)
        self.topologies.put(row, None)
        self.unschedulable[row] = False
        self._free_rows.append(row)
        self.nodes_changed_at = next_revision()
        self.inputs.note_node(row)

    def put_pod(self, pod: Pod, node_name: str = "") -> None:
        """Place a pod on its node, or on `node_name` if it is only assumed there.

        Ignore a pod without a node, because it may be assumed somewhere; remove a pod that has finished.
        """
        node_name = node_name or pod.spec.node_name
        if has_ended(pod):
            self.remove_pod(pod)
            return
        if not node_name:
            return
        key = pod_key(pod)
        before = self._pods.get(key)
        if before is not None and before.node_name == node_name and shares_signed_fields(pod, before.pod):
            before.pod = pod
            return
        placed = self.build_placed_pod(pod, node_name)
        if before is not None:
            if before.node_name == node_name and before.signature is placed.signature:
                self._replace_pod(before, placed)
                return
            placed.held = before.held if before.node_name == node_name else placed.held
            self.displace(before)
        if node_name not in self.row_of:
            self._waiting.setdefault(node_name, {})[key] = placed
            return
        self.place(placed)

    def remove_pod(self, pod: Pod) -> None:
        key = pod_key(pod)
        placed = self._pods.get(key)
        if placed is not None:
            self.displace(placed)
            return
        for name in (pod.spec.node_name,) if pod.spec.node_name in self._waiting else tuple(self._waiting):
            self._waiting[name].pop(key, None)
            if not self._waiting[name]:
                del self._waiting[name]

    # -- how

    def _replace_pod(self, placed: PlacedPod, newer: PlacedPod) -> None:
        row = self.row_of[placed.node_name]
        info, before = self.node_at(row), placed.pod
        if placed.group == newer.group:
            placed.pod = newer.pod
        else:
            self._move_to_group(placed, newer, row, info)
        is_as_high = priority(before) == priority(newer.pod)
        if is_as_high and before.status.start_time == newer.pod.status.start_time:
            return
        info.ranked = None
        self.rank_changes.note(row)
        if not is_as_high:
            others = [_priority_of(other) for other in info.placed.values() if other is not placed]
            self.priorities.subtract(row, priority(before), others)
            self.priorities.add(row, priority(newer.pod))

    def _move_to_group(self, placed: PlacedPod, newer: PlacedPod, row: int, info: NodeInfo) -> None:
        self._notify(placed, info, is_placed=False)
        before, placed.group, placed.pod = placed.group, newer.group, newer.pod
        if self.pod_sets.move(row, before, newer.group, newer.pod.metadata.labels) or before[1] != newer.group[1]:
            self.inputs.note(Input.PODS, row)
        self._notify(placed, info, is_placed=True)

    def _add_node(self, node: Node) -> None:
        name = node.metadata.name
        if not self._free_rows:
            self._add_rows()
        row = self._free_rows.pop()
        self.row_of[name] = row
        self.nodes[row] = NodeInfo(row, node)
        self.nodes_changed_at = next_revision()
        self._update_columns(row, node)
        self.inputs.note_node(row)
        for key, placed in self._waiting.pop(name, {}).items():
            if key not in self._pods:  # else it has turned up elsewhere
                self.place(placed)

    def _update_columns(self, row: int, node: Node) -> list[Input]:
        labels, taints, images = self.labels.changed_at, self.taints.changed_at, self.images.changed_at
        self.labels.put(row, node.metadata.name, node.metadata.labels)
        self.taints.put(row, node.spec.taints)
        self.images.put(row, node.status.images)
        if self.labels.changed_at != labels:
            self.topologies.put(row, node.metadata.labels)
        is_changed = {
            Input.NODE_LABELS: self.labels.changed_at != labels,
            Input.NODE_TAINTS: self.taints.changed_at != taints,
            Input.NODE_IMAGES: self.images.changed_at != images,
            Input.NODE_ALLOCATABLE: self.resources.put(row, node),
            Input.NODE_CORDONED: bool(self.unschedulable[row] != node.spec.unschedulable),
        }
        self.unschedulable[row] = node.spec.unschedulable
        return [changed for changed, is_other in is_changed.items() if is_other]

    def build_placed_pod(self, pod: Pod, node_name: str) -> PlacedPod:
        """Build the `PlacedPod` of a pod on a node, without placing it; `place` accepts it."""
        signature = self.signatures.signature_of(pod)
        is_terminating = pod.metadata.deletion_timestamp is not None
        return PlacedPod(pod, signature, node_name, (group_of(pod, signature), is_terminating))

    def place(self, placed: PlacedPod) -> None:
        """Place a pod on its node; the node must exist."""
        row = self.row_of[placed.node_name]
        info = self.node_at(row)
        signature, pod = placed.signature, placed.pod
        key = pod_key(pod)
        self._pods[key] = placed
        info.placed[key] = placed
        info.ranked = None
        signature.pods += 1
        self.resources.add(row, signature)
        self.priorities.add(row, priority(pod))
        if signature.ports:
            self.ports.add(row, signature.ports)
        if signature.terms.keys:
            self.term_owners.add(row, signature.terms, self.topologies)
        self.pod_sets.add(row, placed.group, pod.metadata.labels)
        self.inputs.note(Input.PODS, row)
        self._notify(placed, info, is_placed=True)

    def displace(self, placed: PlacedPod) -> None:
        """Remove a pod from its node; `place` puts it back."""
        row = self.row_of[placed.node_name]
        info = self.node_at(row)
        signature, key = placed.signature, pod_key(placed.pod)
        del self._pods[key]
        del info.placed[key]
        info.ranked = None
        signature.pods -= 1
        self.resources.add(row, signature, -1)
        self.priorities.subtract(row, priority(placed.pod), map(_priority_of, info.placed.values()))
        if signature.ports:
            self.ports.add(row, signature.ports, -1)
        if signature.terms.keys:
            self.term_owners.subtract(row, signature.terms)
        self.pod_sets.subtract(row, placed.group)
        self.inputs.note(Input.PODS, row)
        self._notify(placed, info, is_placed=False)

    def _notify(self, placed: PlacedPod, info: NodeInfo, *, is_placed: bool) -> None:
        for observer in self.observers:
            try:
                (observer.pod_placed if is_placed else observer.pod_left)(placed, info)
            except Exception:
                fields = {"observer": type(observer).__name__}
                log.exception("a plugin did not take in a pod", extra={"fields": fields})

    def _put_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        if self.namespaces.get(name) == labels:
            return
        if labels is None:
            del self.namespaces[name]
        else:
            self.namespaces[name] = labels
        self.pod_sets.namespace_changed(name)
        self.term_owners.namespace_changed()
        self.inputs.touch(Input.NAMESPACES)

    def _add_rows(self) -> None:
        before, self.capacity = self.capacity, larger_capacity(self.capacity)
        added = self.capacity - before
        self.nodes += [None] * added
        self.unschedulable = np.concatenate((self.unschedulable, np.zeros(added, np.bool_)))
        self._free_rows += range(self.capacity - 1, before - 1, -1)
        for column in (self.resources, self.priorities, self.topologies, self.inputs):
            column.grow(self.capacity)
        self.rank_changes.limit = self.capacity


def _selector_label_keys(thing: Resource) -> Iterable[str]:
    if isinstance(thing, Service | ReplicationController):
        return thing.spec.selector
    if isinstance(thing, ReplicaSet | StatefulSet):
        return label_keys(thing.spec.selector) if thing.spec.selector is not None else ()
    return ()


def _priority_of(placed: PlacedPod) -> int:
    return priority(placed.pod)


def _key_of(thing: Resource) -> str:
    return object_key(thing.metadata.namespace, thing.metadata.name)
