"""The HTTPS server of the bridge's webhooks, with certificates that it makes and renews itself.

The authority is kept in a Secret that all copies of the bridge share; each signs a certificate for itself and renews it
while it serves. `publish` writes the authority into the webhook configurations, so that the API server trusts it.
"""

import asyncio
import base64
import socket
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvicorn

from mooring.api import codec, errors
from mooring.api.core_v1 import Secret
from mooring.api.meta_v1 import ObjectMeta
from mooring.apiserver.access.pki import Pki, PkiError
from mooring.base import logs
from mooring.bridge.webhooks import Json, NodeReviews, PodReviews, ReviewError, answer, reviewed
from mooring.client import Client, ClientError

AUTHORITY = "mooring-bridge-authority"
"""The name of the Secret."""
CONFIGURATIONS = {
    "mutatingwebhookconfigurations": "mooring-bridge",
    "validatingwebhookconfigurations": "mooring-bridge",
}
_FILES = ("ca.crt", "ca.key")
_FRESH_SECONDS = 300.0
"""So often certificates are renewed where it is time, and configurations that were replaced get the authority back."""
_SECONDS = 30.0
"""An API server waits no longer for a webhook."""
_MOST_BYTES = 8 * 1024 * 1024
_API = "/apis/admissionregistration.k8s.io/v1"
log = logs.get(__name__)


class _Server(uvicorn.Server):
    """uvicorn, with signals left to the caller."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class WebhookServer:
    """Listens while it is entered."""

    def __init__(self, client: Client, *, address: str, port: int, namespace: str, service: str) -> None:
        self._client = client
        self._namespace = namespace
        self._names = [service, f"{service}.{namespace}", f"{service}.{namespace}.svc", "localhost", "127.0.0.1"]
        self._reviews: dict[str, Callable[[Mapping[str, Any]], Awaitable[Json]]] = {
            "/pods": PodReviews().review,
            "/nodes": NodeReviews(client).review,
        }
        self._address, self._port = address, port
        self._stack = ExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._server: uvicorn.Server | None = None

    async def __aenter__(self) -> Self:
        """Raises OSError when the address is taken, StatusError when the Secret cannot be kept."""
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mooring-bridge-")))
            self._pki = await self._shared_authority(folder)
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
            self._renew()
            self._listen(stack)
            self._stack = stack.pop_all()
        return self

    def _listen(self, stack: ExitStack) -> None:
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
        config = uvicorn.Config(self._serve, interface="asgi3", log_config=None, lifespan="off")
        config.load()
        config.ssl = self._tls
        self._server = _Server(config)
        serving = self._server.serve(sockets=[listening])
        self._tasks = [asyncio.create_task(serving), asyncio.create_task(self._keep_fresh())]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.should_exit = True
        for task in self._tasks[1:]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._stack.close()

    @property
    def authority(self) -> bytes:
        """The certificate to trust, in PEM."""
        return self._pki.authority.certificate

    # -- certificates

    async def _shared_authority(self, folder: Path) -> Pki:
        """The authority of the Secret, or a new one that all copies then use."""
        while True:
            with suppress(errors.NotFound):
                secret = await self._client.get(Secret, AUTHORITY, self._namespace)
                return self._authority_of(secret, folder)
            made = Pki(folder, self._client.clock)
            _ = made.authority  # makes it
            data = {name: (folder / name).read_bytes() for name in _FILES}
            metadata = ObjectMeta(name=AUTHORITY, namespace=self._namespace)
            with suppress(errors.AlreadyExists):  # another copy was faster: take that one
                await self._client.create(Secret(metadata=metadata, data=data))

    def _authority_of(self, secret: Secret, folder: Path) -> Pki:
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

    def _renew(self) -> None:
        pair = self._pki.server(self._names)
        self._tls.load_cert_chain(pair.certificate_file, pair.key_file)

    async def _keep_fresh(self) -> None:
        while True:
            await self._client.clock.sleep(_FRESH_SECONDS)
            self._renew()
            try:
                await self.publish()
            except (errors.StatusError, ClientError) as error:
                log.warning("cannot write the authority of the webhooks into their configurations: %s", error)

    async def publish(self) -> list[str]:
        """Write the authority into the webhook configurations that there are and that we may write; their names."""
        found = []
        bundle = base64.b64encode(self.authority).decode()
        for plural, name in CONFIGURATIONS.items():
            path = f"{_API}/{plural}/{name}"
            with suppress(errors.NotFound, errors.Forbidden):
                await self._trust(path, bundle)
                found.append(f"{plural}/{name}")
        return found

    async def _trust(self, path: str, bundle: str) -> None:
        """Write the authority into one configuration, where it is not there."""
        current = codec.json_tree((await self._client.raw("GET", path)).body)
        operations = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle}
            for index, hook in enumerate(current.get("webhooks") or [])
            if hook.get("clientConfig", {}).get("caBundle") != bundle
        ]
        if operations:
            body = codec.encode(operations)
            await self._client.raw("PATCH", path, body=body, content_type="application/json-patch+json")

    # -- requests

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        review = self._reviews.get(scope["path"])
        if review is None or scope["method"] != "POST":
            await _respond(send, 404, b"there are POST /pods and POST /nodes\n", "text/plain")
            return
        try:
            async with asyncio.timeout(_SECONDS):
                body = await _body(receive)
            request, uid, version = answer(body)
            await _respond(send, 200, reviewed(await review(request), uid, version), "application/json")
        except ReviewError as error:
            await _respond(send, 400, f"{error}\n".encode(), "text/plain")
        except TimeoutError:
            await _respond(send, 408, b"the request did not arrive in time\n", "text/plain")


async def _body(receive: Any) -> bytes:
    """What was sent. Raises `ReviewError` when it is too much, or nobody is there any more."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ReviewError("the caller has gone")
        if len(body) <= _MOST_BYTES:  # what comes after that is heard, or nobody would hear the answer, but not kept
            body += message.get("body", b"")
        if not message.get("more_body"):
            break
    if len(body) > _MOST_BYTES:
        raise ReviewError(f"this is larger than {_MOST_BYTES} bytes")
    return bytes(body)


async def _respond(send: Any, status: int, body: bytes, kind: str) -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
