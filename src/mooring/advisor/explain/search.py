"""Search for the smallest changes after which a pod would be scheduled; each is tried on the engine.

A best-first search over sets of at most three remedies; pairs are tried only if no single one is enough. It starts with
a few nodes for each kind of rejection. On a node, each remedy against the first plugin that rejects it is tried, and
the node is evaluated again with the change. When no plugin rejects the node, the whole scheduler is run: only a change
after which the pod is placed is a candidate. Only a few remedies of one family (the same change on another node) are
kept. ``rehearsal.py`` verifies candidates for the whole workload.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from mooring.advisor.explain import patches
from mooring.advisor.explain.images import containers_of
from mooring.advisor.explain.reasons import describe, relative_shortage
from mooring.advisor.explain.rehearsal import Proposal, has_not_started
from mooring.advisor.explain.remedies import Remedy, remedies_for
from mooring.advisor.explain.remedies.remedy import numbered_node
from mooring.advisor.explain.results import Change, Suggestion
from mooring.advisor.explain.subject import Subject
from mooring.advisor.explain.view import View
from mooring.api import codec
from mooring.api.apps_v1 import DaemonSet, ReplicaSet, StatefulSet
from mooring.api.batch_v1 import CronJob, Job
from mooring.api.core_v1 import Node, Pod, ReplicationController
from mooring.scheduler.facade import Diagnosis, NodeInfo, PodEvaluation
from mooring.scheduler.framework import Status

_MAX_STEPS = 3
"""The maximum number of remedies that are combined into one candidate."""
_MAX_TRIALS = 300
_MAX_SCHEDULED = 60
"""The maximum number of evaluated nodes, and of runs of the whole scheduler, in one search."""
_KINDS = 12
_PER_KIND = 2
_SAME_FAMILIES = 2
_MAX_NEW_NODES = 10
_MAX_NODES_COMPARED, _MAX_REASONS_COMPARED = 2000, 60
"""The maximum number of nodes with equal rejections, and of reasons, compared to find the nearest node."""


CORRECTION, LAST = -1, 1000
"""Sort keys of candidates: those that only correct a misspelling are first, some others are last."""
_JOB_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")


@dataclass(order=True)
class _RemedyCombination:
    """Remedies to try together on one node; combinations of fewer and smaller remedies are tried first."""

    steps: int
    size: int
    distance: float
    number: int
    chosen: tuple[Remedy, ...] = field(compare=False)
    node: str = field(compare=False)
    was_global: bool = field(compare=False, default=False)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One or more remedies as the suggestion to show, and the proposal to simulate for the whole workload."""

    suggestion: Suggestion
    proposal: Proposal
    order: int = LAST
    """The sort key of the candidate: `CORRECTION`, its rank in the search, or `LAST`."""

    @property
    def is_next_run(self) -> bool:
        """Whether the change takes effect with the next Job of a CronJob, so that it cannot be simulated."""
        return isinstance(self.proposal.after.source, CronJob) and self.proposal.is_source_changed


def join_candidates(one: Candidate, other: Candidate) -> Candidate | None:
    """Return the candidate that combines the changes of two; None if both change the workload."""
    if one.proposal.is_source_changed and other.proposal.is_source_changed:
        return None
    after = one.proposal.after if one.proposal.is_source_changed else other.proposal.after
    suggestion = structs.replace(
        one.suggestion,
        summary=f"{one.suggestion.summary}, and {other.suggestion.summary}",
        size=one.suggestion.size + other.suggestion.size,
        plugins=[*one.suggestion.plugins, *other.suggestion.plugins],
        changes=[*one.suggestion.changes, *other.suggestion.changes],
        caveat="; ".join(filter(None, (one.suggestion.caveat, other.suggestion.caveat))),
    )
    put = (*one.proposal.put, *other.proposal.put)
    remove = (*one.proposal.remove, *other.proposal.remove)
    return Candidate(suggestion, Proposal(one.proposal.before, after, put, remove), one.order)


