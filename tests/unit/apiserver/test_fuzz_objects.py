"""Random objects of every kind, shaped by its type: each is accepted or refused with a reason, and breaks nothing."""

import os
import random
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
import pytest

from admission_kinds import EXAMPLES
from api_caller import APPLY, JSON_PATCH, MERGE_PATCH, STRATEGIC, ApiCaller, api_caller
from mooring.api.kinds import Kind
from mooring.api.quantity import Quantity
from mooring.api.scheme import Scheme

pytestmark = pytest.mark.req("S.1")

SCHEME = Scheme(runtime_config={"api/all": True})
POD = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
KINDS = [kind for kind in SCHEME.served if kind.stored]
OBJECTS = 200 if os.environ.get("MOORING_FULL") else 15
TEXTS = [
    "",
    "a",
    "a-b",
    "A_b",
    "-",
    "x" * 300,
    "1",
    "5%",
    "é",
    "a/b",
    "*",
    "0950",
    "1.2.3",
    "10.0.0.1",
    "true",
    "node.x == 1",
]
TEXTS += [
    "In",
    "Exists",
    "Gt",
    "SemverGt",
    "NoExecute",
    "TCP",
    "Always",
    "2026-01-01T00:00:00Z",
    "metadata.name",
    "{}",
    "\n",
]
NUMBERS = [0, 1, -1, 80, 65536, 2**31 - 1, -(2**31)]
QUANTITIES = ["0", "1", "100m", "1Gi", "-1", "1e3"]


class Fuzzer:
    """Makes values of a type; the deeper, the simpler."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def value(self, annotation: Any, depth: int) -> Any:
        bare = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
        origin, arguments = get_origin(bare), get_args(bare)
        if origin in {Union, UnionType}:
            return self.value(self._random.choice([each for each in arguments if each is not type(None)]), depth)
        if isinstance(bare, type) and issubclass(bare, msgspec.Struct):
            return self.struct(bare, depth)
        if origin is list:
            return [self.value(arguments[0], depth + 1) for _ in range(self._random.choice([0, 1, 1, 2]))]
        if origin is dict:
            return {self._random.choice(TEXTS): self.value(arguments[1], depth + 1) for _ in range(2)}
        return self._scalar(bare)

    def struct(self, cls: type[msgspec.Struct], depth: int) -> dict[str, Any]:
        chance = max(0.1, 0.7 - depth / 10)
        return {
            info.encode_name: self.value(info.type, depth + 1)
            for info in msgspec.structs.fields(cls)
            if info.name not in {"kind", "api_version"} and self._random.random() < chance
        }

    def _scalar(self, bare: Any) -> Any:
        if self._random.random() < 0.002:
            return self._random.choice([None, [], {}, "text", 1.5])  # of a wrong type
        if bare is bool:
            return self._random.random() < 0.5
        if bare is int:
            return self._random.choice(NUMBERS)
        if bare is Quantity:
            return self._random.choice(QUANTITIES)
        return self._random.choice(TEXTS)

    def some(self, tree: dict[str, Any]) -> list[tuple[str, Any]]:
        """At most one field of a tree."""
        return self._random.sample(list(tree.items()), min(len(tree), 1))

    def choice(self, *options: Any) -> Any:
        return self._random.choice(options)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version} {kind.kind}")
async def test_random_objects_of(kind: Kind) -> None:
    fuzzer = Fuzzer(f"{kind.api_version} {kind.kind}")
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    url = f"{root}/namespaces/default/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
    async with api_caller(SCHEME) as api:
        for number in range(OBJECTS):
            body = fuzzer.struct(kind.type, 0)
            if number % 2:  # a valid object with one part that is not
                known = POD if kind.kind == "Pod" else EXAMPLES[kind.kind][1]
                body = {**known, **dict(fuzzer.some(body))}
            body["metadata"] = {**fuzzer.choice({}, body.get("metadata") or {}), "name": f"x{number}"}
            body["metadata"].pop("namespace", None)
            created = await api.post(url, body)
            assert created.code < 500 or "resourceVersion" in created.message, (created.message, body)
            await change(api, fuzzer, kind, f"{url}/x{number}")
        assert (await api.get(url)).code == 200


async def change(api: ApiCaller, fuzzer: Fuzzer, kind: Kind, one: str) -> None:
    """Make some random changes of an object, whether it exists or not."""
    patch = {"apiVersion": kind.api_version, "kind": kind.kind, **fuzzer.struct(kind.type, 2)}
    patch["metadata"] = fuzzer.choice({}, {"labels": {"a": "b"}}, {"finalizers": ["example.com/x"]})
    media_type = fuzzer.choice(MERGE_PATCH, STRATEGIC, APPLY)
    answer = await api.patch(f"{one}?fieldManager=fuzz", patch, media_type)
    assert answer.code < 500, (media_type, answer.message, patch)
    path = fuzzer.choice("/metadata/labels/x", "/spec", "/status", "/metadata", "/x/y", "")
    operation = {
        "op": fuzzer.choice("add", "remove", "replace", "test"),
        "path": path,
        "value": fuzzer.choice(1, "a", {}, []),
    }
    answer = await api.patch(one, [operation], JSON_PATCH)
    assert answer.code < 500, (answer.message, operation)
    for subresource in kind.subresources:
        if "patch" in subresource.verbs and not subresource.streams:
            answer = await api.patch(f"{one}/{subresource.name}", patch, MERGE_PATCH)
            assert answer.code < 500, (subresource.name, answer.message, patch)
