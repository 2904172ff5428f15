"""NodeResourcesFit: rejects nodes without the resources that the pod requests; by default prefers emptier nodes."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.api.base import Object
from mooring.api.core_v1 import Node, Pod
from mooring.constraints import requests
from mooring.scheduler import framework as fwk
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.resources import POD_COUNT, ResourceColumns, index_of
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.plugins import arguments as plugin_arguments
from mooring.scheduler.plugins.resource_scoring import (
    CPU_AND_MEMORY,
    ResourceSpec,
    ScoredResources,
    Scoring,
    StateCache,
    Strategy,
    UtilizationShapePoint,
    checked_resources,
    checked_shape,
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
)

TOO_MANY_PODS = "Too many pods"
_MANY_SETS = 1 << 14
_BITS = 32
_FEW = 30
"""Up to this number of requested resources, a verdict code has one bit for each insufficient resource."""
_NATIVE = (requests.CPU, requests.MEMORY, requests.EPHEMERAL_STORAGE)


class RequestedToCapacityRatio(Object):
    """The function from utilisation to score, for the strategy RequestedToCapacityRatio."""

    shape: list[UtilizationShapePoint] = []  # noqa: RUF012 - msgspec copies it
    """The points (utilisation and score) of the function; between them, scores are interpolated."""


class ScoringStrategy(Object):
    """The strategy and resources by which NodeResourcesFit scores nodes."""

    type: str = ""
    """LeastAllocated (the default), MostAllocated or RequestedToCapacityRatio."""
    resources: list[ResourceSpec] = []  # noqa: RUF012 - msgspec copies it
    """The scored resources; cpu and memory when absent."""
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None
    """The function from utilisation to score, for the strategy of that name."""


class NodeResourcesFitArgs(Object):
    """The arguments of the NodeResourcesFit plugin."""

    ignored_resources: list[str] = []  # noqa: RUF012 - msgspec copies it
    """Extended resources that the filter ignores."""
    ignored_resource_groups: list[str] = []  # noqa: RUF012 - msgspec copies it
    """Groups of extended resources (the prefix before the slash) that the filter ignores."""
    scoring_strategy: ScoringStrategy | None = None
    """The strategy and resources by which nodes are scored."""


class _RequestedResources(StateCache[fwk.Verdicts]):
    """The requested amounts of a pod signature, compared with the free amounts of nodes."""

    def __init__(self, columns: ResourceColumns, asked: dict[str, int], nodes: fwk.Mask) -> None:
        self._nodes = nodes
        self.columns = columns
        self._requested_amounts = asked
        lines = {name: line for name in asked if (line := columns.find(name)) is not None}
        self._by_line = {line: asked[name] for name, line in lines.items()}
        self._is_offered = len(self._by_line) == len(asked)
        self._has_bits = len(self._by_line) < _FEW

    @cached_property
    def _amounts(self) -> NDArray[np.int64]:
        return np.array(list(self._by_line.values()), np.int64).reshape(-1, 1)

    @cached_property
    def _line_index(self) -> slice | NDArray[np.intp]:
        return index_of(list(self._by_line))

    @cached_property
    def _counted(self) -> list[int]:
        """Return the indexes in the list of reasons for the number of pods (0) and each resource that a node offers."""
        find, amounts = self.columns.find, self._requested_amounts
        return [0, *[index for index, name in enumerate(amounts, 1) if find(name) is not None]]

    @cached_property
    def _reason_sets(self) -> fwk.ReasonSets[bytes]:
        found: fwk.ReasonSets[bytes] = fwk.ReasonSets(self._reasons_of_set)
        found.code(np.packbits(np.array(self._counted) == 0).tobytes())  # 1 is for too many pods alone
        return found

    def reasons(self, code: int) -> tuple[str, ...]:
        if self._has_bits:
            return self._reasons_for(code >> np.arange(len(self._counted)) & 1)
        return self._reason_sets.reasons(code)

    def _reasons_of_set(self, lacking: bytes) -> tuple[str, ...]:
        return self._reasons_for(np.unpackbits(np.frombuffer(lacking, np.uint8), count=len(self._counted)))

    def _reasons_for(self, lacking: NDArray[np.integer[Any]]) -> tuple[str, ...]:
        texts = (TOO_MANY_PODS, *[f"Insufficient {resource}" for resource in self._requested_amounts])
        is_lacking = np.ones(len(texts), np.bool_)
        is_lacking[self._counted] = lacking
        return tuple(texts[place] for place in is_lacking.nonzero()[0].tolist())

    def verdicts(self, rows: fwk.Rows) -> fwk.Verdicts:
        return self.get_or_compute(self.columns, rows, self._compute_verdicts)

    def _compute_verdicts(self, rows: fwk.Rows) -> fwk.Verdicts:
        if not isinstance(rows, slice):
            codes = self.codes_with(self.columns.allocatable[:, rows], self.columns.used[:, rows])
        elif not self._is_offered:
            codes = self.codes_with(self.columns.allocatable, self.columns.used)
        else:
            refused = self._find_rows_without_room()
            codes = fwk.ALL_PASS
            if len(refused):
                codes = np.zeros(len(self._nodes), np.int32)
                codes[refused] = self.codes_with(
                    self.columns.allocatable.take(refused, axis=1), self.columns.used.take(refused, axis=1)
                )
        return fwk.Verdicts(codes, self.reasons)

    def _find_rows_without_room(self) -> NDArray[np.intp]:
        free = self.columns.free
        is_lacking = free[POD_COUNT] <= 0
        for line, amount in self._by_line.items():
            is_lacking |= free[line] < amount
        is_lacking &= self._nodes
        refused: NDArray[np.intp] = is_lacking.nonzero()[0]
        return refused

    def fits_with(self, allocatable: NDArray[np.int64], used: NDArray[np.int64]) -> fwk.Mask:
        if not self._is_offered:
            return np.zeros(allocatable.shape[1], np.bool_)
        fits: fwk.Mask = used[POD_COUNT] < allocatable[POD_COUNT]
        if len(self._amounts):
            fits = fits & np.logical_and.reduce(allocatable[self._line_index] - used[self._line_index] >= self._amounts)
        return fits

    def codes_with(self, allocatable: NDArray[np.int64], used: NDArray[np.int64]) -> fwk.Codes:
        is_full = used[POD_COUNT] >= allocatable[POD_COUNT]
        there = allocatable[self._line_index]
        lacking = there - used[self._line_index] < self._amounts
        if self._is_offered and not lacking.any():
            none_lacking: fwk.Codes = is_full.astype(np.int32)
            return none_lacking
        codes = self._encode_lacking(np.concatenate((is_full[None], lacking)))
        # Evicting everything would not help where the node as such is too small.
        hopeless = np.logical_or.reduce(lacking & (there < self._amounts)) | (not self._is_offered)
        found: fwk.Codes = np.where(hopeless, -codes, codes)
        return found

    def _encode_lacking(self, lacking: fwk.Mask) -> fwk.Codes:
        if self._has_bits:
            bits = (1 << np.arange(len(self._counted))).astype(np.int32)
            found: fwk.Codes = bits @ lacking
            return found if self._is_offered else found | 1 << len(bits)
        kinds, numbers = _group_columns(lacking)
        codes = [
            self._reason_sets.code(np.packbits(column).tobytes()) if column.any() or not self._is_offered else 0
            for column in lacking[:, kinds].T
        ]
        if len(self._reason_sets) > _MANY_SETS:
            self.columns.invalidate()  # bounds the memory
        return np.array(codes, np.int32)[numbers]


def _group_columns(columns: fwk.Mask) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    first = numbers = np.zeros(columns.shape[1], np.intp)
    for begin in range(0, len(columns), _BITS):
        part = columns[begin : begin + _BITS]
        joint = (numbers << _BITS) + (1 << np.arange(len(part))) @ part
        _, first, numbers = np.unique(joint, return_index=True, return_inverse=True)
    return first, numbers


class NodeResourcesFit(fwk.FilterPlugin[_RequestedResources], fwk.ScorePlugin[ScoredResources]):
    name = "NodeResourcesFit"
    filters = fwk.Declaration(fwk.Part.RESOURCES, fwk.Input.NODE_ALLOCATABLE | fwk.Input.PODS, only_resources=True)
    scores = fwk.Declaration(fwk.Part.RESOURCES, fwk.Input.NODE_ALLOCATABLE | fwk.Input.PODS)

    def __init__(self, arguments: fwk.PluginArguments, handle: fwk.Handle) -> None:
        args = plugin_arguments.read(self.name, arguments, NodeResourcesFitArgs)
        self._pod_level = handle.features.pod_level_resources
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        strategy = args.scoring_strategy or ScoringStrategy()
        resources = checked_resources(self.name, strategy.resources or CPU_AND_MEMORY)
        self._strategy = self._strategy_of(strategy)
        self._scoring = Scoring(handle.cluster, resources, assumed=True)

    def _strategy_of(self, strategy: ScoringStrategy) -> Strategy:
        plain: dict[str, Strategy] = {
            "": least_allocated,
            "LeastAllocated": least_allocated,
            "MostAllocated": most_allocated,
        }
        if strategy.type in plain:
            return plain[strategy.type]
        if strategy.type != "RequestedToCapacityRatio":
            known = "LeastAllocated, MostAllocated or RequestedToCapacityRatio"
            raise plugin_arguments.error(self.name, f'scoringStrategy.type "{strategy.type}" is not {known}')
        ratio = strategy.requested_to_capacity_ratio
        return requested_to_capacity_ratio(checked_shape(self.name, ratio.shape if ratio else []))

    def pre_filter(self, pod: PodInfo, cluster: Cluster) -> fwk.PreFilterResult[_RequestedResources]:
        return fwk.PreFilterResult(
            _RequestedResources(
                cluster.resources, self._requested_amounts(pod.signature.requests), cluster.labels.nodes
            )
        )

    def _requested_amounts(self, amounts: dict[str, int]) -> dict[str, int]:
        found = {resource: amounts[resource] for resource in _NATIVE if amounts.get(resource, 0) > 0}
        for resource in sorted(amounts.keys() - _NATIVE):
            if amounts[resource] > 0 and not self._is_ignored(resource):
                found[resource] = amounts[resource]
        return found

    def _is_ignored(self, resource: str) -> bool:
        if not requests.is_extended(resource):
            return False
        return resource in self._ignored or resource.partition("/")[0] in self._ignored_groups

    def filter(self, state: _RequestedResources, rows: fwk.Rows) -> fwk.Verdicts:
        return state.verdicts(rows)

    def fits_resources(
        self, state: _RequestedResources, allocatable: NDArray[np.int64], used: NDArray[np.int64]
    ) -> fwk.Mask:
        return state.fits_with(allocatable, used)

    def filter_resources(
        self, state: _RequestedResources, allocatable: NDArray[np.int64], used: NDArray[np.int64]
    ) -> fwk.Verdicts:
        return fwk.Verdicts(state.codes_with(allocatable, used), state.reasons)

    def pre_score(self, pod: PodInfo, _cluster: Cluster) -> ScoredResources:
        return self._scoring.scored_resources(pod.signature.scored)

    def score(self, state: ScoredResources, rows: fwk.Rows) -> fwk.Scores:
        return state.get_or_compute(state.by.columns, rows, partial(self._compute_scores, state))

    def _compute_scores(self, scored: ScoredResources, rows: fwk.Rows) -> fwk.Scores:
        if self._strategy is least_allocated:
            return scored.by.least_allocated(scored.asked, rows)
        used, allocatable = scored.by.tables(rows)
        return self._strategy(used + scored.asked, allocatable, scored.by.weights)

    def events_to_register(self) -> Sequence[fwk.EventWithHint]:
        pods, nodes = fwk.Action.DELETE | fwk.Action.UPDATE_POD_SCALE_DOWN, fwk.Action.UPDATE_NODE_ALLOCATABLE
        return (
            fwk.wake_on(fwk.Kind.ASSIGNED_POD, pods, self._after_pod_change),
            fwk.wake_on(fwk.Kind.NODE, fwk.Action.ADD | nodes, self._after_node_change),
            fwk.wake_on(fwk.Kind.TARGET_POD, fwk.Action.UPDATE_POD_SCALE_DOWN),
        )

    def _after_pod_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> fwk.QueueingHint:
        if old is None or not old.spec.node_name:
            return fwk.QueueingHint.SKIP
        if new is None:
            return fwk.QueueingHint.QUEUE
        before, after = self._amounts(old), self._amounts(new)
        wanted = self._requested_amounts(self._amounts(pod))
        return fwk.QueueingHint.of(any(after.get(name, 0) < before.get(name, 0) for name in wanted))

    def _after_node_change(self, pod: Pod, old: Node | None, new: Node | None) -> fwk.QueueingHint:
        if new is None:
            return fwk.QueueingHint.SKIP
        wanted = {**self._requested_amounts(self._amounts(pod)), requests.PODS: 1}
        there = _amount_on(new)
        if any(there(resource) < amount for resource, amount in wanted.items()):
            return fwk.QueueingHint.SKIP
        before = _amount_on(old) if old is not None else None
        return fwk.QueueingHint.of(before is None or any(there(name) > before(name) for name in wanted))

    def _amounts(self, pod: Pod) -> dict[str, int]:
        return requests.in_units(requests.requests_of(pod, pod_level=self._pod_level))


def _amount_on(node: Node) -> Callable[[str], int]:
    allocatable = node.status.allocatable
    return lambda name: requests.to_units(name, allocatable[name]) if name in allocatable else 0
