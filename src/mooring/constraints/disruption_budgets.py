"""What a PodDisruptionBudget means: which pods it chooses, how many must stay healthy, and how many may go.

The disruption controller and simulations count by it, `pods/eviction` and draining refuse in its words, and preemption
asks which pods a budget chooses. Where the pods and their owners are found is the callers' matter.
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
    """Chooses pods of the budget's namespace by their labels; one that cannot be understood chooses none."""
    try:
        return label_selector.from_label_selector(budget.spec.selector)
    except label_selector.SelectorError:
        return _NOTHING


def selects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    """Whether the budget is about a pod of its namespace."""
    selector, labels = budget.spec.selector, pod.metadata.labels
    if selector is None or any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False  # by far the most frequent answer, for which no selector need be made
    return not selector.match_expressions or selector_of(budget).matches(labels)


def is_healthy(pod: Pod) -> bool:
    """Whether a pod counts as one that is there."""
    return is_ready(pod) and pod.metadata.deletion_timestamp is None


def expected_and_desired(spec: PodDisruptionBudgetSpec, pods: int, scale: Callable[[], int]) -> tuple[int, int]:
    """How many pods there should be, and how many of them must stay healthy. Raises PercentError.

    `pods` is how many there are. `scale` says how many their owners want; it is asked where the budget is a share.
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
    """How many pods may go now."""
    return max(healthy - desired, 0) if expected else 0


def exhausted(budget: str, desired: int, healthy: int) -> str:
    """Why no pod of a budget may go."""
    return f"The disruption budget {budget} needs {desired} healthy pods and has {healthy} currently"
