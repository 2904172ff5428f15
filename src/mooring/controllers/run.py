"""Run a set of controllers on shared informers.

    controllers = Controllers(client, options)
    await controllers.run()          # until cancelled; `run_elected` waits for leadership first

`mooring controllers` and `mooring up` run one. Read next: ``controller.py``.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

from prometheus_client import CollectorRegistry

from mooring.api.admissionregistration_v1 import ValidatingAdmissionPolicy
from mooring.api.errors import StatusError
from mooring.api.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from mooring.base import logs
from mooring.client import Client, ClientError, Informers
from mooring.client.leader_election import ElectedComponent, LeaderElection
from mooring.controllers.controller import Context, Controller
from mooring.controllers.options import COMPONENT, ControllerOptions, select_controllers
from mooring.controllers.registry import CONTROLLERS

log = logs.get(__name__)


async def discover_versions(client: Client) -> None:
    """Discover the served versions of kinds that not all servers have, before controllers use them."""
    policies = [] if client.knows(ValidatingAdmissionPolicy) else [ValidatingAdmissionPolicy]
    try:
        await client.served([DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice, *policies])
    except (StatusError, ClientError) as problem:
        log.info("cannot ask what the API server serves, taking the versions for granted: %s", problem)


class Controllers(ElectedComponent):
    """Controllers of one run. Raises UnknownControllerError."""

    def __init__(
        self,
        client: Client,
        options: ControllerOptions | None = None,
        *,
        names: Sequence[str] = (),
        election: LeaderElection | None = None,
        registry: CollectorRegistry | None = None,
    ) -> None:
        options = options or ControllerOptions()
        super().__init__(client, election or LeaderElection(COMPONENT), options.version)
        self.context = Context(client, Informers(client), options, registry or CollectorRegistry())
        self.controllers: dict[str, Controller] = {
            name: CONTROLLERS[name](self.context) for name in select_controllers(names, CONTROLLERS)
        }

    async def run(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                await self.context.enter(stack)
                await self.context.informers.wait_for_sync()
                log.info("controllers begin", extra={"fields": {"controllers": list(self.controllers)}})
                self._ready.set()
                async with asyncio.TaskGroup() as tasks:
                    for name, controller in self.controllers.items():
                        tasks.create_task(controller.run(), name=name)
        finally:
            self._ready.clear()
            for controller in self.controllers.values():
                controller.queue.shut_down()
