"""Write the status of PodDisruptionBudgets: healthy pods, and the number of allowed disruptions.

The server's `pods/eviction` decrements that number. An evicted pod stays in `disruptedPods` until it is terminating, or
for two minutes, so that it does not count as healthy meanwhile.
"""

from datetime import datetime
from typing import Any

from msgspec import structs

from mooring.api import times
from mooring.api.apps_v1 import Deployment, ReplicaSet, StatefulSet
from mooring.api.core_v1 import Pod, ReplicationController
from mooring.api.int_or_string import PercentError
from mooring.api.meta_v1 import Condition, OwnerReference
from mooring.api.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetStatus
from mooring.api.states import controller_of, has_ended
from mooring.client import Informer, key_of
from mooring.constraints import disruption_budgets
from mooring.controllers.conditions import build_condition
from mooring.controllers.controller import Context, Controller, index_by_namespace

DELETION_TIMEOUT_SECONDS = 120


class UnknownScaleError(ValueError):
    """The number of pods that a budget's owners should have is unknown; the message says why."""


class DisruptionBudgetController(Controller):
    """The controller of PodDisruptionBudgets; reconciles them by key."""

    name = "disruption"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._recorder = context.recorder("controllermanager")
        self._budgets: Informer[PodDisruptionBudget] = context.informers.of(PodDisruptionBudget)
        self._by_namespace = index_by_namespace(self._budgets)
        self._pods: Informer[Pod] = context.informers.of(Pod)
        self._pods_by_namespace = index_by_namespace(self._pods)
        self._replica_sets: Informer[ReplicaSet] = context.informers.of(ReplicaSet)
        self._scaled: dict[str, Informer[Any]] = {
            "Deployment": context.informers.of(Deployment),
            "ReplicaSet": self._replica_sets,
            "StatefulSet": context.informers.of(StatefulSet),
            "ReplicationController": context.informers.of(ReplicationController),
        }
        self.follow(self._budgets)
        self.follow(self._pods, self._enqueue_budgets_of_pod, deleted=True)
        for informer in self._scaled.values():
            informer.add_handler(updated=self._enqueue_budgets_if_scaled)

    def _enqueue_budgets_of_pod(self, pod: Pod) -> None:
        for budget in self._by_namespace.get(pod.metadata.namespace):
            if disruption_budgets.selects(budget, pod):
                self.enqueue(budget)

    def _enqueue_budgets_if_scaled(self, old: Any, new: Any) -> None:
        if old.spec.replicas != new.spec.replicas:
            for budget in self._by_namespace.get(new.metadata.namespace):
                self.enqueue(budget)

    async def reconcile(self, key: str) -> float | None:
        budget = self._budgets.by_key(key)
        if budget is None or budget.metadata.deletion_timestamp is not None:
            return None
        now = self.clock.now()
        namespace = self._pods_by_namespace.get(budget.metadata.namespace)
        pods = [pod for pod in namespace if not has_ended(pod) and disruption_budgets.selects(budget, pod)]
        disrupted, again = self._find_disrupted_pods(budget, pods, now)
        healthy = sum(disruption_budgets.is_healthy(pod) and pod.metadata.name not in disrupted for pod in pods)
        try:
            expected, desired = disruption_budgets.expected_and_desired(
                budget.spec, len(pods), lambda: self._count_desired_pods(pods)
            )
            problem = ""
        except (UnknownScaleError, PercentError) as error:
            expected, desired, problem = 0, 0, str(error)
            self._recorder.event(budget, "Warning", "CalculateExpectedPodCountFailed", problem)
        allowed = disruption_budgets.disruptions_allowed(healthy, expected, desired)
        status = PodDisruptionBudgetStatus(
            observed_generation=budget.metadata.generation,
            disrupted_pods=disrupted,
            disruptions_allowed=allowed,
            current_healthy=healthy,
            desired_healthy=desired,
            expected_pods=expected,
            conditions=[_build_condition(budget, allowed, problem, now)],
        )
        if status != budget.status:
            await self.client.update_status(structs.replace(budget, status=status))
        return again

    def _find_disrupted_pods(
        self, budget: PodDisruptionBudget, pods: list[Pod], now: datetime
    ) -> tuple[dict[str, str], float | None]:
        """Return eviction times of pods that do not terminate yet, by name, and the seconds until one expires."""
        by_name = {pod.metadata.name: pod for pod in pods}
        left: dict[str, str] = {}
        again: float | None = None
        for name, since in budget.status.disrupted_pods.items():
            pod = by_name.get(name)
            if pod is None or pod.metadata.deletion_timestamp is not None:
                continue
            remaining = (times.add_seconds(times.parse(since), DELETION_TIMEOUT_SECONDS) - now).total_seconds()
            if remaining <= 0:
                self._recorder.event(pod, "Warning", "NotDeleted", f"Pod was expected by PDB {key_of(budget)} to be "
                                     "deleted but it wasn't")  # fmt: skip
                continue
            left[name] = since
            again = min(remaining, again or remaining)
        return left, again

    def _count_desired_pods(self, pods: list[Pod]) -> int:
        replicas: dict[str, int] = {}
        for pod in pods:
            name = pod.metadata.name
            owner = controller_of(pod.metadata)
            if owner is None:
                raise UnknownScaleError(f'found no controllers for pod "{name}"')
            found = self._find_scaled_owner(owner, pod.metadata.namespace)
            above = controller_of(found.metadata) if isinstance(found, ReplicaSet) else None
            if above is not None:
                found = self._find_scaled_owner(above, pod.metadata.namespace) or found
            if found is None:
                raise UnknownScaleError(f'found no controllers for pod "{name}"')
            wanted = found.spec.replicas
            replicas[found.metadata.uid] = 1 if wanted is None else wanted
        return sum(replicas.values())

    def _find_scaled_owner(self, owner: OwnerReference, namespace: str) -> Any:
        informer = self._scaled.get(owner.kind)
        found = informer.get(owner.name, namespace) if informer is not None else None
        return found if found is not None and found.metadata.uid == owner.uid else None


def _build_condition(budget: PodDisruptionBudget, allowed: int, problem: str, now: datetime) -> Condition:
    reason = "SyncFailed" if problem else ("SufficientPods" if allowed else "InsufficientPods")
    content = ("DisruptionAllowed", "True" if allowed else "False", reason, problem)
    seen = budget.metadata.generation
    return build_condition(
        Condition, budget.status.conditions, content, times.to_seconds(now), observed_generation=seen
    )
