"""ReplicaSets: keep the number of pods of a template (``replicas.py``)."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import structs

from mooring.api.apps_v1 import ReplicaSet, ReplicaSetCondition, ReplicaSetStatus
from mooring.api.meta_v1 import LabelSelector
from mooring.api.states import controller_of
from mooring.controllers.controller import Context
from mooring.controllers.workloads.ownership import Children
from mooring.controllers.workloads.replicas import Counts, Failure, Replicas, conditions


class ReplicaSetController(Replicas[ReplicaSet]):
    """Reconcile ReplicaSets."""

    name = "replicaset"
    component = "replicaset-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context, ReplicaSet)
        self._siblings = Children(context.informers, ReplicaSet)
        self.follow_pods()

    def selector_of(self, owner: ReplicaSet) -> LabelSelector | None:
        return owner.spec.selector

    def related(self, owner: ReplicaSet) -> Sequence[ReplicaSet]:
        """Return the ReplicaSets of the same Deployment."""
        parent = controller_of(owner.metadata)
        return [owner] if parent is None else self._siblings.of_uid(parent.uid)

    def with_status(self, owner: ReplicaSet, counts: Counts, failure: Failure | None, now: datetime) -> ReplicaSet:
        status = ReplicaSetStatus(
            replicas=counts.replicas,
            fully_labeled_replicas=counts.fully_labeled,
            ready_replicas=counts.ready,
            available_replicas=counts.available,
            terminating_replicas=counts.terminating,
            observed_generation=owner.metadata.generation,
            conditions=conditions(ReplicaSetCondition, owner.status.conditions, failure, now),
        )
        return structs.replace(owner, status=status)
