"""Run scheduler and controllers: in the API server's process, or in the second process of `mooring up`.

`main` is the entry point of the second process, which ``worker_process.py`` starts.
"""

import asyncio
import json
import os
import pickle
import signal
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import BinaryIO

import uvloop
from msgspec.structs import replace

from mooring.api.scheme import Scheme
from mooring.base import logs
from mooring.base.metrics import build_registry
from mooring.cli.support.health_server import HealthServer
from mooring.cli.support.leadership import expose_leadership
from mooring.cli.support.process_settings import collect_garbage_less, read_until_end
from mooring.cli.support.worker_process import LeaseLostError, WorkerConfig, WorkersError
from mooring.client import Client, ClientError, connect, user_agent
from mooring.client.leader_election import ElectedComponent
from mooring.controllers import options as controllers_options
from mooring.controllers.run import CONTROLLERS, Controllers, discover_versions
from mooring.scheduler.framework.profiles import ProfileSpec
from mooring.scheduler.framework.registry import PluginError, from_entry_points
from mooring.scheduler.running import options as scheduler_options
from mooring.scheduler.running.options import SchedulerConfig
from mooring.scheduler.running.runtime import Scheduler

log = logs.get(__name__)

SIMULATION = ("simulated-nodes", "simulated-pods")
"""The controllers that act as kubelets of simulated nodes."""
METRICS_PORT = 10251
_METRICS_ADDRESS = "127.0.0.1"
_STOP_SECONDS = 5.0


class Workers:
    """Scheduler, controllers and simulated nodes in one process. `run` raises WorkersError if they cannot start."""

    def __init__(
        self,
        config: WorkerConfig,
        connect: Callable[[str, str, Scheme], Client],
        *,
        profiles: Sequence[ProfileSpec] = (),
        names: Sequence[str] = tuple(CONTROLLERS),
    ) -> None:
        self._config = config
        self._profiles = tuple(profiles)
        self._names = names
        self._connect = connect
        self._registry = build_registry(config.component)
        self._ready = asyncio.Event()
        self.scheduler: Scheduler | None = None
        self.controllers: Controllers | None = None
        self.metrics_url = ""

    async def wait_until_ready(self) -> None:
        await self._ready.wait()

    def kill(self) -> None:
        pass

    async def run(self) -> None:
        """Run scheduler and controllers until cancelled."""
        async with AsyncExitStack() as stack:
            await self._create_parts(stack)
            await self._start_metrics_pages(stack)
            lost = False
            try:
                async with asyncio.TaskGroup() as tasks:
                    for part in self._parts:
                        tasks.create_task(self._work(part))
                    if not self._config.elected:
                        for part in self._parts:
                            await part.wait_until_ready()
                    self._ready.set()
            except* LeaseLostError:
                lost = True
            if lost:  # raised outside of `except*`, which would wrap it in a group
                raise LeaseLostError("a lease was lost to another instance, which works now")

    @property
    def _parts(self) -> list[ElectedComponent]:
        return [part for part in (self.scheduler, self.controllers) if part is not None]

    async def _work(self, part: ElectedComponent) -> None:
        if not self._config.elected:
            await part.run()
        elif not await part.run_elected():
            raise LeaseLostError

    async def _create_parts(self, stack: AsyncExitStack) -> None:
        component = self._config.component
        wanted = {True: self._config.nodes, False: self._config.controllers}
        names = [name for name in self._names if wanted[name in SIMULATION]]
        if names:
            settings = replace(controllers_options.for_component(component), programs=self._config.programs)
            agent = user_agent(controllers_options.COMPONENT, settings.version)
            client = await stack.enter_async_context(self._connect("controllers", agent, settings.scheme))
            await discover_versions(client)
            self.controllers = Controllers(client, settings, names=names, registry=self._registry)
        if self._config.scheduler:
            options = scheduler_options.for_component(component)
            agent = user_agent(scheduler_options.COMPONENT, options.version)
            client = await stack.enter_async_context(self._connect("scheduler", agent, options.scheme))
            config = SchedulerConfig(plugins=from_entry_points())
            config = replace(config, profiles=self._profiles or config.profiles)
            running = None if self._config.elected else self.controllers
            shared = None if running is None else running.context.informers
            try:
                self.scheduler = Scheduler(client, config, options, shared=shared)
            except PluginError as error:
                raise WorkersError(str(error)) from error
            self._registry.register(self.scheduler.metrics)
        expose_leadership(self._registry, self._parts)

    async def _start_metrics_pages(self, stack: AsyncExitStack) -> None:
        port = self._config.metrics_port
        if port is not None and port < 0:
            return
        try:
            pages = await stack.enter_async_context(self._build_pages(METRICS_PORT if port is None else port))
        except OSError as error:
            if port is not None:
                raise WorkersError(str(error)) from error
            pages = await stack.enter_async_context(self._build_pages(0))
        self.metrics_url = f"{pages.url}/metrics"

    def _build_pages(self, port: int) -> HealthServer:
        return HealthServer(_METRICS_ADDRESS, port, self._registry, self._ready.is_set, flag="--metrics-port")


def main() -> int:
    """Run scheduler and controllers in the second process until the first one ends; return the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stdin = open(0, "rb")  # noqa: SIM115 - by its number, as `sys.stdin` was made for the first process
    try:
        config: WorkerConfig = pickle.load(stdin)  # noqa: S301 - the first process has written it
    except EOFError:
        return 0
    if not stdin.readline():
        return 0
    config.log.configure(over_status_line=True)
    try:
        uvloop.run(_work(config, stdin))
    except LeaseLostError as error:
        log.error("%s; this one begins again, to wait for its turn", error)
        return 1  # the first process starts another one
    except (WorkersError, ClientError) as error:
        _send({"error": str(error)})
    return 0


async def _work(config: WorkerConfig, stdin: BinaryIO) -> None:
    def by_https(name: str, agent: str, scheme: Scheme) -> Client:
        folder = config.kubeconfigs
        kubeconfig = folder / f"{name}.kubeconfig" if folder else None
        return connect(kubeconfig, user_agent=agent, scheme=scheme, grouped=True)

    workers = Workers(config, by_https)
    work = asyncio.create_task(workers.run())
    announce = asyncio.create_task(_announce_when_ready(workers))
    stop = asyncio.create_task(read_until_end(stdin))
    await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
    announce.cancel()
    if not work.done():
        work.cancel()
        _, late = await asyncio.wait({work}, timeout=_STOP_SECONDS)
        if late:
            os._exit(1)  # no state is lost: it is in the API server
    if not work.cancelled():
        await work


async def _announce_when_ready(workers: Workers) -> None:
    await workers.wait_until_ready()
    _send({"metrics": workers.metrics_url})
    collect_garbage_less()


def _send(message: dict[str, str]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")
