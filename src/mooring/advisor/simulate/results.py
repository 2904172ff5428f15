"""The result of a simulation: plain frozen values, the same in Python, in `-o json` and in the HTTP API.

Times are seconds since the start of the simulation. Amounts are in cores, bytes and pieces.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from operator import ge, gt
from typing import Literal

import msgspec

from mooring.advisor.results import API_VERSION


class Result(msgspec.Struct, frozen=True, rename="camel", gc=False):
    pass


class Counts(Result, frozen=True):
    """The numbers of nodes and pods at the end of the simulation, by outcome."""

    nodes: int
    pods: int
    running: int
    placed: int
    pending: int
    rejected: int
    preempted: int
    evicted: int
    blocked: int
    """Pods that a drain could not evict because of a disruption budget."""
    newly_pending: int = 0
    """Pending pods that did not exist before, or had a node."""


class Placement(Result, frozen=True):
    """A pod that was placed during the simulation and is still on that node."""

    pod: str
    owner: str
    node: str
    at: float
    replaces: str = ""


class PendingPod(Result, frozen=True):
    pod: str
    owner: str
    is_new: bool = False
    """Whether it was not pending before the simulation."""


class PendingGroup(Result, frozen=True):
    """Pods that are pending for the same reason."""

    message: str
    count: int
    owners: tuple[str, ...]
    pods: tuple[PendingPod, ...]


class RejectedGroup(Result, frozen=True):
    """An object that the API server rejects, or a workload whose pods it rejects, with the error and the number."""

    name: str
    """The workload whose pods are rejected, or the object."""
    message: str
    count: int


class Departure(Result, frozen=True):
    """An evicted or preempted pod: the time, the node it left, the cause, and the pod that replaces it."""

    pod: str
    owner: str
    node: str
    at: float
    cause: str = ""
    by: str = ""
    replacement: str = ""
    """The pod that replaces it, if it still exists."""
    replacement_node: str = ""
    """The node of the replacement; empty while it is pending."""


class Blocked(Result, frozen=True):
    """A pod that a drain could not evict, with the API server's message."""

    pod: str
    node: str
    message: str


class Distribution(Result, frozen=True):
    """The distribution of nodes by the requested fraction of one resource: quantiles and a histogram."""

    least: float
    median: float
    p90: float
    most: float
    histogram: tuple[int, ...]
    """The number of nodes up to 10 %, 20 %, …, 100 %, and above."""


class ResourceUse(Result, frozen=True):
    resource: str
    allocatable: float
    requested: float
    fraction: float
    nodes: Distribution


class Utilisation(Result, frozen=True):
    before: tuple[ResourceUse, ...]
    after: tuple[ResourceUse, ...]


class NodeUse(Result, frozen=True):
    """The pods of one node, and the requested fraction of each resource, before and after."""

    name: str
    pods: int
    unschedulable: bool = False
    before: dict[str, float] | None = None
    """The requested fractions before; None for a node that was added."""
    after: dict[str, float] | None = None
    """The requested fractions after; None for a node that was removed."""


class Moment(Result, frozen=True):
    """One point of the timeline: the time, the numbers of pods and nodes then, and the step applied then."""

    at: float
    running: int
    pending: int
    nodes: int
    cpu: float
    """The requested fraction of all cores."""
    memory: float
    event: str = ""


class Room(Result, frozen=True):
    """The number of additional pods of a workload that fit, and why the next one does not."""

    workload: str
    fits: int
    """The number of pods that fit in addition to existing ones."""
    limit: str
    is_complete: bool = True


class MovedPod(Result, frozen=True):
    """A pod that gets another node under the other configuration."""

    pod: str
    node: str
    """The node under the other configuration; empty if it is pending."""
    other_node: str


class Comparison(Result, frozen=True):
    """The differences of one scenario under two configurations."""

    configuration: str
    other_configuration: str
    same: int
    """The number of pods that get the same node under both."""
    elsewhere: tuple[MovedPod, ...]
    only_here: tuple[str, ...]
    """Pods missing under the other configuration, which rejects them or created others instead."""
    only_there: tuple[str, ...]
    only_pending_here: tuple[str, ...]
    only_pending_there: tuple[str, ...]
    counts: Counts
    other_counts: Counts
    after: tuple[ResourceUse, ...]
    other_after: tuple[ResourceUse, ...]


class Simulation(Result, frozen=True, kw_only=True):
    """The result of a simulation: numbers of pods, placements, pending pods, evictions, timeline and utilisation."""

    api_version: str = API_VERSION
    kind: Literal["Simulation"] = "Simulation"
    name: str = ""
    cluster: str
    configuration: str
    seed: int
    started_at: str
    """The time of the snapshot, at which virtual time starts."""
    seconds: float
    is_complete: bool = True
    counts: Counts
    utilisation: Utilisation
    placements: tuple[Placement, ...] = ()
    pending: tuple[PendingGroup, ...] = ()
    rejected: tuple[RejectedGroup, ...] = ()
    preempted: tuple[Departure, ...] = ()
    evicted: tuple[Departure, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    nodes: tuple[NodeUse, ...] = ()
    timeline: tuple[Moment, ...] = ()
    room: Room | None = None
    comparison: Comparison | None = None
    added_nodes: tuple[tuple[float, str, str], ...] = ()
    """Time, name and pool of the nodes that the autoscaler added."""
    notes: tuple[str, ...] = ()


NUMBERS = ("pending", "newly-pending", "preempted", "evicted", "rejected", "blocked")
_ANY_RESOURCE = ("utilisation", "utilization")
_FORM = re.compile(r"([A-Za-z0-9./_-]+?)(?:(>=|>)([0-9]+(?:\.[0-9]+)?)(%?))?")


class ConditionError(ValueError):
    """A malformed condition; the message lists the valid forms."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of `--fail-if`, such as `pending>0`: the command fails if a result meets it."""

    text: str
    subject: str
    compare: Callable[[float, float], bool]
    limit: float

    def violation(self, result: Simulation) -> str:
        """Return the numbers that meet the condition, such as `3 pending`; empty if the result does not meet it."""
        if self.subject in NUMBERS:
            number = getattr(result.counts, self.subject.replace("-", "_"))
            return f"{number} {self.subject}" if self.compare(number, self.limit) else ""
        parts = {use.resource: use.fraction for use in result.utilisation.after}
        if self.subject not in _ANY_RESOURCE:
            parts = {self.subject: parts.get(self.subject, 0.0)}
        over = [f"{name} at {part:.1%}" for name, part in parts.items() if self.compare(part, self.limit)]
        return ", ".join(over)


def parse_condition(text: str) -> Condition:
    """Parse the text of a condition. Raise ConditionError if it is malformed."""
    found = _FORM.fullmatch(text.replace(" ", ""))
    if found is None:
        raise ConditionError(f'"{text}" is no condition; write pending, evicted>3 or utilisation>90%')
    subject, operator, number, percent = found.groups()
    if subject in NUMBERS:
        if percent:
            raise ConditionError(f'"{text}": {subject} is a number of pods, not a part')
        return Condition(text, subject, ge if operator == ">=" else gt, float(number or 0))
    if operator is None:
        known = ", ".join((*NUMBERS, "utilisation>N%", "RESOURCE>N%"))
        raise ConditionError(f'"{text}" is no condition; there are {known}')
    if not percent:
        raise ConditionError(f'"{text}": utilisation is in percent, as in {subject}{operator}90%')
    return Condition(text, subject, ge if operator == ">=" else gt, float(number) / 100)
