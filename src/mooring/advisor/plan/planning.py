"""Plan an apply: compare the manifests with the cluster, simulate the change, and collect refused writes."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import structs

from mooring.advisor.results import API_VERSION, Result
from mooring.advisor.simulate import Add, Scenario, Settings, Simulation, Step, build_result, check_rights
from mooring.advisor.simulate.node_pools import PoolVerdict, explain_pools
from mooring.advisor.simulate.results import Departure, PendingGroup, RejectedGroup
from mooring.advisor.simulate.running import ReportProgress, SimulationRun
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.snapshot.objects import newest_kind_of
from mooring.api import codec
from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import Resource

Action = Literal["create", "change", "unchanged", "refused"]


class FieldChange(Result, frozen=True):
    """A field that the apply changes, with its old and new value; the value None stands for an absent field."""

    path: str
    old: object = None
    new: object = None


class ObjectChange(Result, frozen=True):
    """The effect of applying one object of the manifests: created, changed, unchanged or refused, with the fields."""

    kind: str
    name: str
    action: Action
    fields: tuple[FieldChange, ...] = ()
    message: str = ""


class WorkloadPlacement(Result, frozen=True):
    """The placement of a workload's new pods: their number by node."""

    workload: str
    pods: int
    nodes: dict[str, int]


class Cost(Result, frozen=True):
    """The change of the total requests of a resource by the apply, in cores, bytes or pieces."""

    resource: str
    before: float
    after: float
    allocatable: float


class Plan(Result, frozen=True, kw_only=True):
    """The result of planning an apply."""

    api_version: str = API_VERSION
    kind: Literal["Plan"] = "Plan"
    cluster: str
    changes: tuple[ObjectChange, ...]
    placements: tuple[WorkloadPlacement, ...] = ()
    pending: tuple[PendingGroup, ...] = ()
    """Pods that would have no node after the change, and have one now or do not exist yet."""
    rejected: tuple[RejectedGroup, ...] = ()
    preempted: tuple[Departure, ...] = ()
    pools: tuple[PoolVerdict, ...] = ()
    """By node pool, why it cannot take the first pod that does not fit."""
    cost: tuple[Cost, ...] = ()
    has_server: bool = False
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """Return 0 if nothing changes, 1 for changes that fit, 2 if a write is refused or a pod does not fit."""
        if self.pending or self.rejected or any(each.action == "refused" for each in self.changes):
            return 2
        return 1 if any(each.action != "unchanged" for each in self.changes) else 0


class ServerAnswer(NamedTuple):
    """The API server's response to a dry-run apply of one object."""

    before: dict[str, Any] | None
    """The stored object; None if it does not exist."""
    after: dict[str, Any] | None
    """The object that would be stored; None if the server refuses it."""
    refusal: str = ""


DryRun = Callable[[Resource], ServerAnswer | None]
"""A function that sends a dry-run apply of an object to the server; returns None if there is no server."""


def plan(
    snapshot: Snapshot,
    objects: Sequence[Resource],
    settings: Settings,
    *,
    dry_run: DryRun | None = None,
    report: ReportProgress | None = None,
) -> Plan:
    """Return the plan of applying objects. Nothing is written."""
    answers = [dry_run(obj) if dry_run is not None else None for obj in objects]
    changes = [_object_change(snapshot, obj, answer) for obj, answer in zip(objects, answers, strict=True)]
    written = ("create", "change")
    wanted = tuple(obj for obj, change in zip(objects, changes, strict=True) if change.action in written)
    before, played = _simulate_apply(snapshot, wanted, settings, report)
    pending = _new_pending(played, before)
    return Plan(
        cluster=snapshot.origin,
        changes=tuple(changes),
        placements=_count_placements(played, before),
        pending=pending,
        pools=_pool_verdicts(snapshot, settings, wanted, pending),
        rejected=tuple(each for each in played.rejected if each not in before.rejected),
        preempted=tuple(each for each in played.preempted if each not in before.preempted),
        cost=_cost_changes(played, before),
        has_server=any(answer is not None for answer in answers),
        notes=played.notes,
    )


def _simulate_apply(
    snapshot: Snapshot, wanted: tuple[Resource, ...], settings: Settings, report: ReportProgress | None
) -> tuple[Simulation, Simulation]:
    """Simulate the cluster without the apply, and then with it; return both results."""
    check_rights(snapshot)
    running = SimulationRun(snapshot, Scenario(), settings, report)
    running.run()
    before = build_result(running, snapshot)
    if wanted:
        running.run_step(Step((Add(wanted),)))
    return before, build_result(running, snapshot)


def _object_change(snapshot: Snapshot, obj: Resource, answer: ServerAnswer | None) -> ObjectChange:
    meta = obj.metadata
    name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name or meta.generate_name
    if answer is not None and answer.after is None:
        return ObjectChange(obj.kind, name, "refused", message=answer.refusal)
    if answer is not None and answer.after is not None:
        if answer.before is None:
            return ObjectChange(obj.kind, name, "create")
        fields = diff_stored(answer.before, answer.after)
    else:
        stored = snapshot.find(newest_kind_of(type(obj)).type, meta.namespace, meta.name)
        if stored is None:
            return ObjectChange(obj.kind, name, "create")
        fields = diff_manifest(codec.to_tree(stored), codec.to_tree(obj))
    return ObjectChange(obj.kind, name, "change" if fields else "unchanged", fields)


