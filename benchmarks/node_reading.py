"""What it costs that nodes read pods in words that they know: the same lists, requested by a node and by another user.

Run as `python -m benchmarks node_reading`. Ten thousand pods lie in a store in memory and are listed without a socket,
in turns, so that both have the same machine. Target: a node's list takes at most 1.2 times as long (N.4). The first
list after pods have changed is dearer, because what they say has to be put in other words once.
"""

import asyncio
import copy
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.api import POD
from mooring.admission.options import AdmissionOptions
from mooring.api.authentication_v1 import UserInfo
from mooring.api.scheme import Scheme
from mooring.apiserver.messages.http import Request
from mooring.apiserver.messages.routes import resolve
from mooring.apiserver.registry import HandlerContext, Resources, bootstrap
from mooring.apiserver.registry.storage.stored import StoredKinds
from mooring.store.memory import MemoryStore

_PODS = 10_000
_ROUNDS = 25
_PATH = "/api/v1/namespaces/default/pods"
_ADMIN = UserInfo(username="admin")
_NODE = UserInfo(username="system:node:n1", groups=["system:nodes"])
_NEW: dict[str, Any] = {
    "tolerations": [{"key": "sla", "operator": "Gt", "value": "950"}, {"expression": "taint.key == 'cni'"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [{"key": "kernel", "operator": "SemverGt", "values": ["6.0"]}],
                        "matchCELExpressions": ["node.labels['rack'].startsWith('west')"],
                    }
                ]
            }
        }
    },
}
_NODE_OBJECT = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"kernel": "6.1.0", "rack": "west-7"}},
    "spec": {"taints": [{"key": "sla", "value": "960", "effect": "NoExecute"}]},
}


def main() -> None:
    asyncio.run(_measure())


async def _measure() -> None:
    for share, text in ((0, "none of them"), (10, "one in ten"), (1, "all of them")):
        async with _cluster(share) as cluster:
            first = await cluster.list(_NODE)
            for selector, what in (("", "all"), ("spec.nodeName=n1", "by spec.nodeName")):
                plain, node = [], []
                for _ in range(_ROUNDS):
                    plain.append(await cluster.list(_ADMIN, selector))
                    node.append(await cluster.list(_NODE, selector))
                print(
                    f"{_PODS:,} pods, {text} with new words, {what}: {min(plain):.1f} ms, by a node {min(node):.1f}, "
                    f"{min(node) / min(plain):.2f} times; the first time {first:.1f} ms",
                    flush=True,
                )


class _Cluster:
    def __init__(self, store: MemoryStore) -> None:
        self.scheme = Scheme()
        self.resources = Resources(HandlerContext(store, StoredKinds(self.scheme), AdmissionOptions()))

    async def list(self, user: UserInfo, selector: str = "") -> float:
        """Milliseconds of processor time, which other work on the machine disturbs less."""
        query = {"fieldSelector": [selector]} if selector else {}
        begin = time.process_time()
        await self._handle(Request(method="GET", path=_PATH, query=query, user=user))
        return (time.process_time() - begin) * 1000

    async def create(self, path: str, obj: dict[str, Any]) -> None:
        headers = {"content-type": "application/json"}
        await self._handle(Request(method="POST", path=path, headers=headers, body=json.dumps(obj).encode()))

    async def _handle(self, request: Request) -> None:
        route = resolve(self.scheme, request.path)
        assert route is not None
        response = await self.resources.handle(request, route)
        assert response.status < 300


@asynccontextmanager
async def _cluster(share: int) -> AsyncIterator[_Cluster]:
    """Pods of which one in `share` has new constraints (0: none)."""
    store = await MemoryStore.open()
    cluster = _Cluster(store)
    await bootstrap(cluster.resources)
    await cluster.create("/api/v1/nodes", _NODE_OBJECT)
    for number in range(_PODS):
        pod = copy.deepcopy(POD)
        pod["metadata"].update(name=f"web-{number}", namespace="default")
        pod["spec"].update(nodeName="n1", serviceAccountName="default", tolerations=[])
        if share and number % share == 0:
            pod["spec"].update(_NEW)
        await cluster.create(_PATH, pod)
    yield cluster
    await store.close()
