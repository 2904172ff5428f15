"""Build allocations, write them and the reservations of pods into the status of ResourceClaims, and remove them again.

Called by ``plugins/dynamic_resources.py`` before a pod is bound, and after binding or the search for a node failed.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING
from uuid import NAMESPACE_OID, uuid5

from msgspec import structs

from mooring.api import times
from mooring.api.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod
from mooring.api.errors import Conflict, StatusError
from mooring.api.resource_v1 import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from mooring.base import logs
from mooring.constraints.node_selector import NAME_FIELD
from mooring.scheduler.dra.allocator import Chosen
from mooring.scheduler.dra.claims import Request, full_name, is_reserved_for

if TYPE_CHECKING:
    from mooring.client import Client

log = logs.get(__name__)

FINALIZER = "resource.kubernetes.io/delete-protection"
"""The finalizer that keeps an allocated claim from being deleted."""
_ATTEMPTS = 5
_MAX_CONCURRENT_WRITES = 64
"""So few that other requests (bindings, events) get connections of the client."""
_RETRY_SECONDS, _MAX_RETRY_SECONDS = 0.1, 5.0
"""The initial and the maximum backoff before a claim is read again."""


class ClaimWriteError(Exception):
    """A claim can no longer be allocated to or reserved for a pod."""


def reserved_for_pod(pod: Pod, claim: ResourceClaim, allocation: AllocationResult | None) -> ResourceClaim:
    """Return a copy of the claim with the pod added to `reservedFor`, and with the new allocation, if any."""
    status = claim.status
    if allocation is not None:
        status = structs.replace(status, allocation=allocation)
    if not is_reserved_for(pod, claim):
        reference = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
        status = structs.replace(status, reserved_for=[*status.reserved_for, reference])
    return structs.replace(claim, status=status)


class ClaimWriter:
    """Writes the claims for all pods of a scheduler, as kube-scheduler does: the finalizer, then the status.

    The client sends concurrent writes in one batch if the server supports batches.
    """

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT_WRITES)

    async def reserve(self, claim: ResourceClaim, pod: Pod, allocation: AllocationResult | None) -> ResourceClaim:
        """Add the pod to the claim's `reservedFor` on the server, and write the allocation, if any; return the claim.

        On a conflict the claim is read again. If the server does not respond, the claim is read until the outcome is
        known, because the devices may be allocated. Raise ClaimWriteError if the claim was deleted or has another
        allocation, or if the server rejected the write.
        """
        from mooring.client import ClientError  # noqa: PLC0415 - as above

        conflicts = failures = 0
        while True:
            try:
                if conflicts or failures:
                    claim = await self._client.get(ResourceClaim, claim.metadata.name, claim.metadata.namespace)
                    if is_reserved_for(pod, claim) and claim.status.allocation is not None:
                        return claim  # it had been written
                _check_still_possible(claim, allocation)
                return await self._write(claim, pod, allocation)
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
                await self._client.clock.sleep(min(_RETRY_SECONDS * 2**failures, _MAX_RETRY_SECONDS))

    async def _write(self, claim: ResourceClaim, pod: Pod, allocation: AllocationResult | None) -> ResourceClaim:
        if allocation is not None:
            now = times.to_seconds(self._client.clock.now())
            allocation = structs.replace(allocation, allocation_timestamp=now)
        wanted = reserved_for_pod(pod, claim, allocation)
        async with self._slots:
            if allocation is not None and FINALIZER not in claim.metadata.finalizers:
                metadata = structs.replace(claim.metadata, finalizers=[*claim.metadata.finalizers, FINALIZER])
                claim = await self._client.update(structs.replace(claim, metadata=metadata))
            return await self._client.update_status(structs.replace(claim, status=wanted.status))


def _check_still_possible(claim: ResourceClaim, allocation: AllocationResult | None) -> None:
    if claim.metadata.deletion_timestamp is not None:
        raise ClaimWriteError(f"claim {full_name(claim)} got deleted in the meantime")
    if allocation is not None and claim.status.allocation is not None:
        raise ClaimWriteError(f"claim {full_name(claim)} got allocated elsewhere in the meantime")
    if allocation is None and claim.status.allocation is None:
        raise ClaimWriteError(f"claim {full_name(claim)} got deallocated in the meantime")


async def unreserve(client: "Client", claim: ResourceClaim, pod: Pod) -> None:
    """Remove a pod from `reservedFor` of a claim on the server, because the pod will not use it; log failures."""
    meta, status = claim.metadata, {"reservedFor": [{"$patch": "delete", "uid": pod.metadata.uid}]}
    body = {"metadata": {"uid": meta.uid}, "status": status}
    await _log_failure(client.patch(ResourceClaim, meta.name, body, meta.namespace, subresource="status"), claim)


async def deallocate(client: "Client", claim: ResourceClaim) -> None:
    """Remove the allocation of a claim that no pod uses on the server, so that other devices can be allocated."""
    await _log_failure(_deallocate(client, claim), claim)


async def _deallocate(client: "Client", claim: ResourceClaim) -> ResourceClaim:
    from mooring.client import ClientError  # noqa: PLC0415 - as above

    before, failures = claim.status, 0
    while True:
        try:
            if failures:
                claim = await client.get(ResourceClaim, claim.metadata.name, claim.metadata.namespace)
            if claim.status != before:
                return claim  # it has changed, which wakes the pod too
            return await client.update_status(structs.replace(claim, status=ResourceClaimStatus()))
        except (Conflict, ClientError):
            failures += 1
            if failures == _ATTEMPTS:
                raise
            await client.clock.sleep(_RETRY_SECONDS * 2**failures)


async def _log_failure(write: Awaitable[ResourceClaim], claim: ResourceClaim) -> None:
    from mooring.client import ClientError  # noqa: PLC0415 - as above

    try:
        await write
    except (StatusError, ClientError) as problem:
        log.warning("a claim could not be updated: %s", problem, extra={"fields": {"claim": full_name(claim)}})


FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"


def allocation_of(claim: ResourceClaim, chosen: Sequence[Chosen], node_name: str) -> AllocationResult:
    """Build the allocation for a claim's status: devices, configuration, and the nodes that can use them."""
    results = [_device_result(claim, number, entry) for number, entry in enumerate(chosen)]
    devices = DeviceAllocationResult(results=results, config=_collect_configuration(claim, chosen))
    return AllocationResult(devices=devices, node_selector=_node_selector(chosen, node_name))


