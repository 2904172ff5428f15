"""What the server has refused to create of a template, and until when it is left alone (5471.12).

A template is that of pods, Jobs, ReplicaSets or ResourceClaims, and its owner whoever has it. After a refusal nothing
of that template is tried for a while, twice as long each time up to five minutes, whatever else happens to the
workload; another template is tried at once.
"""

import msgspec
from msgspec import Struct

from mooring.api import errors
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import Resource
from mooring.controllers.controller import Context

_NOT_THE_TEMPLATE = errors.Unauthorized | errors.AlreadyExists | errors.Conflict | errors.TooManyRequests


class Refusal(msgspec.Struct, frozen=True):
    """The last refusal of a template."""

    template: Struct
    error: StatusError
    failures: int
    until: float


class Refusals:
    """The refusals that the workloads of one controller have met."""

    def __init__(self, context: Context, controller: str) -> None:
        self._clock = context.clock
        self._backoff = context.options.rejection_backoff
        self._found: dict[str, Refusal] = {}
        self._rejected = context.metrics.rejected_creates.labels(controller)
        self._held = context.metrics.held_creates.labels(controller)

    def held(self, owner: Resource, template: Struct) -> tuple[StatusError, float] | None:
        """Why the template is not to be tried now, and for how many seconds; None if it may be."""
        found = self._found.get(owner.metadata.uid)
        left = found.until - self._clock.monotonic() if found is not None else 0.0
        if found is None or left <= 0 or found.template != template:
            return None
        self._held.inc()
        return found.error, left

    def refused(self, owner: Resource, template: Struct, error: StatusError) -> float | None:
        """The server said no. In how many seconds to try again; None if that has nothing to do with the template."""
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
        """Something was created, or the workload is gone."""
        self._found.pop(owner.metadata.uid, None)

    @property
    def longest(self) -> float:
        return self._backoff.maximum
