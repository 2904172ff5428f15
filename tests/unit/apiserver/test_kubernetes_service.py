"""The Service `default/kubernetes`, which the server keeps itself."""

import asyncio

import pytest

from api_caller import ApiCaller
from mooring.api.meta_v1 import Resource
from mooring.apiserver.access import bootstrap
from mooring.apiserver.registry.cluster.kubernetes_service import (
    INTERVAL_SECONDS,
    KubernetesService,
    ServerAddress,
    find_advertised_address,
)
from mooring.apiserver.registry.cluster.loopback_client import LoopbackClient

pytestmark = pytest.mark.req("N.9")

SERVICE = "/api/v1/namespaces/default/services/kubernetes"
ENDPOINTS = "/api/v1/namespaces/default/endpoints/kubernetes"
SLICE = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"


def keeper(api: ApiCaller, own: ServerAddress | None, *, is_shared: bool = False) -> KubernetesService:
    return KubernetesService(LoopbackClient(api.resources), api.clock, own, "10.0.0.1", is_shared=is_shared)


async def addresses(api: ApiCaller) -> list[str]:
    """Return what Endpoints and EndpointSlice say, which must be the same."""
    (subset,) = (await api.get(ENDPOINTS)).body["subsets"]
    found = [entry["ip"] for entry in subset["addresses"]]
    slices = (await api.get(SLICE)).body
    assert [entry["addresses"] for entry in slices["endpoints"]] == [[ip] for ip in found]
    assert [port["port"] for port in slices["ports"]] == [port["port"] for port in subset["ports"]]
    return found


