"""What ten policies, and a quota, cost a pod that is created over HTTPS on disk: processor time of the server.

Run as `python -m benchmarks admission_over_https`. Two servers, one of them with the ten policies of ``policies.py``,
get pods on 32 connections, in turns; both have a namespace with a quota and one without. Pods have the same text
except for the name, as those of one client have, or another label each. Each turn with policies or a quota is compared
with the plain one beside it, and the order alternates, so that other load affects both equally. Targets for the medians
of these ratios: ten policies cost at most 1.3 times, a quota 1.15 times.
"""

import json
import statistics
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.apiserver import _Connection, _Server
from benchmarks.controllers import _cpu_seconds
from benchmarks.policies import _EXPRESSIONS, _GROUP, _POD, policy_and_binding
from benchmarks.quotas import _HARD
from benchmarks.requests import _AT_ONCE, _send

_PODS, _ROUNDS = 640, 30
_JSON = "application/json"
Body = Callable[[str], bytes]


def _same(name: str) -> bytes:
    return _text(name, {"app": "web"})


def _other(name: str) -> bytes:
    return _text(name, {"app": "web", "own": name})


def _text(name: str, labels: dict[str, str]) -> bytes:
    containers = [
        {**each, "resources": {**each["resources"], "limits": {"memory": "128Mi"}}}
        for each in _POD["spec"]["containers"]
    ]
    return json.dumps({"metadata": {"name": name, "labels": labels}, "spec": {"containers": containers}}).encode()


class _Client:
    """A server, and connections to it; handshakes are not what is measured."""

    def __init__(self, server: _Server, connections: list[_Connection]) -> None:
        self.server = server
        self.connections = connections


async def _prepare(client: _Client, *, policies: bool) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []
    for namespace in ("plain", "limited"):
        asked.append(("/api/v1/namespaces", {"metadata": {"name": namespace}}))
        asked.append((f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}}))
    if policies:
        for number, expression in enumerate(_EXPRESSIONS):
            policy, binding = policy_and_binding(number, expression, "pods")
            asked.append((f"{_GROUP}/validatingadmissionpolicies", policy))
            asked.append((f"{_GROUP}/validatingadmissionpolicybindings", binding))
    asked.append(("/api/v1/namespaces/limited/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": _HARD}}))
    for path, body in asked:
        await _send(client.connections[:1], iter([("POST", path, json.dumps(body).encode(), _JSON)]))


async def _pods(client: _Client, namespace: str, mark: str, body: Body) -> float:
    """Microseconds of the server for a pod."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    asked = [("POST", path, body(f"{mark}-{number}"), _JSON) for number in range(_PODS)]
    before = _cpu_seconds(client.server.pid)
    await _send(client.connections, iter(asked))
    return (_cpu_seconds(client.server.pid) - before) / _PODS * 1e6


async def _run(*servers: _Server) -> None:
    async with AsyncExitStack() as stack:
        clients = []
        for server in servers:
            opened = [await stack.enter_async_context(await _Connection.open(server)) for _ in range(_AT_ONCE)]
            clients.append(_Client(server, opened))
        await _compare(*clients)


async def _compare(without: _Client, with_policies: _Client) -> None:
    await _prepare(without, policies=False)
    await _prepare(with_policies, policies=True)
    sorts = {"plain": (without, "plain"), "quota": (without, "limited"), "policies": (with_policies, "plain")}
    for how, body in (("the same text except for the name", _same), ("another label each", _other)):
        found: dict[str, list[float]] = {name: [] for name in sorts}
        for turn in range(_ROUNDS + 1):
            for name in sorted(sorts, reverse=turn % 2 == 1):
                client, namespace = sorts[name]
                found[name].append(await _pods(client, namespace, f"{body.__name__[1:]}-{name}-{turn}", body))
        for name, rounds in found.items():
            times = [one / plain for one, plain in zip(rounds, found["plain"], strict=True)][1:]
            low, middle, high = statistics.quantiles(times, n=4)
            spread = f"{middle:5.2f} times (half of the turns: {low:.2f} to {high:.2f})" if name != "plain" else ""
            print(f"{how}: {name:<9} {statistics.median(rounds[1:]):6.0f} µs a pod   {spread}", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        servers = [_Server(Path(one)), _Server(Path(other))]
        try:
            uvloop.run(_run(*servers))
        finally:
            for server in servers:
                server.stop()


if __name__ == "__main__":
    main()
