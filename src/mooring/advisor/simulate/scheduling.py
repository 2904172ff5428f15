"""Schedule pods without a server, one by one, until no pod is left to try.

The steps are those of ``scheduler/deciding/attempt.py``; this is another driver like ``scheduler/running/cycle.py``. A
placed pod runs at once, and a preempted one is deleted at once.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from mooring.advisor.simulate.world import World
from mooring.api.core_v1 import Pod
from mooring.scheduler.facade import NOTHING_DONE, AssumedPod, Attempts, Driver, Outcome, QueuedPod, pod_key
from mooring.scheduler.framework import PostFilterResult

_REPORT_EVERY = 256


@dataclass(frozen=True, slots=True)
class _FailedPreemption:
    """A cached result of a preemption that found no node, which identical pods reuse while `state` is unchanged."""

    refusal: str
    state: tuple[object, ...]
    found: PostFilterResult


@dataclass(frozen=True, slots=True)
class _FailedAttempt:
    """A cached result of a failed scheduling attempt, which identical pods reuse while `state` is unchanged."""

    state: tuple[object, ...]
    message: str
    refused_by: frozenset[str]
    waits_for: frozenset[str]


class Scheduling(Driver):
    """The scheduler of the simulated cluster; it records no metrics and writes no status."""

    def __init__(self, world: World, report: Callable[[], None]) -> None:
        self._world = world
        self._engine = world.engine
        self._report = report
        self._attempts = Attempts(world.engine, world.queue, self, self._post_filter)
        self._failed_preemptions: dict[Hashable, _FailedPreemption] = {}
        self._refused: dict[Hashable, _FailedAttempt] = {}
        self._outcome: Outcome | None = None
        """The outcome of the current attempt."""
        self.allow_preemption = True

    def run(self) -> None:
        """Make a scheduling attempt for each pod in the active queue, until the queue is empty."""
        queue, record, lines = self._world.queue, self._world.record, self._world.lines
        while (queued := queue.pop()) is not None:
            before = record.attempts
            record.attempts += 1
            queued_at, refusals = queued.queued_at, queued.refusals
            if self._fails_like_identical_pods(queued):
                record.attempts += lines.record_rejection(queued, self._world.pods[queued.key].message)
            else:
                lines.advance_group(queued, queued_at, refusals)
            if record.attempts // _REPORT_EVERY != before // _REPORT_EVERY:
                self._report()

    def run_with_controllers(self) -> None:
        """Run due taint evictions, then schedule all queued pods, and again after each step of rolling updates."""
        self._world.taints.run()
        self.run()
        while self._world.workloads.advance_rollouts():
            self.run()

    def _fails_like_identical_pods(self, queued: QueuedPod) -> bool:
        """Schedule a pod, or reuse an identical pod's failure; return whether identical pods would fail now."""
        spec = queued.pod.spec
        state = (self._world.revision, queued.profile, spec.priority, spec.preemption_policy, self.allow_preemption)
        known = self._refused.get(queued.template_key)
        if known is not None and known.state == state and not len(self._engine.nominations):
            self._world.pods[queued.key].message = known.message
            self._world.queue.requeue(queued, known.refused_by, known.waits_for)
            return True
        self._outcome = None
        self._attempts.schedule(queued, queued.pod, 0.0)
        if self._world.revision != state[0] or not self._is_interchangeable(queued):
            return False
        message = self._world.pods[queued.key].message
        self._refused[queued.template_key] = _FailedAttempt(state, message, queued.refused_by, queued.waits_for)
        return True

    def _is_interchangeable(self, queued: QueuedPod) -> bool:
        outcome = self._outcome
        if outcome is None or outcome.diagnosis is None or outcome.evaluation.naming or queued.gated_by:
            return False
        return outcome.evaluation.is_shared and not has_claims(outcome.pod) and not len(self._engine.nominations)

    def record_evaluation(self, _queued: QueuedPod, outcome: Outcome, _seconds: float) -> None:
        self._outcome = outcome

    def assume(self, assumed: AssumedPod) -> None:
        self._engine.assume(assumed.pod, assumed.node)

    def forget(self, assumed: AssumedPod) -> bool:
        self._engine.forget(assumed.pod)
        return True

    def bind_pod(self, assumed: AssumedPod, _timeouts: Mapping[str, float]) -> None:
        """Place a pod on its node; with a Permit delay, once that is over."""
        self._world.queue.forget_in_flight(assumed.key)
        if assumed.cycle.pre_filter:
            self._world.claims.commit_reservations(assumed)
        self._world.place(self._world.pods[assumed.key], assumed.node)

    def displace(self, pod: Pod, found: PostFilterResult) -> None:
        by = self._world.pods[pod_key(pod)]
        for victim in found.victims:
            displaced = self._world.pods.get(pod_key(victim))
            if displaced is not None:
                self._world.record.record_preempted(displaced, by.name)
                self._world.delete(displaced, recreate=True)

    def handle_rejection(self, queued: QueuedPod, message: str, _nominated: str | None, _begun: float) -> None:
        self._world.pods[queued.key].message = message

    def handle_error(self, queued: QueuedPod, message: str, _begun: float) -> None:
        self._world.pods[queued.key].message = message
        self._world.queue.requeue(queued, frozenset())

    def _post_filter(self, outcome: Outcome) -> PostFilterResult:
        if not self.allow_preemption:
            return PostFilterResult(NOTHING_DONE.status, keeps_nomination=True)
        template_key = self._engine.cluster.signatures.template_key(outcome.pod)
        is_like_others = not has_claims(outcome.pod)
        known = self._failed_preemptions.get(template_key) if is_like_others else None
        if known is not None and known.state == self._preemption_inputs(outcome) and known.refusal == outcome.message:
            return known.found
        self._world.budgets.sync()
        found = self._engine.post_filter(outcome)
        if found.nominated is None and is_like_others:
            self._failed_preemptions[template_key] = _FailedPreemption(
                outcome.message, self._preemption_inputs(outcome), found
            )
        return found

    def _preemption_inputs(self, outcome: Outcome) -> tuple[object, ...]:
        cluster, spec = self._engine.cluster, outcome.pod.spec
        return (
            cluster.row_changes.changed_at,
            cluster.rank_changes.changed_at,
            len(self._engine.nominations),
            spec.priority,
            spec.preemption_policy,
            outcome.profile.name,
        )


def has_claims(pod: Pod) -> bool:
    """Return whether a pod has volumes or device claims: identical pods with claims may have different results."""
    own = (volume.persistent_volume_claim or volume.ephemeral for volume in pod.spec.volumes)
    return bool(pod.spec.resource_claims) or any(claim is not None for claim in own)