async def test_the_service_leads_to_the_server(api: ApiCaller) -> None:
    await keeper(api, ServerAddress(6443, "192.168.7.1")).reconcile()
    service = (await api.get(SERVICE)).body
    assert service["spec"]["clusterIP"] == "10.0.0.1"
    assert service["spec"]["ports"] == [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}]
    assert service["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
    assert await addresses(api) == ["192.168.7.1"]


async def test_what_is_as_it_should_be_is_not_written_again(api: ApiCaller) -> None:
    kept = keeper(api, ServerAddress(6443, "192.168.7.1"))
    await kept.reconcile()
    before = await api.store.revision()
    await kept.reconcile()
    assert await api.store.revision() == before


@pytest.mark.parametrize("own", [ServerAddress(6443, "192.168.7.1"), None], ids=str)
async def test_a_server_alone_has_an_identity_lease_that_it_renews_now_and_then(
    api: ApiCaller, own: ServerAddress | None
) -> None:
    leases, renewed = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", set()
    kept = keeper(api, own)
    await kept.reconcile()
    (lease,) = (await api.get(leases)).body["items"]
    for _ in range(12):
        await kept.reconcile()
        (now,) = (await api.get(leases)).body["items"]
        renewed.add(now["spec"]["renewTime"])
        api.clock.advance(600)
    assert lease["metadata"]["labels"]["apiserver.kubernetes.io/identity"] == "kube-apiserver"
    assert lease["spec"]["leaseDurationSeconds"] == 3600
    assert 4 <= len(renewed) <= 7


@pytest.mark.parametrize("url", [SERVICE, ENDPOINTS, SLICE])
async def test_what_a_user_deletes_is_created_again(api: ApiCaller, url: str) -> None:
    kept = keeper(api, ServerAddress(6443, "192.168.7.1"))
    await kept.reconcile()
    await api.delete(url)
    await kept.reconcile()
    assert (await api.get(url)).code == 200


async def test_a_server_that_moved_replaces_its_old_address(api: ApiCaller) -> None:
    await keeper(api, ServerAddress(6443, "192.168.7.1")).reconcile()
    await keeper(api, ServerAddress(6443, "192.168.7.2")).reconcile()
    assert await addresses(api) == ["192.168.7.2"]


async def test_without_an_address_there_is_a_service_and_no_endpoint(api: ApiCaller) -> None:
    await keeper(api, None).reconcile()
    assert (await api.get(SERVICE)).code == 200
    assert (await api.get(ENDPOINTS)).code == 404


async def test_servers_that_share_a_store_are_all_endpoints_until_one_leaves(api: ApiCaller) -> None:
    first, second = (keeper(api, ServerAddress(6443, f"192.168.7.{number}"), is_shared=True) for number in (1, 2))
    await first.reconcile()
    await second.reconcile()
    assert await addresses(api) == ["192.168.7.1", "192.168.7.2"]
    await second.leave()
    await first.reconcile()
    assert await addresses(api) == ["192.168.7.1"]


async def test_a_server_that_died_is_forgotten(api: ApiCaller) -> None:
    first, second = (keeper(api, ServerAddress(6443, f"192.168.7.{number}"), is_shared=True) for number in (1, 2))
    await second.reconcile()
    for _ in range(4):
        await first.reconcile()
        api.clock.advance(INTERVAL_SECONDS)
    await first.reconcile()
    assert await addresses(api) == ["192.168.7.1"]
    assert len((await api.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")).names) == 1


async def test_servers_with_different_ports_agree_on_one(api: ApiCaller) -> None:
    first, second = (keeper(api, ServerAddress(port, "192.168.7.1"), is_shared=True) for port in (6444, 6443))
    for _ in range(2):
        await first.reconcile()
        await second.reconcile()
        (subset,) = (await api.get(ENDPOINTS)).body["subsets"]
        assert [port["port"] for port in subset["ports"]] == [6443]
        await first.reconcile()
        assert (await api.get(ENDPOINTS)).body["subsets"] == [subset]


class SlowCalls(LoopbackClient):
    """As on a disk: a write takes a turn of the loop."""

    async def create(self, obj: Resource) -> None:
        await asyncio.sleep(0)
        await super().create(obj)


@pytest.mark.parametrize("turns", range(8))
async def test_a_server_that_leaves_finishes_what_it_has_begun(api: ApiCaller, turns: int) -> None:
    calls = SlowCalls(api.resources)
    kept = KubernetesService(calls, api.clock, ServerAddress(6443, "192.168.7.1"), "10.0.0.1", is_shared=False)
    running = asyncio.create_task(kept.run())
    for _ in range(turns):
        await asyncio.sleep(0)
    await kept.leave()
    running.cancel()
    assert len({(await api.get(url)).code for url in (SERVICE, ENDPOINTS, SLICE)}) == 1


@pytest.mark.parametrize(
    ("address", "bound", "expected"),
    [
        pytest.param("192.168.7.9", "127.0.0.1", "192.168.7.9", id="what the administrator says wins"),
        pytest.param("", "192.168.7.1", "192.168.7.1", id="the address on which it listens"),
    ],
)
def test_where_a_server_can_be_reached(address: str, bound: str, expected: str) -> None:
    assert find_advertised_address(address, bound, 6443) == ServerAddress(6443, expected)


def test_a_loopback_is_never_advertised() -> None:
    found = find_advertised_address("", "127.0.0.1", 6443)
    assert found is None or not found.address.startswith("127.")


async def test_the_authorities_that_the_server_trusts_are_published(api: ApiCaller) -> None:
    maps = "/api/v1/namespaces/kube-system/configmaps"
    calls = LoopbackClient(api.resources)
    for clients, proxies, bundle in ((b"c", b"p", "p"), (b"c", b"p", "p"), (b"d", b"q", "pq")):
        await bootstrap.publish_trust(calls, clients, proxies, api.clock.now())
        data = (await api.get(f"{maps}/extension-apiserver-authentication")).body["data"]
        assert (data["client-ca-file"], data["requestheader-client-ca-file"]) == (clients.decode(), bundle)
        assert data["requestheader-allowed-names"] == '["front-proxy-client"]'
    since = (await api.get(f"{maps}/kube-apiserver-legacy-service-account-token-tracking")).body["data"]["since"]
    assert since == api.clock.now().date().isoformat()
