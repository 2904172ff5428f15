"""Bind many pods, or write the status of many ResourceClaims, in one request where the server is Mooring's.

On other servers `BulkBinding` binds each pod by a request of its own, many at once, and `BulkClaims` returns None. The
outcome for each object is a value, because some of a list succeed and others do not. Used by the scheduler.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

import msgspec
from msgspec import structs

from mooring.api import codec, errors
from mooring.api.base import required
from mooring.api.core_v1 import Binding
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ObjectMeta, ResourceList, Status
from mooring.api.protobuf import MEDIA_TYPE
from mooring.api.resource_v1 import ResourceClaim
from mooring.base import logs
from mooring.client.client import JSON, Client
from mooring.client.errors import DisconnectedError, TransportError

log = logs.get(__name__)
Failure: TypeAlias = StatusError | TransportError
"""Why an object was not written. After `TransportError` it may have been written or not."""
ClaimOutcome: TypeAlias = ResourceClaim | Failure
PROTECTION = "resource.kubernetes.io/delete-protection"
"""The finalizer that keeps a claim while devices are allocated for it; the server adds it with the allocation."""
BINDINGS, CLAIMS = "/api/v1/bindings", "/apis/resource.k8s.io/v1/resourceclaims/-/status"
_MAX_BINDINGS = 500
_CONCURRENT_BATCHES = 2
"""The server works on one while the other is on its way."""
_CONCURRENT_BINDINGS = 112
"""Where each pod is bound by its own request: kube-apiserver and etcd work less for each of many that arrive together
(docs/benchmarks-details.md). A few connections are left for other requests, such as the lease."""
_FIRST_WORKERS = 8
"""Each worker that has bound a pod starts another: if all started at once, none would send anything before all have a
connection, which costs more than binding a few pods."""
_ACCEPT = f"{MEDIA_TYPE}, {JSON}"


class BindingList(ResourceList):
    items: list[Binding] = required(list)


class ResourceClaimList(ResourceList):
    items: list[ResourceClaim] = required(list)


class StatusList(ResourceList):
    """The outcomes, in the order of the request."""

    items: list[Status] = required(list)


class _Endpoint:
    """A path that takes a list of objects, on servers that have it."""

    def __init__(self, client: Client, method: str, path: str) -> None:
        self._client = client
        self._method = method
        self._path = path
        self.is_offered = True
        """Whether the server has the path, or was not asked yet."""

    async def send(self, objects: ResourceList, count: int) -> list[Status | Failure] | None:
        """Return the outcome of each object; None where the server does not have the path."""
        try:
            response = await self._client.raw(self._method, self._path, body=codec.encode(objects))
            statuses = codec.decode_own(response.body, StatusList).items
        except (errors.NotFound, errors.MethodNotAllowed, errors.Forbidden) as error:
            log.info("this server takes no lists at %s: %s", self._path, error)
            self.is_offered = False
            return None
        except (StatusError, TransportError) as error:
            return [error] * count
        if len(statuses) != count:
            return [DisconnectedError(f"the server answered {count} objects with {len(statuses)} outcomes")] * count
        return [status if status.status == "Success" else errors.from_status(status) for status in statuses]


class BulkClaims:
    """Writes the status of ResourceClaims in lists."""

    def __init__(self, client: Client) -> None:
        self._endpoint = _Endpoint(client, "PUT", CLAIMS)

    @property
    def is_offered(self) -> bool:
        """Return whether the server takes lists, as far as is known."""
        return self._endpoint.is_offered

    async def update_status(self, claims: Sequence[ResourceClaim]) -> list[ClaimOutcome] | None:
        """Return each claim as written, or why it was not; None where the server does not take lists."""
        items = [_status_alone(claim) for claim in claims]
        sent = ResourceClaimList(kind="ResourceClaimList", api_version="resource.k8s.io/v1", items=items)
        outcomes = await self._endpoint.send(sent, len(items))
        if outcomes is None:
            return None
        return [
            _as_written(claim, outcome) if isinstance(outcome, Status) else outcome
            for claim, outcome in zip(claims, outcomes, strict=True)
        ]


def _status_alone(claim: ResourceClaim) -> ResourceClaim:
    meta = claim.metadata
    metadata = ObjectMeta(
        name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version
    )
    return ResourceClaim(metadata=metadata, status=claim.status)


def _as_written(claim: ResourceClaim, status: Status) -> ResourceClaim:
    finalizers = claim.metadata.finalizers
    if claim.status.allocation is not None and PROTECTION not in finalizers:
        finalizers = [*finalizers, PROTECTION]
    version = status.metadata.resource_version
    metadata = structs.replace(claim.metadata, resource_version=version, finalizers=finalizers)
    return structs.replace(claim, metadata=metadata)


class _Waiting(msgspec.Struct, eq=False, frozen=True):
    """A binding that waits, and the future of its outcome: None when the pod is bound."""

    binding: Binding
    outcome: "asyncio.Future[Failure | None]"

    def finish(self, outcome: Failure | None) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def fail(self, error: Exception) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)


class BulkBinding:
    """Binds pods in lists, or many at once by a request each. Bindings that arrive meanwhile go with the next list."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._endpoint = _Endpoint(client, "POST", BINDINGS)
        self._waiting: deque[_Waiting] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._busy = 0
        """Workers that have not found the queue empty yet."""

    async def bind(self, bindings: Sequence[Binding]) -> list[Failure | None]:
        """Bind pods; return None or the failure for each. Without bindings, find out whether the server takes lists."""
        if not bindings:
            await self._send([])
            return []
        loop = asyncio.get_running_loop()
        waiting = [_Waiting(binding, loop.create_future()) for binding in bindings]
        self._waiting.extend(waiting)
        self._start_workers(_FIRST_WORKERS)
        return await asyncio.gather(*(each.outcome for each in waiting))

    def _start_workers(self, number: int) -> None:
        most = _CONCURRENT_BATCHES if self._endpoint.is_offered else _CONCURRENT_BINDINGS
        for _ in range(min(number, most - self._busy, len(self._waiting))):
            self._busy += 1
            worker = asyncio.get_running_loop().create_task(self._work(), name="binding pods")
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        try:
            while self._waiting:
                if self._endpoint.is_offered and len(self._waiting) > 1:
                    taken = [self._waiting.popleft() for _ in range(min(_MAX_BINDINGS, len(self._waiting)))]
                    await self._bind_list([each for each in taken if not each.outcome.done()])
                else:
                    await self._bind_one(self._waiting.popleft())
        finally:
            self._busy -= 1

    async def _bind_list(self, taken: Sequence[_Waiting]) -> None:
        if not taken:
            return
        try:
            outcomes = await self._send([each.binding for each in taken])
        except Exception as error:  # a defect: others are bound nevertheless
            for each in taken:
                each.fail(error)
            return
        if outcomes is None:
            self._waiting.extendleft(reversed(taken))
            self._start_workers(_FIRST_WORKERS)
            return
        for each, outcome in zip(taken, outcomes, strict=True):
            each.finish(None if isinstance(outcome, Status) else outcome)

    async def _send(self, bindings: Sequence[Binding]) -> list[Status | Failure] | None:
        items = [structs.replace(binding, api_version="v1", kind="Binding") for binding in bindings]
        return await self._endpoint.send(BindingList(kind="BindingList", api_version="v1", items=items), len(items))

    async def _bind_one(self, waiting: _Waiting) -> None:
        if waiting.outcome.done():
            return
        binding, failure = waiting.binding, None
        try:
            if self._endpoint.is_offered:
                await self._client.bind_with(binding)
            else:
                path = f"/api/v1/namespaces/{binding.metadata.namespace}/pods/{binding.metadata.name}/binding"
                body = _as_protobuf(binding)
                await self._client.raw("POST", path, body=body, content_type=MEDIA_TYPE, accept=_ACCEPT)
        except (StatusError, TransportError) as error:
            failure = error
        except Exception as error:  # as above
            waiting.fail(error)
            return
        waiting.finish(failure)
        if self._busy < _CONCURRENT_BINDINGS:
            self._start_workers(1)


def _as_protobuf(binding: Binding) -> bytes:
    """Encode a binding as kube-apiserver reads and answers it fastest."""
    from mooring.api import protobuf_encoding  # noqa: PLC0415 - only upstream Kubernetes receives it

    return protobuf_encoding.encode("v1", "Binding", protobuf_encoding.message(codec.to_tree(binding), Binding))
