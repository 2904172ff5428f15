"""Parse an experiment from YAML, strictly: an `Experiment` and its runs."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from mooring.advisor.results import API_VERSION
from mooring.advisor.simulate.traces.drawing import FillTarget
from mooring.api import yaml_documents
from mooring.api.json_tree import DecodeError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_EXPECTED = f"expected an Experiment of {API_VERSION}, with clusters, workloads and schedulers"


class ExperimentError(ValueError):
    """An experiment cannot be run; the message names the file and the field."""


class _StrictSection(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The base class of all sections of an experiment file; unknown fields are errors."""


class ClusterSpec(_StrictSection, frozen=True):
    """A cluster of an experiment: nodes of a trace or dump, or a number of identical nodes."""

    trace: tuple[str, ...] = ()
    dump: tuple[str, ...] = msgspec.field(default=(), name="from")
    nodes: int | None = None
    template: str = ""


class WorkloadSpec(_StrictSection, frozen=True):
    trace: tuple[str, ...]
    draw: bool = False
    """Whether the pods of the trace are created in random order, one a second, and never deleted."""
    fill: FillTarget | None = None
    """With `draw`, the amount of a resource that the created pods request in total; None for all pods once."""
    give_up: bool = False
    """Whether a pod that finds no node when it is created is deleted instead of waiting."""
    skip_bad: bool = False
    until: float | None = None


class Scheduler(_StrictSection, frozen=True):
    config: str = ""


class Seeds(_StrictSection, frozen=True):
    first: int = msgspec.field(default=0, name="from")
    count: int = 1


class AllocationColumn(_StrictSection, frozen=True):
    """A column of the result table: the allocated percentage of a resource when pods requested a given percentage."""

    resource: str
    at: tuple[int, ...]


class _ExperimentFile(_StrictSection, frozen=True):
    api_version: str
    kind: str
    clusters: dict[str, ClusterSpec]
    workloads: dict[str, WorkloadSpec]
    schedulers: dict[str, Scheduler]
    name: str = ""
    plugins: tuple[str, ...] = ()
    seeds: Seeds | tuple[int, ...] = Seeds()
    allocated: tuple[AllocationColumn, ...] = ()


class RunSpec(msgspec.Struct, frozen=True):
    """One run of an experiment: its cluster, workload, scheduler and seed; paths are absolute."""

    cluster_name: str
    workload_name: str
    scheduler_name: str
    cluster: ClusterSpec
    workload: WorkloadSpec
    scheduler: Scheduler
    plugins: tuple[str, ...]
    seed: int

    @property
    def name(self) -> str:
        return f"{self.cluster_name}.{self.workload_name}.{self.scheduler_name}.{self.seed}"

    def without_folders(self) -> "RunSpec":
        """Return the spec with file names instead of paths, to compare runs of different machines."""
        return msgspec.structs.replace(
            self,
            cluster=_map_paths(self.cluster, _file_name),
            workload=_map_paths(self.workload, _file_name),
            scheduler=_map_paths(self.scheduler, _file_name),
            plugins=tuple(_file_name(folder) for folder in self.plugins),
        )

    def input_files(self) -> Iterator[Path]:
        """Return the paths of all files that the run reads."""
        named = (*self.cluster.trace, *self.cluster.dump, self.cluster.template, *self.workload.trace)
        yield from (Path(name) for name in (*named, self.scheduler.config) if name)
        for folder in self.plugins:
            yield from sorted(Path(folder).rglob("*.py"))


@dataclass(frozen=True, slots=True)
class Experiment:
    name: str
    runs: tuple[RunSpec, ...]
    allocated: tuple[AllocationColumn, ...]


def read_experiment(path: Path) -> Experiment:
    """Parse an experiment file; raise ExperimentError."""
    try:
        documents = yaml_documents.read(path.read_bytes())
        tree: Any = documents[0].tree if documents else None
        if not isinstance(tree, dict):
            what = "there is nothing in it" if tree is None else "it is no mapping"
            raise ExperimentError(f"{path}: {what}; {_EXPECTED}")
        found = msgspec.convert(tree, _ExperimentFile)
    except OSError as problem:
        raise ExperimentError(f"{path}: {problem.strerror}") from problem
    except (DecodeError, msgspec.ValidationError) as problem:
        raise ExperimentError(f"{path}: {problem}") from problem
    if (found.api_version, found.kind) != (API_VERSION, "Experiment"):
        raise ExperimentError(f"{path}: expected an Experiment of {API_VERSION}, found {found.kind}")
    for word, names in (("clusters", found.clusters), ("workloads", found.workloads), ("schedulers", found.schedulers)):
        wrong = next((name for name in names if not _NAME.fullmatch(name)), None)
        if wrong is not None or not names:
            raise ExperimentError(f"{path}: {word}: {'there are none' if not names else f'{wrong!r} is no name'}")
    return Experiment(found.name or path.stem, tuple(_expand_runs(found, path)), found.allocated)


def _expand_runs(found: _ExperimentFile, path: Path) -> Iterator[RunSpec]:
    seeds = found.seeds
    numbers = range(seeds.first, seeds.first + seeds.count) if isinstance(seeds, Seeds) else seeds
    if not numbers:
        raise ExperimentError(f"{path}: seeds: there are none")
    twice = next((seed for seed, number in Counter(numbers).items() if number > 1), None)
    if twice is not None:
        raise ExperimentError(f"{path}: seeds: {twice} is there twice")
    plugins = tuple(_resolve_path(name, path, "plugins") for name in found.plugins)
    for seed in numbers:
        for cluster_name, cluster in found.clusters.items():
            for workload_name, workload in found.workloads.items():
                if workload.fill is not None and not workload.draw:
                    raise ExperimentError(f"{path}: workloads.{workload_name}.fill: needs draw: true")
                for scheduler_name, scheduler in found.schedulers.items():
                    yield RunSpec(
                        cluster_name,
                        workload_name,
                        scheduler_name,
                        _resolve_section(cluster, path, f"clusters.{cluster_name}"),
                        _resolve_section(workload, path, f"workloads.{workload_name}"),
                        _resolve_section(scheduler, path, f"schedulers.{scheduler_name}"),
                        plugins,
                        seed,
                    )


def _resolve_section(part: Any, path: Path, field: str) -> Any:
    return _map_paths(part, lambda text, name: _resolve_path(text, path, f"{field}.{name}"))


def _map_paths(part: Any, change: Callable[[str, str], str]) -> Any:
    changed: dict[str, Any] = {}
    for name in ("trace", "dump"):
        if names := getattr(part, name, ()):
            changed[name] = tuple(change(each, name) for each in names)
    for name in ("template", "config"):
        if each := getattr(part, name, ""):
            changed[name] = change(each, name)
    return msgspec.structs.replace(part, **changed)


def _file_name(path: str, _field: str = "") -> str:
    return Path(path).name


def _resolve_path(text: str, file: Path, field: str) -> str:
    whole = os.path.expandvars(text)
    if "$" in whole:
        raise ExperimentError(f"{file}: {field}: set the environment variable in {text}")
    place = (file.parent / whole).resolve()
    if not place.exists():
        raise ExperimentError(f"{file}: {field}: there is no {place}")
    return str(place)
