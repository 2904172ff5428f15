"""The scheduling engine: a cluster in columns, and the profiles. It finds a node for a pod and writes nothing.

It is synchronous, does no I/O, and is deterministic for a seed: the live scheduler, `mooring simulate`, `mooring
explain` and replays of recorded cases share it.

    engine = Engine()
    engine.put(node); engine.put(running_pod)
    outcome = engine.schedule(pod)
    if outcome.node: engine.assume(pod, outcome.node)
    else:            print(outcome.message)

Read next: ``evaluation.py`` for filtering and scoring, ``columns/cluster.py`` for the cluster's state,
``preemption.py`` for pods that no node can take.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import Resource
from mooring.scheduler import framework as fwk
from mooring.scheduler.columns.cluster import Cluster
from mooring.scheduler.columns.signatures import PodSignature
from mooring.scheduler.deciding.diagnosis import Diagnosis, Rejection, diagnose
from mooring.scheduler.deciding.evaluation import Evaluator
from mooring.scheduler.deciding.pod_evaluation import PodEvaluation
from mooring.scheduler.deciding.vectors import Plan
from mooring.scheduler.framework.nominations import Nominations
from mooring.scheduler.framework.profiles import DEFAULT_SCHEDULER, Profile, ProfileSpec, build_profile
from mooring.scheduler.framework.status import first_rejection
from mooring.scheduler.plugins import IN_TREE

if TYPE_CHECKING:  # handed on to plugins; simulations have none
    from mooring.scheduler.framework.waiting import WaitingPods

NOTHING_DONE = fwk.PostFilterResult(fwk.unschedulable())
NO_NODES = "no nodes available to schedule pods"
"""The FailedScheduling message in a cluster without nodes."""
EvaluationCount: TypeAlias = tuple[str, str, fwk.Code, int]
"""A plugin, an extension point, a code, and how many times the plugin returned it there."""


class UnknownSchedulerError(LookupError):
    """A pod's `spec.schedulerName` matches no profile."""


class Outcome(msgspec.Struct):
    """The result of scheduling a pod: the chosen node, or why no node can take it."""

    pod: Pod
    profile: Profile
    node: str | None
    cycle: fwk.CycleState
    """The cycle state of the attempt, which Reserve, Permit and Bind plugins read."""
    feasible: int
    """The number of feasible nodes."""
    considered: int
    """The number of evaluated nodes."""
    diagnosis: Diagnosis | None
    """Why no node can take the pod; None if a node is feasible."""
    error: fwk.Status | None
    """The error of a plugin that failed; None otherwise."""
    evaluation: PodEvaluation

    @property
    def message(self) -> str:
        """Return the text of the FailedScheduling event and of the PodScheduled condition."""
        if self.error is not None:
            return self.error.message
        return self.diagnosis.message() if self.diagnosis is not None else ""

    def evaluations(self) -> Iterator[EvaluationCount]:
        """Yield the evaluation counts for metrics; valid until the cluster changes."""
        evaluated, refusal, success = self.evaluation, self.evaluation.refusal, fwk.Code.SUCCESS
        left, rejected = evaluated.number_considered, evaluated.rejected
        for vector in evaluated.filters:
            plugin = vector.use
            if vector.status.is_skip:
                continue
            if plugin.has_pre_point:
                yield plugin.name, "PreFilter", success, 1
            for_now, for_good = rejected.get(plugin.name, (0, 0))
            left -= for_now + for_good
            if left:
                yield plugin.name, "Filter", success, left
            if for_now:
                yield plugin.name, "Filter", fwk.Code.UNSCHEDULABLE, for_now
            if for_good:
                yield plugin.name, "Filter", fwk.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, for_good
        if refusal is not None and refusal.is_rejected and refusal.plugin:
            yield refusal.plugin, "PreFilter", refusal.code, 1
        for scored in evaluated.scores if self.feasible > 1 else ():  # a single feasible node is taken without scoring
            if scored.use.has_pre_point:
                yield scored.name, "PreScore", success, 1
            yield scored.name, "Score", success, self.feasible


class NodeExplanation(msgspec.Struct, frozen=True):
    """The status of one node for a pod, and the scores that plugins gave the node."""

    status: fwk.Status
    scores: Mapping[str, int]
    """The weighted score of each Score plugin, by plugin name."""
    total: int


