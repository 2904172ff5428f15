"""What the tools of `mooring mcp` answer: small typed records, cut from what the commands print with `-o json`.

Every list and string has a limit, and a count says how many entries there are in all. Agents pay for each word that
they read, and a cluster of 5,000 nodes must not answer with 5,000 names.
"""

from collections.abc import Mapping
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
    """The reason why some nodes cannot take the pod."""

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
    """The explanation why a pod is pending, or where it is."""

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
    """The result of simulating a change of the cluster."""

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


def cut(text: str) -> str:
    """Return a string, shortened to `MAX_TEXT` characters with a note on how many are left out."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} … ({len(text) - MAX_TEXT} more characters)"


def cut_strings(tree: Any) -> Any:
    """Return JSON data with every string shortened, except commands, which are of use only as a whole."""
    if isinstance(tree, str):
        return cut(tree)
    if isinstance(tree, list):
        return [cut_strings(each) for each in tree]
    if isinstance(tree, dict):
        return {key: value if key == "command" else cut_strings(value) for key, value in tree.items()}
    return tree


def explanation(tree: Mapping[str, Any]) -> Explanation:
    """Convert a SchedulingExplanation, as JSON with shortened strings, to the short answer for agents."""
    return Explanation(
        subject=_name(tree["subject"]),
        state=tree["state"],
        summary=tree["summary"],
        nodes=tree["totalNodes"],
        feasible_nodes=tree["feasibleNodes"],
        reasons=[Reason(each["plugin"], each["count"], each["detail"]) for each in tree["refusals"][:MAX_REASONS]],
        remedies=[_remedy(each) for each in tree["suggestions"][:MAX_REMEDIES]],
        facts=tree["facts"][:MAX_REASONS],
    )


def _remedy(tree: Mapping[str, Any]) -> Remedy:
    commands = [each["command"] for each in tree["changes"] if each["command"]]
    is_short = len(commands) <= MAX_REMEDIES and sum(map(len, commands)) <= MAX_COMMANDS
    return Remedy(tree["summary"], commands if is_short else [], tree["node"], tree["caveat"])


def overview(tree: Mapping[str, Any]) -> Overview:
    """Convert a SchedulingOverview, as JSON with shortened strings, to the short answer for agents."""
    shown = tree["groups"][:MAX_REASONS]
    causes = [
        Cause(
            each["cause"],
            each["summary"],
            each["pods"],
            [_name(member) for member in each["members"][:MAX_NAMES]],
            _remedy(each["remedy"]) if each["remedy"] else None,
        )
        for each in shown
    ]
    others = tree["pods"] - sum(each["pods"] for each in shown)
    return Overview(tree["nodes"], tree["pods"], causes, others, tree["notes"][:MAX_REASONS])


def simulation(tree: Mapping[str, Any]) -> SimulationAnswer:
    """Convert a Simulation, as JSON with shortened strings, to the short answer for agents."""
    counts = tree["counts"]
    same = ("nodes", "running", "placed", "pending", "evicted", "preempted", "rejected")
    return SimulationAnswer(
        **{name: counts[name] for name in same},
        newly_pending=counts["newlyPending"],
        pending_reasons=[
            PendingReason(each["message"], each["count"], each["owners"][:MAX_NAMES])
            for each in tree["pending"][:MAX_REASONS]
        ],
        rejected_reasons=[each["message"] for each in tree["rejected"][:MAX_REASONS]],
        notes=tree["notes"][:MAX_REASONS],
    )


def findings(trees: list[dict[str, Any]]) -> Findings:
    """Convert the findings of a linter or an audit to the short answer for agents: counts, and the worst findings."""
    order = ("error", "warning", "info")
    errors, warnings, infos = (sum(each["severity"] == severity for each in trees) for severity in order)
    worst = sorted(trees, key=lambda each: order.index(each["severity"]))[:MAX_FINDINGS]
    shown = [
        Finding(each["rule"], each["severity"], _name(each["object"]), each.get("field", ""), each["message"])
        for each in worst
    ]
    return Findings(errors, warnings, infos, shown)


def _name(given: str | Mapping[str, str]) -> str:
    """Return `KIND NAMESPACE/NAME` of an object, or the string that a linter calls it by."""
    if isinstance(given, str):
        return given
    return f"{given['kind']} {given['namespace']}/{given['name']}".replace(" /", " ")