def _count_placements(played: Simulation, before: Simulation) -> tuple[WorkloadPlacement, ...]:
    """Count the pods that the apply places, by workload and node."""
    known = {each.pod for each in before.placements}
    counts: dict[str, Counter[str]] = {}
    for each in played.placements:
        if each.pod not in known:
            counts.setdefault(each.owner or each.pod, Counter())[each.node] += 1
    return tuple(WorkloadPlacement(name, found.total(), dict(found.most_common())) for name, found in counts.items())


def _new_pending(played: Simulation, before: Simulation) -> tuple[PendingGroup, ...]:
    """Return the groups of pending pods, without pods that were already pending before the apply."""
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
    """Return, for each node pool, whether the first pod that does not fit now would fit on a new node of it."""
    owner = pending[0].owners[0].rpartition("/")[2] if pending and settings.pools else ""
    for obj in objects:
        template = getattr(getattr(obj, "spec", None), "template", None)
        if owner and obj.metadata.name == owner and template is not None:
            meta = structs.replace(template.metadata, name=owner, namespace=obj.metadata.namespace)
            return tuple(explain_pools(snapshot, settings.pools, Pod(metadata=meta, spec=template.spec)))
    return ()


def _cost_changes(played: Simulation, before: Simulation) -> tuple[Cost, ...]:
    old = {use.resource: use for use in before.utilisation.after}
    found = []
    for use in played.utilisation.after:
        requested = old[use.resource].requested if use.resource in old else 0.0
        if requested != use.requested:
            found.append(Cost(use.resource, requested, use.requested, use.allocatable))
    return tuple(found)


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_VOLATILE = frozenset({"status", "metadata.managedFields", "metadata.resourceVersion", "metadata.generation",
                       "metadata.uid", "metadata.creationTimestamp", "apiVersion", "kind",
                       f"metadata.annotations.{LAST_APPLIED}"})  # fmt: skip
_ITEM_KEYS = ("name", "mountPath", "containerPort", "key", "topologyKey", "port", "ip")
_MOST_FIELDS = 200
_MISSING = object()


def diff_stored(old: Any, new: Any) -> tuple[FieldChange, ...]:
    """Return up to 200 fields that differ between two trees, except status, apiVersion, kind and server metadata."""
    return tuple(islice(_diff_fields(old, new, "", is_whole=True), _MOST_FIELDS))


def diff_manifest(stored: Any, manifest: Any) -> tuple[FieldChange, ...]:
    """Return the fields of a stored object that `kubectl apply` of a manifest would change."""
    text = stored.get("metadata", {}).get("annotations", {}).get(LAST_APPLIED, "")
    found = [*_diff_fields(stored, manifest, "", is_whole=False)]
    try:
        applied = msgspec.json.decode(text) if text else {}
    except msgspec.DecodeError:
        applied = {}
    found += [change for change in _removed_fields(applied, manifest, stored, "") if change.path not in _VOLATILE]
    return tuple(found[:_MOST_FIELDS])


def _diff_fields(old: Any, new: Any, path: str, *, is_whole: bool) -> Iterator[FieldChange]:
    if path in _VOLATILE or old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*new, *(key for key in old if is_whole and key not in new)]
        for key in keys:
            below = f"{path}.{key}" if path else str(key)
            yield from _diff_fields(old.get(key, _MISSING), new.get(key, _MISSING), below, is_whole=is_whole)
        return
    if isinstance(old, list) and isinstance(new, list) and (key := _item_key(old, new)):
        stored = {item[key]: item for item in old}
        wanted = {item[key]: item for item in new}
        for name in [*wanted, *(name for name in stored if name not in wanted)]:
            below = f"{path}[{name}]"
            yield from _diff_fields(stored.get(name, _MISSING), wanted.get(name, _MISSING), below, is_whole=is_whole)
        return
    if new is _MISSING and not is_whole and not path.endswith("]"):
        return
    yield FieldChange(path, None if old is _MISSING else old, None if new is _MISSING else new)


def _item_key(old: list[Any], new: list[Any]) -> str:
    """Return the field (such as `name`) that identifies the items of both lists; empty if there is none."""
    items = [*old, *new]
    for key in _ITEM_KEYS:
        if items and all(isinstance(item, dict) and key in item for item in items):
            names = [[item[key] for item in part] for part in (old, new)]
            if all(len({repr(name) for name in part}) == len(part) for part in names):
                return key
    return ""


def _removed_fields(applied: Any, manifest: Any, stored: Any, path: str) -> Iterator[FieldChange]:
    """Yield the fields that the last apply set and the manifest no longer has, which an apply removes."""
    if not all(isinstance(each, dict) for each in (applied, manifest, stored)):
        return
    for key, value in applied.items():
        below = f"{path}.{key}" if path else str(key)
        if key not in manifest and key in stored:
            yield FieldChange(below, stored[key], None)
        elif key in manifest:
            yield from _removed_fields(value, manifest[key], stored.get(key), below)