class Engine:
    def __init__(
        self,
        profiles: Sequence[ProfileSpec] = (ProfileSpec(),),
        *,
        features: fwk.SchedulerFeatures | None = None,
        registry: fwk.Registry | None = None,
        client: Any = None,
        waiting: "WaitingPods | None" = None,
        seed: int = 0,
        workload: Iterable[Pod] = (),
        timed: Callable[[Any], Any] | None = None,
    ) -> None:
        """Build the profiles. `timed` wraps Filter and Score plugins to measure how long they take."""
        features = features or fwk.SchedulerFeatures()
        self.cluster = Cluster(features.constraints, pod_level_resources=features.pod_level_resources)
        self.nominations = Nominations(self.cluster)
        self._random = random.Random(seed)  # noqa: S311 - chooses among equals, keeps no secret
        handle = fwk.Handle(self.cluster, features, client, self.nominations, self._random, waiting, workload)
        self.profiles: dict[str, Profile] = {
            spec.scheduler_name: build_profile(spec, IN_TREE if registry is None else registry, handle)
            for spec in profiles
        }
        self.cluster.signatures.signers = {
            (profile.name, plugin.name): plugin.sign
            for profile in self.profiles.values()
            for plugin in profile.plugins
            if isinstance(plugin, fwk.SignPlugin)
        }
        signers = self.cluster.signatures.signers
        self.cluster.signatures.read = fwk.Part(0)
        self._evaluators: dict[str, Evaluator] = {}
        for name, profile in self.profiles.items():
            plan = Plan(profile, self.cluster, timed or (lambda plugin: plugin), signers)
            self.cluster.signatures.read |= plan.read
            self._evaluators[name] = Evaluator(plan, self.cluster)

    # -- the cluster

    def put(self, thing: Resource) -> None:
        """Add or replace an object of any kind. Pods without a node are ignored."""
        self.cluster.put(thing)
        if isinstance(thing, Pod) and thing.spec.node_name:
            self.nominations.remove(thing)  # it has its room now

    def remove(self, thing: Resource) -> None:
        if not isinstance(thing, Pod):
            self.cluster.remove(thing)
            return
        placed = self.cluster.placed(thing)
        self.cluster.remove(thing)
        self.nominations.remove(thing)
        self._evict_unused(placed.signature if placed is not None else self.cluster.signatures.signature_of(thing))

    def release(self, pod: Pod) -> None:
        """Evict the cached results for the signature of a pending pod, unless placed pods have it."""
        self._evict_unused(self.cluster.signatures.signature_of(pod))

    def _evict_unused(self, signature: PodSignature) -> None:
        if not signature.pods:
            for evaluator in self._evaluators.values():
                evaluator.forget(signature)

    def assume(self, pod: Pod, node_name: str) -> None:
        """Place a pod on a node before the API server has confirmed it."""
        self.cluster.put_pod(pod, node_name)
        self.nominations.remove(pod)

    def forget(self, pod: Pod) -> None:
        """Undo `assume`: remove the pod from its node."""
        self.cluster.remove_pod(pod)

    # -- scheduling

    def profile_of(self, pod: Pod) -> Profile:
        name = pod.spec.scheduler_name or DEFAULT_SCHEDULER
        profile = self.profiles.get(name)
        if profile is None:
            raise UnknownSchedulerError(f"there is no profile for the scheduler {name}")
        return profile

    def schedule(self, pod: Pod, *, until: float = inf) -> Outcome:
        """Find a node for a pod: its nominated node if feasible, else the best one, at random among equal scores.

        If node selectors and tolerations are still being evaluated at `until` (by `perf_counter`), raise
        UnfinishedError: the results are kept, and the next call with this pod goes on from there.
        """
        profile = self.profile_of(pod)
        self.cluster.deadline.until = until
        try:
            evaluation = self._evaluate_nominated_node(profile, pod) or self._evaluate(profile, pod)
        finally:
            self.cluster.deadline.until = inf
        refusal = evaluation.refusal
        number = evaluation.number_feasible
        outcome = Outcome(
            pod, profile, None, evaluation.cycle, number, evaluation.number_considered, None, None, evaluation
        )
        if refusal is not None and not refusal.is_rejected:
            outcome.error, outcome.feasible = refusal, 0
        elif not number:
            outcome.diagnosis = diagnose(evaluation, self.cluster)
        else:
            outcome.node = self.cluster.node_at(self._choose_row(evaluation, profile.choose)).name
        return outcome

    def evaluate_pod(self, pod: Pod, *, needs_points: bool = False) -> tuple[PodEvaluation, Diagnosis]:
        """Evaluate all nodes for a pod; return the plugins' results, and the verdict on each node."""
        evaluation = self._evaluate(self.profile_of(pod), pod, needs_points=needs_points)
        return evaluation, diagnose(evaluation, self.cluster)

    def explain(self, pod: Pod) -> dict[str, NodeExplanation]:
        """Return the status of every node, and the scores of feasible nodes by plugin."""
        evaluation, diagnosis = self.evaluate_pod(pod, needs_points=True)
        statuses = diagnosis.statuses()
        found: dict[str, NodeExplanation] = {}
        for info in self.cluster.node_infos():
            status = statuses.get(info.name)
            if status is not None:
                found[info.name] = NodeExplanation(status, {}, 0)
            else:
                scores = {name: int(points[info.row]) for name, points in evaluation.points.items()}
                found[info.name] = NodeExplanation(fwk.Status(), scores, sum(scores.values()))
        return found

    def post_filter(self, outcome: Outcome) -> fwk.PostFilterResult:
        """Run PostFilter plugins until one nominates a node; return the result. Call it before the cluster changes."""
        found, said, name = NOTHING_DONE, list[str](), ""
        if outcome.diagnosis is None:
            return found
        refusals = Rejection(outcome.evaluation, outcome.diagnosis)
        for plugin in outcome.profile.post_filter:
            found, name = plugin.post_filter(outcome.evaluation.pod, refusals), str(getattr(plugin, "name", ""))
            said += found.status.reasons
            if found.nominated is not None:
                break
        status = fwk.Status(found.status.code, tuple(said), name)
        return fwk.PostFilterResult(status, found.nominated, found.victims, found.keeps_nomination, found.in_background)

    # -- how

    def _evaluate(self, profile: Profile, pod: Pod, *, needs_points: bool = False) -> PodEvaluation:
        info = self.cluster.info(pod)
        return self._evaluators[profile.name].evaluate(
            info, self.nominations.find_nominated(pod), needs_points=needs_points
        )

    def _evaluate_nominated_node(self, profile: Profile, pod: Pod) -> PodEvaluation | None:
        name = self.nominations.node_of(pod)
        row = self.cluster.row_of.get(name) if name else None
        if name is None or row is None:
            return None
        info = self.cluster.info(pod)
        evaluation = self._evaluators[profile.name].evaluate_on(
            info, row, self.nominations.find_nominated_on(name, pod)
        )
        return evaluation if evaluation.number_feasible else None

    def _choose_row(self, evaluation: PodEvaluation, chooser: fwk.ChoosePlugin | None) -> int:
        if evaluation.number_feasible == 1 or evaluation.best is None:
            return int(evaluation.feasible.argmax())
        if chooser is None:
            return evaluation.best.pick(self._random)
        rows = evaluation.best.rows()
        return int(rows[0]) if len(rows) == 1 else chooser.choose(evaluation.pod.pod, rows)


