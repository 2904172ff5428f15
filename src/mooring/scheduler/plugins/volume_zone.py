"""VolumeZone: restricts volumes with zone or region labels to nodes with the same labels, or with none."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod, PodSpec
from mooring.api.label_selector import Operator, Requirement
from mooring.api.storage_v1 import StorageClass
from mooring.scheduler import framework as fwk
from mooring.scheduler.columns.cluster import Cluster, object_key
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.volumes import claims

REASON = "node(s) had no available volume zone"
_NEWER_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_LABELS: Final = (*_NEWER_LABELS, *_NEWER_LABELS.values())


_Zone = tuple[str, tuple[str, ...]]
"""A zone or region label of a volume, and the values of which the node must have one."""
_PodZones = tuple[Cluster, list[_Zone]]


class VolumeZone(fwk.FilterPlugin[_PodZones]):
    name = "VolumeZone"
    filters = fwk.Declaration(fwk.Part.POD)

    def __init__(self, _arguments: fwk.PluginArguments, _handle: fwk.Handle) -> None:
        pass

    def applies_to(self, spec: PodSpec) -> fwk.Status | None:
        return None if any(each.persistent_volume_claim for each in spec.volumes) else fwk.SKIP

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> fwk.PreFilterResult[_PodZones] | fwk.Status:
        found: list[_Zone] = []
        for volume in pod.pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            if not name:
                return fwk.unresolvable("PersistentVolumeClaim had no name")
            claim = cluster.objects(PersistentVolumeClaim).get(object_key(pod.pod.metadata.namespace, name))
            if claim is None:
                return fwk.unresolvable(claims.claim_not_found(name))
            bound = _volume_of(claim, cluster)
            if isinstance(bound, fwk.Status):
                return bound
            if bound is not None:
                found += _zones_of(bound.metadata.labels)
        return fwk.PreFilterResult((cluster, found)) if found else fwk.SKIP

    def filter(self, state: _PodZones, rows: fwk.Rows) -> fwk.Verdicts:
        cluster, zones = state
        labels = cluster.labels
        fits: fwk.Mask = np.ones(cluster.capacity, np.bool_)
        for key, values in zones:
            there = labels.mask(Requirement(key, Operator.IN, values))
            newer = _NEWER_LABELS.get(key)
            if newer is not None:
                has_not = ~labels.mask(Requirement(key, Operator.EXISTS))
                there = there | (has_not & labels.mask(Requirement(newer, Operator.IN, values)))
            fits &= there
        has_zone = np.logical_or.reduce([labels.mask(Requirement(key, Operator.EXISTS)) for key in _LABELS])
        return fwk.Verdicts(np.where(fits | ~has_zone, 0, -1)[rows].astype(np.int32), lambda _: (REASON,))

    def events_to_register(self) -> Sequence[fwk.EventWithHint]:
        changed = fwk.Action.ADD | fwk.Action.UPDATE
        return (
            fwk.wake_on(fwk.Kind.STORAGE_CLASS, fwk.Action.ADD, _after_class_addition),
            fwk.wake_on(fwk.Kind.NODE, fwk.Action.ADD | fwk.Action.UPDATE_NODE_LABEL),
            fwk.wake_on(fwk.Kind.PERSISTENT_VOLUME_CLAIM, changed, claims.after_claim_change),
            fwk.wake_on(fwk.Kind.PERSISTENT_VOLUME, changed, _after_volume_change),
        )


def _volume_of(claim: PersistentVolumeClaim, cluster: Cluster) -> PersistentVolume | fwk.Status | None:
    name = claim.spec.volume_name
    if name:
        return cluster.objects(PersistentVolume).get(name) or fwk.unresolvable(f'persistentvolume "{name}" not found')
    class_name = claims.class_of(claim)
    if not class_name:
        return fwk.unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
    storage_class = cluster.objects(StorageClass).get(class_name)
    if storage_class is None:
        return fwk.unresolvable(f'storageclass.storage.k8s.io "{class_name}" not found')
    if storage_class.volume_binding_mode is None:
        return fwk.unresolvable(claims.binding_mode_not_set(class_name))
    if storage_class.volume_binding_mode == claims.WAIT_FOR_FIRST_CONSUMER:
        return None
    return fwk.unresolvable("PersistentVolume had no name")


def _zones_of(labels: Mapping[str, str]) -> list[_Zone]:
    found: list[_Zone] = []
    for key in _LABELS:
        zones = labels[key].split("__") if key in labels else []
        values = tuple(sorted({zone.strip() for zone in zones}))
        if values and all(values):
            found.append((key, values))
    return found


def _after_class_addition(_pod: Pod, _old: StorageClass | None, new: StorageClass | None) -> fwk.QueueingHint:
    return fwk.QueueingHint.of(new is not None and new.volume_binding_mode == claims.WAIT_FOR_FIRST_CONSUMER)


def _after_volume_change(_pod: Pod, old: PersistentVolume | None, new: PersistentVolume | None) -> fwk.QueueingHint:
    if old is None or new is None:
        return fwk.QueueingHint.QUEUE
    return fwk.QueueingHint.of(_zones_of(old.metadata.labels) != _zones_of(new.metadata.labels))
