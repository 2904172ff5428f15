"""A server's handlers with its definitions followed: custom kinds without a socket.

async with custom_api() as api:
    await api.define(crontabs())
    await api.post(CRON_TABS, cron_tab("a"))
"""

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from api_caller import Answer, ApiCaller, api_caller
from mooring.apiserver.extension.definitions import Definitions
from mooring.store.kv import Store

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRON_TABS = "/apis/stable.example.com/v1/namespaces/default/crontabs"
Tree = dict[str, Any]

SCHEMA: Tree = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["cronSpec"],
            "properties": {
                "cronSpec": {"type": "string", "description": "When it runs."},
                "image": {"type": "string", "default": "busybox"},
                "replicas": {"type": "integer", "minimum": 1, "maximum": 10, "default": 1},
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "port": {"type": "integer", "format": "int32"}},
                    },
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {"replicas": {"type": "integer"}, "labelSelector": {"type": "string"}},
        },
    },
}


def definition(plural: str = "crontabs", kind: str = "CronTab", schema: Tree | None = None, **version: Any) -> Tree:
    """Return the definition of a kind in group stable.example.com with one version."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.stable.example.com"},
        "spec": {
            "group": "stable.example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": copy.deepcopy(SCHEMA if schema is None else schema)},
                    **version,
                }
            ],
        },
    }


def cron_tabs() -> Tree:
    """Return the definition of CronTab with all that a version can have."""
    made = definition(
        subresources={
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.labelSelector",
            },
        },
        selectableFields=[{"jsonPath": ".spec.image"}],
        additionalPrinterColumns=[
            {"name": "Spec", "type": "string", "jsonPath": ".spec.cronSpec"},
            {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
            {"name": "Ports", "type": "string", "jsonPath": ".spec.ports[?(@.port==80)].name", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    )
    made["spec"]["names"] |= {"shortNames": ["ct"], "categories": ["all"]}
    return made


def cron_tab(name: str, **spec: Any) -> Tree:
    return {
        "apiVersion": "stable.example.com/v1",
        "kind": "CronTab",
        "metadata": {"name": name},
        "spec": {"cronSpec": "* * * * *", **spec},
    }


class CustomApi(ApiCaller):
    """Calls, after which definitions have been taken in."""

    definitions: Definitions

    async def call(self, method: str, url: str, body: Any = None, **options: str) -> Answer:
        answer = await super().call(method, url, body, **options)
        if url.startswith(DEFINITIONS) and method != "GET":
            await self.definitions.catch_up()
        return answer

    async def define(self, body: Tree) -> Answer:
        """Create a definition that must be accepted."""
        answer = await self.post(DEFINITIONS, body)
        assert answer.code == 201, answer.message
        return answer


@asynccontextmanager
async def custom_api(store: Store | None = None) -> AsyncIterator[CustomApi]:
    async with api_caller(store=store) as plain:
        api = CustomApi(plain.resources, plain.scheme, plain.store, plain.clock)
        api.definitions = Definitions(plain.store, plain.scheme, plain.resources, plain.clock)
        task = asyncio.create_task(api.definitions.run())
        await api.definitions.wait_for_sync()
        try:
            yield api
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
