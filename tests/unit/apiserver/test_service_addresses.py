"""Cluster IPs and node ports: each is given out once, released, and found again after a crash."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from api_caller import Answer, ApiCaller, api_caller
from mooring.admission.options import AdmissionOptions
from mooring.api.core_v1 import Service, ServiceSpec
from mooring.api.meta_v1 import ObjectMeta
from mooring.apiserver.registry.cluster.loopback_client import LoopbackClient
from mooring.apiserver.registry.cluster.service_repair import Repair
from mooring.apiserver.registry.services import addresses, ports
from mooring.apiserver.registry.services.allocation import ServiceAllocation
from mooring.apiserver.service_network import ServiceNetwork
from mooring.store.kv import KeyValue, Store
from mooring.store.memory import MemoryStore

pytestmark = pytest.mark.req("N.9")
SERVICES = "/api/v1/namespaces/default/services"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
RECORDED = Path(__file__).parents[2] / "conformance" / "data" / "api" / "services-of-1.37.jsonl"
DUAL = ("10.0.0.0/24", "fd00::/112")


class Cluster:
    """A server that gives out addresses."""

    def __init__(self, api: ApiCaller, network: ServiceNetwork, *, is_shared: bool) -> None:
        self.api = api
        context = api.resources.context
        allocation = ServiceAllocation(context.store, context.kinds, api.clock, network.node_ports)
        self.allocation = context.allocation = allocation
        self.repair = Repair(LoopbackClient(api.resources), self.allocation, api.clock, network, is_shared=is_shared)

    async def create(self, name: str = "web", **spec: Any) -> Answer:
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}}
        return await self.api.post(SERVICES, {**body, "spec": {"ports": [{"port": 80}], **spec}})

    async def taken(self) -> list[str]:
        return (await self.api.get(ADDRESSES)).names


@asynccontextmanager
async def cluster(
    *cidrs: str, ports: range = range(30000, 30020), store: Store | None = None, is_shared: bool = False
) -> AsyncIterator[Cluster]:
    network = ServiceNetwork(cluster_ips=cidrs or ("10.0.0.0/24",), node_ports=ports)
    async with api_caller(options=AdmissionOptions(service_families=network.families), store=store) as api:
        made = Cluster(api, network, is_shared=is_shared)
        await made.repair.prepare()
        yield made


def shown(answer: Answer) -> Any:
    """Return an answer as the recording has it: addresses and ports that were given by chance have no numbers."""
    if answer.code >= 400:
        causes = answer.body.get("details", {}).get("causes", [])
        return [answer.code, sorted(f"{each.get('field')}: {each.get('message')}" for each in causes) or answer.message]
    return [answer.code, _plain({"spec": answer.body.get("spec"), "status": answer.body.get("status")})]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str) and value.startswith("10.0.0.") and value not in ("10.0.0.77", "10.0.0.99"):
        return "IP"
    return "PORT" if isinstance(value, int) and value >= 30000 and value not in range(30777, 30781) else value


async def test_services_are_answered_as_kube_apiserver_answers_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded from v1.37: one after the other, on one cluster with 10.0.0.0/24."""
    for module in (addresses, ports):  # chance must give out nothing that the recording asks for by number
        monkeypatch.setattr(module, "random", random.Random(1))
    async with cluster(ports=range(30000, 32768)) as made:
        for line in RECORDED.read_text().splitlines():
            case = json.loads(line)
            media_type = "application/merge-patch+json" if case["method"] == "PATCH" else ""
            answer = await made.api.call(case["method"], case["path"], case["body"], media_type=media_type)
            assert shown(answer) == case["answer"], case
        services = (await made.api.get(SERVICES)).body["items"]
        held = [address for each in services for address in each["spec"].get("clusterIPs", []) if address != "None"]
        assert sorted(held) == await made.taken()


async def test_an_address_comes_back_when_its_service_goes() -> None:
    async with cluster() as made:
        address = (await made.create()).body["spec"]["clusterIP"]
        assert await made.taken() == [address]
        await made.api.delete(f"{SERVICES}/web")
        assert await made.taken() == []


