"""Changing the status of many ResourceClaims at once, where the server offers it (Mooring does, Kubernetes does not).

An allocation that is written like this brings its finalizer with it. Used by the scheduler. Read next:
``bulk_call.py``.
"""

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import structs

from mooring.api.base import required
from mooring.api.meta_v1 import ObjectMeta, ResourceList, Status
from mooring.api.resource_v1 import ResourceClaim, ResourceClaimSpec
from mooring.client.bulk_call import BulkCall, Failure
from mooring.client.client import Client

PROTECTION = "resource.kubernetes.io/delete-protection"
"""The finalizer that keeps a claim while devices are allocated for it."""
PATH = "/apis/resource.k8s.io/v1/resourceclaims/-/status"
_API_VERSION = "resource.k8s.io/v1"

ClaimOutcome: TypeAlias = ResourceClaim | Failure
"""The claim as it was written, or why it was not."""


class ResourceClaimList(ResourceList):
    """What is put."""

    items: list[ResourceClaim] = required(list)


class BulkClaims:
    """Writes claims in groups through a client."""

    def __init__(self, client: Client) -> None:
        self._call = BulkCall(client, "PUT", PATH)

    @property
    def is_offered(self) -> bool:
        """Whether the server has the call, as far as is known."""
        return self._call.is_offered

    async def update_status(self, claims: Sequence[ResourceClaim]) -> list[ClaimOutcome] | None:
        """What became of each claim, in the same order; None where the server does not offer it, and from then on."""
        items = [_sent(claim) for claim in claims]
        sent = ResourceClaimList(kind="ResourceClaimList", api_version=_API_VERSION, items=items)
        answers = await self._call.send(sent, len(items))
        if answers is None:
            return None
        return [
            _written(claim, answer) if isinstance(answer, Status) else answer
            for claim, answer in zip(claims, answers, strict=True)
        ]


def _sent(claim: ResourceClaim) -> ResourceClaim:
    """Only what the server looks at."""
    meta = claim.metadata
    metadata = ObjectMeta(
        name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version
    )
    return ResourceClaim(metadata=metadata, spec=ResourceClaimSpec(), status=claim.status)


def _written(claim: ResourceClaim, status: Status) -> ResourceClaim:
    """A claim as it is now in the server."""
    finalizers = claim.metadata.finalizers
    if claim.status.allocation is not None and PROTECTION not in finalizers:
        finalizers = [*finalizers, PROTECTION]
    version = status.metadata.resource_version
    metadata = structs.replace(claim.metadata, resource_version=version, finalizers=finalizers)
    return structs.replace(claim, metadata=metadata)
