"""DynamicResources: allocates the devices that a pod's ResourceClaims request.

A claim that is already allocated restricts the pod to the nodes that can use its devices. For other claims, devices are
searched on every node (`dra/allocator.py`); `reserve` assumes those of the chosen node, and `pre_bind` writes them into
the claims. Nodes that satisfy an earlier alternative of a request get a higher score.
"""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import structs
from msgspec.structs import replace

from mooring.api.base import Object
from mooring.api.core_v1 import Pod, PodSpec
from mooring.api.meta_v1 import Resource
from mooring.api.resource_v1 import AllocationResult, ResourceClaim
from mooring.cel.conversions import string_to_duration
from mooring.cel.errors import CelError
from mooring.constraints import node_selector
from mooring.scheduler import framework as fwk
from mooring.scheduler.columns.cluster import Cluster, object_key
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.dra import memo, readiness, writing
from mooring.scheduler.dra.allocator import AllocationError, Wanted
from mooring.scheduler.dra.claims import (
    MAX_CONSUMERS,
    ClaimError,
    claim_key,
    claim_name,
    full_name,
    is_reserved_for,
    pod_claims,
    requests_of,
)
from mooring.scheduler.dra.memo import SearchResults, shared_search_cache
from mooring.scheduler.plugins import arguments as plugin_arguments
from mooring.scheduler.plugins.normalization import Proportional
from mooring.scheduler.volumes.assumed import find_assumptions

REASON_CANNOT = "cannot allocate all claims"
REASON_GAVE_UP = "timed out trying to allocate devices"
REASON_INVALID_POOL = "invalid resource pools were encountered"
REASON_ELSEWHERE = "resourceclaim not available on the node"
_ELSEWHERE = memo.INVALID_POOL + 1
_NOTHING_TO_FREE = fwk.PostFilterResult(fwk.unschedulable())
"""The result of `post_filter` if no claim can be deallocated: without a message, as in Kubernetes since 1.37."""
_REASONS = ("", REASON_CANNOT, REASON_GAVE_UP, REASON_INVALID_POOL, REASON_ELSEWHERE)


class DynamicResourcesArgs(Object):
    """The arguments of the DynamicResources plugin."""

    filter_timeout: str | None = None
    """The time limit of a search on one node: `0s` removes it; any other value stands for a fixed number of tries."""
    binding_timeout: str | None = None
    """How long to wait until devices are ready, such as `5m`; `10m` when absent."""


class PodState(msgspec.Struct):
    """The claims of a pod during one scheduling cycle."""

    cluster: Cluster
    claims: list[ResourceClaim]
    """The claims in the pod's order; a written claim replaces its earlier version."""
    wanted: list[Wanted] = msgspec.field(default_factory=list)
    """The claims that still need devices."""
    findings: SearchResults | None = None
    """The results of the device search for these claims, by node row."""
    allocations: dict[str, AllocationResult] = msgspec.field(default_factory=dict)
    """The allocations that `reserve` chose and that are not written yet, by claim uid."""
    reserved: list[ResourceClaim] = msgspec.field(default_factory=list)
    """The claims in the state that they will have once these allocations are written."""


