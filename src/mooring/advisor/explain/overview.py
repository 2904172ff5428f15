"""Group all pods that do not run by cause, worst first: `mooring explain -A` as a function.

    found = overview(snapshot, settings)
    found.groups[0].cause, found.groups[0].pods, found.groups[0].remedy

Pods of one workload that are identical for the scheduler are explained once; workloads with the same explanation form
one group. The first remedies of all groups are verified together in one simulation; those that fail in it are simulated
alone, as far as the budget allows. The result is bounded, and its fields are stable: the dashboard, the exporter and
the MCP server read it too. Read next: ``explanation.py``.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec import structs

from mooring.advisor.explain.causes.creation import check_creation, count_missing_pods
from mooring.advisor.explain.causes.running import not_running_cause
from mooring.advisor.explain.explanation import explain, load_engine, propose_remedies
from mooring.advisor.explain.rehearsal import Rehearsal, RehearsalResult
from mooring.advisor.explain.results import PROBLEMS, Result, SchedulingExplanation, Suggestion
from mooring.advisor.explain.search import Candidate
from mooring.advisor.explain.subject import WORKLOADS, Subject, subject_of
from mooring.advisor.results import API_VERSION
from mooring.advisor.simulate.options import Settings
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.snapshot.engines import needs_node
from mooring.advisor.snapshot.objects import time_of_snapshot
from mooring.advisor.snapshot.owners import Owners, owners_of
from mooring.api.core_v1 import Namespace, Node, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.states import controller_of
from mooring.scheduler.facade import ExplainEngine

MAX_EXPLAINED = 1000
"""The maximum number of distinct pods that are explained; others are counted by the scheduler's reports about them."""
MAX_GROUPS = 500
MAX_MEMBERS = 50
"""The maximum number of workloads listed in one group."""
MAX_REMEDIES = 200
"""The maximum number of groups for which remedies are searched, the worst first."""
_ROUNDS = 3
_SIMULATIONS_OF_ONE = 20
"""About how many simulations the search for combined remedies of one workload needs."""
_IDENTICAL = ("ReplicaSet", "Job", "ReplicationController")
"""Kinds of controllers whose pods are identical for the scheduler, so that explaining one suffices."""
_RANK = {"NotCreated": 0, "NotRunning": 0, "Unschedulable": 0, "NotAttempted": 0, "Schedulable": 1}
"""The sort order of causes in the overview; pods that will be placed soon are last."""


class Member(Result, frozen=True, kw_only=True):
    """A workload (or a pod without a controller) whose pods do not run, as listed in a group."""

    kind: str
    namespace: str
    name: str
    pods: int
    example: str = ""
    """The name of one of its pods; empty if none exists."""
    since: str = ""
    """When the oldest of these pods was created."""

    def __str__(self) -> str:
        return f"{self.kind.lower()} {self.namespace}/{self.name}"


class Group(Result, frozen=True, kw_only=True):
    """Pods that do not run because of the same cause."""

    cause: str
    """The code of the cause, such as `QuotaExceeded`."""
    state: str
    summary: str
    """The cause in one sentence."""
    message: str = ""
    """kube-scheduler's message, where it has one."""
    pods: int
    owners: int
    members: list[Member]
    """The first members, those with most pods first."""
    remedy: Suggestion | None = None
    """The first verified remedy, for the first member."""
    check: str = ""
    """What to check by hand first, for the first member; for causes that no change of objects is known to remove."""


class Overview(Result, frozen=True, kw_only=True):
    """All pods of a cluster or namespace that do not run, in groups."""

    api_version: str = API_VERSION
    kind: str = "SchedulingOverview"
    origin: str
    release: str
    namespace: str = ""
    """The namespace that was examined; empty for all."""
    nodes: int
    pods: int
    """The number of pods that do not exist, have no node, or do not run."""
    owners: int
    groups: list[Group]
    left_out: int = 0
    """The number of pods in groups beyond the limit."""
    notes: list[str]

    def filter_by_words(self, words: str) -> "Overview":
        """Return the groups whose cause or members contain all given search words."""
        wanted = words.lower()
        groups = [
            group
            for group in self.groups
            if wanted in f"{group.cause} {group.summary} {' '.join(map(str, group.members))}".lower()
        ]
        pods, owners = sum(group.pods for group in groups), sum(group.owners for group in groups)
        return structs.replace(self, groups=groups, pods=pods, owners=owners)


@dataclass
class _BrokenPods:
    """Pods of one workload that do not run for the same reason, and their explanation once it is found."""

    subject: Callable[[], Subject]
    owner: Resource
    pods: list[Pod] = field(default_factory=list)
    missing: int = 0
    found: SchedulingExplanation | None = None

    @property
    def count(self) -> int:
        return len(self.pods) + self.missing


