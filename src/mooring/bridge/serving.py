"""Serve the bridge's webhooks over HTTPS, with certificates that it issues and renews itself.

All replicas share a certificate authority in a Secret; each issues its own certificate. `publish` writes the authority
into the webhook configurations, so that the API server trusts it.
"""

import asyncio
import base64
import socket
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Self

from mooring.api import codec, errors
from mooring.api.core_v1 import Secret
from mooring.api.meta_v1 import ObjectMeta
from mooring.apiserver.access.pki import Pki, PkiError
from mooring.apiserver.edge.calls import BodyTooLargeError, ClientGoneError, HttpCall
from mooring.apiserver.edge.http_server import HttpServer
from mooring.apiserver.messages.http import Response
from mooring.base import logs
from mooring.bridge.webhooks import (
    EvictionReviews,
    Json,
    NodeReviews,
    PodReviews,
    ReviewError,
    encode_review,
    parse_review,
)
from mooring.client import Client, ClientError

AUTHORITY = "mooring-bridge-authority"
CONFIGURATIONS = {
    "mutatingwebhookconfigurations": "mooring-bridge",
    "validatingwebhookconfigurations": "mooring-bridge",
}
_FILES = ("ca.crt", "ca.key")
_FRESH_SECONDS = 300.0
"""Interval at which certificates are renewed if due, and configurations get the authority again."""
_SECONDS = 30.0
_MAX_BYTES = 8 * 1024 * 1024
_API = "/apis/admissionregistration.k8s.io/v1"
log = logs.get(__name__)


class WebhookServer:
    """The HTTPS server of the bridge's webhooks, an async context manager: it listens between enter and exit."""

    def __init__(self, client: Client, *, address: str, port: int, namespace: str, service: str) -> None:
        self._client = client
        self._namespace = namespace
        self._names = [service, f"{service}.{namespace}", f"{service}.{namespace}.svc", "localhost", "127.0.0.1"]
        self._reviews: dict[str, Callable[[Mapping[str, Any]], Awaitable[Json]]] = {
            "/pods": PodReviews().review,
            "/nodes": NodeReviews(client).review,
            "/evictions": EvictionReviews(client).review,
        }
        self._address, self._port = address, port
        self._stack = AsyncExitStack()
        self._renewing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Start listening. Raise OSError if the address is in use, StatusError if the Secret cannot be written."""
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mooring-bridge-")))
            self._pki = await self._load_or_create_authority(folder)
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
            self._renew_certificate()
            await self._start_listening(stack)
            self._stack = stack.pop_all()
        return self

    async def _start_listening(self, stack: AsyncExitStack) -> None:
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        try:
            listening = socket.create_server((self._address, self._port), family=family)
        except OSError as error:
            raise OSError(
                f"cannot listen on {self._address}:{self._port} for webhooks: {error.strerror}; "
                "choose another --webhook-port or --webhook-address"
            ) from error
        stack.enter_context(listening)
        self.port: int = listening.getsockname()[1]
        server = HttpServer(self._handle_call, listening, self._tls)
        await server.start()
        stack.push_async_callback(server.stop)
        self._renewing = asyncio.create_task(self._renew_periodically())

    async def __aexit__(self, *_: object) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        await self._stack.aclose()

    @property
    def authority(self) -> bytes:
        """Return the authority's certificate in PEM."""
        return self._pki.authority.certificate

    async def _load_or_create_authority(self, folder: Path) -> Pki:
        while True:
            with suppress(errors.NotFound):
                secret = await self._client.get(Secret, AUTHORITY, self._namespace)
                return self._read_authority(secret, folder)
            made = Pki(folder, self._client.clock)
            _ = made.authority  # generates it
            data = {name: (folder / name).read_bytes() for name in _FILES}
            metadata = ObjectMeta(name=AUTHORITY, namespace=self._namespace)
            with suppress(errors.AlreadyExists):  # another replica has created it
                await self._client.create(Secret(metadata=metadata, data=data))

    def _read_authority(self, secret: Secret, folder: Path) -> Pki:
        found = Pki(folder, self._client.clock, is_shared=True)
        try:
            for name in _FILES:
                (folder / name).write_bytes(secret.data[name])
            _ = found.authority
        except (KeyError, PkiError) as error:
            raise OSError(
                f"the Secret {self._namespace}/{AUTHORITY} is no authority for webhooks: {error}; delete it, and the "
                "bridge makes a new one"
            ) from error
        return found

    def _renew_certificate(self) -> None:
        pair = self._pki.server(self._names)
        self._tls.load_cert_chain(pair.certificate_file, pair.key_file)

    async def _renew_periodically(self) -> None:
        while True:
            await self._client.clock.sleep(_FRESH_SECONDS)
            self._renew_certificate()
            try:
                await self.publish()
            except (errors.StatusError, ClientError) as error:
                log.warning("cannot write the authority of the webhooks into their configurations: %s", error)

    async def publish(self) -> list[str]:
        """Write the authority into the existing webhook configurations; return their names."""
        found = []
        bundle = base64.b64encode(self.authority).decode()
        for plural, name in CONFIGURATIONS.items():
            path = f"{_API}/{plural}/{name}"
            with suppress(errors.NotFound, errors.Forbidden):
                await self._write_authority(path, bundle)
                found.append(f"{plural}/{name}")
        return found

    async def _write_authority(self, path: str, bundle: str) -> None:
        current = codec.parse_json((await self._client.raw("GET", path)).body)
        operations = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle}
            for index, hook in enumerate(current.get("webhooks") or [])
            if hook.get("clientConfig", {}).get("caBundle") != bundle
        ]
        if operations:
            body = codec.encode(operations)
            await self._client.raw("PATCH", path, body=body, content_type="application/json-patch+json")

    async def _handle_call(self, call: HttpCall) -> Response:
        review = self._reviews.get(call.path)
        if review is None or call.method != "POST":
            return Response(404, f"there is POST {', '.join(self._reviews)}\n".encode(), "text/plain")
        try:
            async with asyncio.timeout(_SECONDS):
                body = await call.receive_body(_MAX_BYTES)
            request, uid, version = parse_review(body)
            return Response(200, encode_review(await review(request), uid, version))
        except ReviewError as error:
            return Response(400, f"{error}\n".encode(), "text/plain")
        except BodyTooLargeError:
            return Response(400, f"this is larger than {_MAX_BYTES} bytes\n".encode(), "text/plain")
        except ClientGoneError:
            return Response(499, b"")
        except TimeoutError:
            return Response(408, b"the request did not arrive in time\n", "text/plain")
