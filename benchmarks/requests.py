"""What a request costs the server: processor time of its process for each, over HTTPS, by sort of request.

python -m benchmarks requests
ONLY=patch python -m benchmarks requests

The server is a process of its own, on disk; a bare client sends requests on 32 connections. Times of the processor can
be compared between commits on a machine that does other things, too; a core does at most the rate that is printed
beside them. The rate by the clock is that of the fastest round, and means something on an idle machine only.
"""

import asyncio
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.apiserver import _Connection, _pod, _Server
from benchmarks.bare_client import answered, computed, connected, request
from benchmarks.bridge import _node
from benchmarks.bridge import _pod as _gated_pod
from mooring.api import codec
from mooring.api.core_v1 import Taint, Toleration
from mooring.bridge import plan

_REQUESTS, _ROUNDS, _AT_ONCE = 1000, 3, 32
_ONLY = os.environ.get("ONLY", "")
_PODS, _MAPS, _NODES = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/configmaps", "/api/v1/nodes"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_THINGS = "/apis/bench.example.com/v1/namespaces/default/things"
_JSON, _JSON_PATCH = "application/json", "application/json-patch+json"
_MERGE, _STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class _Sort:
    """A sort of requests: how the one of a number is made, and what has to be there for it."""

    name: str
    method: str
    path: Callable[[int], str]
    body: Callable[[int], bytes]
    media: str = _JSON
    before: Callable[[int], tuple[str, bytes]] | None = None


def _thing(number: int) -> bytes:
    spec = {"size": number % 10, "name": f"thing number {number}", "ports": [{"port": 80, "name": "web"}]}
    return _text({"apiVersion": "bench.example.com/v1", "kind": "Thing", **_named(f"thing-{number}"), "spec": spec})


def _config_map(number: int) -> bytes:
    data = {f"key{each}": f"value {number} {each}" for each in range(4)}
    return _text({"apiVersion": "v1", "kind": "ConfigMap", **_named(f"map-{number}"), "data": data})


def _gated(number: int) -> bytes:
    return codec.encode({"apiVersion": "v1", "kind": "Pod", **codec.to_tree(_gated_pod("gated", number))})


def _release(number: int) -> bytes:
    """Return the bridge's patch without the test of the version, which is not known here."""
    taints = [Taint(key="sla", value=str(900 + each), effect="NoSchedule") for each in range(100)]
    pod = _gated_pod("gated", number)
    pod.spec.tolerations = [
        Toleration(key=f"node.kubernetes.io/{why}", operator="Exists", effect="NoExecute", toleration_seconds=300)
        for why in ("not-ready", "unreachable")
    ]
    values = {f"driver-{pool}": [f"1.{version}.0" for version in range(100)] for pool in range(10)}
    return codec.encode(plan.release(pod, plan.ClusterFacts(taints, values))[1:])


def _labels(number: int) -> bytes:
    return _text(
        {"metadata": {"labels": {f"constraints.mooring.dev/{number:04}{each:028}": "true" for each in range(50)}}}
    )


def _status(number: int) -> bytes:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    container = {"name": "c", "image": "registry.example/app:1.2.3", "imageID": "x", "ready": True, "restartCount": 0}
    return _text({"status": {"phase": "Running", "podIP": f"10.0.0.{number % 200 + 1}", "conditions": [ready],
                             "containerStatuses": [container]}})  # fmt: skip


def _node_body(number: int) -> bytes:
    return codec.encode({"apiVersion": "v1", "kind": "Node", **codec.to_tree(_node(number))})


def _named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"app": "web"}}}


def _text(tree: Any) -> bytes:
    return json.dumps(tree, separators=(",", ":")).encode()


_SORTS = (
    _Sort("create a pod", "POST", lambda _: _PODS, lambda number: _pod(f"pod-{number}")),
    _Sort("create a ConfigMap", "POST", lambda _: _MAPS, _config_map),
    _Sort("create a custom object", "POST", lambda _: _THINGS, _thing),
    _Sort("get a pod", "GET", lambda number: f"{_PODS}/pod-{number}", lambda _: b""),
    _Sort("patch a pod's status", "PATCH", lambda number: f"{_PODS}/pod-{number}/status", _status, _STRATEGIC),
    _Sort(
        "patch a gated pod as the bridge does",
        "PATCH",
        lambda number: f"{_PODS}/gated-{number}",
        _release,
        _JSON_PATCH,
        before=lambda number: (_PODS, _gated(number)),
    ),
    _Sort(
        "patch 50 labels of a node",
        "PATCH",
        lambda number: f"{_NODES}/node-{number}",
        _labels,
        _MERGE,
        before=lambda number: (_NODES, _node_body(number)),
    ),
)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        server = _Server(Path(directory))
        try:
            uvloop.run(_run(server))
            _measure(server)
        finally:
            server.stop()


async def _run(server: _Server) -> None:
    async with await _Connection.open(server) as connection:
        await _define([connection])


def _measure(server: _Server) -> None:
    connections = [connected(server) for _ in range(_AT_ONCE)]  # handshakes are not what is measured
    for sort in _SORTS:
        if _ONLY and not ("a pod" in sort.name and sort.method == "POST") and _ONLY not in sort.name:
            continue
        used, rates = [], []
        for turn in range(_ROUNDS):
            numbers = range(turn * _REQUESTS, (turn + 1) * _REQUESTS)
            if sort.before:
                answered(connections, [request("POST", *sort.before(number)) for number in numbers])
            asked = [request(sort.method, sort.path(number), sort.body(number), sort.media) for number in numbers]
            spent = computed(server.pid)
            rates.append(_REQUESTS / answered(connections, asked))
            used.append((computed(server.pid) - spent) / _REQUESTS * 1e6)
        rounds, least = ", ".join(f"{each:.0f}" for each in used), min(used)
        most = f"at most {1e6 / least:6,.0f}/s of a core, by the clock {max(rates):6,.0f}/s"
        print(f"{sort.name:<40} {least:6.0f} µs ({rounds}), {most}", flush=True)


async def _define(connections: list[_Connection]) -> None:
    port = {"type": "object", "properties": {"port": {"type": "integer"}, "name": {"type": "string"}}}
    fields = {"size": {"type": "integer", "minimum": 0}, "name": {"type": "string", "maxLength": 100},
              "ports": {"type": "array", "items": port}}  # fmt: skip
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "bench.example.com", "scope": "Namespaced", "versions": [version],
            "names": {"plural": "things", "kind": "Thing"}}  # fmt: skip
    body = _text({"metadata": {"name": "things.bench.example.com"}, "spec": spec})
    await _send(connections, iter([("POST", _DEFINITIONS, body, _JSON)]))


async def _send(connections: list[_Connection], asked: Iterator[tuple[str, str, bytes, str]]) -> None:
    async def some(connection: _Connection) -> None:
        for method, path, body, media in asked:
            head, answer = await connection.send(method, path, body, media)
            if not head.startswith(b"HTTP/1.1 20"):
                raise RuntimeError(f"{method} {path}: {answer.decode()}")

    await asyncio.gather(*map(some, connections))


if __name__ == "__main__":
    main()
