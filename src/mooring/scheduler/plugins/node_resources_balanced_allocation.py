"""NodeResourcesBalancedAllocation: prefers nodes whose resources would be used in more equal measure than before.

75 points when the pod makes no difference, 50 when it turns a balanced node into the opposite, 100 the other way round.
"""

import numpy as np

from mooring.api.base import Object
from mooring.constraints.columns.revisions import NEVER
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.framework import (
    MAX_NODE_SCORE,
    SKIP,
    Declaration,
    Handle,
    Input,
    Part,
    PluginArguments,
    Rows,
    ScorePlugin,
    Scores,
    Status,
)
from mooring.scheduler.plugins import arguments as plugin_arguments
from mooring.scheduler.plugins.resource_scoring import (
    CPU_AND_MEMORY,
    ResourceSpec,
    ScoredResources,
    balance,
    checked_resources,
)


class NodeResourcesBalancedAllocationArgs(Object):
    """The arguments of the plugin."""

    resources: list[ResourceSpec] = []  # noqa: RUF012 - msgspec copies it
    """The resources that count; cpu and memory when absent."""


class NodeResourcesBalancedAllocation(ScorePlugin[ScoredResources]):
    name = "NodeResourcesBalancedAllocation"
    scores = Declaration(Part.RESOURCES, Input.NODE_ALLOCATABLE | Input.PODS)

    def __init__(self, arguments: PluginArguments, handle: Handle) -> None:
        args = plugin_arguments.read(self.name, arguments, NodeResourcesBalancedAllocationArgs)
        self._resources = checked_resources(self.name, args.resources or CPU_AND_MEMORY)
        self._without = _Without(handle.cluster)
        for entry in self._resources:
            handle.cluster.resources.name(entry.name)

    def pre_score(self, pod: PodInfo, cluster: Cluster) -> ScoredResources | Status:
        asked = pod.signature.requests
        if not any(asked.get(entry.name) for entry in self._resources):
            return SKIP  # pods that ask for nothing would all go to the node that happens to be most in balance
        return ScoredResources.of(cluster.resources, self._resources, asked, assumed=False)

    def score(self, state: ScoredResources, rows: Rows) -> Scores:
        return state.score(self._points, rows)

    def _points(self, scored: ScoredResources, rows: Rows) -> Scores:
        used, allocatable = scored.tables(rows)
        is_all = isinstance(rows, slice)
        without = self._without.current(scored) if is_all else balance(used, allocatable)
        points = balance(used + scored.asked, allocatable)
        points -= without
        points += MAX_NODE_SCORE
        points >>= 1
        points += MAX_NODE_SCORE // 4
        return points


class _Without:
    """The balance of all nodes as they are, which every pod is compared with; kept up to date by row."""

    def __init__(self, cluster: Cluster) -> None:
        self._log = cluster.inputs.log(Input.NODE_ALLOCATABLE | Input.PODS)
        self._verified_at = NEVER
        self._made_for: tuple[object, ...] = ()
        self._points: Scores = np.empty(0, np.int64)

    def current(self, scored: ScoredResources) -> Scores:
        """Return it for the resources that a pod is scored by."""
        rows = self._log.since(self._verified_at)
        made_for = (scored.columns.layout, repr(scored.lines))
        if rows is None or made_for != self._made_for:
            self._points, self._made_for = balance(*scored.tables(slice(None))), made_for
        elif len(rows):
            self._points[rows] = balance(*scored.tables(rows))
        self._verified_at = self._log.changed_at
        return self._points
