"""Putting an explanation together: what state the pod is in, who refuses which nodes, what would help, which node wins.

`explain` is the whole of it. Read next: ``reasons/`` for the words, ``search.py`` for the suggestions.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from mooring.advisor.explain import patches
from mooring.advisor.explain import subject as subjects
from mooring.advisor.explain.companions import companions
from mooring.advisor.explain.reasons import describe
from mooring.advisor.explain.results import (
    NodeScore,
    NodeVerdict,
    PreemptionFound,
    Refusal,
    SchedulingExplanation,
    State,
    Suggestion,
    Victim,
)
from mooring.advisor.explain.scores import scores
from mooring.advisor.explain.search import Search, pod_change, targets
from mooring.advisor.explain.subject import Subject
from mooring.advisor.explain.view import View, full_name
from mooring.advisor.policies.judging import POLICIES, judge_of
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.snapshot.engines import load
from mooring.api.core_v1 import Node, Pod, PodSpec
from mooring.api.meta_v1 import Resource
from mooring.api.resource_v1 import ResourceClaimTemplate
from mooring.api.scheduling_v1 import PriorityClass
from mooring.api.states import has_ended, priority
from mooring.base.natural import natural
from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.facade import (
    FEASIBLE,
    NO_NODES,
    NOTHING_DONE,
    OTHER_KINDS,
    AskingEngine,
    Diagnosis,
    Judgement,
    NodeInfo,
    Outcome,
    ProfileSpec,
    fit_message,
)
from mooring.scheduler.framework import PostFilterResult, Registry, SchedulerFeatures, Status

KINDS: tuple[type[Resource], ...] = (
    Pod,
    Node,
    PriorityClass,
    ResourceClaimTemplate,
    *subjects.WORKLOADS,
    *OTHER_KINDS,
    *POLICIES,
)
"""What an explanation looks at; a snapshot need not have more."""
SUGGESTIONS = 5
_RIVALS = 4
_EACH_DETAILED = 200
"""Up to so many nodes each has a text of its own; beyond, that of its group."""
_PRIORITY_SIZE = 8


def explain(
    snapshot: Snapshot,
    pod: Resource | Subject,
    *,
    profiles: Sequence[ProfileSpec] = (ProfileSpec(),),
    features: SchedulerFeatures | None = None,
    registry: Registry | None = None,
    seed: int = 0,
    suggestions: int = SUGGESTIONS,
    engine: AskingEngine | None = None,
) -> SchedulingExplanation:
    """Why a pod (or the pod of a workload's template) is where it is, or nowhere, and what would help.

    Who asks often gives an `engine` that has been loaded with the snapshot; it is left as it was.
    """
    subject = pod if isinstance(pod, Subject) else subjects.of(snapshot, pod)
    features = features or SchedulerFeatures()
    if engine is None or not is_answered_by_any(subject):
        engine, features = engine_for(snapshot, subject, profiles=profiles, features=features, registry=registry)
    engine.reseed(seed)
    return _Explaining(snapshot, subject, engine, features, suggestions).result()


def is_answered_by_any(subject: Subject) -> bool:
    """Whether an engine will do that was loaded for nobody in particular."""
    return subject.exists and not subject.is_bridged


def engine_for(
    snapshot: Snapshot,
    subject: Subject,
    *,
    profiles: Sequence[ProfileSpec],
    features: SchedulerFeatures,
    registry: Registry | None,
) -> tuple[AskingEngine, SchedulerFeatures]:
    """An engine for questions about one pod, and the features that it has then."""
    if subject.is_bridged:
        features = replace(features, constraints=ConstraintOptions())
    engine = loaded(snapshot, profiles=profiles, features=features, registry=registry)
    for obj in companions(snapshot, subject):
        engine.put(obj)
    return engine, features


def loaded(
    snapshot: Snapshot,
    *,
    profiles: Sequence[ProfileSpec] = (ProfileSpec(),),
    features: SchedulerFeatures | None = None,
    registry: Registry | None = None,
) -> AskingEngine:
    """An engine that knows all that explanations look at."""
    engine = AskingEngine(profiles, features=features, registry=registry)
    load(engine, snapshot)
    for template in snapshot.all(ResourceClaimTemplate):
        engine.put(template)
    return engine


class _Explaining:
    def __init__(
        self, snapshot: Snapshot, subject: Subject, engine: AskingEngine, features: SchedulerFeatures, wanted: int
    ) -> None:
        self._snapshot = snapshot
        self._subject = subject
        self._engine = engine
        self._features = features
        self._wanted = wanted
        self._facts = list(subject.facts)

    @property
    def _pod(self) -> Pod:
        return self._subject.pod

    def result(self) -> SchedulingExplanation:
        pod = self._pod
        if has_ended(pod):
            return self._told("NotAttempted", f"the pod has ended ({pod.status.phase}): it needs no node")
        if pod.metadata.deletion_timestamp is not None and not pod.spec.node_name:
            return self._told("NotAttempted", "the pod is being deleted: the scheduler leaves it alone")
        self._note_what_is_missing()
        self._note_policies()
        if pod.spec.node_name:
            return self._placed()
        if (pod.spec.scheduler_name or "default-scheduler") not in self._engine.profiles:
            return self._of_another_scheduler()
        return self._waiting()

    def _note_policies(self) -> None:
        """A pod that is not there yet may never come: the cluster's policies may refuse it."""
        if self._subject.exists:
            return
        verdict = judge_of(self._snapshot).verdict(self._pod)
        if verdict.refused:
            self._facts.append(f"the API server would refuse the pod: {verdict.refused}")
        self._facts += [f"the API server would warn: {text}" for text in verdict.warning_texts]
        self._facts += [f"a policy could not be judged: {text}" for text in verdict.unknown]
        self._facts += [f"the API server would ask the {text}" for text in verdict.webhooks]

    # -- pods that the scheduler does not look at

    def _told(self, state: State, summary: str, suggestions: Sequence[Suggestion] = ()) -> SchedulingExplanation:
        return SchedulingExplanation(
            subject=patches.target_of(self._subject.source),
            origin=self._snapshot.origin,
            state=state,
            summary=summary,
            node=self._pod.spec.node_name,
            total_nodes=len(self._engine.cluster),
            facts=self._facts,
            suggestions=list(suggestions),
        )

    def _of_another_scheduler(self) -> SchedulingExplanation:
        name, known = self._pod.spec.scheduler_name, sorted(self._engine.profiles)

        def edit(spec: PodSpec) -> bool:
            spec.scheduler_name = known[0]
            return True

        found = []
        after = self._subject.edited(edit)
        if after is not None and self._engine.before_queue(after.pod).is_success:
            outcome = self._engine.schedule(after.pod)
            if outcome.node is not None:
                found.append(
                    Suggestion(
                        summary=f"leave the pod to {known[0]} (spec.schedulerName)",
                        size=2,
                        plugins=[],
                        changes=[pod_change(self._subject, after)],
                        node=outcome.node,
                        feasible_nodes=outcome.feasible,
                    )
                )
        summary = (
            f"the pod waits for the scheduler {name}; this is about {' and '.join(known)}, which never looks at it"
        )
        self._facts.append(f"is {name} running? `--scheduler-config` tells what it would do, if it is one of Mooring's")
        return self._told("NotAttempted", summary, found)

    def _note_what_is_missing(self) -> None:
        for plural, why in self._snapshot.forbidden.items():
            self._facts.append(f"{plural} could not be read ({why}), so the answer may be incomplete")
        nominated = self._pod.status.nominated_node_name
        if nominated and not self._pod.spec.node_name:
            self._facts.append(f"room on node {nominated} has been promised to it (nominatedNodeName)")

    # -- pods with a node

    def _placed(self) -> SchedulingExplanation:
        with self._engine.cluster.supposing(remove=[self._pod]):
            return self._without_it()

    def _without_it(self) -> SchedulingExplanation:
        pod = self._pod
        name = pod.spec.node_name
        if self._engine.cluster.node(name) is None:
            if why := self._snapshot.unread("nodes"):
                return self._told(
                    "Scheduled", f"the pod is on node {name}; why cannot be said, for nodes could not be read ({why})"
                )
            found = Search(View(self._engine, self._subject, self._features)).run(self._wanted)
            summary = f"the pod names the node {name}, which does not exist; the scheduler does not look at it any more"
            return self._told("NotAttempted", summary, found)

        def free(spec: PodSpec) -> bool:
            spec.node_name = ""
            return True

        scheduler = pod.spec.scheduler_name or "default-scheduler"
        if scheduler not in self._engine.profiles:
            return self._told("Scheduled", f"the pod runs on node {name}; the scheduler {scheduler} put it there")
        open_pod = _with(pod, free)
        ranked = scores(self._engine, open_pod, name, _RIVALS)
        judgement, diagnosis = self._engine.judged(open_pod)
        self._facts.append("reckoned with the cluster as it is now, without this pod; it may have been another then")
        if not ranked or ranked[0].node != name:
            view = View(self._engine, Subject(open_pod, open_pod), self._features)
            status = diagnosis.status_on(self._engine.cluster.row_of[name])
            why = describe(view, [view.info(name)], status)[0][0] if status is not None else ""
            self._facts.append(f"today it would not be put there: {why}")
        return SchedulingExplanation(
            subject=patches.target_of(pod),
            origin=self._snapshot.origin,
            state="Scheduled",
            summary=_why_there(name, ranked),
            node=name,
            total_nodes=len(self._engine.cluster),
            feasible_nodes=judgement.number_feasible,
            facts=self._facts,
            scores=ranked,
        )

    # -- pods without one

    def _waiting(self) -> SchedulingExplanation:
        pod = self._pod
        early = self._engine.before_queue(pod)
        judgement, diagnosis = self._engine.judged(pod)
        outcome = self._engine.schedule(pod)
        view = View(self._engine, self._subject, self._features)
        refusals, verdicts = self._refusals(view, judgement, diagnosis)
        fits = early.is_success and outcome.node is not None
        has_nodes = bool(len(self._engine.cluster))
        tried = self._engine.post_filter(outcome) if early.is_success and not fits and has_nodes else None
        preemption = None if tried is None else _preemption(tried)
        found = [] if fits else Search(view).run(self._wanted)
        if tried is not None and tried.nominated is None and len(found) < self._wanted:
            found += self._by_priority()
        if not fits and not found and self._wanted:
            self._note_the_nearest(view)
        if fits and self._subject.exists:
            self._facts.append(
                "nothing is in its way: if it stays pending, the scheduler has not got to it, or does not run"
            )
        state: State = "Schedulable" if fits else "Unschedulable" if early.is_success else "NotAttempted"
        return SchedulingExplanation(
            subject=patches.target_of(self._subject.source if not self._subject.exists else pod),
            origin=self._snapshot.origin,
            state=state,
            summary=self._summary(outcome, early, preemption),
            message=early.message or (fit_message(outcome, tried or NOTHING_DONE) if has_nodes else NO_NODES),
            node=outcome.node or "" if early.is_success else "",
            total_nodes=len(self._engine.cluster),
            feasible_nodes=judgement.number_feasible,
            facts=self._facts,
            refusals=refusals,
            nodes=verdicts,
            preemption=preemption,
            suggestions=found,
            scores=scores(self._engine, pod, outcome.node, _RIVALS) if fits and outcome.node else [],
        )

    def _note_the_nearest(self, view: View) -> None:
        """Where no change helps: all that there is against the node that the fewest plugins refuse."""
        for name in targets(view)[:1]:
            statuses, _ = self._engine.refusals_on(self._pod, name)
            told = [f"{status.plugin}: {describe(view, [view.info(name)], status)[0][0]}" for status in statuses]
            if told:
                self._facts.append(f"nearest is node {name}, and this is against it: {'; '.join(told)}")

    def _by_priority(self) -> list[Suggestion]:
        """The lowest PriorityClass with which the pod could displace others, if there is one."""
        known = sorted(self._snapshot.all(PriorityClass), key=lambda each: (each.value, each.metadata.name))
        for each in known:
            if each.value <= priority(self._pod) or each.preemption_policy == "Never":
                continue
            after = self._subject.edited(_prioritising(each))
            outcome = self._engine.schedule(after.pod) if after is not None else None
            displaced = (
                self._engine.post_filter(outcome) if outcome is not None and outcome.diagnosis is not None else None
            )
            if after is None or displaced is None or displaced.nominated is None:
                continue
            names = " and ".join(full_name(pod) for pod in displaced.victims)
            return [
                Suggestion(
                    summary=f"give it the priority class {each.metadata.name} ({each.value})",
                    size=_PRIORITY_SIZE + 2 * len(displaced.victims),
                    plugins=["DefaultPreemption"],
                    changes=[pod_change(self._subject, after)],
                    node=displaced.nominated,
                    feasible_nodes=1,
                    caveat=f"it displaces {names}",
                )
            ]
        return []

    def _summary(self, outcome: Outcome, early: Status, preemption: PreemptionFound | None) -> str:
        total = len(self._engine.cluster)
        if not early.is_success:
            gates = ", ".join(gate.name for gate in self._pod.spec.scheduling_gates)
            if gates:
                return f"the pod waits for its scheduling gates to be removed ({gates}): no node is looked at before"
            return f"no node is looked at before this is settled: {early.message}"
        if outcome.error is not None:
            return f"the scheduler cannot judge this pod, and tries it again and again: {outcome.error.message}"
        if outcome.node is not None:
            return f"the pod can be scheduled: {outcome.feasible} of {total} nodes would do, {outcome.node} is the best"
        if not total:
            why = self._snapshot.missing.get("nodes")
            return f"the nodes could not be read ({why})" if why else "there are no nodes"
        if preemption is not None and preemption.node:
            victims = ", ".join(f"{each.namespace}/{each.name}" for each in preemption.victims)
            return f"no node has room; the scheduler would make some on {preemption.node} by deleting {victims}"
        return f"none of {total} nodes will do"

    def _refusals(
        self, view: View, judgement: Judgement, diagnosis: Diagnosis
    ) -> tuple[list[Refusal], list[NodeVerdict]]:
        """Groups of nodes with equal reasons, and what is said of each node."""
        cluster = self._engine.cluster
        by_verdict: dict[int, list[NodeInfo]] = {}
        for info in cluster.node_infos():
            by_verdict.setdefault(int(diagnosis.verdicts[info.row]), []).append(info)
        refusals: list[Refusal] = []
        verdicts: list[NodeVerdict] = [
            NodeVerdict(node=info.name, feasible=True) for info in by_verdict.pop(FEASIBLE, [])
        ]
        in_detail = len(cluster) <= _EACH_DETAILED
        for verdict, infos in by_verdict.items():
            status = _named(diagnosis.table[verdict], judgement)
            for detail, group in describe(view, infos, status):
                refusals.append(_refusal(status, detail, group))
                for info in group:
                    own = describe(view, [info], status)[0][0] if in_detail and len(group) > 1 else detail
                    also = _others(judgement, info.row, status.plugin)
                    verdicts.append(
                        NodeVerdict(
                            node=info.name, feasible=False, plugin=status.plugin, detail=own, also_refused_by=also
                        )
                    )
        refusals.sort(key=lambda each: (_is_named_elsewhere(each), -each.count, each.plugin, each.detail))
        return refusals, sorted(verdicts, key=lambda each: natural(each.node))


def _prioritising(wanted: PriorityClass) -> Callable[[PodSpec], bool]:
    def edit(spec: PodSpec) -> bool:
        spec.priority_class_name = wanted.metadata.name
        spec.priority = None if spec.priority is None else wanted.value  # a template leaves it to the server
        return True

    return edit


def _preemption(found: PostFilterResult) -> PreemptionFound:
    victims = [
        Victim(namespace=pod.metadata.namespace, name=pod.metadata.name, priority=priority(pod))
        for pod in found.victims
    ]
    message = found.status.message.removeprefix("preemption: ")
    return PreemptionFound(node=found.nominated or "", victims=victims, message=message)


def _with(pod: Pod, change: Callable[[PodSpec], bool]) -> Pod:
    edited = Subject(pod, pod).edited(change)
    return pod if edited is None else edited.pod


def _named(status: Status, judgement: Judgement) -> Status:
    """With the plugin that named other nodes, where that is why a node was not looked at."""
    return status if status.plugin or not judgement.naming else status.by(judgement.naming[0])


def _is_named_elsewhere(refusal: Refusal) -> bool:
    """Whether nodes were not looked at, because the pod is made for others: those matter more."""
    return any(reason.startswith("node(s) didn't satisfy plugin(s)") for reason in refusal.reasons)


def _refusal(status: Status, detail: str, group: Sequence[NodeInfo]) -> Refusal:
    return Refusal(
        plugin=status.plugin,
        code=str(status.code),
        reasons=list(status.reasons),
        detail=detail,
        count=len(group),
        nodes=sorted((info.name for info in group), key=natural),
    )


def _others(judgement: Judgement, row: int, plugin: str) -> list[str]:
    return [
        slot.name
        for slot in judgement.filters
        if slot.name != plugin and slot.asks and slot.status.is_success and not slot.ok[row]
    ]


def _why_there(name: str, ranked: Sequence[NodeScore]) -> str:
    if not ranked or ranked[0].node != name:
        return f"the pod runs on node {name}"
    if len(ranked) == 1:
        return f"the pod runs on node {name}, the only one that would do"
    own, rival = ranked[0], ranked[1]
    if own.total == rival.total:
        return f"the pod runs on node {name}, which is as good as {rival.node} ({own.total} points each)"
    apart = {key: own.scores.get(key, 0) - rival.scores.get(key, 0) for key in own.scores}
    if own.total > rival.total:
        best = max(apart, key=lambda key: apart[key])
        return (
            f"the pod runs on node {name} with {own.total} points, {own.total - rival.total} more than {rival.node},"
            f" most of them for {best} ({apart[best]:+d})"
        )
    worst = min(apart, key=lambda key: apart[key])
    return (
        f"the pod runs on node {name}; today {rival.node} would be better by {rival.total - own.total} points,"
        f" most of them for {worst} ({-apart[worst]:+d})"
    )
