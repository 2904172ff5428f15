"""VolumeBinding: rejects nodes where a pod's volumes cannot be used, bound or provisioned; binds the volumes with the
pod.

Bound claims restrict the nodes by the node affinity of their volume. A claim that waits for its first consumer gets an
existing volume that the node can use; otherwise one is provisioned, if the StorageClass allows it and the driver has
capacity. The choice is made for all nodes at once (`volumes/matching.py`, `volumes/provisioning.py`), assumed for the
chosen node in `reserve`, and written in `pre_bind`.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from mooring.api.base import Int64, Object
from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod, PodSpec
from mooring.api.meta_v1 import Resource
from mooring.api.storage_v1 import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from mooring.scheduler import framework as fwk
from mooring.scheduler.columns.cluster import Cluster, object_key
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.plugins import arguments as plugin_arguments
from mooring.scheduler.plugins.resource_scoring import UtilizationShapePoint, checked_shape, points_by_percent
from mooring.scheduler.volumes import csi, matching, provisioning
from mooring.scheduler.volumes.assumed import find_assumptions
from mooring.scheduler.volumes.binding import PodVolumes, VolumeBinder, pod_volumes
from mooring.scheduler.volumes.capacity_scoring import score_by_utilisation
from mooring.scheduler.volumes.claims import SELECTED_NODE, PodClaims, after_claim_change, claim_names, pod_claims
from mooring.scheduler.volumes.matching import Choice
from mooring.scheduler.volumes.migration import MigratedReach
from mooring.scheduler.volumes.node_hints import NodeHints
from mooring.scheduler.volumes.provisioning import Provision, ProvisioningError
from mooring.scheduler.volumes.reach import Reach
from mooring.scheduler.volumes.stock import Stock

REASON_NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
REASON_BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
REASON_NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
REASON_MISSING_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_REASONS = (REASON_NODE_CONFLICT, REASON_BIND_CONFLICT, REASON_NOT_ENOUGH_SPACE, REASON_MISSING_VOLUME)
_NODE_CONFLICT, _BIND_CONFLICT, _NOT_ENOUGH_SPACE, _MISSING_VOLUME = 1, 2, 4, 8
"""The bits of a verdict code, one for each reason; messages list the reasons in this order."""
_DEFAULT_SHAPE = (UtilizationShapePoint(utilization=0, score=10), UtilizationShapePoint(utilization=100, score=0))


class VolumeBindingArgs(Object):
    """The arguments of the VolumeBinding plugin."""

    bind_timeout_seconds: Int64 | None = None
    """How long to wait until volumes are bound; 600 when absent."""
    shape: list[UtilizationShapePoint] = []  # noqa: RUF012 - msgspec copies it
    """The function from storage utilisation to score; by default, emptier nodes score higher."""


class PodState(msgspec.Struct):
    """The claims of a pod during one scheduling cycle, with the volumes chosen for each node row."""

    cluster: Cluster
    claims: PodClaims
    choices: list[Choice] = msgspec.field(default_factory=list)
    provisions: list[Provision] = msgspec.field(default_factory=list)
    reserved: PodVolumes | None = None

    def volumes_on(self, node_name: str) -> PodVolumes:
        """Return the volumes and claims to write when the pod is bound to a node."""
        row = self.cluster.row_of[node_name]
        to_provision = [entry.claim for entry in self.provisions if entry.rows[row]]
        return pod_volumes(matching.matched_volumes_on(self.choices, row), to_provision, node_name)


class VolumeBinding(fwk.FilterPlugin[PodState], fwk.ScorePlugin[PodState]):
    name = "VolumeBinding"
    filters = scores = fwk.Declaration(fwk.Part.POD)

    def __init__(self, arguments: fwk.PluginArguments, handle: fwk.Handle) -> None:
        args = plugin_arguments.read(self.name, arguments, VolumeBindingArgs)
        self._timeout = 600 if args.bind_timeout_seconds is None else args.bind_timeout_seconds
        if self._timeout < 0:
            raise plugin_arguments.error(self.name, "bindTimeoutSeconds must not be negative")
        shape = checked_shape(self.name, args.shape) if args.shape else _DEFAULT_SHAPE
        self._by_percent = points_by_percent(shape) if handle.features.storage_capacity_scoring else None
        self._client = handle.client
        options = handle.features.constraints
        self._volumes = find_assumptions(handle.cluster, PersistentVolume)
        self._claims = find_assumptions(handle.cluster, PersistentVolumeClaim)
        self._reach = Reach(handle.cluster, options)
        self._migrated = MigratedReach(handle.cluster, options)
        self._stock = Stock(handle.cluster, self._volumes, self._reach)
        self._nodes = NodeHints(handle.cluster, options, self._volumes, self._claims, self._reach)
        self._binder = VolumeBinder(handle.cluster, self._volumes, self._claims, options)

    def applies_to(self, spec: PodSpec) -> fwk.Status | None:
        return None if any(each.persistent_volume_claim or each.ephemeral for each in spec.volumes) else fwk.SKIP

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> fwk.PreFilterResult[PodState] | fwk.Status:
        if not pod.pod.spec.volumes:
            return fwk.SKIP
        found = pod_claims(pod.pod, cluster, self._claims)
        if found is None:
            return fwk.SKIP
        return found if isinstance(found, fwk.Status) else fwk.PreFilterResult(PodState(cluster, found))

    def filter(self, state: PodState, rows: fwk.Rows) -> fwk.Verdicts | fwk.Status:
        codes = self._filter_bound(state)
        if state.claims.delayed:
            try:
                codes |= self._filter_delayed(state)
            except ProvisioningError as problem:
                return fwk.error(str(problem))
        return fwk.Verdicts(-codes[rows], _decode_reasons)

    def _filter_bound(self, state: PodState) -> fwk.Codes:
        codes = np.zeros(state.cluster.capacity, np.int32)
        for claim in state.claims.bound:
            volume = self._volumes.get(claim.spec.volume_name)
            undecided = codes == 0
            if volume is None:
                codes[undecided] = _MISSING_VOLUME
                continue
            everywhere = self._reach.selector(volume) is None
            reachable = self._migrated.correct_reachable(volume, None if everywhere else self._reach.mask(volume))
            if reachable is not None:
                codes[undecided & ~reachable] = _NODE_CONFLICT
        return codes

    def _filter_delayed(self, state: PodState) -> fwk.Codes:
        cluster = state.cluster
        codes = np.zeros(cluster.capacity, np.int32)
        selected = [claim for claim in state.claims.delayed if SELECTED_NODE in claim.metadata.annotations]
        for claim in selected:
            there = cluster.row_of.get(claim.metadata.annotations[SELECTED_NODE])
            elsewhere = np.ones(cluster.capacity, np.bool_)
            elsewhere[[] if there is None else there] = False
            codes[elsewhere] = _BIND_CONFLICT
        to_match = [claim for claim in state.claims.delayed if SELECTED_NODE not in claim.metadata.annotations]
        state.choices = matching.match_claims(to_match, self._stock, self._reach, cluster.capacity)
        unsettled = (codes == 0) & cluster.labels.nodes
        wanted: list[tuple[PersistentVolumeClaim, fwk.Mask]] = [(claim, unsettled) for claim in selected]
        wanted += [(choice.claim, unsettled & (choice.by_row == matching.NONE)) for choice in state.choices]
        state.provisions = []
        for claim, where in wanted:
            if not where.any():
                continue
            entry = provisioning.find_provisioning_nodes(claim, cluster)
            entry.rows = where & (codes == 0)  # the first claim that cannot be had decides
            codes[entry.rows & ~entry.possible] = _BIND_CONFLICT
            codes[entry.rows & entry.possible & ~entry.sufficient] = _NOT_ENOUGH_SPACE
            state.provisions.append(entry)
        return codes

    def pre_score(self, pod: PodInfo, cluster: Cluster) -> PodState | fwk.Status:
        if self._by_percent is None:
            return fwk.SKIP
        found = self.pre_filter(pod, cluster)
        if isinstance(found, fwk.Status) or not found.state.claims.delayed:
            return fwk.SUCCESS
        self.filter(found.state, fwk.ALL_ROWS)
        return found.state

    def score(self, state: PodState, rows: fwk.Rows) -> fwk.Scores:
        capacity, by_percent = state.cluster.capacity, self._by_percent
        if by_percent is None:
            return np.zeros(capacity, np.int64)[rows]
        return score_by_utilisation(by_percent, state.choices, state.provisions, capacity)[rows]

    def reserve(self, cycle: fwk.CycleState, _pod: Pod, node_name: str) -> fwk.Status:
        state: PodState | None = cycle.pre_filter.get(self.name)
        if state is None or not state.claims.delayed:
            return fwk.SUCCESS
        state.reserved = state.volumes_on(node_name)
        return self._binder.assume(state.reserved)

    def unreserve(self, cycle: fwk.CycleState, _pod: Pod, _node_name: str) -> None:
        state: PodState | None = cycle.pre_filter.get(self.name)
        if state is not None and state.reserved is not None:
            self._binder.forget(state.reserved)
            state.reserved = None

    async def pre_bind(self, cycle: fwk.CycleState, pod: Pod, node_name: str) -> fwk.Status:
        state: PodState | None = cycle.pre_filter.get(self.name)
        if state is None or state.reserved is None or self._client is None:
            return fwk.SUCCESS
        return await self._binder.bind(pod, node_name, state.reserved, self._client, self._timeout)

    def would_write(self, cycle: fwk.CycleState, _pod: Pod, _node_name: str) -> Sequence[Resource]:
        state: PodState | None = cycle.pre_filter.get(self.name)
        if state is None or state.reserved is None:
            return ()
        return (*(volume for volume, _ in state.reserved.static), *state.reserved.provisions)

    def events_to_register(self) -> Sequence[fwk.EventWithHint]:
        changed = fwk.Action.ADD | fwk.Action.UPDATE
        return (
            fwk.wake_on(fwk.Kind.STORAGE_CLASS, changed, _after_class_change),
            fwk.wake_on(fwk.Kind.PERSISTENT_VOLUME_CLAIM, changed, after_claim_change),
            fwk.wake_on(fwk.Kind.PERSISTENT_VOLUME, changed),
            fwk.wake_on(fwk.Kind.NODE, fwk.Action.ADD | fwk.Action.UPDATE_NODE_LABEL, self._nodes.after_change),
            fwk.wake_on(fwk.Kind.ASSIGNED_POD, fwk.Action.DELETE, self._after_pod_gone, _pod_key_if_it_had_volumes),
            fwk.wake_on(fwk.Kind.CSI_NODE, changed, _after_csi_node_change),
            fwk.wake_on(fwk.Kind.CSI_DRIVER, fwk.Action.UPDATE, _after_driver_change),
            fwk.wake_on(fwk.Kind.CSI_STORAGE_CAPACITY, changed, _after_capacity_change),
        )

    def _after_pod_gone(self, _pod: Pod, old: Pod, _new: None) -> fwk.QueueingHint:
        found = (self._claims.get(object_key(old.metadata.namespace, name)) for name in claim_names(old))
        return fwk.QueueingHint.of(any(claim is None or not claim.spec.volume_name for claim in found))


def _pod_key_if_it_had_volumes(old: Pod, _new: None) -> str | None:
    return None if next(claim_names(old), None) is not None else ""


def _decode_reasons(code: int) -> tuple[str, ...]:
    return tuple(reason for bit, reason in enumerate(_REASONS) if code & 1 << bit)


def _after_class_change(_pod: Pod, old: StorageClass | None, new: StorageClass | None) -> fwk.QueueingHint:
    if old is None or new is None:
        return fwk.QueueingHint.QUEUE
    return fwk.QueueingHint.of(old.allowed_topologies != new.allowed_topologies)


def _after_csi_node_change(_pod: Pod, old: CSINode | None, new: CSINode | None) -> fwk.QueueingHint:
    return fwk.QueueingHint.of(old is None or csi.migrated_plugins(old) != csi.migrated_plugins(new))


def _after_driver_change(_pod: Pod, old: CSIDriver | None, new: CSIDriver | None) -> fwk.QueueingHint:
    if old is None or new is None:
        return fwk.QueueingHint.QUEUE
    return fwk.QueueingHint.of(bool(old.spec.storage_capacity) and not new.spec.storage_capacity)


def _after_capacity_change(
    _pod: Pod, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None
) -> fwk.QueueingHint:
    if old is None or new is None:
        return fwk.QueueingHint.QUEUE
    before, after = provisioning.volume_limit(old), provisioning.volume_limit(new)
    return fwk.QueueingHint.of(after is not None and (before is None or after > before))
