"""NodeResourcesBalancedAllocation: prefers nodes whose resources would be used in more equal measure than before.

75 points when the pod makes no difference, 50 when it turns a balanced node into the opposite, 100 the other way round.
"""

import numpy as np

from mooring.api.base import Object
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.shapes import PodInfo
from mooring.scheduler.framework import (
    MAX_NODE_SCORE,
    SKIP,
    Handle,
    Part,
    PluginArguments,
    Reads,
    Rows,
    Scope,
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


class NodeResourcesBalancedAllocation:
    name = "NodeResourcesBalancedAllocation"
    score_scope = Scope.SHAPE
    signs = Part.RESOURCES
    score_reads = Reads.NODE | Reads.PODS

    def __init__(self, arguments: PluginArguments, handle: Handle) -> None:
        args = plugin_arguments.read(self.name, arguments, NodeResourcesBalancedAllocationArgs)
        self._resources = checked_resources(self.name, args.resources or CPU_AND_MEMORY)
        for entry in self._resources:
            handle.cluster.resources.name(entry.name)

    def pre_score(self, pod: PodInfo, cluster: Cluster) -> ScoredResources | Status:
        asked = pod.shape.requests
        if not any(asked.get(entry.name) for entry in self._resources):
            return SKIP  # pods that ask for nothing would all go to the node that happens to be most in balance
        return ScoredResources.of(cluster.resources, self._resources, asked, assumed=False)

    def score(self, state: ScoredResources, rows: Rows) -> Scores:
        return state.score(_points, rows)


def _points(scored: ScoredResources, rows: Rows) -> Scores:
    used, allocatable = scored.tables(rows)
    without, including = balance(np.array([used, used + scored.asked]), allocatable)
    points: Scores = MAX_NODE_SCORE // 4 + (MAX_NODE_SCORE + including - without) // 2
    return points
