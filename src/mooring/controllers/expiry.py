"""Delete expired objects: finished Jobs, certificate requests, bootstrap tokens. Events expire in the server."""

from abc import abstractmethod
from datetime import datetime
from typing import Any, Generic, TypeVar

from mooring.api import bootstrap_tokens, times
from mooring.api.batch_v1 import Job
from mooring.api.certificates_v1 import APPROVED, DENIED, FAILED, CertificateSigningRequest
from mooring.api.core_v1 import Secret
from mooring.api.meta_v1 import Resource
from mooring.client import Informer
from mooring.controllers.controller import Context, Controller
from mooring.controllers.workloads import job

T = TypeVar("T", bound=Resource)
_DECIDED_SECONDS = 3600
_PENDING_SECONDS = 24 * 3600


class ExpiryController(Controller, Generic[T]):
    """The base of controllers that delete objects when they expire; subclasses implement `expires_at`."""

    propagation_policy: str | None = None

    def __init__(self, context: Context, cls: type[T], **selection: Any) -> None:
        super().__init__(context)
        self._objects: Informer[T] = context.informers.of(cls, **selection)
        self.follow(self._objects, self._enqueue_expiring)

    @abstractmethod
    def expires_at(self, obj: T) -> datetime | None:
        """Return when an object expires and is deleted; None if never, or if that is not known yet."""

    def _enqueue_expiring(self, obj: T) -> None:
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


class JobExpiryController(ExpiryController[Job]):
    """Delete finished Jobs after `ttlSecondsAfterFinished`, with their dependents."""

    name = "ttl-after-finished"
    propagation_policy = "Foreground"

    def __init__(self, context: Context) -> None:
        super().__init__(context, Job)

    def expires_at(self, obj: Job) -> datetime | None:
        ttl = obj.spec.ttl_seconds_after_finished
        for each in obj.status.conditions if ttl is not None else ():
            if each.type in (job.COMPLETE, job.FAILED) and each.status == "True" and each.last_transition_time:
                return times.add_seconds(times.parse(each.last_transition_time), ttl or 0)
        return None


class CertificateRequestExpiryController(ExpiryController[CertificateSigningRequest]):
    """Delete CertificateSigningRequests an hour after the decision, or a day after creation without one."""

    name = "certificatesigningrequest-cleaner"

    def __init__(self, context: Context) -> None:
        super().__init__(context, CertificateSigningRequest)

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


class TokenExpiryController(ExpiryController[Secret]):
    """Delete expired bootstrap tokens; the API server already refuses them."""

    name = "token-cleaner"

    def __init__(self, context: Context) -> None:
        selector = f"type={bootstrap_tokens.TYPE}"
        super().__init__(context, Secret, namespace=bootstrap_tokens.NAMESPACE, field_selector=selector)

    def expires_at(self, obj: Secret) -> datetime | None:
        return bootstrap_tokens.expiration(obj)
