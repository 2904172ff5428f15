"""Find changes that let a rollout pass, and verify each by simulation before it is suggested.

    RemedySearch(snapshot, rollout, options, settings).run()

Called by ``check.py``. A change is simulated together with those that were found before it.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

from msgspec import structs

from mooring.advisor.lint.reports import format_count
from mooring.advisor.simulate.applying import join_names
from mooring.advisor.simulate.options import Settings
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.upgrade.drains import DrainOptions, drain_all
from mooring.advisor.upgrade.results import Block, Remedy, Rollout
from mooring.api.apps_v1 import Deployment, ReplicaSet, StatefulSet
from mooring.api.core_v1 import ReplicationController
from mooring.api.meta_v1 import LabelSelector, ObjectMeta, Resource
from mooring.api.policy_v1 import PodDisruptionBudget, PodDisruptionBudgetSpec

_SCALABLE = (Deployment, StatefulSet, ReplicaSet, ReplicationController)
_MOST_WORKLOADS = 50
"""The maximum number of interrupted workloads for which changes are simulated."""


@dataclass(frozen=True)
class _Change:
    """A change that may solve a problem: the objects changed, the command that does it, and its effect."""

    command: str
    effect: str
    put: Sequence[Resource] = ()
    remove: Sequence[Resource] = ()


@dataclass(frozen=True)
class _Problem:
    """A problem of a rollout, and the changes that may solve it, in the order in which to simulate them."""

    text: str
    nodes: frozenset[str]
    """The nodes whose drains show whether it is solved."""
    is_solved: Callable[[Rollout], bool]
    changes: Iterator[_Change]
    hint: _Change
    """What to type where no change solves it."""


@dataclass
class RemedySearch:
    """Searches changes of a cluster that solve the problems of its rollout, by simulating each."""

    snapshot: Snapshot
    rollout: Rollout
    options: DrainOptions
    settings: Settings
    _found: list[_Change] = field(default_factory=list)

    def run(self) -> Iterator[Remedy]:
        """Yield remedies: for budgets that block drains, then pods that end pending, then workloads that stop."""
        yield from self._solve(list(self._find_blocking_budgets()))
        if self.rollout.pending:
            yield self._pending_remedy()
        yield from self._solve(list(self._find_interrupted_workloads()))

    def _simulate(self, options: DrainOptions, changes: Iterable[_Change] = ()) -> Rollout:
        every = [*self._found, *changes]
        changed = self.snapshot.replace(remove=[obj for each in every for obj in each.remove])
        return drain_all(changed.replace(put=[obj for each in every for obj in each.put]), options, self.settings)

    def _solve(self, problems: Sequence[_Problem]) -> Iterator[Remedy]:
        """Simulate the next change of all unsolved problems together, repeatedly; yield a remedy for each problem."""
        solved: dict[int, _Change] = {}
        remaining = list(range(len(problems)))
        pending = {each.workload for each in self.rollout.pending}
        while tried := {n: change for n in remaining if (change := next(problems[n].changes, None)) is not None}:
            nodes = frozenset(chain.from_iterable(problems[n].nodes for n in tried))
            played = self._simulate(replace(self.options, only=nodes), [*solved.values(), *tried.values()])
            if not played.is_complete:
                return
            ends_pending = any(each.workload not in pending for each in played.pending)
            for number, change in tried.items():
                adds_pods = any(isinstance(each, _SCALABLE) for each in change.put)
                if problems[number].is_solved(played) and not (adds_pods and ends_pending):
                    solved[number] = change
            remaining = [n for n in tried if n not in solved]
        self._found += solved.values()
        for number, problem in enumerate(problems):
            change = solved.get(number, problem.hint)
            if change.command:
                yield Remedy(problem.text, change.command, change.effect, is_verified=number in solved)

    def _find_blocking_budgets(self) -> Iterator[_Problem]:
        """Yield a problem for each set of budgets that block a drain to its end, most blocked nodes first."""
        blocked: dict[tuple[str, ...], list[Block]] = {}
        for block in self.rollout.blocks:
            if block.is_final:
                blocked.setdefault(_budgets_of(block), []).append(block)
        for key in sorted(blocked, key=lambda key: -len({block.node for block in blocked[key]})):
            namespace, *names = key
            nodes = frozenset(block.node for block in blocked[key])
            if len(names) == 1:
                text = f"the disruption budget {namespace}/{names[0]} blocks the drain of {join_names(sorted(nodes))}"
                changes = self._budget_changes(namespace, names[0], blocked[key][0].owner)
                command = f"kubectl -n {namespace} edit pdb {names[0]}"
                hint = _Change(command, "no single change that was tried lets it pass")
            else:
                pods = join_names([block.pod for block in blocked[key]])
                text = f"several disruption budgets select {pods} on {join_names(sorted(nodes))}"
                changes = self._budget_deletions(namespace, names)
                effect = "the API server evicts no pod that several budgets select: keep one, and change it"
                hint = _Change(f"kubectl -n {namespace} get pdb {' '.join(names)}", effect)
            yield _Problem(text, nodes, partial(_no_budget_blocks, namespace, frozenset(names)), changes, hint)

    def _budget_changes(self, namespace: str, name: str, owner: str) -> Iterator[_Change]:
        """Yield two changes for a blocking budget: more replicas of the workload, or one allowed disruption."""
        workload = self._find_workload(owner)
        if workload is not None:
            yield _scale_change(workload, _replicas_of(workload) + 1, "keeps enough pods while one moves")
        budget = self.snapshot.find(PodDisruptionBudget, namespace, name)
        if budget is not None:
            spec = structs.replace(budget.spec, min_available=None, max_unavailable=1)
            patch = '{"spec":{"minAvailable":null,"maxUnavailable":1}}'
            command = f"kubectl -n {namespace} patch pdb {name} --type=merge -p {shlex.quote(patch)}"
            effect = "one pod at a time may be evicted; it is down meanwhile"
            yield _Change(command, effect, put=[structs.replace(budget, spec=spec)])

    def _budget_deletions(self, namespace: str, names: Sequence[str]) -> Iterator[_Change]:
        """Yield, for each of several budgets that select the same pods, the deletion of all others."""
        for kept in names:
            others = [name for name in names if name != kept]
            found = [self.snapshot.find(PodDisruptionBudget, namespace, name) for name in others]
            command = f"kubectl -n {namespace} delete pdb {' '.join(others)}"
            effect = f"the budget {kept} remains: the API server evicts no pod that several budgets select"
            yield _Change(command, effect, remove=[each for each in found if each is not None])

    def _pending_remedy(self) -> Remedy:
        """Return a remedy for pods that end pending: the changes found so far, or else one more node."""
        count = sum(each.pods for each in self.rollout.pending)
        problem = (
            f"{format_count(count, 'pod')} of {join_names([each.workload for each in self.rollout.pending])}"
            " end pending"
        )
        if self._found and not self._simulate(self.options).pending:
            command = " && ".join(each.command for each in self._found)
            return Remedy(problem, command, "no pod ends pending when no node stays cordoned", is_verified=True)
        surge = self.options.surge + 1
        played = self._simulate(replace(self.options, surge=surge))
        flags = f" --pool-label {shlex.quote(self.options.pool_label)}" if self.options.pool_label else ""
        command = f"mooring upgrade-check --to {self.options.version} --surge {surge}{flags}"
        if not played.pending:
            effect = f"let the pool make {format_count(surge, 'new node')} before old ones go"
            return Remedy(problem, command, effect, is_verified=True)
        left = sum(each.pods for each in played.pending)
        kind, _, path = self.rollout.pending[0].workload.rpartition(" ")
        namespace, _, name = path.rpartition("/")
        target = shlex.quote(f"{kind.lower() or 'pod'}/{name}")
        command = f"mooring explain {target} -n {shlex.quote(namespace)}"
        return Remedy(problem, command, f"with one more node, {left} still end pending")

    def _find_interrupted_workloads(self) -> Iterator[_Problem]:
        """Yield a problem for each workload that has no ready pod at times during the drains."""
        nodes: dict[str, set[str]] = {}
        for move in self.rollout.moves:
            nodes.setdefault(move.owner, set()).add(move.node)
        for number, each in enumerate(self.rollout.interruptions):
            workload = self._find_workload(each.workload)
            if workload is None:
                continue
            seconds = each.longest_seconds
            down = "does not run again" if seconds is None else f"stops for {seconds:.0f} s"
            changes = list(_availability_changes(workload))
            yield _Problem(
                f"{each.workload} {down}, {format_count(each.times, 'time')}",
                frozenset(nodes[each.workload]),
                partial(_keeps_running, each.workload),
                iter(changes if number < _MOST_WORKLOADS else ()),
                replace(changes[0], effect=changes[0].effect if number >= _MOST_WORKLOADS else "it does not suffice"),
            )

    def _find_workload(self, owner: str) -> Any:
        """Return the workload object with a display name such as `Deployment default/web`; None if there is none."""
        kind, _, path = owner.partition(" ")
        namespace, _, name = path.partition("/")
        types = {each.__name__: each for each in _SCALABLE}
        return self.snapshot.find(types[kind], namespace, name) if kind in types else None


def _no_budget_blocks(namespace: str, names: frozenset[str], played: Rollout) -> bool:
    """Return whether, in a simulated rollout, no drain is given up because of one of the budgets."""
    blocked = (_budgets_of(block) for block in played.blocks if block.is_final)
    return not any(each[0] == namespace and names & set(each[1:]) for each in blocked)


def _keeps_running(workload: str, played: Rollout) -> bool:
    """Return whether a workload has a ready pod throughout a simulated rollout, and blocks no drain."""
    is_blocked = any(each.owner == workload and each.is_final for each in played.blocks)
    return not is_blocked and all(each.workload != workload for each in played.interruptions)


def _budgets_of(block: Block) -> tuple[str, ...]:
    """Return the namespace, then the names, of the budgets that refused an eviction."""
    return (block.pod.partition("/")[0], *block.budgets)


def _replicas_of(workload: Any) -> int:
    return 1 if workload.spec.replicas is None else int(workload.spec.replicas)


def _scale_change(workload: Any, replicas: int, effect: str) -> _Change:
    changed = structs.replace(workload, spec=structs.replace(workload.spec, replicas=replicas))
    target = f"{workload.kind.lower()}/{workload.metadata.name}"
    command = f"kubectl -n {workload.metadata.namespace} scale {target} --replicas={replicas}"
    return _Change(command, f"{target} {effect}", put=[changed])


def _availability_changes(workload: Any) -> Iterator[_Change]:
    """Yield changes that keep a workload running: a second replica, a disruption budget, or both."""
    is_single = _replicas_of(workload) == 1
    more = _scale_change(workload, 2, "runs on while one pod moves") if is_single else None
    if more is not None:
        yield more
    meta, selector = workload.metadata, workload.spec.selector
    labels = selector.match_labels if isinstance(selector, LabelSelector) else selector
    if not labels or (isinstance(selector, LabelSelector) and selector.match_expressions):
        return
    name = f"{meta.name}-one-at-a-time"
    spec = PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=labels), max_unavailable=1)
    budget = PodDisruptionBudget(
        api_version="policy/v1",
        kind="PodDisruptionBudget",
        metadata=ObjectMeta(name=name, namespace=meta.namespace),
        spec=spec,
    )
    pairs = ",".join(f"{key}={value}" for key, value in labels.items())
    command = f"kubectl -n {meta.namespace} create pdb {name} --selector={shlex.quote(pairs)} --max-unavailable=1"
    effect = "one pod moves after the other"
    if more is None:
        yield _Change(command, effect, put=[budget])
    else:
        yield _Change(f"{more.command} && {command}", f"{more.effect}, {effect}", put=[*more.put, budget])
