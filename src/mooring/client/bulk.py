"""Bind many pods in one batch if the server is Mooring's (``api/batch_writes.py``), otherwise each by its own request.

The outcome for each pod is a value, because some pods of a list can fail. Used by the scheduler.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from mooring.admission import rows
from mooring.api import codec, errors
from mooring.api.batch_writes import JSON, PATH, Write, Writes
from mooring.api.core_v1 import Binding
from mooring.api.errors import StatusError
from mooring.api.protobuf import MEDIA_TYPE
from mooring.base import logs
from mooring.client import wire
from mooring.client.batching import split_batch_response
from mooring.client.client import Client
from mooring.client.errors import TransportError

log = logs.get(__name__)
Failure: TypeAlias = StatusError | TransportError
"""The error of a pod that was not bound. After `TransportError` it may have been bound."""
_MAX_BINDINGS = 500
_CONCURRENT_BATCHES = 2
"""The maximum number of concurrent batches: the server works on one while the other is in transit."""
_CONCURRENT_BINDINGS = 112
"""The maximum number of concurrent requests when each pod is bound by its own request.

kube-apiserver and etcd work less for each of many that arrive together (docs/benchmarks-details.md). A few connections
are left for other requests, such as the lease.
"""
_FIRST_WORKERS = 8
"""The number of workers to begin with. Each worker that has bound a pod starts another one.

If all started at once, none would send anything before all have a connection, which takes longer than binding a few
pods.
"""
_ACCEPT = f"{MEDIA_TYPE}, {JSON}"
_ENCODER = msgspec.json.Encoder()


class _PendingBinding(msgspec.Struct, eq=False, frozen=True):
    """A binding that waits to be sent, and the future of its outcome: None if the pod was bound, else the error."""

    binding: Binding
    outcome: "asyncio.Future[Failure | None]"

    def finish(self, outcome: Failure | None) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class BulkBinding:
    """Binds pods to nodes: in batches on Mooring's server, otherwise by concurrent requests for one pod each."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._server_takes_batches = True
        """Whether the server supports batches; True until it refused one."""
        self._waiting: deque[_PendingBinding] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._busy = 0
        """The number of workers that have not found the queue empty yet."""

    async def bind(self, bindings: Sequence[Binding]) -> list[Failure | None]:
        """Bind pods; return None or the error for each, in their order.

        With an empty list, only find out whether the server supports batches.
        """
        if not bindings:
            await self._bind_batch([])
            return []
        loop = asyncio.get_running_loop()
        waiting = [_PendingBinding(binding, loop.create_future()) for binding in bindings]
        self._waiting.extend(waiting)
        self._start_workers(_FIRST_WORKERS)
        return await asyncio.gather(*(each.outcome for each in waiting))

    def _start_workers(self, number: int) -> None:
        most = _CONCURRENT_BATCHES if self._server_takes_batches else _CONCURRENT_BINDINGS
        for _ in range(min(number, most - self._busy, len(self._waiting))):
            self._busy += 1
            worker = asyncio.get_running_loop().create_task(self._run_worker(), name="binding pods")
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def _run_worker(self) -> None:
        try:
            while self._waiting:
                most = _MAX_BINDINGS if self._server_takes_batches else 1
                taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
                if pending := [each for each in taken if not each.outcome.done()]:
                    await self._bind_pending(pending)
                if most == 1:
                    self._start_workers(1)
        finally:
            self._busy -= 1

    async def _bind_pending(self, pending: list[_PendingBinding]) -> None:
        """Bind pods in one request and set their outcomes."""
        try:
            if len(pending) > 1:
                await self._bind_batch(pending)
            else:
                await self._bind_one(pending[0])
        except (StatusError, TransportError) as error:
            for each in pending:
                each.finish(error)
        except Exception as error:  # a defect: others are bound nevertheless
            for each in pending:
                if not each.outcome.done():
                    each.outcome.set_exception(error)

    async def _bind_batch(self, pending: Sequence[_PendingBinding]) -> None:
        """Bind pods in one batch and set their outcomes; without batch support, put them back into the queue."""
        batches: dict[tuple[str, bytes], tuple[Write, list[_PendingBinding]]] = {}
        for each in pending:
            template, row = rows.split_template(each.binding)
            place = (each.binding.metadata.namespace, codec.encode(template))
            if place not in batches:
                batches[place] = (_make_batch_write(*place), [])
            batches[place][0].rows.append(row)
            batches[place][1].append(each)
        body = _ENCODER.encode(Writes([write for write, _ in batches.values()]))
        try:
            answers = split_batch_response(await self._client.raw("POST", PATH, body=body), len(pending))
        except (errors.NotFound, errors.MethodNotAllowed, errors.Forbidden) as error:
            log.info("this server takes no batches of bindings: %s", error)
            self._server_takes_batches = False
            self._waiting.extendleft(reversed(pending))
            self._start_workers(_FIRST_WORKERS)
            return
        in_order = (each for _, writers in batches.values() for each in writers)
        for each, answer in zip(in_order, answers, strict=True):
            each.finish(wire.status_error(answer.status, answer.body) if answer.status >= 400 else None)

    async def _bind_one(self, pending: _PendingBinding) -> None:
        binding = pending.binding
        if self._server_takes_batches:
            await self._client.bind_with(binding)
        else:
            path = f"/api/v1/namespaces/{binding.metadata.namespace}/pods/{binding.metadata.name}/binding"
            body = _encode_as_protobuf(binding)
            await self._client.raw("POST", path, body=body, content_type=MEDIA_TYPE, accept=_ACCEPT)
        pending.finish(None)


def _make_batch_write(namespace: str, template: bytes) -> Write:
    body = msgspec.Raw(template)
    return Write(
        "POST", f"/api/v1/namespaces/{namespace}/pods", body=body, omit_body=True, subresource="binding", rows=[]
    )


def _encode_as_protobuf(binding: Binding) -> bytes:
    """Return a binding encoded as protobuf, which kube-apiserver decodes faster than JSON."""
    from mooring.api import protobuf_encoding  # noqa: PLC0415 - only upstream Kubernetes receives it

    return protobuf_encoding.encode("v1", "Binding", protobuf_encoding.message(codec.to_tree(binding), Binding))