def overview(
    snapshot: Snapshot,
    settings: Settings | None = None,
    *,
    namespace: str = "",
    owner: str = "",
    engine: ExplainEngine | None = None,
    remedies: bool = True,
    on_causes: "Callable[[Overview], None] | None" = None,
) -> Overview:
    """Explain every pod that does not run; of one `namespace`, or of one `owner` (`KIND/NAME` or a name), if given.

    `on_causes` is called with the result without remedies as soon as the causes are known, because remedies take
    longer.
    """
    settings = settings or Settings()
    entries = [each for each in _find_broken_pods(snapshot, settings) if _matches_query(each.owner, namespace, owner)]
    entries.sort(key=lambda each: (-each.count, each.owner.metadata.namespace, each.owner.metadata.name))
    pods = sum(each.count for each in entries)
    owners = len({(each.owner.kind, each.owner.metadata.namespace, each.owner.metadata.name) for each in entries})
    if entries:
        engine = engine or load_engine(snapshot, settings)
    for entry in entries[:MAX_EXPLAINED] if engine is not None else ():
        entry.found = explain(snapshot, entry.subject(), settings, suggestions=0, engine=engine, details=False)
    groups = _group_by_cause(entries)
    found = Overview(
        origin=snapshot.origin,
        release=settings.release,
        namespace=namespace,
        nodes=len(snapshot.all(Node)),
        pods=pods,
        owners=owners,
        groups=[group for group, _ in groups[:MAX_GROUPS]],
        left_out=sum(group.pods for group, _ in groups[MAX_GROUPS:]),
        notes=list(_overview_notes(snapshot, namespace)),
    )
    if on_causes is not None:
        on_causes(found)
    if not remedies or not groups:
        return found
    verified = _verify_remedies(snapshot, settings, engine, groups)
    with_remedies = [structs.replace(group, remedy=verified.get(index)) for index, group in enumerate(found.groups)]
    return structs.replace(found, groups=with_remedies)


def _overview_notes(snapshot: Snapshot, namespace: str) -> Iterator[str]:
    if snapshot.forbidden:
        yield snapshot.rights_note
    known = {each.metadata.name for each in snapshot.all(Namespace)}
    if namespace and known and namespace not in known:
        yield f"there is no namespace {namespace!r}"


# -- what does not run


def _find_broken_pods(snapshot: Snapshot, settings: Settings) -> list[_BrokenPods]:
    """Return the pods that do not exist, have no node or do not run; one entry for pods with the same explanation."""
    owners, now = owners_of(snapshot), snapshot.derive(time_of_snapshot)
    found: dict[tuple[object, ...], _BrokenPods] = {}
    for pod in snapshot.all(Pod):
        if needs_node(pod):
            key = _explanation_key(pod)
        elif not pod.spec.node_name or (pod.status.phase == "Failed" and pod.metadata.owner_references):
            continue  # has ended, or its controller has created another one
        else:
            cause = not_running_cause(snapshot, pod, now)
            if cause is None:
                continue
            key = (_controller_key(pod), cause.code, cause.text)
        if key not in found:
            found[key] = _BrokenPods(
                partial(subject_of, snapshot, pod, settings.admission), owners.top_owner_of(pod) or pod
            )
        found[key].pods.append(pod)
    return [*found.values(), *_find_missing_pods(snapshot, settings, owners)]


def _find_missing_pods(snapshot: Snapshot, settings: Settings, owners: Owners) -> Iterator[_BrokenPods]:
    for kind in WORKLOADS:
        for owner in snapshot.all(kind):
            if owner.metadata.owner_references and owners.key_of(owner) is not None:
                continue  # the workload above speaks for it
            if not count_missing_pods(snapshot, owner):
                continue
            subject = subject_of(snapshot, owner, settings.admission)
            made = check_creation(snapshot, owner, subject.pod, settings.admission)
            if made.cause is not None and made.missing:
                yield _BrokenPods(partial(subject_of, snapshot, owner, settings.admission), owner, missing=made.missing)


def _controller_key(pod: Pod) -> tuple[str, str, str]:
    reference = controller_of(pod.metadata)
    kind, name = (reference.kind, reference.name) if reference is not None else ("Pod", pod.metadata.name)
    return kind, pod.metadata.namespace, name


def _explanation_key(pod: Pod) -> tuple[object, ...]:
    """Return a key that is equal for pods with the same explanation: one template, the same gates, the same priority.

    Pods of StatefulSets, DaemonSets and unknown controllers get keys of their own, because their claims, nodes or specs
    differ.
    """
    maker = _controller_key(pod)
    own = "" if maker[0] in _IDENTICAL and not any(each.ephemeral for each in pod.spec.volumes) else pod.metadata.name
    gates = tuple(gate.name for gate in pod.spec.scheduling_gates)
    return maker, own, gates, pod.spec.scheduler_name, pod.spec.priority


