"""A pod in the scheduling queue, with the history of its attempts."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from mooring.api.core_v1 import Pod
from mooring.scheduler.columns.cluster import pod_key

NO_PLUGINS: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class QueuedPod:
    """The queue entry of a pod, from its creation until it is bound or deleted. Times are on the monotonic clock."""

    pod: Pod
    profile: str
    queued_at: float
    """When the pod last entered the queue; its order and its backoff depend on it."""
    first_tried_at: float | None = None
    attempts: int = 0
    refusals: int = 0
    """The number of rejections in a row, which determines the backoff."""
    errors: int = 0
    """The number of internal errors in a row, which determines the backoff instead of `refusals` while errors occur."""
    refused_by: frozenset[str] = NO_PLUGINS
    """The plugins that rejected the pod in its last attempt; only events that concern one of them can help."""
    waits_for: frozenset[str] = NO_PLUGINS
    """The plugins among `refused_by` that wait for an external event, after which there is no backoff."""
    gated_by: str = ""
    """The PreEnqueue plugin that keeps the pod out of the active pool; empty if none."""
    is_held: bool = False
    """Whether the pod is kept out because its victims are still being deleted."""
    template_key: Hashable = None
    """A key equal for pods that the last attempt could not distinguish; None before the first attempt."""
    key: str = field(init=False)
    """The pod key, which is equal for all versions of the pod."""

    def __post_init__(self) -> None:
        self.key = pod_key(self.pod)

    @property
    def name(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"
