"""Disruption budgets in preemption: the pods of a node whose eviction would violate a budget."""

from collections.abc import Hashable, Iterable, Sequence

from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.constraints import disruption_budgets
from mooring.scheduler.columns.cluster import PlacedPod


class Budgets:
    """The PodDisruptionBudgets of a cluster. The budgets of pods with the same labels are looked up once."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._budgets = list(budgets)
        self._selectors = [disruption_budgets.selector_of(budget) for budget in self._budgets]
        self._known: dict[Hashable, list[int]] = {}
        self.name_pods = any(budget.status.disrupted_pods for budget in self._budgets)
        """Whether a budget's status lists pods by name as disrupted already."""

    def __len__(self) -> int:
        return len(self._budgets)

    def split(self, pods: Sequence[PlacedPod]) -> tuple[list[int], list[int]]:
        """Return the indexes of the pods whose eviction would violate a budget, and of the other pods."""
        left: dict[int, int] = {}
        violating: list[int] = []
        others: list[int] = []
        for index, placed in enumerate(pods):
            exhausted = False
            for number in self._protecting(placed):
                budget = self._budgets[number]
                if placed.pod.metadata.name in budget.status.disrupted_pods:
                    continue
                left[number] = left.get(number, budget.status.disruptions_allowed) - 1
                exhausted = exhausted or left[number] < 0
            (violating if exhausted else others).append(index)
        return violating, others

    def _protecting(self, placed: PlacedPod) -> list[int]:
        found = self._known.get(placed.group)
        if found is None:
            metadata = placed.pod.metadata
            found = self._known[placed.group] = [
                number
                for number, (budget, selector) in enumerate(zip(self._budgets, self._selectors, strict=True))
                if budget.metadata.namespace == metadata.namespace
                and metadata.labels
                and not selector.is_empty()
                and selector.matches(metadata.labels)
            ]
        return found
