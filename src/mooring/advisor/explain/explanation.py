"""Build an explanation: the cause, the nodes that reject the pod, the remedies, and the node that wins.

`explain` is the entry point. Read next: ``causes/`` for the cause, ``search.py`` for remedies and ``rehearsal.py`` for
their verification.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as dataclass_replace
from typing import Any

from msgspec.structs import replace

from mooring.advisor.explain import patches, results, search
from mooring.advisor.explain import subject as subjects
from mooring.advisor.explain.causes import creation
from mooring.advisor.explain.causes.placement import (
    Placement,
    missing_object_cause,
    other_scheduler_cause,
    scheduling_gate_cause,
)
from mooring.advisor.explain.causes.running import node_gone_cause, not_running_cause
from mooring.advisor.explain.checks import steps_to_check
from mooring.advisor.explain.matrix import score_nodes
from mooring.advisor.explain.reasons import describe
from mooring.advisor.explain.rehearsal import Proposal, Rehearsal
from mooring.advisor.explain.remedies.creation import creation_remedies
from mooring.advisor.explain.storage import unprovisioned_cause
from mooring.advisor.explain.subject import Subject, companion_objects, set_fields
from mooring.advisor.explain.view import View, full_name
from mooring.advisor.node_facts import NodeFacts
from mooring.advisor.simulate.options import Settings
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.snapshot.engines import load_snapshot, needs_node
from mooring.advisor.snapshot.namespace_rules import RULES
from mooring.advisor.snapshot.objects import time_of_snapshot
from mooring.api.autoscaling_v2 import HorizontalPodAutoscaler
from mooring.api.batch_v1 import CronJob
from mooring.api.core_v1 import Event, Node, Pod, PodSpec
from mooring.api.meta_v1 import Resource
from mooring.api.resource_v1 import ResourceClaimTemplate
from mooring.api.scheduling_v1 import PriorityClass
from mooring.api.states import has_ended, priority
from mooring.base.natural_sort import natural_key
from mooring.constraints.options import ConstraintOptions
from mooring.controllers.conditions import find_condition
from mooring.scheduler import facade
from mooring.scheduler.framework import PostFilterResult, SchedulerFeatures, Status

KINDS: tuple[type[Resource], ...] = (
    Pod,
    Event,
    HorizontalPodAutoscaler,
    Node,
    PriorityClass,
    ResourceClaimTemplate,
    *subjects.WORKLOADS,
    *RULES,
    *facade.OTHER_KINDS,
)
"""The kinds that explanations read; a snapshot may lack all others."""
SUGGESTIONS = 5
_MORE_CANDIDATES = 3
"""The number of remedies that are simulated in addition to the requested number, because some prove useless."""
_MOST_JOINED = 3
_RIVALS = 4
MAX_NODES_DESCRIBED_INDIVIDUALLY = 200
_PRIORITY_SIZE = 8
_SYSTEM_CLASSES = "system-"


def explain(
    snapshot: Snapshot,
    pod: Resource | Subject,
    settings: Settings | None = None,
    *,
    suggestions: int = SUGGESTIONS,
    engine: facade.ExplainEngine | None = None,
    events: Sequence[str] = (),
    details: bool = True,
) -> results.SchedulingExplanation:
    """Explain why a pod or a workload does not run, or why it runs on its node, and find remedies.

    A caller with many questions passes an `engine` of `load_engine`, which is left unchanged.
    `events` are the messages of the cluster's warnings about the pod, newest first. Without `details`, single nodes are
    not described.
    """
    settings = settings or Settings()
    subject = pod if isinstance(pod, Subject) else subjects.subject_of(snapshot, pod, settings.admission)
    explainer = _build_explainer(
        snapshot, subject, settings, engine, wanted=suggestions, words=list(events), details=details
    )
    return explainer.explain()


def propose_remedies(
    snapshot: Snapshot, subject: Subject, settings: Settings, *, engine: facade.ExplainEngine | None = None
) -> list[search.Candidate]:
    """Return the changes with which the scheduler places one pod, the smallest first; the caller simulates them."""
    explainer = _build_explainer(snapshot, subject, settings, engine, details=False, is_simulated=False)
    explainer.explain()
    return explainer.candidates


def _build_explainer(
    snapshot: Snapshot, subject: Subject, settings: Settings, engine: facade.ExplainEngine | None, **fields: Any
) -> "_Explainer":
    features = settings.features
    if engine is None or not can_use_shared_engine(subject):
        engine, features = build_engine_for(snapshot, subject, settings)
    engine.reseed(0)
    return _Explainer(snapshot, subject, engine, dataclass_replace(settings, features=features), **fields)


def can_use_shared_engine(subject: Subject) -> bool:
    """Return whether an engine of `load_engine` explains this pod or workload, without further objects or features."""
    return subject.exists and not subject.is_bridged


def build_engine_for(
    snapshot: Snapshot, subject: Subject, settings: Settings
) -> tuple[facade.ExplainEngine, SchedulerFeatures]:
    """Return a new scheduler engine for one pod or workload, including its claims to be, and the engine's features."""
    features = settings.features
    if subject.is_bridged:
        features = replace(features, constraints=ConstraintOptions())
    engine = load_engine(snapshot, dataclass_replace(settings, features=features))
    for obj in companion_objects(snapshot, subject):
        engine.put(obj)
    return engine, features


