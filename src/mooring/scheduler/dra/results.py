"""Build the allocation of a claim from the chosen devices, as it is written into the claim's status."""

from collections.abc import Sequence
from uuid import NAMESPACE_OID, uuid5

from msgspec import structs

from mooring.api.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from mooring.api.resource_v1 import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from mooring.constraints.node_selector import NAME_FIELD
from mooring.scheduler.dra.allocator import Chosen
from mooring.scheduler.dra.claims import Request

FROM_CLASS, FROM_CLAIM = "FromClass", "FromClaim"


def allocation_of(claim: ResourceClaim, chosen: Sequence[Chosen], node_name: str) -> AllocationResult:
    """Build the allocation for a claim's status: devices, configuration, and the nodes that can use them."""
    results = [_device_result(claim, number, entry) for number, entry in enumerate(chosen)]
    devices = DeviceAllocationResult(results=results, config=_configuration(claim, chosen))
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


def _configuration(claim: ResourceClaim, chosen: Sequence[Chosen]) -> list[DeviceAllocationConfiguration]:
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
