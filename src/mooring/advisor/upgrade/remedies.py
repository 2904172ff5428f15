"""Find changes that unblock a rollout, and verify them by simulation before they are suggested."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from msgspec import structs

from mooring.advisor.simulate.applying import several
from mooring.advisor.simulate.options import Settings
from mooring.advisor.simulate.reports import count_of
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.upgrade.drains import DrainOptions, drain_all
from mooring.advisor.upgrade.results import Block, Pending, Remedy, Rollout
from mooring.api.apps_v1 import Deployment, StatefulSet
from mooring.api.meta_v1 import Resource
from mooring.api.policy_v1 import PodDisruptionBudget

_BUDGET = re.compile(r"The disruption budget (\S+) needs")
_Budget = tuple[str, str]
"""The namespace and name of a disruption budget."""


class _BudgetChange(NamedTuple):
    obj: Resource
    command: str
    effect: str


def find_remedies(snapshot: Snapshot, rollout: Rollout, options: DrainOptions, settings: Settings) -> Iterator[Remedy]:
    """Return a remedy for each blocking budget, and for pods that end pending; the most severe problem first."""
    blocked: dict[_Budget, list[Block]] = {}
    for block in rollout.blocks:
        if block.is_final:
            match = _BUDGET.search(block.message)
            blocked.setdefault((block.pod.partition("/")[0], match[1] if match else ""), []).append(block)
    yield from _budget_remedies(snapshot, rollout, blocked, options, settings)
    if rollout.pending:
        yield _surge_remedy(snapshot, rollout.pending, options, settings)


def _budget_remedies(
    snapshot: Snapshot,
    rollout: Rollout,
    blocked: dict[_Budget, list[Block]],
    options: DrainOptions,
    settings: Settings,
) -> Iterator[Remedy]:
    """Simulate the first change for every budget together, then the next one for those that still block."""
    untried = {
        budget: _budget_changes(snapshot, *budget, blocks[0].owner) for budget, blocks in blocked.items() if budget[1]
    }
    solved: set[_Budget] = set()
    pending_before = {each.workload for each in rollout.pending}
    while tried := {budget: change for budget, changes in untried.items() if (change := next(changes, None))}:
        nodes = frozenset(block.node for budget in tried for block in blocked[budget])
        changed = snapshot.replace(put=[change.obj for change in tried.values()])
        played = drain_all(changed, replace(options, only=nodes), settings)
        if not played.is_complete:
            return
        still = {(block.pod.partition("/")[0], match[1]) for block in played.blocks if block.is_final
                 and (match := _BUDGET.search(block.message))}  # fmt: skip
        ends_pending = any(each.workload not in pending_before for each in played.pending)
        for budget, change in tried.items():
            is_budget = isinstance(change.obj, PodDisruptionBudget)
            if budget not in still and (is_budget or not ends_pending):
                solved.add(budget)
                yield Remedy(_problem(budget, blocked[budget]), change.command, change.effect, is_verified=True)
        untried = {budget: untried[budget] for budget in tried if budget not in solved}
    for budget, blocks in blocked.items():
        namespace, name = budget
        if not name:
            effect = "keep one budget for each pod: the API server evicts no pod that several budgets select"
            yield Remedy(_problem(budget, blocks), f"kubectl -n {namespace} get pdb", effect)
        elif budget not in solved:
            command = f"kubectl -n {namespace} edit pdb {name}"
            yield Remedy(_problem(budget, blocks), command, "no single change that was tried lets it pass")


def _problem(budget: _Budget, blocks: list[Block]) -> str:
    nodes = several(sorted({block.node for block in blocks}))
    if not budget[1]:
        return f"several disruption budgets select {several([block.pod for block in blocks])} on {nodes}"
    return f"the disruption budget {'/'.join(budget)} blocks the drain of {nodes}"


def _budget_changes(snapshot: Snapshot, namespace: str, name: str, owner: str) -> Iterator[_BudgetChange]:
    """Yield a scaled-up workload, then a budget that allows one disruption."""
    workload = _workload(snapshot, owner)
    if workload is not None:
        replicas = (1 if workload.spec.replicas is None else workload.spec.replicas) + 1
        scaled: Any = structs.replace(workload, spec=structs.replace(workload.spec, replicas=replicas))
        target = f"{workload.kind.lower()}/{workload.metadata.name}"
        command = f"kubectl -n {namespace} scale {target} --replicas={replicas}"
        yield _BudgetChange(scaled, command, f"{target} keeps enough pods while one moves")
    budget = snapshot.find(PodDisruptionBudget, namespace, name)
    if budget is not None:
        spec = structs.replace(budget.spec, min_available=None, max_unavailable=1)
        patch = '{"spec":{"minAvailable":null,"maxUnavailable":1}}'
        command = f"kubectl -n {namespace} patch pdb {name} --type=merge -p {shlex.quote(patch)}"
        changed = structs.replace(budget, spec=spec)
        yield _BudgetChange(changed, command, "one pod at a time may be evicted; it is down meanwhile")


def _workload(snapshot: Snapshot, owner: str) -> Deployment | StatefulSet | None:
    """Find the workload with a display name such as `Deployment default/web`."""
    kind, _, path = owner.partition(" ")
    namespace, _, name = path.partition("/")
    if kind == "Deployment":
        return snapshot.find(Deployment, namespace, name)
    return snapshot.find(StatefulSet, namespace, name) if kind == "StatefulSet" else None


def _surge_remedy(
    snapshot: Snapshot, pending: tuple[Pending, ...], options: DrainOptions, settings: Settings
) -> Remedy:
    """Simulate the rollout with one more node."""
    count = sum(each.pods for each in pending)
    problem = f"{count_of(count, 'pod')} of {several([each.workload for each in pending])} end pending"
    surge = options.surge + 1
    played = drain_all(snapshot, replace(options, surge=surge), settings)
    if not played.pending:
        return Remedy(problem, f"use --surge {surge} for the pool", "new nodes are there before old ones go", True)
    left = sum(each.pods for each in played.pending)
    kind, _, path = played.pending[0].workload.partition(" ")
    namespace, _, name = path.rpartition("/")
    command = f"mooring explain {shlex.quote(f'{kind.lower()}/{name}')} -n {shlex.quote(namespace)}"
    return Remedy(problem, command if name else "mooring explain -A", f"with one more node, {left} still end pending")
