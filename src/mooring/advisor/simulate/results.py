"""What a simulation came to: plain frozen values, the same in Python, in `-o json` and in the HTTP API.

Times are seconds since the start of the simulation. Amounts are in cores, bytes and pieces.
"""

from typing import Literal

import msgspec

API_VERSION = "advisor.mooring.dev/v1"


class Result(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A part of a result."""


class Counts(Result, frozen=True):
    """How many, at the end."""

    nodes: int
    pods: int
    """All that are there, with a node or without."""
    running: int
    placed: int
    """Those of them that got their node in the simulation."""
    pending: int
    rejected: int
    preempted: int
    evicted: int
    blocked: int
    """Pods that a drain could not evict because of a disruption budget."""
    newly_pending: int = 0
    """Those of the pending that were not there before, or had a node."""


class Placement(Result, frozen=True):
    """A pod that got its node in the simulation, and still has it."""

    pod: str
    owner: str
    node: str
    at: float
    replaces: str = ""
    """The pod in whose place it was made."""


class PendingPod(Result, frozen=True):
    """A pod that has no node."""

    pod: str
    owner: str


class PendingGroup(Result, frozen=True):
    """Pods that have no node, for the same reason."""

    message: str
    count: int
    owners: tuple[str, ...]
    pods: tuple[PendingPod, ...]


class RejectedGroup(Result, frozen=True):
    """Pods or objects that the API server refuses."""

    name: str
    """A workload whose pods are refused, or the object itself."""
    message: str
    count: int


class Departure(Result, frozen=True):
    """A pod that had to go."""

    pod: str
    owner: str
    node: str
    at: float
    cause: str = ""
    """Why it was evicted."""
    by: str = ""
    """Which pod displaced it."""
    replacement: str = ""
    """The pod that was made in its place, if it is still there ..."""
    replacement_node: str = ""
    """... and where that is; empty while it is pending."""


class Blocked(Result, frozen=True):
    """A pod that a drain could not evict."""

    pod: str
    node: str
    message: str


class Distribution(Result, frozen=True):
    """How the nodes differ: parts of what they have that are requested."""

    least: float
    median: float
    p90: float
    most: float
    histogram: tuple[int, ...]
    """How many nodes are used up to 10%, 20%, …, 100%, and beyond."""


class ResourceUse(Result, frozen=True):
    """How much of a resource is requested."""

    resource: str
    allocatable: float
    requested: float
    fraction: float
    nodes: Distribution


class Utilisation(Result, frozen=True):
    before: tuple[ResourceUse, ...]
    after: tuple[ResourceUse, ...]


class NodeUse(Result, frozen=True):
    """One node at the end: pods, and by resource the part that is requested, before and after."""

    name: str
    pods: int
    unschedulable: bool = False
    before: dict[str, float] | None = None
    """None for a node that was added."""
    after: dict[str, float] | None = None
    """None for a node that was removed."""


class Moment(Result, frozen=True):
    """How things stood at a time."""

    at: float
    running: int
    pending: int
    nodes: int
    cpu: float
    """The part of all cores that is requested."""
    memory: float
    event: str = ""
    """What happened then."""


class Room(Result, frozen=True):
    """How many more pods of a workload fit."""

    workload: str
    fits: int
    """Beside those that are there already."""
    limit: str
    """Why the next one does not fit."""
    is_complete: bool = True
    """Whether the end was reached."""


class Elsewhere(Result, frozen=True):
    """A pod that goes to another node under the other configuration."""

    pod: str
    node: str
    """Empty when it is pending."""
    other_node: str


class Comparison(Result, frozen=True):
    """The same scenario under two configurations."""

    configuration: str
    other_configuration: str
    same: int
    """Pods that go to the same node under both."""
    elsewhere: tuple[Elsewhere, ...]
    only_here: tuple[str, ...]
    """Pods that the other configuration does not have, because it rejects them or has made others in their place."""
    only_there: tuple[str, ...]
    only_pending_here: tuple[str, ...]
    only_pending_there: tuple[str, ...]
    counts: Counts
    other_counts: Counts
    after: tuple[ResourceUse, ...]
    other_after: tuple[ResourceUse, ...]


class Simulation(Result, frozen=True, kw_only=True):
    api_version: str = API_VERSION
    kind: Literal["Simulation"] = "Simulation"
    name: str = ""
    cluster: str
    """Where the snapshot came from."""
    configuration: str
    seed: int
    started_at: str
    """The moment of the snapshot, from which virtual time goes on."""
    seconds: float
    """How much virtual time passed."""
    is_complete: bool = True
    """False when it was interrupted: then this is how far it got."""
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
    notes: tuple[str, ...] = ()