def with_more_nodes(candidate: Candidate, number: int) -> Candidate | None:
    """Return the candidate with `number` new nodes instead of one; None if it adds no node, or if they are too many."""
    changes = [each for each in candidate.suggestion.changes if each.action == "create" and each.target.kind == "Node"]
    model = next((each for each in candidate.proposal.put if isinstance(each, Node)), None)
    if len(changes) != 1 or model is None or not 1 < number <= _MAX_NEW_NODES:
        return None
    made = [numbered_node(model, changes[0], place) for place in range(2, number + 1)]
    old = f"add a node like {model.metadata.name.removesuffix('-like')}"
    suggestion = structs.replace(
        candidate.suggestion,
        summary=candidate.suggestion.summary.replace(old, old.replace("a node", f"{number} nodes")),
        changes=[*candidate.suggestion.changes, *(change for _, change in made)],
    )
    proposal = replace(candidate.proposal, put=(*candidate.proposal.put, *(node for node, _ in made)))
    return Candidate(suggestion, proposal, candidate.order)


class Search:
    """A search for the smallest changes after which the scheduler places one pod."""

    def __init__(self, view: View) -> None:
        self._engine = view.engine
        self._subject = view.subject
        self._features = view.features
        self._untouched = view
        self._ideas: list[_RemedyCombination] = []
        self._numbers = count()
        self._found: list[tuple[frozenset[str], tuple[str, ...], Candidate]] = []
        self._families: Counter[tuple[str, ...]] = Counter()
        self._seen: set[frozenset[str]] = set()
        self._pushed: set[tuple[frozenset[str], str]] = set()
        self._scheduled = 0

    def run(self, wanted: int) -> list[Candidate]:
        """Return at most `wanted` candidates: the smallest of each family of remedies, then the next of each."""
        for node in nodes_to_try(self._untouched):
            self._queue_idea((), node, was_global=False)
        for _ in range(_MAX_TRIALS):
            if not self._ideas or self._scheduled >= _MAX_SCHEDULED or len(self._families) >= wanted:
                break
            idea = heapq.heappop(self._ideas)
            if self._found and idea.steps > len(self._found[0][0]) and not _only_corrects(idea.chosen):
                continue  # fewer are enough
            self._try_idea(idea)
        return self._best_of_each_family(wanted)

    def _best_of_each_family(self, wanted: int) -> list[Candidate]:
        places: Counter[tuple[str, ...]] = Counter()
        ranked = []
        for number, (_, families, candidate) in enumerate(self._found):
            places[families] += 1
            ranked.append((places[families], number, candidate))
        return [
            replace(candidate, order=candidate.order if candidate.order == CORRECTION else number)
            for _, number, candidate in sorted(ranked, key=lambda each: each[:2])[:wanted]
        ]

    def _queue_idea(self, chosen: tuple[Remedy, ...], node: str, *, was_global: bool) -> None:
        place = (frozenset(each.summary for each in chosen), node)
        if place in self._pushed:
            return
        self._pushed.add(place)
        size, distance = sum(each.size for each in chosen), sum(each.distance for each in chosen)
        heapq.heappush(
            self._ideas, _RemedyCombination(len(chosen), size, distance, next(self._numbers), chosen, node, was_global)
        )

    def _try_idea(self, idea: _RemedyCombination) -> None:
        subject: Subject | None = self._subject
        for remedy in idea.chosen:
            if remedy.edit is not None and subject is not None:
                subject = subject.with_edited_pod(remedy.edit)
        if subject is None or self._is_not_worth_trying(idea.chosen):
            return
        put = tuple(obj for each in idea.chosen for obj in each.put)
        remove = tuple(obj for each in idea.chosen for obj in each.remove)
        with self._engine.cluster.trial(put, remove):
            statuses, is_global = self._engine.find_rejections_on(subject.pod, idea.node)
            is_promising = idea.chosen and (not statuses or (idea.was_global and not is_global))
            if is_promising and self._schedules_pod(idea, Proposal(self._subject, subject, put, remove)):
                return
            if not statuses or len(idea.chosen) == _MAX_STEPS:
                return
            view = View(self._engine, subject, self._features) if idea.chosen else self._untouched
            if idea.was_global and not is_global:  # nodes are evaluated only now
                for node in nodes_to_try(view):
                    self._queue_remedies(idea, view, node, *self._engine.find_rejections_on(subject.pod, node))
            else:
                self._queue_remedies(idea, view, idea.node, statuses, is_global)

    def _queue_remedies(
        self, idea: _RemedyCombination, view: View, node: str, statuses: Sequence[Status], is_global: bool
    ) -> None:
        """Queue `idea` plus each remedy for a node's first rejection, unless it has a remedy of that `family`."""
        for remedy in remedies_for(view, view.info(node), statuses[0]) if statuses else ():
            if remedy.family not in {each.family for each in idea.chosen if each.plugin == remedy.plugin}:
                self._queue_idea((*idea.chosen, remedy), remedy.node or node, was_global=is_global)

    def _is_not_worth_trying(self, chosen: Sequence[Remedy]) -> bool:
        summaries = frozenset(each.summary for each in chosen)
        if any(found <= summaries for found, _, _ in self._found):
            return True
        return bool(chosen) and (self._families[_families_of(chosen)] >= _SAME_FAMILIES or summaries in self._seen)

    def _schedules_pod(self, idea: _RemedyCombination, proposal: Proposal) -> bool:
        """Run the whole scheduler; record the candidate and return True if it places the pod."""
        subject = proposal.after
        self._scheduled += 1
        summaries = frozenset(each.summary for each in idea.chosen)
        if not idea.was_global:
            self._seen.add(summaries)
        outcome = self._engine.schedule(subject.pod)
        if outcome.node is None:
            return False
        own = [build_pod_change(self._subject, subject)] if subject is not self._subject else []
        suggestion = Suggestion(
            summary=", and ".join(each.summary for each in idea.chosen),
            size=idea.size,
            plugins=list(dict.fromkeys(each.plugin for each in idea.chosen)),
            changes=[*own, *(change for each in idea.chosen for change in each.changes)],
            node=outcome.node,
            feasible_nodes=outcome.feasible,
            caveat="; ".join(dict.fromkeys(each.caveat for each in idea.chosen if each.caveat)),
        )
        if any(each.suggestion.changes == suggestion.changes for _, _, each in self._found):
            return True  # another wording of the same change
        candidate = Candidate(suggestion, proposal, CORRECTION if _only_corrects(idea.chosen) else LAST)
        self._found.append((summaries, _families_of(idea.chosen), candidate))
        self._families[_families_of(idea.chosen)] += 1
        return True