class ExplainEngine(Engine):
    """An engine that can also return every plugin's rejection of a node, for `mooring explain`."""

    def reseed(self, seed: int) -> None:
        """Reset the random generator that chooses among equal scores, so that repeated evaluations agree."""
        self._random.seed(seed)

    def pre_enqueue_status(self, pod: Pod) -> fwk.Status:
        """Return the status that the PreEnqueue plugins give a pod."""
        plugins = self.profile_of(pod).pre_enqueue
        return first_rejection(plugin.pre_enqueue(pod).by(getattr(plugin, "name", "")) for plugin in plugins)

    def find_rejections_on(self, pod: Pod, node: str) -> tuple[list[fwk.Status], bool]:
        """Return all rejections of a node in the profile's order, and whether the first one is for all nodes.

        A pod that PreEnqueue or PreFilter rejects has only that rejection, for all nodes.
        """
        early = self.pre_enqueue_status(pod)
        if not early.is_success:
            return [early], True
        row = self.cluster.row_of[node]
        evaluation = self._evaluators[self.profile_of(pod).name].evaluate_on(self.cluster.info(pod), row, ())
        if evaluation.refusal is not None:
            return [evaluation.refusal], True
        if not evaluation.considered[row]:
            reason = f"node(s) didn't satisfy plugin(s) [{' '.join(evaluation.naming)}]"
            return [fwk.unresolvable(reason).by(evaluation.naming[0])], False
        return [status for each in evaluation.filters if not (status := each.verdict(row)).is_success], False


def fit_message(outcome: Outcome, after: fwk.PostFilterResult = NOTHING_DONE) -> str:
    """Return `0/5 nodes are available: …`, followed by the message of preemption if it was tried."""
    if outcome.diagnosis is None:
        return outcome.message
    return outcome.diagnosis.message(after.status.message)
