"""The parts of an explanation: the same in Python, in `-o json` and over HTTP.

Frozen structs with every field always written, so that scripts need not test for a field.
"""

from typing import Any, Literal

import msgspec

API_VERSION = "advisor.mooring.dev/v1"
KIND = "SchedulingExplanation"
State = Literal["Scheduled", "Schedulable", "Unschedulable", "NotAttempted", "NotCreated", "NotRunning"]
"""`NotAttempted`: no scheduler tries the pod. `NotCreated`: it does not exist. `NotRunning`: it has a node and does not
run."""
PROBLEMS: tuple[State, ...] = ("Unschedulable", "NotAttempted", "NotCreated", "NotRunning")
Action = Literal["patch", "create", "delete"]


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of all parts."""


class Target(Result, frozen=True, kw_only=True):
    """An object."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind.lower()} {name}"


class Cause(msgspec.Struct, frozen=True):
    """Why a pod does not exist, has no node, or does not run."""

    code: str
    """A word for programs, such as `QuotaExceeded`; it does not change between releases."""
    text: str
    """A sentence for people."""


class Refusal(Result, frozen=True, kw_only=True):
    """Why some nodes cannot take the pod: the first plugin that refuses them, and equal reasons."""

    plugin: str
    code: str
    reasons: list[str]
    """In the words of kube-scheduler's events."""
    detail: str
    """What exactly does not fit, with the values that were compared."""
    count: int
    nodes: list[str]


class NodeVerdict(Result, frozen=True, kw_only=True):
    """What the plugins say about one node."""

    node: str
    feasible: bool
    plugin: str = ""
    """The first plugin that refuses; what kube-scheduler would name."""
    detail: str = ""
    also_refused_by: list[str] = []
    """Other plugins that would refuse it too."""


class Change(Result, frozen=True, kw_only=True):
    """One object that is changed, made or deleted."""

    target: Target
    action: Action
    patch: list[dict[str, Any]] = []
    """A JSON patch, for changes."""
    object: dict[str, Any] | None = None
    """The whole object, for new ones."""
    command: str = ""
    """What to type, where kubectl can do it."""


class Suggestion(Result, frozen=True, kw_only=True):
    """A change that was verified: the scheduler places the pod then, and the whole workload was rolled out in a
    simulation."""

    summary: str
    size: int
    """How much it takes, to compare suggestions with."""
    plugins: list[str]
    """Whose refusals it answers."""
    changes: list[Change]
    node: str
    """Where the pod would go then."""
    feasible_nodes: int
    """How many nodes could take it then."""
    caveat: str = ""
    """What to think of before doing so."""
    helps: int = 0
    """How many pods of the workload have a node after it is rolled out ..."""
    wanted: int = 0
    """... of so many that it should have; 0 if the rollout was not played."""


class Victim(Result, frozen=True, kw_only=True):
    """A pod that would have to go."""

    namespace: str
    name: str
    priority: int


class PreemptionFound(Result, frozen=True, kw_only=True):
    """The result of preemption."""

    node: str = ""
    victims: list[Victim] = []
    message: str = ""


class NodeScore(Result, frozen=True, kw_only=True):
    """The points of a node."""

    node: str
    total: int
    scores: dict[str, int]
    """By plugin, weighted."""


class SchedulingExplanation(Result, frozen=True, kw_only=True):
    """Why a pod is where it is, or why it is nowhere, and what would help."""

    api_version: str = API_VERSION
    kind: str = KIND
    subject: Target
    origin: str
    """Which cluster."""
    state: State
    summary: str
    """The cause in one sentence, or where the pod runs."""
    cause: str = ""
    """The code of the cause, such as `QuotaExceeded`; empty where nothing is wrong."""
    message: str = ""
    """The message of kube-scheduler's event."""
    pods: int = 1
    """How many pods of the workload have this problem."""
    wanted: int = 1
    """How many pods the workload should have."""
    words: list[str] = []
    """What the cluster itself says: conditions and events."""
    release: str = ""
    """The release of Kubernetes whose rules were used."""
    node: str = ""
    """Where the pod is, or would go."""
    total_nodes: int = 0
    feasible_nodes: int = 0
    facts: list[str] = []
    """What should be known besides."""
    refusals: list[Refusal] = []
    nodes: list[NodeVerdict] = []
    preemption: PreemptionFound | None = None
    suggestions: list[Suggestion] = []
    scores: list[NodeScore] = []
    """The node that was or would be chosen, then the others, best first."""
