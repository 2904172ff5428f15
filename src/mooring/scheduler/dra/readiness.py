"""Devices that must be made ready before a pod is bound: attached to the node, or programmed.

A device names conditions that its driver will report in the claim's status, and others of which one means that it has
failed. The pod waits for them after the allocation was written. An allocation that has failed or takes too long is of
no use on any node, and is freed like one in the wrong place. Called by ``plugins/dynamic_resources.py``.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from mooring.api import times
from mooring.api.meta_v1 import Condition
from mooring.api.quoting import go_quote
from mooring.api.resource_v1 import DeviceRequestAllocationResult, ResourceClaim
from mooring.scheduler.framework import SUCCESS, Status, error

if TYPE_CHECKING:
    from mooring.client import Client

_LOOK_AGAIN = 0.5
"""How often, in seconds, it is looked whether devices are ready."""


def must_be_waited_for(claim: ResourceClaim) -> bool:
    allocation = claim.status.allocation
    return allocation is not None and any(result.binding_conditions for result in allocation.devices.results)


def failure_of(claim: ResourceClaim) -> str | None:
    """Why the devices of a claim will not become ready, if one has failed."""
    for result, conditions in _waiting(claim):
        for condition in conditions:
            if condition.type in result.binding_failure_conditions and condition.status == "True":
                why = f"reason={condition.reason}, message={go_quote(condition.message)}"
                return f"claim {claim.metadata.name} binding failed: {why}"
    return None


def is_ready(claim: ResourceClaim) -> bool:
    """Whether all conditions that the devices name are true."""
    for result, conditions in _waiting(claim):
        true = {condition.type for condition in conditions if condition.status == "True"}
        if not true.issuperset(result.binding_conditions):
            return False
    return True


def is_overdue(claim: ResourceClaim, now: datetime, seconds: float) -> bool:
    """Whether the devices have had their time."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or not must_be_waited_for(claim):
        return False
    return times.add_seconds(times.parse(allocation.allocation_timestamp), seconds) < now


async def wait(
    claims: Iterable[ResourceClaim],
    latest: Callable[[ResourceClaim], ResourceClaim | None],
    client: "Client",
    seconds: float,
) -> Status:
    """Wait until the devices of all claims are ready, or one has failed, or so long."""
    until = client.clock.monotonic() + seconds
    waiting = [claim for claim in claims if must_be_waited_for(claim)]
    while waiting:
        for claim in waiting.copy():
            current = latest(claim)
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
            await client.clock.sleep(_LOOK_AGAIN)
    return SUCCESS


def _waiting(claim: ResourceClaim) -> Iterable[tuple[DeviceRequestAllocationResult, list[Condition]]]:
    allocation = claim.status.allocation
    for result in allocation.devices.results if allocation is not None else ():
        if result.binding_conditions:
            device = (result.driver, result.pool, result.device)
            found = (entry for entry in claim.status.devices if (entry.driver, entry.pool, entry.device) == device)
            reported = next(found, None)
            yield result, reported.conditions if reported is not None else []
