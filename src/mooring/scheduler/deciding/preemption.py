"""Preemption: find the node where evicting pods of lower priority makes room for a pod, and the victims there.

On each node that rejected the pod for now (Unschedulable), all pods of lower priority are removed in a trial. If the
pod fits then, they are placed again one by one while it still fits: first pods protected by an exhausted disruption
budget, then by importance. The rest are victims. The node with the lowest cost is chosen.

If verdicts depend on resources alone, nodes are tried together and results are cached (``dry_run.py``). The plugin
DefaultPreemption calls this; ``running/victims.py`` deletes the victims.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.api.core_v1 import Pod
from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.api.states import priority
from mooring.constraints.columns.revisions import NO_ROWS
from mooring.scheduler.columns.cluster import Cluster, NodeInfo, PlacedPod
from mooring.scheduler.columns.ranked_pods import started_at
from mooring.scheduler.deciding.diagnosis import Diagnosis, Rejection
from mooring.scheduler.deciding.dry_run import NO_VICTIMS, OFFSET, Budgets, Cost, DryRun, PreemptionCosts, dry_run
from mooring.scheduler.deciding.pod_evaluation import (
    PodEvaluation,
    nominated_pods_only_use,
    only_resources_decide,
    status_on,
    status_with,
)
from mooring.scheduler.framework import Code, Handle, PostFilterResult, Status, unschedulable
from mooring.scheduler.framework.nominations import NominatedPods, Nominations

NOT_HELPFUL = "Preemption is not helpful for scheduling"
_AT_ONCE = 1024
"""The maximum number of nodes on which preemption is tried together."""


class Candidate(msgspec.Struct, frozen=True):
    node: str
    victims: tuple[Pod, ...]
    violations: int
    """The number of victims whose eviction violates a disruption budget."""


class _PreemptionAttempt(msgspec.Struct):
    """The state of one attempt to find victims for a pod."""

    evaluation: PodEvaluation
    cluster: Cluster
    expected: NominatedPods | None
    """Nominated pods that need room as well."""
    budgets: Budgets
    costs: PreemptionCosts
    refusals: Counter[Status] = msgspec.field(default_factory=Counter)
    """The number of nodes for each reason why preemption does not help."""

    @property
    def pod_priority(self) -> int:
        """Return the priority of the pod; only pods below it may be victims."""
        return priority(self.evaluation.pod.pod)

    def expected_on(self, row: int) -> Sequence[PlacedPod]:
        return () if self.expected is None else self.expected.pods_on(row)


def preempt(
    refusals: Rejection, handle: Handle, candidates: Callable[[int], int], costs: PreemptionCosts
) -> PostFilterResult:
    """Find the node with the lowest preemption cost, with the victims there.

    `candidates` returns how many helpful nodes to find among a number of nodes; `costs` are cached.
    """
    evaluation, diagnosis, cluster = refusals.evaluation, refusals.diagnosis, handle.cluster
    nominations = Nominations(cluster) if handle.nominations is None else handle.nominations
    pod = evaluation.pod
    refusal = _find_ineligibility(pod.pod, diagnosis, cluster, nominations)
    if refusal:
        return PostFilterResult(unschedulable(f"preemption: {refusal}"), keeps_nomination=True)
    rows = diagnosis.unschedulable_rows
    budgets = Budgets(cluster.objects(PodDisruptionBudget).values())
    attempt = _PreemptionAttempt(evaluation, cluster, nominations.find_nominated(pod.pod), budgets, costs)
    first = handle.lot.randrange(len(rows)) if len(rows) else 0
    best = _find_cheapest(attempt, rows, first, candidates(len(rows)))
    if best is None:
        return PostFilterResult(unschedulable(f"preemption: {_describe_failure(attempt, diagnosis.number_of_nodes)}"))
    text = f"found a potential placement for pod on node {best.node}, preempting {len(best.victims)} victims"
    status = Status(reasons=(f"preemption: {text}",))
    return PostFilterResult(status, best.node, best.victims, in_background=handle.features.async_preemption)


def _find_ineligibility(pod: Pod, diagnosis: Diagnosis, cluster: Cluster, nominations: Nominations) -> str:
    if pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    name = nominations.node_of(pod) or pod.status.nominated_node_name
    info = cluster.node(name) if name else None
    if info is None:
        return ""
    status = diagnosis.status_on(info.row)
    if status is not None and status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return ""  # no pod that leaves the node would help
    leaving = (other for other in info.pods if other.metadata.deletion_timestamp is not None)
    if any(priority(other) < priority(pod) and _is_preempted(other) for other in leaving):
        return "not eligible due to a terminating pod on the nominated node."
    return ""


def _is_preempted(pod: Pod) -> bool:
    conditions = (entry for entry in pod.status.conditions if entry.type == "DisruptionTarget")
    return any(entry.status == "True" and entry.reason == "PreemptionByScheduler" for entry in conditions)


def _describe_failure(attempt: _PreemptionAttempt, nodes: int) -> str:
    reasons = {NOT_HELPFUL: nodes - sum(attempt.refusals.values())}
    for status, number in attempt.refusals.items():
        for reason in status.reasons:
            reasons[reason] = reasons.get(reason, 0) + number
    parts = sorted(f"{number} {reason}" for reason, number in reasons.items() if number)
    return f"0/{nodes} nodes are available: {', '.join(parts)}."


def _find_cheapest(attempt: _PreemptionAttempt, rows: NDArray[np.intp], first: int, wanted: int) -> Candidate | None:
    """Try nodes until enough would help and one violates no budget; return the first with the lowest cost.

    Return None if none helps. Nodes are tried in the order of `rows`, starting at index `first` and wrapping around.
    """
    has_lower = attempt.cluster.priorities.lowest < attempt.pod_priority
    if not has_lower.any():  # as where all pods are equally important
        attempt.refusals[NO_VICTIMS] = len(rows)
        return None
    rows = np.concatenate((rows[first:], rows[:first]))
    with_lower = rows[has_lower[rows]]
    attempt.refusals[NO_VICTIMS] = len(rows) - len(with_lower)
    if _can_cache_costs(attempt):
        return _find_cheapest_cached(attempt, with_lower, max(1, wanted))
    return _find_cheapest_by_trying(attempt, with_lower.tolist(), wanted)


def _can_cache_costs(attempt: _PreemptionAttempt) -> bool:
    evaluation, expected = attempt.evaluation, attempt.expected
    if len(attempt.budgets) or not only_resources_decide(evaluation):
        return False
    return expected is None or nominated_pods_only_use(evaluation, attempt.cluster, expected)


def _find_cheapest_cached(attempt: _PreemptionAttempt, rows: NDArray[np.intp], wanted: int) -> Candidate | None:
    evaluation = attempt.evaluation
    costs = attempt.costs.find_costs(evaluation.pod.signature, attempt.pod_priority, attempt.expected)
    fitting = NO_ROWS
    at_once = min(wanted, _AT_ONCE)
    for begin in range(0, len(rows), at_once):
        part = rows[begin : begin + at_once]
        costs.compute_missing(evaluation, part)
        fits = part[costs.fits[part]]
        fitting = np.concatenate((fitting, fits)) if len(fitting) else fits
        if len(fitting) >= wanted:
            break
    if not len(fitting):
        attempt.refusals.update(costs.count_refusals(evaluation, rows))
        return None
    row = costs.find_cheapest_row(fitting[:wanted])
    return _make_candidate(attempt, row, *costs.dry_runs[row])


def _find_cheapest_by_trying(attempt: _PreemptionAttempt, rows: Sequence[int], wanted: int) -> Candidate | None:
    best: Callable[[], Candidate | None] | None = None
    least: Cost | None = None
    number, spares_budgets = 0, False
    for cost, candidate in _try_nodes(attempt, rows, at_once=max(1, min(wanted, _AT_ONCE))):
        if isinstance(cost, Status):
            attempt.refusals[cost] += 1
            continue
        number += 1
        spares_budgets = spares_budgets or not cost[0]
        if least is None or cost < least:
            best, least = candidate, cost
        if spares_budgets and number >= wanted:
            break
    return None if best is None else best()


def _try_nodes(
    attempt: _PreemptionAttempt, rows: Sequence[int], at_once: int
) -> Iterator[tuple[Cost | Status, Callable[[], Candidate | None]]]:
    """Yield for each node the cost of preemption, or why it does not help, and a function that returns the victims."""
    evaluation, cluster, budgets = attempt.evaluation, attempt.cluster, attempt.budgets
    if not only_resources_decide(evaluation):
        yield from (_try_node(attempt, row) for row in rows)
        return
    for begin in range(0, len(rows), at_once):
        part = rows[begin : begin + at_once]
        together = dry_run(evaluation, cluster, part, attempt.pod_priority, budgets=budgets, expected=None)
        for index, (row, outcome) in enumerate(zip(part, together.outcomes(), strict=True)):
            if attempt.expected_on(row):
                yield _try_node(attempt, row)
            else:
                yield outcome, partial(_make_candidate, attempt, row, together, index)


def _make_candidate(attempt: _PreemptionAttempt, row: int, found: DryRun, index: int) -> Candidate | None:
    info, lower = attempt.cluster.nodes[row], _list_lower_priority(attempt, row)
    victims, violations = found.victims(index)
    return None if info is None else Candidate(info.name, tuple(lower[rank].pod for rank in victims), violations)


def _list_lower_priority(attempt: _PreemptionAttempt, row: int) -> list[PlacedPod]:
    ranked = attempt.cluster.rank_pods(row)
    return ranked.placed[ranked.first_below(attempt.pod_priority) :]


def _try_node(attempt: _PreemptionAttempt, row: int) -> tuple[Cost | Status, Callable[[], Candidate | None]]:
    found = _find_victims_on(attempt, row)
    return (found, lambda: None) if isinstance(found, Status) else (cost_of(found), lambda: found)


def _find_victims_on(attempt: _PreemptionAttempt, row: int) -> Candidate | Status:
    info, lower = attempt.cluster.nodes[row], _list_lower_priority(attempt, row)
    if info is None or not lower:
        return NO_VICTIMS
    with attempt.cluster.trial() as trial:
        for placed in lower:
            trial.displace(placed)
        status = _check_fit(attempt, info)
        if not status.is_success:
            return status
        violating, others = attempt.budgets.split(lower)
        victims: list[int] = []
        for index in (*violating, *others):
            trial.place(lower[index])
            if not _check_fit(attempt, info, only_pods_moved=True).is_success:
                trial.displace(lower[index])
                victims.append(index)
    gone = tuple(lower[index].pod for index in sorted(victims))
    return Candidate(info.name, gone, len(set(victims) & set(violating)))


def _check_fit(attempt: _PreemptionAttempt, info: NodeInfo, *, only_pods_moved: bool = False) -> Status:
    expected = attempt.expected_on(info.row)
    status = status_with(attempt.evaluation, attempt.cluster, info.row, expected, only_pods_moved=only_pods_moved)
    return status_on(attempt.evaluation, info.row, only_pods_moved=only_pods_moved) if status.is_success else status


def cost_of(candidate: Candidate) -> Cost:
    priorities = [priority(pod) for pod in candidate.victims]
    highest = max(priorities, default=-OFFSET)
    started = [started_at(pod) for pod in candidate.victims if priority(pod) == highest]
    return (
        candidate.violations,
        highest,
        sum(value + OFFSET for value in priorities),
        len(priorities),
        -min(started, default=0),  # among the important victims, rather those that have run for a shorter time
    )
