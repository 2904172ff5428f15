"""One run of an experiment: from paths and a seed to plain numbers, without other inputs."""

import gc
import resource
import time
from dataclasses import dataclass
from pathlib import Path

from mooring.advisor.experiments.experiment_file import Cluster, ExperimentError, RunSpec
from mooring.advisor.simulate.changes import ScenarioError
from mooring.advisor.simulate.manifests import nodes_like, read_nodes
from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.traces.drawing import Fill, draw
from mooring.advisor.simulate.traces.events import NodeComes, TraceError
from mooring.advisor.simulate.traces.opening import Trace, Workload
from mooring.advisor.simulate.traces.replaying import Options, Replay
from mooring.advisor.simulate.traces.results import Replayed, result_of
from mooring.advisor.snapshot import Snapshot, SnapshotError, dump
from mooring.api.core_v1 import Node
from mooring.scheduler.facade import IN_TREE, ProfileSpec
from mooring.scheduler.framework.registry import PluginError, from_entry_points, from_folder


@dataclass(frozen=True, slots=True)
class Job:
    """The arguments of a run in another process or machine."""

    spec: RunSpec
    digest: str
    profiles: tuple[ProfileSpec, ...] = (ProfileSpec(),)
    """As the scheduler's configuration says them."""


def run(job: Job) -> Replayed:
    """Execute a run; raise ExperimentError."""
    spec = job.spec
    try:
        return _run(spec, job.digest, job.profiles)
    except (TraceError, ScenarioError, SnapshotError, PluginError, OSError) as problem:
        raise ExperimentError(f"{spec.name}: {problem}") from problem


def _run(spec: RunSpec, digest: str, profiles: tuple[ProfileSpec, ...]) -> Replayed:
    begun = time.process_time()
    gc.unfreeze()  # a process does many runs: what the one before has left goes first
    gc.collect()
    wanted = spec.workload
    trace = Trace(tuple(Path(name) for name in wanted.trace), skips=wanted.skip_bad)
    snapshot = _snapshot(spec.cluster)
    if wanted.draw:
        pods = list(trace.pods())
        fill = Fill(wanted.fill.resource, wanted.fill.times) if wanted.fill is not None else None
        events, nodes = draw(pods, snapshot.all(Node), fill, spec.seed)
        snapshot, workload = snapshot.replace(remove=nodes, put=nodes), pods
    else:
        events, workload = trace.events(), Workload(trace)  # type: ignore[assignment] # both are pods, again and again
    registry = {**IN_TREE, **from_entry_points()}
    for folder in spec.plugins:
        registry |= from_folder(Path(folder))
    settings = Settings(profiles=profiles, registry=registry, workload=workload)
    gc.freeze()
    replay = Replay(snapshot, settings, Options(spec.seed, wanted.give_up, wanted.until))
    replay.run(events)
    result = result_of(replay, spec.cluster_name, spec.workload_name, spec.scheduler_name, trace.complaints.summary())
    result.digest, result.skipped = digest, trace.complaints.skipped
    result.cpu_seconds = round(time.process_time() - begun, 2)
    result.peak_mb = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    return result


def _snapshot(cluster: Cluster) -> Snapshot:
    if cluster.trace:
        events = Trace(tuple(Path(name) for name in cluster.trace)).events()
        return Snapshot("the trace", [event.node for event in events if isinstance(event, NodeComes)])
    if cluster.dump:
        return dump([Path(name) for name in cluster.dump])
    templates = read_nodes(Path(cluster.template).read_bytes(), cluster.template) if cluster.template else ()
    return Snapshot(f"{cluster.nodes or 0} nodes", nodes_like(templates, cluster.nodes or 0))
