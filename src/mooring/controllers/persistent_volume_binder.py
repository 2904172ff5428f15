"""Bind PersistentVolumeClaims to PersistentVolumes, and provision simulated volumes.

A claim gets the smallest available volume of its class that is large enough and has its modes and labels. With
`WaitForFirstConsumer` the scheduler reserves a volume or selects a node to provision for. A StorageClass with the
provisioner `simulation.mooring.dev/volumes` is provisioned here. Keys: claims `namespace/name`, volumes `name`.
``volume_protection.py`` removes finalizers.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from mooring.api import errors, label_selector, times
from mooring.api.core_v1 import (
    CSIPersistentVolumeSource,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.quantity import Quantity
from mooring.api.storage_v1 import StorageClass
from mooring.client import Informer, PatchType, key_of
from mooring.controllers.controller import Context, Controller

PROVISIONER, NO_PROVISIONER = "simulation.mooring.dev/volumes", "kubernetes.io/no-provisioner"
BIND_COMPLETED, BOUND_BY_CONTROLLER = "pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_STORAGE, _WAIT = "storage", "WaitForFirstConsumer"
_ZERO = Quantity(0)


class PersistentVolumeController(Controller):
    """The controller of PersistentVolumeClaims and PersistentVolumes; reconciles both."""

    name = "persistentvolume-binder"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._recorder = context.recorder("persistentvolume-controller")
        self._claims: Informer[PersistentVolumeClaim] = context.informers.of(PersistentVolumeClaim)
        self._claims_by_class = self._claims.index("class", lambda claim: [storage_class_of(claim)])
        self._volumes: Informer[PersistentVolume] = context.informers.of(PersistentVolume)
        self._volumes_by_class = self._volumes.index("class", lambda volume: [storage_class_of(volume)])
        self._by_claim = self._volumes.index("claim", _claim_keys_of_volume)
        self._classes: Informer[StorageClass] = context.informers.of(StorageClass)
        self._nodes: Informer[Node] = context.informers.of(Node)
        self.follow(self._claims)
        self._claims.add_handler(deleted=self._enqueue_volumes_of_claim)
        self.follow(self._volumes, self._enqueue_volume_and_claims)
        self._volumes.add_handler(deleted=self._enqueue_claim_of_volume)
        self._classes.add_handler(added=lambda found: self._enqueue_unbound_claims(found.metadata.name))

    # -- events

    def _enqueue_volumes_of_claim(self, claim: PersistentVolumeClaim) -> None:
        for volume in self._by_claim.get(key_of(claim)):
            self.enqueue(volume)

    def _enqueue_volume_and_claims(self, volume: PersistentVolume) -> None:
        self.enqueue(volume)
        if volume.spec.claim_ref is None:
            self._enqueue_unbound_claims(storage_class_of(volume))
        else:
            self._enqueue_claim_of_volume(volume)

    def _enqueue_claim_of_volume(self, volume: PersistentVolume) -> None:
        for key in _claim_keys_of_volume(volume):
            self.queue.add(key)

    def _enqueue_unbound_claims(self, class_name: str) -> None:
        for claim in self._claims_by_class.get(class_name):
            if claim.status.phase != "Bound":
                self.enqueue(claim)

    async def reconcile(self, key: str) -> None:
        if "/" in key:
            claim = self._claims.by_key(key)
            if claim is not None and claim.metadata.deletion_timestamp is None:
                await self._reconcile_claim(claim)
        else:
            volume = self._volumes.get(key)
            if volume is not None:
                await self._reconcile_volume(volume)

    # -- claims

    async def _reconcile_claim(self, claim: PersistentVolumeClaim) -> None:
        if not claim.spec.volume_name:
            volume = self._find_reserved_volume(claim)
            if volume is None and not self._must_wait_for_consumer(claim):
                fitting = [
                    volume
                    for volume in self._volumes_by_class.get(storage_class_of(claim))
                    if is_volume_suitable(claim, volume)
                ]
                volume = min(fitting, key=lambda volume: (_capacity_of(volume), volume.metadata.name), default=None)
            if volume is not None:
                await self._bind_claim(claim, volume)
            else:
                await self._provision_or_wait(claim)
            return
        volume = self._volumes.get(claim.spec.volume_name)
        if volume is None:
            if BIND_COMPLETED in claim.metadata.annotations and claim.status.phase != "Lost":
                note = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
                self._recorder.event(claim, "Warning", "ClaimLost", note)
                await self.patch_status(claim, {"phase": "Lost"})
        elif volume.spec.claim_ref is None or _is_reference_to(volume.spec.claim_ref, claim):
            await self._bind_claim(claim, volume)

    def _must_wait_for_consumer(self, claim: PersistentVolumeClaim) -> bool:
        storage_class = self._classes.get(storage_class_of(claim))
        return storage_class is not None and storage_class.volume_binding_mode == _WAIT

    def _find_reserved_volume(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        for volume in self._by_claim.get(key_of(claim)):
            if volume.spec.claim_ref is not None and _is_reference_to(volume.spec.claim_ref, claim):
                return volume
        return None

    async def _bind_claim(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        """Write the references of volume and claim to each other; skip steps that an interrupted binding has done."""
        meta = claim.metadata
        reference = volume.spec.claim_ref
        if reference is None or reference.uid != meta.uid:
            head: dict[str, Any] = {"resourceVersion": volume.metadata.resource_version}
            if reference is None:
                head["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
            body: dict[str, Any] = {"metadata": head, "spec": {"claimRef": _build_claim_reference(claim)}}
            volume = await self.client.patch(PersistentVolume, volume.metadata.name, body, type=PatchType.MERGE)
        await self._write_volume_phase(volume, "Bound")
        if not claim.spec.volume_name or BIND_COMPLETED not in meta.annotations:
            annotations = {BIND_COMPLETED: "yes"}
            if not claim.spec.volume_name:
                annotations[BOUND_BY_CONTROLLER] = "yes"
            body = {
                "metadata": {"resourceVersion": meta.resource_version, "annotations": annotations},
                "spec": {"volumeName": volume.metadata.name},
            }
            claim = await self.client.patch(
                PersistentVolumeClaim, meta.name, body, meta.namespace, type=PatchType.MERGE
            )
        status = {"phase": "Bound", "accessModes": volume.spec.access_modes, "capacity": volume.spec.capacity}
        if claim.status.phase != "Bound":
            await self.patch_status(claim, status)

    # -- provisioning

    async def _provision_or_wait(self, claim: PersistentVolumeClaim) -> None:
        storage_class = self._classes.get(storage_class_of(claim))
        if storage_class is None:
            note = "no persistent volumes available for this claim and no storage class is set"
            if storage_class_of(claim):
                note = f'storageclass.storage.k8s.io "{storage_class_of(claim)}" not found'
            self._recorder.event(claim, "Normal" if not storage_class_of(claim) else "Warning", "FailedBinding", note)
            return
        node = claim.metadata.annotations.get(SELECTED_NODE, "")
        if self._must_wait_for_consumer(claim) and not node:
            note = "waiting for first consumer to be created before binding"
            self._recorder.event(claim, "Normal", "WaitForFirstConsumer", note)
        elif storage_class.provisioner == PROVISIONER:
            await self._provision(claim, storage_class, self._nodes.get(node) if node else None)
        elif storage_class.provisioner != NO_PROVISIONER:
            await self._request_provisioning(claim, storage_class.provisioner)

    async def _request_provisioning(self, claim: PersistentVolumeClaim, provisioner: str) -> None:
        """Annotate a claim with the provisioner that should create its volume."""
        meta = claim.metadata
        if STORAGE_PROVISIONER in meta.annotations:
            return
        body = {"metadata": {"annotations": {STORAGE_PROVISIONER: provisioner}}}
        await self.client.patch(PersistentVolumeClaim, meta.name, body, meta.namespace, type=PatchType.MERGE)
        note = (
            f"Waiting for a volume to be created either by the external provisioner '{provisioner}' "
            "or manually by the system administrator."
        )
        self._recorder.event(claim, "Normal", "ExternalProvisioning", note)

    async def _provision(self, claim: PersistentVolumeClaim, storage_class: StorageClass, node: Node | None) -> None:
        name = f"pvc-{claim.metadata.uid}"
        volume = PersistentVolume(
            metadata=ObjectMeta(name=name, annotations={PROVISIONED_BY: PROVISIONER}),
            spec=PersistentVolumeSpec(
                capacity={_STORAGE: claim.spec.resources.requests.get(_STORAGE, _ZERO)},
                access_modes=claim.spec.access_modes,
                claim_ref=_build_claim_reference(claim),
                persistent_volume_reclaim_policy=storage_class.reclaim_policy or "Delete",
                storage_class_name=storage_class.metadata.name,
                mount_options=storage_class.mount_options,
                volume_mode=claim.spec.volume_mode,
                node_affinity=_build_node_affinity(storage_class, node),
                csi=CSIPersistentVolumeSource(driver=PROVISIONER.partition("/")[0], volume_handle=name),
            ),
        )
        with suppress(errors.AlreadyExists):
            await self.client.create(volume)
            self._recorder.event(claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {name}")

    # -- volumes

    async def _reconcile_volume(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is None:
            await self._write_volume_phase(volume, "Available")
            return
        claim = self._claims.get(reference.name, reference.namespace)
        if claim is not None and claim.metadata.uid == reference.uid:
            self.enqueue(claim)
            return
        if not reference.uid:  # reserved for a claim that does not exist yet
            await self._write_volume_phase(volume, "Available")
            if claim is not None:
                self.enqueue(claim)
            return
        stored = await self.client.find(PersistentVolumeClaim, reference.name, reference.namespace)
        if stored is None or stored.metadata.uid != reference.uid:
            await self._write_volume_phase(volume, "Released")
            ours = volume.metadata.annotations.get(PROVISIONED_BY) == PROVISIONER
            if ours and volume.spec.persistent_volume_reclaim_policy == "Delete":
                await self.delete(volume)

    async def _write_volume_phase(self, volume: PersistentVolume, phase: str) -> None:
        if volume.status.phase != phase:
            now = times.to_seconds(self.clock.now())
            await self.patch_status(volume, {"phase": phase, "lastPhaseTransitionTime": now})


def storage_class_of(thing: PersistentVolume | PersistentVolumeClaim) -> str:
    """Return the name of a volume's or claim's StorageClass; the legacy annotation takes precedence."""
    return thing.metadata.annotations.get(_BETA_CLASS, thing.spec.storage_class_name or "")


def is_volume_suitable(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Return whether a volume is unclaimed and has the size, modes and labels that a claim of its class requests."""
    wanted, offered = claim.spec, volume.spec
    if offered.claim_ref is not None or volume.metadata.deletion_timestamp is not None:
        return False
    if _capacity_of(volume) < wanted.resources.requests.get(_STORAGE, _ZERO):
        return False
    if not set(wanted.access_modes) <= set(offered.access_modes):
        return False
    if (wanted.volume_mode or "Filesystem") != (offered.volume_mode or "Filesystem"):
        return False
    if (wanted.volume_attributes_class_name or "") != (offered.volume_attributes_class_name or ""):
        return False
    if wanted.selector is None:
        return True
    return label_selector.from_label_selector(wanted.selector).matches(volume.metadata.labels)


