"""Client libraries that others wrote: the official Python client and kr8s."""

import threading
from typing import Any

import kr8s
import kubernetes
import pytest

from running_server import RunningServer

pytestmark = pytest.mark.req("S.1")

official: Any = kubernetes  # its functions have no types
client = official.client


@pytest.fixture
def api(server: RunningServer) -> Any:
    return official.config.new_client_from_config(str(server.kubeconfig))


def config_map(name: str, **data: str) -> Any:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"suite": "python"}), data=data)


@pytest.fixture
def core(api: Any) -> Any:
    core = client.CoreV1Api(api)
    yield core
    core.delete_collection_namespaced_config_map("default", label_selector="suite=python")


def test_the_official_client_creates_reads_changes_and_deletes(core: Any) -> None:
    created = core.create_namespaced_config_map("default", config_map("official", a="1"))
    assert created.metadata.resource_version
    created.data["a"] = "2"
    assert core.replace_namespaced_config_map("official", "default", created).data == {"a": "2"}
    created.data["a"] = "3"
    with pytest.raises(client.ApiException) as stale:
        core.replace_namespaced_config_map("official", "default", created)
    assert stale.value.status == 409
    patched = core.patch_namespaced_config_map("official", "default", {"data": {"b": "4"}})
    assert patched.data == {"a": "2", "b": "4"}
    core.delete_namespaced_config_map("official", "default")
    with pytest.raises(client.ApiException) as gone:
        core.read_namespaced_config_map("official", "default")
    assert gone.value.status == 404


def test_the_official_client_lists_in_pages(core: Any) -> None:
    for number in range(7):
        core.create_namespaced_config_map("default", config_map(f"page-{number}"))
    first = core.list_namespaced_config_map("default", label_selector="suite=python", limit=5)
    rest = core.list_namespaced_config_map(
        "default", label_selector="suite=python", limit=5, _continue=first.metadata._continue
    )
    names = [item.metadata.name for item in (*first.items, *rest.items)]
    assert names == [f"page-{number}" for number in range(7)]


def test_the_official_client_watches(core: Any) -> None:
    version = core.list_namespaced_config_map("default").metadata.resource_version
    threading.Timer(0.3, core.create_namespaced_config_map, ("default", config_map("watched"))).start()
    stream = official.watch.Watch().stream(
        core.list_namespaced_config_map, "default", resource_version=version, timeout_seconds=20
    )
    for event in stream:
        assert (event["type"], event["object"].metadata.name) == ("ADDED", "watched")
        break


def test_the_official_client_applies(api: Any) -> None:
    maps = official.dynamic.DynamicClient(api).resources.get(api_version="v1", kind="ConfigMap")
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "applied", "labels": {"suite": "python"}},
        "data": {"a": "1"},
    }
    applied = maps.server_side_apply(body, name="applied", namespace="default", field_manager="python")
    assert [(entry.manager, entry.operation) for entry in applied.metadata.managedFields] == [("python", "Apply")]


def test_the_official_client_binds_and_evicts(core: Any) -> None:
    pod = client.V1Pod(
        metadata=client.V1ObjectMeta(name="bound"),
        spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="img")]),
    )
    core.create_namespaced_pod("default", pod)
    binding = client.V1Binding(
        metadata=client.V1ObjectMeta(name="bound"), target=client.V1ObjectReference(kind="Node", name="n")
    )
    core.create_namespaced_pod_binding("bound", "default", binding, _preload_content=False)
    assert core.read_namespaced_pod("bound", "default").spec.node_name == "n"
    eviction = client.V1Eviction(
        metadata=client.V1ObjectMeta(name="bound"), delete_options=client.V1DeleteOptions(grace_period_seconds=0)
    )
    core.create_namespaced_pod_eviction("bound", "default", eviction)
    with pytest.raises(client.ApiException):
        core.read_namespaced_pod("bound", "default")


@pytest.mark.filterwarnings("ignore:Kubernetes version v1.37.0 is not supported")  # kr8s names versions it has seen
async def test_kr8s_creates_lists_watches_patches_and_deletes(server: RunningServer) -> None:
    api = await kr8s.asyncio.api(kubeconfig=str(server.kubeconfig))
    resource = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kr8s", "namespace": "default", "labels": {"suite": "kr8s"}},
        "data": {"a": "1"},
    }
    made = await kr8s.asyncio.objects.ConfigMap(resource, api=api)
    await made.create()
    await made.patch({"data": {"a": "2"}})
    await made.refresh()
    assert made.raw["data"] == {"a": "2"}
    found: list[Any] = [each async for each in api.get("configmaps", label_selector={"suite": "kr8s"})]
    assert [each.name for each in found] == ["kr8s"]
    async for event, each in api.watch("configmaps", label_selector={"suite": "kr8s"}):
        assert (event, each.name) == ("ADDED", "kr8s")
        break
    await made.delete()
    assert not await made.exists()
