"""ReplicationController: the predecessor of ReplicaSet."""

from typing import Annotated

from mooring.api.base import Int32, Int64, Object, StateCondition, always, atomic, list_map, required
from mooring.api.core_v1.pod import PodTemplateSpec
from mooring.api.meta_v1 import Resource


class ReplicationControllerSpec(Object):
    """The pods that a ReplicationController keeps."""

    replicas: Int32 | None = None
    """How many pods there should be."""
    min_ready_seconds: Int32 = 0
    """How long a pod must be ready to count as available."""
    selector: Annotated[dict[str, str], atomic()] = {}
    """Labels of the pods; those of the template when absent."""
    template: PodTemplateSpec | None = None


class ReplicationControllerCondition(StateCondition):
    """One aspect of a ReplicationController's state, such as ReplicaFailure."""


class ReplicationControllerStatus(Object):
    """The state of a ReplicationController."""

    replicas: Int32 = required(int)
    """How many pods there are."""
    fully_labeled_replicas: Int32 = 0
    """How many of them have all labels of the template."""
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    observed_generation: Int64 = 0
    conditions: Annotated[list[ReplicationControllerCondition], list_map("type")] = []


class ReplicationController(Resource):
    """Keeps a number of pods running. Use a Deployment instead."""

    spec: ReplicationControllerSpec = always(ReplicationControllerSpec)
    status: ReplicationControllerStatus = always(ReplicationControllerStatus)
