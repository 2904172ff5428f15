"""Scenario files in YAML: a cluster and timed steps. Parsed strictly, with field paths in errors.

    apiVersion: advisor.mooring.dev/v1
    kind: Scenario
    cluster: {nodes: 100, template: node.yaml}
    steps:
    - at: 0s
      add: [{file: web.yaml, replicas: 200}]
    - at: 5m
      drain: [node-1, node-2]

File names are relative to the scenario file. Without `open_file`, as over a network, everything must be in the scenario
itself (`objects`). docs/simulate.md describes all fields.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec

from mooring.advisor.results import API_VERSION
from mooring.advisor.simulate import changes, manifests
from mooring.advisor.simulate.changes import Change, Patterns, Scenario, ScenarioError, Step
from mooring.api import codec
from mooring.api.base import Int32, Int64, Object
from mooring.api.core_v1 import Node
from mooring.api.core_v1 import Taint as NodeTaint
from mooring.api.json_tree import DecodeError
from mooring.api.meta_v1 import Resource
from mooring.base import durations

KIND = "Scenario"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_CENTURY = 100 * 365 * 24 * 3600.0
OpenFile = Callable[[str], bytes]


class _Cluster(Object):
    from_: list[str] = msgspec.field(default_factory=list, name="from")
    data_dir: str = ""
    nodes: Int32 | None = None
    template: str = ""
    objects: list[Any] = []  # noqa: RUF012 - msgspec copies the empty list


class _Add(Object):
    file: str = ""
    objects: list[Any] = []  # noqa: RUF012 - as above
    replicas: Int32 | None = None


class _Remove(Object):
    kind: str = ""
    namespace: str = "default"
    name: str = ""


class _Taint(Object):
    nodes: list[str] = []  # noqa: RUF012 - as above
    key: str = ""
    value: str = ""
    effect: str = ""


class _Label(Object):
    nodes: list[str] = []  # noqa: RUF012 - as above
    labels: dict[str, str | None] = {}  # noqa: RUF012 - as above


class _AddNodes(Object):
    count: Int32 = 0
    template: str = ""


class _Step(Object):
    at: str | None = None
    name: str = ""
    add_nodes: list[_AddNodes] = []  # noqa: RUF012 - as above
    label: list[_Label] = []  # noqa: RUF012 - as above
    taint: list[_Taint] = []  # noqa: RUF012 - as above
    untaint: list[_Taint] = []  # noqa: RUF012 - as above
    cordon: list[str] = []  # noqa: RUF012 - as above
    uncordon: list[str] = []  # noqa: RUF012 - as above
    add: list[_Add] = []  # noqa: RUF012 - as above
    remove: list[_Remove] = []  # noqa: RUF012 - as above
    drain: list[str] = []  # noqa: RUF012 - as above
    remove_nodes: list[str] = []  # noqa: RUF012 - as above


class _Scenario(Object):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    cluster: _Cluster | None = None
    seed: Int64 = 0
    until: str | None = None
    keep_pending: bool = False
    until_full: bool = False
    steps: list[_Step] = []  # noqa: RUF012 - as above


@dataclass(frozen=True, slots=True)
class ClusterWanted:
    """The cluster that a scenario file describes: a dump or generated nodes; empty if the command line names it."""

    files: tuple[str, ...] = ()
    """The file names as written in the scenario."""
    data_dir: str = ""
    nodes: int | None = None
    templates: tuple[Node, ...] = ()
    objects: tuple[Resource, ...] = field(default=())


def refuse_files(path: str) -> bytes:
    raise ScenarioError(f"{path}: files cannot be read here; put the objects into the scenario")


def read_scenario(source: str | bytes, open_file: OpenFile = refuse_files) -> tuple[Scenario, ClusterWanted]:
    """Parse a scenario file; return the scenario and its cluster. Raise ScenarioError with the field path."""
    try:
        found = codec.decode_yaml(source, _Scenario).object
    except DecodeError as problem:
        raise ScenarioError(str(problem)) from problem
    if (found.api_version, found.kind) != (API_VERSION, KIND):
        said = f"{found.kind or 'no kind'} of {found.api_version or 'no apiVersion'}"
        raise ScenarioError(f"expected a {KIND} of {API_VERSION}, found {said}")
    reading = _ScenarioReader(open_file)
    steps = tuple(reading.build_step(step, f"steps[{index}]") for index, step in enumerate(found.steps))
    times = [(index, step.at) for index, step in enumerate(steps) if step.at is not None]
    for (_, earlier), (index, later) in pairwise(times):
        if later < earlier:
            raise ScenarioError(f"steps[{index}].at: is before the step that comes before it")
    until = None if found.until is None else _parse_seconds(found.until, "until")
    for index, at in times:
        if until is not None and at > until:
            raise ScenarioError(f"steps[{index}].at: is after until")
    scenario = Scenario(
        steps=steps,
        seed=found.seed,
        until=until,
        keep_pending=found.keep_pending,
        until_full=found.until_full,
        name=found.name,
    )
    return scenario, reading.build_cluster(found.cluster or _Cluster())


class _ScenarioReader:
    def __init__(self, open_file: OpenFile) -> None:
        self._open = open_file

    def build_cluster(self, found: _Cluster) -> ClusterWanted:
        sources = {"from": found.from_, "dataDir": found.data_dir, "nodes": found.nodes is not None}
        given = [name for name, value in sources.items() if value]
        if len(given) > 1:
            raise ScenarioError(f"cluster: {' and '.join(given)} name different clusters: choose one")
        if found.nodes is not None and found.nodes < 0:
            raise ScenarioError("cluster.nodes: must not be negative")
        return ClusterWanted(
            tuple(found.from_),
            found.data_dir,
            found.nodes,
            self._read_node_templates(found.template, "cluster.template"),
            manifests.decode_trees(found.objects, "cluster.objects"),
        )

    def build_step(self, found: _Step, path: str) -> Step:
        """Convert a step of the file; nodes are added before pods, and removed after them."""
        made: list[Change] = []
        for index, entry in enumerate(found.add_nodes):
            where = f"{path}.addNodes[{index}]"
            if entry.count < 1:
                raise ScenarioError(f"{where}.count: must be at least 1")
            made.append(changes.AddNodes(entry.count, self._read_node_templates(entry.template, f"{where}.template")))
        for index, label in enumerate(found.label):
            nodes = _check_patterns(label.nodes, f"{path}.label[{index}].nodes")
            made += [changes.Label(nodes, key, value) for key, value in label.labels.items()]
        made += [_build_taint(entry, f"{path}.taint[{index}]") for index, entry in enumerate(found.taint)]
        made += [_build_untaint(entry, f"{path}.untaint[{index}]") for index, entry in enumerate(found.untaint)]
        if found.cordon:
            made.append(changes.Cordon(tuple(found.cordon)))
        if found.uncordon:
            made.append(changes.Cordon(tuple(found.uncordon), unschedulable=False))
        made += [self._add(entry, f"{path}.add[{index}]") for index, entry in enumerate(found.add)]
        made += [_build_remove(entry, f"{path}.remove[{index}]") for index, entry in enumerate(found.remove)]
        if found.drain:
            made.append(changes.Drain(tuple(found.drain)))
        if found.remove_nodes:
            made.append(changes.RemoveNodes(tuple(found.remove_nodes)))
        if not made:
            raise ScenarioError(f"{path}: changes nothing")
        return Step(tuple(made), None if found.at is None else _parse_seconds(found.at, f"{path}.at"), found.name)

    def _add(self, found: _Add, path: str) -> changes.Add:
        if bool(found.file) == bool(found.objects):
            raise ScenarioError(f"{path}: give either file or objects")
        if found.replicas is not None and found.replicas < 0:
            raise ScenarioError(f"{path}.replicas: must not be negative")
        if found.objects:
            return changes.Add(manifests.decode_trees(found.objects, f"{path}.objects"), found.replicas)
        return changes.Add(manifests.read_objects(self._read(found.file, f"{path}.file"), found.file), found.replicas)

    def _read_node_templates(self, file: str, path: str) -> tuple[Node, ...]:
        return manifests.read_nodes(self._read(file, path), file) if file else ()

    def _read(self, file: str, path: str) -> bytes:
        try:
            return self._open(file)
        except OSError as problem:
            raise ScenarioError(f"{path}: {file}: {problem.strerror or problem}") from problem


def _check_patterns(nodes: Sequence[str], path: str) -> Patterns:
    if not nodes:
        raise ScenarioError(f"{path}: names no node")
    return tuple(nodes)


def _build_taint(found: _Taint, path: str) -> changes.Taint:
    _check_taint(found, path, EFFECTS)
    taint = NodeTaint(key=found.key, value=found.value, effect=found.effect)
    return changes.Taint(_check_patterns(found.nodes, f"{path}.nodes"), taint)


def _build_untaint(found: _Taint, path: str) -> changes.Untaint:
    _check_taint(found, path, ("", *EFFECTS))
    return changes.Untaint(_check_patterns(found.nodes, f"{path}.nodes"), found.key, found.effect)


def _check_taint(found: _Taint, path: str, effects: tuple[str, ...]) -> None:
    if not found.key:
        raise ScenarioError(f"{path}.key: is missing")
    if found.effect not in effects:
        raise ScenarioError(f'{path}.effect: "{found.effect}" is none of {", ".join(EFFECTS)}')


def _build_remove(found: _Remove, path: str) -> changes.Remove:
    for name in ("kind", "name"):
        if not getattr(found, name):
            raise ScenarioError(f"{path}.{name}: is missing")
    return changes.Remove(found.kind, found.namespace, found.name)


def _parse_seconds(text: str, path: str) -> float:
    try:
        found = durations.parse_seconds(text)
    except ValueError as problem:
        raise ScenarioError(f"{path}: {problem}") from problem
    if found > _CENTURY:
        raise ScenarioError(f"{path}: is more than a hundred years")
    return found
