"""VolumeRestrictions: a claim that only one pod may use at a time, and disks that cannot be mounted twice on a node."""

from collections.abc import Sequence

import msgspec
import numpy as np

from mooring.api.core_v1 import PersistentVolumeClaim, Pod, PodSpec
from mooring.scheduler.columns.cluster import Cluster, object_key
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.framework import (
    SKIP,
    Action,
    ClusterEvent,
    Declaration,
    EventWithHint,
    FilterPlugin,
    Handle,
    Kind,
    Part,
    PluginArguments,
    PreFilterResult,
    QueueingHint,
    Rows,
    Status,
    Verdicts,
    unresolvable,
)
from mooring.scheduler.volumes.claims import missing_claim, uses_claim
from mooring.scheduler.volumes.use import VolumeUse, has_disks, is_disk, pods_share_disk

REASON_DISK = "node(s) had no available disk"
REASON_ONE_POD = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
_REASONS = ("", REASON_DISK, REASON_ONE_POD)
_ONE_POD = "ReadWriteOncePod"


class _Wanted(msgspec.Struct, frozen=True):
    pod: Pod
    cluster: Cluster
    is_taken: bool
    """Whether another pod, wherever it is, uses a claim that only one may use."""


class VolumeRestrictions(FilterPlugin[_Wanted]):
    name = "VolumeRestrictions"
    filters = Declaration(Part.POD)

    def __init__(self, _arguments: PluginArguments, handle: Handle) -> None:
        self._use = VolumeUse(handle.cluster)

    def applies_to(self, spec: PodSpec) -> Status | None:
        return None if any(each.persistent_volume_claim or is_disk(each) for each in spec.volumes) else SKIP

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> PreFilterResult[_Wanted] | Status:
        if not pod.pod.spec.volumes:
            return SKIP
        taken = False
        known, namespace = cluster.objects(PersistentVolumeClaim), pod.pod.metadata.namespace
        for volume in pod.pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            key = object_key(namespace, volume.persistent_volume_claim.claim_name)
            claim = known.get(key)
            if claim is None:
                return unresolvable(missing_claim(volume.persistent_volume_claim.claim_name))
            taken = taken or (_ONE_POD in claim.spec.access_modes and self._use.claims[key] > 0)
        if not taken and not has_disks(pod.pod):
            return SKIP
        return PreFilterResult(_Wanted(pod.pod, cluster, taken))

    def filter(self, state: _Wanted, rows: Rows) -> Verdicts:
        codes = np.full(state.cluster.capacity, 2 if state.is_taken else 0, np.int32)
        if has_disks(state.pod):
            for name, pods in self._use.disks.items():
                if any(pods_share_disk(state.pod, other) for other in pods.values()):
                    codes[state.cluster.row_of[name]] = 1
        return Verdicts(codes[rows], lambda code: (_REASONS[code],))

    def events_to_register(self) -> Sequence[EventWithHint]:
        return (
            EventWithHint(ClusterEvent(Kind.ASSIGNED_POD, Action.DELETE), _after_pod_deletion),
            EventWithHint(ClusterEvent(Kind.NODE, Action.ADD)),
            EventWithHint(ClusterEvent(Kind.PERSISTENT_VOLUME_CLAIM, Action.ADD | Action.UPDATE), _after_claim_change),
        )


def _after_pod_deletion(pod: Pod, old: Pod | None, _new: Pod | None) -> QueueingHint:
    if old is None:
        return QueueingHint.SKIP
    shares_claim = old.metadata.namespace == pod.metadata.namespace and not _claims(pod).isdisjoint(_claims(old))
    return QueueingHint.of(shares_claim or pods_share_disk(pod, old))


def _claims(pod: Pod) -> set[str]:
    sources = (volume.persistent_volume_claim for volume in pod.spec.volumes)
    return {source.claim_name for source in sources if source is not None}


def _after_claim_change(
    pod: Pod, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
) -> QueueingHint:
    return QueueingHint.of(new is not None and uses_claim(pod, new))
