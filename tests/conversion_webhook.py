"""A webhook that converts custom objects, over TLS, as a definition can name one.

async with conversion_webhook(tmp_path, convert) as config:
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": config}
"""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mooring.apiserver.access.pki import Pki
from mooring.base.clock import SystemClock

Tree = dict[str, Any]
Answer = Callable[[Tree], Any]
"""From a ConversionReview to the body of the answer."""


def converting(convert: Callable[[Tree, str], Tree]) -> Answer:
    """Return an honest answer, with objects that a function has converted to a version."""

    def answer(review: Tree) -> Tree:
        request = review["request"]
        made = [convert(each, request["desiredAPIVersion"]) for each in request["objects"]]
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": made}
        return {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response}

    return answer


@asynccontextmanager
async def conversion_webhook(folder: Path, answer: Answer) -> AsyncIterator[Tree]:
    """Yield the `clientConfig` of a webhook that runs."""
    pki = Pki(folder / "webhook", SystemClock())
    server = pki.server(["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.certificate_file, server.key_file)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = next(
            int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
        )
        given = answer(json.loads(await reader.readexactly(size)))
        body = given if isinstance(given, bytes) else json.dumps(given).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    running = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = running.sockets[0].getsockname()[1]
    authority = base64.b64encode(pki.authority.certificate).decode()
    try:
        yield {"url": f"https://127.0.0.1:{port}/convert", "caBundle": authority}
    finally:
        running.close()
