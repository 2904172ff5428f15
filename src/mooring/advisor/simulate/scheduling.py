"""How pods get nodes: the scheduler's attempts without a server, pod by pod, until nobody is left to try.

The steps are ``scheduler/deciding/attempt.py``, of which this is a driver as ``scheduler/running/cycle.py`` is. A pod
that is placed runs at once, and one that is displaced is gone at once.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from mooring.advisor.simulate.world import World
from mooring.api.core_v1 import Pod
from mooring.scheduler.facade import NOTHING_DONE, AssumedPod, Attempts, Outcome, QueuedPod, pod_key
from mooring.scheduler.framework import PostFilterResult, Status

_TELL_EVERY = 256


@dataclass(frozen=True, slots=True)
class _InVain:
    """What was said to a pod for which displacing others was no help either."""

    refusal: str
    """What the nodes said."""
    state: tuple[object, ...]
    found: PostFilterResult


@dataclass(frozen=True, slots=True)
class _Refused:
    """What an attempt came to that placed and promised nothing."""

    state: tuple[object, ...]
    message: str
    refused_by: frozenset[str]
    waits_for: frozenset[str]


class Scheduling:
    """The `Driver` of attempts in a simulated world."""

    def __init__(self, world: World, tell: Callable[[], None]) -> None:
        self._world = world
        self._engine = world.engine
        self._tell = tell
        self._attempts = Attempts(world.engine, world.queue, self, self._post_filter)
        self._in_vain: dict[Hashable, _InVain] = {}
        self._refused: dict[Hashable, _Refused] = {}
        self._outcome: Outcome | None = None
        """Of the attempt that is being made."""
        self.allow_preemption = True

    def run(self) -> None:
        """Try every pod whose turn it is."""
        queue, record, lines = self._world.queue, self._world.record, self._world.lines
        while (queued := queue.pop()) is not None:
            before = record.attempts
            record.attempts += 1
            queued_at, refusals = queued.queued_at, queued.refusals
            if self._is_in_vain(queued):
                record.attempts += lines.refused(queued, self._world.pods[queued.key].message)
            else:
                lines.turned(queued, queued_at, refusals)
            if record.attempts // _TELL_EVERY != before // _TELL_EVERY:
                self._tell()

    def _is_in_vain(self, queued: QueuedPod) -> bool:
        """Make an attempt; whether the pod is refused as all others of its likeness would be now.

        Pods wait in crowds: what one was just told is told to those like it without asking again.
        """
        spec = queued.pod.spec
        state = (self._world.revision, queued.profile, spec.priority, spec.preemption_policy, self.allow_preemption)
        known = self._refused.get(queued.likeness)
        if known is not None and known.state == state and not len(self._engine.nominations):
            self._world.pods[queued.key].message = known.message
            self._world.queue.requeue(queued, known.refused_by, known.waits_for)
            return True
        self._outcome = None
        self._attempts.schedule(queued, queued.pod, 0.0)
        if self._world.revision != state[0] or not self._is_like_others(queued):
            return False
        message = self._world.pods[queued.key].message
        self._refused[queued.likeness] = _Refused(state, message, queued.refused_by, queued.waits_for)
        return True

    def _is_like_others(self, queued: QueuedPod) -> bool:
        """Whether a pod was refused in the last attempt, as any of its likeness would have been."""
        outcome = self._outcome
        if outcome is None or outcome.diagnosis is None or outcome.judgement.naming or queued.gated_by:
            return False
        return outcome.judgement.is_shared and not has_claims(outcome.pod) and not len(self._engine.nominations)

    # -- what attempts lead to

    def judged(self, _queued: QueuedPod, outcome: Outcome, _seconds: float) -> None:
        self._outcome = outcome

    def ran(self, point: str, status: Status, profile: str, seconds: float) -> None:
        """Nobody counts here."""

    def plugin_ran(self, plugin: str, point: str, status: Status, seconds: float) -> None:
        """Nor here."""

    def assume(self, assumed: AssumedPod) -> None:
        self._engine.assume(assumed.pod, assumed.node)

    def forget(self, assumed: AssumedPod) -> bool:
        self._engine.forget(assumed.pod)
        return True

    def granted(self, assumed: AssumedPod, _timeouts: Mapping[str, float]) -> None:
        """Who has to wait is let go in the end."""
        self._world.queue.done(assumed.key)
        if assumed.cycle.pre_filter:
            self._world.claims.settle(assumed)
        self._world.place(self._world.pods[assumed.key], assumed.node)

    def displace(self, pod: Pod, found: PostFilterResult) -> None:
        by = self._world.pods[pod_key(pod)]
        for victim in found.victims:
            displaced = self._world.pods.get(pod_key(victim))
            if displaced is not None:
                self._world.record.preempted(displaced, by.name)
                self._world.delete(displaced, recreate=True)

    def not_nominated(self, pod: Pod) -> None:
        """Nobody is told here."""

    def refused(self, queued: QueuedPod, message: str, _nominated: str | None, _begun: float) -> None:
        self._world.pods[queued.key].message = message

    def failed(self, queued: QueuedPod, message: str, _begun: float) -> None:
        self._world.pods[queued.key].message = message
        self._world.queue.requeue(queued, frozenset())

    # -- displacing others

    def _post_filter(self, outcome: Outcome) -> PostFilterResult:
        """What displacing others comes to, from memory if a pod like this one was just told: pods wait in crowds."""
        if not self.allow_preemption:
            return PostFilterResult(NOTHING_DONE.status, keeps_nomination=True)
        likeness, is_like_others = self._engine.cluster.shapes.likeness(outcome.pod), not has_claims(outcome.pod)
        known = self._in_vain.get(likeness) if is_like_others else None
        if known is not None and known.state == self._state(outcome) and known.refusal == outcome.message:
            return known.found
        self._world.budgets.sync()
        found = self._engine.post_filter(outcome)
        if found.nominated is None and is_like_others:
            self._in_vain[likeness] = _InVain(outcome.message, self._state(outcome), found)
        return found

    def _state(self, outcome: Outcome) -> tuple[object, ...]:
        """Equal as long as nothing has happened that preemption looks at."""
        cluster, spec = self._engine.cluster, outcome.pod.spec
        return (
            cluster.pod_changes.changed_at,
            cluster.node_changes.changed_at,
            cluster.rank_changes.changed_at,
            len(self._engine.nominations),
            spec.priority,
            spec.preemption_policy,
            outcome.profile.name,
        )


def has_claims(pod: Pod) -> bool:
    """Whether a pod has volumes or devices of its own, so that others of its shape need not fare like it."""
    own = (volume.persistent_volume_claim or volume.ephemeral for volume in pod.spec.volumes)
    return bool(pod.spec.resource_claims) or any(claim is not None for claim in own)
