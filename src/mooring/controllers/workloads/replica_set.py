"""ReplicaSets: as many pods of a template as asked for.

A pod that is missing is created, one too many deleted, beginning with those that are missed least. The status says how
many there are, ready and available; the condition ReplicaFailure says that pods could not be created or deleted.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from msgspec import structs

from mooring.api import label_selector, times
from mooring.api.apps_v1 import ReplicaSet, ReplicaSetCondition, ReplicaSetStatus
from mooring.api.core_v1 import Pod
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import LabelSelector
from mooring.client import ClientError
from mooring.controllers.controller import Context
from mooring.controllers.workloads import pod_states
from mooring.controllers.workloads.ownership import Children, controller_of
from mooring.controllers.workloads.pod_control import Creation, told
from mooring.controllers.workloads.workload import LOOK_AGAIN_SECONDS, Workload, soonest

REPLICA_FAILURE = "ReplicaFailure"


class ReplicaSetController(Workload[ReplicaSet]):
    """Keeps ReplicaSets at their size."""

    name = "replicaset"
    component = "replicaset-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context, ReplicaSet)
        self._siblings = Children(context.informers, ReplicaSet)
        self.follow_pods()

    def selector_of(self, owner: ReplicaSet) -> LabelSelector | None:
        return owner.spec.selector

    async def sync(self, key: str, owner: ReplicaSet) -> float | None:
        selector = label_selector.from_label_selector(owner.spec.selector)
        pods = await self.pods.claim(owner, selector, pod_states.is_active)
        active = [pod for pod in pods if pod_states.is_active(pod)]
        failure: ReplicaSetCondition | None = None
        outcome = Creation()
        wanted = owner.spec.replicas if owner.spec.replicas is not None else 1
        if owner.metadata.deletion_timestamp is not None:
            wanted = len(active)
        if len(active) < wanted:
            new = [self.pod_control.pod(owner, owner.spec.template) for _ in range(wanted - len(active))]
            outcome = await self.pod_control.create(key, owner, owner.spec.template, new)
            if outcome.error is not None:
                failure = _failure("FailedCreate", told(outcome.error, owner))
        elif len(active) > wanted:
            try:
                await self.pod_control.delete(key, owner, self._least_missed(owner, active, len(active) - wanted))
            except (StatusError, ClientError) as problem:
                outcome.error, failure = problem, _failure("FailedDelete", str(problem))
        if failure is None and len(active) != wanted:
            # The status counts what the cache shows: it follows when that has caught up.
            return outcome.wait or LOOK_AGAIN_SECONDS
        now = self.clock.now()
        await self._update_status(key, owner, new_status(owner, pods, failure, now))
        if outcome.error is not None and outcome.wait is None:
            raise outcome.error
        return soonest(outcome.wait, pod_states.next_availability(active, owner.spec.min_ready_seconds, now))

    def _least_missed(self, owner: ReplicaSet, active: Sequence[Pod], number: int) -> list[Pod]:
        """The pods to delete: see `pod_states.deletion_order`."""
        if number >= len(active):
            return list(active)
        on_node = Counter(pod.spec.node_name for related in self._related(owner) for pod in self.pods.of(related))
        now = self.clock.now()
        ranked = sorted(active, key=lambda pod: pod_states.deletion_order(pod, on_node[pod.spec.node_name], now))
        return ranked[:number]

    def _related(self, owner: ReplicaSet) -> list[ReplicaSet]:
        """The ReplicaSets of the same Deployment, this one among them."""
        parent = controller_of(owner.metadata)
        return [owner] if parent is None else self._siblings.of_uid(parent.uid)

    async def _update_status(self, key: str, owner: ReplicaSet, status: ReplicaSetStatus) -> None:
        if status != owner.status:
            written = await self.client.update_status(structs.replace(owner, status=status))
            self.expectations.wrote(key, self.owners, written)


def new_status(
    owner: ReplicaSet, pods: Sequence[Pod], failure: ReplicaSetCondition | None, now: datetime
) -> ReplicaSetStatus:
    """The status that these pods make; equal to the old one if nothing changed."""
    active = [pod for pod in pods if pod_states.is_active(pod)]
    labels = owner.spec.template.metadata.labels.items()
    seconds = owner.spec.min_ready_seconds
    return ReplicaSetStatus(
        replicas=len(active),
        fully_labeled_replicas=sum(labels <= pod.metadata.labels.items() for pod in active),
        ready_replicas=sum(pod_states.is_ready(pod) for pod in active),
        available_replicas=sum(pod_states.is_available(pod, seconds, now) for pod in active),
        terminating_replicas=sum(pod_states.is_terminating(pod) for pod in pods),
        observed_generation=owner.metadata.generation,
        conditions=_conditions(owner.status.conditions, failure, now),
    )


def _failure(reason: str, message: str) -> ReplicaSetCondition:
    return ReplicaSetCondition(type=REPLICA_FAILURE, status="True", reason=reason, message=message)


def _conditions(
    old: Sequence[ReplicaSetCondition], failure: ReplicaSetCondition | None, now: datetime
) -> list[ReplicaSetCondition]:
    others = [each for each in old if each.type != REPLICA_FAILURE]
    if failure is None:
        return others
    before = next((each for each in old if each.type == REPLICA_FAILURE), None)
    if before is not None and (before.reason, before.message) == (failure.reason, failure.message):
        return list(old)
    return [*others, structs.replace(failure, last_transition_time=times.to_seconds(now))]
