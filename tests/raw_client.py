"""A bare HTTP client for tests that need many connections, or to see one break."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, Self

from running_server import RunningServer


class RawClient:
    """One connection with the administrator's certificate, kept open between requests."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, server: RunningServer) -> Self:
        host, port = server.address
        reader, writer = await asyncio.open_connection(host, port, ssl=server.tls(), limit=2**24)
        return cls(reader, writer)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.transport.abort()

    async def request(self, method: str, path: str, body: Any = None, media_type: str = "") -> tuple[int, Any]:
        """Return the code and the decoded body of an answer; raises OSError or EOFError when the connection breaks."""
        await self._send(method, path, body, media_type)
        code, headers = await self._head()
        data = await self._body(headers)
        return code, json.loads(data) if data else None

    async def status(self, path: str) -> int:
        """Return the code of an answer whose body does not matter."""
        await self._send("GET", path, None, "")
        code, headers = await self._head()
        await self._body(headers)
        return code

    async def watch(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of a watch, until it ends or breaks."""
        await self._send("GET", path, None, "")
        code, _ = await self._head()
        assert code == 200, code
        rest = b""
        async for chunk in self._chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield json.loads(line)

    async def _send(self, method: str, path: str, body: Any, media_type: str) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: test\r\ncontent-type: {media_type or 'application/json'}\r\n"
            f"content-length: {len(data)}\r\n\r\n"
        )
        self._writer.write(head.encode() + data)
        await self._writer.drain()

    async def _head(self) -> tuple[int, dict[str, str]]:
        code = int((await self._line()).split()[1])
        headers = {}
        while line := await self._line():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return code, headers

    async def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") == "chunked":  # long lists
            return b"".join([chunk async for chunk in self._chunks()])
        return await self._reader.readexactly(int(headers.get("content-length", "0")))

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self._line(), 16):
            yield await self._reader.readexactly(size)
            await self._line()
        await self._line()

    async def _line(self) -> str:
        line = await self._reader.readuntil(b"\r\n")
        return line[:-2].decode()
