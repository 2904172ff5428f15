"""ReplicaSets, and their predecessor ReplicationControllers: keep the number of pods of a template.

Missing pods are created; of surplus pods the least useful are deleted. The status has counts of all, ready and
available pods; the condition ReplicaFailure reports failed creates and deletes.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from msgspec import Struct

from mooring.api import label_selector, states, times
from mooring.api.apps_v1 import ReplicaSet, ReplicaSetCondition, ReplicaSetStatus
from mooring.api.core_v1 import (
    Pod,
    PodTemplateSpec,
    ReplicationController,
    ReplicationControllerCondition,
    ReplicationControllerStatus,
)
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import LabelSelector
from mooring.api.states import controller_of
from mooring.client import ClientError
from mooring.controllers.conditions import build_condition, find_condition
from mooring.controllers.controller import Context
from mooring.controllers.workloads import pod_states
from mooring.controllers.workloads.ownership import Children
from mooring.controllers.workloads.pod_control import CreationResult, describe_rejection
from mooring.controllers.workloads.workload import LOOK_AGAIN_SECONDS, WorkloadController, find_shortest_wait

REPLICA_FAILURE = "ReplicaFailure"
_MOST_AT_A_TIME = 2500
"""The number of pods created before the status is written, so that users see progress."""
R = TypeVar("R", ReplicaSet, ReplicationController)
C = TypeVar("C", ReplicaSetCondition, ReplicationControllerCondition)


class PodWriteFailure(msgspec.Struct, frozen=True):
    """The reason and message of a failed create or delete of pods."""

    reason: str
    message: str


class ReplicasController(WorkloadController[R], Generic[R]):
    """The base of the controllers of ReplicaSets and ReplicationControllers."""

    status_type: ClassVar[type[Struct]]
    condition_type: ClassVar[type[Any]]

    def build_status(self, owner: R, counts: dict[str, int], failure: PodWriteFailure | None, now: datetime) -> Struct:
        """Return the workload's new status: counts without a field in it are left out, `failure` is a condition."""
        known = {name: counts[name] for name in counts if name in self.status_type.__struct_fields__}
        found = with_updated_failure_condition(self.condition_type, owner.status.conditions, failure, now)
        return self.status_type(**known, observed_generation=owner.metadata.generation, conditions=found)

    def related_workloads(self, owner: R) -> Sequence[R]:
        """Return the workloads, including `owner`, whose pods are counted by node to choose which pods to delete."""
        return [owner]

    def pod_template_of(self, owner: R) -> PodTemplateSpec:
        template: PodTemplateSpec | None = owner.spec.template
        return template if template is not None else PodTemplateSpec()

    async def sync(self, key: str, owner: R) -> float | None:
        selector = label_selector.from_label_selector(self.selector_of(owner))
        pods = await self.pods.claim(owner, selector, pod_states.is_active)
        active = [pod for pod in pods if pod_states.is_active(pod)]
        failure: PodWriteFailure | None = None
        outcome = CreationResult()
        wanted = owner.spec.replicas if owner.spec.replicas is not None else 1
        if owner.metadata.deletion_timestamp is not None:
            wanted = len(active)
        missing = wanted - len(active)
        if missing > 0:
            template = self.pod_template_of(owner)
            new = [self.pod_control.build_pod(owner, template)] * min(missing, _MOST_AT_A_TIME)  # identical
            outcome = await self.pod_control.create_pods(key, owner, template, new)
            if outcome.error is not None:
                failure = PodWriteFailure("FailedCreate", describe_rejection(outcome.error, owner))
            elif missing > _MOST_AT_A_TIME and outcome.wait is None:
                self.unfinished.add(key)
        elif len(active) > wanted:
            try:
                await self.pod_control.delete_pods(
                    key, owner, self._choose_surplus_pods(owner, active, len(active) - wanted)
                )
            except (StatusError, ClientError) as problem:
                outcome.error, failure = problem, PodWriteFailure("FailedDelete", str(problem))
        if failure is None and missing and key not in self.unfinished:
            # The status is computed from the cache, and updated when that has caught up.
            return outcome.wait or LOOK_AGAIN_SECONDS
        now = self.clock.now()
        counts = count_pods(pods, self.pod_template_of(owner), owner.spec.min_ready_seconds, now)
        if failure is None and counts["available_replicas"] < wanted and (wait := self.postpone_progress(key)) > 0:
            return wait
        await self.write_status(key, owner, self.build_status(owner, counts, failure, now))
        if outcome.error is not None and outcome.wait is None:
            raise outcome.error
        again = LOOK_AGAIN_SECONDS if key in self.unfinished else None
        return find_shortest_wait(
            outcome.wait, again, pod_states.seconds_to_next_availability(active, owner.spec.min_ready_seconds, now)
        )

    def _choose_surplus_pods(self, owner: R, active: Sequence[Pod], number: int) -> list[Pod]:
        if number >= len(active):
            return list(active)
        on_node = Counter(
            pod.spec.node_name for related in self.related_workloads(owner) for pod in self.pods.owned_by(related)
        )
        now = self.clock.now()
        ranked = sorted(active, key=lambda pod: pod_states.deletion_sort_key(pod, on_node[pod.spec.node_name], now))
        return ranked[:number]


