"""policy/v1: how many pods may be disrupted at a time, and the request to evict one.

The disruption controller keeps the budgets; the `pods/eviction` subresource asks them. Read next: ``apps_v1.py``.
"""

from typing import Annotated

from mooring.api.base import Int32, Int64, IntOrString, Merge, Object, always, list_map
from mooring.api.meta_v1 import Condition, DeleteOptions, LabelSelector, Resource


class PodDisruptionBudgetSpec(Object):
    """The number of pods that must stay available during disruptions."""

    min_available: IntOrString | None = None
    """How many pods must stay available, as a number or a percentage."""
    selector: Annotated[LabelSelector | None, Merge("atomic", patch_strategies=("replace",))] = None
    """Finds the pods: an empty selector finds all of the namespace, a missing one finds none."""
    max_unavailable: IntOrString | None = None
    """How many pods may be unavailable, as a number or a percentage; not together with minAvailable."""
    unhealthy_pod_eviction_policy: str | None = None
    """IfHealthyBudget or AlwaysAllow: when running pods that are not ready may be evicted."""


class PodDisruptionBudgetStatus(Object):
    """The disruptions that a budget currently allows."""

    observed_generation: Int64 = 0
    disrupted_pods: dict[str, str] = {}
    """Pods whose eviction was granted and whose deletion was not seen yet, with the time of the eviction."""
    disruptions_allowed: Int32 = always(int)
    """How many pods may be disrupted now."""
    current_healthy: Int32 = always(int)
    desired_healthy: Int32 = always(int)
    """How many pods must stay healthy."""
    expected_pods: Int32 = always(int)
    """How many pods the budget counts."""
    conditions: Annotated[list[Condition], list_map("type")] = []
    """The conditions of the budget; DisruptionAllowed is true if an eviction would succeed."""


class PodDisruptionBudget(Resource):
    """Limits how many of a set of pods may be disrupted at a time."""

    spec: PodDisruptionBudgetSpec = always(PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = always(PodDisruptionBudgetStatus)


class Eviction(Resource):
    """Asks for the deletion of a pod, as far as the disruption budgets allow it."""

    delete_options: DeleteOptions | None = None
