"""Binding many pods at once: one call where the server offers it (Mooring), one for each pod where not (Kubernetes).

Used by the scheduler. Read next: ``bulk_call.py``.
"""

import asyncio
from collections.abc import Sequence

from msgspec import structs

from mooring.api import codec
from mooring.api.base import required
from mooring.api.core_v1 import Binding
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ResourceList, Status
from mooring.api.protobuf import MEDIA_TYPE
from mooring.client.bulk_call import BulkCall, Failure
from mooring.client.client import Client
from mooring.client.errors import TransportError

Outcome = Failure | None
"""None: bound. After `TransportError` the pod may be bound or not."""

PATH = "/api/v1/bindings"
_GROUP = 1000
_AT_ONCE = 56
"""Where each pod is bound by a call of its own: kube-apiserver and etcd work less for each of many that come together
(docs/benchmarks.md). A few connections of the client are left for others, such as the lease."""


class BindingList(ResourceList):
    """What is posted."""

    items: list[Binding] = required(list)


class BulkBinding:
    """Binds pods in groups through a client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._call = BulkCall(client, "POST", PATH)
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def bind(self, bindings: Sequence[Binding]) -> list[Outcome]:
        """What became of each binding, in the same order. A binding names its pod and, in `target`, the node."""
        if self._call.is_offered and len(bindings) > 1:
            outcomes: list[Outcome] = []
            for begin in range(0, len(bindings), _GROUP):
                outcomes += await self._bind_group(bindings[begin : begin + _GROUP])
            return outcomes
        return await self._bind_singly(bindings)

    async def _bind_group(self, group: Sequence[Binding]) -> list[Outcome]:
        if not self._call.is_offered:
            return await self._bind_singly(group)
        items = [structs.replace(binding, api_version="v1", kind="Binding") for binding in group]
        answers = await self._call.send(BindingList(kind="BindingList", api_version="v1", items=items), len(group))
        if answers is None:
            return await self._bind_singly(group)
        return [None if isinstance(answer, Status) else answer for answer in answers]

    async def _bind_singly(self, bindings: Sequence[Binding]) -> list[Outcome]:
        return list(await asyncio.gather(*map(self._bind_one, bindings)))

    async def _bind_one(self, binding: Binding) -> Outcome:
        async with self._slots:
            try:
                if self._call.is_offered:
                    await self._client.bind_with(binding)
                else:
                    await self._bind_compactly(binding)
            except (StatusError, TransportError) as error:
                return error
        return None

    async def _bind_compactly(self, binding: Binding) -> None:
        """By a message of protobuf, which kube-apiserver reads in less time than JSON."""
        from mooring.api import protobuf_writing  # noqa: PLC0415 - only Kubernetes is spoken to like this

        meta = binding.metadata
        message = protobuf_writing.message(codec.to_tree(binding), Binding)
        path = f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/binding"
        body = protobuf_writing.encode("v1", "Binding", message)
        await self._client.raw("POST", path, body=body, content_type=MEDIA_TYPE)
