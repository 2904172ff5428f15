"""Standard input and output of a simulated command, optionally with a terminal.

A terminal echoes keys, buffers input until a line ends, writes CR LF, and handles Backspace, Ctrl-C and Ctrl-D.
"""

import asyncio
from collections.abc import Awaitable, Callable

Write = Callable[[bytes], Awaitable[None]]
_WAITING = 16
_INTERRUPT, _END, _ERASE = b"\x03", b"\x04", (b"\x7f", b"\x08")
_LONGEST_LINE = 4096


class Interrupted(Exception):  # noqa: N818 - no error
    """The user of a terminal has pressed Ctrl-C."""


class Stdio:
    """Standard input, output and errors of a command; the input's queue is short, to hold back a fast client."""

    def __init__(self, out: Write, err: Write, *, tty: bool = False) -> None:
        self._write_out = out
        self._write_err = out if tty else err
        self.tty = tty
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(_WAITING)
        self._rest = b""
        self._line = bytearray()
        self._ended = False

    async def out(self, data: bytes) -> None:
        await self._write_out(self._convert_newlines(data))

    async def err(self, data: bytes) -> None:
        await self._write_err(self._convert_newlines(data))

    async def read(self) -> bytes:
        """Wait for input and return it; empty at its end. Raise Interrupted if the user pressed Ctrl-C."""
        if self._rest:
            data, self._rest = self._rest, b""
            return data
        if self._ended:
            return b""
        found = await self._queue.get()
        if found == _INTERRUPT and self.tty:
            raise Interrupted
        self._ended = found is None
        return found or b""

    async def read_line(self) -> bytes:
        """Wait for a line of input and return it with its line break; empty at the end of the input."""
        line = b""
        while b"\n" not in line and len(line) < _LONGEST_LINE * 16:
            more = await self.read()
            if not more:
                return line
            line += more
        line, mark, rest = line.partition(b"\n")
        self._rest = rest + self._rest
        return line + mark

    async def feed(self, data: bytes) -> None:
        if not self.tty:
            if data:
                await self._queue.put(data)
            return
        for key in (data[index : index + 1] for index in range(len(data))):
            await self._handle_key(key)

    async def end(self) -> None:
        await self._queue.put(None)

    async def _handle_key(self, key: bytes) -> None:
        if key in {b"\r", b"\n"}:
            await self.out(b"\n")
            await self._queue.put(bytes(self._line) + b"\n")
            self._line.clear()
        elif key == _INTERRUPT:
            await self.out(b"^C\n")
            self._line.clear()
            await self._queue.put(_INTERRUPT)
        elif key == _END:
            await self._queue.put(bytes(self._line) or None)
            self._line.clear()
        elif key in _ERASE:
            if self._line:
                del self._line[-1]
                await self.out(b"\x08 \x08")
        elif len(self._line) < _LONGEST_LINE:
            self._line += key
            await self.out(key)

    def _convert_newlines(self, data: bytes) -> bytes:
        return data.replace(b"\n", b"\r\n") if self.tty else data
