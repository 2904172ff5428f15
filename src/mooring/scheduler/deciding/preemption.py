"""Preemption: find the node where evicting pods of lower priority makes room for a pod, and the victims there.

On each node that rejected the pod for now (Unschedulable), all pods of lower priority are removed in a trial. If the
pod fits then, they are placed again one by one while it still fits: first pods protected by an exhausted disruption
budget, then by importance. The rest are victims. The node with the lowest cost is chosen.

If verdicts depend on resources alone, nodes are tried together (``dry_run.py``) and results are cached
(``preemption_cost.py``). The plugin DefaultPreemption calls this; ``running/victims.py`` deletes the victims.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
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
from mooring.scheduler.deciding.disruptions import Budgets
from mooring.scheduler.deciding.dry_run import NO_VICTIMS, OFFSET, Cost, DryRun, dry_run
from mooring.scheduler.deciding.nominated_reservations import nominated_pods_only_use
from mooring.scheduler.deciding.pod_evaluation import PodEvaluation, status_on, status_with, verdict_key
from mooring.scheduler.deciding.preemption_cost import PreemptionCosts
from mooring.scheduler.framework import Code, Handle, PostFilterResult, Status, unschedulable
from mooring.scheduler.framework.nominations import Expected, Nominations

NOT_HELPFUL = "Preemption is not helpful for scheduling"
_AT_ONCE = 1024
"""The maximum number of nodes on which preemption is tried together."""


class Candidate(msgspec.Struct, frozen=True):
    node: str
    victims: tuple[Pod, ...]
    violations: int
    """The number of victims whose eviction violates a disruption budget."""


class _Spared(msgspec.Struct, frozen=True):
    """The indexes of the victims on a node, and how many of them violate a disruption budget."""

    victims: tuple[int, ...]
    violations: int


class _Attempt(msgspec.Struct):
    """The state of one attempt to find victims for a pod."""

    evaluation: PodEvaluation
    cluster: Cluster
    expected: Expected | None
    """Nominated pods that need room as well."""
    budgets: Budgets
    costs: PreemptionCosts
    refusals: Counter[Status] = msgspec.field(default_factory=Counter)
    """The number of nodes for each reason why preemption does not help."""
    known: dict[Hashable, _Spared | Status] = msgspec.field(default_factory=dict)
    """Results by node state, reused for nodes that have equal pods and resources."""
    only_resources: bool = True
    """Whether nodes can be tried together; set to False at the first failure to do so."""

    def expected_on(self, row: int) -> Sequence[PlacedPod]:
        return () if self.expected is None else self.expected.on(row)


def preempt(
    refusals: Rejection, handle: Handle, candidates: Callable[[int], int], costs: PreemptionCosts
) -> PostFilterResult:
    """Find the node with the lowest preemption cost, with the victims there.

    `candidates` returns how many helpful nodes to find among a number of nodes; `costs` are cached.
    """
    evaluation, diagnosis, cluster = refusals.evaluation, refusals.diagnosis, handle.cluster
    nominations = Nominations(cluster) if handle.nominations is None else handle.nominations
    pod = evaluation.pod
    refusal = _ineligible(pod.pod, diagnosis, cluster, nominations)
    if refusal:
        return PostFilterResult(unschedulable(f"preemption: {refusal}"), keeps_nomination=True)
    rows = diagnosis.unschedulable_rows
    budgets = Budgets(cluster.objects(PodDisruptionBudget).values())
    attempt = _Attempt(evaluation, cluster, nominations.find_expected(pod.pod), budgets, costs)
    first = handle.lot.randrange(len(rows)) if len(rows) else 0
    best = _find_cheapest(attempt, rows, first, candidates(len(rows)))
    if best is None:
        return PostFilterResult(unschedulable(f"preemption: {_message(attempt, diagnosis.number_of_nodes)}"))
    text = f"found a potential placement for pod on node {best.node}, preempting {len(best.victims)} victims"
    status = Status(reasons=(f"preemption: {text}",))
    return PostFilterResult(status, best.node, best.victims, in_background=handle.features.async_preemption)


def _ineligible(pod: Pod, diagnosis: Diagnosis, cluster: Cluster, nominations: Nominations) -> str:
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


def _message(attempt: _Attempt, nodes: int) -> str:
    reasons = {NOT_HELPFUL: nodes - sum(attempt.refusals.values())}
    for status, number in attempt.refusals.items():
        for reason in status.reasons:
            reasons[reason] = reasons.get(reason, 0) + number
    parts = sorted(f"{number} {reason}" for reason, number in reasons.items() if number)
    return f"0/{nodes} nodes are available: {', '.join(parts)}."


def _with_lower(attempt: _Attempt, rows: NDArray[np.intp]) -> NDArray[np.intp]:
    has_lower = attempt.cluster.priorities.lowest[rows] < priority(attempt.evaluation.pod.pod)
    attempt.refusals[NO_VICTIMS] = len(rows) - int(np.count_nonzero(has_lower))
    return rows[has_lower]


def _find_cheapest(attempt: _Attempt, rows: NDArray[np.intp], first: int, wanted: int) -> Candidate | None:
    """Try nodes until enough would help and one violates no budget; return the first with the lowest cost.

    Nodes are tried in the order of `rows`, starting at index `first` and wrapping around.
    """
    evaluation, cluster, expected = attempt.evaluation, attempt.cluster, attempt.expected
    if not (cluster.priorities.lowest < priority(evaluation.pod.pod)).any():  # as where all pods are equally important
        attempt.refusals[NO_VICTIMS] = len(rows)
        return None
    turned = rows[first:], rows[:first]
    if not len(attempt.budgets) and (expected is None or nominated_pods_only_use(evaluation, cluster, expected)):
        found = _find_cheapest_cached(attempt, turned, max(1, wanted))
        if found is not None:
            return found if isinstance(found, Candidate) else None
    return _find_cheapest_tried(attempt, _with_lower(attempt, np.concatenate(turned)).tolist(), wanted)


def _find_cheapest_cached(
    attempt: _Attempt, turned: Sequence[NDArray[np.intp]], wanted: int
) -> Candidate | Counter[Status] | None:
    evaluation, least = attempt.evaluation, priority(attempt.evaluation.pod.pod)
    costs, lowest = (
        attempt.costs.of(evaluation.pod.signature, least, attempt.expected),
        attempt.cluster.priorities.lowest,
    )
    fitting = NO_ROWS
    at_once = min(wanted, _AT_ONCE)
    for part in (rows[begin : begin + at_once] for rows in turned for begin in range(0, len(rows), at_once)):
        with_lower = part[lowest[part] < least]
        if not costs.compute_missing(evaluation, with_lower):
            return None
        fits = with_lower[costs.fits[with_lower]]
        fitting = np.concatenate((fitting, fits)) if len(fitting) else fits
        if len(fitting) >= wanted:
            break
    if not len(fitting):
        attempt.refusals.update(costs.count_refusals(evaluation, _with_lower(attempt, np.concatenate(turned))))
        return attempt.refusals
    row = costs.cheapest(fitting[:wanted])
    return _with_victims(attempt, row, *costs.dry_run_of(row))


def _find_cheapest_tried(attempt: _Attempt, rows: Sequence[int], wanted: int) -> Candidate | None:
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
    attempt: _Attempt, rows: Sequence[int], at_once: int
) -> Iterator[tuple[Cost | Status, Callable[[], Candidate | None]]]:
    """Yield for each node the cost of preemption, or why it does not help, and a function that returns the victims."""
    expected = attempt.expected
    for begin in range(0, len(rows), at_once):
        part = rows[begin : begin + at_once]
        together = _tried_together(attempt, part)
        outcomes = together.outcomes() if together is not None else []
        for index, row in enumerate(part):
            if together is not None and (expected is None or not expected.is_on[row]):
                yield outcomes[index], partial(_with_victims, attempt, row, together, index)
            else:
                found = _victims_on(attempt, row)
                yield found if isinstance(found, Status) else cost_of(found), partial(_candidate, found)


def _candidate(found: Candidate | Status) -> Candidate | None:
    return None if isinstance(found, Status) else found


def _with_victims(attempt: _Attempt, row: int, found: DryRun, index: int) -> Candidate | None:
    info, lower = attempt.cluster.nodes[row], _lower(attempt, row)
    victims, violations = found.victims(index)
    return None if info is None else Candidate(info.name, tuple(lower[rank].pod for rank in victims), violations)


def _tried_together(attempt: _Attempt, rows: Sequence[int]) -> DryRun | None:
    if not attempt.only_resources:
        return None
    least = priority(attempt.evaluation.pod.pod)
    found = dry_run(attempt.evaluation, attempt.cluster, rows, least, budgets=attempt.budgets, expected=None)
    attempt.only_resources = found is not None
    return found


def _lower(attempt: _Attempt, row: int) -> list[PlacedPod]:
    ranked = attempt.cluster.rank_pods(row)
    return ranked.placed[ranked.first_below(priority(attempt.evaluation.pod.pod)) :]


def _victims_on(attempt: _Attempt, row: int) -> Candidate | Status:
    info, lower = attempt.cluster.nodes[row], _lower(attempt, row)
    if info is None or not lower:
        return NO_VICTIMS
    likeness = _likeness(attempt, info, lower)
    found = attempt.known.get(likeness)
    if found is None:
        found = _try_node(attempt, info, lower)
        if likeness is not None:
            attempt.known[likeness] = found
    if isinstance(found, Status):
        return found
    return Candidate(info.name, tuple(lower[index].pod for index in found.victims), found.violations)


def _likeness(attempt: _Attempt, info: NodeInfo, lower: Sequence[PlacedPod]) -> Hashable:
    if attempt.budgets.name_pods:
        return None
    moved = (*lower, *attempt.expected_on(info.row))
    seen = verdict_key(attempt.evaluation, attempt.cluster, info.row, moved)
    return None if seen is None else (seen, tuple(priority(placed.pod) for placed in lower))


def _try_node(attempt: _Attempt, info: NodeInfo, lower: Sequence[PlacedPod]) -> _Spared | Status:
    with attempt.cluster.trial() as trial:
        for placed in lower:
            trial.displace(placed)
        status = _fits(attempt, info)
        if not status.is_success:
            return status
        violating, others = attempt.budgets.split(lower)
        victims: list[int] = []
        for index in (*violating, *others):
            trial.place(lower[index])
            if not _fits(attempt, info, only_pods_moved=True).is_success:
                trial.displace(lower[index])
                victims.append(index)
        return _Spared(tuple(sorted(victims)), len(set(victims) & set(violating)))


def _fits(attempt: _Attempt, info: NodeInfo, *, only_pods_moved: bool = False) -> Status:
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
