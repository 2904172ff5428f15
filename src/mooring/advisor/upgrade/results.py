"""The answer of `mooring upgrade-check`: frozen values, the same in Python and in `-o json`.

Times are seconds since the first node is cordoned.
"""

from typing import Literal

import msgspec

from mooring.advisor.audit.results import API_VERSION, Step
from mooring.advisor.releases.results import ReleaseAudit

Verdict = Literal["passes", "passes with warnings", "does not pass"]


class Result(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of the answer."""


class Block(Result, frozen=True):
    """A pod that a disruption budget kept on a node that was drained."""

    pod: str
    owner: str
    node: str
    message: str
    seconds: float
    is_final: bool = False
    """Whether the drain ended without evicting the pod."""


class NodeDrain(Result, frozen=True):
    """The drain and the upgrade of one node."""

    node: str
    pool: str
    started: float
    drained: float | None = None
    """None where pods stayed on the node until the drain timed out."""
    ready: float | None = None
    """When the node, or the one that replaces it, takes pods again."""
    evicted: int = 0
    forced: int = 0
    """Pods deleted in spite of their budget (`--force-after`)."""


class Interruption(Result, frozen=True):
    """A workload of one replica that does not run while its pod moves."""

    workload: str
    times: int
    longest_seconds: float | None
    """None where the last pod did not run again."""


class Pending(Result, frozen=True):
    """Pods of a workload that have no node at the end, or had none for a while."""

    workload: str
    pods: int
    message: str
    seconds: float | None = None
    """How long a pod waited at most; None for until the end."""


class LocalData(Result, frozen=True):
    """A pod with something in the way of a drain."""

    pod: str
    node: str
    problem: str
    command: str = ""


class Skew(Result, frozen=True):
    """Kubelets outside of what an API server of a release on the way supports."""

    release: str
    kubelet: str
    problem: str
    nodes: tuple[str, ...]


class Remedy(Result, frozen=True):
    """Something to change beforehand, with its command."""

    problem: str
    command: str
    effect: str
    is_verified: bool = False
    """Whether the drains were played again with the change, and the problem was gone."""


class Move(Result, frozen=True):
    """A pod that moved."""

    at: float
    pod: str
    owner: str
    node: str
    to: str = ""
    """Empty where the replacement has no node at the end."""


class Rollout(Result, frozen=True, kw_only=True):
    """All drains in virtual time."""

    seconds: float
    nodes: tuple[NodeDrain, ...]
    blocks: tuple[Block, ...] = ()
    pending: tuple[Pending, ...] = ()
    delayed: tuple[Pending, ...] = ()
    """Workloads whose pods waited for a node during the drains, and have one at the end."""
    interruptions: tuple[Interruption, ...] = ()
    moves: tuple[Move, ...] = ()
    daemon_pods: int = 0
    """Pods of DaemonSets, which stop and start with their node."""
    timeline: tuple[tuple[float, int, int], ...] = ()
    """Time, running pods, pending pods."""
    is_complete: bool = True
    """False after Ctrl-C: the result ends there."""

    @property
    def unfinished(self) -> tuple[NodeDrain, ...]:
        return tuple(each for each in self.nodes if each.drained is None)


class UpgradeCheck(Result, frozen=True, kw_only=True):
    """The report."""

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

    def tree(self) -> dict[str, object]:
        """Return dicts and lists, as JSON has them."""
        audits = {name: audit.tree() for name in ("up", "back", "helm") if (audit := getattr(self, name)) is not None}
        return {"apiVersion": self.api_version, "kind": self.kind, **msgspec.to_builtins(self), **audits}