def _capacity_of(volume: PersistentVolume) -> Quantity:
    return volume.spec.capacity.get(_STORAGE, _ZERO)


def _build_claim_reference(claim: PersistentVolumeClaim) -> ObjectReference:
    meta = claim.metadata
    return ObjectReference(
        kind="PersistentVolumeClaim", api_version="v1", namespace=meta.namespace, name=meta.name, uid=meta.uid
    )


def _is_reference_to(reference: ObjectReference, claim: PersistentVolumeClaim) -> bool:
    meta = claim.metadata
    same = (reference.namespace, reference.name) == (meta.namespace, meta.name)
    return same and reference.uid in ("", meta.uid)


def _claim_keys_of_volume(volume: PersistentVolume) -> Sequence[str]:
    reference = volume.spec.claim_ref
    return [] if reference is None else [f"{reference.namespace}/{reference.name}"]


def _build_node_affinity(storage_class: StorageClass, node: Node | None) -> VolumeNodeAffinity | None:
    keys = {entry.key for term in storage_class.allowed_topologies for entry in term.match_label_expressions}
    if node is None or not keys:
        return None
    found = [
        NodeSelectorRequirement(key=key, operator="In", values=[node.metadata.labels[key]])
        for key in sorted(keys)
        if key in node.metadata.labels
    ]
    if not found:
        return None
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=found)]))
