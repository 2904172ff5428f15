"""What a refusal says is short, however much is wrong and however long the values are."""

import tracemalloc
from dataclasses import dataclass
from typing import Any

import pytest

from app_calls import Answer, Caller
from attack_users import APPLY, MERGE, ROLES, rule, user_with
from mooring.api import field_errors
from mooring.api.field_path import Path
from mooring.api.response_limits import MAX_CAUSES, MAX_QUOTED, MAX_WARNINGS, limited_warnings

pytestmark = pytest.mark.req("S.6")
PODS = "/api/v1/namespaces/default/pods"
LONG = "A" * 2_000_000
ANSWER = 400_000
"""Bytes that no refusal is longer than: causes, and a message that repeats them."""
MEMORY = 40 * 1024 * 1024
"""What a request of two megabytes may take, with all copies of it."""


def _pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


@dataclass(frozen=True)
class Refused:
    """A request that is wrong at great length."""

    about: str
    path: str
    body: Any
    method: str = "POST"
    content_type: str = "application/json"


RESOURCE = "/apis/resource.k8s.io/v1"
CASES = [
    Refused(
        "an item for each comma of a long value",
        PODS,
        _pod(volumes=[{"name": "v", "quobyte": {"registry": "a," * 100_000, "volume": "v"}}]),
    ),
    Refused(
        "a pool's name with very many parts",
        f"{RESOURCE}/resourceslices",
        {
            "metadata": {"name": "s"},
            "spec": {"driver": "d.example.com", "nodeName": "n", "pool": {"name": "A/" * 500_000}},
        },
    ),
    Refused("a long name", PODS, {**_pod(), "metadata": {"name": LONG}}),
    Refused("a long label", PODS, {**_pod(), "metadata": {"name": "p", "labels": {LONG: LONG}}}),
    Refused("a long kind", PODS, {**_pod(), "kind": LONG}),
    Refused("a long version", PODS, {**_pod(), "apiVersion": LONG}),
    Refused("a long type of a value", PODS, _pod(nodeName=[LONG])),
    Refused(
        "very many fields that nobody knows", f"{PODS}?fieldValidation=Strict", {f"f{n}": 1 for n in range(50_000)}
    ),
    Refused("very many wrong tolerations", PODS, _pod(tolerations=[{"operator": "X", "key": "-"}] * 12_000)),
    Refused(
        "a reference to many owners in each of many errors",
        PODS,
        {
            **_pod(),
            "metadata": {
                "name": "p",
                "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "controller": True}]
                * 5_000,
            },
        },
    ),
    Refused(
        "a long path in a JSON patch",
        f"{PODS}/q",
        [{"op": "remove", "path": f"/{LONG}"}],
        "PATCH",
        "application/json-patch+json",
    ),
    Refused(
        "very many fields of another manager",
        f"{ROLES}/mallory-may?fieldManager=m",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "mallory-may", "labels": {f"l{n}": "x" for n in range(3_000)}},
        },
        "PATCH",
        APPLY,
    ),
    Refused("a long selector", f"{PODS}?labelSelector=%21" + "A" * 50_000, None, "GET", ""),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.about)
async def test_a_refusal_is_short(call: Caller, case: Refused) -> None:
    await user_with(call, rule("get", "pods"))
    await call("POST", PODS, {**_pod(), "metadata": {"name": "q"}})
    labels = {"metadata": {"labels": {f"l{n}": "y" for n in range(3_000)}}}
    await call("PATCH", f"{ROLES}/mallory-may", labels, content_type=MERGE)
    tracemalloc.start()
    try:
        answer = await call(case.method, case.path, case.body, content_type=case.content_type)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 400 <= answer.status < 500, answer.body[:300]
    assert len(answer.body) < ANSWER
    assert len(answer.json.get("details", {}).get("causes", [])) <= MAX_CAUSES
    assert peak < MEMORY


def _lengths(answer: Answer) -> list[int]:
    return [len(text) for text in answer.warnings]


async def test_warnings_are_as_few_and_short_as_clients_take_them(call: Caller) -> None:
    """Python's HTTP client refuses an answer with more than a hundred headers."""
    aliases = [{"ip": "10.0.0.1", "hostnames": ["a"]}] * 3_900
    answer = await call("POST", f"{PODS}?dryRun=All", _pod(hostAliases=aliases))
    assert answer.status == 201
    assert 10 < len(answer.warnings) <= MAX_WARNINGS
    assert sum(_lengths(answer)) < 6000


WARNINGS = [
    ("short ones stay as they are", ["a", "b"], ["a", "b"]),
    ("one that is said twice is told once", ["a", "b", "a"], ["a", "b"]),
    ("a single long one stays whole while there is room", ["x" * 4000], ["x" * 4000]),
    ("long ones are cut when they are too long together", ["x" * 3000, "y" * 3000], ["x" * 256, "y" * 256]),
]


@pytest.mark.parametrize(("texts", "reported"), [case[1:] for case in WARNINGS], ids=[case[0] for case in WARNINGS])
def test_warnings(texts: list[str], reported: list[str]) -> None:
    assert limited_warnings(texts) == reported


def test_a_validation_stops_when_it_has_found_more_than_anybody_reads() -> None:
    made = 0

    def validate() -> list[field_errors.FieldError]:
        nonlocal made
        while True:
            made += 1
            field_errors.required(Path("spec"))

    assert len(field_errors.run_within_budget(validate)) == MAX_CAUSES + 1
    assert made < 20_000


def test_a_value_is_quoted_up_to_a_length() -> None:
    whole = field_errors.invalid(Path("spec"), "a" * MAX_QUOTED, "is wrong")
    assert str(whole) == f'spec: Invalid value: "{"a" * MAX_QUOTED}": is wrong'
    cut = field_errors.invalid(Path("spec"), "a" * (MAX_QUOTED + 1), "is wrong")
    assert str(cut) == f'spec: Invalid value: "{"a" * MAX_QUOTED}"...({MAX_QUOTED + 1} characters): is wrong'