async def test_a_service_that_waits_for_a_finalizer_keeps_its_address_until_it_goes() -> None:
    async with cluster() as made:
        await made.create()
        await made.api.patch(f"{SERVICES}/web", {"metadata": {"finalizers": ["example.com/wait"]}})
        await made.api.delete(f"{SERVICES}/web")
        assert len(await made.taken()) == 1
        await made.api.patch(f"{SERVICES}/web", {"metadata": {"finalizers": None}})
        assert await made.taken() == []


async def test_a_full_range_says_so_and_every_address_is_used_before() -> None:
    async with cluster("10.0.0.0/29", ports=range(30000, 30003)) as made:
        found = {(await made.create(f"web-{number}")).body["spec"]["clusterIP"] for number in range(6)}
        assert found == {f"10.0.0.{number}" for number in range(1, 7)}
        answer = await made.create("late")
        assert (answer.code, "range is full" in answer.message) == (500, True)


async def test_a_full_range_of_ports_leaves_nothing_behind() -> None:
    async with cluster(ports=range(30000, 30002)) as made:
        for name in ("a", "b"):
            assert (await made.create(name, type="NodePort")).code == 201
        before = await made.taken()
        answer = await made.create("late", type="NodePort")
        assert (answer.code, "range is full" in answer.message) == (500, True)
        assert await made.taken() == before


async def test_what_is_refused_or_only_tried_takes_nothing() -> None:
    async with cluster() as made:
        await made.create()
        before, revision = await made.taken(), await made.api.store.revision()
        assert (await made.create()).code == 409
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "try"}}
        spec = {"ports": [{"port": 80}], "type": "NodePort"}
        tried = await made.api.post(f"{SERVICES}?dryRun=All", {**body, "spec": spec})
        assert tried.body["spec"]["clusterIP"].startswith("10.0.0.")
        assert tried.body["spec"]["ports"][0]["nodePort"] >= 30000
        assert await made.taken() == before
        assert await made.allocation.ports.current() == set()
        assert await made.api.store.revision() <= revision + 2, "the address of the refused one came and went"


