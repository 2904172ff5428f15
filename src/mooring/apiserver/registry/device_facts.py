"""What the usage of ResourceClaims depends on beside the claims: the extended resources of device classes, and pods.

The scheduler makes a claim for a pod whose containers ask for an extended resource that devices stand for. The pod has
been charged for it then, and the claim only for what is more.
"""

from collections.abc import Mapping

from mooring.api import codec
from mooring.api.core_v1 import Pod
from mooring.api.resource_v1 import DeviceClass, ResourceClaim
from mooring.api.states import controller_of
from mooring.apiserver.registry.facts import Collection
from mooring.store.kv import Store

FOR_EXTENDED_RESOURCES = "resource.kubernetes.io/extended-resource-claim"


class DeviceFacts:
    """Looks up what this server knows, at once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._classes = Collection(store, "/registry/deviceclasses/", DeviceClass, _extended_resources)

    def extended(self) -> Mapping[str, str]:
        """The extended resource of each device class that names one."""
        return self._classes.summary()

    def pod_of(self, claim: ResourceClaim) -> Pod | None:
        """The pod for whose extended resources a claim was made; None for other claims."""
        owner = controller_of(claim.metadata)
        marked = claim.metadata.annotations.get(FOR_EXTENDED_RESOURCES) == "true"
        if not marked or owner is None or (owner.api_version, owner.kind) != ("v1", "Pod"):
            return None
        kv = self._store.peek(f"/registry/pods/{claim.metadata.namespace}/{owner.name}")
        pod = codec.decode_own(kv.value, Pod) if kv else None
        if pod is None or pod.metadata.uid != owner.uid or not self._is_its_own(claim, pod):
            return None
        return pod

    def _is_its_own(self, claim: ResourceClaim, pod: Pod) -> bool:
        """Whether a pod names a claim, or the claim is the first of those that were made for the pod."""
        named = pod.status.extended_resource_claim_status
        if named is not None:
            return named.resource_claim_name == claim.metadata.name
        others = self._store.peek_all(f"/registry/resourceclaims/{claim.metadata.namespace}/")
        made = [codec.decode_own(kv.value, ResourceClaim) for kv in others if pod.metadata.uid.encode() in kv.value]
        own = _age(claim)
        return not any(
            _age(each) < own
            for each in made
            if each.metadata.annotations.get(FOR_EXTENDED_RESOURCES) == "true"
            and (owner := controller_of(each.metadata)) is not None
            and owner.uid == pod.metadata.uid
        )


def _age(claim: ResourceClaim) -> tuple[str, str]:
    return claim.metadata.creation_timestamp or "", claim.metadata.name


def _extended_resources(classes: list[DeviceClass]) -> dict[str, str]:
    return {
        each.metadata.name: each.spec.extended_resource_name for each in classes if each.spec.extended_resource_name
    }
