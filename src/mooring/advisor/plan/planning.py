"""Plan an apply: compare the manifests with the cluster, play the change, and gather what would be refused."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from mooring.advisor.plan.differences import manifest_differences, whole_differences
from mooring.advisor.plan.results import Cost, ObjectChange, Plan, WorkloadPlacement
from mooring.advisor.simulate import Add, Scenario, Settings, Simulation, Step, simulate
from mooring.advisor.simulate.node_pools import PoolVerdict, explain_pools
from mooring.advisor.simulate.results import PendingGroup
from mooring.advisor.simulate.running import Progress
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.snapshot.objects import hub_of
from mooring.api import codec
from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import Resource


class ServerAnswer(NamedTuple):
    """An API server's answer to the dry run of an object."""

    before: dict[str, Any] | None
    """The stored object; None where there is none."""
    after: dict[str, Any] | None
    """What would be stored; None where the server refuses it."""
    refusal: str = ""


DryRun = Callable[[Resource], ServerAnswer | None]
"""Send an object to the server without storing it; return None where the server cannot be asked."""


def plan(
    snapshot: Snapshot,
    objects: Sequence[Resource],
    settings: Settings,
    *,
    dry_run: DryRun | None = None,
    report: Callable[[Progress], None] | None = None,
) -> Plan:
    """Say what applying objects would do. Nothing is changed."""
    answers = [dry_run(obj) if dry_run is not None else None for obj in objects]
    changes = [_change(snapshot, obj, answer) for obj, answer in zip(objects, answers, strict=True)]
    written = ("create", "change")
    wanted = tuple(obj for obj, change in zip(objects, changes, strict=True) if change.action in written)
    before = simulate(snapshot, Scenario(), settings)
    played = simulate(snapshot, Scenario(steps=(Step((Add(wanted),)),) if wanted else ()), settings, tell=report)
    pending = _new_pending(played, before)
    return Plan(
        cluster=snapshot.origin,
        changes=tuple(changes),
        placements=_placements(played, before),
        pending=pending,
        pools=_pool_verdicts(snapshot, settings, wanted, pending),
        rejected=tuple(each for each in played.rejected if each not in before.rejected),
        preempted=played.preempted,
        cost=_cost(played, before),
        has_server=any(answer is not None for answer in answers),
        notes=played.notes,
    )


def _change(snapshot: Snapshot, obj: Resource, answer: ServerAnswer | None) -> ObjectChange:
    meta = obj.metadata
    name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name or meta.generate_name
    if answer is not None and answer.after is None:
        return ObjectChange(obj.kind, name, "refused", message=answer.refusal)
    if answer is not None and answer.after is not None:
        if answer.before is None:
            return ObjectChange(obj.kind, name, "create")
        fields = whole_differences(answer.before, answer.after)
    else:
        stored = snapshot.find(hub_of(type(obj)).type, meta.namespace, meta.name)
        if stored is None:
            return ObjectChange(obj.kind, name, "create")
        fields = manifest_differences(codec.to_tree(stored), codec.to_tree(obj))
    return ObjectChange(obj.kind, name, "change" if fields else "unchanged", fields)


def _placements(played: Simulation, before: Simulation) -> tuple[WorkloadPlacement, ...]:
    """Count the pods that the change places, by workload and node."""
    known = {each.pod for each in before.placements}
    counts: dict[str, Counter[str]] = {}
    for each in played.placements:
        if each.pod not in known:
            counts.setdefault(each.owner or each.pod, Counter())[each.node] += 1
    return tuple(WorkloadPlacement(name, found.total(), dict(found.most_common())) for name, found in counts.items())


def _new_pending(played: Simulation, before: Simulation) -> tuple[PendingGroup, ...]:
    """Keep the pending pods that are not pending without the change."""
    known = {pod.pod for group in before.pending for pod in group.pods}
    found = []
    for group in played.pending:
        pods = tuple(pod for pod in group.pods if pod.pod not in known)
        if pods:
            owners = tuple(dict.fromkeys(pod.owner or pod.pod for pod in pods))
            found.append(structs.replace(group, pods=pods, count=len(pods), owners=owners))
    return tuple(found)


def _pool_verdicts(
    snapshot: Snapshot, settings: Settings, objects: Sequence[Resource], pending: Sequence[PendingGroup]
) -> tuple[PoolVerdict, ...]:
    """Ask every pool about the template of the first workload whose pods do not fit."""
    owner = pending[0].owners[0].rpartition("/")[2] if pending and settings.pools else ""
    for obj in objects:
        template = getattr(getattr(obj, "spec", None), "template", None)
        if owner and obj.metadata.name == owner and template is not None:
            meta = structs.replace(template.metadata, name=owner, namespace=obj.metadata.namespace)
            return tuple(explain_pools(snapshot, settings.pools, Pod(metadata=meta, spec=template.spec)))
    return ()


def _cost(played: Simulation, before: Simulation) -> tuple[Cost, ...]:
    old = {use.resource: use for use in before.utilisation.after}
    found = []
    for use in played.utilisation.after:
        requested = old[use.resource].requested if use.resource in old else 0.0
        if requested != use.requested:
            found.append(Cost(use.resource, requested, use.requested, use.allocatable))
    return tuple(found)