@pytest.mark.parametrize(
    ("spec", "families", "policy"),
    [
        ({}, ["IPv4"], "SingleStack"),
        ({"ipFamilies": ["IPv6"]}, ["IPv6"], "SingleStack"),
        ({"ipFamilyPolicy": "PreferDualStack"}, ["IPv4", "IPv6"], "PreferDualStack"),
        ({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6"]}, ["IPv6", "IPv4"], "RequireDualStack"),
        ({"clusterIP": "fd00::7"}, ["IPv6"], "SingleStack"),
    ],
)
async def test_families_of_a_cluster_with_two(spec: dict[str, Any], families: list[str], policy: str) -> None:
    async with cluster(*DUAL) as made:
        found = (await made.create(**spec)).body["spec"]
        assert (found["ipFamilies"], found["ipFamilyPolicy"]) == (families, policy)
        assert ["IPv6" if ":" in address else "IPv4" for address in found["clusterIPs"]] == families
        assert sorted(found["clusterIPs"]) == await made.taken()
        assert spec.get("clusterIP", found["clusterIP"]) == found["clusterIP"]


async def test_a_service_gets_a_second_family_and_loses_it_again() -> None:
    async with cluster(*DUAL) as made:
        first = (await made.create()).body["spec"]["clusterIP"]
        both = (await made.api.patch(f"{SERVICES}/web", {"spec": {"ipFamilyPolicy": "RequireDualStack"}})).body["spec"]
        assert both["clusterIPs"][0] == first
        assert len(await made.taken()) == 2
        reduced = await made.api.patch(f"{SERVICES}/web", {"spec": {"ipFamilies": ["IPv4"], "clusterIPs": [first]}})
        assert "must be 'SingleStack' to release the secondary" in reduced.message
        await made.api.patch(f"{SERVICES}/web", {"spec": {"ipFamilyPolicy": "SingleStack"}})
        assert await made.taken() == [first]


async def test_a_further_network_is_used_when_the_first_is_full() -> None:
    async with cluster("10.0.0.0/30") as made:
        body = {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.9.0.0/29"]}}
        cidr = {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", **body}
        assert (await made.api.post("/apis/networking.k8s.io/v1/servicecidrs", cidr)).code == 201
        found = [(await made.create(f"web-{number}")).body["spec"]["clusterIP"] for number in range(3)]
        assert [address.startswith("10.0.0.") for address in found] == [True, True, False]


async def test_servers_that_share_a_store_never_give_the_same_twice() -> None:
    store = await MemoryStore.open()
    async with (
        cluster("10.0.0.0/26", ports=range(30000, 30070), store=store, is_shared=True) as first,
        cluster("10.0.0.0/26", ports=range(30000, 30070), store=store, is_shared=True) as second,
    ):
        servers = (first, second)
        answers = await asyncio.gather(
            *(servers[number % 2].create(f"web-{number}", type="NodePort") for number in range(60))
        )
        assert {answer.code for answer in answers} == {201}
        assert len({answer.body["spec"]["clusterIP"] for answer in answers}) == 60
        assert len({answer.body["spec"]["ports"][0]["nodePort"] for answer in answers}) == 60
    await store.close()


# -- repair


async def leave_behind(made: Cluster) -> str:
    """Return what a server leaves that dies after it has taken an address and a port for a Service."""
    ghost = Service(metadata=ObjectMeta(name="ghost", namespace="default"), spec=ServiceSpec(type="NodePort"))
    await made.allocation.ports.take([30007], 0, dry_run=False)
    return await made.allocation.addresses.take_any("IPv4", ghost, dry_run=False)


async def test_an_only_server_finds_what_a_crash_left_when_it_starts() -> None:
    async with cluster() as made:
        kept = (await made.create(type="NodePort")).body["spec"]
        await leave_behind(made)
        await made.repair.prepare()
        assert await made.taken() == [kept["clusterIP"]]
        assert await made.allocation.ports.current() == {kept["ports"][0]["nodePort"]}


async def test_with_other_servers_it_waits_until_none_can_refer_to_the_address() -> None:
    async with cluster(is_shared=True) as made:
        address = await leave_behind(made)
        await made.repair.repair()
        assert await made.taken() == [address]
        assert await made.allocation.ports.current() == {30007}
        made.api.clock.advance(120)
        await made.repair.repair()
        assert await made.taken() == []
        assert await made.allocation.ports.current() == set()


async def test_what_a_user_took_from_a_service_is_given_back() -> None:
    async with cluster() as made:
        spec = (await made.create(type="NodePort")).body["spec"]
        await made.api.delete(f"{ADDRESSES}/{spec['clusterIP']}")
        await made.allocation.ports.replace([])
        await made.repair.repair()
        assert await made.taken() == [spec["clusterIP"]]
        assert await made.allocation.ports.current() == {spec["ports"][0]["nodePort"]}


async def test_an_address_under_another_name_is_the_services_again() -> None:
    async with cluster() as made:
        address = (await made.create()).body["spec"]["clusterIP"]
        await made.api.delete(f"{ADDRESSES}/{address}")
        parent = {"resource": "services", "namespace": "default", "name": "other"}
        body = {"metadata": {"name": address}, "spec": {"parentRef": parent}}
        await made.api.post(ADDRESSES, {"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", **body})
        await made.repair.repair()
        assert (await made.api.get(f"{ADDRESSES}/{address}")).body["spec"]["parentRef"]["name"] == "web"


async def test_the_networks_of_the_flags_can_grow_and_not_change(caplog: pytest.LogCaptureFixture) -> None:
    async with cluster() as made:
        cidrs = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes"
        for wanted, stored in ((DUAL, list(DUAL)), (("10.7.0.0/24",), list(DUAL))):
            network = ServiceNetwork(cluster_ips=wanted)
            calls = LoopbackClient(made.api.resources)
            await Repair(calls, made.allocation, made.api.clock, network, is_shared=False).prepare()
            assert (await made.api.get(cidrs)).body["spec"]["cidrs"] == stored
        assert "is not what this cluster began with" in caplog.text


class SlowStore(MemoryStore):
    """Lets other tasks run before every answer, as a disk does."""

    async def get(self, key: str) -> KeyValue | None:
        found = await super().get(key)
        await asyncio.sleep(0)
        return found


async def test_very_many_services_get_their_ports_at_once() -> None:
    store = await SlowStore.open()
    async with cluster(ports=range(30000, 31000), store=store) as made:
        taken = await asyncio.gather(*(made.allocation.ports.take((), 1, dry_run=False) for _ in range(300)))
        assert len({port for ports in taken for port in ports}) == 300
        await asyncio.gather(*(made.allocation.ports.release(ports) for ports in taken))
        assert await made.allocation.ports.current() == set()
