"""Changes that let a blocked rollout pass, each played on the simulated cluster before it is proposed."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from msgspec import structs

from mooring.advisor.simulate.options import Settings
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.upgrade.drains import DrainOptions, drain_all
from mooring.advisor.upgrade.results import Block, Pending, Remedy, Rollout
from mooring.api.apps_v1 import Deployment, StatefulSet
from mooring.api.meta_v1 import Resource
from mooring.api.policy_v1 import PodDisruptionBudget

_BUDGET = re.compile(r"The disruption budget (\S+) needs")
_MOST_PROBLEMS = 20
"""How many problems get remedies of their own: each is played at least once."""


def find_remedies(snapshot: Snapshot, rollout: Rollout, options: DrainOptions, settings: Settings) -> Iterator[Remedy]:
    """Propose a change for each budget that blocks, and for pods that end pending; most harmful first."""
    blocked: dict[tuple[str, str], list[Block]] = {}
    for block in rollout.blocks:
        if block.is_final and (match := _BUDGET.search(block.message)):
            blocked.setdefault((block.pod.partition("/")[0], match[1]), []).append(block)
    for (namespace, name), blocks in list(blocked.items())[:_MOST_PROBLEMS]:
        alone = replace(options, only=frozenset(block.node for block in blocks))
        yield _budget_remedy(snapshot, (namespace, name), blocks[0].owner, alone, settings)
    if rollout.pending:
        yield _surge_remedy(snapshot, rollout.pending, options, settings)


def _budget_remedy(
    snapshot: Snapshot, budget: tuple[str, str], owner: str, options: DrainOptions, settings: Settings
) -> Remedy:
    """Scale the workload by one where that is enough, else let the budget allow one disruption."""
    namespace, name = budget
    problem = f"the disruption budget {namespace}/{name} blocks the drain of {_several(sorted(options.only))}"
    for obj, command, effect in _budget_changes(snapshot, namespace, name, owner):
        played = drain_all(snapshot.replace(put=[obj]), options, settings)
        if not any(block.is_final and f" {name} " in block.message for block in played.blocks) and not played.pending:
            return Remedy(problem, command, effect, is_verified=True)
    return Remedy(problem, f"kubectl -n {namespace} edit pdb {name}", "no single change that was tried lets it pass")


def _budget_changes(snapshot: Snapshot, namespace: str, name: str, owner: str) -> Iterator[tuple[Resource, str, str]]:
    workload = _workload(snapshot, owner)
    if workload is not None:
        replicas = (1 if workload.spec.replicas is None else workload.spec.replicas) + 1
        scaled: Any = structs.replace(workload, spec=structs.replace(workload.spec, replicas=replicas))
        target = f"{workload.kind.lower()}/{workload.metadata.name}"
        command = f"kubectl -n {namespace} scale {target} --replicas={replicas}"
        yield scaled, command, f"{target} keeps enough pods while one moves"
    budget = snapshot.find(PodDisruptionBudget, namespace, name)
    if budget is not None:
        spec = structs.replace(budget.spec, min_available=None, max_unavailable=1)
        patch = '{"spec":{"minAvailable":null,"maxUnavailable":1}}'
        command = f"kubectl -n {namespace} patch pdb {name} --type=merge -p {shlex.quote(patch)}"
        yield structs.replace(budget, spec=spec), command, "one pod at a time may be evicted; it is down meanwhile"


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
    """Try the rollout with one more node."""
    count = sum(each.pods for each in pending)
    problem = f"{count} pod{'s' if count > 1 else ''} of {_several([each.workload for each in pending])} end pending"
    surge = options.surge + 1
    played = drain_all(snapshot, replace(options, surge=surge), settings)
    if not played.pending:
        return Remedy(problem, f"use --surge {surge} for the pool", "new nodes are there before old ones go", True)
    left = sum(each.pods for each in played.pending)
    return Remedy(problem, "mooring explain --owner WORKLOAD", f"with one more node, {left} still end pending")


def _several(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} and {len(names) - 2} more"
