"""Run the bridge's three controllers on shared informers, with leader election."""

import asyncio
from contextlib import AsyncExitStack

from prometheus_client import CollectorRegistry

from mooring.api.errors import StatusError
from mooring.base import logs
from mooring.bridge.checking import check
from mooring.bridge.cluster import BridgedCluster
from mooring.bridge.evictions import TimedEviction
from mooring.bridge.nodes import NodeLabels
from mooring.bridge.pods import COMPONENT, PodConstraints
from mooring.client import Client, ClientError, Informers, LeaseTimes
from mooring.client.leader_election import ElectedComponent, LeaderElection
from mooring.controllers.controller import Context

NAMESPACE = "mooring-bridge"
log = logs.get(__name__)


class Bridge(ElectedComponent):
    """The bridge as a component."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str = NAMESPACE,
        lease_times: LeaseTimes | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        super().__init__(client, LeaderElection(COMPONENT, namespace, times=lease_times or LeaseTimes()))
        self._namespace = namespace
        self.context = Context(client, Informers(client), registry=registry or CollectorRegistry())
        self.cluster = BridgedCluster()
        self._controllers = (
            NodeLabels(self.context, self.cluster),
            PodConstraints(self.context, self.cluster),
            TimedEviction(self.context),
        )

    async def run(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                await self.context.enter(stack)
                await self._log_missing()
                await self.context.informers.wait_for_sync()  # else labels in use would look like garbage
                self._ready.set()
                async with asyncio.TaskGroup() as tasks:
                    for controller in self._controllers:
                        tasks.create_task(controller.run(), name=controller.name)
        finally:
            self._ready.clear()
            for controller in self._controllers:
                controller.queue.shut_down()

    async def _log_missing(self) -> None:
        try:
            async for each in check(self._client, self._namespace):
                if each.is_needed and not each.is_there:
                    log.error(
                        "this cluster lacks %s: %s; `mooring bridge --check` has the whole list", each.what, each.hint
                    )
        except (StatusError, ClientError) as error:
            log.warning("cannot find out what the bridge may do in this cluster: %s", error)
