"""Custom resources beside ConfigMaps of the same size, a schema that validates an object, and many definitions at once.

Run as `python -m benchmarks custom_resources`. All of it runs without a socket on a store in memory, in turns, so that
both kinds have the same machine; times are those of the processor. Targets: custom objects are created at 0.7 times
the rate of ConfigMaps or more, an object of 2 KB is validated in 100 µs, 500 definitions are there in 20 s, and
discovery takes 50 ms. Texts are different in every object, so that no cache of patterns helps.
"""

import asyncio
import json
import time
from typing import Any

import msgspec

from mooring.admission.custom.validation import SchemaErrors, compile_schema
from mooring.admission.options import AdmissionOptions
from mooring.api.apiextensions_v1 import JSONSchemaProps
from mooring.api.authentication_v1 import UserInfo
from mooring.api.scheme import Scheme
from mooring.apiserver.extension.definitions import Definitions
from mooring.apiserver.messages.http import Request
from mooring.apiserver.messages.routes import resolve
from mooring.apiserver.output.discovery import Discovery
from mooring.apiserver.registry import HandlerContext, Resources, bootstrap
from mooring.apiserver.registry.storage.stored import StoredKinds
from mooring.base.clock import SystemClock
from mooring.store.memory import MemoryStore

_OBJECTS, _ROUNDS, _FIELDS, _DEFINITIONS = 300, 6, 20, 500
_TEXT = {"type": "string", "maxLength": 200, "pattern": "^[-a-z0-9 ]+$"}
_PORT = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
}
_SPEC = {**{f"field{number}": _TEXT for number in range(_FIELDS)}, "ports": {"type": "array", "items": _PORT}}
_SCHEMA: dict[str, Any] = {"type": "object", "properties": {"spec": {"type": "object", "properties": _SPEC}}}
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def _definition(number: int) -> dict[str, Any]:
    plural = f"kinds{number}"
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _SCHEMA}}
    spec = {
        "group": "bench.example.com",
        "scope": "Namespaced",
        "names": {"plural": plural, "kind": f"Kind{number}"},
        "versions": [version],
    }
    return {"metadata": {"name": f"{plural}.bench.example.com"}, "spec": spec}


def _custom(mark: str, ports: int = 20) -> dict[str, Any]:
    listed = [{"name": f"p{number}", "port": number} for number in range(ports)]
    texts = {f"field{number}": f"some text of a field {mark} {number}" for number in range(_FIELDS)}
    return {"metadata": {"name": f"c{mark}"}, "spec": {**texts, "ports": listed}}


def _config_map(mark: str) -> dict[str, Any]:
    texts = {f"field{number}": f"some text of a field {mark} {number} " + "x" * 30 for number in range(_FIELDS)}
    return {"metadata": {"name": f"c{mark}"}, "data": texts}


class _Server:
    def __init__(self, store: MemoryStore) -> None:
        self.scheme = Scheme()
        self.resources = Resources(HandlerContext(store, StoredKinds(self.scheme), AdmissionOptions()))
        self.definitions = Definitions(store, self.scheme, self.resources, SystemClock())

    async def post(self, path: str, body: bytes) -> None:
        headers = {"content-type": "application/json", "user-agent": "bench/1"}
        request = Request(method="POST", path=path, headers=headers, body=body, user=UserInfo(username="admin"))
        route = resolve(self.scheme, path)
        if route is None:
            raise LookupError(path)
        await self.resources.handle(request, route)

    async def define(self, number: int) -> None:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await self.post(path, json.dumps(_definition(number)).encode())
        await self.definitions.catch_up()


async def _creates(server: _Server) -> None:
    await server.define(0)
    custom = "/apis/bench.example.com/v1/namespaces/default/kinds0"
    best: dict[str, float] = {}
    for turn in range(_ROUNDS):
        for name, path, make in (
            ("custom", custom, _custom),
            ("ConfigMap", "/api/v1/namespaces/default/configmaps", _config_map),
        ):
            bodies = [json.dumps(make(f"{turn}-{number}")).encode() for number in range(_OBJECTS)]
            began = time.process_time()
            for body in bodies:
                await server.post(path, body)
            best[name] = min(best.get(name, 1e9), (time.process_time() - began) / _OBJECTS)
    for name, seconds in best.items():
        print(f"create {name}: {seconds * 1e6:.0f} µs")
    print(f"rate of custom objects / ConfigMaps: {best['ConfigMap'] / best['custom']:.2f}")


def _measure_validation() -> None:
    check = compile_schema(msgspec.convert(_SCHEMA, JSONSchemaProps))
    trees = [_custom(f"j{number}", ports=44) for number in range(200)]
    best = 1e9
    for turn in range(5):
        fresh = [json.loads(json.dumps(tree).replace("some text", f"text {turn} of")) for tree in trees]
        began = time.process_time()
        for tree in fresh:
            check(tree, None, SchemaErrors(None))
        best = min(best, (time.process_time() - began) / len(fresh))
    print(f"an object of {len(json.dumps(trees[0]))} bytes validated: {best * 1e6:.0f} µs")


async def _many(server: _Server) -> None:
    began = time.process_time()
    for number in range(1, _DEFINITIONS + 1):
        await server.define(number)
    print(f"{_DEFINITIONS} definitions: {time.process_time() - began:.1f} s")
    began = time.process_time()
    Discovery(server.scheme).handle(Request(method="GET", path="/apis", headers={"accept": _AGGREGATED}))
    print(f"discovery after them: {(time.process_time() - began) * 1e3:.1f} ms")


async def _run() -> None:
    store = await MemoryStore.open(clock=SystemClock())
    server = _Server(store)
    await bootstrap(server.resources)
    task = asyncio.create_task(server.definitions.run())
    await server.definitions.wait_for_sync()
    await _creates(server)
    _measure_validation()
    await _many(server)
    task.cancel()
    await store.close()


def main() -> None:
    asyncio.run(_run())


if __name__ == "__main__":
    main()
