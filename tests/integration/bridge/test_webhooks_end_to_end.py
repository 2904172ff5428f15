"""The bridge's webhooks, as they are shipped, called by a server of ours: through a Service, over TLS."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridged_cluster import StockCluster, gated, stock_cluster, tolerated
from mooring.api import times
from mooring.api.coordination_v1 import Lease
from mooring.api.core_v1 import Namespace, Node, Pod, Service
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ObjectMeta
from mooring.bridge.checking import check_answers
from mooring.bridge.serving import WebhookServer
from mooring.bridge.webhooks import TimedEviction
from mooring.client import PatchType
from mooring.constraints import annotations
from mooring.testing.builders import made, taint

SHIPPED = Path(__file__).parents[3] / "deploy" / "bridge" / "webhooks.yaml"
NAME = "mooring-bridge"
SLA = {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoExecute"}


@asynccontextmanager
async def installed() -> AsyncIterator[StockCluster]:
    """Yield a stock cluster with the shipped webhooks; their Service leads to a free port of this machine."""
    async with stock_cluster() as cluster:
        client = cluster.client
        await client.create(made(Namespace, {"metadata": {"name": NAME}}))
        spec = {"type": "ExternalName", "externalName": "localhost"}
        await client.create(made(Service, {"metadata": {"name": NAME, "namespace": NAME}, "spec": spec}))
        async with WebhookServer(client, address="127.0.0.1", port=0, namespace=NAME, service=NAME) as serving:
            for configuration in yaml.safe_load_all(SHIPPED.read_text()):
                for webhook in configuration["webhooks"]:
                    webhook["clientConfig"]["service"]["port"] = serving.port
                path = f"/apis/{configuration['apiVersion']}/{configuration['kind'].lower()}s"
                await client.raw("POST", path, body=json.dumps(configuration).encode())
            await serving.publish()
            yield cluster


def without_gate(name: str, tolerations: Any) -> Pod:
    pod = gated(name, tolerations)
    pod.spec.scheduling_gates = []
    return pod


@pytest.mark.req("B.1", "X.9")
async def test_a_pod_with_constraints_gets_the_gate_and_others_are_left_alone() -> None:
    async with installed() as cluster:
        made_pod = await cluster.client.create(without_gate("web", [SLA]))
        assert [gate.name for gate in made_pod.spec.scheduling_gates] == [annotations.GATE]
        plain = without_gate("plain", ())
        assert (await cluster.client.create(plain)).spec.scheduling_gates == []


@pytest.mark.req("B.6", "X.9")
async def test_a_mistake_in_an_annotation_is_refused_with_its_place() -> None:
    async with installed() as cluster:
        with pytest.raises(StatusError, match=r"denied the request: .*tolerations\]\[0\]\.value: Invalid value"):
            await cluster.client.create(without_gate("web", [{**SLA, "value": "0950"}]))


@pytest.mark.req("B.5", "X.9")
async def test_pods_tolerate_a_new_value_before_the_node_has_it() -> None:
    async with installed() as cluster:
        await cluster.node("a", {}, ["sla=960:NoExecute"])
        async with cluster.bridged():
            await cluster.client.create(without_gate("web", [SLA]))
            await cluster.until_released("web")
        await bind(cluster, "web", "a")
        body = {"spec": {"taints": [taint("sla=970:NoExecute")]}}
        await cluster.client.patch(Node, "a", body, type=PatchType.MERGE)
        pod = await cluster.client.get(Pod, "web", "default")
        assert tolerated(pod, "sla") == {"960", "970"}


@dataclass(frozen=True)
class Marking:
    name: str
    toleration: dict[str, Any]
    value: str
    is_refused: bool


MARKINGS = [
    Marking("a value that is tolerated, whatever the spec says yet", SLA, "970", is_refused=True),
    Marking("a value that is not tolerated", SLA, "940", is_refused=False),
    Marking("seconds that are not over", {**SLA, "tolerationSeconds": 3600}, "970", is_refused=True),
    Marking("seconds that the bridge counts itself", {**SLA, "tolerationSeconds": 0}, "970", is_refused=False),
]


@pytest.mark.req("B.2", "B.5")
@pytest.mark.parametrize("case", MARKINGS, ids=lambda case: case.name)
async def test_a_taint_manager_may_mark_only_pods_whose_time_is_over(case: Marking) -> None:
    async with installed() as cluster:
        await cluster.node("a", {}, ["sla=960:NoExecute"])
        async with cluster.bridged():
            await cluster.client.create(without_gate("web", [case.toleration]))
            await cluster.until_released("web")
        await bind(cluster, "web", "a")
        await cluster.taint("a", f"sla={case.value}:NoExecute")
        with pytest.raises(StatusError, match="tolerate the taints of node a") if case.is_refused else nullcontext():
            await mark(cluster, "web")


@pytest.mark.req("B.2", "B.5")
async def test_the_bridge_evicts_on_its_own_count_of_the_seconds() -> None:
    """kube-apiserver sets no `timeAdded`, so the review cannot know when the seconds are over."""
    async with installed() as cluster:
        await cluster.node("a", {}, ["sla=960:NoExecute"])
        async with cluster.bridged():
            await cluster.client.create(without_gate("web", [{**SLA, "tolerationSeconds": 3600}]))
            await cluster.until_released("web")
        await bind(cluster, "web", "a")
        await mark(cluster, "web", TimedEviction.condition_reason)


@pytest.mark.req("B.5")
async def test_marks_of_pods_that_the_bridge_never_released_are_left_alone() -> None:
    async with installed() as cluster:
        await cluster.node("a")
        await cluster.client.create(without_gate("plain", ()))
        await bind(cluster, "plain", "a")
        await mark(cluster, "plain")


@pytest.mark.req("B.2", "B.5")
async def test_the_bridge_evicts_when_the_seconds_are_over() -> None:
    """The taint manager was refused, and does not come again."""
    async with installed() as cluster:
        await cluster.node("a", {}, ["sla=960:NoExecute"])
        async with cluster.bridged():
            for name, seconds in (("timed", {"tolerationSeconds": 1}), ("forever", {})):
                await cluster.client.create(without_gate(name, [{**SLA, **seconds}]))
                await cluster.until_released(name)
                await bind(cluster, name, "a")
            await cluster.taint("a", "sla=970:NoExecute")

            async def is_evicted() -> bool:
                return (await cluster.find("timed")).metadata.deletion_timestamp is not None

            await cluster.until(is_evicted)
            assert (await cluster.find("forever")).metadata.deletion_timestamp is None


async def bind(cluster: StockCluster, name: str, node: str) -> None:
    target = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": node}}
    path = f"/api/v1/namespaces/default/pods/{name}/binding"
    await cluster.client.raw("POST", path, body=json.dumps(target).encode())


async def mark(cluster: StockCluster, name: str, reason: str = "DeletionByTaintManager") -> None:
    """Write the condition that a taint manager writes before it deletes a pod."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    await cluster.client.patch(Pod, name, {"status": {"conditions": [condition]}}, "default", subresource="status")


