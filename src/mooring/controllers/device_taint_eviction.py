"""Evict pods that use devices with NoExecute taints that their claims do not tolerate.

Devices are tainted by their driver, in a ResourceSlice, or by a DeviceTaintRule. The tolerations are those in the
claim's allocation, which the scheduler copied from the request. Read next: ``eviction.py``.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from mooring.api.core_v1 import Pod
from mooring.api.resource_v1 import (
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from mooring.client import Informer, key_of
from mooring.constraints.expressions import parse_time_added
from mooring.constraints.tolerations import NO_EXECUTE, TaintLike, device_eviction_time
from mooring.controllers.controller import Context
from mooring.controllers.eviction import Eviction, bound_at, latest_moment


class DeviceTaintEviction(Eviction):
    """Reconcile pods, by key."""

    name = "device-taint-eviction"
    metrics_prefix = "device_taint_eviction_controller"
    component = "device-taint-eviction"
    event_reason = "DeviceTaintManagerEviction"
    condition_reason = "DeletionByDeviceTaintManager"
    condition_message = "Device Taint manager: deleting due to NoExecute taint"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        informers, knows = context.informers, self.client.knows
        self._by_claim = self.pods.index("resource claim", claim_keys)
        self.follow(self.pods, self._pod_changed)
        self._claims: Informer[ResourceClaim] | None = None
        self._slices: Informer[ResourceSlice] | None = None
        self._rules: Informer[DeviceTaintRule] | None = None
        if not (knows(ResourceClaim) and knows(ResourceSlice)):
            return  # not served before 1.32
        self._claims = informers.of(ResourceClaim)
        self._claims_by_pool = self._claims.index("pool", _pools_of)
        self.follow(self._claims, self._claim_changed)
        self._slices = informers.of(ResourceSlice)
        self._slices_by_pool = self._slices.index("pool", _pool_of_slice)
        self._slices.add_handler(added=self._slice_changed, updated=self._slice_updated, deleted=self._slice_changed)
        if knows(DeviceTaintRule):
            self._rules = informers.of(DeviceTaintRule)
            self._rules.add_handler(added=self._rule_changed, updated=self._rule_updated, deleted=self._rule_changed)

    # -- events

    def _pod_changed(self, pod: Pod) -> None:
        if pod.spec.resource_claims and pod.spec.node_name:
            self.enqueue(pod)

    def _claim_changed(self, claim: ResourceClaim) -> None:
        for pod in self._by_claim.get(key_of(claim)):
            self.enqueue(pod)

    def _slice_changed(self, found: ResourceSlice) -> None:
        for claim in self._claims_by_pool.get(_pool_of_slice(found)[0]):
            self._claim_changed(claim)

    def _slice_updated(self, old: ResourceSlice, new: ResourceSlice) -> None:
        if old.spec != new.spec:
            self._slice_changed(new)

    def _rule_changed(self, rule: DeviceTaintRule) -> None:
        for claim in self._claims.objects() if self._claims is not None else ():
            if any(_selects(rule, result) for result in _results(claim)):
                self._claim_changed(claim)

    def _rule_updated(self, old: DeviceTaintRule, new: DeviceTaintRule) -> None:
        if old.spec != new.spec:
            self._rule_changed(old)
            self._rule_changed(new)

    # -- reconciling

    def due(self, pod: Pod, now: datetime) -> datetime | None:
        if not pod.spec.node_name or self._claims is None:
            return None

        def added_at(taint: TaintLike) -> datetime | None:
            stamp = parse_time_added(taint)
            return None if stamp is None else latest_moment(stamp, now)

        bound = latest_moment(bound_at(pod), now)
        moments = []
        for key in claim_keys(pod):
            claim = self._claims.by_key(key)
            if claim is None or all(user.uid != pod.metadata.uid for user in claim.status.reserved_for):
                continue
            for result in _results(claim):
                taints = list(self._taints(result))
                moment = device_eviction_time(
                    taints, result.tolerations, bound, self.options, now=now, added_at=added_at
                )
                if moment is not None:
                    moments.append(moment)
        return min(moments, default=None)

    def _taints(self, device: DeviceRequestAllocationResult) -> Iterator[DeviceTaint]:
        """Return the NoExecute taints of an allocated device: of its slice, then of rules."""
        for found in self._current(self._slices_by_pool.get(_pool(device.driver, device.pool))):
            for entry in found.spec.devices:
                if entry.name == device.device:
                    yield from (taint for taint in entry.taints if taint.effect == NO_EXECUTE)
        for rule in self._rules.objects() if self._rules is not None else ():
            if rule.spec.taint.effect == NO_EXECUTE and _selects(rule, device):
                yield rule.spec.taint

    @staticmethod
    def _current(slices: Iterable[ResourceSlice]) -> Iterator[ResourceSlice]:
        found = list(slices)
        newest = max((entry.spec.pool.generation for entry in found), default=0)
        return (entry for entry in found if entry.spec.pool.generation == newest)


def claim_keys(pod: Pod) -> list[str]:
    """Return the keys of a pod's ResourceClaims, named and generated."""
    if not pod.spec.resource_claims and pod.status.extended_resource_claim_status is None:
        return []
    made = {entry.name: entry.resource_claim_name for entry in pod.status.resource_claim_statuses}
    names = [entry.resource_claim_name or made.get(entry.name) for entry in pod.spec.resource_claims]
    if pod.status.extended_resource_claim_status is not None:
        names.append(pod.status.extended_resource_claim_status.resource_claim_name)
    return [f"{pod.metadata.namespace}/{name}" for name in names if name]


def _results(claim: ResourceClaim) -> list[DeviceRequestAllocationResult]:
    return claim.status.allocation.devices.results if claim.status.allocation is not None else []


def _pools_of(claim: ResourceClaim) -> set[str]:
    return {_pool(result.driver, result.pool) for result in _results(claim)}


def _pool_of_slice(found: ResourceSlice) -> list[str]:
    return [_pool(found.spec.driver, found.spec.pool.name)]


def _pool(driver: str, pool: str) -> str:
    return f"{driver}/{pool}"


def _selects(rule: DeviceTaintRule, device: DeviceRequestAllocationResult) -> bool:
    wanted = rule.spec.device_selector
    return wanted is not None and (
        wanted.driver in (None, device.driver)
        and wanted.pool in (None, device.pool)
        and wanted.device in (None, device.device)
    )
