"""What the tools of `mooring mcp` answer: small typed records, cut from what the commands print with `-o json`.

Every list has a limit, and a count says how many there are in all; every text has one, too. Agents pay for each word
they read, and a cluster of 5,000 nodes must not answer with 5,000 names.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MAX_TEXT = 600
MAX_COMMANDS = 4_000
"""Characters of a remedy's commands, which are given whole or not at all."""
MAX_REASONS = 10
MAX_REMEDIES = 5
MAX_NAMES = 20
MAX_FINDINGS = 30


@dataclass(frozen=True)
class Reason:
    """Why some nodes cannot take the pod."""

    plugin: str
    nodes: int
    detail: str


@dataclass(frozen=True)
class Remedy:
    """A change after which the pod would be scheduled; it was verified on the scheduler's engine."""

    summary: str
    commands: list[str]
    node: str
    caveat: str


@dataclass(frozen=True)
class Explanation:
    """Why a pod is pending, or where it is."""

    subject: str
    state: str
    summary: str
    nodes: int
    feasible_nodes: int
    reasons: list[Reason]
    remedies: list[Remedy]
    facts: list[str]


@dataclass(frozen=True)
class Cause:
    """Pods that do not run for one cause, with the first verified remedy."""

    cause: str
    summary: str
    pods: int
    owners: list[str]
    remedy: Remedy | None


@dataclass(frozen=True)
class Overview:
    """Everything that does not run, worst first."""

    nodes: int
    pods: int
    causes: list[Cause]
    pods_of_other_causes: int
    notes: list[str]


@dataclass(frozen=True)
class PendingReason:
    """Pods that would be pending for one reason."""

    message: str
    pods: int
    owners: list[str]


@dataclass(frozen=True)
class SimulationAnswer:
    """What would happen if the cluster were changed."""

    nodes: int
    running: int
    placed: int
    pending: int
    newly_pending: int
    evicted: int
    preempted: int
    rejected: int
    pending_reasons: list[PendingReason]
    rejected_reasons: list[str]
    notes: list[str]


@dataclass(frozen=True)
class Finding:
    """Something that a linter or an audit found."""

    rule: str
    severity: str
    object: str
    field: str
    message: str


@dataclass(frozen=True)
class Findings:
    """The worst findings, and how many there are in all."""

    errors: int
    warnings: int
    infos: int
    findings: list[Finding]


@dataclass(frozen=True)
class NodeMatch:
    """Nodes on which an expression holds, and why not on others."""

    nodes: int
    matching: int
    names: list[str]
    why_not: list[Reason]


def cut(text: object) -> str:
    """Shorten a text."""
    whole = str(text or "")
    return whole if len(whole) <= MAX_TEXT else f"{whole[:MAX_TEXT]} … ({len(whole) - MAX_TEXT} more characters)"


def cut_all(texts: Iterable[object], most: int = MAX_NAMES) -> list[str]:
    return [cut(text) for _, text in zip(range(most), texts, strict=False)]


def explanation(tree: Mapping[str, Any]) -> Explanation:
    """Cut a SchedulingExplanation."""
    subject = tree["subject"]
    return Explanation(
        subject=f"{subject['kind']} {subject['namespace']}/{subject['name']}",
        state=tree["state"],
        summary=cut(tree["summary"]),
        nodes=tree["totalNodes"],
        feasible_nodes=tree["feasibleNodes"],
        reasons=[Reason(each["plugin"], each["count"], cut(each["detail"])) for each in tree["refusals"][:MAX_REASONS]],
        remedies=[_remedy(each) for each in tree["suggestions"][:MAX_REMEDIES]],
        facts=cut_all(tree["facts"], MAX_REASONS),
    )


def _remedy(tree: Mapping[str, Any]) -> Remedy:
    commands = [each["command"] for each in tree["changes"] if each["command"]]
    is_short = len(commands) <= MAX_REMEDIES and sum(map(len, commands)) <= MAX_COMMANDS  # half of one would be harmful
    return Remedy(cut(tree["summary"]), commands if is_short else [], tree["node"], cut(tree["caveat"]))


def overview(tree: Mapping[str, Any]) -> Overview:
    """Cut a SchedulingOverview."""
    shown = tree["groups"][:MAX_REASONS]
    causes = [
        Cause(
            each["cause"],
            cut(each["summary"]),
            each["pods"],
            cut_all(f"{member['kind']} {member['namespace']}/{member['name']}" for member in each["members"]),
            _remedy(each["remedy"]) if each["remedy"] else None,
        )
        for each in shown
    ]
    others = tree["pods"] - sum(each["pods"] for each in shown)
    return Overview(tree["nodes"], tree["pods"], causes, others, cut_all(tree["notes"], MAX_REASONS))


def simulation(tree: Mapping[str, Any]) -> SimulationAnswer:
    """Cut a Simulation."""
    counts = tree["counts"]
    return SimulationAnswer(
        **{
            name: counts[name] for name in ("nodes", "running", "placed", "pending", "evicted", "preempted", "rejected")
        },
        newly_pending=counts["newlyPending"],
        pending_reasons=[
            PendingReason(cut(each["message"]), each["count"], cut_all(each["owners"]))
            for each in tree["pending"][:MAX_REASONS]
        ],
        rejected_reasons=cut_all((each["message"] for each in tree["rejected"]), MAX_REASONS),
        notes=cut_all(tree["notes"], MAX_REASONS),
    )


def findings(trees: list[dict[str, Any]]) -> Findings:
    """Cut the findings of a linter or an audit, the worst first."""
    order = ("error", "warning", "info")
    counts = {severity: sum(each["severity"] == severity for each in trees) for severity in order}
    worst = sorted(trees, key=lambda each: order.index(each["severity"]))[:MAX_FINDINGS]
    shown = [
        Finding(each["rule"], each["severity"], _named(each["object"]), each.get("field", ""), cut(each["message"]))
        for each in worst
    ]
    return Findings(counts["error"], counts["warning"], counts["info"], shown)


def _named(given: str | Mapping[str, Any]) -> str:
    if isinstance(given, str):
        return given
    return (
        f"{given['kind']} {given['namespace']}/{given['name']}"
        if given["namespace"]
        else f"{given['kind']} {given['name']}"
    )
