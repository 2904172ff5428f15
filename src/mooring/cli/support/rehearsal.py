"""Control planes for rehearsals: an API server on a temporary data directory, a scheduler, and some controllers.

Used by `mooring audit --rehearse`; ``mooring.advisor.audit.rehearsal`` compares them. All parts communicate without
sockets. Nodes of the copy have no kubelets, so controllers that would react to that are left out.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import uvloop

from mooring.advisor.audit import Audit, Question
from mooring.advisor.audit.auditor import audited_objects_of
from mooring.advisor.audit.rehearsal import RehearsalObjects, RehearsalPlane, rehearse
from mooring.advisor.snapshot import Snapshot
from mooring.apiserver.options import ServerConfig
from mooring.base import logs
from mooring.cli.support.control_plane import ControlPlane
from mooring.cli.support.output import report_errors
from mooring.cli.support.worker_process import WorkerConfig, WorkersError
from mooring.cli.support.workers import Workers
from mooring.scheduler.framework.profiles import ProfileSpec
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


@asynccontextmanager
async def _run_plane(
    question: Question, profiles: Sequence[ProfileSpec], folder: Path, *, then: bool, with_workers: bool = True
) -> AsyncIterator[RehearsalPlane]:
    """Run a control plane on the data directory `folder`, with the flags after the change (`then`) or before it."""
    component = (question.target if then else None) or question.current
    runtime_config = question.target_runtime_config if then else question.runtime_config
    config = ServerConfig(data_dir=folder, component=component, port=0, runtime_config=runtime_config)
    crew = partial(Workers, WorkerConfig(component), profiles=profiles, names=CONTROLLERS)
    async with ControlPlane(config, crew if with_workers else None) as plane:
        await plane.start(listen=False)
        async with asyncio.timeout(_READY_SECONDS):
            await plane.wait_until_ready()
        yield RehearsalPlane(plane.client, plane.server.store)


def add_rehearsal(
    snapshot: Snapshot, question: Question, audit: Audit, profiles: Sequence[ProfileSpec], seconds: float
) -> Audit:
    """Rehearse the change on a copy of the audited objects; return the audit with the results."""
    copy = RehearsalObjects(schedulers=frozenset(profile.scheduler_name for profile in profiles))
    for subject in audited_objects_of(snapshot, question):
        (copy.stored if subject.reference.stored else copy.manifests).append((subject.object, subject.reference))
    with (
        tempfile.TemporaryDirectory(prefix="mooring-rehearsal-") as folder,
        logs.drop_lines_of("mooring"),
        report_errors(StoreError, WorkersError, OSError, TimeoutError, prefix="the rehearsal failed: "),
    ):
        return uvloop.run(rehearse(audit, copy, partial(_run_plane, question, profiles), Path(folder), seconds))
