"""Every kind at every served version goes through the whole life of an object over the API."""

from typing import Any

import pytest

from admission_kinds import EXAMPLES, name_for
from api_caller import ApiCaller, api_caller
from mooring.admission.registry import strategy_of
from mooring.api.kinds import Kind
from mooring.api.scheme import Scheme

pytestmark = pytest.mark.req("S.1", "4330.4")

SCHEME = Scheme(runtime_config={"api/all": True})
POD = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
KINDS = [kind for kind in SCHEME.served if kind.stored]


def url_of(kind: Kind) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    return f"{root}/namespaces/default/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"


async def example(api: ApiCaller, kind: Kind) -> dict[str, Any]:
    """Return a valid object in a version, which the server itself converts from the newest one if need be."""
    name = name_for(kind.kind)
    api_version, tree = ("v1", POD) if kind.kind == "Pod" else EXAMPLES[kind.kind]
    newest = api.scheme.kind(api_version, kind.kind)
    assert newest is not None
    made = await api.post(f"{url_of(newest)}?dryRun=All", {"metadata": {"name": name}, **tree})
    assert made.code == 201, made.message
    if newest is kind:
        return {"apiVersion": api_version, "kind": kind.kind, "metadata": {"name": name}, **tree}
    await api.post(url_of(newest), {"metadata": {"name": name}, **tree})
    body = (await api.get(f"{url_of(kind)}/{name}")).body
    await api.delete(f"{url_of(newest)}/{name}?gracePeriodSeconds=0")
    await api.patch(f"{url_of(newest)}/{name}", {"metadata": {"finalizers": None}})
    body["metadata"] = {"name": name}
    return body


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version} {kind.kind}")
async def test_the_life_of(kind: Kind) -> None:
    async with api_caller(SCHEME) as api:
        url = url_of(kind)
        body = await example(api, kind)
        created = await api.post(url, body)
        assert created.code == 201, created.message
        assert (created.body["kind"], created.body["apiVersion"]) == (kind.kind, kind.api_version)
        name = body["metadata"]["name"]
        one = f"{url}/{name}"
        assert (await api.get(one)).body == created.body
        assert name in (await api.get(url)).names
        assert (await api.put(one, created.body)).body == created.body, "an update that changes nothing"
        patched = await api.patch(one, {"metadata": {"labels": {"a": "b"}}})
        assert patched.code == 200, patched.message
        config = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"labels": {"c": "d"}}}
        applied = await api.apply(one, config)
        assert applied.code == 200, applied.message
        assert applied.body["metadata"]["labels"].items() >= {"a": "b", "c": "d"}.items()
        await subresources(api, kind, one)
        watched = await api.watch(f"{url}?resourceVersion={created.version}", 2)
        assert [event["type"] for event in watched] == ["MODIFIED", "MODIFIED"]
        table = await api.get(url, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        assert name in [row["cells"][0] for row in table.body["rows"]] or kind.kind == "Event"
        deleted = await api.delete(f"{one}?propagationPolicy=Background")
        assert deleted.code == 200, deleted.message
        if (await api.get(one)).code == 200:  # something waits for its finalizer
            assert deleted.body["metadata"]["deletionTimestamp"]


async def subresources(api: ApiCaller, kind: Kind, one: str) -> None:
    for subresource in kind.subresources:
        if "get" not in subresource.verbs or subresource.streams:
            continue
        answer = await api.get(f"{one}/{subresource.name}")
        assert answer.code == 200, f"{subresource.name}: {answer.message}"
        same = await api.put(f"{one}/{subresource.name}", answer.body)
        assert (same.code, same.body) == (200, answer.body), f"{subresource.name}: {same.message}"
        patched = await api.patch(f"{one}/{subresource.name}", {"metadata": {}})
        assert (patched.code, patched.body) == (200, answer.body), f"{subresource.name}: {patched.message}"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version} {kind.kind}")
async def test_what_is_not_there_is_not_found(kind: Kind) -> None:
    async with api_caller(SCHEME) as api:
        one = f"{url_of(kind)}/none"
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "none"}}
        assert (await api.get(one)).code == 404
        assert (await api.delete(one)).code == 404
        assert (await api.patch(one, {})).code == 404
        if not strategy_of(SCHEME.hub(kind).type).allow_create_on_update:
            assert (await api.put(one, body)).code == 404
        for subresource in kind.subresources:
            if "get" in subresource.verbs and not subresource.streams:
                assert (await api.get(f"{one}/{subresource.name}")).code == 404
                assert (await api.patch(f"{one}/{subresource.name}", {})).code == 404
