"""Evict pods from nodes with NoExecute taints that they do not tolerate, on the base `EvictionController`.

The due time is recomputed when the node's taints or the pod's tolerations change: from `timeAdded`, the binding and the
first matching toleration of each taint (`mooring.constraints.tolerations.eviction_time`). A taint without `timeAdded`
counts from when it was first seen here.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TypeAlias

from prometheus_client import Counter, Histogram

from mooring.api import errors, times
from mooring.api.core_v1 import Node, Pod, Taint, Toleration
from mooring.api.resource_v1 import (
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from mooring.api.times import add_seconds
from mooring.base import logs
from mooring.client import Index, Informer, key_of
from mooring.constraints.expressions import parse_time_added
from mooring.constraints.tolerations import NO_EXECUTE, TaintLike, device_eviction_time, eviction_time
from mooring.controllers.conditions import disruption_target_condition
from mooring.controllers.controller import Context, Controller

_LONGEST_WAIT = 86400.0
"""The maximum countdown in seconds; pods with longer ones are reconciled once a day."""
_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)
log = logs.get(__name__)


class EvictionController(Controller):
    """The base of controllers that evict each pod at its `compute_eviction_time`; reconciles pods by key."""

    metrics_prefix: str
    component: str
    event_reason: str
    condition_reason: str
    condition_message: str

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = context.options.constraints
        self.pods: Informer[Pod] = context.informers.of(Pod)
        self._recorder = context.recorder(self.component)
        self._counting_down: set[str] = set()
        """Pods for which a cancelled eviction is recorded as an event."""
        self._deletions = Counter(
            f"{self.metrics_prefix}_pod_deletions",
            f"Total number of Pods deleted by {type(self).__name__}Controller since its start.",
            registry=context.registry,
        )
        self._latency = Histogram(
            f"{self.metrics_prefix}_pod_deletion_duration_seconds",
            "Latency, in seconds, between the time when a taint effect has been activated for the Pod and its deletion "
            f"via {type(self).__name__}Controller.",
            buckets=_BUCKETS,
            registry=context.registry,
        )

    @abstractmethod
    def compute_eviction_time(self, pod: Pod, now: datetime) -> datetime | None:
        """Return the time at which to evict the pod; None for never."""

    async def reconcile(self, key: str) -> float | None:
        pod = self.pods.by_key(key)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            self._counting_down.discard(key)
            return None
        now = self.clock.now()
        due = self.compute_eviction_time(pod, now)
        if due is None:
            if key in self._counting_down:
                self._counting_down.discard(key)
                self._recorder.event(pod, "Normal", self.event_reason, f"Cancelling deletion of Pod {key}")
            return None
        wait = (due - now).total_seconds()
        if wait > 0:
            self._counting_down.add(key)
            return min(wait, _LONGEST_WAIT)
        await self._evict(pod)
        self._counting_down.discard(key)
        self._latency.observe(-wait)
        return None

    async def _evict(self, pod: Pod) -> None:
        meta = pod.metadata
        self._recorder.event(pod, "Normal", self.event_reason, f"Marking for deletion Pod {key_of(pod)}")
        condition = disruption_target_condition(self.condition_reason, self.condition_message, self.clock.now())
        body = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
        try:
            await self.client.patch(Pod, meta.name, body, meta.namespace, subresource="status")
            await self.client.delete(Pod, meta.name, meta.namespace, uid=meta.uid)
        except errors.NotFound:  # already deleted
            return
        self._deletions.inc()
        log.info("evicted pod %s from node %s", key_of(pod), pod.spec.node_name, extra={"fields": {"by": self.name}})


def index_by_node(pods: Informer[Pod]) -> Index[Pod]:
    """Return an index of pods by the name of the node that they are bound to."""
    return pods.index("node", lambda pod: [pod.spec.node_name] if pod.spec.node_name else [])


def latest_unrounded_time(stamp: datetime, now: datetime) -> datetime:
    """Return the latest time, up to `now`, that may have been rounded down to a timestamp of whole seconds.

    Countdowns start at this time: counted from the timestamp, `tolerationSeconds` would end up to a second early.
    """
    return max(stamp, min(now, add_seconds(stamp, 1)))


def latest_time_of_addition(taint: TaintLike, now: datetime) -> datetime | None:
    """Return the latest time, up to `now`, when a taint may have been added; None without `timeAdded`."""
    stamp = parse_time_added(taint)
    return None if stamp is None else latest_unrounded_time(stamp, now)


def binding_time(pod: Pod) -> datetime:
    """Return when a pod was bound to its node; if unknown, when it started or was created."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True" and condition.last_transition_time:
            return times.parse(condition.last_transition_time)
    return times.parse(pod.status.start_time or pod.metadata.creation_timestamp or "1970-01-01T00:00:00Z")


