"""APIServices: what a server says about its own groups and versions, and about those of others."""

import asyncio
import json
from typing import Any

import pytest

from custom_api import cron_tabs
from mooring.api.apiregistration_v1 import APIService
from mooring.api.scheme import Scheme
from mooring.apiserver.registry.cluster.api_services import ApiServices
from mooring.testing.clock import MockClock, settle
from mooring.testing.control_plane import RunningControlPlane

pytestmark = pytest.mark.req("N.10")
PATH = "/apis/apiregistration.k8s.io/v1/apiservices"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def listed(plane: RunningControlPlane) -> dict[str, dict[str, Any]]:
    found = json.loads(plane.run(plane.client.raw("GET", PATH)).body)
    return {each["metadata"]["name"]: each for each in found["items"]}


def post(plane: RunningControlPlane, path: str, body: dict[str, Any]) -> None:
    plane.run(plane.client.raw("POST", path, body=json.dumps(body).encode()))


def test_the_services_of_one_server() -> None:
    with RunningControlPlane(without=("scheduler", "controllers", "nodes")) as plane:
        before = listed(plane)
        core = before["v1."]
        assert core["spec"] == {"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}
        assert core["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
        assert [(each["type"], each["status"], each["reason"]) for each in core["status"]["conditions"]] == [
            ("Available", "True", "Local")
        ]
        assert before["v1.apps"]["spec"]["groupPriorityMinimum"] == 17800
        assert "v1.apiregistration.k8s.io" not in before
        post(plane, DEFINITIONS, cron_tabs())
        custom = listed(plane)["v1.stable.example.com"]
        assert custom["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "true"}
        spec = {
            "group": "metrics.example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            "service": {"namespace": "kube-system", "name": "metrics"},
        }
        other = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "spec": spec}
        post(plane, PATH, {**other, "metadata": {"name": "v1.metrics.example.com"}})
        found = listed(plane)["v1.metrics.example.com"]
        assert found["spec"]["service"]["port"] == 443
        assert found["status"]["conditions"][0]["reason"] == "NotAggregated"
        plane.run(plane.client.raw("DELETE", f"{DEFINITIONS}/crontabs.stable.example.com"))
        assert "v1.stable.example.com" not in listed(plane)


class SlowCalls:
    """Calls to a store that takes its time."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.stored = asyncio.Event()

    async def list(self, _: type[APIService]) -> list[APIService]:
        return []

    async def ensure(self, service: APIService) -> bool:
        self.begun.append(service.metadata.name)
        return await self.stored.wait()


async def test_a_client_that_looks_first_waits_for_one_write_of_all() -> None:
    calls: Any = SlowCalls()
    looking = asyncio.create_task(ApiServices(calls, Scheme(), MockClock()).reconcile())
    await settle()
    assert {"v1.", "v1.apps", "v2.autoscaling"} <= set(calls.begun)
    calls.stored.set()
    await looking
