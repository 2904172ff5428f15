"""The typed result of `mooring upgrade-check`. Times are seconds since the first node is cordoned."""

from typing import Any, Literal

from mooring.advisor.audit.results import Step
from mooring.advisor.releases.results import ReleaseAudit
from mooring.advisor.results import API_VERSION, Result

Verdict = Literal["passes", "passes with warnings", "does not pass"]


class Block(Result, frozen=True):
    """A pod whose eviction a disruption budget refused during a drain."""

    pod: str
    owner: str
    node: str
    message: str
    seconds: float
    is_final: bool = False
    """Whether the drain ended without evicting the pod."""
    budgets: tuple[str, ...] = ()
    """The disruption budgets that select the pod."""


class NodeDrain(Result, frozen=True):
    """The drain and the upgrade of one node."""

    node: str
    pool: str
    started: float
    drained: float | None = None
    """When the node was empty; None if pods stayed until the drain timed out."""
    ready: float | None = None
    """When the node, or its replacement, accepts pods again."""
    evicted: int = 0
    forced: int = 0
    """Pods deleted in spite of their budget (`--force-after`)."""


class Interruption(Result, frozen=True):
    """A workload that has no ready pod for a while, because the last one moves."""

    workload: str
    times: int
    longest_seconds: float | None
    """None where no pod was ready again."""


class Pending(Result, frozen=True):
    """The number of pods of a workload that are pending at the end, or were pending for a while."""

    workload: str
    pods: int
    message: str
    seconds: float | None = None
    """The longest time that a pod waited; None for until the end."""


class LocalData(Result, frozen=True):
    """A pod with local data or another obstacle to a drain."""

    pod: str
    node: str
    problem: str
    command: str = ""


class Skew(Result, frozen=True):
    """Nodes with one kubelet version that the API server of a release does not support."""

    release: str
    kubelet: str
    problem: str
    nodes: tuple[str, ...]
    is_newer: bool = False
    """Whether the kubelets are newer than the API server, rather than too old for it."""


class Remedy(Result, frozen=True):
    """A change to make before the upgrade, with its command."""

    problem: str
    command: str
    effect: str
    is_verified: bool = False
    """Whether a simulation of the drains with the change no longer has the problem."""


class Move(Result, frozen=True):
    """A pod that moved to another node."""

    at: float
    pod: str
    owner: str
    node: str
    to: str = ""
    """The new node; empty if the replacement is pending at the end."""


class Rollout(Result, frozen=True, kw_only=True):
    """The simulated drains of all nodes: how long each takes, blocked and pending pods, and interrupted workloads."""

    seconds: float
    nodes: tuple[NodeDrain, ...]
    blocks: tuple[Block, ...] = ()
    pending: tuple[Pending, ...] = ()
    delayed: tuple[Pending, ...] = ()
    """Workloads whose pods were pending for a while during the drains, and have a node at the end."""
    interruptions: tuple[Interruption, ...] = ()
    moves: tuple[Move, ...] = ()
    daemon_pods: int = 0
    """The number of DaemonSets' pods, which stop and start with their node."""
    timeline: tuple[tuple[float, int, int], ...] = ()
    """Points of time, running pods, pending pods."""
    is_complete: bool = True
    """Whether the simulation ran to its end; False after Ctrl-C."""

    @property
    def unfinished(self) -> tuple[NodeDrain, ...]:
        return tuple(each for each in self.nodes if each.drained is None)


class UpgradeCheck(Result, frozen=True, kw_only=True):
    """The result of an upgrade check: a verdict with reasons, audits, drains, remedies and steps."""

    api_version: str = API_VERSION
    kind: Literal["UpgradeCheck"] = "UpgradeCheck"
    cluster: str
    from_version: str
    to_version: str
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    """Why the verdict is not "passes", worst first."""
    up: ReleaseAudit
    back: ReleaseAudit | None = None
    helm: ReleaseAudit | None = None
    steps: tuple[Step, ...] = ()
    skew: tuple[Skew, ...] = ()
    rollout: Rollout | None = None
    local_data: tuple[LocalData, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def tree(self) -> dict[str, Any]:
        audits = {name: audit.tree() for name in ("up", "back", "helm") if (audit := getattr(self, name)) is not None}
        return super().tree() | audits
