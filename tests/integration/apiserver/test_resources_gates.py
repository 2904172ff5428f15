"""Gates switched off and on again between restarts: what is stored stays, what is new follows the gate."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from api_caller import DEPLOYMENTS, PODS, ApiCaller, api_caller, pod
from mooring.admission.options import for_component
from mooring.base import component
from mooring.store.memory import MemoryStore
from raw_client import RawClient
from running_server import running_server

GATE = "MatchLabelKeysInPodAffinity"


def with_label_keys(name: str) -> dict[str, Any]:
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["pod-template-hash"],
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    body = pod(name, affinity=affinity)
    body["metadata"]["labels"] = {"app": "web", "pod-template-hash": name}
    return body


def term_of(body: dict[str, Any]) -> dict[str, Any]:
    [term] = body["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert isinstance(term, dict)
    return term


UNCHANGED = {"matchLabels": {"app": "web"}}


def merged(name: str) -> dict[str, Any]:
    requirement = {"key": "pod-template-hash", "operator": "In", "values": [name]}
    return {"matchLabels": {"app": "web"}, "matchExpressions": [requirement]}


@pytest.mark.req("3633.4")
async def test_label_keys_are_enabled_disabled_and_enabled_again(tmp_path: Path) -> None:
    """The proposal's walk of fifteen steps; its numbers stand beside what they ask for."""
    before: dict[str, dict[str, Any]] = {}
    for name, enabled in (("first", False), ("second", True), ("third", False), ("fourth", True)):
        flags = ("--emulation-version", "1.32", "--feature-gates", f"{GATE}={str(enabled).lower()}")
        with running_server(tmp_path, *flags) as server:  # 1, 4, 8, 12
            async with await RawClient.connect(server) as client:
                _, listed = await client.request("GET", PODS)
                found = {item["metadata"]["name"]: term_of(item) for item in listed["items"]}
                assert found == before  # 5, 9, 13
                code, created = await client.request("POST", PODS, with_label_keys(name))  # 2, 6, 10, 14
                assert code == 201, created
                term = term_of(created)
                assert term["labelSelector"] == (merged(name) if enabled else UNCHANGED)  # 3, 7, 11, 15
                assert ("matchLabelKeys" in term) is enabled
                before[name] = term


@dataclass(frozen=True)
class Use:
    """A way to use a gated feature, and how a new use is refused with the gate off."""

    id: str
    gate: str
    spec: dict[str, Any]
    refused: str


def required(**term: Any) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


NUMBERS = Use(
    "numeric tolerations",
    "TaintTolerationComparisonOperators",
    {"tolerations": [{"key": "a", "operator": "Gt", "value": "5"}]},
    'tolerations[0].operator: Unsupported value: "Gt"',
)
VERSIONS = [
    Use(
        "version tolerations",
        "TolerationAffinitySemverOperators",
        {"tolerations": [{"key": "a", "operator": "SemverGt", "value": "1.2.3"}]},
        'tolerations[0].operator: Unsupported value: "SemverGt"',
    ),
    Use(
        "versions in affinity",
        "TolerationAffinitySemverOperators",
        required(matchExpressions=[{"key": "a", "operator": "SemverEq", "values": ["1.2.3"]}]),
        'Invalid value: "SemverEq": not a valid selector operator',
    ),
]
EXPRESSIONS = [
    Use(
        "expressions in tolerations",
        "TaintTolerationNodeAffinityCEL",
        {"tolerations": [{"expression": "taint.key == 'a'"}]},
        "tolerations[0].expression: Forbidden",
    ),
    Use(
        "expressions in affinity",
        "TaintTolerationNodeAffinityCEL",
        required(matchCELExpressions=["'a' in node.labels"]),
        "matchCELExpressions[0]: Forbidden: Node Affinity CEL expressions require feature gate",
    ),
]


@pytest.mark.req("5471.3a", "5471.3b")
async def test_a_gate_for_numbers_goes_off_and_on() -> None:
    await walk(NUMBERS)


@pytest.mark.req("5721.6")
@pytest.mark.parametrize("use", VERSIONS, ids=lambda use: use.id)
async def test_a_gate_for_versions_goes_off_and_on(use: Use) -> None:
    await walk(use)


@pytest.mark.req("5500.9")
@pytest.mark.parametrize("use", EXPRESSIONS, ids=lambda use: use.id)
async def test_a_gate_for_expressions_goes_off_and_on(use: Use) -> None:
    await walk(use)


async def walk(use: Use) -> None:
    store = await MemoryStore.open()
    async with api_caller(options=options(use.gate, on=True), store=store) as api:
        assert (await api.post(PODS, pod("old", **use.spec))).code == 201
        assert (await api.post(PODS, pod("plain"))).code == 201
        assert (await api.post(DEPLOYMENTS, workload("old", use.spec))).code == 201
        assert (await api.post(DEPLOYMENTS, workload("plain", {}))).code == 201
    async with api_caller(options=options(use.gate, on=False), store=store) as api:
        await check_off(api, use)
    async with api_caller(options=options(use.gate, on=True), store=store) as api:
        assert (await api.post(PODS, pod("new", **use.spec))).code == 201
    await store.close()


async def check_off(api: ApiCaller, use: Use) -> None:
    for answer in (
        await api.post(PODS, pod("new", **use.spec)),
        await api.post(DEPLOYMENTS, workload("new", use.spec)),
        await api.put(f"{DEPLOYMENTS}/plain", workload("plain", use.spec)),
    ):
        assert answer.code == 422, answer.text
        assert use.refused in answer.message
    label = {"metadata": {"labels": {"touched": "yes"}}}
    assert (await api.patch(f"{PODS}/old", label)).code == 200
    assert (await api.patch(f"{DEPLOYMENTS}/old", label)).code == 200
    scaled = await api.patch(f"{DEPLOYMENTS}/old", {"spec": {"replicas": 3}})
    assert scaled.code == 200, scaled.message
    stored = (await api.get(f"{PODS}/old")).body["spec"]
    for name, value in use.spec.items():
        assert stored[name][: len(value)] == value if isinstance(value, list) else stored[name] == value


def options(gate: str, *, on: bool) -> Any:
    return for_component(component.resolve(gates=f"{gate}={str(on).lower()}", min_compatibility="1.36"))


def workload(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {**pod()["spec"], **spec}},
        },
    }