def _device_result(claim: ResourceClaim, number: int, chosen: Chosen) -> DeviceRequestAllocationResult:
    request, device = chosen.request, chosen.device
    result = DeviceRequestAllocationResult(
        request=request.name,
        driver=device.id.driver,
        pool=device.id.pool,
        device=device.id.device,
        admin_access=True if request.admin_access else None,
        tolerations=list(request.tolerations),
        binding_conditions=list(device.device.binding_conditions),
        binding_failure_conditions=list(device.device.binding_failure_conditions),
    )
    if chosen.consumed is None:
        return result
    # Made from the claim and not by chance, so that the same cluster always gives the same answer.
    share = str(uuid5(NAMESPACE_OID, f"{claim.metadata.uid}/{device.id}/{number}"))
    return structs.replace(result, share_id=share, consumed_capacity=chosen.consumed)


def _collect_configuration(claim: ResourceClaim, chosen: Sequence[Chosen]) -> list[DeviceAllocationConfiguration]:
    used: dict[str, Request] = {entry.request.base: entry.request for entry in chosen}
    by_class: dict[str, list[DeviceAllocationConfiguration]] = {}
    found: list[DeviceAllocationConfiguration] = []
    for request in used.values():
        name = request.device_class.metadata.name
        if name not in by_class:
            by_class[name] = [
                DeviceAllocationConfiguration(source=FROM_CLASS, opaque=entry.opaque)
                for entry in request.device_class.spec.config
            ]
            found += by_class[name]
        for entry in by_class[name]:
            entry.requests.append(request.name)
    found += [
        DeviceAllocationConfiguration(source=FROM_CLAIM, requests=list(own.requests), opaque=own.opaque)
        for own in claim.spec.devices.config
        if any(request.is_listed_in(frozenset(own.requests)) for request in used.values())
    ]
    for entry in found:
        if len(entry.requests) == len(claim.spec.devices.requests):
            entry.requests = []  # which means all
    return found


def _node_selector(chosen: Sequence[Chosen], node_name: str) -> NodeSelector | None:
    term = NodeSelectorTerm()
    for entry in chosen:
        spec, device = entry.device.slice.spec, entry.device.device
        source = device if spec.per_device_node_selection else spec
        only = node_name if device.binds_to_node else source.node_name
        if only:
            here = NodeSelectorRequirement(key=NAME_FIELD, operator="In", values=[only])
            return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[here])])
        for wanted in source.node_selector.node_selector_terms if source.node_selector is not None else ():
            term.match_fields += [each for each in wanted.match_fields if each not in term.match_fields]
            term.match_expressions += [each for each in wanted.match_expressions if each not in term.match_expressions]
    return NodeSelector(node_selector_terms=[term]) if term.match_fields or term.match_expressions else None