def _families_of(chosen: Iterable[Remedy]) -> tuple[str, ...]:
    return tuple(sorted(each.family for each in chosen))


def _only_corrects(chosen: Sequence[Remedy]) -> bool:
    """Return whether every remedy in `chosen` only corrects a name or value (its family is `correct …`)."""
    return all(each.family.startswith("correct ") for each in chosen)


def nodes_to_try(view: View) -> list[str]:
    """Return the names of the nodes to begin with: for each set of rejecting plugins, those nearest to fitting."""
    judgement, diagnosis = view.engine.evaluate_pod(view.pod)
    cluster = view.engine.cluster
    if judgement.refusal is not None:
        return [info.name for info in cluster.node_infos()][: _KINDS * _PER_KIND]
    rows = np.flatnonzero(cluster.labels.nodes)
    marks = _rejecting_plugins(judgement, rows)
    found: list[str] = []
    kinds, numbers = np.unique(marks, return_counts=True)
    refusing = [int(kind).bit_count() for kind in kinds]
    order = sorted(range(len(kinds)), key=lambda index: (refusing[index], -int(numbers[index])))
    for index in order[:_KINDS]:
        infos = [info for row in rows[marks == kinds[index]].tolist() if (info := cluster.nodes[row]) is not None]
        found += _nearest_nodes(view, judgement, diagnosis, infos)
    return found


