"""Remove the protection finalizers of terminating PersistentVolumeClaims and PersistentVolumes that are unused.

The server adds the finalizers on create. Keys: claims `namespace/name`, volumes `name`.
"""

from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.states import has_ended
from mooring.client import Informer
from mooring.controllers.controller import Context, Controller

CLAIM_PROTECTION, VOLUME_PROTECTION = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"


class VolumeProtection(Controller):
    """Reconcile claims and volumes."""

    name = "volume-protection"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        informers = context.informers
        self._claims: Informer[PersistentVolumeClaim] = informers.of(PersistentVolumeClaim)
        self._volumes: Informer[PersistentVolume] = informers.of(PersistentVolume)
        self._pods: Informer[Pod] = informers.of(Pod)
        self._by_claim = self._pods.index("claim", claim_keys)
        self.follow(self._claims, self._changed)
        self.follow(self._volumes, self._changed)
        self._pods.add_handler(updated=lambda _, pod: self._pod_changed(pod), deleted=self._pod_changed)

    def _changed(self, obj: Resource) -> None:
        if obj.metadata.deletion_timestamp is not None:
            self.enqueue(obj)

    def _pod_changed(self, pod: Pod) -> None:
        for key in claim_keys(pod):
            claim = self._claims.by_key(key)
            if claim is not None:
                self._changed(claim)

    async def reconcile(self, key: str) -> float | None:
        if "/" in key:
            claim = self._claims.by_key(key)
            if claim is not None and not any(_uses(pod) for pod in self._by_claim.get(key)):
                await self._release(claim, CLAIM_PROTECTION)
        else:
            volume = self._volumes.get(key)
            if volume is not None and volume.status.phase != "Bound":
                await self._release(volume, VOLUME_PROTECTION)
        return None

    async def _release(self, obj: PersistentVolume | PersistentVolumeClaim, finalizer: str) -> None:
        if obj.metadata.deletion_timestamp is not None and finalizer in obj.metadata.finalizers:
            await self.remove_finalizer(obj, finalizer)


def claim_keys(pod: Pod) -> list[str]:
    """Return the keys of the claims that a pod uses, generated ones included."""
    keys = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            keys.append(f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}")
        elif volume.ephemeral is not None:
            keys.append(f"{pod.metadata.namespace}/{pod.metadata.name}-{volume.name}")
    return keys


def _uses(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not has_ended(pod)