def _matches_query(obj: Resource, namespace: str, owner: str) -> bool:
    if namespace and obj.metadata.namespace != namespace:
        return False
    kind, _, name = owner.rpartition("/")
    return not owner or (obj.metadata.name == name and kind.lower() in ("", obj.kind.lower(), f"{obj.kind.lower()}s"))


# -- groups


def _group_by_cause(entries: Sequence[_BrokenPods]) -> list[tuple[Group, _BrokenPods]]:
    by_result: dict[tuple[str, str, str], list[_BrokenPods]] = {}
    for entry in entries:
        by_result.setdefault(_outcome_key(entry), []).append(entry)
    groups = [(_build_group(result, found), found[0]) for result, found in by_result.items()]
    return sorted(groups, key=lambda each: (_RANK.get(each[0].state, 9), -each[0].pods, each[0].summary))


def _outcome_key(entry: _BrokenPods) -> tuple[str, str, str]:
    if entry.found is not None:
        return entry.found.state, entry.found.cause, entry.found.summary
    conditions = entry.pods[0].status.conditions if entry.pods else []
    reported = next((each.message for each in conditions if each.type == "PodScheduled" and each.message), "")
    return "Unschedulable", "Reported", f"the scheduler reports: {reported}" if reported else "not explained"


def _build_group(result: tuple[str, str, str], entries: Sequence[_BrokenPods]) -> Group:
    state, cause, summary = result
    by_owner: dict[tuple[str, str, str], list[_BrokenPods]] = {}
    for entry in entries:
        meta = entry.owner.metadata
        by_owner.setdefault((entry.owner.kind or "Pod", meta.namespace, meta.name), []).append(entry)
    members = [_build_member(*key, own) for key, own in by_owner.items()]
    members.sort(key=lambda each: (-each.pods, each.namespace, each.name))
    first = entries[0].found
    return Group(
        cause=cause,
        state=state,
        summary=summary,
        message=first.message if first is not None else "",
        pods=sum(entry.count for entry in entries),
        owners=len(members),
        members=members[:MAX_MEMBERS],
        check=first.checks[0] if first is not None and first.checks else "",
    )


def _build_member(kind: str, namespace: str, name: str, entries: Sequence[_BrokenPods]) -> Member:
    pods = [pod.metadata for entry in entries for pod in entry.pods]
    since = min(filter(None, (pod.creation_timestamp for pod in pods)), default="")
    count, example = sum(entry.count for entry in entries), pods[0].name if pods else ""
    return Member(kind=kind, namespace=namespace, name=name, pods=count, example=example, since=since)


# -- remedies


def _verify_remedies(
    snapshot: Snapshot, settings: Settings, engine: ExplainEngine | None, groups: Sequence[tuple[Group, _BrokenPods]]
) -> dict[int, Suggestion]:
    """Return by the index of a group its first remedy that a simulation of the whole workload has confirmed.

    The remedies of all groups are simulated together.
    """
    waiting = {
        index: left
        for index, (group, entry) in enumerate(groups[:MAX_REMEDIES])
        if group.state in PROBLEMS and entry.found is not None
        if (left := propose_remedies(snapshot, entry.subject(), settings, engine=engine))
    }
    rehearsal = Rehearsal(snapshot, settings)
    found = {index: left[0].suggestion for index, left in waiting.items() if left[0].is_next_run}

    def keep_if_enough(index: int, candidate: Candidate, result: RehearsalResult) -> None:
        if result.is_enough:
            found[index] = structs.replace(candidate.suggestion, helps=result.helps, wanted=result.wanted)

    for number in range(_ROUNDS):
        tried = {index: left[number] for index, left in waiting.items() if len(left) > number and index not in found}
        simulated = rehearsal.simulate_together([each.proposal for each in tried.values()]) if tried else []
        for (index, candidate), result in zip(tried.items(), simulated, strict=True):
            keep_if_enough(index, candidate, result)
    failed = [index for index in waiting if index not in found]
    for index in failed[: rehearsal.budget]:  # together they may have taken each other's room
        keep_if_enough(index, waiting[index][0], rehearsal.simulate(waiting[index][0].proposal))
    left_over = [index for index in failed if index not in found]
    for index in left_over[: rehearsal.budget // _SIMULATIONS_OF_ONE]:  # several nodes or changes may help together
        subject = groups[index][1].subject()
        explained = explain(snapshot, subject, settings, suggestions=1, engine=engine, details=False)
        if explained.suggestions and explained.suggestions[0].helps >= explained.suggestions[0].wanted > 0:
            found[index] = explained.suggestions[0]
    return found
