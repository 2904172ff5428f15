"""Pods that differ in nothing but the name are judged by policies as if each were the first of its text."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from asgi_calls import ADMIN, Caller, running
from mooring.admission.policy import validating as module
from mooring.apiserver.registry.pods.like_pods import LikePods
from policy_objects import create, mutating, rules, validating

pytestmark = pytest.mark.req("X.7", "S.4")
Tree = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
NAMES = ("a", "b", "c", "bad", "d")


def pod(name: str) -> Tree:
    spec = {"containers": [{"name": "c", "image": "app:1"}], "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec}


def judging(*expressions: str, **spec: Any) -> list[Tree]:
    return validating("p", *expressions, matchConstraints=rules("pods", "CREATE"), **spec)


@dataclass(frozen=True)
class Case:
    id: str
    policies: Sequence[Tree]
    answers: Sequence[int] = (201, 201, 201, 201, 201)
    namespace: Tree = field(default_factory=dict)
    """Labels that the namespace gets before the fourth pod."""


REFUSED_BY_NAME = (201, 201, 201, 422, 201)
CASES = [
    Case("a policy that is met", judging("object.spec.containers.all(c, c.image == 'app:1')")),
    Case("one that is not", judging("object.metadata.labels.app != 'web'"), (422,) * 5),
    Case("one that looks at the name", judging("object.metadata.name != 'bad'"), REFUSED_BY_NAME),
    Case("at the name in the request", judging("request.name != 'bad'"), REFUSED_BY_NAME),
    Case("at all metadata", judging("object.metadata.all(k, object.metadata[k] != 'bad')"), REFUSED_BY_NAME),
    Case("at the object as a whole", judging("dyn(object).metadata['name'] != 'bad'"), REFUSED_BY_NAME),
    Case(
        "at the name through a variable",
        judging("variables.n != 'bad'", variables=[{"name": "n", "expression": "object.metadata.name"}]),
        REFUSED_BY_NAME,
    ),
    Case(
        "at the name in a condition",
        judging("false", matchConditions=[{"name": "m", "expression": "object.metadata.name == 'bad'"}]),
        REFUSED_BY_NAME,
    ),
    Case(
        "at the namespace",
        judging("!has(namespaceObject.metadata.labels.closed)"),
        (201, 201, 201, 422, 422),
        {"closed": "yes"},
    ),
    Case("one that only warns", judging("false", actions=("Warn",))),
    Case("one that cannot be evaluated", judging("object.spec.nothing == 1"), (422,) * 5),
    Case(
        "one that changes pods",
        mutating(
            "m",
            "Object{metadata: Object.metadata{labels: {'n': object.metadata.name}}}",
            matchConstraints=rules("pods", "CREATE"),
        ),
    ),
]


async def _answers(call: Caller, case: Case) -> list[tuple[int, str, list[str], Any]]:
    await create(call, *case.policies)
    found = []
    for name in NAMES:
        if name == "bad" and case.namespace:
            changed = {"metadata": {"labels": case.namespace}}
            await call("PATCH", "/api/v1/namespaces/default", changed, content_type="application/merge-patch+json")
        answer = await call("POST", PODS, pod(name))
        labels = answer.json["metadata"].get("labels")
        found.append((answer.status, answer.message, answer.warnings, labels))
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_policies_see_every_pod(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(directory: Path) -> list[tuple[int, str, list[str], Any]]:
        async with running(directory) as server:
            call = Caller(server.app, ADMIN)
            await call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
            return await _answers(call, case)

    found = asyncio.run(play(tmp_path / "alike"))
    assert [status for status, *_ in found] == list(case.answers)

    async def nothing(*_: Any) -> None: ...

    monkeypatch.setattr(LikePods, "find", nothing)
    assert asyncio.run(play(tmp_path / "each")) == found


def test_a_policy_that_comes_later_counts_for_the_next_pod(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path) as server:
            call = Caller(server.app, ADMIN)
            await call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
            await create(call, *judging("object.spec.containers.size() == 1"))
            assert [(await call("POST", PODS, pod(name))).status for name in "abcd"] == [201] * 4
            await create(call, *validating("q", "false", matchConstraints=rules("pods", "CREATE")))
            assert (await call("POST", PODS, pod("e"))).status == 422
            await call("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/q")
            assert (await call("POST", PODS, pod("e"))).status == 201

    asyncio.run(play())


def test_what_says_the_same_of_like_pods_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> list[str]:
        async with running(tmp_path) as server:
            call = Caller(server.app, ADMIN)
            await call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
            for name, text in (("spec", "has(object.spec.containers)"), ("name", "object.metadata.name != 'x'")):
                await create(call, *validating(name, text, matchConstraints=rules("pods", "CREATE")))
            for name in "abc":
                await call("POST", PODS, pod(name))
            asked: list[str] = []
            before = module._Program.all_hold

            def noted(self: module._Program, values: Tree) -> bool:
                asked.append(self._name)
                return before(self, values)

            monkeypatch.setattr(module._Program, "all_hold", noted)
            await call("POST", PODS, pod("d"))
            return asked

    assert asyncio.run(play()) == ["name"]