def load_engine(snapshot: Snapshot, settings: Settings | None = None) -> facade.ExplainEngine:
    """Return a scheduler engine that contains all objects of a snapshot which explanations read."""
    settings = settings or Settings()
    engine = facade.ExplainEngine(settings.profiles, features=settings.features, registry=settings.registry)
    load_snapshot(engine, snapshot)
    for template in snapshot.all(ResourceClaimTemplate):
        engine.put(template)
    return engine


def _index_nodes(snapshot: Snapshot) -> NodeFacts:
    return NodeFacts(snapshot.all(Node))


@dataclass
class _Explainer:
    """Explains one pod or workload: its inputs, and the facts and candidates found so far."""

    snapshot: Snapshot
    subject: Subject
    engine: facade.ExplainEngine
    settings: Settings
    wanted: int = SUGGESTIONS
    """The number of suggestions to return."""
    words: list[str] = field(default_factory=list)
    """What the cluster's events say about the pod."""
    details: bool = True
    is_simulated: bool = True
    """Whether remedies are verified in a simulation; without it, only `candidates` are set."""
    candidates: list[search.Candidate] = field(default_factory=list)
    pods: int = 1
    wanted_pods: int = 1
    is_complete: bool = False
    also_needed: list[search.Candidate] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.facts = list(self.subject.facts)
        self.now = self.snapshot.derive(time_of_snapshot)

    @property
    def _pod(self) -> Pod:
        return self.subject.pod

    def explain(self) -> results.SchedulingExplanation:
        if self.snapshot.forbidden:
            self.facts.append(self.snapshot.rights_note)
        if self.subject.asked is not None:
            found = self._explain_workload(self.subject.asked)
            if found is not None:
                return found
        elif not self.subject.exists:
            refusal = creation.refusal_cause(self.snapshot, self.subject.stored_pod, self.settings.admission)
            if refusal is not None:
                return self._explanation_with_remedies("NotCreated", refusal)
        return self._explain_pod()

    def _explain_pod(self) -> results.SchedulingExplanation:
        pod = self._pod
        if pod.spec.node_name:
            cause = not_running_cause(self.snapshot, pod, self.now)
            if cause is not None and cause.code != "NodeGone" and self.subject.exists:
                return self._explain_not_running(cause)
        if has_ended(pod):
            return self._build_explanation("NotAttempted", f"the pod has ended ({pod.status.phase}): it needs no node")
        if pod.metadata.deletion_timestamp is not None and not pod.spec.node_name:
            return self._build_explanation("NotAttempted", "the pod is being deleted: the scheduler leaves it alone")
        nominated = pod.status.nominated_node_name
        if nominated and not pod.spec.node_name:
            self.facts.append(f"room on node {nominated} is reserved for it (nominatedNodeName)")
        self._note_policies()
        if pod.spec.node_name:
            with self.engine.cluster.trial(remove=[pod]):
                return self._explain_placed()
        if (pod.spec.scheduler_name or "default-scheduler") not in self.engine.profiles:
            return self._explain_other_scheduler()
        return self._explain_waiting()

    # -- workloads

    def _explain_workload(self, owner: Resource) -> results.SchedulingExplanation | None:
        """Explain the problem of most pods of a workload; None if there is none, or if most only have no node."""
        made = creation.check_creation(self.snapshot, owner, self.subject.stored_pod, self.settings.admission)
        siblings = self.subject.siblings
        waiting = [pod for pod in siblings if needs_node(pod)]
        broken = [
            (pod, cause)
            for pod in siblings
            if pod.spec.node_name
            and not (has_ended(pod) and not made.missing)  # its controller has created another one
            and (cause := not_running_cause(self.snapshot, pod, self.now)) is not None
        ]
        self.words += [made.words] if made.words else []
        self.wanted_pods = max(made.wanted, 1)
        problems = [(max(made.missing, 1), "creation")] if made.cause is not None else []
        problems += [(len(waiting), "waiting")] if waiting else []
        problems += [(len(broken), "running")] if broken else []
        if not problems:
            running = sum(bool(pod.spec.node_name) and not has_ended(pod) for pod in siblings)
            self.is_complete = running >= made.wanted > 0
            if siblings:
                self.facts.insert(0, f"{running} of {made.wanted} pods run")
            if isinstance(owner, CronJob) and (due := creation.next_run_of(owner, self.now)) is not None:
                self.facts.insert(0, f"its next Job is due at {due:%Y-%m-%d %H:%M} UTC")
            return None
        self.pods, worst = max(problems, key=lambda each: each[0])
        self._note_others(worst, made, waiting, broken)
        if made.cause is not None and (worst == "creation" or waiting):
            needed = max(made.missing, 1) + len(waiting)  # those that wait are replaced, with a surge
            found = creation_remedies(self.snapshot, self.subject, made.cause, needed)
            if worst == "creation":
                self.pods = made.missing
                self.also_needed = search.Search(self._view_of(self.subject)).run(1) if waiting and self.wanted else []
                return self._explanation_of_cause("NotCreated", made.cause, self._verify_candidates(found))
            self.also_needed = found[:1]
        if worst == "running":
            pod, cause = broken[0]
            self.subject = dataclass_replace(self.subject, pod=pod, exists=True)
            return self._explain_not_running(cause)
        return None

    def _note_others(
        self,
        worst: str,
        made: creation.PodCreation,
        waiting: Sequence[Pod],
        broken: Sequence[tuple[Pod, results.Cause]],
    ) -> None:
        if worst != "creation" and made.cause is not None:
            self.facts.append(f"{made.missing} more do not exist: {made.cause.text}")
        if worst != "waiting" and waiting:
            self.facts.append(f"{len(waiting)} more have no node: `mooring explain pod {full_name(waiting[0])}`")
        if worst != "running" and broken:
            self.facts.append(f"{len(broken)} more have a node and do not run: {broken[0][1].text}")

    def _explain_not_running(self, cause: results.Cause) -> results.SchedulingExplanation:
        if cause.code == "NotStarted" and self.words:
            cause = results.Cause(cause.code, f"{cause.text}: {self.words[0]}")
        return replace(self._explanation_with_remedies("NotRunning", cause), message="", node=self._pod.spec.node_name)

    def _note_policies(self) -> None:
        if self.subject.exists:
            return
        verdict = creation.policy_verdict_of(self.snapshot, self._pod)
        self.facts += [f"the API server would warn: {text}" for text in verdict.warning_texts]
        self.facts += [f"a policy could not be evaluated: {text}" for text in verdict.unknown]
        self.facts += [f"the API server would call the {text}" for text in verdict.webhooks]

    # -- pods that no scheduler tries

    def _explanation_with_remedies(self, state: results.State, cause: results.Cause) -> results.SchedulingExplanation:
        return self._explanation_of_cause(
            state, cause, self._verify_candidates(creation_remedies(self.snapshot, self.subject, cause, 1))
        )

    def _explanation_of_cause(
        self, state: results.State, cause: results.Cause, suggestions: Sequence[results.Suggestion] = ()
    ) -> results.SchedulingExplanation:
        return self._build_explanation(state, cause.text, suggestions, cause=cause.code)

    def _build_explanation(
        self, state: results.State, summary: str, suggestions: Sequence[results.Suggestion] = (), *, cause: str = ""
    ) -> results.SchedulingExplanation:
        return results.SchedulingExplanation(
            subject=patches.target_of(
                self.subject.asked or (self.subject.source if not self.subject.exists else self._pod)
            ),
            origin=self.snapshot.origin,
            state=state,
            summary=summary,
            cause=cause,
            node=self._pod.spec.node_name,
            total_nodes=len(self.engine.cluster),
            facts=self.facts,
            suggestions=list(suggestions),
            checks=steps_to_check(self.snapshot, self.subject, results.Cause(cause, summary))
            if state in results.PROBLEMS
            else [],
            pods=self.pods,
            wanted=self.wanted_pods,
            words=self.words,
            release=self.settings.release,
        )

    def _explain_other_scheduler(self) -> results.SchedulingExplanation:
        known, found = sorted(self.engine.profiles), list[search.Candidate]()
        after = self.subject.with_edited_pod(set_fields(scheduler_name=known[0]))
        if after is not None and self.engine.pre_enqueue_status(after.pod).is_success:
            outcome = self.engine.schedule(after.pod)
            if outcome.node is not None:
                summary = f"leave the pod to {known[0]} (spec.schedulerName)"
                found = [self._build_candidate(after, summary, 2, outcome.node, feasible_nodes=outcome.feasible)]
        cause = other_scheduler_cause(self.snapshot, self._pod, known)
        return self._explanation_of_cause("NotAttempted", cause, self._verify_candidates(found))

    # -- pods with a node

    def _explain_placed(self) -> results.SchedulingExplanation:
        pod = self._pod
        name = pod.spec.node_name
        if self.engine.cluster.node(name) is None:
            if self.snapshot.why_unread("nodes"):
                text = f"the pod runs on node {name}; why there cannot be said without nodes"
                return self._build_explanation("Scheduled", text)
            found = search.Search(self._view_of(self.subject)).run(self.wanted)
            return self._explanation_of_cause("NotAttempted", node_gone_cause(name), self._verify_candidates(found))
        scheduler = pod.spec.scheduler_name or "default-scheduler"
        if scheduler not in self.engine.profiles:
            return self._build_explanation(
                "Scheduled", f"the pod runs on node {name}; the scheduler {scheduler} put it there"
            )
        open_pod = _edited_pod(pod, set_fields(node_name=""))
        ranked = score_nodes(self.engine, open_pod, name, _RIVALS)
        judgement, diagnosis = self.engine.evaluate_pod(open_pod)
        self.facts.append("computed for the cluster as it is now, without this pod; it may have been different then")
        if not ranked or ranked[0].node != name:
            view = self._view_of(Subject(open_pod, open_pod))
            status = diagnosis.status_on(self.engine.cluster.row_of[name])
            why = describe(view, [view.info(name)], status)[0][0] if status is not None else ""
            self.facts.append(f"today it would not be put there: {why}")
        stated = self._build_explanation("Scheduled", _placement_reason(name, ranked))
        return replace(stated, subject=patches.target_of(pod), feasible_nodes=judgement.number_feasible, scores=ranked)

    def _view_of(self, subject: Subject) -> View:
        return View(self.engine, subject, self.settings.features)

    # -- pods without one

    def _explain_waiting(self) -> results.SchedulingExplanation:
        pod = self._pod
        early = self.engine.pre_enqueue_status(pod)
        judgement, diagnosis = self.engine.evaluate_pod(pod)
        outcome = self.engine.schedule(pod)
        view = self._view_of(self.subject)
        refusals, verdicts = self._describe_refusals(view, judgement, diagnosis) if self.details else ([], [])
        fits = early.is_success and outcome.node is not None
        has_nodes = bool(len(self.engine.cluster))
        cause = self._find_cause(view, judgement, diagnosis, early, fits=fits)  # before anything is tried on the engine
        tried = self.engine.post_filter(outcome) if early.is_success and not fits and has_nodes else None
        preemption = None if tried is None else _to_preemption_found(tried)
        summary, code = self._cause_with_preemption(cause, outcome, preemption)
        awaited = self._awaited_cause(view) if fits and self.subject.exists else None
        if awaited is not None:
            state: results.State = "NotAttempted" if awaited.code == "SchedulingGated" else "Unschedulable"
            return self._explanation_with_remedies(state, awaited)
        if self.is_complete and cause is not None:
            why = "" if self.snapshot.why_unread("nodes") else f"; one more would have none: {cause.text}"
            text = f"all {self.wanted_pods} pods have a node{why}"
            return replace(self._build_explanation("Scheduled", text), refusals=refusals, nodes=verdicts)
        found = [] if fits else self._find_suggestions(view, tried, cause)
        if not fits and not found and self.wanted and self.is_simulated:
            self._note_nearest_node(view)
        if fits and self.subject.exists:
            self.facts.append("nothing keeps it from a node: if it stays pending, is the scheduler running?")
        message = "" if self.snapshot.why_unread("nodes") else facade.NO_NODES
        if has_nodes:
            message = facade.fit_message(outcome, tried or facade.NOTHING_DONE)
        state = "Schedulable" if fits else "Unschedulable" if early.is_success else "NotAttempted"
        stated = self._build_explanation(state, summary, found, cause=code)
        return replace(
            stated,
            message=early.message or message,
            node=outcome.node or "" if early.is_success else "",
            feasible_nodes=judgement.number_feasible,
            refusals=refusals,
            nodes=verdicts,
            preemption=preemption,
            scores=score_nodes(self.engine, pod, outcome.node, _RIVALS)
            if fits and outcome.node and self.details
            else [],
        )

    def _awaited_cause(self, view: View) -> results.Cause | None:
        """Return what a pod waits for although a node fits (the constraint bridge, a volume); None if for nothing."""
        if self.subject.stored_pod.spec.scheduling_gates:
            found = scheduling_gate_cause(self.subject.stored_pod)
            return results.Cause(found.code, f"{found.text}: does the bridge run (`mooring bridge --check`)?")
        return unprovisioned_cause(view)

    def _find_suggestions(
        self, view: View, tried: PostFilterResult | None, cause: results.Cause | None
    ) -> list[results.Suggestion]:
        if not self.wanted:
            return []
        found = search.Search(view).run(self.wanted + _MORE_CANDIDATES)
        if tried is not None and tried.nominated is None:
            found += self._priority_class_candidates()
        if cause is not None:
            found += creation_remedies(self.snapshot, self.subject, cause, 1)
        return self._verify_candidates(sorted(found, key=lambda each: each.order != search.CORRECTION))

    def _verify_candidates(self, candidates: Sequence[search.Candidate]) -> list[results.Suggestion]:
        """Simulate candidates for the whole workload; return as suggestions those that help, full solutions first."""
        self.candidates = list(candidates)
        if not candidates or not self.wanted or not self.is_simulated:
            return []
        rehearsal = Rehearsal(self.snapshot, self.settings)
        left = rehearsal.budget
        before = rehearsal.simulate(Proposal(self.subject, self.subject)).helps  # without any change
        kept: list[tuple[bool, int, results.Suggestion]] = []
        for number, each in enumerate(candidates):
            if sum(is_enough for is_enough, _, _ in kept) == self.wanted:
                break
            if number >= left or each.is_next_run:
                kept.append((each.is_next_run, each.order, each.suggestion))
                continue
            simulated = rehearsal.simulate(each.proposal)
            if not simulated.hurt and (simulated.helps > before or simulated.is_enough):
                helping = replace(each.suggestion, helps=simulated.helps, wanted=simulated.wanted)
                kept.append((simulated.is_enough, each.order, helping))
        if candidates and not any(is_enough for is_enough, _, _ in kept):
            kept += self._verify_combined(rehearsal, before, kept)
        kept.sort(key=lambda entry: not entry[0])
        chosen = sorted(kept[: self.wanted], key=lambda entry: (not entry[0], entry[1]))
        return [suggestion for _, _, suggestion in chosen]

    def _verify_combined(
        self, rehearsal: Rehearsal, before: int, kept: Sequence[tuple[bool, int, results.Suggestion]]
    ) -> list[tuple[bool, int, results.Suggestion]]:
        """Return the first combination (two remedies, several new nodes) that helps all pods; empty if none does."""
        partial = {id(suggestion.changes): suggestion for _, _, suggestion in kept}
        further = [
            search.join_candidates(each, other) for each in self.candidates[:_MOST_JOINED] for other in self.also_needed
        ]
        for each in self.candidates:
            found = partial.get(id(each.suggestion.changes))
            if found is not None and found.helps > before:
                further.append(search.with_more_nodes(each, -(-(found.wanted - before) // (found.helps - before))))
        for candidate in further:
            simulated = rehearsal.simulate(candidate.proposal) if candidate is not None else None
            if candidate is not None and simulated is not None and simulated.is_enough:
                helping = replace(candidate.suggestion, helps=simulated.helps, wanted=simulated.wanted)
                return [(True, candidate.order, helping)]
        return []

    def _note_nearest_node(self, view: View) -> None:
        """Add a fact that lists the rejections of the node that the fewest plugins reject."""
        for name in search.nodes_to_try(view)[:1]:
            statuses, _ = self.engine.find_rejections_on(self._pod, name)
            against = [f"{status.plugin}: {describe(view, [view.info(name)], status)[0][0]}" for status in statuses]
            if against:
                self.facts.append(f"nearest is node {name}, and this is against it: {'; '.join(against)}")

    def _priority_class_candidates(self) -> list[search.Candidate]:
        """Return the candidate with the lowest PriorityClass that lets the pod preempt, as a list; empty if none."""
        known = sorted(self.snapshot.all(PriorityClass), key=lambda each: (each.value, each.metadata.name))
        for each in known:
            name = each.metadata.name
            is_system = name.startswith(_SYSTEM_CLASSES)
            if is_system or each.value <= priority(self._pod) or each.preemption_policy == "Never":
                continue
            after = self.subject.with_edited_pod(_edit_priority_class(each))
            displaced = self._preemption_for(after.pod) if after is not None else None
            if after is None or displaced is None or displaced.nominated is None:
                continue
            names = " and ".join(full_name(pod) for pod in displaced.victims)
            summary, size = f"give it the priority class {name} ({each.value})", 2 * len(displaced.victims)
            more = {"feasible_nodes": 1, "caveat": f"it displaces {names}", "plugins": ["DefaultPreemption"]}
            return [self._build_candidate(after, summary, _PRIORITY_SIZE + size, displaced.nominated, **more)]
        return []

    def _build_candidate(self, after: Subject, summary: str, size: int, node: str, **fields: Any) -> search.Candidate:
        changes = [search.build_pod_change(self.subject, after)]
        suggestion = results.Suggestion(summary=summary, size=size, changes=changes, node=node, **fields)
        return search.Candidate(suggestion, Proposal(self.subject, after))

    def _find_cause(
        self, view: View, judgement: facade.PodEvaluation, diagnosis: facade.Diagnosis, early: Status, *, fits: bool
    ) -> results.Cause | None:
        if fits:
            return None
        if not early.is_success:
            found = scheduling_gate_cause(self._pod) if self._pod.spec.scheduling_gates else missing_object_cause(view)
            return found or results.Cause(early.plugin, early.message)
        if not len(self.engine.cluster) and self.snapshot.why_unread("nodes"):
            return self._reported_cause(view)
        return Placement(view, judgement, diagnosis, self.snapshot.derive(_index_nodes), self.now).cause()

    def _cause_with_preemption(
        self, cause: results.Cause | None, outcome: facade.Outcome, preemption: results.PreemptionFound | None
    ) -> tuple[str, str]:
        if cause is None:
            fitting = f"{outcome.feasible} of {len(self.engine.cluster)} nodes fit"
            return f"the pod can be scheduled: {fitting}, {outcome.node} is the best", ""
        if outcome.error is not None:
            return f"the scheduler fails on this pod and retries: {outcome.error.message}", "SchedulerError"
        if preemption is not None and preemption.node:
            victims = ", ".join(f"{each.namespace}/{each.name}" for each in preemption.victims)
            return f"{cause.text}; the scheduler makes room on {preemption.node} by deleting {victims}", "Preempting"
        allowed = _edited_pod(outcome.pod, set_fields(preemption_policy="PreemptLowerPriority"))
        is_never = self._pod.spec.preemption_policy == "Never" and outcome.diagnosis is not None
        if is_never and (found := self._preemption_for(allowed)) is not None and found.nominated is not None:
            never = "; preemptionPolicy is Never, so that it displaces no pod of lower priority"
            return cause.text + never, "PreemptionPolicyNever"
        return cause.text, cause.code

    def _reported_cause(self, view: View) -> results.Cause:
        cause = missing_object_cause(view)
        if cause is not None:
            return cause
        condition = find_condition(self._pod.status.conditions, "PodScheduled")
        if condition is not None and condition.message:
            message = condition.message.partition(" preemption: ")[0]
            return results.Cause(condition.reason or "Unschedulable", f"the scheduler reports: {message}")
        text = "the pod has no node, nodes may not be read, and no scheduler has reported anything yet"
        return results.Cause("Unknown", text)

    def _preemption_for(self, pod: Pod) -> PostFilterResult | None:
        """Return the result of preemption for a pod; None if the pod is placed without it."""
        outcome = self.engine.schedule(pod)
        return self.engine.post_filter(outcome) if outcome.diagnosis is not None else None

    def _describe_refusals(
        self, view: View, judgement: facade.PodEvaluation, diagnosis: facade.Diagnosis
    ) -> tuple[list[results.Refusal], list[results.NodeVerdict]]:
        cluster = self.engine.cluster
        by_verdict: dict[int, list[facade.NodeInfo]] = {}
        for info in cluster.node_infos():
            by_verdict.setdefault(int(diagnosis.verdicts[info.row]), []).append(info)
        refusals: list[results.Refusal] = []
        verdicts: list[results.NodeVerdict] = [
            results.NodeVerdict(node=info.name, feasible=True) for info in by_verdict.pop(facade.FEASIBLE, [])
        ]
        in_detail = len(cluster) <= MAX_NODES_DESCRIBED_INDIVIDUALLY
        for verdict, infos in by_verdict.items():
            status = search.with_plugin_name(diagnosis.table[verdict], judgement)
            for detail, group in describe(view, infos, status):
                if not detail:
                    continue
                refusals.append(
                    results.Refusal(
                        plugin=status.plugin,
                        code=str(status.code),
                        reasons=list(status.reasons),
                        detail=detail,
                        count=len(group),
                        nodes=sorted((info.name for info in group), key=natural_key),
                    )
                )
                for info in group:
                    own = describe(view, [info], status)[0][0] if in_detail and len(group) > 1 else detail
                    also = _other_refusing_plugins(judgement, info.row, status.plugin)
                    verdicts.append(
                        results.NodeVerdict(
                            node=info.name, feasible=False, plugin=status.plugin, detail=own, also_refused_by=also
                        )
                    )
        # Pods of DaemonSets are made for one node; that the others reject them explains least.
        of_others = "node(s) didn't satisfy plugin(s)"
        refusals.sort(
            key=lambda each: (
                any(reason.startswith(of_others) for reason in each.reasons),
                -each.count,
                each.plugin,
                each.detail,
            )
        )
        return refusals, sorted(verdicts, key=lambda each: natural_key(each.node))


def _edit_priority_class(wanted: PriorityClass) -> Callable[[PodSpec], bool]:
    def edit(spec: PodSpec) -> bool:
        spec.priority_class_name = wanted.metadata.name
        spec.priority = None if spec.priority is None else wanted.value  # a template leaves it to the server
        return True

    return edit


def _to_preemption_found(found: PostFilterResult) -> results.PreemptionFound:
    victims = [
        results.Victim(namespace=pod.metadata.namespace, name=pod.metadata.name, priority=priority(pod))
        for pod in found.victims
    ]
    message = found.status.message.removeprefix("preemption: ")
    return results.PreemptionFound(node=found.nominated or "", victims=victims, message=message)


def _edited_pod(pod: Pod, change: Callable[[PodSpec], bool]) -> Pod:
    edited = Subject(pod, pod).with_edited_pod(change)
    return pod if edited is None else edited.pod


def _other_refusing_plugins(judgement: facade.PodEvaluation, row: int, plugin: str) -> list[str]:
    return [
        slot.name
        for slot in judgement.filters
        if slot.name != plugin and slot.refuses and slot.status.is_success and not slot.ok[row]
    ]


def _placement_reason(name: str, ranked: Sequence[results.NodeScore]) -> str:
    if not ranked or ranked[0].node != name:
        return f"the pod runs on node {name}"
    if len(ranked) == 1:
        return f"the pod runs on node {name}, the only one that fits"
    own, rival = ranked[0], ranked[1]
    if own.total == rival.total:
        return f"the pod runs on node {name}, which is as good as {rival.node} ({own.total} points each)"
    gap = {key: own.scores.get(key, 0) - rival.scores.get(key, 0) for key in own.scores}
    if own.total > rival.total:
        best = max(gap, key=lambda key: gap[key])
        ahead = f"{own.total - rival.total} more than {rival.node}, most of them for {best} ({gap[best]:+d})"
        return f"the pod runs on node {name} with {own.total} points, {ahead}"
    worst = min(gap, key=lambda key: gap[key])
    behind = f"{rival.total - own.total} points, most of them for {worst} ({-gap[worst]:+d})"
    return f"the pod runs on node {name}; today {rival.node} would be better by {behind}"
