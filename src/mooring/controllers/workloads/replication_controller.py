"""ReplicationControllers: the predecessor of ReplicaSets, reconciled in the same way (``replicas.py``)."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import structs

from mooring.api.core_v1 import ReplicationController, ReplicationControllerCondition, ReplicationControllerStatus
from mooring.api.meta_v1 import LabelSelector
from mooring.controllers.controller import Context
from mooring.controllers.workloads.replicas import Counts, Failure, Replicas, conditions


class ReplicationControllers(Replicas[ReplicationController]):
    """Reconcile ReplicationControllers."""

    name = "replicationcontroller"
    component = "replication-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context, ReplicationController)
        self.follow_pods()

    def selector_of(self, owner: ReplicationController) -> LabelSelector | None:
        return LabelSelector(match_labels=owner.spec.selector)

    def related(self, owner: ReplicationController) -> Sequence[ReplicationController]:
        return [owner]

    def with_status(
        self, owner: ReplicationController, counts: Counts, failure: Failure | None, now: datetime
    ) -> ReplicationController:
        status = ReplicationControllerStatus(
            replicas=counts.replicas,
            fully_labeled_replicas=counts.fully_labeled,
            ready_replicas=counts.ready,
            available_replicas=counts.available,
            observed_generation=owner.metadata.generation,
            conditions=conditions(ReplicationControllerCondition, owner.status.conditions, failure, now),
        )
        return structs.replace(owner, status=status)
