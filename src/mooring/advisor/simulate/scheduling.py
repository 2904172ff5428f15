"""How pods get nodes: the scheduler's cycle without a server, pod by pod, until nobody is left to try.

The steps are those of ``scheduler/cycle.py``: pop, schedule, assume, reserve, permit; or preempt, tell why, wait. A
pod that is placed runs at once, and one that is displaced is gone at once.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mooring.advisor.simulate.pods import SimulatedPod
from mooring.advisor.simulate.world import World
from mooring.api.core_v1 import Pod
from mooring.scheduler.columns.cluster import pod_key
from mooring.scheduler.columns.shapes import PodShape
from mooring.scheduler.engine import NO_NODES, Outcome
from mooring.scheduler.framework import SUCCESS, Code, Status
from mooring.scheduler.plugins.default_preemption import DefaultPreemption
from mooring.scheduler.preemption import NOT_TRIED, Preemption
from mooring.scheduler.queue import QueuedPod

_TELL_EVERY = 256
NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _InVain:
    """What was said to a pod for which displacing others was no help either."""

    refusal: str
    """What the nodes said."""
    state: tuple[object, ...]
    message: str


class Scheduling:
    def __init__(self, world: World, tell: Callable[[], None]) -> None:
        self._world = world
        self._engine = world.engine
        self._tell = tell
        self._in_vain: dict[PodShape, _InVain] = {}
        self.allow_preemption = True

    def run(self) -> None:
        """Try every pod whose turn it is."""
        queue, record = self._world.queue, self._world.record
        while (queued := queue.pop()) is not None:
            self._try(queued)
            record.attempts += 1
            if not record.attempts % _TELL_EVERY:
                self._tell()

    def _try(self, queued: QueuedPod) -> None:
        pod = self._world.pods[queued.key]
        outcome = self._engine.schedule(queued.pod)
        if outcome.error is not None:
            pod.message = outcome.error.message
            self._world.queue.requeue(queued, NOBODY)
        elif outcome.node is None:
            self._fits_nowhere(queued, pod, outcome)
        else:
            self._assume(queued, pod, outcome, outcome.node)

    # -- a node was found

    def _assume(self, queued: QueuedPod, pod: SimulatedPod, outcome: Outcome, node: str) -> None:
        status = self._reserve(outcome, pod.pod, node)
        if status.is_success:
            self._world.queue.done(queued.key)
            if outcome.cycle.pre_filter:
                self._world.claims.settle(outcome, pod.pod, node)
            self._world.place(pod, node)
            return
        for plugin in reversed(outcome.profile.reserve):
            plugin.unreserve(outcome.cycle, pod.pod, node)
        pod.message = status.message
        plugins = frozenset(filter(None, (status.plugin,)))
        self._world.queue.requeue(queued, plugins, plugins if status.code is Code.PENDING else NOBODY)

    def _reserve(self, outcome: Outcome, pod: Pod, node: str) -> Status:
        for reserving in outcome.profile.reserve:
            status = reserving.reserve(outcome.cycle, pod, node)
            if not status.is_success:
                return status.by(_name(reserving))
        for permitting in outcome.profile.permit:
            status, _ = permitting.permit(outcome.cycle, pod, node)
            if not status.is_success and status.code is not Code.WAIT:  # who waits is let go in the end
                return status.by(_name(permitting))
        return SUCCESS

    # -- no node was found

    def _fits_nowhere(self, queued: QueuedPod, pod: SimulatedPod, outcome: Outcome) -> None:
        diagnosis = outcome.diagnosis
        shape = queued.shape = self._engine.cluster.info(pod.pod).shape
        plugins, waits_for = NOBODY, NOBODY
        if diagnosis is not None:
            plugins = diagnosis.plugins()
            refusal = diagnosis.pre_filter
            if refusal is not None and refusal.code is Code.PENDING:
                waits_for = frozenset({refusal.plugin})
        if not len(self._engine.cluster):
            pod.message = NO_NODES
        else:
            pod.message = self._known_answer(shape, outcome) or self._preempt(shape, pod, outcome)
        self._world.queue.requeue(queued, plugins, waits_for)

    def _state(self, outcome: Outcome) -> tuple[object, ...]:
        """Equal as long as nothing has happened that preemption looks at."""
        cluster, spec = self._engine.cluster, outcome.pod.spec
        return (
            cluster.pod_changes.position,
            cluster.node_changes.position,
            len(self._engine.nominations),
            spec.priority,
            spec.preemption_policy,
            outcome.profile.name,
        )

    def _known_answer(self, shape: PodShape, outcome: Outcome) -> str:
        """What the last pod like this one was told, if nothing has changed since: pods wait in crowds."""
        found = self._in_vain.get(shape)
        if found is None or _has_claims(outcome.pod):
            return ""
        if found.state != self._state(outcome) or found.refusal != outcome.message:
            return ""
        return found.message

    def _preempt(self, shape: PodShape, pod: SimulatedPod, outcome: Outcome) -> str:
        """Displace others if that helps; the message for the pod."""
        diagnosis = outcome.diagnosis
        if diagnosis is None or not self.allow_preemption:
            return outcome.message
        self._world.budgets.sync()
        found, said = self._post_filter(outcome)
        message = diagnosis.after_post_filter(", ".join(said)).message() if said else outcome.message
        nominations = self._engine.nominations
        if found.node is None:
            if not found.keeps_nomination:
                nominations.remove(pod.pod)
            if not _has_claims(pod.pod):
                self._in_vain[shape] = _InVain(outcome.message, self._state(outcome), message)
            return message
        for other in nominations.on(found.node):
            if (other.spec.priority or 0) < (pod.pod.spec.priority or 0):
                nominations.remove(other)
        nominations.put(pod.pod, found.node)
        for victim in found.victims:
            displaced = self._world.pods.get(pod_key(victim))
            if displaced is not None:
                self._world.record.preempted(displaced, pod.name)
                self._world.delete(displaced, recreate=True)
        return message

    def _post_filter(self, outcome: Outcome) -> tuple[Preemption, list[str]]:
        """What the first plugin does that can do something for the pod, and what all of them say."""
        found, said = NOT_TRIED, []
        for plugin in outcome.profile.post_filter:
            if isinstance(plugin, DefaultPreemption):
                found = self._engine.preempt(outcome)
                said += [f"preemption: {found.message}"] if found.message else []
            else:
                statuses = outcome.diagnosis.statuses() if outcome.diagnosis is not None else {}
                result = plugin.post_filter(self._engine.cluster.info(outcome.pod), statuses)
                found = Preemption(result.nominated, result.victims, result.status.message)
                said += [found.message] if found.message else []
            if found.node is not None:
                break
        return found, said


def _has_claims(pod: Pod) -> bool:
    """Whether a pod has volumes or devices of its own, so that others of its shape need not fare like it."""
    own = (volume.persistent_volume_claim or volume.ephemeral for volume in pod.spec.volumes)
    return bool(pod.spec.resource_claims) or any(claim is not None for claim in own)


def _name(plugin: object) -> str:
    return str(getattr(plugin, "name", type(plugin).__name__))
