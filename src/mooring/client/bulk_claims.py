"""Changing the status of many ResourceClaims at once, where the server offers it (Mooring does, Kubernetes does not).

An allocation that is written like this brings its finalizer with it. Used by the scheduler. The outcome for each claim
is a value, because in a group some succeed and some do not.
"""

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import structs

from mooring.api import codec, errors
from mooring.api.base import required
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ObjectMeta, ResourceList, Status
from mooring.api.resource_v1 import ResourceClaim, ResourceClaimSpec
from mooring.base import logs
from mooring.client.bulk_binding import StatusList
from mooring.client.client import Client
from mooring.client.errors import DisconnectedError, TransportError

log = logs.get(__name__)

PROTECTION = "resource.kubernetes.io/delete-protection"
"""The finalizer that keeps a claim while devices are allocated for it."""
PATH = "/apis/resource.k8s.io/v1/resourceclaims/-/status"
_API_VERSION = "resource.k8s.io/v1"

ClaimOutcome: TypeAlias = ResourceClaim | StatusError | TransportError
"""The claim as it was written, or why it was not. After `TransportError` it may have been or not."""


class ResourceClaimList(ResourceList):
    """What is put."""

    items: list[ResourceClaim] = required(list)


class BulkClaims:
    """Writes claims in groups through a client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.is_offered = True
        """Whether the server has the call, as far as is known."""

    async def update_status(self, claims: Sequence[ResourceClaim]) -> list[ClaimOutcome] | None:
        """What became of each claim, in the same order; None where the server does not offer it, and from then on."""
        body = codec.encode(
            ResourceClaimList(
                kind="ResourceClaimList", api_version=_API_VERSION, items=[_sent(each) for each in claims]
            )
        )
        try:
            response = await self._client.raw("PUT", PATH, body=body)
            statuses = codec.decode_own(response.body, StatusList).items
        except (errors.NotFound, errors.MethodNotAllowed, errors.Forbidden) as error:
            log.info("this server does not allocate claims in groups: %s", error)
            self.is_offered = False
            return None
        except (StatusError, TransportError) as error:
            return [error] * len(claims)
        if len(statuses) != len(claims):
            odd = DisconnectedError(f"the server answered {len(claims)} claims with {len(statuses)} outcomes")
            return [odd] * len(claims)
        return [_outcome(claim, status) for claim, status in zip(claims, statuses, strict=True)]


def _sent(claim: ResourceClaim) -> ResourceClaim:
    """Only what the server looks at."""
    meta = claim.metadata
    metadata = ObjectMeta(
        name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version
    )
    return ResourceClaim(metadata=metadata, spec=ResourceClaimSpec(), status=claim.status)


def _outcome(claim: ResourceClaim, status: Status) -> ClaimOutcome:
    if status.status != "Success":
        return errors.from_status(status)
    finalizers = claim.metadata.finalizers
    if claim.status.allocation is not None and PROTECTION not in finalizers:
        finalizers = [*finalizers, PROTECTION]
    version = status.metadata.resource_version
    metadata = structs.replace(claim.metadata, resource_version=version, finalizers=finalizers)
    return structs.replace(claim, metadata=metadata)