def _nearest_nodes(view: View, judgement: PodEvaluation, diagnosis: Diagnosis, infos: list[NodeInfo]) -> list[str]:
    """Return, of nodes that the same plugins reject, the names of those that the smallest change would help."""
    status = diagnosis.status_on(infos[0].row)
    if status is None or len(infos) <= _PER_KIND:
        return [info.name for info in infos]
    if any(view.shortages(info) for info in infos[:1]):
        infos.sort(key=lambda info: relative_shortage(view.shortages(info)))
    status = with_plugin_name(status, judgement)
    different = [group[0] for _, group in describe(view, infos[:_MAX_NODES_COMPARED], status)][:_MAX_REASONS_COMPARED]
    if len(different) < _PER_KIND:
        different = [*different, *(info for info in infos[:_PER_KIND] if info not in different)]
    different.sort(key=lambda info: _smallest_change(view, info, status))
    return [info.name for info in different[:_PER_KIND]]


def with_plugin_name(status: Status, judgement: PodEvaluation) -> Status:
    """Return the status, with a plugin name: if it has none, that of the PreFilter plugin that named nodes."""
    return status if status.plugin or not judgement.naming else status.by(judgement.naming[0])


def _smallest_change(view: View, info: NodeInfo, status: Status) -> tuple[int, float]:
    found = remedies_for(view, info, status)
    return (found[0].size, found[0].distance) if found else (1000, 0.0)


def _rejecting_plugins(judgement: PodEvaluation, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    marks = np.where(judgement.considered[rows], 0, 1).astype(np.int64)
    for bit, slot in enumerate(judgement.filters, 1):
        if slot.refuses and slot.status.is_success:
            marks |= (~slot.ok[rows]).astype(np.int64) << bit
    return marks


# -- how to change the pod


def build_pod_change(before: Subject, after: Subject) -> Change:
    """Return the change of the pod, or of its workload, with the kubectl command that makes it."""
    change = patches.patch_change(before.source, after.source)
    operations, target, command = change.patch, change.target, change.command
    if before.file:
        command = patches.apply_file_command(before.file, operations)
    elif isinstance(before.source, Job):
        command = patches.recreate_command(target, [*operations, *_selector_removal(before.source)])
    elif isinstance(before.source, Pod) and not _can_be_updated(before, after):
        command = patches.recreate_command(target, operations)
    elif isinstance(before.source, ReplicaSet | StatefulSet | ReplicationController | DaemonSet):
        pending = [pod.metadata.name for pod in before.siblings if has_not_started(pod)]
        is_changed = any(each["path"].startswith("/spec/template") for each in operations)
        if pending and is_changed:  # their controller does not replace them
            gone = patches.kubectl_command("delete", "pod", *pending, "--ignore-not-found", namespace=target.namespace)
            command += f" && {gone}"
    return structs.replace(change, command=command)


def _selector_removal(job: Job) -> list[patches.Operation]:
    """Return the removal of the selector and labels that the server has set, because a new Job gets its own."""
    if job.spec.manual_selector:
        return []
    tree, changed = codec.to_tree(job), codec.to_tree(job)
    changed["spec"].pop("selector", None)
    for labels in (changed["metadata"].get("labels", {}), changed["spec"]["template"]["metadata"].get("labels", {})):
        for key in _JOB_LABELS:
            labels.pop(key, None)
    return patches.diff_json(tree, changed)


def _can_be_updated(before: Subject, after: Subject) -> bool:
    """Return whether the API server allows this update: only tolerations added, gates removed, images changed."""
    old, new = before.pod.spec, codec.decode_tree(codec.to_tree(after.pod.spec), type(before.pod.spec)).object
    if new.tolerations[: len(old.tolerations)] != old.tolerations:
        return False
    new.tolerations, new.scheduling_gates = old.tolerations, old.scheduling_gates
    for container, changed in zip(containers_of(old), containers_of(new), strict=False):
        changed.image = container.image
    return bool(new == old)
