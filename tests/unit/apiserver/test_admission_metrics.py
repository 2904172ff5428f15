"""What the metrics say of policies and webhooks: names, labels and counts as kube-apiserver has them."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from api_caller import CONFIG_MAPS
from app_calls import ADMIN, Caller, running
from asked_webhooks import hook, webhook_api
from policy_objects import config_map, create, mutating, validating
from scripted_webhook import ANSWERS, says

pytestmark = pytest.mark.req("X.7", "X.8", "X.9")
Counted = tuple[str, frozenset[tuple[str, str]], float]


def counted(page: bytes, *ends: str) -> set[Counted]:
    """Return what is on a page, of the names that end like this."""
    samples = (each for family in text_string_to_metric_families(page.decode()) for each in family.samples)
    return {
        (each.name.removeprefix("apiserver_"), frozenset(each.labels.items()), each.value)
        for each in samples
        if each.name.endswith(ends)
    }


def count(metric: str, value: float, **labels: str) -> Counted:
    return metric, frozenset(labels.items()), value


def of_hook(metric: str, type_: str = "validating", **labels: str) -> Counted:
    return count(f"admission_webhook_{metric}", 1, name="h.example.com", type=type_, **labels)


def called(code: str, rejected: str, type_: str = "validating") -> Counted:
    return of_hook("request_total", type_, operation="CREATE", code=code, rejected=rejected)


def refused(error_type: str, code: str, type_: str = "validating") -> Counted:
    return of_hook("rejection_count", type_, operation="CREATE", error_type=error_type, rejection_code=code)


@dataclass
class Case:
    name: str
    answer: Any
    counts: set[Counted]
    hook: dict[str, Any] = field(default_factory=dict)
    kind: str = "Validating"


def nonsense(_: Any) -> dict[str, Any]:
    return {"kind": "Nonsense"}


CASES = [
    Case("one that allows was called", says(allowed=True), {called("200", "false")}),
    Case(
        "one that refuses tells its code",
        says(allowed=False, status={"code": 403}),
        {called("403", "true"), refused("no_error", "403")},
    ),
    Case(
        "a code that is none is cut",
        says(allowed=False, status={"code": 987_654}),
        {called("600", "true"), refused("no_error", "600")},
    ),
    Case(
        "one that makes no sense refuses by its failure",
        nonsense,
        {called("503", "true"), refused("calling_webhook_error", "503")},
    ),
    Case(
        "a failure that is ignored fails open",
        nonsense,
        {called("503", "false"), of_hook("fail_open_count")},
        {"failurePolicy": "Ignore"},
    ),
    Case(
        "a patch that does not fit is an error of the server",
        ANSWERS["/patch-missing-path"],
        {called("0", "true", "admit"), refused("apiserver_internal_error", "0", "admit")},
        kind="Mutating",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_what_a_webhook_does_is_counted(case: Case) -> None:
    async with webhook_api() as api:
        api.answers["/h"] = case.answer
        await api.configure(case.kind, hook("h.example.com", **case.hook))
        await api.post(CONFIG_MAPS, config_map("x"))
        page = generate_latest(api.registry)
        assert counted(page, "request_total", "rejection_count", "fail_open_count") == case.counts
        [(_, _, calls)] = counted(page, "webhook_admission_duration_seconds_count")
        assert calls == 1


def test_what_policies_do_is_counted(tmp_path: Path) -> None:
    policies = [
        validating("met", "object.data.color == 'red'"),
        validating("unmet", "object.data.color != 'red'", actions=("Warn", "Audit")),
        validating("ignored", "object.data.nothing == 'x'", failurePolicy="Ignore"),
        mutating("labels", "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"),
    ]

    async def story() -> bytes:
        async with running(tmp_path) as server:
            call = Caller(server.app, ADMIN)
            await create(call, *(tree for policy in policies for tree in policy), config_map("a", color="red"))
            await create(call, config_map("b", color="blue"))
            return (await call("GET", "/metrics")).body

    def of(policy: str, error_type: str, value: float = 1, kind: str = "validating", **labels: str) -> Counted:
        labels |= {"policy": policy, "policy_binding": policy, "error_type": error_type}
        return count(f"{kind}_admission_policy_check_total", value, **labels)

    page = asyncio.run(story())
    assert counted(page, "policy_check_total") == {
        of("met", "invalid_error", enforcement_action="deny"),
        of("unmet", "invalid_error", enforcement_action="warn"),
        of("unmet", "invalid_error", enforcement_action="audit"),
        of("ignored", "invalid_error", 2, enforcement_action="allow"),
        of("labels", "no_error", 2, kind="mutating"),
    }
    steps = counted(page, "controller_admission_duration_seconds_count")
    assert {(dict(labels)["name"], dict(labels)["rejected"], value) for _, labels, value in steps} == {
        ("MutatingAdmissionPolicy", "false", 4),  # in two rounds, as something was changed
        ("ValidatingAdmissionPolicy", "false", 1),
        ("ValidatingAdmissionPolicy", "true", 1),
    }
