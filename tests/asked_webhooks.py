"""A server's handlers with admission webhooks that are functions: no sockets, no certificates.

async with webhook_api() as api:
    api.answers["/deny"] = says(allowed=False)
    await api.configure("Validating", hook("deny.example.com"))
    await api.post(CONFIG_MAPS, config_map("x"))
    api.asked        # what webhooks were asked, oldest first
"""

import asyncio
import inspect
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry

from api_caller import Answer, api_caller
from custom_api import CustomApi
from mooring.api.scheme import Scheme
from mooring.apiserver.extension.definitions import Definitions
from mooring.apiserver.extension.lookups import namespace_labels
from mooring.apiserver.extension.webhooks.caller import ClientConfig
from mooring.apiserver.extension.webhooks.step import WebhookStep
from mooring.apiserver.registry.admission.chain import Chain
from mooring.apiserver.registry.admission.metrics import AdmissionMetrics
from mooring.apiserver.registry.storage.decoded_cache import DecodedCache
from mooring.constraints.celenv.authorizer import deny_all
from mooring.store.kv import Store
from scripted_webhook import ANSWERS, Tree

GROUP = "/apis/admissionregistration.k8s.io/v1"
EVERYTHING: Tree = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
CONFIG_MAPS_ONLY: Tree = {**EVERYTHING, "apiGroups": [""], "resources": ["configmaps"]}


def hook(name: str, **changes: Any) -> Tree:
    """Return a webhook that is asked about config maps, at the path that its name begins with."""
    return {
        "name": name,
        "clientConfig": {"url": f"https://webhook.example.com/{name.partition('.')[0]}"},
        "rules": [CONFIG_MAPS_ONLY],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **changes,
    }


class _Functions:
    """Answers in place of webhooks."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = dict(ANSWERS)
        self.asked: list[Tree] = []

    async def call(self, config: ClientConfig, body: bytes, *, seconds: int) -> bytes:
        review = json.loads(body)
        self.asked.append(review["request"])
        found = self.answers[urlsplit(config.url or "").path](review)
        answer = await asyncio.wait_for(found, seconds) if inspect.isawaitable(found) else found
        return json.dumps(answer).encode()


class WebhookApi(CustomApi):
    """Handlers that ask webhooks, with custom kinds."""

    functions: _Functions
    registry: CollectorRegistry
    step: WebhookStep

    @property
    def answers(self) -> dict[str, Any]:
        """What webhooks answer, by path: functions or coroutines of a review."""
        return self.functions.answers

    @property
    def asked(self) -> list[Tree]:
        """The requests that webhooks were asked about."""
        return self.functions.asked

    async def call(self, method: str, url: str, body: Any = None, **options: str) -> Answer:
        answer = await super().call(method, url, body, **options)
        if url.startswith(GROUP) and method != "GET":
            await self.step.catch_up()
        return answer

    async def configure(self, sort: str, *hooks: Tree, name: str = "hooks") -> Answer:
        """Make a configuration that must be accepted."""
        kind = f"{sort}WebhookConfiguration"
        tree = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
        answer = await self.post(f"{GROUP}/{kind.lower()}s", {**tree, "webhooks": list(hooks)})
        assert answer.code == 201, answer.message
        return answer


@asynccontextmanager
async def webhook_api() -> AsyncIterator[WebhookApi]:
    functions, registry, steps = _Functions(), CollectorRegistry(), list[WebhookStep]()

    def extend(store: Store, scheme: Scheme) -> Chain:
        labels = namespace_labels(store, DecodedCache())
        metrics = AdmissionMetrics(registry)
        steps.append(WebhookStep(store, scheme, functions, labels, deny_all, metrics=metrics))
        return Chain(steps)

    async with api_caller(extend=extend) as plain:
        api = WebhookApi(plain.resources, plain.scheme, plain.store, plain.clock)
        api.functions, api.registry, api.step = functions, registry, steps[0]
        api.definitions = Definitions(plain.store, plain.scheme, plain.resources, plain.clock)
        step = api.step
        following = asyncio.gather(api.definitions.run(), step.run())
        await api.definitions.wait_for_sync()
        await step.wait_for_sync()
        try:
            yield api
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
