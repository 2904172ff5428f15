"""Translate the topology of volumes of former in-tree drivers, on nodes where CSI drivers replaced these.

In-tree drivers used the nodes' zone labels, CSI drivers use labels of their own:

    in-tree   topology.kubernetes.io/zone In [a]     or only the label topology.kubernetes.io/zone: a
    CSI       topology.ebs.csi.aws.com/zone In [a]

An annotation of a node's CSINode lists the replaced drivers (``csi.py``). As in Kubernetes, only bound volumes are
translated. Called by ``plugins/volume_binding.py`` and ``binding.py``.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from msgspec import structs

from mooring.api.core_v1 import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    VolumeNodeAffinity,
)
from mooring.api.storage_v1 import CSINode
from mooring.constraints.columns.revisions import NEVER
from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.framework import Mask
from mooring.scheduler.volumes import csi
from mooring.scheduler.volumes.reach import Reach

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_OLD_ZONE, _OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
_SEVERAL: Final = "__"
"""The separator between the zones in the label of a volume that is in several zones."""


_CSI_LABELS: Final[Mapping[str, tuple[str, str]]] = {
    "kubernetes.io/gce-pd": ("topology.gke.io/zone", ""),
    "kubernetes.io/aws-ebs": ("topology.ebs.csi.aws.com/zone", ""),
    "kubernetes.io/cinder": ("topology.cinder.csi.openstack.org/zone", ""),
    "kubernetes.io/vsphere-volume": ("topology.csi.vmware.com/zone", "topology.csi.vmware.com/region"),
}
"""By in-tree driver, the CSI driver's labels for zones and regions; "" if it keeps Kubernetes' region label.

Other drivers keep their topology.
"""


def built_in_driver(volume: PersistentVolume) -> str:
    """Return the in-tree driver of a volume, if its CSI driver has other topology labels; else an empty string."""
    attachment = csi.attachment_of(volume)
    name = attachment.migrated_from if attachment is not None else ""
    return name if name in _CSI_LABELS else ""


def translate_for_node(volume: PersistentVolume, node: CSINode | None) -> PersistentVolume:
    """Return the volume, with CSI topology labels in its node affinity if the node's CSI driver replaced its driver."""
    name = built_in_driver(volume)
    return _translate(volume, *_CSI_LABELS[name]) if name and name in csi.migrated_plugins(node) else volume


def _translate(volume: PersistentVolume, csi_zone: str, csi_region: str) -> PersistentVolume:
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    terms = list(required.node_selector_terms) if required is not None else []
    zone, region = _used_labels(terms, volume.metadata.labels)
    in_zone, in_region = (volume.metadata.labels.get(label, "") for label in (zone, region))
    terms = _replace_terms(terms, zone, csi_zone, [in_zone] if csi_region else in_zone.split(_SEVERAL))
    if csi_region:
        terms = _replace_terms(terms, region, csi_region, [in_region])
    elif region == _OLD_REGION:
        terms = _replace_terms(terms, region, _REGION, ())
    if not terms:
        return volume
    found = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms))
    return structs.replace(volume, spec=structs.replace(volume.spec, node_affinity=found))


def _used_labels(terms: list[NodeSelectorTerm], labels: Mapping[str, str]) -> tuple[str, str]:
    used = {entry.key for term in terms for entry in term.match_expressions}
    for names in (used, labels.keys()):
        if _ZONE in names:
            return _ZONE, _REGION
        if _OLD_ZONE in names:
            return _OLD_ZONE, _OLD_REGION
    return _ZONE, _REGION


def _replace_terms(
    terms: list[NodeSelectorTerm], old: str, new: str, otherwise: Iterable[str]
) -> list[NodeSelectorTerm]:
    if any(entry.key == old and entry.values for term in terms for entry in term.match_expressions):
        return [_rename_key(term, old, new) for term in terms]
    values = sorted({value.strip() for value in otherwise} - {""})
    if not values:
        return terms
    added = NodeSelectorRequirement(key=new, operator="In", values=values)
    return [
        structs.replace(term, match_expressions=[*term.match_expressions, added])
        for term in terms or [NodeSelectorTerm()]
    ]


def _rename_key(term: NodeSelectorTerm, old: str, new: str) -> NodeSelectorTerm:
    entries = [structs.replace(entry, key=new) if entry.key == old else entry for entry in term.match_expressions]
    return structs.replace(term, match_expressions=entries)


class MigratedReach:
    """Correct the node rows from which in-tree volumes can be used, on nodes where a CSI driver replaced theirs."""

    def __init__(self, cluster: Cluster, options: ConstraintOptions) -> None:
        self._cluster = cluster
        self._reach = Reach(cluster, options)
        self._verified_at = NEVER
        self._rows: dict[str, Mask] = {}

    def correct_reachable(self, volume: PersistentVolume, reachable: Mask | None) -> Mask | None:
        """Return the mask of node rows from which a volume can be used, or None for all; `reachable` is uncorrected."""
        name = built_in_driver(volume)
        if not name:
            return reachable
        replaced = self._rows_where_replaced(name)
        if not replaced.any():
            return reachable
        plain = np.ones(self._cluster.capacity, np.bool_) if reachable is None else reachable
        return np.where(replaced, self._reach.mask(_translate(volume, *_CSI_LABELS[name])), plain)

    def _rows_where_replaced(self, name: str) -> Mask:
        changed_at = max(self._cluster.changed_at(CSINode), self._cluster.nodes_changed_at)
        if changed_at > self._verified_at:
            self._verified_at = changed_at
            self._rows = {}
        found = self._rows.get(name)
        if found is None:
            found = self._rows[name] = np.zeros(self._cluster.capacity, np.bool_)
            for node in self._cluster.objects(CSINode).values():
                row = self._cluster.row_of.get(node.metadata.name)
                if row is not None and name in csi.migrated_plugins(node):
                    found[row] = True
        return found
