"""Requests whose bodies never end, and watches without number, of one user: everybody else is served."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from app_calls import ADMIN, Caller, running
from mooring.apiserver.edge.limits import Limits
from mooring.apiserver.server import ApiServer

pytestmark = pytest.mark.req("S.6")
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
NAMESPACES = "/api/v1/namespaces"
PODS = "/api/v1/namespaces/default/pods"


class Unfinished:
    """A request of which a part was sent."""

    def __init__(self, caller: Caller, path: str, begin: bytes) -> None:
        self.status = 0
        self.answered = asyncio.Event()
        self.waits = asyncio.Event()
        self._call = caller.call("POST", path, begin, "application/json", has_arrived=False)
        self._call.resume_body = self.waits.set
        self.task = asyncio.create_task(self._serve(caller))

    async def _serve(self, caller: Caller) -> None:
        self.status = (await caller.app.serve(self._call)).status
        self.answered.set()


@contextmanager
def unfinished(caller: Caller, number: int, begin: bytes = b'{"spec":') -> Iterator[list[Unfinished]]:
    requests = [Unfinished(caller, REVIEWS, begin) for _ in range(number)]
    try:
        yield requests
    finally:
        for request in requests:
            request.task.cancel()


async def settled(requests: list[Unfinished]) -> list[int]:
    """Wait until every request waits for its body or is answered; return the statuses of those that are."""
    for request in requests:
        either = [asyncio.create_task(event.wait()) for event in (request.waits, request.answered)]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED, timeout=10)
        for task in either:
            task.cancel()
    return [request.status for request in requests if request.status]


async def others_are_served(server: ApiServer) -> bool:
    """Return an administrator, a node, the scheduler and another user, each with a write."""
    call = Caller(server.app, ADMIN)
    node = call.as_user("system:node:n1", "system:nodes")
    lease = {"metadata": {"name": "n1"}, "spec": {"holderIdentity": "n1"}}
    review: dict[str, Any] = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    answers = [
        await call("POST", NAMESPACES, {"metadata": {"generateName": "n-"}}),
        await node("POST", LEASES, lease),
        await call.as_user("system:kube-scheduler")("POST", REVIEWS, review),
        await call.as_user("jane")("POST", REVIEWS, review),
    ]
    return [answer.status for answer in answers] == [201, 201, 201, 201]


async def test_bodies_that_never_end_take_no_slot(server: ApiServer) -> None:
    mallory = Caller(server.app, ADMIN).as_user("mallory")
    with unfinished(mallory, 1200) as requests:
        refused = await settled(requests)
        assert server.app.limiter.writing.taken == 0
        assert await others_are_served(server)
    assert set(refused) == {429}
    assert 100 <= len(refused) < 300


async def test_a_user_has_a_limited_number_of_bytes_waiting(tmp_path: Path) -> None:
    async with running(tmp_path, limits=Limits(waiting_bytes=8 * 1024 * 1024)) as server:
        mallory = Caller(server.app, ADMIN).as_user("mallory")
        with unfinished(mallory, 20, b" " * (1024 * 1024 - 64 * 1024)) as requests:
            refused = await settled(requests)
            assert server.app.limiter.waiting_bytes.taken == 2 * 1024 * 1024
            assert await others_are_served(server)
        await asyncio.gather(*(request.task for request in requests), return_exceptions=True)
        assert refused == [429] * 18
        assert server.app.limiter.waiting_bytes.taken == 0


@asynccontextmanager
async def watches(caller: Caller, number: int) -> AsyncIterator[list[int]]:
    """Open watches one after the other; yield the statuses."""
    statuses: list[int] = []
    streams = []
    for _ in range(number):
        stream = caller.stream(f"{PODS}?watch=1")
        streams.append(stream)
        statuses.append((await stream.__aenter__()).response.status)
    try:
        yield statuses
    finally:
        for stream in streams:
            await stream.__aexit__(None, None, None)


async def test_a_user_has_a_share_of_the_watches(tmp_path: Path) -> None:
    async with running(tmp_path, limits=Limits(watches=40)) as server:
        call = Caller(server.app, ADMIN)
        binding = {
            "metadata": {"name": "viewers"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name} for name in ("mallory", "jane")
            ],
        }
        made = await call("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        assert made.status == 201
        async with (
            watches(call.as_user("mallory"), 20) as first,
            watches(call.as_user("jane"), 10) as second,
            watches(call, 20) as last,
        ):
            assert first == [200] * 10 + [429] * 10
            assert second == [200] * 10
            assert last == [200] * 20
