"""PodDisruptionBudgets: how many of their pods are healthy, counted as pods come and go.

The numbers are those of the disruption controller; preemption reads them in the engine, draining asks here.
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
        """A budget is new or has changed; `pods` are all of its namespace."""
        meta = budget.metadata
        entry = _Counted(budget, disruption_budgets.selector_of(budget))
        self._by_namespace.setdefault(meta.namespace, {})[meta.name] = entry
        for pod in pods:
            if entry.selector.matches(pod.pod.metadata.labels):
                entry.pods[id(pod)] = pod
                entry.healthy += pod.is_healthy

    def remove(self, budget: PodDisruptionBudget) -> None:
        self._by_namespace.get(budget.metadata.namespace, {}).pop(budget.metadata.name, None)

    # -- pods

    def came(self, pod: SimulatedPod) -> None:
        """A pod was created."""
        for entry in self.of(pod):
            entry.pods[id(pod)] = pod
            entry.healthy += pod.is_healthy
            entry.is_stale = True

    def placed(self, pod: SimulatedPod) -> None:
        """A pod that was waiting has got its node, and runs."""
        for entry in self.of(pod):
            entry.healthy += 1
            entry.is_stale = True

    def left(self, pod: SimulatedPod, *, was_healthy: bool) -> None:
        for entry in self.of(pod):
            entry.pods.pop(id(pod), None)
            entry.healthy -= was_healthy
            entry.is_stale = True

    def of(self, pod: SimulatedPod) -> list[_Counted]:
        """The budgets that are about a pod."""
        found = self._by_namespace.get(pod.pod.metadata.namespace)
        if not found:
            return []
        labels = pod.pod.metadata.labels
        return [entry for entry in found.values() if entry.selector.matches(labels)]

    # -- what they allow

    def refusal(self, pod: SimulatedPod) -> str:
        """Why a pod may not be evicted, in the API server's words; empty when it may."""
        found = self.of(pod)
        if not found or not pod.is_healthy:  # pods that do not run disrupt nobody
            return ""
        if len(found) > 1:
            return disruption_budgets.TOO_MANY_BUDGETS
        entry = found[0]
        expected, desired = _wanted(entry)
        if disruption_budgets.disruptions_allowed(entry.healthy, expected, desired) > 0:
            return ""
        why = disruption_budgets.exhausted(entry.budget.metadata.name, desired, entry.healthy)
        return f"{disruption_budgets.VIOLATED} {why}"

    def sync(self) -> None:
        """Write the numbers to where preemption looks."""
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
    """How many pods there should be, and how many of them must stay healthy."""
    try:
        return disruption_budgets.expected_and_desired(entry.budget.spec, len(entry.pods), lambda: _scale(entry))
    except PercentError:
        return 0, 0


def _scale(entry: _Counted) -> int:
    """How many pods the owners want; 0 when a pod has none, because then nobody can tell."""
    owners = {pod.owner.told: pod.owner.desired for pod in entry.pods.values() if pod.owner is not None}
    if any(pod.owner is None for pod in entry.pods.values()):
        return 0
    return sum(owners.values())
