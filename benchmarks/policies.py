"""What admission policies cost a pod that is created: with none, with ten that match it, with a thousand for others.

Run as `python -m benchmarks policies`. All of it runs without a socket on a store in memory, in turns, so that all have
the same machine; times are those of the processor, the best of several rounds. Target: a pod with ten policies costs at
most 1.3 times one without.
"""

import asyncio
import json
import time
from typing import Any

from prometheus_client import CollectorRegistry

from mooring.admission.options import AdmissionOptions
from mooring.api.authentication_v1 import UserInfo
from mooring.api.scheme import Scheme
from mooring.apiserver.extension.policies import PolicyStep
from mooring.apiserver.messages.http import Request
from mooring.apiserver.messages.routes import resolve
from mooring.apiserver.registry import HandlerContext, Resources, bootstrap
from mooring.apiserver.registry.admission.chain import Chain
from mooring.apiserver.registry.admission.metrics import AdmissionMetrics
from mooring.apiserver.registry.storage.decoded_cache import DecodedCache
from mooring.apiserver.registry.storage.stored import StoredKinds
from mooring.base.clock import SystemClock
from mooring.constraints.celenv.authorizer import deny_all
from mooring.store.memory import MemoryStore

_PODS, _ROUNDS = 100, 30
_GROUP = "/apis/admissionregistration.k8s.io/v1"
_EXPRESSIONS = (
    "object.spec.containers.all(c, !c.image.endsWith(':latest'))",
    "object.spec.containers.all(c, has(c.resources.requests) && 'cpu' in c.resources.requests)",
    "!has(object.spec.hostNetwork) || !object.spec.hostNetwork",
    "has(object.metadata.labels) && 'app' in object.metadata.labels",
    "object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))",
    "!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.hostPath))",
    "object.spec.containers.all(c, !has(c.securityContext) || !has(c.securityContext.privileged))",
    "object.metadata.name.size() < 60",
    "request.userInfo.username != 'system:anonymous'",
    "namespaceObject.metadata.name != 'kube-public'",
)
_POD: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "containers": [
            {
                "name": name,
                "image": f"registry.example.com/{name}:1.2",
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                "env": [{"name": "A", "value": "b"}],
                "ports": [{"containerPort": 80}],
            }
            for name in ("web", "side")
        ]
    },
}


def policy_and_binding(number: int, expression: str, resource: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a policy for the creation of pods, or of another resource, as JSON."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    metadata = {"name": f"policy-{number}"}
    bound = {"policyName": metadata["name"], "validationActions": ["Deny"]}
    return {"metadata": metadata, "spec": spec}, {"metadata": metadata, "spec": bound}


class _Server:
    def __init__(self, name: str, store: MemoryStore) -> None:
        self.name = name
        self.scheme = Scheme()
        self.metrics = AdmissionMetrics(CollectorRegistry())
        decoded = DecodedCache()
        self.policies = PolicyStep(store, self.scheme, deny_all, self.metrics, decoded)
        chain = Chain([self.policies], self.metrics)
        self.resources = Resources(
            HandlerContext(store, StoredKinds(self.scheme), AdmissionOptions(), extensions=chain, decoded=decoded)
        )
        self.rounds: list[float] = []

    async def post(self, path: str, body: dict[str, Any]) -> None:
        headers = {"content-type": "application/json", "user-agent": "bench/1"}
        raw = json.dumps(body).encode()
        request = Request(method="POST", path=path, headers=headers, body=raw, user=UserInfo(username="admin"))
        route = resolve(self.scheme, path)
        if route is None:
            raise LookupError(path)
        await self.resources.handle(request, route)

    async def add(self, number: int, expression: str, resource: str) -> None:
        policy, binding = policy_and_binding(number, expression, resource)
        await self.post(f"{_GROUP}/validatingadmissionpolicies", policy)
        await self.post(f"{_GROUP}/validatingadmissionpolicybindings", binding)

    async def pods(self, begin: int) -> None:
        started = time.process_time()
        for number in range(begin, begin + _PODS):
            pod = {**_POD, "metadata": {**_POD["metadata"], "name": f"pod-{number}"}}
            await self.post("/api/v1/namespaces/default/pods", pod)
        self.rounds.append(time.process_time() - started)


async def _run() -> dict[str, float]:
    names = ("no policies", "ten policies", "a thousand for Services")
    servers = [_Server(name, await MemoryStore.open(clock=SystemClock())) for name in names]
    following = []
    for server in servers:
        await bootstrap(server.resources)
        following.append(asyncio.create_task(server.policies.run()))
        account = {"metadata": {"name": "default"}}
        await server.post("/api/v1/namespaces/default/serviceaccounts", account)
    for number, expression in enumerate(_EXPRESSIONS):
        await servers[1].add(number, expression, "pods")
    for number in range(1000):
        await servers[2].add(number, "false", "services")
    for server in servers:
        await server.policies.wait_for_sync()
        await server.policies.catch_up()
        await server.pods(0)
        server.rounds.clear()
    for turn in range(1, _ROUNDS + 1):
        for server in servers:
            await server.pods(turn * _PODS)
    for task in following:
        task.cancel()
    return {server.name: min(server.rounds) / _PODS * 1e6 for server in servers}


def main() -> None:
    """Microseconds a pod, and how many times that of a server without policies."""
    found = asyncio.run(_run())
    first = found["no policies"]
    for name, micros in found.items():
        print(f"{name:<25} {micros:8.1f} µs a pod   {micros / first:5.2f} times")


if __name__ == "__main__":
    main()
