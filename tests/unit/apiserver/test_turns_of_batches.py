"""Batches begin one after the other, so that a rush of them delays no other request."""

import asyncio
import json

import pytest

from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.registry.handler import Batch
from mooring.apiserver.requests.batch import WriteBatches

pytestmark = pytest.mark.req("S.4")
_PODS = "/api/v1/namespaces/default/pods"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class Begun:
    """What has begun, in order."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.batches = WriteBatches(self._respond)

    async def send(self, path: str, name: str) -> None:
        items = [{"method": "PUT", "path": f"{path}/{name}-{number}", "body": {}} for number in range(2)]
        await self.batches.handle(Request(method="POST", path="/writes", body=json.dumps({"items": items}).encode()))

    async def _respond(self, batch: Batch) -> list[Response]:
        name = batch.requests[0].path.rpartition("/")[2].partition("-")[0]
        self.order.append(name)
        if name == "first":
            asyncio.get_running_loop().call_soon(self.order.append, "somebody else")
        await asyncio.sleep(0.01)  # as the disk takes its time
        self.order.append(f"{name} done")
        return [Response() for _ in batch.requests]


async def test_heartbeats_and_other_requests_do_not_wait_for_all_groups_of_a_rush() -> None:
    begun = Begun()
    rush = [begun.send(_PODS, name) for name in ("first", "second", "third", "fourth")]
    await asyncio.gather(*rush, begun.send(_LEASES, "heartbeat"))
    before_any_is_done = begun.order[: begun.order.index("first done")]
    assert before_any_is_done.index("heartbeat") < before_any_is_done.index("second")
    assert before_any_is_done.index("somebody else") < before_any_is_done.index("third")
    assert [name for name in before_any_is_done if name in {"first", "second", "third", "fourth"}] == [
        "first",
        "second",
        "third",
        "fourth",
    ], "all of them, for none waits until another is on the disk"


async def test_a_client_that_leaves_while_it_waits_delays_no_other() -> None:
    begun = Begun()
    sent = [asyncio.create_task(begun.send(_PODS, name)) for name in ("first", "second", "third")]
    await asyncio.sleep(0)
    sent[1].cancel()
    await asyncio.wait(sent)
    assert sent[1].cancelled()
    await begun.send(_PODS, "last")
    assert [name for name in begun.order if not name.endswith("done")] == ["first", "somebody else", "third", "last"]
