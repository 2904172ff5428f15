"""The bridge's webhooks, as they are shipped, called by a server of ours: through a Service, over TLS."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridged_cluster import StockCluster, gated, stock_cluster, tolerated
from mooring.api.core_v1 import Namespace, Node, Pod, Service
from mooring.api.errors import StatusError
from mooring.bridge.serving import WebhookServer
from mooring.client import PatchType
from mooring.constraints import annotations
from mooring.testing.builders import made, taint

SHIPPED = Path(__file__).parents[3] / "deploy" / "bridge" / "webhooks.yaml"
NAME = "mooring-bridge"
SLA = {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoExecute"}


@asynccontextmanager
async def installed() -> AsyncIterator[StockCluster]:
    """A stock cluster with the shipped webhooks; their Service stands for this machine, at the port that was free."""
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
        target = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}, "target": {"name": "a"}}
        path = "/api/v1/namespaces/default/pods/web/binding"
        await cluster.client.raw("POST", path, body=json.dumps(target).encode())
        body = {"spec": {"taints": [taint("sla=970:NoExecute")]}}
        await cluster.client.patch(Node, "a", body, type=PatchType.MERGE)
        pod = await cluster.client.get(Pod, "web", "default")
        assert tolerated(pod, "sla") == {"960", "970"}


@pytest.mark.req("X.9")
async def test_while_the_bridge_is_gone_only_pods_that_need_it_are_refused() -> None:
    async with installed() as cluster:
        await cluster.client.delete(Service, NAME, NAME)
        with pytest.raises(StatusError, match=r'failed calling webhook "gate\.constraints\.mooring\.dev"'):
            await cluster.client.create(without_gate("web", [SLA]))
        await cluster.client.create(without_gate("plain", ()))
        await cluster.node("a", {}, ["sla=960:NoExecute"])
