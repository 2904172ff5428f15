"""What scheduler, controllers and bridge have in common: they work until cancelled, alone or by election."""

import asyncio

import msgspec

from mooring.client.client import Client
from mooring.client.leader_election import LeaderElector, LeaseTimes


class LeaderElection(msgspec.Struct, frozen=True):
    """Whether only one of several instances works, and by which Lease they agree on it."""

    name: str
    namespace: str = "kube-system"
    enabled: bool = False
    times: LeaseTimes = msgspec.field(default_factory=LeaseTimes)


class ElectedComponent:
    """One run of a component. A subclass works in `run`, and sets `_ready` while it does."""

    def __init__(self, client: Client, election: LeaderElection, version: str = "") -> None:
        self._client = client
        self.election = election
        self._version = version
        self._ready = asyncio.Event()
        self.is_standing_by = False
        """Whether it takes part in an election; while another one leads, there is nothing to do."""

    @property
    def is_ready(self) -> bool:
        """Whether all there is has been read, and it works."""
        return self._ready.is_set()

    async def wait_until_ready(self) -> None:
        await self._ready.wait()

    async def run(self) -> None:
        """Work until cancelled."""
        raise NotImplementedError

    async def run_elected(self) -> bool:
        """Wait until no other instance works, then do. False when the lease was lost: end the process then."""
        election = self.election
        elector = LeaderElector(
            self._client, election.name, election.namespace, lease_times=election.times, version=self._version
        )
        self.is_standing_by = True
        try:
            return await elector.run(self.run)
        finally:
            self.is_standing_by = False
