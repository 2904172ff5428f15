"""What one request may make the server do is limited where it cannot grow with the request alone."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from app_calls import Caller
from counted_work import Work, count, watched
from mooring.admission.pod.defaults import default_pull_policy
from mooring.api.core_v1 import Pod
from mooring.api.cron_schedules import find_schedule_problem
from mooring.apiserver.registry.patch.json_patch import Inapplicable, apply
from mooring.apiserver.registry.patch.schema import schema_of
from mooring.apiserver.registry.patch.strategic import merge_object
from mooring.apiserver.registry.storage.selection import MAX_TERMS

pytestmark = pytest.mark.req("S.6")
PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize("selector", ["labelSelector", "fieldSelector"])
async def test_a_selector_has_a_limited_number_of_terms(call: Caller, selector: str) -> None:
    term = "metadata.name!=a" if selector == "fieldSelector" else "a!=b"

    async def status(terms: int) -> int:
        return (await call("GET", f"{PODS}?{selector}={','.join([term] * terms)}")).status

    assert [await status(MAX_TERMS), await status(MAX_TERMS + 1)] == [200, 400]


async def test_an_object_has_expressions_of_a_limited_length_altogether(call: Caller) -> None:
    """Each of them is right, but to compile all of them takes many seconds."""

    async def create(number: int) -> Any:
        terms = " || ".join(f"taint.value == 'v{n}'" for n in range(number))
        tolerations = [{"expression": f"taint.key == 'k{n}' && ({terms})"} for n in range(50)]
        spec = {"containers": [{"name": "c", "image": "i"}], "tolerations": tolerations}
        return await call("POST", f"{PODS}?dryRun=All", {"metadata": {"name": "p"}, "spec": spec})

    assert (await create(8)).status == 201
    refused = await create(40)
    assert refused.status == 422
    assert "takes too long to validate" in refused.message


Made = Callable[[int], tuple[dict[str, Any], dict[str, Any]]]
PATCHES: dict[str, Made] = {
    "deleting items by their key": lambda n: (
        {"spec": {"containers": [{"name": f"c{i}"} for i in range(n)]}},
        {"spec": {"containers": [{"name": f"c{i}", "$patch": "delete"} for i in range(n)]}},
    ),
    "merging items by their key": lambda n: (
        {"spec": {"containers": [{"name": f"c{i}"} for i in range(n)]}},
        {"spec": {"containers": [{"name": f"c{i}", "image": "i"} for i in range(n)]}},
    ),
    "adding to a list of words": lambda n: (
        {"metadata": {"finalizers": [f"a/b{i}" for i in range(n)]}},
        {"metadata": {"finalizers": [f"a/c{i}" for i in range(n)]}},
    ),
    "deleting from a list of words": lambda n: (
        {"metadata": {"finalizers": [f"a/b{i}" for i in range(n)]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": [f"a/b{i}" for i in range(n)]}},
    ),
    "putting items into an order": lambda n: (
        {"spec": {"containers": [{"name": f"c{i}"} for i in range(n)]}},
        {"spec": {"$setElementOrder/containers": [{"name": f"c{i}"} for i in range(0, n, 2)][::-1]}},
    ),
    "retaining fields": lambda n: (
        {"metadata": {"labels": {f"l{i}": "x" for i in range(n)}}},
        {"metadata": {"labels": {"$retainKeys": [f"l{i}" for i in range(n)]}}},
    ),
}


@pytest.mark.parametrize("make", PATCHES.values(), ids=PATCHES.keys())
def test_a_strategic_patch_grows_with_the_patch_and_the_object(make: Made) -> None:
    _merging(*make(1))  # makes the schema
    few, some, many = (_merging(*make(number)) for number in (20, 40, 80))
    for one, two, four in (
        (few.calls, some.calls, many.calls),
        (few.comparisons, some.comparisons, many.comparisons),
    ):
        assert (four - two) - 2 * (two - one) < 0.3 * 6 * 20**2


def _merging(target: dict[str, Any], patch: dict[str, Any]) -> Work:
    watched(target)
    watched(patch)
    return count(lambda: merge_object(target, patch, schema_of(Pod)))


@dataclass(frozen=True)
class Expensive:
    about: str
    document: Any
    operations: list[dict[str, Any]]


JSON_PATCHES = [
    Expensive(
        "copies that double each time",
        {"a": ["x" * 100]},
        [{"op": "copy", "from": "/a", "path": "/a/-"}] * 64,
    ),
    Expensive(
        "very many items moved one place on",
        {"a": [0] * 500_000},
        [{"op": "add", "path": "/a/0", "value": 1}] * 1_000,
    ),
]


@pytest.mark.parametrize("case", JSON_PATCHES, ids=lambda case: case.about)
def test_a_json_patch_does_a_limited_amount(case: Expensive) -> None:
    with pytest.raises(Inapplicable):
        apply(case.operations, case.document)


MIB = 1024 * 1024
LONG_STRINGS: dict[str, Callable[[], object]] = {
    "an image": lambda: default_pull_policy("a/" * MIB),
    "an image without an end": lambda: default_pull_policy("a." * MIB + "!"),
    "a schedule with many values": lambda: find_schedule_problem("0-59/1," * MIB + "1 * * * *"),
    "a schedule with a long duration": lambda: find_schedule_problem("@every " + "1h" * MIB),
}


@pytest.mark.parametrize("read", LONG_STRINGS.values(), ids=LONG_STRINGS.keys())
def test_a_long_string_is_not_parsed(read: Callable[[], object]) -> None:
    """A regular expression calls no function that could be counted; each of these took 0.4 s or more."""
    begun = time.process_time()
    read()
    assert time.process_time() - begun < 0.1
