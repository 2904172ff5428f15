"""NodeResourcesBalancedAllocation: prefers nodes whose resources would be used in equal measure."""

from mooring.api.base import Object
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.shapes import PodInfo
from mooring.scheduler.framework import (
    SKIP,
    Handle,
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
    balanced,
    checked_resources,
)


class NodeResourcesBalancedAllocationArgs(Object):
    """The arguments of the plugin."""

    resources: list[ResourceSpec] = []  # noqa: RUF012 - msgspec copies it
    """The resources that count; cpu and memory when absent."""


class NodeResourcesBalancedAllocation:
    name = "NodeResourcesBalancedAllocation"
    score_scope = Scope.SHAPE
    score_reads = Reads.NODE | Reads.PODS

    def __init__(self, arguments: PluginArguments, _handle: Handle) -> None:
        args = plugin_arguments.read(self.name, arguments, NodeResourcesBalancedAllocationArgs)
        self._resources = checked_resources(self.name, args.resources or CPU_AND_MEMORY)

    def pre_score(self, pod: PodInfo, cluster: Cluster) -> ScoredResources | Status:
        asked = pod.shape.requests
        if not any(asked.get(entry.name) for entry in self._resources):
            return SKIP  # pods that ask for nothing would all go to the node that happens to be most in balance
        return ScoredResources.of(cluster.resources, self._resources, asked, assumed=False)

    def score(self, state: ScoredResources, rows: Rows) -> Scores:
        return state.score(balanced, rows)
