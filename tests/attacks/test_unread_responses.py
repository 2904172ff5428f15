"""Large responses that one user does not read: they take a share of the memory, and others are served."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from app_calls import ADMIN, Caller, pieces, running
from mooring.apiserver.edge.limits import Limits
from mooring.apiserver.server import ApiServer

pytestmark = pytest.mark.req("S.6")
MAPS = "/api/v1/namespaces/default/configmaps"
PROTOBUF = "application/vnd.kubernetes.protobuf"
MIB = 1024 * 1024


class SlowReader:
    """A client that takes the head of a response and nothing more."""

    def __init__(self, caller: Caller, method: str, path: str, accept: str) -> None:
        self._app = caller.app
        self._call = caller.call(method, path, b"{}", "application/merge-patch+json", {"accept": accept})

    async def __aenter__(self) -> "SlowReader":
        self._response = await self._app.serve(self._call)
        self.status = self._response.status
        return self

    async def __aexit__(self, *_: object) -> None:
        async for _piece in pieces(self._response):
            pass


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with running(tmp_path, limits=Limits(unsent_bytes=12 * MIB)) as found:
        call = Caller(found.app, ADMIN)
        rbac = "rbac.authorization.k8s.io"
        binding = {
            "metadata": {"name": "editors"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": name} for name in ("mallory", "jane")],
        }
        assert (await call("POST", f"/apis/{rbac}/v1/clusterrolebindings", binding)).status == 201
        data = {"metadata": {"name": "large"}, "data": {"a": "x" * MIB}}
        assert (await call("POST", MAPS, data)).status == 201
        yield found


REQUESTS = {
    "reads": ("GET", MAPS, PROTOBUF, 429),
    "reads of one object": ("GET", f"{MAPS}/large", "application/json", 429),
    "writes": ("PATCH", f"{MAPS}/large", "application/json", 504),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS.keys())
async def test_a_user_has_a_share_of_the_bytes_that_wait(
    server: ApiServer, request_: tuple[str, str, str, int]
) -> None:
    method, path, accept, refusal = request_
    call = Caller(server.app, ADMIN)
    async with AsyncExitStack() as readers:
        mallory = [
            await readers.enter_async_context(SlowReader(call.as_user("mallory"), method, path, accept))
            for _ in range(6)
        ]
        assert [reader.status for reader in mallory] == [200] * 2 + [refusal] * 4
        assert (await call.as_user("jane")("GET", MAPS, accept=PROTOBUF)).status == 200
        assert (await call("GET", MAPS)).status == 200
    assert server.app.limiter.unsent_bytes.taken == 0


async def test_a_response_that_is_larger_than_a_share_is_sent(tmp_path: Path) -> None:
    async with running(tmp_path, limits=Limits(unsent_bytes=MIB)) as server:
        call = Caller(server.app, ADMIN)
        assert (await call("POST", MAPS, {"metadata": {"name": "a"}, "data": {"a": "x" * MIB}})).status == 201
        answer = await call("GET", MAPS, accept=PROTOBUF)
        assert (answer.status, answer.headers["content-length"]) == (200, str(len(answer.body)))
