"""An informer whose connection breaks at random, in the middle of lines and lists, misses and doubles nothing."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from mooring.api import errors
from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import ConfigMap
from mooring.api.meta_v1 import ObjectMeta
from mooring.apiserver.in_process import handler
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.client import Backoff, Change, Client, DisconnectedError, Informer
from mooring.client.in_process import InProcessStream, InProcessTransport
from mooring.client.transport import Request, Response

ADMIN = UserInfo(username="admin", groups=["system:masters"])


class FlakyStream:
    """Passes on a few chunks, then half of one, then breaks or ends."""

    def __init__(self, stream: InProcessStream, chance: random.Random) -> None:
        self.status = stream.status
        self._stream, self._chance = stream, chance

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream.chunks():
            if self._chance.random() < 0.3:
                yield chunk[: self._chance.randrange(len(chunk) + 1)]
                if self._chance.random() < 0.5:
                    return
                raise DisconnectedError("cut")
            yield chunk

    async def close(self) -> None:
        await self._stream.close()


class FlakyTransport(InProcessTransport):
    """Breaks lists and watches; other requests pass."""

    def __init__(self, server: ApiServer, chance: random.Random) -> None:
        super().__init__(handler(server.app, ADMIN))
        self._chance = chance
        self.cuts = 0

    async def send(self, request: Request, timeout: float) -> Response:  # noqa: ASYNC109 - the protocol's word
        if request.method == "GET" and self._chance.random() < 0.2:
            raise DisconnectedError("cut")
        return await super().send(request, timeout)

    async def stream(self, request: Request, timeout: float) -> FlakyStream:  # type: ignore[override]  # noqa: ASYNC109 - a stream too
        if self._chance.random() < 0.1:
            raise DisconnectedError("cut")
        self.cuts += 1
        return FlakyStream(await super().stream(request, timeout), self._chance)


@pytest.mark.req("S.1")
@pytest.mark.parametrize("seed", range(3))
async def test_nothing_is_missed_and_nothing_doubled(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    server = await ApiServer.open(ServerConfig(data_dir=tmp_path, port=0, ephemeral=True))
    writer = Client(InProcessTransport(handler(server.app, ADMIN)), user_agent="writer")
    transport = FlakyTransport(server, chance)
    informer = Informer(Client(transport, user_agent="reader"), ConfigMap, backoff=Backoff(0.0005, 0.002))
    known: dict[str, str] = {}
    wrong: list[Change[ConfigMap]] = []

    def hear(changes: Sequence[Change[ConfigMap]]) -> None:
        for change in changes:
            meta = change.object.metadata
            expected = change.old.metadata.resource_version if change.old else None
            if known.pop(meta.name, None) != expected:
                wrong.append(change)
            if change.new is not None:
                known[meta.name] = meta.resource_version

    informer.add_batch_handler(hear)
    running = asyncio.ensure_future(informer.run())
    for _ in range(300):
        name = f"c{chance.randrange(12)}"
        try:
            if chance.random() < 0.3:
                await writer.delete(ConfigMap, name, "default")
            else:
                data = {"n": str(chance.random())}
                await writer.apply(
                    ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data), field_manager="m"
                )
        except errors.NotFound:
            pass
        if chance.random() < 0.5:
            await asyncio.sleep(chance.choice([0, 0.001]))
    listing = await writer.list(ConfigMap)
    truth = {item.metadata.name: item.metadata.resource_version for item in listing.items}
    async with asyncio.timeout(10):
        while known != truth:  # noqa: ASYNC110 - the informer decides when
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await server.close()
    assert wrong == []
    assert transport.cuts > 5
