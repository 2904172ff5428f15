"""Calls the API server's handlers without a socket: `await api.post("/api/v1/namespaces/default/pods", pod)`.

Every call returns an `Answer`, whether it succeeded or not, as a client would see it.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from msgspec import structs

from mooring.admission.options import AdmissionOptions
from mooring.api import codec
from mooring.api.authentication_v1 import UserInfo
from mooring.api.batch_writes import PATH as BATCHES
from mooring.api.errors import StatusError
from mooring.api.scheme import Scheme
from mooring.apiserver.extension.converting import stored_with_conversion
from mooring.apiserver.extension.webhooks.caller import WebhookCaller
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.messages.routes import resolve
from mooring.apiserver.registry import HandlerContext, Resources, bootstrap
from mooring.apiserver.registry.admission.chain import Chain
from mooring.apiserver.registry.handler import Batch
from mooring.apiserver.registry.storage.stored import StoredKinds
from mooring.apiserver.requests.batch import WriteBatches
from mooring.store.kv import Store
from mooring.store.memory import MemoryStore
from mooring.testing.clock import MockClock

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@dataclass(slots=True)
class Answer:
    """What a client got."""

    code: int
    text: bytes
    warnings: list[str] = field(default_factory=list)

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.text)
        return body

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def version(self) -> str:
        return str(self.body["metadata"].get("resourceVersion", ""))

    @property
    def names(self) -> list[str]:
        """The names of a list's items."""
        return [item["metadata"]["name"] for item in self.body["items"]]


class ApiCaller:
    """A server's handlers, and how to call them."""

    def __init__(
        self, resources: Resources, scheme: Scheme, store: Store, clock: MockClock, user: UserInfo | None = None
    ) -> None:
        self.resources = resources
        self.scheme = scheme
        self.store = store
        self.clock = clock
        self.user = user or UserInfo(username="tester")

    def as_node(self, name: str) -> "ApiCaller":
        """Return the same server, called by the kubelet of a node."""
        user = UserInfo(username=f"system:node:{name}", groups=["system:nodes", "system:authenticated"])
        return ApiCaller(self.resources, self.scheme, self.store, self.clock, user)

    async def call(
        self, method: str, url: str, body: Any = None, *, accept: str = "", media_type: str = "", agent: str = "test/1"
    ) -> Answer:
        """One request; a dict is sent as JSON, bytes as they are."""
        parts = urlsplit(url)
        request = Request(
            method=method,
            path=parts.path,
            query=parse_qs(parts.query, keep_blank_values=True),
            headers={"accept": accept, "content-type": media_type or "application/json", "user-agent": agent},
            body=body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode(),
            user=self.user,
        )
        try:
            if parts.path == BATCHES:
                response = await WriteBatches(self._respond_to_batch).handle(request)
            else:
                route = resolve(self.scheme, parts.path)
                assert route is not None, f"no route for {parts.path}"
                response = await self.resources.handle(request, route)
        except StatusError as error:
            return Answer(error.status.code, codec.encode(error.status))
        assert "watch" not in request.query, "use `watch`"
        reported = (
            response.body if isinstance(response.body, bytes) else b"".join([part async for part in response.body])
        )
        return Answer(response.status, reported, list(response.warnings))

    async def _respond_to_batch(self, batch: Batch) -> list[Response]:
        routes = [route for request in batch.requests if (route := resolve(self.scheme, request.path))]
        outcomes = await self.resources.write(structs.replace(batch, routes=routes))
        assert outcomes is not None, "the writes need a request each"
        return [
            Response(outcome.status.code, codec.encode(outcome.status)) if isinstance(outcome, StatusError) else outcome
            for outcome in outcomes
            if isinstance(outcome, Response | StatusError)
        ]

    async def get(self, url: str, **options: str) -> Answer:
        return await self.call("GET", url, **options)

    async def post(self, url: str, body: Any, **options: str) -> Answer:
        return await self.call("POST", url, body, **options)

    async def put(self, url: str, body: Any, **options: str) -> Answer:
        return await self.call("PUT", url, body, **options)

    async def patch(self, url: str, body: Any, media_type: str = MERGE_PATCH, **options: str) -> Answer:
        return await self.call("PATCH", url, body, media_type=media_type, **options)

    async def apply(self, url: str, body: Any, manager: str = "applier", *, force: bool = False) -> Answer:
        query = f"?fieldManager={manager}" + ("&force=true" if force else "")
        return await self.patch(url + query, body, APPLY)

    async def delete(self, url: str, body: Any = None) -> Answer:
        return await self.call("DELETE", url, body)

    async def stream(self, url: str, accept: str = "") -> AsyncGenerator[dict[str, Any], None]:
        """Yield the events of a watch, one after the other."""
        parts = urlsplit(url)
        request = Request(
            method="GET",
            path=parts.path,
            query={"watch": ["true"], **parse_qs(parts.query, keep_blank_values=True)},
            headers={"accept": accept},
            user=self.user,
        )
        route = resolve(self.scheme, parts.path)
        assert route is not None, f"no route for {parts.path}"
        response = await self.resources.handle(request, route)
        assert not isinstance(response.body, bytes)
        async for chunk in response.body:
            for line in chunk.splitlines():
                yield json.loads(line)

    async def watch(self, url: str, count: int, accept: str = "") -> list[dict[str, Any]]:
        """Return the first `count` events of a watch."""
        events: list[dict[str, Any]] = []
        async with aclosing(self.stream(url, accept)) as stream:
            try:
                async with asyncio.timeout(20):
                    while len(events) < count:
                        events.append(await anext(stream))
            except TimeoutError:
                raise AssertionError(f"waited for {count} events, got {events}") from None
        return events


async def no_addresses(namespace: str, name: str, port: int) -> list[tuple[str, int]]:
    """Find no webhook by a Service: tests name them by URL."""
    return []


@asynccontextmanager
async def api_caller(
    scheme: Scheme | None = None,
    options: AdmissionOptions | None = None,
    store: Store | None = None,
    extend: Callable[[Store, Scheme], Chain] | None = None,
) -> AsyncIterator[ApiCaller]:
    """Yield a server's handlers on a store of their own, with what a new cluster has."""
    clock = MockClock()
    own_store = store or await MemoryStore.open(clock=clock)
    scheme = scheme or Scheme()
    context = HandlerContext(
        own_store,
        StoredKinds(scheme, stored_with_conversion(WebhookCaller(no_addresses))),
        options or AdmissionOptions(),
        clock,
        extensions=extend(own_store, scheme) if extend else None,
    )
    resources = Resources(context)
    await bootstrap(resources)
    try:
        yield ApiCaller(resources, scheme, own_store, clock)
    finally:
        if store is None:
            await own_store.close()


def pod(name: str = "web", **spec: Any) -> dict[str, Any]:
    """Return the smallest pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "img"}], **spec},
    }


def config_map(name: str = "settings", labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    """Return a ConfigMap with some data."""
    metadata: dict[str, Any] = {"name": name}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def deployment(name: str = "web", replicas: int = 1) -> dict[str, Any]:
    """Return the smallest Deployment."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "img"}]},
            },
        },
    }
