"""Create the PersistentVolumeClaims of pods with ephemeral volumes.

The claim is named `<pod>-<volume>` and owned by the pod.
"""

from contextlib import suppress

from mooring.api import errors
from mooring.api.core_v1 import PersistentVolumeClaim, PersistentVolumeClaimTemplate, Pod
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.states import controller_of
from mooring.client import Informer, key_of
from mooring.controllers.controller import Context, Controller
from mooring.controllers.workloads.ownership import controller_reference


class EphemeralVolumes(Controller):
    """Reconcile pods, by key."""

    name = "ephemeral-volume"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._recorder = context.recorder("ephemeral_volume")
        self._claims: Informer[PersistentVolumeClaim] = context.informers.of(PersistentVolumeClaim)
        self._pods: Informer[Pod] = context.informers.of(Pod)
        self._pods.add_handler(added=self._pod_added)
        self._claims.add_handler(deleted=self._claim_deleted)

    def _pod_added(self, pod: Pod) -> None:
        if any(volume.ephemeral is not None for volume in pod.spec.volumes):
            self.enqueue(pod)

    def _claim_deleted(self, claim: PersistentVolumeClaim) -> None:
        owner = controller_of(claim.metadata)
        if owner is not None and owner.kind == "Pod":
            self.queue.add(f"{claim.metadata.namespace}/{owner.name}")

    async def reconcile(self, key: str) -> float | None:
        pod = self._pods.by_key(key)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return None
        for volume in pod.spec.volumes:
            if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None:
                await self._ensure(pod, f"{pod.metadata.name}-{volume.name}", volume.ephemeral.volume_claim_template)
        return None

    async def _ensure(self, pod: Pod, name: str, template: PersistentVolumeClaimTemplate) -> None:
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
            owner_references=[controller_reference(self.client, pod)],
        )
        with suppress(errors.AlreadyExists):
            await self.client.create(PersistentVolumeClaim(metadata=metadata, spec=template.spec))