@pytest.mark.req("X.9")
async def test_while_the_bridge_is_gone_only_pods_that_need_it_are_refused() -> None:
    async with installed() as cluster:
        await cluster.client.delete(Service, NAME, NAME)
        with pytest.raises(StatusError, match=r'failed calling webhook "gate\.constraints\.mooring\.dev"'):
            await cluster.client.create(without_gate("web", [SLA]))
        await cluster.client.create(without_gate("plain", ()))
        await cluster.node("a", {}, ["sla=960:NoExecute"])


@pytest.mark.req("B.10", "X.9")
async def test_a_check_proves_that_the_bridge_answers() -> None:
    async def lacking(cluster: StockCluster) -> list[str]:
        found = [each async for each in check_answers(cluster.client, NAME)]
        assert len(found) in (0, 4)
        return [each.what.partition(" of ")[0].partition(" that ")[0] for each in found if not each.is_there]

    async with stock_cluster() as cluster:
        assert await lacking(cluster) == []  # nothing is configured, so nothing is refused
    async with installed() as cluster:
        assert await lacking(cluster) == ["a leader"]
        async with cluster.bridged():
            pass
        held = Lease(metadata=ObjectMeta(name=NAME, namespace=NAME))
        held.spec.holder_identity, held.spec.lease_duration_seconds = "me", 15
        held.spec.renew_time = times.to_microseconds(datetime.now(UTC))
        await cluster.client.create(held)
        assert await lacking(cluster) == []
        gone = await cluster.client.get(Service, NAME, NAME)
        await cluster.client.delete(Service, gone.metadata.name, NAME)
        assert "a pod with constraints" in await lacking(cluster)
