"""DefaultPreemption: evicts pods of lower priority when no node has room for a pod.

`scheduler/deciding/preemption.py` finds the node and the victims.
"""

from mooring.api.base import Int32, Object
from mooring.scheduler.columns.signatures import PodInfo
from mooring.scheduler.deciding import preemption
from mooring.scheduler.deciding.diagnosis import Rejection
from mooring.scheduler.deciding.dry_run import PreemptionCosts
from mooring.scheduler.framework import Handle, PluginArguments, PostFilterResult
from mooring.scheduler.plugins import arguments as plugin_arguments


class DefaultPreemptionArgs(Object):
    """The arguments of the DefaultPreemption plugin."""

    min_candidate_nodes_percentage: Int32 | None = None
    """The minimum share of nodes tried as candidates, in per cent; 10 when absent."""
    min_candidate_nodes_absolute: Int32 | None = None
    """The minimum number of nodes tried as candidates; 100 when absent."""


class DefaultPreemption:
    name = "DefaultPreemption"

    def __init__(self, arguments: PluginArguments, handle: Handle) -> None:
        args = plugin_arguments.read(self.name, arguments, DefaultPreemptionArgs)
        percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
        self.percentage = 10 if percentage is None else percentage
        self.absolute = 100 if absolute is None else absolute
        self._handle = handle
        self._costs = PreemptionCosts(handle.cluster)
        if not 0 <= self.percentage <= 100:
            raise plugin_arguments.error(self.name, "minCandidateNodesPercentage is not in 0 to 100")
        if self.absolute < 0 or (self.percentage == 0 and self.absolute == 0):
            raise plugin_arguments.error(self.name, "minCandidateNodesAbsolute must be positive when the share is 0")

    def post_filter(self, _pod: PodInfo, statuses: Rejection) -> PostFilterResult:
        """Nominate the node where preemption costs the least, and return it with the victims to delete."""
        return preemption.preempt(statuses, self._handle, self.candidates, self._costs)

    def candidates(self, nodes: int) -> int:
        """Return the number of candidates to collect, given the number of nodes on which preemption may help."""
        return min(nodes, max(nodes * self.percentage // 100, self.absolute))
