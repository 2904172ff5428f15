"""A proxy between a client and a server, to break what lies between them.

async with TcpProxy("127.0.0.1", 2379) as proxy:
    store = await EtcdStore.open(config_with(proxy.address))
    proxy.hold_answers = True       # requests arrive, and are not answered
    proxy.cut()                     # connections break
"""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


class TcpProxy:
    """Forward connections unless its attributes hold or cut them."""

    def __init__(self, url: str) -> None:
        self.target = url
        target = urlsplit(url)
        self._target = (target.hostname or "", target.port or 0)
        self._scheme = target.scheme
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.hold_requests = False
        self.hold_answers = False
        self.refuse = False
        self.connections = 0

    @property
    def url(self) -> str:
        assert self._server
        return f"{self._scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """Break every connection."""
        for writer in self._writers:
            writer.transport.abort()

    def heal(self) -> None:
        self.hold_requests = self.hold_answers = self.refuse = False

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.cut()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuse:
            writer.transport.abort()
            return
        self.connections += 1
        there, back = await asyncio.open_connection(*self._target)
        self._writers |= {writer, back}
        for source, sink, answers in ((reader, back, False), (there, writer, True)):
            task = asyncio.ensure_future(self._forward(source, sink, answers=answers))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forward(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answers: bool) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                held = self.hold_answers if answers else self.hold_requests
                while self.hold_answers if answers else self.hold_requests:  # noqa: ASYNC110 - tests set attributes
                    await asyncio.sleep(0.01)
                sink.write(data)
                await sink.drain()
                if held:
                    await asyncio.sleep(0.1)  # what came later, such as a cancellation, arrives later
        sink.transport.abort()
