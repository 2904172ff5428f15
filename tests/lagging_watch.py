"""A proxy before a real API server that delays the watch of pods, and nothing else.

Components that connect through it see changes of nodes at once and changes of pods later, as kube-controller-manager
does now and then on a loaded machine. It speaks HTTP/1.1, so that every watch has a connection of its own.
"""

import asyncio
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from free_ports import free_port

_WATCH = re.compile(rb"GET /api/v1/pods\?\S*\bwatch=(true|1)")
_PIECE = 65536


@contextmanager
def lagging_watch(server: int, certificates: Path, seconds: float) -> Iterator[int]:
    """Yield the port of a proxy before the server at `server`; `certificates` are those of kube-apiserver."""
    port, ready, loop = free_port(), threading.Event(), asyncio.new_event_loop()
    inbound = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    inbound.load_cert_chain(certificates / "apiserver.crt", certificates / "apiserver.key")
    outbound = ssl.create_default_context()
    outbound.check_hostname, outbound.verify_mode = False, ssl.CERT_NONE

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, sending = await asyncio.open_connection("127.0.0.1", server, ssl=outbound)
        lag = asyncio.Event()
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def requests() -> None:
            while piece := await reader.read(_PIECE):
                if _WATCH.match(piece):
                    lag.set()
                sending.write(piece)
            sending.close()

        async def responses() -> None:
            while piece := await upstream.read(_PIECE):
                pieces.put_nowait((loop.time() + (seconds if lag.is_set() else 0.0), piece))
            pieces.put_nowait((loop.time(), b""))

        async def delivery() -> None:
            while True:
                when, piece = await pieces.get()
                if not piece:
                    break
                await asyncio.sleep(when - loop.time())
                writer.write(piece)
            writer.close()

        with suppress(OSError):
            await asyncio.gather(requests(), responses(), delivery())

    async def serve() -> None:
        async with await asyncio.start_server(connected, "127.0.0.1", port, ssl=inbound):
            ready.set()
            await stopping.wait()

    stopping = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait()
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