def count_pods(pods: Sequence[Pod], template: PodTemplateSpec, min_ready_seconds: int, now: datetime) -> dict[str, int]:
    """Return the numbers of a workload's pods by state, under the field names of its status."""
    active = [pod for pod in pods if pod_states.is_active(pod)]
    labels = template.metadata.labels.items()
    checked: dict[str, str] | None = None
    is_labeled, fully_labeled = False, 0
    ready: list[Pod] = []
    for pod in active:
        if pod.metadata.labels is not checked:  # pods from the same template share theirs
            checked = pod.metadata.labels
            is_labeled = labels <= checked.items()
        fully_labeled += is_labeled
        if states.is_ready(pod):
            ready.append(pod)
    available = len(ready)
    if min_ready_seconds:
        available = sum(pod_states.is_available(pod, min_ready_seconds, now) for pod in ready)
    return {
        "replicas": len(active),
        "fully_labeled_replicas": fully_labeled,
        "ready_replicas": len(ready),
        "available_replicas": available,
        "terminating_replicas": sum(map(pod_states.is_terminating, pods)) if len(active) < len(pods) else 0,
    }


def with_updated_failure_condition(
    cls: type[C], old: Sequence[C], failure: PodWriteFailure | None, now: datetime
) -> list[C]:
    """Return the conditions with ReplicaFailure set to the failure, or removed without one."""
    others: list[C] = [each for each in old if each.type != REPLICA_FAILURE]
    if failure is None:
        return others
    before = find_condition(old, REPLICA_FAILURE)
    if before is not None and (before.reason, before.message) == (failure.reason, failure.message):
        return list(old)
    content = (REPLICA_FAILURE, "True", failure.reason, failure.message)
    others.append(build_condition(cls, (), content, times.to_seconds(now)))
    return others


class ReplicaSetController(ReplicasController[ReplicaSet]):
    """Keeps the number of pods of each ReplicaSet; chooses surplus pods with regard to all of its Deployment."""

    name = "replicaset"
    component = "replicaset-controller"
    status_type, condition_type = ReplicaSetStatus, ReplicaSetCondition

    def __init__(self, context: Context) -> None:
        super().__init__(context, ReplicaSet)
        self._siblings = Children(context.informers, ReplicaSet)
        self.follow_children(self.pods)

    def related_workloads(self, owner: ReplicaSet) -> Sequence[ReplicaSet]:
        """Return all ReplicaSets of the Deployment; `owner` alone without one."""
        parent = controller_of(owner.metadata)
        return [owner] if parent is None else self._siblings.owned_by_uid(parent.uid)


class ReplicationControllerController(ReplicasController[ReplicationController]):
    """Keeps the number of pods of each ReplicationController, whose selector is a map of labels."""

    name = "replicationcontroller"
    component = "replication-controller"
    status_type, condition_type = ReplicationControllerStatus, ReplicationControllerCondition

    def __init__(self, context: Context) -> None:
        super().__init__(context, ReplicationController)
        self.follow_children(self.pods)

    def selector_of(self, owner: ReplicationController) -> LabelSelector | None:
        return LabelSelector(match_labels=owner.spec.selector)
