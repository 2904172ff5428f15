"""Binding many pods at once: one call where the server offers it (Mooring), one for each pod where not (Kubernetes).

Whoever wants pods to be bound need not know which, nor wait for others to be done: what comes while as much is under
way as does the server good waits, and goes with the next call. Used by the scheduler. Read next: ``bulk_call.py``.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

import msgspec
from msgspec import structs

from mooring.api import codec
from mooring.api.base import required
from mooring.api.core_v1 import Binding
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ResourceList, Status
from mooring.api.protobuf import MEDIA_TYPE
from mooring.client.bulk_call import BulkCall, Failure
from mooring.client.client import JSON, Client
from mooring.client.errors import TransportError

Outcome = Failure | None
"""None: bound. After `TransportError` the pod may be bound or not."""

PATH = "/api/v1/bindings"
_GROUP = 500
_GROUPS_AT_ONCE = 2
"""The server works on one while the other travels."""
_AT_ONCE = 112
"""Where each pod is bound by a call of its own: kube-apiserver and etcd work less for each of many that come together
(docs/benchmarks-details.md). A few connections of the client are left for others, such as the lease."""
_FIRST = 8
"""So many begin, and whoever has bound a pod gets company: if all began at once, none would send anything before all
have their connections, and for few pods these would cost more than the pods."""
_ACCEPT = f"{MEDIA_TYPE}, {JSON}"


class BindingList(ResourceList):
    """What is posted."""

    items: list[Binding] = required(list)


class _Wanted(msgspec.Struct, eq=False):
    """What somebody wants to be bound."""

    outcomes: list[Outcome]
    left: int
    done: asyncio.Future[None]

    @property
    def is_wanted(self) -> bool:
        """Whether somebody still waits."""
        return not self.done.done()

    def settle(self, index: int, outcome: Outcome) -> None:
        self.outcomes[index] = outcome
        self.left -= 1
        if not self.left and self.is_wanted:
            self.done.set_result(None)

    def fail(self, error: Exception) -> None:
        if self.is_wanted:
            self.done.set_exception(error)


_Waiting = tuple[Binding, _Wanted, int]
"""A binding, whose it is, and its place there."""


class BulkBinding:
    """Binds pods through a client."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._call = BulkCall(client, "POST", PATH)
        self._waiting: deque[_Waiting] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._busy = 0
        """How many of them have not found yet that nothing waits."""

    async def bind(self, bindings: Sequence[Binding]) -> list[Outcome]:
        """What became of each binding, in the same order. A binding names its pod and, in `target`, the node.

        To bind none finds out whether the server offers the call, so that later ones need not.
        """
        if not bindings:
            await self._send([])
            return []
        wanted = _Wanted([None] * len(bindings), len(bindings), asyncio.get_running_loop().create_future())
        self._waiting.extend((binding, wanted, index) for index, binding in enumerate(bindings))
        self._employ(_FIRST)
        await wanted.done
        return wanted.outcomes

    def _employ(self, number: int) -> None:
        """So many more workers, if that does the server good; each binds until nothing waits."""
        most = _GROUPS_AT_ONCE if self._call.is_offered else _AT_ONCE
        for _ in range(min(number, most - self._busy, len(self._waiting))):
            self._busy += 1
            worker = asyncio.get_running_loop().create_task(self._work(), name="binding pods")
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        try:
            while self._waiting:
                if self._call.is_offered and len(self._waiting) > 1:
                    await self._bind_group(self._next_group())
                else:
                    await self._bind_one(*self._waiting.popleft())
        finally:
            self._busy -= 1

    def _next_group(self) -> list[_Waiting]:
        taken = [self._waiting.popleft() for _ in range(min(_GROUP, len(self._waiting)))]
        return [each for each in taken if each[1].is_wanted]

    async def _bind_group(self, group: Sequence[_Waiting]) -> None:
        if not group:
            return
        try:
            answers = await self._send([binding for binding, _, _ in group])
        except Exception as error:  # a defect: others are bound nevertheless
            for _, wanted, _ in group:
                wanted.fail(error)
            return
        if answers is None:
            self._waiting.extendleft(reversed(group))
            self._employ(_FIRST)
            return
        for (_, wanted, index), answer in zip(group, answers, strict=True):
            wanted.settle(index, None if isinstance(answer, Status) else answer)

    async def _send(self, bindings: Sequence[Binding]) -> list[Status | Failure] | None:
        items = [structs.replace(binding, api_version="v1", kind="Binding") for binding in bindings]
        return await self._call.send(BindingList(kind="BindingList", api_version="v1", items=items), len(items))

    async def _bind_one(self, binding: Binding, wanted: _Wanted, index: int) -> None:
        if not wanted.is_wanted:
            return
        outcome: Outcome = None
        try:
            if self._call.is_offered:
                await self._client.bind_with(binding)
            else:
                body = _compact(binding)
                await self._client.raw("POST", _path(binding), body=body, content_type=MEDIA_TYPE, accept=_ACCEPT)
        except (StatusError, TransportError) as error:
            outcome = error
        except Exception as error:  # as above
            wanted.fail(error)
            return
        wanted.settle(index, outcome)
        if self._busy < _AT_ONCE:
            self._employ(1)


def _path(binding: Binding) -> str:
    return f"/api/v1/namespaces/{binding.metadata.namespace}/pods/{binding.metadata.name}/binding"


def _compact(binding: Binding) -> bytes:
    """A message of protobuf, which kube-apiserver reads in less time than JSON, and writes too."""
    from mooring.api import protobuf_encoding  # noqa: PLC0415 - only Kubernetes is spoken to like this

    return protobuf_encoding.encode("v1", "Binding", protobuf_encoding.message(codec.to_tree(binding), Binding))
