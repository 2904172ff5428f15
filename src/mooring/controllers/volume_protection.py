"""Create claims of ephemeral volumes; remove protection finalizers of unused claims and volumes."""

from contextlib import suppress

from mooring.api import errors
from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimTemplate, Pod
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.api.states import controller_of, has_ended
from mooring.client import Informer, key_of
from mooring.controllers.controller import Context, Controller
from mooring.controllers.workloads.ownership import build_controller_reference

CLAIM_PROTECTION, VOLUME_PROTECTION = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"


class VolumeProtectionController(Controller):
    """The controller that removes protection finalizers; reconciles claims and volumes."""

    name = "volume-protection"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._claims: Informer[PersistentVolumeClaim] = context.informers.of(PersistentVolumeClaim)
        self._volumes: Informer[PersistentVolume] = context.informers.of(PersistentVolume)
        self._pods: Informer[Pod] = context.informers.of(Pod)
        self._by_claim = self._pods.index("claim", claim_keys)
        self.follow(self._claims, self._enqueue_terminating)
        self.follow(self._volumes, self._enqueue_terminating)
        self._pods.add_handler(
            updated=lambda _, pod: self._enqueue_terminating_claims(pod), deleted=self._enqueue_terminating_claims
        )

    def _enqueue_terminating(self, obj: Resource) -> None:
        if obj.metadata.deletion_timestamp is not None:
            self.enqueue(obj)

    def _enqueue_terminating_claims(self, pod: Pod) -> None:
        for key in claim_keys(pod):
            claim = self._claims.by_key(key)
            if claim is not None:
                self._enqueue_terminating(claim)

    async def reconcile(self, key: str) -> None:
        if "/" in key:
            claim = self._claims.by_key(key)
            users = (pod for pod in self._by_claim.get(key) if pod.spec.node_name and not has_ended(pod))
            if claim is not None and not any(users):
                await self._remove_protection_finalizer(claim, CLAIM_PROTECTION)
        else:
            volume = self._volumes.get(key)
            if volume is not None and volume.status.phase != "Bound":
                await self._remove_protection_finalizer(volume, VOLUME_PROTECTION)

    async def _remove_protection_finalizer(self, obj: PersistentVolume | PersistentVolumeClaim, finalizer: str) -> None:
        if obj.metadata.deletion_timestamp is not None and finalizer in obj.metadata.finalizers:
            await self.remove_finalizer(obj, finalizer)


def claim_keys(pod: Pod) -> list[str]:
    """Return the keys of the PersistentVolumeClaims that a pod uses, including those of its ephemeral volumes."""
    keys = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            keys.append(f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}")
        elif volume.ephemeral is not None:
            keys.append(f"{pod.metadata.namespace}/{pod.metadata.name}-{volume.name}")
    return keys


class EphemeralVolumeController(Controller):
    """The controller that creates the claims of ephemeral volumes; reconciles pods by key."""

    name = "ephemeral-volume"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._recorder = context.recorder("ephemeral_volume")
        self._claims: Informer[PersistentVolumeClaim] = context.informers.of(PersistentVolumeClaim)
        self._pods: Informer[Pod] = context.informers.of(Pod)
        self._pods.add_handler(added=self._enqueue_if_ephemeral)
        self._claims.add_handler(deleted=self._enqueue_owner_pod)

    def _enqueue_if_ephemeral(self, pod: Pod) -> None:
        if any(volume.ephemeral is not None for volume in pod.spec.volumes):
            self.enqueue(pod)

    def _enqueue_owner_pod(self, claim: PersistentVolumeClaim) -> None:
        owner = controller_of(claim.metadata)
        if owner is not None and owner.kind == "Pod":
            self.queue.add(f"{claim.metadata.namespace}/{owner.name}")

    async def reconcile(self, key: str) -> None:
        pod = self._pods.by_key(key)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return
        for volume in pod.spec.volumes:
            if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None:
                await self._ensure_claim(
                    pod, f"{pod.metadata.name}-{volume.name}", volume.ephemeral.volume_claim_template
                )

    async def _ensure_claim(self, pod: Pod, name: str, template: PersistentVolumeClaimTemplate) -> None:
        found = self._claims.get(name, pod.metadata.namespace)
        if found is not None:
            if all(owner.uid != pod.metadata.uid for owner in found.metadata.owner_references):
                note = f"PVC {key_of(found)} was not created for pod {key_of(pod)} (pod is not owner)"
                self._recorder.event(pod, "Warning", "EphemeralVolumeConflict", note)
            return
        metadata = ObjectMeta(
            name=name,
            namespace=pod.metadata.namespace,
            labels=template.metadata.labels,
            annotations=template.metadata.annotations,
            owner_references=[build_controller_reference(self.client, pod)],
        )
        with suppress(errors.AlreadyExists):
            await self.client.create(PersistentVolumeClaim(metadata=metadata, spec=template.spec))
