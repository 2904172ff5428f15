"""Find the pods that the target flags evict or leave without a node.

For running pods, the eviction time is computed with the current and the target rules for taints. Pending pods are
scheduled by two engines, one for each set of rules, in queue order. Called by ``outcomes.py``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from mooring.advisor.audit.options import AuditOptions, ResolvedFlags
from mooring.advisor.audit.results import Effect
from mooring.advisor.snapshot import Snapshot, engine
from mooring.advisor.snapshot.engines import needs_node
from mooring.api.core_v1 import Node, Pod
from mooring.api.resource_v1 import DeviceTaint, DeviceTaintRule, ResourceClaim, ResourceSlice
from mooring.api.states import has_ended, priority
from mooring.constraints import node_selector, tolerations
from mooring.constraints.options import ConstraintOptions
from mooring.constraints.tolerations import NO_EXECUTE
from mooring.controllers.taint_eviction import binding_time, claim_keys, no_execute_taints
from mooring.scheduler.facade import ProfileSpec, UnknownSchedulerError

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PodEffect:
    """The effect of the target flags on a pod (evicted, left pending, none), and the reason."""

    effect: Effect
    why: str = ""


@dataclass(frozen=True)
class PodEffectFinder:
    """Finds the pods that the target flags evict or leave without a node."""

    snapshot: Snapshot
    options: AuditOptions
    now: datetime
    profiles: Sequence[ProfileSpec]

    @property
    def _has_same_rules(self) -> bool:
        return self.options.now.features == self.options.then.features

    def effect_on(self, pod: Pod) -> PodEffect:
        """Return whether the target flags evict a pod, leave it pending, or do not affect it, and why."""
        if has_ended(pod) or pod.metadata.deletion_timestamp is not None:
            return PodEffect(Effect.FINISHED, "the pod has ended, or is about to go")
        if pod.spec.node_name:
            return self._effect_on_running(pod)
        return self._effect_on_pending(pod)

    def affected_pods(self) -> Iterator[tuple[Pod, PodEffect]]:
        """Yield pods that are evicted or stay pending once components run with the audit's target flags, and why."""
        if self._has_same_rules:
            return
        for pod in self.snapshot.all(Pod):
            if pod.metadata.uid:
                effect = self.effect_on(pod)
                if effect.effect in (Effect.EVICTED, Effect.STUCK_PENDING):
                    yield pod, effect

    def _effect_on_running(self, pod: Pod) -> PodEffect:
        before, after = (self._eviction_time(pod, side.constraints) for side in (self.options.now, self.options.then))
        if before is not None and before <= self.now:
            return PodEffect(Effect.FINISHED, "it does not tolerate a NoExecute taint now either, and is about to go")
        if after is None or (before is not None and before <= after):
            return PodEffect(Effect.KEEPS_RUNNING, "it has its node and stays there")
        node, options = self.snapshot.find(Node, "", pod.spec.node_name), self.options.then.constraints
        taints = no_execute_taints(node) if node is not None else ()
        taint = tolerations.find_untolerated(taints, pod.spec.tolerations, options)
        what = f" {{{taint.key}: {taint.value}}}" if taint else ""
        when = "at once" if after <= self.now else f"at {after.isoformat(timespec='seconds')}"
        return PodEffect(Effect.EVICTED, f"it no longer tolerates the NoExecute taint{what} and is evicted {when}")

    def _eviction_time(self, pod: Pod, options: ConstraintOptions) -> datetime | None:
        moments = []
        node = self.snapshot.find(Node, "", pod.spec.node_name)
        bound = binding_time(pod)
        if node is not None:
            taints = no_execute_taints(node)
            moments.append(tolerations.eviction_time(taints, pod.spec.tolerations, bound, options, now=self.now))
        for key in claim_keys(pod):
            claim = self.snapshot.find(ResourceClaim, *key.split("/", 1))
            allocation = claim.status.allocation if claim is not None else None
            for result in allocation.devices.results if allocation is not None else ():
                device = self._device_taints.get((result.driver, result.pool, result.device), [])
                moments.append(
                    tolerations.device_eviction_time(device, result.tolerations, bound, options, now=self.now)
                )
        return min((moment for moment in moments if moment is not None), default=None)

    @cached_property
    def _device_taints(self) -> dict[tuple[str, str, str], list[DeviceTaint]]:
        found: dict[tuple[str, str, str], list[DeviceTaint]] = {}
        for each in self.snapshot.all(ResourceSlice):
            for device in each.spec.devices:
                key = (each.spec.driver, each.spec.pool.name, device.name)
                found.setdefault(key, []).extend(taint for taint in device.taints if taint.effect == NO_EXECUTE)
        for rule in self.snapshot.all(DeviceTaintRule):
            wanted = rule.spec.device_selector
            if wanted is None or rule.spec.taint.effect != NO_EXECUTE:
                continue
            for (driver, pool, name), taints in found.items():
                if wanted.driver in (None, driver) and wanted.pool in (None, pool) and wanted.device in (None, name):
                    taints.append(rule.spec.taint)
        return found

    def _effect_on_pending(self, pod: Pod) -> PodEffect:
        if pod.spec.scheduling_gates:
            return PodEffect(Effect.ALREADY_PENDING, "it waits for its scheduling gates")
        key = (pod.metadata.namespace, pod.metadata.name)
        before, after = (outcome.get(key) for outcome in self._scheduled_nodes)
        if after is None or before is None:
            return PodEffect(Effect.ALREADY_PENDING, f"it waits for the scheduler {pod.spec.scheduler_name}")
        if not after:
            return PodEffect(Effect.STILL_SCHEDULABLE, "there is a node for it all the same")
        if not before:
            return PodEffect(Effect.STUCK_PENDING, f"no node is left for it: {after}")
        if self._has_eligible_node(pod, self.options.now) and not self._has_eligible_node(pod, self.options.then):
            return PodEffect(Effect.STUCK_PENDING, f"it waits now for room, and then no node is left for it: {after}")
        return PodEffect(Effect.ALREADY_PENDING, f"it finds no node now either: {before}")

    @cached_property
    def _scheduled_nodes(self) -> tuple[dict[Key, str], dict[Key, str]]:
        before = self._schedule_pending_pods(self.options.now)
        return before, before if self._has_same_rules else self._schedule_pending_pods(self.options.then)

    def _schedule_pending_pods(self, side: ResolvedFlags) -> dict[Key, str]:
        made = engine(self.snapshot, profiles=self.profiles, features=side.features)
        waiting = [
            pod
            for pod in self.snapshot.all(Pod)
            if pod.metadata.uid and needs_node(pod) and not pod.spec.scheduling_gates
        ]
        waiting.sort(key=lambda pod: (-priority(pod), pod.metadata.creation_timestamp or ""))
        outcomes: dict[Key, str] = {}
        for pod in waiting:
            try:
                outcome = made.schedule(pod)
            except UnknownSchedulerError:
                continue
            node = outcome.node
            if node is not None:
                made.assume(pod, node)
            else:
                node = made.post_filter(outcome).nominated
            key = (pod.metadata.namespace, pod.metadata.name)
            outcomes[key] = "" if node is not None else outcome.message or "no node fits"
        return outcomes

    def _has_eligible_node(self, pod: Pod, side: ResolvedFlags) -> bool:
        required = node_selector.required_affinity(pod.spec, side.constraints)
        index = tolerations.index_tolerations(pod.spec.tolerations, side.constraints)
        return any(
            required.matches(node.metadata.labels, node.metadata.name)
            and index.find_untolerated(node.spec.taints) is None
            for node in self.snapshot.all(Node)
        )
