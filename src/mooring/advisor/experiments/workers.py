"""Execute the runs of an experiment on all cores or on a Dask cluster (`mooring[dask]`); store results."""

import gc
import importlib
import os
import resource
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

import msgspec

import mooring
from mooring.advisor.experiments.experiment_file import AllocationColumn, ClusterSpec, ExperimentError, RunSpec
from mooring.advisor.simulate.changes import ScenarioError
from mooring.advisor.simulate.manifests import copy_templates, read_nodes
from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.traces import checkpoints
from mooring.advisor.simulate.traces.drawing import draw_workload
from mooring.advisor.simulate.traces.events import NodeArrival, TraceError
from mooring.advisor.simulate.traces.opening import Trace, TraceWorkload
from mooring.advisor.simulate.traces.replaying import Replay, ReplayOptions
from mooring.advisor.simulate.traces.results import Replayed, build_replay_result, format_csv
from mooring.advisor.snapshot import Snapshot, SnapshotError, dump
from mooring.api.core_v1 import Node
from mooring.scheduler.facade import IN_TREE, ProfileSpec
from mooring.scheduler.framework.registry import PluginError, from_entry_points, from_folder


@dataclass(frozen=True, slots=True)
class RunJob:
    """One run of an experiment with its digest and scheduler profiles, for another process or machine."""

    spec: RunSpec
    digest: str
    profiles: tuple[ProfileSpec, ...] = (ProfileSpec(),)


def execute_run(job: RunJob) -> Replayed:
    """Execute one run of an experiment and return its results; raise ExperimentError."""
    spec = job.spec
    try:
        return _execute_run(spec, job.digest, job.profiles)
    except (TraceError, ScenarioError, SnapshotError, PluginError, OSError) as problem:
        raise ExperimentError(f"{spec.name}: {problem}") from problem


def _execute_run(spec: RunSpec, digest: str, profiles: tuple[ProfileSpec, ...]) -> Replayed:
    begun = time.process_time()
    gc.unfreeze()  # a process does many runs: what the one before has left goes first
    gc.collect()
    wanted = spec.workload
    trace = Trace(tuple(Path(name) for name in wanted.trace), skips=wanted.skip_bad)
    snapshot = _initial_snapshot(spec.cluster)
    if wanted.draw:
        pods = list(trace.pods())
        events, nodes = draw_workload(pods, snapshot.all(Node), wanted.fill, spec.seed)
        snapshot, workload = snapshot.replace(remove=nodes, put=nodes), pods
    else:
        events, workload = trace.events(), TraceWorkload(trace)  # type: ignore[assignment] # both are pods, again and again
    registry = {**IN_TREE, **from_entry_points()}
    for folder in spec.plugins:
        registry |= from_folder(Path(folder))
    settings = Settings(profiles=profiles, registry=registry, workload=workload)
    gc.freeze()
    replay = Replay(snapshot, settings, ReplayOptions(spec.seed, wanted.give_up, wanted.until))
    replay.run(events)
    result = build_replay_result(
        replay, spec.cluster_name, spec.workload_name, spec.scheduler_name, trace.complaints.summary()
    )
    result.digest, result.skipped = digest, trace.complaints.skipped
    result.cpu_seconds = round(time.process_time() - begun, 2)
    result.peak_mb = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)
    return result


def _initial_snapshot(cluster: ClusterSpec) -> Snapshot:
    if cluster.trace:
        events = Trace(tuple(Path(name) for name in cluster.trace)).events()
        return Snapshot("the trace", [event.node for event in events if isinstance(event, NodeArrival)])
    if cluster.dump:
        return dump([Path(name) for name in cluster.dump])
    templates = read_nodes(Path(cluster.template).read_bytes(), cluster.template) if cluster.template else ()
    return Snapshot(f"{cluster.nodes or 0} nodes", copy_templates(templates, cluster.nodes or 0))


_KEYS = ("cluster", "workload", "scheduler")


