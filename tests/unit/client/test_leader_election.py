"""Leader election: one leader at a time, clean release, loss noticed in time."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from client_fakes import Answer, FakeTransport, MemoryApi, lost
from mooring.api import errors
from mooring.api.coordination_v1 import Lease
from mooring.api.meta_v1 import ObjectMeta
from mooring.client import Client, LeaderElection, LeaderElector, LeaseTimes, NotLeaderError
from mooring.client.transport import Request
from mooring.testing.clock import MockClock, settle

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/mooring-scheduler"


class Candidate:
    """An instance that notes when it leads."""

    def __init__(self, api: MemoryApi, clock: MockClock, name: str, log: list[str]) -> None:
        self.failing: Callable[[Request], Answer | None] = lambda _: None
        self._api = api
        self.transport = FakeTransport(self._answer)
        self.client = Client(self.transport, user_agent="t", clock=clock)
        self.elector = LeaderElector(self.client, LeaderElection("mooring-scheduler"), identity=name, version="1.37")
        self.name = name
        self._log = log
        self.finish = asyncio.Event()
        self.task = asyncio.ensure_future(self.elector.run(self._lead))

    def _answer(self, request: Request) -> Answer:
        return self.failing(request) or self._api.answer(request)

    async def _lead(self) -> None:
        self._log.append(f"{self.name} leads")
        try:
            await self.finish.wait()
        finally:
            self._log.append(f"{self.name} stops")

    async def write(self) -> None:
        """Write as the component would; raise NotLeaderError."""
        name = f"{self.name}-{len(self.transport.requests)}"
        await self.client.create(Lease(metadata=ObjectMeta(name=name, namespace="default")))

    def hear(self, lease: dict[str, Any]) -> None:
        """Have its watch tell something."""
        self.transport.streams[-1].send({"type": "MODIFIED", "object": lease})

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Lab:
    def __init__(self) -> None:
        self.api, self.clock, self.log = MemoryApi(), MockClock(), list[str]()

    def candidate(self, name: str) -> Candidate:
        return Candidate(self.api, self.clock, name, self.log)

    @property
    def lease(self) -> dict[str, Any]:
        return self.api.objects[PATH]

    @property
    def holder(self) -> str:
        return str(self.lease["spec"].get("holderIdentity", ""))


async def test_the_first_one_leads_and_the_second_waits() -> None:
    lab = Lab()
    first, second = lab.candidate("first"), lab.candidate("second")
    await lab.clock.run(120)
    assert lab.log == ["first leads"]
    assert (lab.holder, second.elector.leader, first.elector.is_leader) == ("first", "first", True)
    assert lab.lease["spec"]["leaseTransitions"] == 0
    assert lab.lease["spec"]["renewTime"] > lab.lease["spec"]["acquireTime"]
    await first.stop()
    await second.stop()


async def test_renewing_costs_one_request() -> None:
    lab = Lab()
    only = lab.candidate("only")
    await lab.clock.run(1)
    lab.api.log.clear()
    await lab.clock.run(20)
    assert lab.api.log == [("PUT", PATH)] * 10
    await only.stop()


@pytest.mark.req("4330.10")
async def test_the_lease_announces_the_version() -> None:
    lab = Lab()
    only = lab.candidate("only")
    await settle()
    assert lab.lease["metadata"]["annotations"] == {"mooring.dev/version": "1.37"}
    await only.stop()


async def test_a_leader_that_stops_releases_the_lease_after_its_work_has_ended() -> None:
    lab = Lab()
    first, second = lab.candidate("first"), lab.candidate("second")
    await lab.clock.run(10)
    await first.stop()
    assert (lab.log, lab.holder) == (["first leads", "first stops"], "")
    await lab.clock.run(2)
    assert lab.log == ["first leads", "first stops", "second leads"]
    assert lab.lease["spec"]["leaseTransitions"] == 1
    await second.stop()


async def test_work_that_ends_by_itself_releases_the_lease_too() -> None:
    lab = Lab()
    only = lab.candidate("only")
    await settle()
    only.finish.set()
    assert await only.task is True
    assert lab.holder == ""


async def test_what_the_work_raises_is_raised() -> None:
    lab = Lab()
    client = Client(FakeTransport(lab.api.answer), user_agent="t", clock=lab.clock)
    elector = LeaderElector(client, LeaderElection("mooring-scheduler"))

    async def fail() -> None:
        raise KeyError("mistake")

    with pytest.raises(KeyError):
        await elector.run(fail)
    assert lab.holder == ""


async def test_a_leader_that_dies_is_followed_after_the_lease_has_run_out() -> None:
    lab = Lab()
    first = lab.candidate("first")
    await lab.clock.run(10)
    first.failing = lambda _: lost()
    await first.stop()  # it cannot release
    second = lab.candidate("second")
    await lab.clock.run(14)
    assert "second leads" not in lab.log
    await lab.clock.run(4)
    assert lab.log[-1] == "second leads"
    await second.stop()


@pytest.mark.parametrize(
    "failing",
    [
        pytest.param(lambda _: lost(), id="the server is gone"),
        pytest.param(lambda _: errors.service_unavailable("no"), id="the server refuses"),
    ],
)
async def test_a_leader_that_cannot_renew_stops_before_another_begins(
    failing: Callable[[Request], Answer | None],
) -> None:
    lab = Lab()
    first, second = lab.candidate("first"), lab.candidate("second")
    await lab.clock.run(10)
    first.failing = failing
    await lab.clock.run(60)
    assert lab.log == ["first leads", "first stops", "second leads"]
    assert first.task.done()
    assert first.task.result() is False
    await second.stop()


async def test_a_short_outage_is_ridden_out() -> None:
    lab = Lab()
    only = lab.candidate("only")
    await lab.clock.run(10)
    only.failing = lambda _: lost()
    await lab.clock.run(7)
    only.failing = lambda _: None
    await lab.clock.run(60)
    assert lab.log == ["only leads"]
    await only.stop()


async def test_a_leader_whose_lease_was_taken_stops() -> None:
    lab = Lab()
    only = lab.candidate("only")
    await lab.clock.run(5)
    lab.lease["spec"]["holderIdentity"] = "thief"
    lab.lease["metadata"]["resourceVersion"] = "99"
    await lab.clock.run(3)
    assert (lab.log, only.task.done()) == (["only leads", "only stops"], True)
    assert lab.holder == "thief", "and does not release what is not its own"


async def test_two_who_start_together_never_both_lead() -> None:
    lab = Lab()
    both = [lab.candidate("a"), lab.candidate("b")]
    await lab.clock.run(30)
    assert len(lab.log) == 1
    for each in both:
        await each.stop()


@pytest.mark.req("S.3")
async def test_only_the_leader_writes() -> None:
    lab = Lab()
    first, second = lab.candidate("first"), lab.candidate("second")
    await lab.clock.run(30)
    await first.write()
    with pytest.raises(NotLeaderError):
        await second.write()
    await first.stop()
    with pytest.raises(NotLeaderError):
        await first.write()
    await lab.clock.run(2)
    await second.write()
    await second.stop()


@pytest.mark.req("S.3")
@pytest.mark.parametrize(("seconds", "writes"), [(7.0, True), (12.0, False), (60.0, False)])
async def test_a_leader_that_was_stopped_for_a_while_notices_before_it_writes(seconds: float, writes: bool) -> None:
    lab = Lab()
    stopped = lab.candidate("stopped")
    await lab.clock.run(10)
    lab.clock.advance(seconds)  # nothing of the process ran meanwhile, its timers neither
    if writes:
        await stopped.write()
    else:
        with pytest.raises(NotLeaderError):
            await stopped.write()
    await stopped.stop()


async def test_a_lease_that_is_seen_to_be_given_up_is_taken_at_once() -> None:
    lab = Lab()
    first, second = lab.candidate("first"), lab.candidate("second")
    await lab.clock.run(10.5)
    await first.stop()
    second.hear(lab.lease)
    await settle()
    assert lab.log[-1] == "second leads"
    await second.stop()


async def test_who_watches_follows_a_dead_leader_exactly_when_its_lease_runs_out() -> None:
    lab = Lab()
    first = lab.candidate("first")
    await lab.clock.run(1)
    second = lab.candidate("second")
    await lab.clock.run(9.5)  # renewed at 10, asked for at 9 and 11: without a watch the renewal would be seen late
    second.hear(lab.lease)
    await settle()
    first.failing = lambda _: lost()
    await first.stop()
    await lab.clock.run(14.9)
    assert "second leads" not in lab.log
    await lab.clock.run(0.2)
    assert lab.log[-1] == "second leads"
    await second.stop()


def test_times_that_would_allow_two_leaders_are_refused() -> None:
    with pytest.raises(ValueError, match="retry period < renew deadline < lease duration"):
        LeaseTimes(duration=10, renew_deadline=10)