class DynamicResources(Proportional[PodState], fwk.FilterPlugin[PodState]):
    name = "DynamicResources"
    filters = fwk.Declaration(fwk.Part.POD)
    scores = fwk.Declaration(fwk.Part.POD, is_normalized=True)

    def __init__(self, arguments: fwk.PluginArguments, handle: fwk.Handle) -> None:
        super().__init__()
        args = plugin_arguments.read(self.name, arguments, DynamicResourcesArgs)
        self._is_limited = args.filter_timeout is None or self._parse_seconds("filterTimeout", args.filter_timeout) > 0
        self._binding_seconds = 600.0
        if args.binding_timeout is not None:
            self._binding_seconds = self._parse_seconds("bindingTimeout", args.binding_timeout)
        options = handle.features.constraints
        self._client = handle.client
        self._writer = writing.ClaimWriter(handle.client) if handle.client is not None else None
        self._selector_options = replace(options, cel=False)
        self._claims = find_assumptions(handle.cluster, ResourceClaim)
        self._searches = shared_search_cache(handle.cluster, options)
        self._allocated = self._searches.allocated
        self._tasks: set[asyncio.Task[None]] = set()

    def _parse_seconds(self, name: str, text: str) -> float:
        try:
            return string_to_duration(text).nanos / 1e9
        except CelError as problem:
            raise plugin_arguments.error(self.name, f"{name}: {text} is no duration: {problem}") from problem

    def pre_enqueue(self, pod: Pod) -> fwk.Status:
        try:
            pod_claims(pod, self._claims)
        except ClaimError as problem:
            return fwk.unresolvable(str(problem))
        return fwk.SUCCESS

    def applies_to(self, spec: PodSpec) -> fwk.Status | None:
        return None if spec.resource_claims else fwk.SKIP

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> fwk.PreFilterResult[PodState] | fwk.Status:
        if not pod.pod.spec.resource_claims:
            return fwk.SKIP
        try:
            state = PodState(cluster, pod_claims(pod.pod, self._claims))
            for claim in state.claims:
                self._check_allocatable(pod.pod, claim)
                if claim.status.allocation is None:
                    state.wanted.append(Wanted(claim, requests_of(claim, cluster)))
        except ClaimError as problem:
            return fwk.unresolvable(str(problem))
        if not state.claims:
            return fwk.SKIP
        if state.wanted:
            state.findings = self._searches.results_for(state.wanted)
        return fwk.PreFilterResult(state)

    def _check_allocatable(self, pod: Pod, claim: ResourceClaim) -> None:
        if claim.status.allocation is not None:
            if len(claim.status.reserved_for) >= MAX_CONSUMERS and not is_reserved_for(pod, claim):
                raise ClaimError("resourceclaim in use")
        elif self._allocated.is_in_flight(claim):
            raise ClaimError(f"resource claim {full_name(claim)} is in the process of being allocated")

    def filter(self, state: PodState, rows: fwk.Rows) -> fwk.Verdicts | fwk.Status:
        codes = np.zeros(state.cluster.capacity, np.int32)
        if state.findings is not None:
            try:
                self._searches.evaluate(state.findings, state.wanted, rows, is_limited=self._is_limited)
            except AllocationError as problem:
                return fwk.error(str(problem))
            codes = state.findings.codes.copy()
        codes[(codes == 0) & ~self._allocations_mask(state.claims, state.cluster)] = _ELSEWHERE
        return fwk.Verdicts(-codes[rows], lambda code: (_REASONS[code],))

    def _allocations_mask(self, claims: Sequence[ResourceClaim], cluster: Cluster) -> fwk.Mask:
        found: fwk.Mask = np.ones(cluster.capacity, np.bool_)
        for claim in claims:
            if self._never_becomes_ready(claim):
                return np.zeros_like(found)
            selector = claim.status.allocation.node_selector if claim.status.allocation is not None else None
            if selector is not None:
                compiled = node_selector.compile_selector(selector, self._selector_options)
                found &= cluster.labels.selector_mask(compiled)
        return found

    def _never_becomes_ready(self, claim: ResourceClaim) -> bool:
        if not readiness.has_binding_conditions(claim):
            return False
        if readiness.failure_of(claim) is not None:
            return True
        if readiness.is_ready(claim) or self._client is None:
            return False
        return readiness.is_overdue(claim, self._client.clock.now(), self._binding_seconds)

    def post_filter(self, pod: PodInfo, statuses: Mapping[str, fwk.Status]) -> fwk.PostFilterResult:
        """Deallocate in the background a claim no other pod uses, if claims exclude nodes without their devices."""
        try:
            claims = pod_claims(pod.pod, self._claims)
        except ClaimError:
            return _NOTHING_TO_FREE
        if claims and any(
            status.plugin == self.name and REASON_ELSEWHERE in status.reasons for status in statuses.values()
        ):
            for claim in claims:
                if self._can_be_freed(claim, pod.pod) and self._client is not None:
                    self._write_in_background(writing.deallocate(self._client, claim))
                    return fwk.PostFilterResult(fwk.unschedulable("deallocation of ResourceClaim completed"))
        return _NOTHING_TO_FREE

    def _can_be_freed(self, claim: ResourceClaim, pod: Pod) -> bool:
        allocation = claim.status.allocation
        if allocation is None or (allocation.node_selector is None and not self._never_becomes_ready(claim)):
            return False
        return all(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)

    def pre_score(self, pod: PodInfo, cluster: Cluster) -> PodState | fwk.Status:
        found = self.pre_filter(pod, cluster)
        if isinstance(found, fwk.Status) or found.state.findings is None:
            return fwk.SUCCESS
        return found.state

    def score(self, state: PodState, rows: fwk.Rows) -> fwk.Scores:
        if state.findings is None:
            return np.zeros(state.cluster.capacity, np.int64)[rows]
        self._searches.evaluate(state.findings, state.wanted, fwk.ALL_ROWS, is_limited=self._is_limited)
        return state.findings.scores[rows]

    def reserve(self, cycle: fwk.CycleState, _pod: Pod, node_name: str) -> fwk.Status:
        state: PodState | None = cycle.pre_filter.get(self.name)
        if state is None or state.findings is None:
            return fwk.SUCCESS
        solution = state.findings.solutions.get(state.cluster.row_of[node_name])
        if solution is None:
            return fwk.error("claim allocation not found for node")
        for entry, devices in zip(state.wanted, solution.devices, strict=True):
            claim = entry.claim
            allocation = state.allocations[claim.metadata.uid] = writing.allocation_of(claim, devices, node_name)
            reserved = structs.replace(claim, status=structs.replace(claim.status, allocation=allocation))
            state.reserved.append(reserved)
            self._allocated.begin_allocation(reserved)
        return fwk.SUCCESS

    def unreserve(self, cycle: fwk.CycleState, pod: Pod, _node_name: str) -> None:
        state: PodState | None = cycle.pre_filter.get(self.name)
        if state is None:
            return
        for claim in state.reserved:
            self._allocated.end_allocation(claim)
        state.reserved = []
        for claim in state.claims:
            if claim.status.allocation is not None and is_reserved_for(pod, claim) and self._client is not None:
                self._write_in_background(writing.unreserve(self._client, claim, pod))

    async def pre_bind(self, cycle: fwk.CycleState, pod: Pod, _node_name: str) -> fwk.Status:
        state: PodState | None = cycle.pre_filter.get(self.name)
        if state is None or self._client is None or self._writer is None:
            return fwk.SUCCESS
        for index, claim in enumerate(state.claims):
            if is_reserved_for(pod, claim):
                continue
            allocation = state.allocations.get(claim.metadata.uid)
            try:
                written = await self._writer.reserve(claim, pod, allocation)
            except writing.ClaimWriteError as problem:
                return fwk.error(str(problem))
            state.claims[index] = written
            self._claims.assume_written(written)
            if allocation is not None:
                self._allocated.end_allocation(written)
            self._allocated.recount_claim(written)
        return await readiness.wait_until_ready(state.claims, self._claims, self._client, self._binding_seconds)

    def would_write(self, cycle: fwk.CycleState, pod: Pod, _node_name: str) -> Sequence[Resource]:
        state: PodState | None = cycle.pre_filter.get(self.name)
        if state is None:
            return ()
        allocations = state.allocations
        return [writing.reserved_for_pod(pod, claim, allocations.get(claim.metadata.uid)) for claim in state.claims]

    def _write_in_background(self, write: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(write)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def events_to_register(self) -> Sequence[fwk.EventWithHint]:
        changed = fwk.Action.ADD | fwk.Action.UPDATE
        of_node = fwk.Action.ADD | fwk.Action.UPDATE_NODE_LABEL | fwk.Action.UPDATE_NODE_ALLOCATABLE
        return (
            fwk.wake_on(
                fwk.Kind.RESOURCE_CLAIM, changed | fwk.Action.DELETE, self._after_claim_change, _claim_of_event
            ),
            fwk.wake_on(fwk.Kind.TARGET_POD, fwk.Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, self._after_pod_change),
            fwk.wake_on(fwk.Kind.ASSIGNED_POD, fwk.Action.DELETE, self._after_pod_gone, _only_if_pod_had_claims),
            fwk.wake_on(fwk.Kind.NODE, of_node),
            fwk.wake_on(fwk.Kind.DEVICE_CLASS, changed),
            fwk.wake_on(fwk.Kind.RESOURCE_SLICE, changed),
            fwk.wake_on(fwk.Kind.DEVICE_TAINT_RULE, fwk.Action.UPDATE | fwk.Action.DELETE),
        )

    def refers_to(self, pod: Pod) -> Iterator[str]:
        """Return the keys of the pod's claims whose names are known."""
        for entry in pod.spec.resource_claims:
            try:
                name = claim_name(pod, entry)
            except ClaimError:
                continue
            if name is not None:
                yield object_key(pod.metadata.namespace, name)

    def opened_by(self, event: fwk.ClusterEvent, old: Any, new: Any) -> bool | str:
        """Return the key of the claim that changed: only pods that use it may now pass `pre_enqueue`."""
        return claim_key(new or old) if event.kind is fwk.Kind.RESOURCE_CLAIM else False

    def _after_claim_change(self, pod: Pod, old: ResourceClaim | None, new: ResourceClaim | None) -> fwk.QueueingHint:
        if new is None:
            return fwk.QueueingHint.of(old is not None and old.status.allocation is not None)
        try:
            used = pod_claims(pod, self._claims)
        except ClaimError:
            return fwk.QueueingHint.SKIP
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            return fwk.QueueingHint.QUEUE
        is_own = any(claim.metadata.uid == new.metadata.uid for claim in used)
        return fwk.QueueingHint.of(is_own and (old is None or old.status != new.status))

    def _after_pod_change(self, pod: Pod, _old: Pod | None, new: Pod | None) -> fwk.QueueingHint:
        own = new is not None and new.metadata.uid == pod.metadata.uid
        return fwk.QueueingHint.of(own and new is not None and self.pre_enqueue(new).is_success)

    def _after_pod_gone(self, _pod: Pod, old: Pod, _new: None) -> fwk.QueueingHint:
        try:
            return fwk.QueueingHint.of(any(claim.status.allocation is None for claim in pod_claims(old, self._claims)))
        except ClaimError:
            return fwk.QueueingHint.QUEUE


def _only_if_pod_had_claims(old: Pod, _new: None) -> str | None:
    return None if old.spec.resource_claims else ""


def _claim_of_event(old: ResourceClaim | None, new: ResourceClaim | None) -> str | None:
    had = old is not None and old.status.allocation is not None
    has = new is not None and new.status.allocation is not None
    changed = new or old
    return None if (had and not has) or changed is None else claim_key(changed)
