"""Create and delete the pods of a workload, with backoff when the server rejects them (5471.12).

Pods are created in growing batches (1, 16, 256, …), so that a rejected template costs one request. One `FailedCreate`
event records it. `TemplateRejections` also counts rejected Jobs, ReplicaSets and ResourceClaims.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from mooring.api import errors
from mooring.api.core_v1 import Pod, PodTemplateSpec
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ObjectMeta, Resource
from mooring.client import ClientError, EventRecorder, Informer
from mooring.controllers.controller import Context
from mooring.controllers.workloads.ownership import Expectations, build_controller_reference

_NOT_THE_TEMPLATE = errors.Unauthorized | errors.AlreadyExists | errors.Conflict | errors.TooManyRequests


class TemplateRejection(msgspec.Struct, frozen=True):
    """The last rejection of a workload's template by the server, and the monotonic time until which none is tried."""

    template: Struct
    error: StatusError
    failures: int
    until: float


class TemplateRejections:
    """The rejections of templates by the server, by workload, with growing backoff."""

    def __init__(self, context: Context, controller: str) -> None:
        self._clock = context.clock
        self._backoff = context.options.rejection_backoff
        self.longest = self._backoff.maximum
        self._found: dict[str, TemplateRejection] = {}
        self._rejected = context.metrics.rejected_creates.labels(controller)
        self._held = context.metrics.held_creates.labels(controller)

    def find_backoff(self, owner: Resource, template: Struct) -> tuple[StatusError, float] | None:
        """Return a recently rejected template's error and the seconds to wait; None if the template may be tried."""
        found = self._found.get(owner.metadata.uid)
        left = found.until - self._clock.monotonic() if found is not None else 0.0
        if found is None or left <= 0 or found.template != template:
            return None
        self._held.inc()
        return found.error, left

    def record_rejection(self, owner: Resource, template: Struct, error: StatusError) -> float | None:
        """Record a rejection; return the seconds to a retry, None if not by the template or without backoff."""
        if error.status.code >= 500 or isinstance(error, _NOT_THE_TEMPLATE):
            return None
        self._rejected.inc()
        if self._backoff.maximum <= 0:
            return None
        before = self._found.get(owner.metadata.uid)
        failures = 1 + (before.failures if before is not None and before.template == template else 0)
        wait = self._backoff.delay(failures)
        self._found[owner.metadata.uid] = TemplateRejection(template, error, failures, self._clock.monotonic() + wait)
        return wait

    def forget(self, owner: Resource) -> None:
        """Drop the rejections of a workload, after a success or when the workload is deleted."""
        self._found.pop(owner.metadata.uid, None)


T = TypeVar("T")
LARGEST_BATCH = 500
"""The largest batch of pods to create: Kubernetes' burst, which is several batch writes."""


class CreationResult(msgspec.Struct):
    """The result of creating pods: the last error, and in how many seconds to try again."""

    error: Exception | None = None
    wait: float | None = None


class PodControl:
    """Creates and deletes the pods of one controller's workloads."""

    def __init__(
        self,
        context: Context,
        controller: str,
        recorder: EventRecorder,
        pods: Informer[Pod],
        expectations: Expectations,
    ) -> None:
        self._client = context.client
        self._recorder = recorder
        self._pods = pods
        self._expectations = expectations
        self.template_rejections = TemplateRejections(context, controller)

    def build_pod(self, owner: Resource, template: PodTemplateSpec, **changes: Any) -> Pod:
        """Build a pod from a template, for the server to name; `changes` replace whole fields of its metadata."""
        meta = ObjectMeta(
            generate_name=f"{owner.metadata.name}-",
            namespace=owner.metadata.namespace,
            labels=template.metadata.labels,
            annotations=template.metadata.annotations,
            finalizers=template.metadata.finalizers,
            owner_references=[build_controller_reference(self._client, owner)],
        )
        for field_name, value in changes.items():
            setattr(meta, field_name, value)
        return Pod(metadata=meta, spec=template.spec)

    async def create_pods(
        self, key: str, owner: Resource, template: PodTemplateSpec, pods: Sequence[Pod]
    ) -> CreationResult:
        """Create pods in growing batches until one fails; create none if the template was rejected recently.

        In both cases the result has the error, and the seconds to wait if the template is the cause.
        """
        held = self.template_rejections.find_backoff(owner, template)
        if held is not None:
            return CreationResult(error=held[0], wait=held[1])
        outcome = CreationResult()
        for batch in split_into_growing_batches(pods):
            for answer in await asyncio.gather(*map(self._client.create_briefly, batch), return_exceptions=True):
                self._record_creation_attempt(key, owner, answer, outcome)
            if outcome.error is not None:
                break
        if outcome.error is None:
            self.template_rejections.forget(owner)
        elif isinstance(outcome.error, StatusError):
            self._record_template_rejection(owner, template, outcome.error, outcome)
        return outcome

    def _record_creation_attempt(
        self, key: str, owner: Resource, answer: Resource | BaseException, outcome: CreationResult
    ) -> None:
        if isinstance(answer, Resource):
            self._expectations.record_write(key, self._pods, answer)
            self._recorder.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {answer.metadata.name}")
        elif isinstance(answer, StatusError | ClientError):
            outcome.error = answer
        else:
            raise answer

    def _record_template_rejection(
        self, owner: Resource, template: PodTemplateSpec, error: StatusError, outcome: CreationResult
    ) -> None:
        if is_namespace_terminating(error):  # no event: nothing can be created here
            outcome.error, outcome.wait = None, self.template_rejections.longest
            return
        self._recorder.event(owner, "Warning", "FailedCreate", f"Error creating: {describe_rejection(error, owner)}")
        outcome.wait = self.template_rejections.record_rejection(owner, template, error)

    async def delete_pods(self, key: str, owner: Resource, pods: Sequence[Pod]) -> None:
        """Delete pods; raise the first error after all were tried."""
        answers = await asyncio.gather(*(self._delete_pod(key, owner, pod) for pod in pods), return_exceptions=True)
        for answer in answers:
            if answer is not None:
                raise answer

    async def _delete_pod(self, key: str, owner: Resource, pod: Pod) -> None:
        meta = pod.metadata
        try:
            await self._client.delete_unread(Pod, meta.name, meta.namespace, uid=meta.uid)
        except (errors.NotFound, errors.Conflict):  # gone, or replaced
            return
        except StatusError as error:
            self._recorder.event(owner, "Warning", "FailedDelete", f"Error deleting: {error}")
            raise
        self._expectations.record_deletion(key, self._pods, pod)
        self._recorder.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {meta.name}")


def split_into_growing_batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield batches of 1, 16, 256, … items.

    >>> [len(batch) for batch in split_into_growing_batches(range(20))]
    [1, 16, 3]
    """
    start, size = 0, 1
    while start < len(items):
        yield items[start : start + size]
        start, size = start + size, min(size * 16, LARGEST_BATCH)


def describe_rejection(error: Exception, owner: Resource) -> str:
    """Return an error's message with generated object names cut to their prefix, so that equal rejections are equal."""
    details = error.status.details if isinstance(error, StatusError) else None
    prefix = f"{owner.metadata.name}-"
    if details is not None and details.name.startswith(prefix):
        return str(error).replace(details.name, prefix)
    return str(error)


def is_namespace_terminating(error: Exception) -> bool:
    """Return whether a write was rejected because its namespace is terminating."""
    details = error.status.details if isinstance(error, errors.Forbidden) else None
    return details is not None and any(cause.reason == "NamespaceTerminating" for cause in details.causes)
