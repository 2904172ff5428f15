"""Binding many pods at once: one call where the server offers it (Mooring), one for each pod where not (Kubernetes).

Used by the scheduler. The outcome of each binding is a value, because in a group some succeed and some do not.
"""

import asyncio
from collections.abc import Sequence

from msgspec import structs

from mooring.api import codec, errors
from mooring.api.base import required
from mooring.api.core_v1 import Binding
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ResourceList, Status
from mooring.base import logs
from mooring.client.client import Client
from mooring.client.errors import DisconnectedError, TransportError

log = logs.get(__name__)

Outcome = StatusError | TransportError | None
"""None: bound. After `TransportError` the pod may be bound or not."""

PATH = "/api/v1/bindings"
_GROUP = 1000
_AT_ONCE = 64


class BindingList(ResourceList):
    """What is posted."""

    items: list[Binding] = required(list)


class StatusList(ResourceList):
    """What comes back, in the same order."""

    items: list[Status] = required(list)


class BulkBinding:
    """Binds pods in groups through a client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._offered = True
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def bind(self, bindings: Sequence[Binding]) -> list[Outcome]:
        """What became of each binding, in the same order. A binding names its pod and, in `target`, the node."""
        if self._offered and len(bindings) > 1:
            outcomes: list[Outcome] = []
            for begin in range(0, len(bindings), _GROUP):
                outcomes += await self._bind_group(bindings[begin : begin + _GROUP])
            return outcomes
        return await self._bind_singly(bindings)

    async def _bind_group(self, group: Sequence[Binding]) -> list[Outcome]:
        if not self._offered:
            return await self._bind_singly(group)
        items = [structs.replace(binding, api_version="v1", kind="Binding") for binding in group]
        body = codec.encode(BindingList(kind="BindingList", api_version="v1", items=items))
        try:
            response = await self._client.raw("POST", PATH, body=body)
            statuses = codec.decode_own(response.body, StatusList).items
        except (errors.NotFound, errors.MethodNotAllowed, errors.Forbidden) as error:
            log.info("this server does not bind in groups: %s", error)
            self._offered = False
            return await self._bind_singly(group)
        except (StatusError, TransportError) as error:
            return [error] * len(group)
        if len(statuses) != len(group):
            odd = DisconnectedError(f"the server answered {len(group)} bindings with {len(statuses)} outcomes")
            return [odd] * len(group)
        return [None if status.status == "Success" else errors.from_status(status) for status in statuses]

    async def _bind_singly(self, bindings: Sequence[Binding]) -> list[Outcome]:
        return list(await asyncio.gather(*map(self._bind_one, bindings)))

    async def _bind_one(self, binding: Binding) -> Outcome:
        async with self._slots:
            try:
                await self._client.bind_with(binding)
            except (StatusError, TransportError) as error:
                return error
        return None
