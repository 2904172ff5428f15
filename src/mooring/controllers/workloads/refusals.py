"""Back off from templates that the server rejects (5471.12).

Templates of pods, Jobs, ReplicaSets or ResourceClaims. After a rejection nothing of that template is created for a
while, doubling up to five minutes, whatever else happens to the workload; another template is tried at once.
"""

import msgspec
from msgspec import Struct

from mooring.api import errors
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import Resource
from mooring.controllers.controller import Context

_NOT_THE_TEMPLATE = errors.Unauthorized | errors.AlreadyExists | errors.Conflict | errors.TooManyRequests


class Refusal(msgspec.Struct, frozen=True):
    """The last rejection of a template."""

    template: Struct
    error: StatusError
    failures: int
    until: float


class Refusals:
    """The rejections of one controller's workloads."""

    def __init__(self, context: Context, controller: str) -> None:
        self._clock = context.clock
        self._backoff = context.options.rejection_backoff
        self._found: dict[str, Refusal] = {}
        self._rejected = context.metrics.rejected_creates.labels(controller)
        self._held = context.metrics.held_creates.labels(controller)

    def held(self, owner: Resource, template: Struct) -> tuple[StatusError, float] | None:
        """Return why, and for how many seconds, the template must wait; None if it need not."""
        found = self._found.get(owner.metadata.uid)
        left = found.until - self._clock.monotonic() if found is not None else 0.0
        if found is None or left <= 0 or found.template != template:
            return None
        self._held.inc()
        return found.error, left

    def refused(self, owner: Resource, template: Struct, error: StatusError) -> float | None:
        """Record a rejection; return in how many seconds to retry, None if the template is not the cause."""
        if error.status.code >= 500 or isinstance(error, _NOT_THE_TEMPLATE):
            return None
        self._rejected.inc()
        if self._backoff.maximum <= 0:
            return None
        before = self._found.get(owner.metadata.uid)
        failures = 1 + (before.failures if before is not None and before.template == template else 0)
        wait = self._backoff.delay(failures)
        self._found[owner.metadata.uid] = Refusal(template, error, failures, self._clock.monotonic() + wait)
        return wait

    def forget(self, owner: Resource) -> None:
        """Clear after a success, or when the workload is gone."""
        self._found.pop(owner.metadata.uid, None)

    @property
    def longest(self) -> float:
        return self._backoff.maximum
