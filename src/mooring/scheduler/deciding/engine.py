"""The engine: a cluster in columns and profiles of plugins. Says where a pod should go and does nothing about it.

Synchronous, without I/O, and deterministic for a seed: the scheduler's cycle, `mooring simulate`, `mooring explain` and
replays of recorded cases all use it as it is.

    engine = Engine()
    engine.put(node); engine.put(pod_that_runs)
    outcome = engine.schedule(pod)
    if outcome.node: engine.assume(pod, outcome.node)
    else: print(outcome.message)

Read next: ``evaluation.py`` for how a pod is judged, ``columns/cluster.py`` for what is known, ``preemption.py`` for
what happens when nothing fits.
"""

import random
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import Resource
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.shapes import PodInfo, PodShape
from mooring.scheduler.deciding.diagnosis import Diagnosis, ShapeDiagnosis, diagnose
from mooring.scheduler.deciding.evaluation import Evaluation
from mooring.scheduler.deciding.judgement import Judgement
from mooring.scheduler.deciding.plan import Plan
from mooring.scheduler.deciding.profiles import DEFAULT_SCHEDULER, Profile, ProfileSpec, build
from mooring.scheduler.deciding.refusals import Refusals
from mooring.scheduler.framework import (
    ChoosePlugin,
    Code,
    CycleState,
    Handle,
    Part,
    PostFilterResult,
    Registry,
    SchedulerFeatures,
    SignPlugin,
    Status,
    unschedulable,
)
from mooring.scheduler.framework.nominations import Nominations
from mooring.scheduler.plugins import IN_TREE

if TYPE_CHECKING:  # handed on to plugins; simulations have none
    from mooring.scheduler.framework.waiting import WaitingPods

NOTHING_DONE = PostFilterResult(unschedulable())
NO_NODES = "no nodes available to schedule pods"
"""What a pod is told in a cluster without any."""
_CACHE_BYTES = 256 * 1024 * 1024
_BYTES_PER_ROW = 200
"""What an evaluation keeps, roughly: a dozen arrays, and masks."""


class UnknownSchedulerError(LookupError):
    """A pod asks for a scheduler that has no profile here."""


class EvaluationCount(NamedTuple):
    """How often a plugin was asked at an extension point, by its answer: as kube-scheduler counts for its metrics."""

    plugin: str
    point: str
    code: Code
    number: int


class Outcome(msgspec.Struct):
    """Where a pod should go, or why it cannot go anywhere."""

    pod: Pod
    profile: Profile
    node: str | None
    cycle: CycleState
    """For the extension points that follow."""
    feasible: int
    """How many nodes would do."""
    considered: int
    """How many nodes were looked at."""
    diagnosis: Diagnosis | None
    """When no node will do."""
    error: Status | None
    """When something went wrong instead."""
    judgement: Judgement

    @property
    def message(self) -> str:
        """For the event and the condition of a pod that fits nowhere."""
        if self.error is not None:
            return self.error.message
        return self.diagnosis.message() if self.diagnosis is not None else ""

    @property
    def likeness(self) -> tuple[object, ...]:
        """Equal for outcomes with the same `evaluations`, as pods that look alike have them one after the other."""
        judged = self.judgement
        statuses = [slot.status for slot in judged.filters]
        return self.profile, self.feasible, judged.filters, statuses, judged.refusal, judged.asked, judged.scores

    def evaluations(self) -> Iterator[EvaluationCount]:
        """To be read before the cluster changes."""
        yield from self._preparations()
        for plugin, nodes, for_now, for_good in self.judgement.asked:
            for code, number in (
                (Code.SUCCESS, nodes - for_now - for_good),
                (Code.UNSCHEDULABLE, for_now),
                (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, for_good),
            ):
                if number:
                    yield EvaluationCount(plugin, "Filter", code, number)
        if self.feasible > 1:  # a single feasible node is taken without scoring
            for slot in self.judgement.scores:
                yield EvaluationCount(slot.name, "Score", Code.SUCCESS, self.feasible)

    def _preparations(self) -> Iterator[EvaluationCount]:
        for slot in self.judgement.filters:
            if slot.counts_pre_filter and not slot.status.is_skip:
                yield EvaluationCount(slot.name, "PreFilter", Code.SUCCESS, 1)
        refusal = self.judgement.refusal
        if refusal is not None and refusal.is_rejected and refusal.plugin:
            yield EvaluationCount(refusal.plugin, "PreFilter", refusal.code, 1)
        if self.feasible > 1:
            for entry in self.judgement.scores:
                if entry.counts_pre_score:
                    yield EvaluationCount(entry.name, "PreScore", Code.SUCCESS, 1)


