"""Control planes for rehearsals: an API server on a temporary data directory, a scheduler, and some controllers.

Used by `mooring audit --rehearse`; ``mooring.advisor.audit.rehearsal`` compares them. All parts communicate without
sockets. Nodes of the copy have no kubelets, so controllers that would react to that are left out.
"""

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import click
import msgspec
import uvloop

from mooring.advisor.audit import Audit, Question
from mooring.advisor.audit.auditor import subjects_of
from mooring.advisor.audit.rehearsal import Copy, Plane, rehearse
from mooring.advisor.snapshot import Snapshot
from mooring.apiserver.in_process import handler
from mooring.apiserver.messages import users
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.base.component import Component
from mooring.client import Client, user_agent
from mooring.client.in_process import InProcessTransport
from mooring.controllers import options as controllers_options
from mooring.controllers.run import Controllers
from mooring.scheduler.deciding.profiles import ProfileSpec
from mooring.scheduler.framework.registry import from_entry_points
from mooring.scheduler.running import options as scheduler_options
from mooring.scheduler.running.options import SchedulerConfig
from mooring.scheduler.running.runtime import Scheduler
from mooring.store.errors import StoreError

CONTROLLERS = (
    "deployment",
    "replicaset",
    "statefulset",
    "daemonset",
    "job",
    "cronjob",
    "resourceclaim",
    "taint-eviction",
    "device-taint-eviction",
)
_READY_SECONDS = 60.0


class Planes(msgspec.Struct, frozen=True):
    """Start control planes with the flags of a question."""

    question: Question
    profiles: Sequence[ProfileSpec]

    @asynccontextmanager
    async def __call__(self, folder: Path, *, then: bool, with_workers: bool = True) -> AsyncIterator[Plane]:
        """Run a control plane on `folder`, with the target flags or the current ones."""
        question = self.question
        component = (question.target if then else None) or question.current
        runtime_config = question.target_runtime_config if then else question.runtime_config
        config = ServerConfig(data_dir=folder, component=component, port=0, runtime_config=runtime_config)
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(await ApiServer.open(config))
            admin = _client(server, "kubernetes-admin", "mooring-rehearsal", users.MASTERS)
            await stack.enter_async_context(admin)
            if with_workers:
                await self._start_workers(server, component, stack)
            yield Plane(admin, server.store)

    async def _start_workers(self, server: ApiServer, component: Component, stack: AsyncExitStack) -> None:
        scheduling = scheduler_options.for_component(component)
        controlling = controllers_options.for_component(component)
        agent = user_agent(scheduler_options.COMPONENT, scheduling.version)
        settings = SchedulerConfig(profiles=tuple(self.profiles), plugins=from_entry_points())
        scheduler = Scheduler(_client(server, users.SCHEDULER, agent), settings, scheduling)
        agent = user_agent(controllers_options.COMPONENT, controlling.version)
        controllers = Controllers(_client(server, users.CONTROLLERS, agent), controlling, names=CONTROLLERS)
        for part in (scheduler, controllers):
            stack.push_async_callback(_cancel, asyncio.create_task(part.run()))
        async with asyncio.timeout(_READY_SECONDS):
            await scheduler.wait_until_ready()
            await controllers.wait_until_ready()


def _client(server: ApiServer, user: str, agent: str, *groups: str) -> Client:
    transport = InProcessTransport(handler(server.app, users.authenticated(user, groups=list(groups))))
    return Client(transport, user_agent=agent, scheme=server.scheme)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def add_rehearsal(
    snapshot: Snapshot, question: Question, audit: Audit, profiles: Sequence[ProfileSpec], seconds: float
) -> Audit:
    """Return the audit with the results of a rehearsal."""
    copy = Copy(schedulers=frozenset(profile.scheduler_name for profile in profiles))
    for subject in subjects_of(snapshot, question):
        (copy.stored if subject.reference.stored else copy.manifests).append((subject.object, subject.reference))
    with tempfile.TemporaryDirectory(prefix="mooring-rehearsal-") as folder, _silence():
        try:
            return uvloop.run(rehearse(audit, copy, Planes(question, profiles), Path(folder), seconds))
        except (StoreError, OSError, TimeoutError) as error:
            raise click.ClickException(f"the rehearsal failed: {error}") from error


@contextmanager
def _silence() -> Iterator[None]:
    log = logging.getLogger("mooring")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)