TaintKey: TypeAlias = tuple[str, str]


class TaintEviction(EvictionController):
    """The controller that evicts pods by NoExecute taints of nodes; reconciles pods by key."""

    name = "taint-eviction"
    metrics_prefix = "taint_eviction_controller"
    component = "taint-eviction-controller"
    event_reason = "TaintManagerEviction"
    condition_reason = "DeletionByTaintManager"
    condition_message = "Taint manager: deleting due to NoExecute taint"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.nodes: Informer[Node] = context.informers.of(Node)
        self._by_node = index_by_node(self.pods)
        self._seen: dict[str, dict[TaintKey, datetime]] = {}
        """By node, when taints without `timeAdded` were first seen."""
        self.nodes.add_handler(
            added=self._enqueue_pods_if_tainted, updated=self._enqueue_pods_if_taints_changed, deleted=self._forget_node
        )
        self.follow(self.pods, self._enqueue_if_evictable)

    def _enqueue_pods_if_tainted(self, node: Node) -> None:
        self._record_first_seen(node)
        if no_execute_taints(node):
            self._enqueue_pods_of(node)

    def _enqueue_pods_if_taints_changed(self, old: Node, new: Node) -> None:
        if no_execute_taints(old) != no_execute_taints(new):
            self._record_first_seen(new)
            self._enqueue_pods_of(new)

    def _forget_node(self, node: Node) -> None:
        self._seen.pop(node.metadata.name, None)

    def _record_first_seen(self, node: Node) -> None:
        known = self._seen.pop(node.metadata.name, {})
        undated = [_taint_key(taint) for taint in no_execute_taints(node) if parse_time_added(taint) is None]
        if undated:
            now = self.clock.now()
            self._seen[node.metadata.name] = {key: known.get(key, now) for key in undated}

    def _enqueue_pods_of(self, node: Node) -> None:
        for pod in self._by_node.get(node.metadata.name):
            self.enqueue(pod)

    def _enqueue_if_evictable(self, pod: Pod) -> None:
        node = self.nodes.get(pod.spec.node_name) if pod.spec.node_name else None
        if node is not None and no_execute_taints(node):
            self.enqueue(pod)

    def compute_eviction_time(self, pod: Pod, now: datetime) -> datetime | None:
        node = self.nodes.get(pod.spec.node_name) if pod.spec.node_name else None
        if node is None:
            return None
        seen = self._seen.get(node.metadata.name, {})
        return eviction_time(
            no_execute_taints(node),
            self.tolerations_of(pod),
            latest_unrounded_time(binding_time(pod), now),
            self.options,
            now=now,
            added_at=lambda taint: latest_time_of_addition(taint, now) or seen.get(_taint_key(taint)),
        )

    def tolerations_of(self, pod: Pod) -> Sequence[Toleration]:
        return pod.spec.tolerations


def no_execute_taints(node: Node) -> list[Taint]:
    return [taint for taint in node.spec.taints if taint.effect == NO_EXECUTE]


def _taint_key(taint: Taint) -> TaintKey:
    return taint.key, taint.value