def table_row(result: Replayed, asked: Sequence[AllocationColumn]) -> dict[str, object]:
    """Return a row of the result table: the names, seed, requested allocation columns and numbers of one run."""
    row: dict[str, object] = {key: getattr(result, key) for key in _KEYS} | {"seed": result.seed}
    for wanted in asked:
        points = result.allocated.get(wanted.resource, {})
        for step in wanted.at:
            row[column_name(wanted.resource, step)] = points.get(step, "")
    return row | result.numbers | {"cpu seconds": result.cpu_seconds, "peak MB": result.peak_mb}


def column_name(resource: str, step: int) -> str:
    return f"{resource} at {step}%"


def write_table(path: Path, rows: Sequence[dict[str, object]]) -> None:
    path.write_text(format_csv(rows, missing=""), encoding="utf-8", newline="")


def summarize(rows: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    """Return a row for each cluster, workload and scheduler with the means and standard deviations over seeds."""
    groups: dict[tuple[object, ...], list[dict[str, object]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in _KEYS), []).append(row)
    found = []
    for key, members in groups.items():
        line: dict[str, object] = dict(zip(_KEYS, key, strict=True)) | {"seeds": len(members)}
        for name in members[0]:
            values = [value for member in members if isinstance(value := member.get(name), int | float)]
            if name not in (*_KEYS, "seed") and values:
                line[name] = round(statistics.fmean(values), 3)
                line[f"{name} ±"] = round(statistics.stdev(values), 3) if len(values) > 1 else 0.0
        found.append(line)
    return found


class Workers(Protocol):
    def results(self, jobs: Sequence[RunJob]) -> Iterator[Replayed]:
        """Execute runs; yield each result when its run finishes, in any order. Raise ExperimentError."""
        ...


class LocalWorkers:
    """Executes the runs of an experiment in local processes; with one worker, in this process."""

    def __init__(self, number: int | None = None) -> None:
        self._number = number or os.cpu_count() or 1

    def results(self, jobs: Sequence[RunJob]) -> Iterator[Replayed]:
        if self._number == 1 or len(jobs) == 1:
            yield from map(execute_run, jobs)
            return
        with ProcessPoolExecutor(self._number, mp_context=get_context("spawn")) as pool:
            waiting = [pool.submit(execute_run, job) for job in jobs]
            try:
                for future in as_completed(waiting):
                    yield future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


class DaskWorkers:
    """Executes the runs of an experiment on a Dask cluster, with the same Mooring version and file paths."""

    def __init__(self, address: str) -> None:
        """Connect to the Dask scheduler at `address`, such as `tcp://10.0.0.1:8786`. Raise ExperimentError."""
        try:
            distributed: Any = importlib.import_module("distributed")  # an extra, and not typed
        except ImportError as problem:
            raise ExperimentError("--dask needs Dask: install mooring[dask]") from problem
        try:
            self._client = distributed.Client(address, timeout="10s")
        except (OSError, TimeoutError, ValueError) as problem:
            raise ExperimentError(f"--dask: there is no Dask scheduler at {address}: {problem}") from problem
        self._completed = distributed.as_completed

    def results(self, jobs: Sequence[RunJob]) -> Iterator[Replayed]:
        futures = [self._client.submit(execute_run, job, pure=False) for job in jobs]
        try:
            for future in self._completed(futures):
                yield future.result()
        finally:
            self._client.cancel(futures)

    def close(self) -> None:
        self._client.close()


class ResultsFolder:
    """A folder with a file for the result of each run of an experiment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "runs"
        self._folder.mkdir(parents=True, exist_ok=True)

    def find(self, spec: RunSpec, digest: str) -> Replayed | None:
        """Return the stored result of a run; None if there is none, or its digest (of the inputs) differs."""
        try:
            found = msgspec.json.decode(self._file_of(spec.name).read_bytes(), type=Replayed)
        except (OSError, msgspec.DecodeError):
            return None
        return found if found.digest == digest else None

    def store(self, result: Replayed) -> None:
        place = self._file_of(f"{result.cluster}.{result.workload}.{result.scheduler}.{result.seed}")
        partial = place.with_suffix(".partial")
        partial.write_bytes(msgspec.json.encode(result))
        partial.replace(place)

    def _file_of(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def digest_of(spec: RunSpec) -> str:
    """Return a digest of Mooring's version, a run's parameters and the contents of its files."""
    return checkpoints.digest_of((mooring.__version__, spec.without_folders()), spec.input_files())
