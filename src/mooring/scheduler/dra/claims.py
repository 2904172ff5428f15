"""Find the ResourceClaims of a pod, and compile the requests in them.

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


def claim_key(claim: ResourceClaim) -> str:
    return object_key(claim.metadata.namespace, claim.metadata.name)


def pod_claims(pod: Pod, claims: Assumed[ResourceClaim]) -> list[ResourceClaim]:
    """Return the claims of a pod in the order of its spec. Raise ClaimError if one is missing or cannot be used."""
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
        owner = controller_of(claim.metadata)
        if entry.resource_claim_name is None and (owner is None or owner.uid != pod.metadata.uid):
            of_pod = f"{pod.metadata.namespace}/{pod.metadata.name}"
            raise ClaimError(f"ResourceClaim {full_name(claim)} was not created for Pod {of_pod} (Pod is not owner)")
        found.append(claim)
    return found


def claim_name(pod: Pod, entry: PodResourceClaim) -> str | None:
    """Return the name of the claim for an entry of a pod's `spec.resourceClaims`; None if the entry needs no claim.

    Raise ClaimError if a claim will be created from a template but is not created yet.
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


def is_reserved_for(pod: Pod, claim: ResourceClaim) -> bool:
    return any(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)


class Request(msgspec.Struct, frozen=True):
    """One alternative of a device request in a claim, with its device class."""

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

    def is_listed_in(self, names: frozenset[str]) -> bool:
        """Return whether a constraint or configuration for the requests `names` applies to this one; empty means all.

        A name is that of a request, or of a request and its alternative (`request/alternative`).
        """
        return not names or self.base in names or (bool(self.sub) and self.name in names)


Alternatives = tuple[Request, ...]
"""The alternatives of one request of a claim (`firstAvailable`); the first one that works is used."""


def requests_of(claim: ResourceClaim, cluster: Cluster) -> tuple[Alternatives, ...]:
    """Return a claim's device requests, each as its alternatives. Raise ClaimError for an unknown class or type."""
    return tuple(_compile_alternatives(claim, request, cluster) for request in claim.spec.devices.requests)


def _compile_alternatives(claim: ResourceClaim, request: DeviceRequest, cluster: Cluster) -> Alternatives:
    if request.exactly is not None:
        return (_compile_alternative(request.name, "", request.exactly, cluster),)
    if request.first_available:
        return tuple(_compile_alternative(request.name, sub.name, sub, cluster) for sub in request.first_available)
    raise ClaimError(f"resource claim {full_name(claim)}, request {request.name}: unknown request type")


def _compile_alternative(
    base: str, sub: str, source: ExactDeviceRequest | DeviceSubRequest, cluster: Cluster
) -> Request:
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
