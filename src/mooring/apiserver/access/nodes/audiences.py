"""The audiences that a node may request tokens of its pods for: those of their volumes."""

from mooring.api.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod, Volume
from mooring.api.storage_v1 import CSIDriver
from mooring.apiserver.registry.objects import Objects


async def audiences_of(pod: Pod, objects: Objects) -> set[str]:
    """Return the audiences of the pod's projected tokens, and those that the drivers of its volumes want tokens for."""
    found: set[str] = set()
    for volume in pod.spec.volumes:
        for source in volume.projected.sources if volume.projected else ():
            if source.service_account_token:
                found.add(source.service_account_token.audience)
        driver = await _driver(pod, volume, objects)
        if driver:
            known = await objects.get(CSIDriver, driver)
            found |= {request.audience for request in known.spec.token_requests} if known else set()
    return found


async def _driver(pod: Pod, volume: Volume, objects: Objects) -> str:
    if volume.csi:
        return volume.csi.driver
    if volume.persistent_volume_claim:
        name = volume.persistent_volume_claim.claim_name
    elif volume.ephemeral:
        name = f"{pod.metadata.name}-{volume.name}"
    else:
        return ""
    claim = await objects.get(PersistentVolumeClaim, name, pod.metadata.namespace)
    bound = await objects.get(PersistentVolume, claim.spec.volume_name) if claim and claim.spec.volume_name else None
    return bound.spec.csi.driver if bound and bound.spec.csi else ""
