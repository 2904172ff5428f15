"""Delete objects that have expired: finished Jobs, certificate requests, bootstrap tokens and events."""

from abc import abstractmethod
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from mooring.api import bootstrap_tokens, times
from mooring.api.batch_v1 import Job
from mooring.api.certificates_v1 import APPROVED, DENIED, FAILED, CertificateSigningRequest
from mooring.api.core_v1 import Event, Secret
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import Resource
from mooring.base import logs
from mooring.client import ClientError, Informer
from mooring.controllers.controller import Context, Controller
from mooring.controllers.workloads import job

T = TypeVar("T", bound=Resource)
EVENT_TTL = timedelta(hours=1)
PERIOD_SECONDS = 300.0
_PAGE = 500
_DECIDED_SECONDS = 3600
_PENDING_SECONDS = 24 * 3600
log = logs.get(__name__)


class Expiry(Controller, Generic[T]):
    """Deletes the objects of an informer when they expire. Subclasses compute the time."""

    propagation_policy: str | None = None

    def __init__(self, context: Context, objects: Informer[T]) -> None:
        super().__init__(context)
        self._objects = objects
        self.follow(objects, self._changed)

    @abstractmethod
    def expires_at(self, obj: T) -> datetime | None:
        """Return when to delete an object; None if that is not known yet."""

    def _changed(self, obj: T) -> None:
        if self.expires_at(obj) is not None:
            self.enqueue(obj)

    async def reconcile(self, key: str) -> float | None:
        obj = self._objects.by_key(key)
        end = self.expires_at(obj) if obj is not None and obj.metadata.deletion_timestamp is None else None
        if obj is None or end is None:
            return None
        left = (end - self.clock.now()).total_seconds()
        if left > 0:
            return left
        version = obj.metadata.resource_version  # a client may have changed the time since
        await self.delete(obj, resource_version=version, propagation_policy=self.propagation_policy)
        return None


class JobExpiry(Expiry[Job]):
    """Delete finished Jobs after `ttlSecondsAfterFinished`, with their dependents."""

    name = "ttl-after-finished"
    propagation_policy = "Foreground"

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.informers.of(Job))

    def expires_at(self, obj: Job) -> datetime | None:
        ttl = obj.spec.ttl_seconds_after_finished
        for each in obj.status.conditions if ttl is not None else ():
            if each.type in (job.COMPLETE, job.FAILED) and each.status == "True" and each.last_transition_time:
                return times.add_seconds(times.parse(each.last_transition_time), ttl or 0)
        return None


class CertificateRequestExpiry(Expiry[CertificateSigningRequest]):
    """Delete CertificateSigningRequests an hour after the decision, or a day after creation without one."""

    name = "certificatesigningrequest-cleaner"

    def __init__(self, context: Context) -> None:
        super().__init__(context, context.informers.of(CertificateSigningRequest))

    def expires_at(self, obj: CertificateSigningRequest) -> datetime | None:
        pending = times.add_seconds(times.parse(obj.metadata.creation_timestamp or ""), _PENDING_SECONDS)
        decided = [
            times.add_seconds(times.parse(condition.last_update_time), _DECIDED_SECONDS)
            for condition in obj.status.conditions
            if condition.type in (APPROVED, DENIED, FAILED)
            and condition.last_update_time
            # approved, but not signed yet
            and (condition.type != APPROVED or obj.status.certificate)
        ]
        return min([pending, *decided])


class TokenExpiry(Expiry[Secret]):
    """Delete expired bootstrap tokens; the API server already refuses them."""

    name = "token-cleaner"

    def __init__(self, context: Context) -> None:
        selector = f"type={bootstrap_tokens.TYPE}"
        tokens = context.informers.of(Secret, bootstrap_tokens.NAMESPACE, field_selector=selector)
        super().__init__(context, tokens)

    def expires_at(self, obj: Secret) -> datetime | None:
        return bootstrap_tokens.expiration(obj)


class EventExpiry(Controller):
    """Delete events that are older than an hour, as etcd's leases do in Kubernetes.

    Events are listed page by page every few minutes; they are not cached.
    """

    name = "event-ttl"

    async def run(self) -> None:
        while True:
            await self.clock.sleep(PERIOD_SECONDS)
            try:
                await self.reconcile("")
            except (StatusError, ClientError) as error:
                log.info("old events stay a little longer: %s", error)

    async def reconcile(self, key: str) -> None:  # noqa: ARG002 - there is one thing to do
        limit = self.clock.now() - EVENT_TTL
        continue_ = ""
        while True:
            page = await self.client.page(Event, limit=_PAGE, continue_=continue_, managed_fields=False)
            for event in page.items:
                if last_seen(event) < limit:
                    await self.delete(event)
            if not page.continue_:
                return
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
