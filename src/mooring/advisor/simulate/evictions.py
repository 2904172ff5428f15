"""Evictions: NoExecute taints in virtual time, and drains that respect PodDisruptionBudgets."""

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec import structs

from mooring.advisor.simulate.pods import SimulatedPod
from mooring.api.core_v1 import Node, Taint
from mooring.api.int_or_string import PercentError
from mooring.api.label_selector import Selector
from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.constraints import disruption_budgets
from mooring.constraints.tolerations import NO_EXECUTE, eviction_time
from mooring.controllers.taint_eviction import binding_time
from mooring.scheduler.facade import Engine

if TYPE_CHECKING:
    from mooring.advisor.simulate.world import World

DRAIN_RETRY = 5.0
"""Seconds that `kubectl drain` waits before it retries a refused eviction."""
_MIRROR = "kubernetes.io/config.mirror"


class TaintEvictions:
    """Evicts pods from nodes with NoExecute taints that they do not tolerate, or whose toleration time ends."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._taints: dict[str, list[Taint]] = {}
        self._agenda: list[tuple[float, int, SimulatedPod, str]] = []
        self._order = 0

    def next_due(self) -> float | None:
        """Return the time of the next taint eviction, in seconds since the start; None if none is scheduled."""
        while self._agenda:
            due, _, pod, node = self._agenda[0]
            if pod.node == node:
                return due
            heapq.heappop(self._agenda)
        return None

    def node_changed(self, node: Node) -> None:
        name = node.metadata.name
        taints = [taint for taint in node.spec.taints if taint.effect == NO_EXECUTE]
        if taints == self._taints.get(name, []):
            return
        self._taints[name] = taints
        for pod in self._world.pods_on(name):
            self.schedule_eviction(pod)

    def schedule_eviction(self, pod: SimulatedPod) -> None:
        """Schedule the eviction of a pod from its node, if a NoExecute taint of the node requires it."""
        due = self._eviction_time(pod)
        if due is not None:
            self._order += 1
            heapq.heappush(self._agenda, (due, self._order, pod, pod.node))

    def run(self) -> None:
        """Evict the pods whose scheduled eviction time is not after the current time."""
        now = self._world.clock.monotonic()
        while self._agenda and self._agenda[0][0] <= now:
            _, _, pod, node = heapq.heappop(self._agenda)
            due = self._eviction_time(pod) if pod.node == node else None
            if due is not None and due <= now:  # the taint may have gone meanwhile
                taints = ", ".join(format_taint(taint) for taint in self._taints[node])
                self._world.evict(pod, f"NoExecute taint {taints}")

    def _eviction_time(self, pod: SimulatedPod) -> float | None:
        taints = self._taints.get(pod.node)
        if not taints:
            return None
        clock = self._world.clock
        bound = binding_time(pod.pod) if pod.placed_at is None else clock.start + timedelta(seconds=pod.placed_at)
        options = self._world.settings.features.constraints
        moment = eviction_time(taints, pod.pod.spec.tolerations, bound, options, now=clock.now())
        if moment is None:
            return None
        # timeAdded has whole seconds: round up, so that no pod is evicted early.
        return max(float(math.ceil((moment - clock.start).total_seconds())), clock.monotonic())


class Drains:
    """The nodes that are being drained."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._nodes: dict[str, None] = {}
        self._tried_at_revision = -1
        self._next: float | None = None
        self.refused: dict[str, tuple[SimulatedPod, str]] = {}
        """Pods that may not be evicted yet, with the reason."""

    def begin(self, node: str) -> None:
        self._nodes[node] = None
        self.run()

    def end(self, node: str) -> None:
        """Stop draining a node that was removed or uncordoned."""
        self._nodes.pop(node, None)

    def next_due(self) -> float | None:
        """Return when to retry refused evictions; None if there are none, or nothing has changed since the last try."""
        if not self.refused or self._world.revision == self._tried_at_revision:
            return None
        return self._next

    def run(self) -> None:
        """Evict the pods of the nodes that are being drained; list pods that budgets protect in `refused`."""
        self.refused = {}
        for node in self._nodes:
            for pod in self._world.pods_on(node):
                if not is_drainable(pod):
                    continue
                why = self._world.budgets.eviction_problem(pod)
                if why:
                    self.refused[pod.key] = (pod, why)
                else:
                    self._world.evict(pod, "drained")
        self._tried_at_revision = self._world.revision
        self._next = self._world.clock.monotonic() + DRAIN_RETRY


def is_drainable(pod: SimulatedPod) -> bool:
    """Return whether a drain evicts a pod; it skips pods of DaemonSets and static pods."""
    return not pod.is_daemon and _MIRROR not in pod.pod.metadata.annotations


def format_taint(taint: Taint) -> str:
    return f"{taint.key}={taint.value}" if taint.value else taint.key


@dataclass(slots=True)
class _CountedBudget:
    budget: PodDisruptionBudget
    selector: Selector
    pods: dict[int, SimulatedPod] = field(default_factory=dict)
    healthy: int = 0
    is_stale: bool = True


