"""Decide whether a new node, or changed node labels, can help a pod that VolumeBinding rejected (5721.8).

A node helps a pod with bound claims if all its volumes can be used there and could not before. A pod whose claims wait
for their first consumer is helped by a label that a free volume of the class, the class, or its storage capacity names;
a node affinity in CEL names the labels that its expression reads. Called by ``plugins/volume_binding.py``.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from mooring.api.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.storage_v1 import CSINode, CSIStorageCapacity, StorageClass
from mooring.constraints import node_selector
from mooring.constraints.columns.revisions import NEVER
from mooring.constraints.node_selector import Selector
from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.framework import QueueingHint
from mooring.scheduler.volumes import migration
from mooring.scheduler.volumes.assumed import Assumed
from mooring.scheduler.volumes.claims import SELECTED_NODE, PodClaims, class_of, pod_claims
from mooring.scheduler.volumes.reach import Reach

_BOUND = "Bound"
Keys = frozenset[str] | None
"""Label keys; None for all keys."""


@dataclass
class NodeHints:
    """Queueing hints of VolumeBinding for new and changed nodes."""

    _cluster: Cluster
    _options: ConstraintOptions
    _volumes: Assumed[PersistentVolume]
    _claims: Assumed[PersistentVolumeClaim]
    _reach: Reach
    _read: dict[str, Keys] = field(default_factory=dict)
    _verified_at: int = NEVER

    def after_change(self, pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
        """Return whether a node that is new or has changed labels may make a rejected pod schedulable."""
        found = pod_claims(pod, self._cluster, self._claims)
        if new is None or not isinstance(found, PodClaims):
            return QueueingHint.SKIP  # what is wrong with the claims is nothing that a node could mend
        if not self._can_use_bound(found, new):
            return QueueingHint.SKIP
        if old is None or not self._can_use_bound(found, old):
            return QueueingHint.QUEUE
        return QueueingHint.of(any(self._may_match_after(claim, old, new) for claim in found.delayed))

    def _can_use_bound(self, claims: PodClaims, node: Node) -> bool:
        return all(self._can_use(self._volumes.get(claim.spec.volume_name), node) for claim in claims.bound)

    def _can_use(self, volume: PersistentVolume | None, node: Node) -> bool:
        if volume is None:
            return False
        if migration.built_in_driver(volume):
            csi_node = self._cluster.objects(CSINode).get(node.metadata.name)
            here = migration.translate_for_node(volume, csi_node)
            return node_selector.volume_matches(here, node.metadata.labels, self._options)
        selector = self._reach.selector(volume)
        return selector is None or selector.matches(node.metadata.labels, "")

    def _may_match_after(self, claim: PersistentVolumeClaim, old: Node, new: Node) -> bool:
        if claim.metadata.annotations.get(SELECTED_NODE, new.metadata.name) != new.metadata.name:
            return False
        before, after = old.metadata.labels, new.metadata.labels
        changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        read = self._label_keys_of(class_of(claim))
        return bool(changed) if read is None else not changed.isdisjoint(read)

    def _label_keys_of(self, class_name: str) -> Keys:
        changed_at = self._cluster.changed_at(PersistentVolume, StorageClass, CSIStorageCapacity)
        if changed_at > self._verified_at:
            self._verified_at, self._read = changed_at, {}
        if class_name not in self._read:
            self._read[class_name] = _union(self._keys_by_object(class_name))
        return self._read[class_name]

    def _keys_by_object(self, class_name: str) -> Iterator[Keys]:
        for volume in self._cluster.objects(PersistentVolume).values():
            if class_of(volume) == class_name and volume.status.phase != _BOUND:
                yield _keys_of(self._reach.selector(volume))
        storage_class = self._cluster.objects(StorageClass).get(class_name)
        for term in storage_class.allowed_topologies if storage_class is not None else ():
            yield frozenset(entry.key for entry in term.match_label_expressions)
        for capacity in self._cluster.objects(CSIStorageCapacity).values():
            if capacity.storage_class_name == class_name and capacity.node_topology is not None:
                topology = capacity.node_topology
                yield frozenset(topology.match_labels) | {entry.key for entry in topology.match_expressions}


def _keys_of(selector: Selector | None) -> Keys:
    conditions = (condition for term in (selector.terms if selector else ()) for condition in term.labels)
    return _union(map(node_selector.label_keys_read, conditions))


def _union(several: Iterable[Iterable[str] | None]) -> Keys:
    found: set[str] = set()
    for keys in several:
        if keys is None:
            return None
        found.update(keys)
    return frozenset(found)
