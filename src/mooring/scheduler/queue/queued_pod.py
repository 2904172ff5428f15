"""A pod in the queue, with what happened to it so far."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from mooring.api.core_v1 import Pod
from mooring.scheduler.columns.cluster import pod_key

NO_PLUGINS: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class QueuedPod:
    """One entry, from the pod's creation until it is bound or deleted. Times are monotonic."""

    pod: Pod
    profile: str
    queued_at: float
    """When it last came into the queue: what its turn and its backoff are counted from."""
    first_tried_at: float | None = None
    attempts: int = 0
    refusals: int = 0
    """How often it was refused; its backoff grows with them ..."""
    errors: int = 0
    """... or, while something goes wrong again and again, with these."""
    refused_by: frozenset[str] = NO_PLUGINS
    """The plugins that refused it in the last attempt: only what concerns them can help."""
    waits_for: frozenset[str] = NO_PLUGINS
    """Those of them that wait for something outside; when it happens, there is no backoff."""
    gated_by: str = ""
    """The plugin that does not let it become active."""
    is_held: bool = False
    """Whether that is because victims are being deleted for it."""
    likeness: Hashable = None
    """Which pods its last attempt could not tell from it (`SignatureTable.likeness`); None before the first."""
    key: str = field(init=False)
    """The same for all versions of the pod."""

    def __post_init__(self) -> None:
        self.key = pod_key(self.pod)

    @property
    def name(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"
