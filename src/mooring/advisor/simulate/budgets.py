"""PodDisruptionBudgets: count healthy pods as pods are created and deleted.

The numbers are those of the disruption controller; preemption reads them from the engine, draining from here.
"""

from dataclasses import dataclass, field

from msgspec import structs

from mooring.advisor.simulate.pods import SimulatedPod
from mooring.api.int_or_string import PercentError
from mooring.api.label_selector import Selector
from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.constraints import disruption_budgets
from mooring.scheduler.facade import Engine


@dataclass(slots=True)
class _Counted:
    budget: PodDisruptionBudget
    selector: Selector
    pods: dict[int, SimulatedPod] = field(default_factory=dict)
    """Its pods, by identity."""
    healthy: int = 0
    is_stale: bool = True


class Budgets:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._by_namespace: dict[str, dict[str, _Counted]] = {}

    def __bool__(self) -> bool:
        return any(self._by_namespace.values())

    def put(self, budget: PodDisruptionBudget, pods: list[SimulatedPod]) -> None:
        """Add or replace a budget; `pods` are all pods of its namespace."""
        meta = budget.metadata
        entry = _Counted(budget, disruption_budgets.selector_of(budget))
        self._by_namespace.setdefault(meta.namespace, {})[meta.name] = entry
        for pod in pods:
            if entry.selector.matches(pod.pod.metadata.labels):
                entry.pods[id(pod)] = pod
                entry.healthy += pod.is_healthy

    def remove(self, budget: PodDisruptionBudget) -> None:
        self._by_namespace.get(budget.metadata.namespace, {}).pop(budget.metadata.name, None)

    def add_pod(self, pod: SimulatedPod) -> None:
        """Count a created pod."""
        for entry in self.of(pod):
            entry.pods[id(pod)] = pod
            entry.healthy += pod.is_healthy
            entry.is_stale = True

    def placed(self, pod: SimulatedPod) -> None:
        """Count a pod that became healthy on its node."""
        for entry in self.of(pod):
            entry.healthy += 1
            entry.is_stale = True

    def remove_pod(self, pod: SimulatedPod, *, was_healthy: bool) -> None:
        for entry in self.of(pod):
            entry.pods.pop(id(pod), None)
            entry.healthy -= was_healthy
            entry.is_stale = True

    def of(self, pod: SimulatedPod) -> list[_Counted]:
        """Return the budgets that select a pod."""
        found = self._by_namespace.get(pod.pod.metadata.namespace)
        if not found:
            return []
        labels = pod.pod.metadata.labels
        return [entry for entry in found.values() if entry.selector.matches(labels)]

    def eviction_problem(self, pod: SimulatedPod) -> str:
        """Return the API server's message if a pod may not be evicted; otherwise empty."""
        found = self.of(pod)
        if not found or not pod.node:  # a pod without a node disrupts nothing
            return ""
        if len(found) > 1:
            return disruption_budgets.TOO_MANY_BUDGETS
        entry = found[0]
        expected, desired = _wanted(entry)
        if not pod.is_ready:
            always = entry.budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"
            if always or (entry.healthy >= desired > 0):
                return ""
        if disruption_budgets.disruptions_allowed(entry.healthy, expected, desired) > 0:
            return ""
        why = disruption_budgets.describe_exhausted(entry.budget.metadata.name, desired, entry.healthy)
        return f"{disruption_budgets.VIOLATED} {why}"

    def sync(self) -> None:
        """Write the numbers to the engine, for preemption."""
        for found in self._by_namespace.values():
            for entry in found.values():
                if not entry.is_stale:
                    continue
                entry.is_stale = False
                expected, desired = _wanted(entry)
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


def _wanted(entry: _Counted) -> tuple[int, int]:
    try:
        return disruption_budgets.expected_and_desired(entry.budget.spec, len(entry.pods), lambda: _scale(entry))
    except PercentError:
        return 0, 0


def _scale(entry: _Counted) -> int:
    owners = {pod.owner.display_name: pod.owner.desired for pod in entry.pods.values() if pod.owner is not None}
    if any(pod.owner is None for pod in entry.pods.values()):
        return 0
    return sum(owners.values())
