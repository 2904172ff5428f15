"""Write the bindings of a pod's volumes, and wait until the volume controllers have finished.

A matched PersistentVolume is reserved for its claim; a claim whose volume will be provisioned gets the name of the
chosen node. Both are assumed when the node is chosen, and written before the pod is bound. Called by
``plugins/volume_binding.py``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from mooring.api.core_v1 import Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.resource_version import compare
from mooring.api.storage_v1 import CSINode
from mooring.constraints.node_selector import volume_matches
from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.columns.cluster import Cluster, object_key
from mooring.scheduler.framework import SUCCESS, Status, error
from mooring.scheduler.volumes import migration
from mooring.scheduler.volumes.assumed import Assumed
from mooring.scheduler.volumes.claims import BOUND_BY_CONTROLLER, SELECTED_NODE, is_bound
from mooring.scheduler.volumes.matching import is_reserved_for

if TYPE_CHECKING:
    from mooring.client import Client

_CHECK_SECONDS = 0.1


class PodVolumes(msgspec.Struct, frozen=True):
    """The volumes and claims to write before a pod is bound to its node."""

    static: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...]
    """Existing volumes with `claimRef` set, each with the claim that it is reserved for."""
    provisions: tuple[PersistentVolumeClaim, ...]
    """Claims with the selected node, for which volumes will be provisioned."""


def pod_volumes(
    matches: Sequence[tuple[PersistentVolume, PersistentVolumeClaim]],
    to_provision: Sequence[PersistentVolumeClaim],
    node_name: str,
) -> PodVolumes:
    """Return the writes for a node: matched volumes with a claimRef, claims to provision with the selected node."""
    return PodVolumes(
        tuple((_reserve_volume(volume, claim), claim) for volume, claim in matches),
        tuple(
            structs.replace(claim, metadata=_with_annotation(claim.metadata, SELECTED_NODE, node_name))
            for claim in to_provision
        ),
    )


def _reserve_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    metadata, given = claim.metadata, volume.spec.claim_ref
    if given is not None and given.uid and is_reserved_for(given, claim):
        return volume
    reference = ObjectReference(
        kind="PersistentVolumeClaim",
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        api_version="v1",
        resource_version=metadata.resource_version,
    )
    ours = volume.metadata
    if given is None:  # otherwise a user has reserved it, which must stay so when the claim goes
        ours = _with_annotation(ours, BOUND_BY_CONTROLLER, "yes")
    return structs.replace(volume, metadata=ours, spec=structs.replace(volume.spec, claim_ref=reference))


def _with_annotation(metadata: ObjectMeta, key: str, value: str) -> ObjectMeta:
    return structs.replace(metadata, annotations={**metadata.annotations, key: value})


@dataclass
class VolumeBinder:
    """Assumes the bindings of volumes, writes them, and waits until the claims are bound."""

    _cluster: Cluster
    _volumes: Assumed[PersistentVolume]
    _claims: Assumed[PersistentVolumeClaim]
    _options: ConstraintOptions

    def assume(self, wanted: PodVolumes) -> Status:
        """Assume the bindings of a pod's volumes before they are written; return an error if an object is gone."""
        for volume, _ in wanted.static:
            if not self._volumes.assume(volume):
                return error(f'volume "{volume.metadata.name}" does not exist any more')
        for claim in wanted.provisions:
            if not self._claims.assume(claim):
                return error(f'claim "{_name(claim)}" does not exist any more')
        return SUCCESS

    def forget(self, wanted: PodVolumes) -> None:
        """Drop the assumptions that `assume` made."""
        for volume, _ in wanted.static:
            self._volumes.restore(volume)
        for claim in wanted.provisions:
            self._claims.restore(claim)

    async def bind(self, pod: Pod, node_name: str, wanted: PodVolumes, client: "Client", seconds: float) -> Status:
        """Write the bindings, then wait until all claims are bound; return an error if that fails or takes too long."""
        from mooring.client import ClientError  # noqa: PLC0415 - simulations, which write nothing, need not load it

        try:
            volumes = [(await client.update(volume), claim) for volume, claim in wanted.static]
            written = PodVolumes(tuple(volumes), tuple([await client.update(claim) for claim in wanted.provisions]))
        except (StatusError, ClientError) as problem:
            return error(str(problem))
        until = client.clock.monotonic() + seconds
        while True:
            outcome = self._check_bindings(pod, node_name, written)
            if outcome is not None:
                return outcome
            if client.clock.monotonic() >= until:
                return error("binding volumes: context deadline exceeded")
            await client.clock.sleep(_CHECK_SECONDS)

    def _check_bindings(self, pod: Pod, node_name: str, written: PodVolumes) -> Status | None:
        node = self._cluster.node(node_name)
        if node is None:
            return error(f'binding volumes: failed to get node "{node_name}": it does not exist any more')
        if self._cluster.placed(pod) is None:
            return error("binding volumes: pod does not exist any more")
        found = [self._check_static_binding(volume, claim, node.node) for volume, claim in written.static]
        found += [self._check_provisioning(claim, node.node) for claim in written.provisions]
        failure = next((status for status in found if status is not None and not status.is_success), None)
        if failure is not None:
            return failure
        return None if None in found else SUCCESS

    def _check_static_binding(
        self, written: PersistentVolume, claim: PersistentVolumeClaim, node: Node
    ) -> Status | None:
        volume = self._cluster.objects(PersistentVolume).get(written.metadata.name)
        current = self._cluster.objects(PersistentVolumeClaim).get(_name(claim))
        if volume is None or current is None:
            return error(f'binding volumes: failed to check binding: "{written.metadata.name}" or its claim is gone')
        if _is_older(volume.metadata, written.metadata):
            return None
        unreachable = self._check_reach(volume, node)
        if unreachable is not None:
            return unreachable
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            return error(f'binding volumes: ClaimRef got reset for pv "{volume.metadata.name}"')
        return SUCCESS if is_bound(current) else None

    def _check_provisioning(self, written: PersistentVolumeClaim, node: Node) -> Status | None:
        claim = self._cluster.objects(PersistentVolumeClaim).get(_name(written))
        if claim is None:
            return error(f'binding volumes: failed to check provisioning pvc: "{_name(written)}" is gone')
        if _is_older(claim.metadata, written.metadata):
            return None
        if claim.metadata.annotations.get(SELECTED_NODE) != node.metadata.name:
            # Who makes the volumes has taken the node away: it was not possible there.
            return error(f'binding volumes: provisioning failed for PVC "{claim.metadata.name}"')
        if claim.spec.volume_name:
            volume = self._cluster.objects(PersistentVolume).get(claim.spec.volume_name)
            if volume is None:
                return None
            unreachable = self._check_reach(volume, node)
            if unreachable is not None:
                return unreachable
        return SUCCESS if is_bound(claim) else None

    def _check_reach(self, volume: PersistentVolume, node: Node) -> Status | None:
        known = self._cluster.objects(CSINode).get(node.metadata.name)
        if volume_matches(migration.translate_for_node(volume, known), node.metadata.labels, self._options):
            return None
        names = f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{node.metadata.name}"'
        return error(f"binding volumes: {names}: no matching NodeSelectorTerms")


def _is_older(seen: ObjectMeta, written: ObjectMeta) -> bool:
    return compare(seen.resource_version, written.resource_version) < 0


def _name(claim: PersistentVolumeClaim) -> str:
    return object_key(claim.metadata.namespace, claim.metadata.name)
