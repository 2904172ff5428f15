"""Preemption: which pods of lower priority would have to go, on which node, so that a pod fits there.

For each node that refused the pod for now (not for good), all pods of lower priority are taken away; if the pod fits
then, they are given back one by one, the important and those whose disruption budget is exhausted first, as long as it
still fits. The node with the least harm is chosen. All of it is tried on the columns themselves and undone.
Called by ``engine.py``; deleting the victims is the cycle's business.
"""

import math
import random
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from mooring.api import label_selector
from mooring.api.core_v1 import Pod
from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.scheduler.columns.cluster import Cluster, NodeInfo, PlacedPod
from mooring.scheduler.diagnosis import Diagnosis
from mooring.scheduler.evaluation import Judgement, likeness_on, status_on
from mooring.scheduler.framework import Code, Status, unresolvable
from mooring.scheduler.nominations import Expected, Nominations, priority
from mooring.scheduler.plugins.default_preemption import DefaultPreemption

NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
_OFFSET = 1 << 31
"""Added to priorities in sums, so that one more victim is never better, whatever its priority."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """What preemption came to: a node and its victims, or a message that says why not."""

    node: str | None = None
    victims: tuple[Pod, ...] = ()
    """The most important first."""
    message: str = ""
    keeps_nomination: bool = False
    """Whether the pod keeps the node that it was nominated for before."""


NOT_TRIED = Preemption()


@dataclass(frozen=True, slots=True)
class Candidate:
    node: str
    victims: tuple[Pod, ...]
    violations: int
    """How many victims have no disruption left in their budget."""


@dataclass(frozen=True, slots=True)
class _Spared:
    """What trying a node came to: the pods that have to go, by index, and how many budgets that breaks."""

    victims: tuple[int, ...]
    violations: int


@dataclass(slots=True)
class _Attempt:
    """Everything that trying nodes needs."""

    judgement: Judgement
    cluster: Cluster
    expected: Expected
    """Pods that the new one has to leave room for."""
    budgets: Sequence[PodDisruptionBudget]
    reasons: Counter[str] = field(default_factory=Counter)
    """Why nodes that were tried would not do ..."""
    in_vain: int = 0
    """... and how many they were."""
    known: dict[Hashable, _Spared | Status] = field(default_factory=dict)
    """What trying came to on nodes that look alike."""


def preempt(
    judgement: Judgement,
    diagnosis: Diagnosis,
    *,
    cluster: Cluster,
    nominations: Nominations,
    plugin: DefaultPreemption,
    lot: random.Random,
) -> Preemption:
    """Find the node where the pod does the least harm."""
    pod = judgement.pod
    refusal = _ineligible(pod.pod, diagnosis, cluster, nominations)
    if refusal:
        return Preemption(message=refusal, keeps_nomination=True)
    rows = diagnosis.rows_with(Code.UNSCHEDULABLE).tolist()
    budgets = list(cluster.objects(PodDisruptionBudget).values())
    attempt = _Attempt(judgement, cluster, nominations.expected(pod.pod), budgets)
    start = lot.randrange(len(rows)) if rows else 0
    candidates = _candidates(attempt, rows[start:] + rows[:start], plugin.candidates(len(rows)))
    if not candidates:
        return Preemption(message=_message(attempt, diagnosis.number_of_nodes))
    best = least_harmful(candidates)
    return Preemption(best.node, best.victims)


def _ineligible(pod: Pod, diagnosis: Diagnosis, cluster: Cluster, nominations: Nominations) -> str:
    """Why the pod may not displace others (now); empty when it may."""
    if pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    name = nominations.node_of(pod) or pod.status.nominated_node_name
    info = cluster.node(name) if name else None
    if info is None:
        return ""
    status = diagnosis.status_on(info.row)
    if status is not None and status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return ""  # waiting for pods to go there is in vain
    leaving = (other for other in info.pods if other.metadata.deletion_timestamp is not None)
    if any(priority(other) < priority(pod) and _is_preempted(other) for other in leaving):
        return "not eligible due to a terminating pod on the nominated node."
    return ""


def _is_preempted(pod: Pod) -> bool:
    conditions = (entry for entry in pod.status.conditions if entry.type == "DisruptionTarget")
    return any(entry.status == "True" and entry.reason == "PreemptionByScheduler" for entry in conditions)


def _message(attempt: _Attempt, nodes: int) -> str:
    reasons = attempt.reasons + Counter({NOT_HELPFUL: nodes - attempt.in_vain})
    parts = sorted(f"{number} {reason}" for reason, number in reasons.items())
    return f"0/{nodes} nodes are available: {', '.join(parts)}."


def _candidates(attempt: _Attempt, rows: Sequence[int], wanted: int) -> list[Candidate]:
    """Try nodes until there are enough, of which one at least spares all budgets."""
    found: list[Candidate] = []
    spares_budgets = False
    for row in rows:
        info = attempt.cluster.nodes[row]
        if info is None:
            continue
        candidate = _victims_on(attempt, info)
        if isinstance(candidate, Status):
            attempt.reasons.update(candidate.reasons)
            attempt.in_vain += 1
            continue
        found.append(candidate)
        spares_budgets = spares_budgets or not candidate.violations
        if spares_budgets and len(found) >= wanted:
            break
    return found


def _victims_on(attempt: _Attempt, info: NodeInfo) -> Candidate | Status:
    wanted = priority(attempt.judgement.pod.pod)
    lower = [placed for placed in info.placed.values() if priority(placed.pod) < wanted]
    if not lower:
        return unresolvable(NO_VICTIMS)
    lower.sort(key=lambda placed: importance(placed.pod))
    likeness = _likeness(attempt, info, lower)
    found = attempt.known.get(likeness)
    if found is None:
        found = _tried(attempt, info, lower)
        if likeness is not None:
            attempt.known[likeness] = found
    if isinstance(found, Status):
        return found
    return Candidate(info.name, tuple(lower[index].pod for index in found.victims), found.violations)


def _likeness(attempt: _Attempt, info: NodeInfo, lower: Sequence[PlacedPod]) -> Hashable:
    """Equal for nodes where trying comes to the same; None when the node has to be tried on its own."""
    if any(budget.status.disrupted_pods for budget in attempt.budgets):
        return None
    moved = (*lower, *attempt.expected.get(info.row, ()))
    seen = likeness_on(attempt.judgement, info.row, moved)
    return None if seen is None else (seen, tuple(priority(placed.pod) for placed in lower))


def _tried(attempt: _Attempt, info: NodeInfo, lower: Sequence[PlacedPod]) -> _Spared | Status:
    """Take all of `lower` away, and give back as many as possible."""
    cluster = attempt.cluster
    for placed in lower:
        cluster.displace(placed)
    away = list(range(len(lower)))
    try:
        status = _fits(attempt, info)
        if not status.is_success:
            return status
        violating, others = _by_budget(lower, attempt.budgets)
        for index in (*violating, *others):
            cluster.place(lower[index])
            if _fits(attempt, info, only_pods_moved=True).is_success:
                away.remove(index)
            else:
                cluster.displace(lower[index])
        return _Spared(tuple(away), len(set(away) & set(violating)))
    finally:
        for index in away:
            cluster.place(lower[index])


def _fits(attempt: _Attempt, info: NodeInfo, *, only_pods_moved: bool = False) -> Status:
    """Whether the pod fits now, also when the pods come that it has to leave room for."""
    expected = attempt.expected.get(info.row, ())
    if expected:
        for placed in expected:
            attempt.cluster.place(placed)
        status = status_on(attempt.judgement, info.row, only_pods_moved=only_pods_moved)
        for placed in expected:
            attempt.cluster.displace(placed)
        if not status.is_success:
            return status
    return status_on(attempt.judgement, info.row, only_pods_moved=only_pods_moved)


def _by_budget(pods: Sequence[PlacedPod], budgets: Sequence[PodDisruptionBudget]) -> tuple[list[int], list[int]]:
    """The pods, by index, whose disruption a budget no longer allows, and the others."""
    left = [budget.status.disruptions_allowed for budget in budgets]
    violating: list[int] = []
    others: list[int] = []
    for index, placed in enumerate(pods):
        exhausted = False
        for number, budget in enumerate(budgets):
            if _protects(budget, placed.pod):
                left[number] -= 1
                exhausted = exhausted or left[number] < 0
        (violating if exhausted else others).append(index)
    return violating, others


def _protects(budget: PodDisruptionBudget, pod: Pod) -> bool:
    if budget.metadata.namespace != pod.metadata.namespace or not pod.metadata.labels:
        return False
    if pod.metadata.name in budget.status.disrupted_pods:
        return False
    selector = label_selector.from_label_selector(budget.spec.selector)
    return not selector.is_empty() and selector.matches(pod.metadata.labels)


def least_harmful(candidates: Sequence[Candidate]) -> Candidate:
    """The first of the candidates that are best by kube-scheduler's rules, each deciding among those still equal."""
    return min(candidates, key=_harm)


def _harm(candidate: Candidate) -> tuple[int, int, int, int, float]:
    priorities = [priority(pod) for pod in candidate.victims]
    highest = max(priorities, default=-_OFFSET)
    started = [started_at(pod) for pod in candidate.victims if priority(pod) == highest]
    return (
        candidate.violations,
        highest,
        sum(value + _OFFSET for value in priorities),
        len(priorities),
        -min(started, default=0.0),  # among the important victims, rather those that have run for a shorter time
    )


def importance(pod: Pod) -> tuple[int, float]:
    """Sorts the most important first: by priority, then by how long it has run."""
    return -priority(pod), started_at(pod)


def started_at(pod: Pod) -> float:
    """When the pod was started; one that was not yet counts as started now, so as the latest."""
    try:
        return datetime.fromisoformat(pod.status.start_time).timestamp() if pod.status.start_time else math.inf
    except ValueError:
        return math.inf
