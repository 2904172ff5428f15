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


class Scheduling:
    """The `Driver` of attempts in a simulated world."""

    def __init__(self, world: World, tell: Callable[[], None]) -> None:
        self._world = world
        self._engine = world.engine
        self._tell = tell
        self._attempts = Attempts(world.engine, world.queue, self, self._post_filter)
        self._in_vain: dict[Hashable, _InVain] = {}
        self.allow_preemption = True

    def run(self) -> None:
        """Try every pod whose turn it is."""
        queue, record = self._world.queue, self._world.record
        while (queued := queue.pop()) is not None:
            self._attempts.schedule(queued, queued.pod, 0.0)
            record.attempts += 1
            if not record.attempts % _TELL_EVERY:
                self._tell()

    # -- what attempts lead to

    def judged(self, queued: QueuedPod, outcome: Outcome, seconds: float) -> None:
        """Nobody counts here."""

    def ran(self, point: str, status: Status, profile: str, seconds: float, plugin: str = "") -> None:
        """Nobody counts here."""

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
