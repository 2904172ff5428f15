"""NodeResourcesBalancedAllocation: scores nodes higher where the pod makes the use of resources more balanced.

The score is 75 if the pod does not change the balance, at least 50 if it worsens it, at most 100 if it improves it.
"""

from functools import partial

from mooring.api.base import Object
from mooring.scheduler import framework as fwk
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.plugins import arguments as plugin_arguments
from mooring.scheduler.plugins.resource_scoring import (
    CPU_AND_MEMORY,
    ResourceSpec,
    ScoredResources,
    Scoring,
    checked_resources,
)


class NodeResourcesBalancedAllocationArgs(Object):
    """The arguments of the NodeResourcesBalancedAllocation plugin."""

    resources: list[ResourceSpec] = []  # noqa: RUF012 - msgspec copies it
    """The scored resources; cpu and memory when absent."""


class NodeResourcesBalancedAllocation(fwk.ScorePlugin[ScoredResources]):
    name = "NodeResourcesBalancedAllocation"
    scores = fwk.Declaration(fwk.Part.RESOURCES, fwk.Input.NODE_ALLOCATABLE | fwk.Input.PODS)

    def __init__(self, arguments: fwk.PluginArguments, handle: fwk.Handle) -> None:
        args = plugin_arguments.read(self.name, arguments, NodeResourcesBalancedAllocationArgs)
        self._resources = checked_resources(self.name, args.resources or CPU_AND_MEMORY)
        self._scoring = Scoring(handle.cluster, self._resources, assumed=False)

    def pre_score(self, pod: PodInfo, _cluster: Cluster) -> ScoredResources | fwk.Status:
        asked = pod.signature.requests
        if not any(asked.get(entry.name) for entry in self._resources):
            return fwk.SKIP  # pods that ask for nothing would all go to the node that happens to be most in balance
        return self._scoring.scored_resources(asked)

    def score(self, state: ScoredResources, rows: fwk.Rows) -> fwk.Scores:
        return state.get_or_compute(state.by.columns, rows, partial(self._compute_scores, state))

    def _compute_scores(self, scored: ScoredResources, rows: fwk.Rows) -> fwk.Scores:
        points = scored.by.balance_change(scored.asked, rows)
        points += fwk.MAX_NODE_SCORE + fwk.MAX_NODE_SCORE // 2
        points >>= 1
        return points
