"""Quotas and what they count, for tests."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from api_caller import PODS, ApiCaller, pod
from mooring.apiserver.registry.quota.recount import Recount

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
Tree = dict[str, Any]


def quota(hard: Mapping[str, str], name: str = "q") -> Tree:
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": {**hard}}}


def asking(name: str, cpu: str) -> Tree:
    """Return a pod that asks for some cpu."""
    container = {"name": "c", "image": "img", "resources": {"requests": {"cpu": cpu}}}
    return pod(name, containers=[container])


@asynccontextmanager
async def counting(*servers: ApiCaller) -> AsyncIterator[None]:
    """Servers that count what is used, as running ones do."""
    contexts = [server.resources.context for server in servers]
    recounts = (Recount(each.accounting, each.store, each.kinds, each.clock) for each in contexts)
    tasks = [asyncio.create_task(recount.run()) for recount in recounts]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def counted(api: ApiCaller, name: str = "q") -> Tree:
    """Return the usage of a quota, once it was counted."""
    async with asyncio.timeout(10):
        while True:
            found = (await api.get(f"{QUOTAS}/{name}")).body
            if found["status"].get("hard") == found["spec"]["hard"]:
                used: Tree = found["status"].get("used", {})
                return used
            await asyncio.sleep(0.005)


async def counted_as(api: ApiCaller, wanted: Tree) -> None:
    """Wait until a quota says what it should."""
    for _ in range(1000):
        if await counted(api) == wanted:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"{await counted(api)} instead of {wanted}")


async def used_and_there(api: ApiCaller) -> tuple[int, int]:
    """How many pods a quota says there are, and how many there are."""
    used = (await api.get(f"{QUOTAS}/q")).body["status"]["used"]["count/pods"]
    return int(used), len((await api.get(PODS)).names)