class Budgets:
    """Count the healthy pods of PodDisruptionBudgets, as the disruption controller does."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._all: dict[tuple[str, str], _CountedBudget] = {}
        self._by_label: dict[tuple[str, str, str], dict[str, _CountedBudget]] = {}
        """Budgets by namespace and by a label that their selector requires, by name."""

    def put(self, budget: PodDisruptionBudget, pods: Iterable[SimulatedPod] = ()) -> None:
        """Add or replace a budget, and count the pods that it selects."""
        self.remove(budget)
        meta = budget.metadata
        entry = _CountedBudget(budget, disruption_budgets.selector_of(budget))
        self._all[meta.namespace, meta.name] = entry
        self._by_label.setdefault((meta.namespace, *_required_label(entry.selector)), {})[meta.name] = entry
        for pod in pods:
            if pod.pod.metadata.namespace == meta.namespace and entry.selector.matches(pod.pod.metadata.labels):
                entry.pods[id(pod)] = pod
                entry.healthy += pod.is_healthy

    def remove(self, budget: PodDisruptionBudget) -> None:
        meta = budget.metadata
        entry = self._all.pop((meta.namespace, meta.name), None)
        if entry is not None:
            del self._by_label[meta.namespace, *_required_label(entry.selector)][meta.name]

    def add_pod(self, pod: SimulatedPod) -> None:
        """Add a created pod to the budgets that select it; count it as healthy if it is."""
        for entry in self.budgets_of(pod):
            entry.pods[id(pod)] = pod
            entry.healthy += pod.is_healthy
            entry.is_stale = True

    def count_healthy(self, pod: SimulatedPod) -> None:
        """Count one more healthy pod in the budgets that select a pod, which just became ready on its node."""
        for entry in self.budgets_of(pod):
            entry.healthy += 1
            entry.is_stale = True

    def remove_pod(self, pod: SimulatedPod, *, was_healthy: bool) -> None:
        for entry in self.budgets_of(pod):
            entry.pods.pop(id(pod), None)
            entry.healthy -= was_healthy
            entry.is_stale = True

    def budgets_of(self, pod: SimulatedPod) -> list[_CountedBudget]:
        """Return the budgets that select a pod."""
        if not self._all:
            return []
        namespace, labels = pod.pod.metadata.namespace, pod.pod.metadata.labels
        found = [self._by_label.get((namespace, *label)) for label in (("", ""), *labels.items())]
        return [entry for part in found if part for entry in part.values() if entry.selector.matches(labels)]

    def eviction_problem(self, pod: SimulatedPod) -> str:
        """Return the API server's message if a pod may not be evicted; otherwise empty."""
        found = self.budgets_of(pod)
        is_starting = pod.placed_at is None and not pod.is_ready and pod.pod.status.phase == "Pending"
        if not found or not pod.node or is_starting:  # the API server evicts what does not run whatever budgets say
            return ""
        if len(found) > 1:
            return disruption_budgets.TOO_MANY_BUDGETS
        entry = found[0]
        expected, desired = _expected_and_desired(entry)
        if not pod.is_ready:
            always = entry.budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"
            if always or (entry.healthy >= desired > 0):
                return ""
        if disruption_budgets.disruptions_allowed(entry.healthy, expected, desired) > 0:
            return ""
        why = disruption_budgets.describe_exhausted(entry.budget.metadata.name, desired, entry.healthy)
        return f"{disruption_budgets.VIOLATED} {why}"

    def sync(self) -> None:
        """Write the allowed disruptions of changed budgets into the scheduler's engine, for preemption."""
        for entry in self._all.values():
            if not entry.is_stale:
                continue
            entry.is_stale = False
            expected, desired = _expected_and_desired(entry)
            status = structs.replace(
                entry.budget.status,
                disruptions_allowed=disruption_budgets.disruptions_allowed(entry.healthy, expected, desired),
                current_healthy=entry.healthy,
                desired_healthy=desired,
                expected_pods=expected,
                disrupted_pods={},
            )
            if status != entry.budget.status:
                entry.budget = structs.replace(entry.budget, status=status)
                self._engine.put(entry.budget)


def _required_label(selector: Selector) -> tuple[str, str]:
    """Return a label that all selected pods have; empty if the selector requires none."""
    for requirement in selector.requirements:
        if (value := selector.requires_exactly(requirement.key)) is not None:
            return requirement.key, value
    return "", ""


def _expected_and_desired(entry: _CountedBudget) -> tuple[int, int]:
    owners = [pod.owner for pod in entry.pods.values()]

    def sum_replicas() -> int:
        replicas = {owner.display_name: owner.desired for owner in owners if owner is not None}
        return 0 if None in owners else sum(replicas.values())

    try:
        return disruption_budgets.expected_and_desired(entry.budget.spec, len(entry.pods), sum_replicas)
    except PercentError:
        return 0, 0
