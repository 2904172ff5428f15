"""DynamicResources: what is written into claims before a pod is bound, and what wakes pods."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, cast

import pytest
from msgspec import structs

from mooring.api.core_v1 import Pod
from mooring.api.errors import conflict
from mooring.api.meta_v1 import Resource
from mooring.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimConsumerReference, ResourceSlice
from mooring.client import Client, DisconnectedError
from mooring.scheduler.deciding.engine import Engine, Outcome
from mooring.scheduler.framework import QueueingHint, Status
from mooring.scheduler.plugins.dynamic_resources import DynamicResources
from mooring.testing.builders import made, node, pod
from mooring.testing.clock import MockClock

pytestmark = pytest.mark.req("S.3")

DRIVER = "gpu.example.com"
FINALIZER = "resource.kubernetes.io/delete-protection"


def claim(name: str = "c", **status: Any) -> ResourceClaim:
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}]
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "3"}
    return made(ResourceClaim, {"metadata": metadata, "spec": {"devices": {"requests": requests}}, "status": status})


def slice_on(where: str, *devices: str) -> ResourceSlice:
    pool = {"name": where, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": where, "devices": [{"name": entry} for entry in devices]}
    return made(ResourceSlice, {"metadata": {"name": where}, "spec": spec})


def using(*claims: str, name: str = "p") -> Pod:
    return pod(name, spec={"resourceClaims": [{"name": entry, "resourceClaimName": entry} for entry in claims]})


class Server:
    """A client that keeps claims, as the API server would, and notes what is written."""

    def __init__(self, *claims: ResourceClaim) -> None:
        self.clock = MockClock()
        self.claims = {entry.metadata.name: entry for entry in claims}
        self.calls: list[str] = []
        self.at_once = self.most_at_once = 0
        self.before: Callable[[str], None] = lambda _: None
        self.version = 10

    async def get(self, _kind: type[ResourceClaim], name: str, _namespace: str) -> ResourceClaim:
        return self.claims[name]

    async def update(self, thing: ResourceClaim) -> ResourceClaim:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        return self._write("update", thing)

    async def update_status(self, thing: ResourceClaim) -> ResourceClaim:
        return self._write("update status", thing)

    async def patch(
        self, _kind: type[ResourceClaim], name: str, body: Any, _namespace: str, *, subresource: str
    ) -> None:
        self.calls.append(f"patch {subresource}")
        gone = body["status"]["reservedFor"][0]["uid"]
        status = self.claims[name].status
        left = [consumer for consumer in status.reserved_for if consumer.uid != gone]
        self._keep(structs.replace(self.claims[name], status=structs.replace(status, reserved_for=left)))

    def _write(self, call: str, thing: ResourceClaim) -> ResourceClaim:
        self.before(call)
        if thing.metadata.resource_version != self.claims[thing.metadata.name].metadata.resource_version:
            raise conflict("resourceclaims", thing.metadata.name)
        self.calls.append(call)
        return self._keep(thing)

    def _keep(self, thing: ResourceClaim) -> ResourceClaim:
        self.version += 1
        metadata = structs.replace(thing.metadata, resource_version=str(self.version))
        kept = self.claims[thing.metadata.name] = structs.replace(thing, metadata=metadata)
        return kept


def engine_with(server: Server, *things: Resource) -> Engine:
    engine = Engine(client=cast("Client", server))
    gpu = made(DeviceClass, {"metadata": {"name": "gpu"}, "spec": {}})
    for thing in (node("a"), gpu, *server.claims.values(), *things):
        engine.put(thing)
    return engine


def plugin_of(engine: Engine) -> DynamicResources:
    plugins = engine.profiles["default-scheduler"].plugins
    return next(plugin for plugin in plugins if isinstance(plugin, DynamicResources))


def prepare(engine: Engine, wanted: Pod) -> tuple[Status, Outcome]:
    """Schedule, reserve, and do what is done before binding."""
    outcome = engine.schedule(wanted)
    assert outcome.node is not None, outcome.message
    plugin = plugin_of(engine)
    assert plugin.reserve(outcome.cycle, wanted, outcome.node).is_success
    return asyncio.run(plugin.pre_bind(outcome.cycle, wanted, outcome.node)), outcome


def test_allocation_and_consumer_are_written() -> None:
    server = Server(claim())
    engine = engine_with(server, slice_on("a", "g0"))
    status, _ = prepare(engine, using("c"))
    assert status.is_success
    assert server.calls == ["update", "update status"]
    written = server.claims["c"]
    assert written.metadata.finalizers == [FINALIZER]
    assert written.status.allocation is not None
    assert written.status.allocation.allocation_timestamp is not None
    assert [result.device for result in written.status.allocation.devices.results] == ["g0"]
    assert [(entry.resource, entry.name) for entry in written.status.reserved_for] == [("pods", "p")]


def test_the_claims_of_many_pods_are_written_at_the_same_time_up_to_a_limit() -> None:
    names = [f"c{number}" for number in range(250)]
    server = Server(*map(claim, names))
    engine = engine_with(server, slice_on("a", *(f"g{number}" for number in range(250))))
    plugin = plugin_of(engine)
    ready = []
    for name in names:
        wanted = using(name, name=f"pod-of-{name}")
        outcome = engine.schedule(wanted)
        assert plugin.reserve(outcome.cycle, wanted, "a").is_success
        ready.append((outcome.cycle, wanted))

    async def run() -> list[Status]:
        return await asyncio.gather(*(plugin.pre_bind(cycle, wanted, "a") for cycle, wanted in ready))

    assert all(status.is_success for status in asyncio.run(run()))
    assert server.most_at_once == 64
    assert all(entry.status.allocation is not None for entry in server.claims.values())
    assert [cycle.pre_filter["DynamicResources"].claims[0].metadata.finalizers for cycle, _ in ready] == [
        [FINALIZER]
    ] * 250


async def with_time(server: Server, work: Coroutine[Any, Any, Status]) -> Status:
    """Return what comes of some work while time goes by."""
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.sleep(0)
        server.clock.advance(1)
    return task.result()


def test_what_was_written_counts_before_informers_show_it() -> None:
    server = Server(claim("c"), claim("d"))
    engine = engine_with(server, slice_on("a", "g0"))
    prepare(engine, using("c"))
    assert engine.schedule(using("d", name="q")).node is None
    assert engine.schedule(using("c", name="q")).node == "a", "a second pod shares the claim"
    engine.put(server.claims["c"])
    assert engine.schedule(using("d", name="q")).node is None
    engine.put(claim("c"))  # deallocated by another client
    assert engine.schedule(using("d", name="q")).node == "a"


def test_a_second_pod_is_added_to_an_allocated_claim() -> None:
    server = Server(claim())
    engine = engine_with(server, slice_on("a", "g0"))
    prepare(engine, using("c"))
    status, _ = prepare(engine, using("c", name="q"))
    assert status.is_success
    assert [entry.name for entry in server.claims["c"].status.reserved_for] == ["p", "q"]


def test_a_conflict_is_tried_again_with_the_claim_as_it_is() -> None:
    server = Server(claim())
    engine = engine_with(server, slice_on("a", "g0"))

    def disturb(_call: str) -> None:
        server.before = lambda _: None
        server._keep(structs.replace(server.claims["c"]))

    server.before = disturb
    status, _ = prepare(engine, using("c"))
    assert status.is_success
    assert server.claims["c"].status.allocation is not None


def test_a_claim_that_another_client_has_allocated_is_an_error() -> None:
    server = Server(claim())
    engine = engine_with(server, slice_on("a", "g0"))

    def disturb(_call: str) -> None:
        server.before = lambda _: None
        allocated = claim(allocation={"devices": {}})
        server._keep(allocated)

    server.before = disturb
    status, _ = prepare(engine, using("c"))
    assert status.message == "claim default/c got allocated elsewhere in the meantime"


def test_an_answer_that_is_lost_is_looked_up_until_it_is_known() -> None:
    server = Server(claim())
    engine = engine_with(server, slice_on("a", "g0"))
    plain = server.update_status

    async def lose(thing: ResourceClaim) -> ResourceClaim:
        server.update_status = plain  # type: ignore[method-assign] # from now on answers arrive
        await plain(thing)
        raise DisconnectedError("lost")

    server.update_status = lose  # type: ignore[method-assign] # the first answer is lost
    plugin, wanted = plugin_of(engine), using("c")
    outcome = engine.schedule(wanted)
    assert plugin.reserve(outcome.cycle, wanted, "a").is_success
    assert asyncio.run(with_time(server, plugin.pre_bind(outcome.cycle, wanted, "a"))).is_success
    assert server.calls == ["update", "update status"], "it was written once"


def test_a_pod_that_is_not_bound_after_all_leaves_its_claims() -> None:
    server = Server(claim())
    engine = engine_with(server, slice_on("a", "g0"))
    _, outcome = prepare(engine, using("c"))

    async def leave() -> None:
        plugin_of(engine).unreserve(outcome.cycle, outcome.pod, "a")
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(leave())
    assert server.calls[-1] == "patch status"
    assert server.claims["c"].status.reserved_for == []
    assert server.claims["c"].status.allocation is not None, "the next attempt finds it allocated"


@pytest.mark.parametrize("trouble", ["none", "a conflict", "a lost request"])
def test_an_unused_claim_in_the_wrong_place_is_freed(trouble: str) -> None:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}]
    allocation = {"devices": {"results": []}, "nodeSelector": {"nodeSelectorTerms": terms}}
    server = Server(claim(allocation=allocation))
    engine = engine_with(server, slice_on("a", "g0"))
    wanted = using("c")
    outcome = engine.schedule(wanted)
    assert outcome.diagnosis is not None
    statuses = outcome.diagnosis.statuses()

    def disturb(_call: str) -> None:
        server.before = lambda _: None
        if trouble == "a conflict":
            server._keep(server.claims["c"])
        elif trouble == "a lost request":
            raise DisconnectedError("lost")

    async def free() -> str:
        found = plugin_of(engine).post_filter(engine.cluster.info(wanted), statuses)
        await server.clock.run(1)
        return found.status.message

    server.before = disturb
    assert asyncio.run(free()) == "deallocation of ResourceClaim completed"
    assert server.claims["c"].status.allocation is None


def test_a_claim_that_another_pod_uses_is_not_freed() -> None:
    other = ResourceClaimConsumerReference(resource="pods", name="o", uid="o")
    used = claim(allocation={"devices": {"results": []}, "nodeSelector": {"nodeSelectorTerms": []}})
    used.status.reserved_for = [other]
    engine = engine_with(Server(used))
    outcome = engine.schedule(using("c"))
    assert outcome.diagnosis is not None
    found = plugin_of(engine).post_filter(engine.cluster.info(using("c")), outcome.diagnosis.statuses())
    assert (str(found.status.code), found.status.message) == ("Unschedulable", "")


def test_nothing_is_said_of_claims_where_there_are_none() -> None:
    engine = engine_with(Server())
    plain = pod("plain", cpu="1000")
    outcome = engine.schedule(plain)
    assert outcome.diagnosis is not None
    found = plugin_of(engine).post_filter(engine.cluster.info(plain), outcome.diagnosis.statuses())
    assert (str(found.status.code), found.status.message) == ("Unschedulable", "")


# -- devices that must be made ready


def slow_slice() -> ResourceSlice:
    found = slice_on("a", "g0")
    [device] = found.spec.devices
    device.binding_conditions, device.binding_failure_conditions = ["Attached"], ["Broken"]
    device.binds_to_node = True
    return found


def reported(written: ResourceClaim, kind: str) -> ResourceClaim:
    condition = {"type": kind, "status": "True", "reason": "Why", "message": "m", "lastTransitionTime": None}
    device = {"driver": DRIVER, "pool": "a", "device": "g0", "conditions": [condition]}
    status = made(ResourceClaim, {"metadata": {"name": "x"}, "spec": {}, "status": {"devices": [device]}}).status
    return structs.replace(written, status=structs.replace(written.status, devices=status.devices))


@dataclass(frozen=True)
class Waiting:
    name: str
    condition: str
    message: str


WAITING = (
    Waiting("is bound when its device is ready", "Attached", ""),
    Waiting("is tried again when its device has failed", "Broken", 'claim c binding failed: reason=Why, message="m"'),
    Waiting("is tried again when its device takes too long", "", "device binding timeout"),
)


@pytest.mark.parametrize("case", WAITING, ids=lambda case: case.name)
def test_a_pod(case: Waiting) -> None:
    server = Server(claim())
    engine = engine_with(server, slow_slice())
    plugin, wanted = plugin_of(engine), using("c")
    outcome = engine.schedule(wanted)
    assert plugin.reserve(outcome.cycle, wanted, "a").is_success

    async def run() -> Status:
        task = asyncio.ensure_future(plugin.pre_bind(outcome.cycle, wanted, "a"))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not task.done()
        if case.condition:
            engine.put(reported(server.claims["c"], case.condition))
        while not task.done():
            server.clock.advance(100)
            await asyncio.sleep(0)
        return task.result()

    assert asyncio.run(run()).message == case.message
    allocation = server.claims["c"].status.allocation
    assert allocation is not None
    assert allocation.node_selector is not None
    assert allocation.devices.results[0].binding_conditions == ["Attached"]


def test_a_claim_whose_devices_have_failed_is_of_no_use_on_any_node() -> None:
    server = Server(claim())
    engine = engine_with(server, slow_slice())
    wanted = using("c")
    outcome = engine.schedule(wanted)
    assert plugin_of(engine).reserve(outcome.cycle, wanted, "a").is_success
    [claimed] = outcome.cycle.pre_filter["DynamicResources"].reserved
    plugin_of(engine)._allocated.end_allocation(claimed)
    engine.put(reported(claimed, "Broken"))
    again = engine.schedule(wanted)
    assert again.node is None
    assert "resourceclaim not available on the node" in again.message


def test_a_pod_whose_claim_is_not_there_does_not_enter_the_queue() -> None:
    engine = engine_with(Server())
    assert plugin_of(engine).pre_enqueue(using("c")).reasons == ('resourceclaim.resource.k8s.io "c" not found',)
    engine.put(claim())
    assert plugin_of(engine).pre_enqueue(using("c")).is_success


ALLOCATED: dict[str, Any] = {"allocation": {"devices": {}}}


@dataclass(frozen=True)
class Woken:
    name: str
    old: ResourceClaim | None
    new: ResourceClaim | None
    queued: bool


WOKEN = (
    Woken("its claim was made", None, claim(), True),
    Woken("its claim was allocated", claim(), claim(**ALLOCATED), True),
    Woken("not: its claim got a label or so", claim(), claim(), False),
    Woken("not: another claim was made", None, claim("other"), False),
    Woken("another claim was deallocated", claim("other", **ALLOCATED), claim("other"), True),
    Woken("another claim that had devices is gone", claim("other", **ALLOCATED), None, True),
    Woken("not: another claim that had none is gone", claim("other"), None, False),
)


@pytest.mark.parametrize("case", WOKEN, ids=lambda case: case.name)
def test_a_refused_pod_is_woken_when(case: Woken) -> None:
    plugin = plugin_of(engine_with(Server(claim(), claim("other"))))
    [entry] = [entry for entry in plugin.events_to_register() if entry.event.kind.value == "ResourceClaim"]
    assert entry.hint is not None
    assert entry.hint(using("c"), case.old, case.new) is QueueingHint.of(case.queued)
