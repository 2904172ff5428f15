"""The scheduler against a real API server in the same process: from a pod's creation to its binding."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import Pod
from mooring.api.events_v1 import Event
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.scheduling_v1 import PriorityClass
from mooring.apiserver import in_process
from mooring.client import Client, LeaseTimes
from mooring.client.in_process import InProcessTransport
from mooring.client.leader_election import LeaderElection
from mooring.client.transport import Request, Response
from mooring.scheduler.framework import SUCCESS, Code, EventWithHint, Handle, PluginArguments, Status, unschedulable
from mooring.scheduler.framework.profiles import DEFAULT_PLUGINS, PluginUse, ProfileSpec
from mooring.scheduler.framework.registry import Factory
from mooring.scheduler.queue import Backoffs
from mooring.scheduler.running.options import COMPONENT, SchedulerConfig
from scheduler_rig import Rig, rig

pytestmark = pytest.mark.req("S.3")
QUICK = Backoffs(initial=0.05, maximum=0.2)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rig(tmp_path) as found:
        yield found


def condition(pod: Pod) -> Any:
    return next((entry for entry in pod.status.conditions if entry.type == "PodScheduled"), None)


async def events(cluster: Rig, name: str) -> list[Event]:
    listing = await cluster.admin.list(Event, "default")
    return [event for event in listing.items if event.regarding.name == name]


async def until_reported(cluster: Rig, name: str, reason: str) -> None:
    """Events come a moment after what they tell of: bindings and deletions go first."""
    async with asyncio.timeout(30):
        while reason not in [event.reason for event in await events(cluster, name)]:  # noqa: ASYNC110 - they are listed
            await asyncio.sleep(0.02)


async def priority_class(cluster: Rig, name: str, value: int) -> None:
    await cluster.admin.create(PriorityClass(metadata=ObjectMeta(name=name), value=value))


class HeardTransport(InProcessTransport):
    """Notes of which version the lists are that it is asked for."""

    def __init__(self, handler: Any) -> None:
        super().__init__(handler)
        self.listed: dict[str, str] = {}

    async def send(self, request: Request, timeout: float) -> Response:  # noqa: ASYNC109 - the protocol's word
        query = dict(request.query)
        if request.method == "GET" and "limit" in query:
            self.listed[request.path] = query.get("resourceVersion", "")
        return await super().send(request, timeout)


async def test_a_scheduler_begins_with_what_the_server_has_at_hand(cluster: Rig) -> None:
    await cluster.add_node("n1")
    user = UserInfo(username="system:kube-scheduler", groups=["system:authenticated"])
    transport = HeardTransport(in_process.handler(cluster.server.app, user))
    cluster.start(client=Client(transport, user_agent="mooring-scheduler/v1.37.0"))
    await cluster.add_pod("web")
    await cluster.until(lambda: cluster.node_of("web"))
    assert {"/api/v1/nodes", "/api/v1/pods"} <= transport.listed.keys()
    assert set(transport.listed.values()) == {"0"}


async def test_pods_are_bound_and_events_are_recorded(cluster: Rig) -> None:
    await cluster.add_node("n1")
    cluster.start()
    for number in range(20):
        await cluster.add_pod(f"web-{number}")
    await cluster.until(lambda: all(pod.spec.node_name for pod in cluster.pods.values()) and len(cluster.pods) == 20)
    assert condition(cluster.pods["web-0"]).status == "True"
    events_seen = cluster.informers.of(Event)
    await cluster.until(lambda: any(event.regarding.name == "web-0" for event in events_seen.objects()))
    await until_reported(cluster, "web-0", "Scheduled")
    reported = await events(cluster, "web-0")
    assert (reported[0].reason, reported[0].note) == ("Scheduled", "Successfully assigned default/web-0 to n1")
    assert (reported[0].type, reported[0].action, reported[0].reporting_controller) == (
        "Normal",
        "Binding",
        "default-scheduler",
    )


async def test_a_pod_that_fits_nowhere_says_why_and_is_bound_when_a_node_comes(cluster: Rig) -> None:
    await cluster.add_node("n1", cpu="1")
    cluster.start()
    await cluster.add_pod("big", cpu="2")
    await cluster.until(lambda: "big" in cluster.pods and condition(cluster.pods["big"]))
    reported = condition(cluster.pods["big"])
    assert (reported.status, reported.reason) == ("False", "Unschedulable")
    assert reported.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    await cluster.add_node("n2", cpu="4")
    await cluster.until(lambda: cluster.node_of("big") == "n2")
    await until_reported(cluster, "big", "FailedScheduling")


async def test_a_cluster_without_nodes_is_waited_for(cluster: Rig) -> None:
    cluster.start()
    await cluster.add_pod("web")
    await cluster.until(lambda: "web" in cluster.pods and condition(cluster.pods["web"]))
    assert condition(cluster.pods["web"]).message == "no nodes available to schedule pods"
    await cluster.add_node("n1")
    await cluster.until(lambda: cluster.node_of("web") == "n1")


async def test_a_gated_pod_is_bound_when_its_gates_are_gone(cluster: Rig) -> None:
    await cluster.add_node("n1")
    scheduler = cluster.start()
    await cluster.add_pod("web", schedulingGates=[{"name": "a.b/c"}])
    await cluster.until(lambda: scheduler.queue.counts()["gated"] == 1)  # type: ignore[index] # a Pool is its word
    made = await cluster.admin.get(Pod, "web", "default")
    made.spec.scheduling_gates = []
    await cluster.admin.update(made)
    await cluster.until(lambda: cluster.node_of("web") == "n1")


@pytest.mark.parametrize("victims", [1, 3])
@pytest.mark.parametrize("gates", ["", "SchedulerAsyncPreemption=false"])
async def test_a_more_important_pod_displaces_others_and_gets_their_room(
    cluster: Rig, victims: int, gates: str
) -> None:
    await cluster.add_node("n1", cpu="3")
    await priority_class(cluster, "high", 1000)
    cluster.start(gates=gates)
    for number in range(victims):
        await cluster.add_pod(f"low-{number}", cpu=f"{3000 // victims}m")
    await cluster.until(lambda: all(cluster.node_of(f"low-{number}") for number in range(victims)))
    await cluster.add_pod("high", cpu="3", priorityClassName="high")
    await cluster.until(lambda: cluster.node_of("high") == "n1")
    assert set(cluster.pods) == {"high"}
    await until_reported(cluster, "low-0", "Preempted")


async def test_a_pod_waits_on_its_nominated_node_until_its_victims_have_gone(cluster: Rig) -> None:
    await cluster.add_node("n1", cpu="1")
    await priority_class(cluster, "high", 1000)
    scheduler = cluster.start()
    low = await cluster.add_pod("low", cpu="1")
    await cluster.until(lambda: cluster.node_of("low"))
    made = await cluster.admin.get(Pod, "low", "default")
    made.metadata.finalizers = ["example.com/wait"]
    await cluster.admin.update(made)
    await cluster.add_pod("high", cpu="1", priorityClassName="high")
    await cluster.until(lambda: "high" in cluster.pods and cluster.pods["high"].status.nominated_node_name == "n1")
    await cluster.until(lambda: cluster.pods["low"].metadata.deletion_timestamp)
    await cluster.add_pod("middle", cpu="1")
    await cluster.until(lambda: "middle" in cluster.pods and condition(cluster.pods["middle"]))
    assert not cluster.node_of("high")
    await cluster.admin.patch(Pod, low.metadata.name, {"metadata": {"finalizers": None}}, "default")
    await cluster.until(lambda: cluster.node_of("high") == "n1")
    assert not cluster.node_of("middle"), "the room was promised to the more important pod"
    assert len(scheduler.engine.nominations) == 0


async def test_a_disabled_preemption_displaces_no_pod(cluster: Rig) -> None:
    await cluster.add_node("n1", cpu="1")
    await priority_class(cluster, "high", 1000)
    plugins = tuple(use for use in DEFAULT_PLUGINS if use.name != "DefaultPreemption")
    cluster.start(SchedulerConfig(profiles=(ProfileSpec(plugins=plugins),)))
    await cluster.add_pod("low", cpu="1")
    await cluster.until(lambda: cluster.node_of("low"))
    await cluster.add_pod("high", cpu="1", priorityClassName="high")
    await cluster.until(lambda: "high" in cluster.pods and condition(cluster.pods["high"]))
    assert cluster.node_of("low") == "n1"


async def test_profiles_schedule_the_pods_that_name_them(cluster: Rig) -> None:
    await cluster.add_node("n1")
    cluster.start(SchedulerConfig(profiles=(ProfileSpec("one"), ProfileSpec("two"))))
    await cluster.add_pod("a", scheduler="one")
    await cluster.add_pod("b", scheduler="two")
    await cluster.add_pod("c", scheduler="three")
    await cluster.until(lambda: cluster.node_of("a") and cluster.node_of("b"))
    assert not cluster.node_of("c")


async def test_a_restart_loses_nothing(cluster: Rig) -> None:
    await cluster.add_node("n1", cpu="1")
    first = cluster.start()
    await cluster.add_pod("small", cpu="600m")
    await cluster.add_pod("big", cpu="2")
    await cluster.until(lambda: cluster.node_of("small") and condition(cluster.pods["big"]))
    await cluster.stop(first)
    await cluster.add_pod("late", cpu="600m")
    second = cluster.start()
    await second.wait_until_ready()
    await cluster.until(lambda: condition(cluster.pods["late"]))
    assert not cluster.node_of("late"), "the room of a pod that was bound before the restart is taken"
    await cluster.add_node("n2", cpu="4")
    await cluster.until(lambda: cluster.node_of("big") and cluster.node_of("late"))


async def test_of_two_schedulers_one_works_and_the_other_takes_over(cluster: Rig) -> None:
    await cluster.add_node("n1")
    times = LeaseTimes(duration=2.0, renew_deadline=1.0, retry_period=0.1)
    config = SchedulerConfig(leader_election=LeaderElection(COMPONENT, enabled=True, times=times))
    first = cluster.start(config, elected=True)
    await first.wait_until_ready()
    second = cluster.start(config, elected=True)
    await cluster.add_pod("one")
    await cluster.until(lambda: cluster.node_of("one"))
    assert (first.is_ready, second.is_ready) == (True, False)
    await cluster.stop(first)
    await cluster.add_pod("two")
    await cluster.until(lambda: cluster.node_of("two"))
    assert second.is_ready


async def test_two_schedulers_that_do_not_know_of_each_other_bind_no_pod_twice(cluster: Rig) -> None:
    for number in range(4):
        await cluster.add_node(f"n{number}")
    for scheduler in (cluster.start(SchedulerConfig(backoffs=QUICK)), cluster.start(SchedulerConfig(backoffs=QUICK))):
        await scheduler.wait_until_ready()
    for number in range(60):
        await cluster.add_pod(f"web-{number}")
    await cluster.until(lambda: len(cluster.bindings) == 60)
    assert cluster.moved == []
    await cluster.until(lambda: all(not len(scheduler.assumptions) for scheduler, _ in cluster.running))
    assert [len(list(scheduler.engine.cluster.placed_pods())) for scheduler, _ in cluster.running] == [60, 60]


@pytest.mark.parametrize("version", ["1.31", "1.34", "1.37"])
async def test_a_scheduler_of_any_version_schedules(cluster: Rig, version: str) -> None:
    await cluster.add_node("n1")
    cluster.start(emulation=version)
    await cluster.add_pod("web")
    await cluster.until(lambda: cluster.node_of("web") == "n1")


async def test_a_pod_that_another_client_binds_stays_where_it_was_bound(cluster: Rig) -> None:
    await cluster.add_node("n1", cpu="1")
    await cluster.add_node("n2", cpu="1")
    scheduler = cluster.start()
    await scheduler.wait_until_ready()
    await cluster.add_pod("theirs", cpu="1", scheduler="another")
    await cluster.admin.bind("theirs", "default", "n1")
    await cluster.until(lambda: len(list(scheduler.engine.cluster.placed_pods())) == 1)
    await cluster.add_pod("ours", cpu="1")
    await cluster.until(lambda: cluster.node_of("ours"))
    assert cluster.node_of("ours") == "n2"


# -- plugins of users


class Plugin:
    """A plugin that does at each extension point what a test says."""

    name = "Mine"

    def __init__(self, **says: Any) -> None:
        self.says = says
        self.log: list[str] = []

    def events_to_register(self) -> Sequence[EventWithHint]:
        return ()

    def reserve(self, _cycle: Any, pod: Pod, _node: str) -> Status:
        self.log.append(f"reserve {pod.metadata.name}")
        return self._say("reserve")

    def unreserve(self, _cycle: Any, pod: Pod, _node: str) -> None:
        self.log.append(f"unreserve {pod.metadata.name}")

    def permit(self, _cycle: Any, _pod: Pod, _node: str) -> tuple[Status, float]:
        return self._say("permit"), 0.2

    async def pre_bind(self, _cycle: Any, _pod: Pod, _node: str) -> Status:
        return self._say("pre_bind")

    def post_bind(self, _cycle: Any, pod: Pod, _node: str) -> None:
        self.log.append(f"post_bind {pod.metadata.name}")

    def _say(self, point: str) -> Status:
        said = self.says.get(point, SUCCESS)
        if isinstance(said, list):
            said = said.pop(0) if said else SUCCESS
        if isinstance(said, Exception):
            raise said
        assert isinstance(said, Status)
        return said


def with_plugin(plugin: Plugin) -> SchedulerConfig:
    def factory(_arguments: PluginArguments, _handle: object) -> Plugin:
        return plugin

    made: Factory = factory
    spec = ProfileSpec(plugins=(*DEFAULT_PLUGINS, PluginUse("Mine")))
    return SchedulerConfig(profiles=(spec,), plugins={"Mine": made}, backoffs=QUICK)


@pytest.mark.parametrize("point", ["reserve", "permit", "pre_bind"])
@pytest.mark.parametrize("how", ["error", "exception"])
async def test_what_goes_wrong_in_a_plugin_is_undone_and_tried_again(cluster: Rig, point: str, how: str) -> None:
    await cluster.add_node("n1", cpu="1")
    problem = RuntimeError("a defect") if how == "exception" else Status(Code.ERROR, ("not now",))
    plugin = Plugin(**{point: [problem]})
    scheduler = cluster.start(with_plugin(plugin))
    await cluster.add_pod("web", cpu="1")
    await cluster.until(lambda: cluster.node_of("web") == "n1")
    await cluster.until(lambda: plugin.log[-1] == "post_bind web")
    assert plugin.log == ["reserve web", "unreserve web", "reserve web", "post_bind web"]
    await cluster.until(lambda: len(scheduler.assumptions) == 0)


async def test_a_pod_that_is_not_permitted_gives_its_room_to_the_next(cluster: Rig) -> None:
    await cluster.add_node("n1", cpu="1")
    plugin = Plugin(permit=[unschedulable("no")])
    cluster.start(with_plugin(plugin))
    await cluster.add_pod("first", cpu="1")
    await cluster.until(lambda: "first" in cluster.pods and condition(cluster.pods["first"]))
    assert condition(cluster.pods["first"]).message == "no"
    await cluster.add_pod("second", cpu="1")
    await cluster.until(lambda: cluster.node_of("second") == "n1")


async def test_who_was_refused_while_another_waited_in_vain_gets_its_room(cluster: Rig) -> None:
    await cluster.add_node("n1", cpu="1")
    scheduler = cluster.start(with_plugin(Plugin(permit=[Status(Code.WAIT)])))
    await cluster.add_pod("first", cpu="1")
    await cluster.until(lambda: len(scheduler.waiting))
    await cluster.add_pod("second", cpu="1")
    await cluster.until(lambda: cluster.node_of("second") == "n1")
    assert cluster.node_of("first") == ""


async def test_a_pod_that_waits_for_permission_in_vain_is_refused(cluster: Rig) -> None:
    await cluster.add_node("n1")
    plugin = Plugin(permit=[Status(Code.WAIT)])
    cluster.start(with_plugin(plugin))
    await cluster.add_pod("web")
    await cluster.until(lambda: "web" in cluster.pods and condition(cluster.pods["web"]))
    assert "timeout after waiting 0.2s at plugin Mine" in condition(cluster.pods["web"]).message


async def test_a_pod_that_is_allowed_while_it_waits_is_bound(cluster: Rig) -> None:
    await cluster.add_node("n1")
    plugin = Plugin(permit=[Status(Code.WAIT)])
    scheduler = cluster.start(with_plugin(plugin))
    made = await cluster.add_pod("web")
    await cluster.until(lambda: scheduler.waiting.get(made.metadata.uid))
    waiting = scheduler.waiting.get(made.metadata.uid)
    assert waiting is not None
    waiting.allow("Mine")
    await cluster.until(lambda: cluster.node_of("web") == "n1")


class Gang:
    """Lets pods wait until there are three of them."""

    name = "Gang"

    def __init__(self, _arguments: PluginArguments, handle: Handle) -> None:
        assert handle.waiting is not None
        self._waiting = handle.waiting

    def permit(self, _cycle: Any, _pod: Pod, _node: str) -> tuple[Status, float]:
        if len(self._waiting) < 2:
            return Status(Code.WAIT), 30.0
        for waiting in self._waiting:
            waiting.allow(self.name)
        return SUCCESS, 0.0


async def test_a_plugin_lets_pods_wait_for_each_other(cluster: Rig) -> None:
    await cluster.add_node("n1")
    for name in ("a", "b", "c"):
        await cluster.add_pod(name)
    spec = ProfileSpec(plugins=(*DEFAULT_PLUGINS, PluginUse("Gang")))
    scheduler = cluster.start(SchedulerConfig(profiles=(spec,), plugins={"Gang": Gang}, backoffs=QUICK))
    await cluster.until(lambda: all(cluster.node_of(name) == "n1" for name in ("a", "b", "c")))
    assert not len(scheduler.waiting)
