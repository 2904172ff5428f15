"""Wait for devices that a driver must prepare before a pod is bound, for example attach or program.

A device lists binding conditions, which its driver sets in the claim's status, and failure conditions. The pod waits
for them after the allocation was written. If a failure condition becomes true or the timeout expires, the allocation is
useless on any node and is deallocated. Called by ``plugins/dynamic_resources.py``.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from mooring.api import times
from mooring.api.meta_v1 import Condition
from mooring.api.quoting import go_quote
from mooring.api.resource_v1 import DeviceRequestAllocationResult, ResourceClaim
from mooring.scheduler.dra.claims import claim_key
from mooring.scheduler.framework import SUCCESS, Status, error
from mooring.scheduler.volumes.assumed import Assumed

if TYPE_CHECKING:
    from mooring.client import Client

_CHECK_SECONDS = 0.5


def has_binding_conditions(claim: ResourceClaim) -> bool:
    """Return whether a driver must prepare a device of the claim before the pod is bound."""
    allocation = claim.status.allocation
    return allocation is not None and any(result.binding_conditions for result in allocation.devices.results)


def failure_of(claim: ResourceClaim) -> str | None:
    """Return why the devices of a claim will not become ready; None if no failure condition is true."""
    for result, conditions in _device_conditions(claim):
        for condition in conditions:
            if condition.type in result.binding_failure_conditions and condition.status == "True":
                why = f"reason={condition.reason}, message={go_quote(condition.message)}"
                return f"claim {claim.metadata.name} binding failed: {why}"
    return None


def is_ready(claim: ResourceClaim) -> bool:
    """Return whether all binding conditions of the claim's devices are true."""
    for result, conditions in _device_conditions(claim):
        true = {condition.type for condition in conditions if condition.status == "True"}
        if not true.issuperset(result.binding_conditions):
            return False
    return True


def is_overdue(claim: ResourceClaim, now: datetime, seconds: float) -> bool:
    """Return whether a claim has binding conditions and was allocated more than `seconds` ago."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or not has_binding_conditions(claim):
        return False
    return times.add_seconds(times.parse(allocation.allocation_timestamp), seconds) < now


async def wait_until_ready(
    claims: Iterable[ResourceClaim], current_claims: Assumed[ResourceClaim], client: "Client", seconds: float
) -> Status:
    """Wait until the drivers report all devices of the claims as ready; return an error on failure or timeout."""
    until = client.clock.monotonic() + seconds
    waiting = [claim for claim in claims if has_binding_conditions(claim)]
    while waiting:
        for claim in waiting.copy():
            current = current_claims.get(claim_key(claim))
            if current is None or current.status.allocation is None:
                return error(f"claim {claim.metadata.name} was deallocated before its devices were ready")
            failure = failure_of(current)
            if failure is not None:
                return error(failure)
            if is_ready(current):
                waiting.remove(claim)
        if waiting and client.clock.monotonic() >= until:
            return error("device binding timeout")
        if waiting:
            await client.clock.sleep(_CHECK_SECONDS)
    return SUCCESS


def _device_conditions(claim: ResourceClaim) -> Iterable[tuple[DeviceRequestAllocationResult, list[Condition]]]:
    allocation = claim.status.allocation
    for result in allocation.devices.results if allocation is not None else ():
        if result.binding_conditions:
            device = (result.driver, result.pool, result.device)
            found = (entry for entry in claim.status.devices if (entry.driver, entry.pool, entry.device) == device)
            reported = next(found, None)
            yield result, reported.conditions if reported is not None else []
