"""One run of an experiment: from paths and a seed to plain numbers. It needs nothing but its arguments.

The seed decides everything that is left to chance: what is drawn from the trace, and who wins among equals.
"""

import gc
import random
import resource
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mooring.advisor.experiments.experiment_file import Cluster, ExperimentError, RunSpec
from mooring.advisor.simulate.changes import ScenarioError
from mooring.advisor.simulate.manifests import nodes_like, read_nodes
from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.traces.drawing import Fill, drawn
from mooring.advisor.simulate.traces.events import NodeComes, TraceError
from mooring.advisor.simulate.traces.measures import Sample
from mooring.advisor.simulate.traces.opening import Trace, Workload
from mooring.advisor.simulate.traces.replaying import Options, Replay
from mooring.advisor.snapshot import Snapshot, SnapshotError, dump
from mooring.api.core_v1 import Node
from mooring.constraints.requests import units
from mooring.scheduler.facade import IN_TREE, ProfileSpec
from mooring.scheduler.framework.registry import PluginError, from_entry_points, from_folder


class RunResult(msgspec.Struct, rename="camel"):
    """What one run came to."""

    cluster: str
    workload: str
    scheduler: str
    seed: int
    digest: str
    """Of everything that went into it: a run with the same one need not be done again."""
    numbers: dict[str, float]
    allocated: dict[str, dict[int, float]]
    """By resource: per cents that are allocated, by per cents that had been asked for."""
    samples: list[Sample]
    skipped: int = 0
    cpu_seconds: float = 0.0
    peak_mb: float = 0.0


@dataclass(frozen=True, slots=True)
class Job:
    """What another process or machine needs for a run."""

    spec: RunSpec
    digest: str
    profiles: tuple[ProfileSpec, ...] = (ProfileSpec(),)
    """As the scheduler's configuration says them."""


def run(job: Job) -> RunResult:
    """Raises ExperimentError."""
    spec = job.spec
    try:
        return _run(spec, job.digest, job.profiles)
    except (TraceError, ScenarioError, SnapshotError, PluginError, OSError) as problem:
        raise ExperimentError(f"{spec.name}: {problem}") from problem


def _run(spec: RunSpec, digest: str, profiles: tuple[ProfileSpec, ...]) -> RunResult:
    begun, lot = time.process_time(), random.Random(spec.seed)  # noqa: S311 - experiments keep no secrets
    wanted = spec.workload
    trace = Trace(tuple(Path(name) for name in wanted.trace), skips=wanted.skip_bad)
    snapshot = _snapshot(spec.cluster)
    if wanted.draw:
        pods = list(trace.pods())
        fill = Fill(wanted.fill.resource, wanted.fill.times) if wanted.fill is not None else None
        has = sum(_has(node, fill.resource) for node in snapshot.all(Node)) if fill is not None else 0
        events, workload = drawn(pods, fill, has, lot), pods
    else:
        events, workload = trace.events(), Workload(trace)  # type: ignore[assignment] # both are pods, again and again
    registry = {**IN_TREE, **from_entry_points()}
    for folder in spec.plugins:
        registry |= from_folder(Path(folder))
    settings = Settings(profiles=profiles, registry=registry, workload=workload)
    gc.freeze()
    replay = Replay(snapshot, settings, Options(spec.seed, wanted.give_up, wanted.until))
    replay.run(events)
    return RunResult(
        cluster=spec.cluster_name,
        workload=spec.workload_name,
        scheduler=spec.scheduler_name,
        seed=spec.seed,
        digest=digest,
        numbers=replay.numbers(),
        allocated={resource: curve.points() for resource, curve in replay.meter.curves.items()},
        samples=replay.meter.samples,
        skipped=trace.complaints.skipped,
        cpu_seconds=round(time.process_time() - begun, 2),
        peak_mb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    )


def _snapshot(cluster: Cluster) -> Snapshot:
    if cluster.trace:
        events = Trace(tuple(Path(name) for name in cluster.trace)).events()
        return Snapshot("the trace", [event.node for event in events if isinstance(event, NodeComes)])
    if cluster.dump:
        return dump([Path(name) for name in cluster.dump])
    templates = read_nodes(Path(cluster.template).read_bytes(), cluster.template) if cluster.template else ()
    return Snapshot(f"{cluster.nodes or 0} nodes", nodes_like(templates, cluster.nodes or 0))


def _has(node: Node, resource_name: str) -> int:
    amount = node.status.allocatable.get(resource_name)
    return units(resource_name, amount) if amount is not None else 0
