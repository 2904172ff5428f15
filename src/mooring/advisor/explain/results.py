"""The typed parts of an explanation: the same in Python, in `-o json` and over HTTP.

Frozen structs in which every field is always written, so that scripts need not test for fields.
"""

from typing import Any, Literal

import msgspec

from mooring.advisor.results import API_VERSION

KIND = "SchedulingExplanation"
State = Literal["Scheduled", "Schedulable", "Unschedulable", "NotAttempted", "NotCreated", "NotRunning"]
"""The state of a pod.

`NotAttempted`: no scheduler tries the pod. `NotCreated`: it does not exist. `NotRunning`: it has a node and does not
run.
"""
PROBLEMS: tuple[State, ...] = ("Unschedulable", "NotAttempted", "NotCreated", "NotRunning")
Action = Literal["patch", "create", "delete"]


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base class of all parts of an explanation: frozen, with camelCase field names."""


class Target(Result, frozen=True, kw_only=True):
    """The kind, namespace and name of an object that an explanation mentions."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind.lower()} {name}"


class Cause(msgspec.Struct, frozen=True):
    """The cause why a pod does not exist, has no node, or does not run."""

    code: str
    """A stable identifier for programs, such as `QuotaExceeded`."""
    text: str
    """The cause as a sentence."""


class Refusal(Result, frozen=True, kw_only=True):
    """A group of nodes for which the first rejecting plugin and its reasons are the same."""

    plugin: str
    code: str
    reasons: list[str]
    """The reasons as kube-scheduler's events state them."""
    detail: str
    """A description with the values that were compared."""
    count: int
    nodes: list[str]


class NodeVerdict(Result, frozen=True, kw_only=True):
    """The verdict of the filter plugins on one node: feasible for the pod, or rejected by which of them and why."""

    node: str
    feasible: bool
    plugin: str = ""
    """The first plugin that rejects the node, which kube-scheduler would report."""
    detail: str = ""
    also_refused_by: list[str] = []
    """Further plugins that reject the node."""


class Change(Result, frozen=True, kw_only=True):
    """One step of a suggestion: the change, creation or deletion of one object, with its kubectl command."""

    target: Target
    action: Action
    patch: list[dict[str, Any]] = []
    """The JSON patch, for a changed object."""
    object: dict[str, Any] | None = None
    """The whole object, for a new one."""
    command: str = ""
    """The equivalent kubectl command; empty if there is none."""


class Suggestion(Result, frozen=True, kw_only=True):
    """A verified remedy: the scheduler places the pod after it, and a simulation has rolled out the whole workload."""

    summary: str
    size: int
    """The size of the change, by which suggestions are sorted."""
    plugins: list[str] = []
    """The plugins whose rejections it resolves."""
    changes: list[Change]
    node: str = ""
    """The node on which the pod would be placed; empty if only the whole workload was simulated."""
    feasible_nodes: int = 0
    """How many nodes would be feasible."""
    caveat: str = ""
    """A side effect to consider first; empty if none is known."""
    helps: int = 0
    """How many pods of the workload have a node after the rollout."""
    wanted: int = 0
    """How many pods the workload should have; 0 if the rollout was not simulated."""


class Victim(Result, frozen=True, kw_only=True):
    """A pod that preemption would delete to make room."""

    namespace: str
    name: str
    priority: int


class PreemptionFound(Result, frozen=True, kw_only=True):
    """The node that preemption has chosen for the pod, and the pods that it deletes there."""

    node: str = ""
    victims: list[Victim] = []
    message: str = ""


class NodeScore(Result, frozen=True, kw_only=True):
    """The scores of one feasible node: the weighted score of each plugin, and their sum."""

    node: str
    total: int
    scores: dict[str, int]
    """By plugin name, the weighted score."""


class SchedulingExplanation(Result, frozen=True, kw_only=True):
    """The explanation of one pod or workload: why it is on its node or does not run, and what would help."""

    api_version: str = API_VERSION
    kind: str = KIND
    subject: Target
    origin: str
    """The cluster that was examined: its name or file."""
    state: State
    summary: str
    """The cause in one sentence, or the node that the pod runs on."""
    cause: str = ""
    """The code of the cause, such as `QuotaExceeded`; empty if nothing is wrong."""
    message: str = ""
    """The message of kube-scheduler's event."""
    pods: int = 1
    """How many pods of the workload have this problem."""
    wanted: int = 1
    """How many pods the workload should have."""
    words: list[str] = []
    """What the cluster's own conditions and events say about the pod."""
    release: str = ""
    """The release of Kubernetes whose rules were used."""
    node: str = ""
    """The node that the pod is on, or would be placed on."""
    total_nodes: int = 0
    feasible_nodes: int = 0
    facts: list[str] = []
    """Further facts that the reader should know, as sentences."""
    refusals: list[Refusal] = []
    nodes: list[NodeVerdict] = []
    preemption: PreemptionFound | None = None
    suggestions: list[Suggestion] = []
    checks: list[str] = []
    """What to check by hand, as sentences, for a cause that no change of objects is known to remove; not verified."""
    scores: list[NodeScore] = []
    """The scores of the chosen node, then of the others, best first."""
