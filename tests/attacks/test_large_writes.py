"""Work on a large object is done in a thread, whatever kind it is of and however it is written."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from app_calls import Caller
from mooring.admission import pipeline
from mooring.api.core_v1 import Pod
from mooring.apiserver.registry.apply.field_managers import FieldManagers
from mooring.apiserver.registry.storage.stored import Stored

pytestmark = pytest.mark.req("S.6")
PODS = "/api/v1/namespaces/default/pods"
APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
STEPS = ("begin_create", "finish_create", "begin_update", "finish_update")


def pod(containers: int, image: str) -> dict[str, Any]:
    spec = {"containers": [{"name": f"c{number}", "image": image} for number in range(containers)]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> set[threading.Thread]:
    """Return the threads in which pods are admitted and their field managers are computed."""
    found: set[threading.Thread] = set()

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            if any(isinstance(each, Pod) or getattr(each, "kind", "") == "Pod" for each in args):
                found.add(threading.current_thread())
            return call(*args, **kwargs)

        return run

    for name in STEPS:
        monkeypatch.setattr(pipeline, name, watched(getattr(pipeline, name)))
    for name in ("create", "update", "read_config"):
        monkeypatch.setattr(FieldManagers, name, watched(getattr(FieldManagers, name)))
    return found


WRITES = {
    "an update": ("PUT", "", "application/json"),
    "an apply": ("PATCH", "?fieldManager=m&force=true", APPLY),
    "a strategic patch": ("PATCH", "", STRATEGIC),
    "a merge patch": ("PATCH", "", MERGE),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
@pytest.mark.parametrize("containers", [2000, 1], ids=["large", "small"])
async def test_large_objects_alone_are_written_in_a_thread(
    call: Caller, threads: set[threading.Thread], write: tuple[str, str, str], containers: int
) -> None:
    method, query, media = write
    assert (await call("POST", PODS, pod(containers, "i"))).status == 201
    changed = await call(method, f"{PODS}/p{query}", pod(containers, "j"), content_type=media)
    assert changed.status == 200, changed.message
    assert (threading.current_thread() in threads) is (containers == 1)
    assert len(threads) == 1


SUBRESOURCES = {
    "a binding": ("POST", "/binding", {"target": {"name": "n"}}),
    "an eviction": ("POST", "/eviction", {"metadata": {"name": "p"}}),
    "a deletion with a grace period": ("DELETE", "", {"gracePeriodSeconds": 5}),
    "a deletion": ("DELETE", "", {"gracePeriodSeconds": 0}),
}


@pytest.mark.parametrize("write", SUBRESOURCES.values(), ids=SUBRESOURCES.keys())
@pytest.mark.parametrize("containers", [2000, 1], ids=["large", "small"])
async def test_large_objects_alone_are_decoded_and_encoded_in_a_thread(
    call: Caller, monkeypatch: pytest.MonkeyPatch, write: tuple[str, str, Any], containers: int
) -> None:
    method, path, body = write
    spec = pod(containers, "i") | {"metadata": {"name": "p", "finalizers": ["example.com/later"]}}
    assert (await call("POST", PODS, spec)).status == 201
    threads: set[threading.Thread] = set()
    for name in ("decode", "encode"):
        plain = getattr(Stored, name)

        def watched(*args: Any, plain: Callable[..., Any] = plain) -> Any:
            threads.add(threading.current_thread())
            return plain(*args)

        monkeypatch.setattr(Stored, name, watched)
    answer = await call(method, f"{PODS}/p{path}", body)
    assert answer.status in {200, 201}, answer.message
    assert (threading.current_thread() in threads) is (containers == 1)
    assert len(threads) == 1


@pytest.mark.parametrize("query", ["", "?dryRun=All"], ids=["a deletion", "a dry run"])
async def test_others_take_their_turn_while_a_collection_is_deleted(call: Caller, query: str) -> None:
    for number in range(500):
        created = {"metadata": {"name": f"c{number}"}}
        assert (await call("POST", "/api/v1/namespaces/default/configmaps", created)).status == 201
    deletion = asyncio.create_task(call("DELETE", f"/api/v1/namespaces/default/configmaps{query}"))
    turns = 0
    while not deletion.done():
        await asyncio.sleep(0)
        turns += 1
    assert (await deletion).status == 200
    assert turns >= 8
