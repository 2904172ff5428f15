"""The writes that give a pod its claims: the allocation and the pod into the claim's status, and both out of it again.

Called by ``plugins/dynamic_resources.py`` before a pod is bound, and when that or the search for a node has failed.
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from msgspec import structs

from mooring.api import times
from mooring.api.core_v1 import Pod
from mooring.api.errors import Conflict, StatusError
from mooring.api.resource_v1 import AllocationResult, ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus
from mooring.base import logs
from mooring.scheduler.dra.claims import full_name, is_reserved_for

if TYPE_CHECKING:
    from mooring.client import Client

log = logs.get(__name__)

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Keeps a claim that is in use."""
_ATTEMPTS = 5
_LOOK_AGAIN, _LOOK_AGAIN_AT_LEAST = 0.1, 5.0
"""How soon, in seconds, the server is asked again, and how often it is at least."""


class ClaimWriteError(Exception):
    """A claim cannot be given to a pod any more."""


async def give(client: "Client", claim: ResourceClaim, pod: Pod, allocation: AllocationResult | None) -> ResourceClaim:
    """Write that the pod uses the claim, and the allocation if it has none yet; what was written.

    Others may write to the claim at the same time: on a conflict it is read again. When the server does not answer, it
    is read until it is known what was written: devices of an allocation that was must not be given to anybody else.
    Raises ClaimWriteError when somebody has deleted the claim or allocated it otherwise, or the server refuses.
    """
    from mooring.client import ClientError  # noqa: PLC0415 - simulations, which write nothing, need not load it

    conflicts = failures = 0
    while True:
        try:
            if conflicts or failures:
                claim = await client.get(ResourceClaim, claim.metadata.name, claim.metadata.namespace)
                if is_reserved_for(pod, claim) and claim.status.allocation is not None:
                    return claim  # it had been written
            _check(claim, allocation)
            return await _write(client, claim, pod, allocation)
        except Conflict as problem:
            conflicts += 1
            if conflicts == _ATTEMPTS:
                raise ClaimWriteError(str(problem)) from problem
        except (StatusError, ClientError) as problem:
            if isinstance(problem, StatusError) and problem.status.code < 500:
                raise ClaimWriteError(str(problem)) from problem
            failures += 1
            if failures == 1:
                log.warning("the server did not say whether a claim was allocated, looking it up: %s", problem)
            await client.clock.sleep(min(_LOOK_AGAIN * 2**failures, _LOOK_AGAIN_AT_LEAST))


def _check(claim: ResourceClaim, allocation: AllocationResult | None) -> None:
    if claim.metadata.deletion_timestamp is not None:
        raise ClaimWriteError(f"claim {full_name(claim)} got deleted in the meantime")
    if allocation is not None and claim.status.allocation is not None:
        raise ClaimWriteError(f"claim {full_name(claim)} got allocated elsewhere in the meantime")
    if allocation is None and claim.status.allocation is None:
        raise ClaimWriteError(f"claim {full_name(claim)} got deallocated in the meantime")


async def _write(
    client: "Client", claim: ResourceClaim, pod: Pod, allocation: AllocationResult | None
) -> ResourceClaim:
    status = claim.status
    if allocation is not None:
        if FINALIZER not in claim.metadata.finalizers:
            metadata = structs.replace(claim.metadata, finalizers=[*claim.metadata.finalizers, FINALIZER])
            claim = await client.update(structs.replace(claim, metadata=metadata))
        now = times.to_seconds(client.clock.now())
        status = structs.replace(claim.status, allocation=structs.replace(allocation, allocation_timestamp=now))
    if not is_reserved_for(pod, claim):
        reference = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
        status = structs.replace(status, reserved_for=[*status.reserved_for, reference])
    return await client.update_status(structs.replace(claim, status=status))


async def take_back(client: "Client", claim: ResourceClaim, pod: Pod) -> None:
    """Write that the pod does not use the claim after all."""
    body = {
        "metadata": {"uid": claim.metadata.uid},
        "status": {"reservedFor": [{"$patch": "delete", "uid": pod.metadata.uid}]},
    }
    metadata = claim.metadata
    await _logged(client.patch(ResourceClaim, metadata.name, body, metadata.namespace, subresource="status"), claim)


async def deallocate(client: "Client", claim: ResourceClaim) -> None:
    """Free the devices of a claim that nobody uses, so that others can be found for it."""
    await _logged(client.update_status(structs.replace(claim, status=ResourceClaimStatus())), claim)


async def _logged(write: Awaitable[ResourceClaim], claim: ResourceClaim) -> None:
    """What fails is tried again when the pod is."""
    from mooring.client import ClientError  # noqa: PLC0415 - as above

    try:
        await write
    except (StatusError, ClientError) as problem:
        log.warning("a claim could not be updated: %s", problem, extra={"fields": {"claim": full_name(claim)}})
