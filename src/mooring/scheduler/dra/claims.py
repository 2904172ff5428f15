"""The ResourceClaims of a pod, and the requests in them.

A pod names a claim, or a template from which a controller creates a claim, whose name is then in the pod's status.
Called by ``plugins/dynamic_resources.py``; messages are kube-scheduler's.
"""

import msgspec

from mooring.api.core_v1 import Pod, PodResourceClaim
from mooring.api.quantity import Quantity
from mooring.api.resource_v1 import (
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from mooring.api.states import controller_of
from mooring.scheduler.columns.cluster import Cluster, object_key
from mooring.scheduler.volumes.assumed import Assumed

ALL = "All"
MAX_CONSUMERS = 256
"""The maximum number of pods that may use a claim at the same time."""


class ClaimError(ValueError):
    """A pod cannot be scheduled because of its claims; the message goes into the pod's condition."""


def full_name(claim: ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"


def pod_claims(pod: Pod, claims: Assumed[ResourceClaim]) -> list[ResourceClaim]:
    """Return the claims of a pod in its order. Raise ClaimError if one is missing or cannot be used."""
    found: list[ResourceClaim] = []
    for entry in pod.spec.resource_claims:
        name = claim_name(pod, entry)
        if name is None:
            continue
        claim = claims.get(object_key(pod.metadata.namespace, name))
        if claim is None:
            raise ClaimError(f'resourceclaim.resource.k8s.io "{name}" not found')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimError(f'resourceclaim "{name}" is being deleted')
        if entry.resource_claim_name is None and not is_made_for(pod, claim):
            of_pod = f"{pod.metadata.namespace}/{pod.metadata.name}"
            raise ClaimError(f"ResourceClaim {full_name(claim)} was not created for Pod {of_pod} (Pod is not owner)")
        found.append(claim)
    return found


def claim_name(pod: Pod, entry: PodResourceClaim) -> str | None:
    """Return the name of the claim for an entry of `spec.resourceClaims`; None if it needs none.

    Raise ClaimError while the claim is not created.
    """
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    of_pod = f'pod "{pod.metadata.namespace}/{pod.metadata.name}"'
    if entry.resource_claim_template_name is None:
        raise ClaimError(f'{of_pod}, spec.resourceClaim "{entry.name}": none of the supported fields are set')
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name
    raise ClaimError(f"{of_pod}: ResourceClaim not created yet")


def is_made_for(pod: Pod, claim: ResourceClaim) -> bool:
    owner = controller_of(claim.metadata)
    return owner is not None and owner.uid == pod.metadata.uid


def is_reserved_for(pod: Pod, claim: ResourceClaim) -> bool:
    return any(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)


class Request(msgspec.Struct, frozen=True):
    """One alternative of a request of a claim."""

    base: str
    """The name of the request in the claim."""
    sub: str
    """The name of this alternative; empty if the request has no alternatives."""
    device_class: DeviceClass
    selectors: tuple[DeviceSelector, ...]
    wants_all: bool
    count: int
    admin_access: bool
    tolerations: tuple[DeviceToleration, ...]
    capacity: dict[str, Quantity]

    @property
    def name(self) -> str:
        return f"{self.base}/{self.sub}" if self.sub else self.base

    def is_meant_by(self, names: frozenset[str]) -> bool:
        """Return whether a list of request names in a constraint includes this request; an empty list includes all."""
        return not names or self.base in names or (bool(self.sub) and self.name in names)


Alternatives = tuple[Request, ...]
"""The alternatives of one request of a claim (`firstAvailable`); the first one that works is used."""


def requests_of(claim: ResourceClaim, cluster: Cluster) -> tuple[Alternatives, ...]:
    """Return the requests of a claim with their device classes. Raises ClaimError."""
    return tuple(_alternatives(claim, request, cluster) for request in claim.spec.devices.requests)


def _alternatives(claim: ResourceClaim, request: DeviceRequest, cluster: Cluster) -> Alternatives:
    if request.exactly is not None:
        return (_request(request.name, "", request.exactly, cluster),)
    if request.first_available:
        return tuple(_request(request.name, sub.name, sub, cluster) for sub in request.first_available)
    raise ClaimError(f"resource claim {full_name(claim)}, request {request.name}: unknown request type")


def _request(base: str, sub: str, source: ExactDeviceRequest | DeviceSubRequest, cluster: Cluster) -> Request:
    device_class = cluster.objects(DeviceClass).get(source.device_class_name)
    if device_class is None:
        name = f"{base}/{sub}" if sub else base
        raise ClaimError(f"request {name}: device class {source.device_class_name} does not exist")
    return Request(
        base=base,
        sub=sub,
        device_class=device_class,
        selectors=tuple(source.selectors),
        wants_all=source.allocation_mode == ALL,
        count=source.count or 1,
        admin_access=isinstance(source, ExactDeviceRequest) and bool(source.admin_access),
        tolerations=tuple(source.tolerations),
        capacity=source.capacity.requests if source.capacity is not None else {},
    )
