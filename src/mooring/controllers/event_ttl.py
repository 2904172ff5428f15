"""Delete events that are older than an hour, as etcd's leases do in Kubernetes.

Events are listed page by page every few minutes; they are not cached.
"""

from contextlib import suppress
from datetime import datetime, timedelta

from mooring.api import errors, times
from mooring.api.core_v1 import Event
from mooring.api.errors import StatusError
from mooring.base import logs
from mooring.client import ClientError
from mooring.controllers.controller import Controller

TTL = timedelta(hours=1)
PERIOD_SECONDS = 300.0
_PAGE = 500
log = logs.get(__name__)


class EventTtl(Controller):
    """Delete old events in one pass."""

    name = "event-ttl"

    async def run(self) -> None:
        while True:
            await self.clock.sleep(PERIOD_SECONDS)
            try:
                await self.reconcile("")
            except (StatusError, ClientError) as error:
                log.info("old events stay a little longer: %s", error)

    async def reconcile(self, key: str) -> float | None:  # noqa: ARG002 - there is one thing to do
        limit = self.clock.now() - TTL
        continue_ = ""
        while True:
            page = await self.client.page(Event, limit=_PAGE, continue_=continue_, managed_fields=False)
            for event in page.items:
                if last_seen(event) < limit:
                    with suppress(errors.NotFound):
                        await self.client.delete(Event, event.metadata.name, event.metadata.namespace)
            if not page.continue_:
                return None
            continue_ = page.continue_


def last_seen(event: Event) -> datetime:
    """Return when the event last occurred."""
    moments = [
        event.series.last_observed_time if event.series is not None else None,
        event.last_timestamp,
        event.event_time,
        event.metadata.creation_timestamp,
    ]
    return max(times.parse(moment) for moment in moments if moment)
