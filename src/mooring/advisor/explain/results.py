"""What an explanation says, for people and programs alike: the same in Python, in `-o json` and over HTTP.

Frozen structs with every field always written, so that scripts need not ask whether something is there.
"""

from typing import Any, Literal

import msgspec

API_VERSION = "advisor.mooring.dev/v1"
KIND = "SchedulingExplanation"
State = Literal["Scheduled", "Schedulable", "Unschedulable", "NotAttempted"]
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


class Refusal(Result, frozen=True, kw_only=True):
    """Why some nodes cannot take the pod: the first plugin that refuses them, and equal reasons."""

    plugin: str
    code: str
    reasons: list[str]
    """In the words of kube-scheduler's events."""
    detail: str
    """What exactly is in the way, with the values that were compared."""
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
    """A change after which the pod would be scheduled: it was tried."""

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


class Victim(Result, frozen=True, kw_only=True):
    """A pod that would have to go."""

    namespace: str
    name: str
    priority: int


class PreemptionFound(Result, frozen=True, kw_only=True):
    """What preemption would come to."""

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
    """One sentence."""
    message: str = ""
    """What kube-scheduler's event says."""
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