class DeviceTaintEviction(EvictionController):
    """Evict pods that use devices with NoExecute taints that their claims do not tolerate.

    Devices are tainted by their driver, in a ResourceSlice, or by a DeviceTaintRule. The tolerations are those in the
    claim's allocation, which the scheduler copied from the request.
    """

    name = "device-taint-eviction"
    metrics_prefix = "device_taint_eviction_controller"
    component = "device-taint-eviction"
    event_reason = "DeviceTaintManagerEviction"
    condition_reason = "DeletionByDeviceTaintManager"
    condition_message = "Device Taint manager: deleting due to NoExecute taint"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        knows = self.client.knows
        self._by_claim = self.pods.index("resource claim", claim_keys)
        self.follow(self.pods, self._enqueue_if_evictable)
        self._claims: Informer[ResourceClaim] | None = None
        self._slices: Informer[ResourceSlice] | None = None
        self._rules: Informer[DeviceTaintRule] | None = None
        if not (knows(ResourceClaim) and knows(ResourceSlice)):
            return  # not served before 1.32
        self._claims = context.informers.of(ResourceClaim)
        self._claims_by_pool = self._claims.index(
            "pool", lambda claim: {_pool_key(each.driver, each.pool) for each in _list_allocated_devices(claim)}
        )
        self.follow(self._claims, self._enqueue_pods_of_claim)
        self._slices = context.informers.of(ResourceSlice)
        self._slices_by_pool = self._slices.index("pool", _pool_keys_of_slice)
        self.follow(self._slices, self._enqueue_pods_of_slice, deleted=True)
        if knows(DeviceTaintRule):
            self._rules = context.informers.of(DeviceTaintRule)
            self._rules.add_handler(
                added=self._enqueue_pods_of_rule,
                updated=self._enqueue_pods_of_updated_rule,
                deleted=self._enqueue_pods_of_rule,
            )

    def _enqueue_if_evictable(self, pod: Pod) -> None:
        if pod.spec.resource_claims and pod.spec.node_name:
            self.enqueue(pod)

    def _enqueue_pods_of_claim(self, claim: ResourceClaim) -> None:
        for pod in self._by_claim.get(key_of(claim)):
            self.enqueue(pod)

    def _enqueue_pods_of_slice(self, found: ResourceSlice) -> None:
        for claim in self._claims_by_pool.get(_pool_keys_of_slice(found)[0]):
            self._enqueue_pods_of_claim(claim)

    def _enqueue_pods_of_rule(self, rule: DeviceTaintRule) -> None:
        for claim in self._claims.objects() if self._claims is not None else ():
            if any(_is_selected_by_rule(rule, result) for result in _list_allocated_devices(claim)):
                self._enqueue_pods_of_claim(claim)

    def _enqueue_pods_of_updated_rule(self, old: DeviceTaintRule, new: DeviceTaintRule) -> None:
        if old.spec != new.spec:
            self._enqueue_pods_of_rule(old)
            self._enqueue_pods_of_rule(new)

    def compute_eviction_time(self, pod: Pod, now: datetime) -> datetime | None:
        if not pod.spec.node_name or self._claims is None:
            return None

        added_at = partial(latest_time_of_addition, now=now)
        bound = latest_unrounded_time(binding_time(pod), now)
        moments = []
        for key in claim_keys(pod):
            claim = self._claims.by_key(key)
            if claim is None or all(user.uid != pod.metadata.uid for user in claim.status.reserved_for):
                continue
            for result in _list_allocated_devices(claim):
                taints = list(self._find_device_taints(result))
                moments.append(
                    device_eviction_time(taints, result.tolerations, bound, self.options, now=now, added_at=added_at)
                )
        return min(filter(None, moments), default=None)

    def _find_device_taints(self, device: DeviceRequestAllocationResult) -> Iterator[DeviceTaint]:
        """Return the NoExecute taints of an allocated device: of its slice, then of rules."""
        slices = list(self._slices_by_pool.get(_pool_key(device.driver, device.pool)))
        newest = max((found.spec.pool.generation for found in slices), default=0)
        for found in slices:
            for entry in found.spec.devices if found.spec.pool.generation == newest else ():
                if entry.name == device.device:
                    yield from (taint for taint in entry.taints if taint.effect == NO_EXECUTE)
        for rule in self._rules.objects() if self._rules is not None else ():
            if rule.spec.taint.effect == NO_EXECUTE and _is_selected_by_rule(rule, device):
                yield rule.spec.taint


def claim_keys(pod: Pod) -> list[str]:
    """Return the keys of a pod's ResourceClaims: those that it names, and those generated for it."""
    if not pod.spec.resource_claims and pod.status.extended_resource_claim_status is None:
        return []
    made = {entry.name: entry.resource_claim_name for entry in pod.status.resource_claim_statuses}
    names = [entry.resource_claim_name or made.get(entry.name) for entry in pod.spec.resource_claims]
    if pod.status.extended_resource_claim_status is not None:
        names.append(pod.status.extended_resource_claim_status.resource_claim_name)
    return [f"{pod.metadata.namespace}/{name}" for name in names if name]


def _list_allocated_devices(claim: ResourceClaim) -> list[DeviceRequestAllocationResult]:
    return claim.status.allocation.devices.results if claim.status.allocation is not None else []


def _pool_keys_of_slice(found: ResourceSlice) -> list[str]:
    return [_pool_key(found.spec.driver, found.spec.pool.name)]


def _pool_key(driver: str, pool: str) -> str:
    return f"{driver}/{pool}"


def _is_selected_by_rule(rule: DeviceTaintRule, device: DeviceRequestAllocationResult) -> bool:
    wanted = rule.spec.device_selector
    return wanted is not None and (
        wanted.driver in (None, device.driver)
        and wanted.pool in (None, device.pool)
        and wanted.device in (None, device.device)
    )
