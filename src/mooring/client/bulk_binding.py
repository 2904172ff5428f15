"""Binding many pods at once: one call where the server offers it (Mooring), one for each pod where not (Kubernetes).

Used by the scheduler. Read next: ``bulk_call.py``.
"""

import asyncio
from collections.abc import Sequence

from msgspec import structs

from mooring.api.base import required
from mooring.api.core_v1 import Binding
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ResourceList, Status
from mooring.client.bulk_call import BulkCall, Failure
from mooring.client.client import Client
from mooring.client.errors import TransportError

Outcome = Failure | None
"""None: bound. After `TransportError` the pod may be bound or not."""

PATH = "/api/v1/bindings"
_GROUP = 1000
_AT_ONCE = 16
"""Where each pod is bound by a call of its own. More connections make kube-apiserver work more for each, not faster."""


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
                await self._client.bind_with(binding)
            except (StatusError, TransportError) as error:
                return error
        return None
