"""PodDisruptionBudget semantics: which pods it selects, how many must stay healthy, how many may be disrupted.

Used by the disruption controller, simulations, `pods/eviction`, draining and preemption. Callers look up the pods and
their owners.
"""

from collections.abc import Callable
from typing import Final

from mooring.api import label_selector
from mooring.api.core_v1 import Pod
from mooring.api.int_or_string import scaled_value
from mooring.api.label_selector import Selector
from mooring.api.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetSpec
from mooring.api.states import is_ready

VIOLATED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
TOO_MANY_BUDGETS: Final = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)
_NOTHING: Final = label_selector.from_label_selector(None)


def selector_of(budget: PodDisruptionBudget) -> Selector:
    """Return the budget's pod selector; an invalid one selects nothing."""
    try:
        return label_selector.from_label_selector(budget.spec.selector)
    except label_selector.SelectorError:
        return _NOTHING


def selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Whether the budget selects a pod of its namespace."""
    selector, labels = budget.spec.selector, pod.metadata.labels
    if selector is None or any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False  # the most frequent result, without building a selector
    return not selector.match_expressions or selector_of(budget).matches(labels)


def is_healthy(pod: Pod) -> bool:
    """Whether a pod counts as healthy: ready and not terminating."""
    return is_ready(pod) and pod.metadata.deletion_timestamp is None


def expected_and_desired(spec: PodDisruptionBudgetSpec, pods: int, scale: Callable[[], int]) -> tuple[int, int]:
    """Return the expected number of pods and how many of them must be healthy. Raise PercentError.

    `pods` is the number of existing pods. `scale` returns the replicas that their owners want; it is called only for
    budgets in percent or with maxUnavailable.
    """
    if spec.max_unavailable is not None:
        expected = scale()
        return expected, max(expected - scaled_value(spec.max_unavailable, expected, round_up=True), 0)
    if isinstance(spec.min_available, int):
        return pods, spec.min_available
    if spec.min_available is not None:
        expected = scale()
        return expected, scaled_value(spec.min_available, expected, round_up=True)
    return pods, 0


def disruptions_allowed(healthy: int, expected: int, desired: int) -> int:
    """Return how many pods may be disrupted now."""
    return max(healthy - desired, 0) if expected else 0


def describe_exhausted(budget: str, desired: int, healthy: int) -> str:
    """Format why no pod of a budget may be evicted."""
    return f"The disruption budget {budget} needs {desired} healthy pods and has {healthy} currently"
