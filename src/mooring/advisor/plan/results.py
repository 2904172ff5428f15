"""The answer of `mooring plan`: frozen values, the same in Python and in `-o json`."""

from typing import Literal

import msgspec

from mooring.advisor.audit.results import API_VERSION
from mooring.advisor.simulate.node_pools import PoolVerdict
from mooring.advisor.simulate.results import Departure, PendingGroup, RejectedGroup

Action = Literal["create", "change", "unchanged", "refused"]


class Result(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of the answer."""


class FieldChange(Result, frozen=True):
    """A field that differs; None stands for absent."""

    path: str
    old: object = None
    new: object = None


class ObjectChange(Result, frozen=True):
    """What becomes of one object of the manifests."""

    kind: str
    name: str
    action: Action
    fields: tuple[FieldChange, ...] = ()
    message: str = ""
    """Why it is refused."""


class WorkloadPlacement(Result, frozen=True):
    """Where the new pods of a workload go: the number on each node."""

    workload: str
    pods: int
    nodes: dict[str, int]


class Cost(Result, frozen=True):
    """The change of what is requested of a resource, in cores, bytes or pieces."""

    resource: str
    before: float
    after: float
    allocatable: float


class Plan(Result, frozen=True, kw_only=True):
    """The report."""

    api_version: str = API_VERSION
    kind: Literal["Plan"] = "Plan"
    cluster: str
    changes: tuple[ObjectChange, ...]
    placements: tuple[WorkloadPlacement, ...] = ()
    pending: tuple[PendingGroup, ...] = ()
    """Pods that would have no node, and have one now or do not exist yet."""
    rejected: tuple[RejectedGroup, ...] = ()
    preempted: tuple[Departure, ...] = ()
    pools: tuple[PoolVerdict, ...] = ()
    """What each pool says to the first pod that does not fit."""
    cost: tuple[Cost, ...] = ()
    has_server: bool = False
    """Whether the API server answered a dry run."""
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Return 0 for nothing to change, 1 for changes that fit, 2 where something is refused or does not fit."""
        if self.pending or self.rejected or any(each.action == "refused" for each in self.changes):
            return 2
        return 1 if any(each.action != "unchanged" for each in self.changes) else 0