class NodeExplanation(msgspec.Struct, frozen=True):
    """What the plugins say about one node: why not, or how good it is."""

    status: Status
    scores: Mapping[str, int]
    """By plugin, weighted."""
    total: int


class _Kept(msgspec.Struct):
    """What is kept for a shape: verdicts and points, and why the last pod fitted nowhere."""

    evaluation: Evaluation
    diagnosis: ShapeDiagnosis


class Engine:
    def __init__(
        self,
        profiles: Sequence[ProfileSpec] = (ProfileSpec(),),
        *,
        features: SchedulerFeatures | None = None,
        registry: Registry | None = None,
        client: Any = None,
        waiting: "WaitingPods | None" = None,
        seed: int = 0,
        workload: Iterable[Pod] = (),
        timed: Callable[[Any], Any] | None = None,
    ) -> None:
        """`timed` makes stand-ins of the plugins that filter and score, for those who want to know what they take."""
        features = features or SchedulerFeatures()
        self.cluster = Cluster(features.constraints, pod_level_resources=features.pod_level_resources)
        self.nominations = Nominations(self.cluster)
        self._random = random.Random(seed)  # noqa: S311 - chooses among equals, keeps no secret
        handle = Handle(self.cluster, features, client, self.nominations, self._random, waiting, workload)
        self.profiles: dict[str, Profile] = {
            spec.scheduler_name: build(spec, IN_TREE if registry is None else registry, handle) for spec in profiles
        }
        self.cluster.shapes.signers = {
            (profile.name, plugin.name): plugin.sign
            for profile in self.profiles.values()
            for plugin in profile.plugins
            if isinstance(plugin, SignPlugin)
        }
        self._plans = {name: Plan(profile, timed or _itself) for name, profile in self.profiles.items()}
        self.cluster.shapes.read = Part(0)
        for plan in self._plans.values():
            self.cluster.shapes.read |= plan.read
        self._kept: OrderedDict[tuple[str, PodShape], _Kept] = OrderedDict()

    # -- what is known

    def put(self, thing: Resource) -> None:
        """Add or replace any object. Pods that have no node yet are nobody's business here."""
        self.cluster.put(thing)
        if isinstance(thing, Pod) and thing.spec.node_name:
            self.nominations.remove(thing)  # it has its room now

    def remove(self, thing: Resource) -> None:
        self.cluster.remove(thing)
        if isinstance(thing, Pod):
            self.nominations.remove(thing)

    def assume(self, pod: Pod, node_name: str) -> None:
        """Reckon with a pod on a node from now on, before anybody has confirmed it."""
        self.cluster.put_pod(pod, node_name)
        self.nominations.remove(pod)

    def forget(self, pod: Pod) -> None:
        """Take back `assume`."""
        self.cluster.remove_pod(pod)

    # -- questions

    def profile_of(self, pod: Pod) -> Profile:
        name = pod.spec.scheduler_name or DEFAULT_SCHEDULER
        profile = self.profiles.get(name)
        if profile is None:
            raise UnknownSchedulerError(f"there is no profile for the scheduler {name}")
        return profile

    def schedule(self, pod: Pod) -> Outcome:
        """Where a pod should go as things are: where it was promised room, or the best node, by lot among equals."""
        profile = self.profile_of(pod)
        judgement = self._judge_where_nominated(profile, pod) or self._judge(profile, pod)
        considered = judgement.asked[0][1] if judgement.asked else 0
        refusal = judgement.refusal
        if refusal is not None and not refusal.is_rejected:
            return Outcome(pod, profile, None, judgement.cycle, 0, considered, None, refusal, judgement)
        if not judgement.number_feasible:
            diagnosis = self._diagnosis(profile, judgement)
            return Outcome(pod, profile, None, judgement.cycle, 0, considered, diagnosis, None, judgement)
        node = self.cluster.nodes[self._best(judgement, profile.choose)]
        name = node.name if node is not None else None
        number = judgement.number_feasible
        return Outcome(pod, profile, name, judgement.cycle, number, considered, None, None, judgement)

    def explain(self, pod: Pod) -> dict[str, NodeExplanation]:
        """What every node's verdict is, and what the points of the feasible ones are made of."""
        judgement = self._judge(self.profile_of(pod), pod, needs_points=True)
        statuses = diagnose(judgement, self.cluster).statuses()
        found: dict[str, NodeExplanation] = {}
        for info in self.cluster.node_infos():
            status = statuses.get(info.name)
            if status is not None:
                found[info.name] = NodeExplanation(status, {}, 0)
            else:
                scores = {slot.name: int(slot.points[info.row]) for slot in judgement.scores}
                found[info.name] = NodeExplanation(Status(), scores, sum(scores.values()))
        return found

    def post_filter(self, outcome: Outcome) -> PostFilterResult:
        """What the first plugin does that can do something for a pod that fits nowhere, or what all of them say.

        To be asked before the cluster changes.
        """
        found, said, name = NOTHING_DONE, list[str](), ""
        if outcome.diagnosis is None:
            return found
        refusals = Refusals(outcome.judgement, outcome.diagnosis)
        for plugin in outcome.profile.post_filter:
            found, name = plugin.post_filter(outcome.judgement.pod, refusals), str(getattr(plugin, "name", ""))
            said += found.status.reasons
            if found.nominated is not None:
                break
        status = Status(found.status.code, tuple(said), name)
        return PostFilterResult(status, found.nominated, found.victims, found.keeps_nomination, found.in_background)

    # -- how

    def _judge(self, profile: Profile, pod: Pod, *, needs_points: bool = False) -> Judgement:
        info = self.cluster.info(pod)
        evaluation = self._evaluation(profile, info)
        return evaluation.judge(info, self.nominations.expected(pod), needs_points=needs_points)

    def _judge_where_nominated(self, profile: Profile, pod: Pod) -> Judgement | None:
        """A judgement on the node that was promised to the pod; None if there is none, or it will not do."""
        name = self.nominations.node_of(pod)
        row = self.cluster.row_of.get(name) if name else None
        if name is None or row is None:
            return None
        info = self.cluster.info(pod)
        judgement = self._evaluation(profile, info).judge_on(info, row, self.nominations.expected_on(name, pod))
        return judgement if judgement.number_feasible else None

    def _evaluation(self, profile: Profile, pod: PodInfo) -> Evaluation:
        key = (profile.name, pod.shape)
        found = self._kept.get(key)
        if found is None:
            found = _Kept(Evaluation(self._plans[profile.name], pod, self.cluster), ShapeDiagnosis(self.cluster))
            if not found.evaluation.is_worth_keeping:
                return found.evaluation
            self._kept[key] = found
            limit = max(_CACHE_BYTES // (_BYTES_PER_ROW * self.cluster.capacity), 8)
            while len(self._kept) > limit:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return found.evaluation

    def _diagnosis(self, profile: Profile, judgement: Judgement) -> Diagnosis:
        """The same as for the last pod of the shape, if nothing has changed since: pods wait in crowds."""
        if not judgement.is_alike or judgement.naming or judgement.refusal is not None:
            return diagnose(judgement, self.cluster)
        kept = self._kept[profile.name, judgement.pod.shape]
        return kept.diagnosis.of(judgement, kept.evaluation.changed_at)

    def _best(self, judgement: Judgement, chooser: ChoosePlugin | None) -> int:
        if judgement.number_feasible == 1 or judgement.best is None:
            return int(judgement.feasible.argmax())
        if chooser is None:
            return judgement.best.pick(self._random)
        rows = judgement.best.rows()
        return int(rows[0]) if len(rows) == 1 else chooser.choose(judgement.pod.pod, rows)


def _itself(plugin: Any) -> Any:
    return plugin


def fit_message(outcome: Outcome, after: PostFilterResult = NOTHING_DONE) -> str:
    """`0/5 nodes are available: …` and, when it was tried, what preemption found."""
    if outcome.diagnosis is None:
        return outcome.message
    return outcome.diagnosis.message(after.status.message)
